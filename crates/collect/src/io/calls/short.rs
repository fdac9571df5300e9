//! Calls of 32-bit programs on a kernel of 64 bits: which of this machine's own calls each is, and what is different in
//! its arguments.
//!
//! Knows names, and numbers by them. Of machines other than x86 it knows none.

use std::sync::LazyLock;

use super::NUMBERS;
/// What differs in a call's arguments.
pub(crate) use crate::io::layout::skeleton::types::io_shape as Shape;
use crate::io::layout::skeleton::types::{io_call_behind, io_short_call};

const SAME: Shape = Shape::SHAPE_SAME;
const HALVES: Shape = Shape::SHAPE_HALVES;
const SHORT_OFFSET: Shape = Shape::SHAPE_SHORT_OFFSET;
const IN_MEMORY: Shape = Shape::SHAPE_IN_MEMORY;
const MULTIPLEXED: Shape = Shape::SHAPE_MULTIPLEXED;

/// Those that are not what this machine's own call of the same name is: name, own name, and what differs.
const OTHERS: &[(&str, &str, Shape)] = &[
    ("pread64", "pread64", HALVES),
    ("pwrite64", "pwrite64", HALVES),
    ("preadv", "preadv", HALVES),
    ("pwritev", "pwritev", HALVES),
    ("preadv2", "preadv2", HALVES),
    ("pwritev2", "pwritev2", HALVES),
    ("sendfile", "sendfile", SHORT_OFFSET),
    ("sendfile64", "sendfile", SAME),
    ("mmap", "mmap", IN_MEMORY),
    ("mmap2", "mmap", SAME),
    ("socketcall", "sendto", MULTIPLEXED),
    ("recvmmsg_time64", "recvmmsg", SAME),
    ("_llseek", "lseek", SAME),
    ("ftruncate64", "ftruncate", SAME),
    ("truncate64", "truncate", SAME),
    ("oldfstat", "fstat", SAME),
    ("fstat64", "fstat", SAME),
    ("oldstat", "stat", SAME),
    ("stat64", "stat", SAME),
    ("oldlstat", "lstat", SAME),
    ("lstat64", "lstat", SAME),
    ("fstatat64", "newfstatat", SAME),
    ("fstatfs64", "fstatfs", SAME),
    ("statfs64", "statfs", SAME),
    ("fchown32", "fchown", SAME),
    ("chown32", "chown", SAME),
    ("lchown32", "lchown", SAME),
    ("fadvise64_64", "fadvise64", SAME),
    ("utimensat_time64", "utimensat", SAME),
    ("io_pgetevents_time64", "io_pgetevents", SAME),
    ("fcntl64", "fcntl", SAME),
];

/// Behind socketcall(2): its number, the own call's name, and how many arguments it has.
const BEHIND: &[(u64, &str, usize)] = &[
    (9, "sendto", 4),    // send
    (10, "recvfrom", 4), // recv
    (11, "sendto", 6),
    (12, "recvfrom", 6),
    (16, "sendmsg", 3),
    (17, "recvmsg", 3),
    (19, "recvmmsg", 5),
    (20, "sendmmsg", 4),
];

/// What the kernel calls such programs (`AUDIT_ARCH_I386`).
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: Option<u32> = Some(0x4000_0003);
#[cfg(not(target_arch = "x86_64"))]
const AUDIT_ARCH: Option<u32> = None;

#[cfg(target_arch = "x86_64")]
fn name(number: usize) -> Option<&'static str> {
    syscalls::x86::Sysno::new(number).map(|call| call.name())
}
#[cfg(not(target_arch = "x86_64"))]
fn name(_: usize) -> Option<&'static str> {
    None
}

/// Whether the numbers of such programs are known here.
pub fn is_known_abi(audit_arch: u32) -> bool {
    AUDIT_ARCH == Some(audit_arch)
}

