//! Messages of libweigh, and answers to it: a [`Head`] each, whose two last words are arguments.
//!
//! Their version is the layout of its page, which changes with its header alone. A program that was built with another
//! layout is answered so. Reads messages of programs that may be hostile: each is taken whole or refused.

use weigh_schema::library::{REPLY, REQUEST, Reason, Request as Kind, SLOTS, layout};

use crate::frame::{HEAD_BYTES, Head};

// The header of libweigh has them, field by field.
const _: () = assert!(REQUEST.len() * 8 == HEAD_BYTES && REPLY.len() * 8 == HEAD_BYTES);

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts of the kinds name the fields")]
pub enum Request {
    /// A page of its own, with these parts of the kernel to begin with.
    Enter { parts: u64 },
    /// These parts of the kernel, and no others.
    Want { parts: u64 },
    /// To account for a thread, by its own number for it, at this slot of the page.
    Join { tid: u32, slot: u32 },
    /// These counters of the CPU, of a thread.
    Count { tid: u32, counters: u64 },
    /// To read the page of a process, by its own number for it.
    Peer { pid: u32 },
    /// To read it no more.
    Leave { pid: u32 },
    /// To be told when something that it watches has settled.
    Watch,
    /// What a configuration has made of the parts of the kernel.
    Configured,
}

/// Reads a message.
/// Errors: another layout, and what is no request: the reason is the answer.
pub fn parse(bytes: &[u8]) -> Result<Request, Reason> {
    let version = bytes.first_chunk().copied().map(u64::from_ne_bytes);
    if version.is_some_and(|version| version != layout()) {
        return Err(Reason::OtherVersion);
    }
    let head = Head::parse(bytes).filter(|_| bytes.len() == HEAD_BYTES);
    head.and_then(understand).ok_or(Reason::NotUnderstood)
}

fn understand(head: Head) -> Option<Request> {
    let (number, value) = (head.length, head.descriptors);
    let small = |number: u64, below: usize| {
        u32::try_from(number).ok().filter(|number| (*number as usize) < below)
    };
    Some(match Kind::numbered(head.kind)? {
        Kind::Enter => Request::Enter { parts: value },
        Kind::Want => Request::Want { parts: value },
        Kind::Join => Request::Join { tid: small(number, PIDS)?, slot: small(value, SLOTS)? },
        Kind::Count => Request::Count { tid: small(number, PIDS)?, counters: value },
        Kind::Peer => Request::Peer { pid: small(number, PIDS)? },
        Kind::Leave => Request::Leave { pid: small(number, PIDS)? },
        Kind::Watch => Request::Watch,
        // weigh asks for that by `AgentRequest`.
        Kind::Follow => return None,
        Kind::Configured => Request::Configured,
    })
}

/// More processes and threads than this Linux does not have.
const PIDS: usize = 1 << 22;

/// [`Request::Leave`], as a program sends it. A server of programs grants it to each of them.
pub fn leave(pid: u32) -> [u8; HEAD_BYTES] {
    let (kind, length) = (Kind::Leave as u64, u64::from(pid));
    Head { version: layout(), kind, length, descriptors: 0 }.bytes()
}

/// An answer, as it is sent.
pub fn reply(reason: Reason, value: u64, flags: u64) -> [u8; HEAD_BYTES] {
    let kind = reason as u64;
    Head { version: layout(), kind, length: value, descriptors: flags }.bytes()
}

/// The reason in an answer; none if it is of another version, or no answer.
pub fn parse_reply(bytes: &[u8]) -> Option<Reason> {
    let head = Head::parse(bytes).filter(|head| head.version == layout())?;
    Reason::numbered(head.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn a_message_is_taken_whole_or_refused() {
        let join = |tid, slot| parse(&message(&[layout(), Kind::Join as u64, tid, slot]));
        assert_eq!(join(4_194_303, 4095), Ok(Request::Join { tid: 4_194_303, slot: 4095 }));
        assert_eq!(join(1, 4096), Err(Reason::NotUnderstood));
        assert_eq!(join(1 << 32, 0), Err(Reason::NotUnderstood));
        assert_eq!(join(1 << 22, 0), Err(Reason::NotUnderstood));
        assert_eq!(parse(&message(&[layout(), 99, 0, 0])), Err(Reason::NotUnderstood));
        assert_eq!(parse(&message(&[layout() + 1, 0, 0, 0])), Err(Reason::OtherVersion));
        let whole = message(&[layout(), Kind::Enter as u64, 0, 5]);
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Err(Reason::NotUnderstood));
        }
        assert_eq!(parse(&[&whole[..], &[0]].concat()), Err(Reason::NotUnderstood));
        assert_eq!(parse(&whole), Ok(Request::Enter { parts: 5 }));
        assert_eq!(parse(&leave(17)), Ok(Request::Leave { pid: 17 }));
    }
}
