//! Frames: what every message begins with, and how a message is made of one.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 32;

/// The version of all messages but libweigh's, which have the layout of its page. It is a hash of their list, and of the
/// version of weigh.
pub const VERSION: u64 =
    hash(crate::messages::LIST, hash(env!("CARGO_PKG_VERSION"), 0xcbf2_9ce4_8422_2325));

/// FNV-1a.
const fn hash(text: &str, mut hash: u64) -> u64 {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// Four words, as this machine writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The version of the sender.
    pub version: u64,
    /// Which message it is.
    pub kind: u64,
    /// Bytes of the payload; libweigh's messages have none, and an argument here.
    pub length: u64,
    /// Descriptors that come with it; in libweigh's messages another argument.
    pub descriptors: u64,
}

impl Head {
    /// As it is sent.
    pub fn bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let words = [self.version, self.kind, self.length, self.descriptors];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// From what was received; none if it is too short.
    pub fn parse(bytes: &[u8]) -> Option<Head> {
        let (words, _) = bytes.get(..HEAD_BYTES)?.as_chunks::<8>();
        let [version, kind, length, descriptors] =
            [0, 1, 2, 3].map(|at| u64::from_ne_bytes(words[at]));
        Some(Head { version, kind, length, descriptors })
    }

    /// Bytes of the payload, if the message may come so.
    /// Errors: another version; a kind that is not in the list; more bytes, or another number of descriptors, than it may have.
    pub fn payload_bytes<M: Message>(&self, received: usize) -> Result<usize, WireError> {
        if self.version != VERSION {
            return Err(WireError::OtherVersion);
        }
        let rule = M::rule(self.kind).ok_or(WireError::NotUnderstood)?;
        let counts = [self.descriptors, received as u64];
        let length = usize::try_from(self.length).ok().filter(|length| *length <= rule.bytes);
        let length =
            length.filter(|_| counts.iter().all(|count| *count == rule.descriptors as u64));
        length.ok_or(WireError::NotUnderstood)
    }
}

/// Why a message is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side has gone, or takes too long.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side is of another version.
    #[error("the agent is of another version of weigh")]
    OtherVersion,
    /// It is no message, or not one that was to come.
    #[error("the message is not understood")]
    NotUnderstood,
}

impl From<rustix::io::Errno> for WireError {
    fn from(error: rustix::io::Errno) -> WireError {
        WireError::Io(error.into())
    }
}

/// What a kind of message may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Bytes of its payload at most.
    pub bytes: usize,
    /// Descriptors, exactly.
    pub descriptors: usize,
}

/// One of a list of messages.
pub trait Message: Sized {
    /// Its number.
    fn kind(&self) -> u64;

    /// What that kind may bring; none if the list has no such kind.
    fn rule(kind: u64) -> Option<Rule>;

    /// Writes the payload. Errors: what cannot be written as JSON.
    fn encode_payload(&self, to: &mut Vec<u8>) -> io::Result<()>;

    /// The message of that kind with that payload; none if it is none.
    fn decode_payload(kind: u64, payload: &[u8]) -> Option<Self>;
}

/// What a message carries: JSON, unless a type has a better form.
pub trait Payload: Sized {
    /// Writes it. Errors: what cannot be written as JSON.
    fn write(&self, to: &mut Vec<u8>) -> io::Result<()>;

    /// Reads it; none if it is not understood.
    fn read(bytes: &[u8]) -> Option<Self>;
}

impl<T: Serialize + DeserializeOwned> Payload for T {
    fn write(&self, to: &mut Vec<u8>) -> io::Result<()> {
        Ok(serde_json::to_writer(to, self)?)
    }

    fn read(bytes: &[u8]) -> Option<T> {
        serde_json::from_slice(bytes).ok()
    }
}

/// A message as a frame, which so many descriptors go with.
/// Errors: what cannot be written, is longer than its kind may be, or has another number of descriptors.
pub fn encode<M: Message>(message: &M, descriptors: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD_BYTES];
    message.encode_payload(&mut bytes)?;
    let (kind, length) = (message.kind(), (bytes.len() - HEAD_BYTES) as u64);
    let head = Head { version: VERSION, kind, length, descriptors: descriptors as u64 };
    head.payload_bytes::<M>(descriptors).map_err(|_| io::ErrorKind::InvalidInput)?;
    bytes[..HEAD_BYTES].copy_from_slice(&head.bytes());
    Ok(bytes)
}

/// The message at the beginning of these bytes, which came with so many descriptors, and how many bytes it has; none if
/// it has not come whole.
/// Errors: what [`Head::payload_bytes`] refuses, and payloads that are not understood.
pub fn decode<M: Message>(bytes: &[u8], received: usize) -> Result<Option<(M, usize)>, WireError> {
    let Some(head) = Head::parse(bytes) else { return Ok(None) };
    let end = HEAD_BYTES + head.payload_bytes::<M>(received)?;
    let Some(payload) = bytes.get(HEAD_BYTES..end) else { return Ok(None) };
    let message = M::decode_payload(head.kind, payload).ok_or(WireError::NotUnderstood)?;
    Ok(Some((message, end)))
}