/// The own call that it is, by its number, and what differs; none if there is no such call.
pub fn own(number: u64) -> Option<(u64, Shape)> {
    static OWN: LazyLock<[Option<(u64, Shape)>; NUMBERS]> = LazyLock::new(|| {
        std::array::from_fn(|number| {
            let name = name(number)?;
            let other = OTHERS.iter().find(|(other, ..)| *other == name);
            let (own, shape) = other.map_or((name, SAME), |(_, own, shape)| (*own, *shape));
            Some((number_of(own)?, shape))
        })
    });
    OWN.get(usize::try_from(number).ok()?).copied().flatten()
}

/// Whether what has this number in such programs is a call on files; where their numbers are not known, whether it is
/// one in others.
pub fn is_about_files(number: u64) -> bool {
    let own = if AUDIT_ARCH.is_some() { own(number).map(|(own, _)| own) } else { Some(number) };
    own.and_then(super::kind).is_some()
}

/// The own call behind socketcall(2), and how many arguments it has.
pub fn behind(number: u64) -> Option<(u64, usize)> {
    let (_, name, arguments) = BEHIND.iter().find(|(behind, ..)| *behind == number)?;
    Some((number_of(name)?, *arguments))
}

/// What the kernel side is to know of each by its number, and of those behind socketcall(2) by theirs.
pub(in crate::io) fn fill(calls: &mut [io_short_call], calls_behind: &mut [io_call_behind]) {
    let call = super::bits;
    for (number, known) in calls.iter_mut().enumerate() {
        let Some((own, shape)) = own(number as u64) else { continue };
        *known = io_short_call { number: own as u16, call: call(own), shape: shape.0 as u8 };
    }
    for (number, known) in calls_behind.iter_mut().enumerate() {
        let Some((own, arguments)) = behind(number as u64) else { continue };
        let arguments = arguments as u8;
        *known = io_call_behind { number: own as u16, call: call(own), arguments };
    }
}

fn number_of(own: &str) -> Option<u64> {
    (0..NUMBERS as u64).find(|number| super::name(*number) == own)
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    fn short(called: &str) -> u64 {
        let number = (0..NUMBERS).find(|number| name(*number) == Some(called));
        number.unwrap_or_else(|| panic!("no call is named {called}")) as u64
    }

    #[test]
    fn every_call_that_is_listed_exists_once() {
        for (place, (called, named, shape)) in OTHERS.iter().enumerate() {
            let expected = number_of(named).unwrap_or_else(|| panic!("no call is named {named}"));
            assert_eq!(own(short(called)), Some((expected, *shape)), "{called}");
            assert!(!OTHERS[..place].iter().any(|(before, ..)| before == called), "{called}");
        }
        assert!(BEHIND.iter().all(|(number, ..)| behind(*number).is_some()));
        assert_eq!(behind(1), None, "socket");
    }

    /// By the kernel's own header, not by the names that the table is made of.
    #[test]
    fn numbers_are_the_kernels() {
        let known = [(3, libc::SYS_read), (4, libc::SYS_write), (6, libc::SYS_close)];
        let more = [(180, libc::SYS_pread64), (140, libc::SYS_lseek), (295, libc::SYS_openat)];
        for (number, expected) in known.into_iter().chain(more) {
            assert_eq!(own(number).map(|(own, _)| own), Some(expected as u64), "{number}");
        }
        assert_eq!(own(187), Some((libc::SYS_sendfile as u64, SHORT_OFFSET)));
        assert_eq!(own(239), Some((libc::SYS_sendfile as u64, SAME)));
        assert_eq!(own(90), Some((libc::SYS_mmap as u64, IN_MEMORY)));
        assert_eq!(own(102).map(|(_, shape)| shape), Some(MULTIPLEXED));
        assert_eq!(own(511), None);
    }

    #[test]
    fn no_call_on_files_is_left_out() {
        let all: Vec<u64> = (0..NUMBERS as u64).filter_map(own).map(|(own, _)| own).collect();
        for (_, names) in super::super::CALLS {
            for name in *names {
                let number = number_of(name).expect("it is in a test of its own");
                assert!(all.contains(&number), "{name}");
            }
        }
    }
}
