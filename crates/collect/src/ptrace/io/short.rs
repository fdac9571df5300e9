//! A call of a 32-bit program as this machine's own programs would make it: so it is counted by the same rules.
//!
//! Reads arguments that lie in the program's memory. What differs there still is said by [`Words`].

use super::table;
use crate::io::calls::short::{self, Shape};
use crate::ptrace::sys::{Call, read_memory};

/// How long the words are that the program keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// An address, or a length.
    pub bytes: u64,
    /// A variable that an offset is taken from.
    pub offset_bytes: u64,
}

/// This machine's own.
pub const LONG: Words = Words { bytes: 8, offset_bytes: 8 };

/// The same call under this machine's own number; none if it is of no interest, or its arguments cannot be read.
pub fn widened(tid: u32, call: &Call) -> Option<(Call, Words)> {
    let (mut number, shape) = short::own(call.number)?;
    let mut arguments = call.arguments.map(low);
    let mut words = Words { bytes: 4, offset_bytes: 8 };
    match shape {
        Shape::SHAPE_HALVES => {
            arguments[3] |= arguments[4] << 32;
            arguments[4] = arguments[5];
        }
        Shape::SHAPE_SHORT_OFFSET => words.offset_bytes = 4,
        Shape::SHAPE_IN_MEMORY => arguments = in_memory(tid, arguments[0], arguments.len())?,
        Shape::SHAPE_MULTIPLEXED => {
            let (behind, many) = short::behind(arguments[0])?;
            (number, arguments) = (behind, in_memory(tid, arguments[1], many)?);
        }
        _ => {}
    }
    Some((Call { number, arguments, ..*call }, words))
}

/// All that are of interest, by their own numbers.
pub fn numbers() -> impl Iterator<Item = u32> {
    let is_of_interest = |number: &u32| {
        let own = short::own((*number).into());
        own.is_some_and(|(own, _)| table::of(own).is_some())
    };
    (0..crate::io::calls::NUMBERS as u32).filter(is_of_interest)
}

/// Whether such a call is of interest with some arguments only, and which of this machine's own it is.
pub fn by_argument(number: u32) -> Option<u32> {
    let (own, shape) = short::own(number.into())?;
    let own = own as u32;
    (shape == Shape::SHAPE_SAME && table::is_by_argument(own)).then_some(own)
}

/// A program that is not one of 32 bits may have anything above.
fn low(argument: u64) -> u64 {
    argument & u64::from(u32::MAX)
}

fn in_memory(tid: u32, address: u64, many: usize) -> Option<[u64; 6]> {
    let mut arguments = [0; 6];
    for (place, argument) in arguments.iter_mut().enumerate().take(many) {
        let bytes = read_memory::<4>(tid, address + 4 * place as u64)?;
        *argument = u32::from_ne_bytes(bytes).into();
    }
    Some(arguments)
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    const I386: u32 = 0x4000_0003;

    fn wide(number: u64, arguments: [u64; 6]) -> Option<(u64, [u64; 6], Words)> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (call, words) = widened(tid, &Call { audit_arch: I386, number, arguments })?;
        Some((call.number, call.arguments, words))
    }

    #[test]
    fn an_offset_is_put_together_and_what_lies_above_32_bits_is_nothing() {
        const ABOVE: u64 = 7 << 32;
        let short = Words { bytes: 4, offset_bytes: 8 };
        // preadv2(fd, vector, pieces, low, high, flags)
        let found = wide(378, [ABOVE | 3, 0x1000, 2, ABOVE | 5, 1, 8]);
        let expected = [3, 0x1000, 2, 5 | 1 << 32, 8, 8];
        assert_eq!(found, Some((libc::SYS_preadv2 as u64, expected, short)));
        let position = u64::from(u32::MAX);
        let (_, arguments, _) = wide(379, [3, 0, 0, position, position, 0]).expect("pwritev2");
        assert_eq!(arguments[3], u64::MAX, "the file's own position");
        assert_eq!(wide(187, [0; 6]).map(|(.., words)| words.offset_bytes), Some(4), "sendfile");
        assert_eq!(wide(239, [0; 6]).map(|(.., words)| words.offset_bytes), Some(8), "sendfile64");
        assert_eq!(wide(20, [0; 6]).map(|(number, ..)| number), Some(libc::SYS_getpid as u64));
        assert_eq!(wide(102, [1, 0, 0, 0, 0, 0]), None, "socket");
    }

    #[test]
    fn calls_of_interest_are_found_by_their_own_numbers() {
        let all: Vec<u32> = numbers().collect();
        for number in [3, 4, 5, 6, 54, 63, 90, 102, 140, 145, 187, 192, 221, 239, 295, 378, 417] {
            assert!(all.contains(&number), "{number}");
        }
        for number in [1, 11, 20, 45, 120, 240] {
            assert!(!all.contains(&number), "{number}");
        }
        assert_eq!(by_argument(192), Some(libc::SYS_mmap as u32));
        assert_eq!((by_argument(90), by_argument(3)), (None, None));
        assert_eq!([by_argument(55), by_argument(221)], [Some(libc::SYS_fcntl as u32); 2]);
    }
}
