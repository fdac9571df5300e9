//! Which calls stop for what is read and written by file, by their numbers: those that the BPF programs
//! look at, and those that copy and close descriptors without naming a file.

use libc::c_long;

use crate::io::calls::{NUMBERS, kind as call_kind};
use crate::io::layout::skeleton::types::io_call as CallKind;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// What the BPF programs know it as.
    Call(CallKind),
    /// Copies descriptor 0; what it returns is the copy.
    Duplicates,
    /// Closes descriptors from argument 0 to argument 1.
    ClosesRange,
    /// Lets the kernel read and write by itself, unseen.
    Uring,
    /// The same in an older way.
    Aio,
}

/// What the BPF programs do not look at.
const MORE: &[(c_long, Does)] = &[
    (libc::SYS_dup, Does::Duplicates),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_dup2, Does::Duplicates),
    (libc::SYS_dup3, Does::Duplicates),
    (libc::SYS_fcntl, Does::Duplicates),
    (libc::SYS_close_range, Does::ClosesRange),
    (libc::SYS_io_uring_setup, Does::Uring),
    (libc::SYS_io_setup, Does::Aio),
];

/// What a call of a program of this machine's own kind does; none if it is of no interest.
pub fn of(number: u64) -> Option<Does> {
    let more = MORE.iter().find(|(known, _)| u64::try_from(*known) == Ok(number));
    match (more, call_kind(number)) {
        (Some((_, does)), _) => Some(*does),
        // Requests move the bytes: those who make them are named where they set that up.
        (_, Some(CallKind::CALL_AIO_SUBMIT | CallKind::CALL_AIO_EVENTS | CallKind::CALL_URING)) => {
            None
        }
        (_, kind) => kind.map(Does::Call),
    }
}

/// All that are of interest.
pub fn numbers() -> impl Iterator<Item = u32> {
    (0..NUMBERS as u32).filter(|number| of((*number).into()).is_some())
}

/// Whether it is of interest with some arguments only.
pub fn is_by_argument(number: u32) -> bool {
    [libc::SYS_mmap, libc::SYS_fcntl].contains(&number.into())
}
