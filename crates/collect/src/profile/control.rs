//! What is sent to a program: a ring in its profile, which the program empties when it likes.
//!
//! Takes a request; emits its number in the ring. Refuses what does not fit, and what finds the ring full. Nothing that the
//! program has written there is taken on trust: at worst it gets none of what was sent.

use weigh_parse::profile::{SectionSpan, Words as _};
use weigh_schema::control::ControlRequest;
use weigh_schema::profile::{ControlKind, control, head};

use super::mapping::ProfileMapping;

/// Bytes of a key and a text: a zero is behind each.
const KEY_BYTES: usize = 8 * (control::TEXT - control::KEY);
const TEXT_BYTES: usize = 8 * (control::LENGTH - control::TEXT);

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlRefusal {
    /// The program has sealed its memory, or has made no room.
    #[error("the program has made no room for requests")]
    NoRoom,
    /// It has not taken what was sent before.
    #[error("the queue is full: the program has not taken {0} requests that were sent before")]
    Full(u64),
    /// A name, a key or a value.
    #[error(
        "a text is too long: names and keys have at most {KEY_BYTES} bytes, values {TEXT_BYTES}"
    )]
    TooLong,
    /// A text would end there.
    #[error("a text holds a zero byte")]
    HasZero,
}

/// Where requests to one program go.
#[derive(Default)]
pub(super) struct ControlRing {
    /// How many were sent. The program could change its own copy.
    sent: u64,
}

impl ControlRing {
    /// Sends one: its number, from 0.
    pub fn send(
        &mut self,
        profile: &ProfileMapping,
        ring: SectionSpan,
        request: &ControlRequest,
    ) -> Result<u64, ControlRefusal> {
        let record = record(request)?;
        if ring.records == 0 || !profile.is_writable() {
            return Err(ControlRefusal::NoRoom);
        }
        let number = self.sent;
        let waiting = number - self.taken(profile);
        if waiting >= ring.records as u64 {
            return Err(ControlRefusal::Full(waiting));
        }
        let at = ring.first + (number % ring.records as u64) as usize * control::LENGTH;
        profile.store(at + control::STAMP, 0);
        for (place, word) in record.iter().enumerate().skip(control::STAMP + 1) {
            profile.store(at + place, *word);
        }
        profile.store(at + control::STAMP, number + 1);
        self.sent = number + 1;
        profile.store(head::CONTROL_WRITTEN, self.sent);
        Ok(number)
    }

    /// How many were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many of those that were sent the program has taken.
    pub fn taken(&self, profile: &ProfileMapping) -> u64 {
        profile.load(head::CONTROL_READ).min(self.sent)
    }
}

fn record(request: &ControlRequest) -> Result<[u64; control::LENGTH], ControlRefusal> {
    let mut words = [0; control::LENGTH];
    let (kind, number, key, value) = match request {
        ControlRequest::Publish => (ControlKind::Publish, 0.0, "", ""),
        ControlRequest::RegionsOn { pattern } => (ControlKind::RegionsOn, 0.0, &pattern[..], ""),
        ControlRequest::RegionsOff { pattern } => (ControlKind::RegionsOff, 0.0, &pattern[..], ""),
        ControlRequest::PublishEvery { seconds } => (ControlKind::Rate, *seconds, "", ""),
        ControlRequest::Set { key, value } => {
            (ControlKind::Value, value.trim().parse().unwrap_or(0.0), &key[..], &value[..])
        }
    };
    words[control::KIND] = kind as u64;
    words[control::NUMBER] = number.to_bits();
    put(&mut words[control::KEY..control::TEXT], key)?;
    put(&mut words[control::TEXT..], value)?;
    Ok(words)
}

fn put(words: &mut [u64], text: &str) -> Result<(), ControlRefusal> {
    if text.len() > 8 * words.len() {
        return Err(ControlRefusal::TooLong);
    }
    if text.contains('\0') {
        return Err(ControlRefusal::HasZero);
    }
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
    Ok(())
}
