//! Messages of libweigh, and answers to it: numbers of eight bytes, one after the other.
//!
//! A message comes from a program that may be hostile: it is taken whole or refused.

use weigh_schema::library::{Followed, REPLY, REQUEST, Reason, Request as Kind, SLOTS, layout};

/// Bytes of a message.
pub const REQUEST_BYTES: usize = REQUEST.len() * 8;
/// Bytes of an answer.
pub const REPLY_BYTES: usize = REPLY.len() * 8;

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A page of its own.
    Enter {
        /// The parts of the kernel that it wants to begin with.
        parts: u64,
    },
    /// Other parts of the kernel than before.
    Want {
        /// All of them.
        parts: u64,
    },
    /// To account for a thread.
    Join {
        /// The thread, by the number it has for itself.
        tid: u32,
        /// Where on the page it says what it wants.
        slot: u32,
    },
    /// Counters of the CPU, of a thread.
    Count {
        /// The thread, by the number it has for itself.
        tid: u32,
        /// Which.
        counters: u64,
    },
    /// To read the page of a process.
    Peer {
        /// The process, by the number it has for the one who asks.
        pid: u32,
    },
    /// To read it no more.
    Leave {
        /// The process.
        pid: u32,
    },
    /// To be told when something that it watches has settled.
    Watch,
    /// Somebody who follows a job.
    Follow {
        /// What of it.
        what: Followed,
    },
    /// What a configuration has made of the parts of the kernel.
    Configured,
}

/// Why a message is not taken.
pub type Refused = Reason;

/// Reads a message.
pub fn parse(bytes: &[u8]) -> Result<Request, Refused> {
    let number = |index: usize| {
        let word = bytes.get(index * 8..index * 8 + 8)?.try_into().ok()?;
        Some(u64::from_ne_bytes(word))
    };
    if number(0).is_some_and(|found| found != layout()) {
        return Err(Reason::OtherVersion);
    }
    if bytes.len() != REQUEST_BYTES {
        return Err(Reason::NotUnderstood);
    }
    let field = |index: usize| number(index).ok_or(Reason::NotUnderstood);
    let small = |index: usize, below: usize| match u32::try_from(field(index)?) {
        Ok(value) if (value as usize) < below => Ok(value),
        _ => Err(Reason::NotUnderstood),
    };
    match Kind::numbered(field(1)?) {
        Some(Kind::Enter) => Ok(Request::Enter { parts: field(3)? }),
        Some(Kind::Want) => Ok(Request::Want { parts: field(3)? }),
        Some(Kind::Join) => Ok(Request::Join { tid: small(2, PIDS)?, slot: small(3, SLOTS)? }),
        Some(Kind::Count) => Ok(Request::Count { tid: small(2, PIDS)?, counters: field(3)? }),
        Some(Kind::Peer) => Ok(Request::Peer { pid: small(2, PIDS)? }),
        Some(Kind::Leave) => Ok(Request::Leave { pid: small(2, PIDS)? }),
        Some(Kind::Watch) => Ok(Request::Watch),
        Some(Kind::Follow) => {
            let what = Followed::numbered(field(3)?).ok_or(Reason::NotUnderstood)?;
            Ok(Request::Follow { what })
        }
        Some(Kind::Configured) => Ok(Request::Configured),
        None => Err(Reason::NotUnderstood),
    }
}

/// More processes and threads than this Linux does not have.
const PIDS: usize = 1 << 22;

/// An answer, as it is sent.
pub fn reply(reason: Reason, value: u64, flags: u64) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    for (to, number) in bytes.chunks_exact_mut(8).zip([layout(), reason as u64, value, flags]) {
        to.copy_from_slice(&number.to_ne_bytes());
    }
    bytes
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
    }
}
