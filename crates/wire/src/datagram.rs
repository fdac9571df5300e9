//! What comes to the agent's socket, a datagram each: messages of libweigh, and requests of weigh itself.

use weigh_schema::library::Reason;
use weigh_schema::profile::{HELLO, layout as profile_layout};

use crate::frame::{Head, VERSION, decode};
use crate::library;
use crate::messages::AgentRequest;

/// Bytes of a datagram at most.
pub const MOST_BYTES: usize = 1 << 12;

/// A datagram.
#[derive(Clone, Debug, PartialEq)]
pub enum Datagram {
    /// Of a program with libweigh.
    Library(library::Request),
    /// Of a user's weigh.
    Agent(AgentRequest),
}

/// Bytes of the message of such a program.
const HELLO_BYTES: usize = {
    let (mut at, mut words) = (0, 0);
    while at < HELLO.len() {
        words += HELLO[at].1;
        at += 1;
    }
    8 * words
};

/// Whether it is of a program that hands its profile of regions over: the profile's descriptor comes with it.
pub fn is_profile(bytes: &[u8]) -> bool {
    let version = bytes.first_chunk().copied().map(u64::from_ne_bytes);
    bytes.len() == HELLO_BYTES && version == Some(profile_layout())
}

/// Reads a datagram. What is of neither version is answered as one of libweigh's: it may be that of an older one.
/// Errors: the reason is the answer.
pub fn parse(bytes: &[u8]) -> Result<Datagram, Reason> {
    if Head::parse(bytes).is_none_or(|head| head.version != VERSION) {
        return library::parse(bytes).map(Datagram::Library);
    }
    match decode(bytes, 0) {
        Ok(Some((request, end))) if end == bytes.len() => Ok(Datagram::Agent(request)),
        _ => Err(Reason::NotUnderstood),
    }
}

#[cfg(test)]
mod tests {
    use weigh_schema::library::{Followed, layout};

    use super::*;
    use crate::frame::encode;

    #[test]
    fn each_is_known_by_its_version_and_taken_whole() {
        let request = AgentRequest::Follow(Followed::Files);
        let whole = encode(&request, 0).unwrap();
        assert!(whole.len() < MOST_BYTES);
        assert_eq!(parse(&whole), Ok(Datagram::Agent(request)));
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
        assert_eq!(parse(&[&whole[..], b" "].concat()), Err(Reason::NotUnderstood));
        let watch = Head { version: layout(), kind: 4, length: 0, descriptors: 0 };
        assert_eq!(parse(&watch.bytes()), Ok(Datagram::Library(library::Request::Watch)));
        let other = Head { version: layout() ^ VERSION, ..watch };
        assert_eq!(parse(&other.bytes()), Err(Reason::OtherVersion));
        let hello = Head { version: profile_layout(), ..watch }.bytes();
        assert!(is_profile(&hello) && !is_profile(&watch.bytes()) && !is_profile(&whole));
        assert!(!is_profile(&[&hello[..], b" "].concat()) && !is_profile(&hello[..24]));
    }
}
