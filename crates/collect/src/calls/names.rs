//! Names of system calls, and what is known of them by their number.

use std::collections::BTreeMap;

use weigh_schema::call::{COMPATIBLE_NAME, TRANSFERS};

use super::layout::skeleton::types::{call_kind, no_call};

/// Stands in the place of a call's number for stores to mapped files, between calls.
pub const STORES: u64 = no_call::STORES.0 as u64;

/// The same for writes to where too many write for each to be told apart.
pub const CROWD: u64 = no_call::CROWD.0 as u64;

/// The same for what threads of io_uring do of which no call is known.
pub const URING: u64 = no_call::URING.0 as u64;

/// Added to the numbers of 32-bit programs, which have others.
const COMPATIBLE: u64 = 1 << 16;

/// Other calls that take a descriptor as their first argument.
const OF_DESCRIPTORS: &[&str] = &[
    "close",
    "fstat",
    "lseek",
    "ioctl",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "flock",
    "fcntl",
    "accept",
    "accept4",
    "connect",
    "bind",
    "listen",
    "shutdown",
    "getsockopt",
    "setsockopt",
    "getpeername",
    "getsockname",
    "sendmmsg",
    "recvmmsg",
    "epoll_wait",
    "epoll_pwait",
    "epoll_ctl",
    "sync_file_range",
    "fadvise64",
    "readahead",
    "syncfs",
    "fchmod",
    "fchown",
    "io_uring_enter",
    "getdents",
    "fgetxattr",
    "fsetxattr",
    "fstatfs",
];

/// Comes back from a signal's handler, with what a register had before.
const RESTORES: &str = "rt_sigreturn";

/// The name of a call.
pub fn name(number: u64) -> String {
    match number {
        STORES => return "(mmap)".to_string(),
        CROWD => return "(many writers)".to_string(),
        URING => return "(io_uring)".to_string(),
        _ => {}
    }
    let native = || syscalls::Sysno::new(usize::try_from(number).ok()?).map(|call| call.name());
    match number & COMPATIBLE {
        0 => native().map_or_else(|| format!("call {number}"), str::to_string),
        _ => compatible(number & !COMPATIBLE),
    }
}

#[cfg(target_arch = "x86_64")]
fn compatible(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(syscalls::x86::Sysno::new);
    known.map_or_else(
        || format!("call {number}{COMPATIBLE_NAME}"),
        |call| format!("{}{COMPATIBLE_NAME}", call.name()),
    )
}

#[cfg(not(target_arch = "x86_64"))]
fn compatible(number: u64) -> String {
    format!("call {number}{COMPATIBLE_NAME}")
}

/// What the kernel side is to know of each call; the part that its own code is of, where that is known.
pub(super) fn fill(kinds: &mut [u16], own_parts: &BTreeMap<u32, u32>) {
    for (number, kind) in kinds.iter_mut().enumerate() {
        let name = name(number as u64);
        let is_in = |list: &[&str]| list.contains(&name.as_str());
        let descriptor = call_kind::TAKES_DESCRIPTOR.0 as u16;
        let moves = call_kind::MOVES_BYTES.0 as u16;
        let part = own_parts.get(&(number as u32)).copied().unwrap_or_default() as u16;
        *kind = part * call_kind::OWN_PART.0 as u16;
        if name == RESTORES {
            *kind |= call_kind::RESTORES.0 as u16;
        }
        *kind |= match (is_in(TRANSFERS), is_in(OF_DESCRIPTORS)) {
            (true, _) => descriptor | moves,
            (_, true) => descriptor,
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_listed_exists() {
        let numbers: Vec<String> = (0..1024).map(name).collect();
        for listed in TRANSFERS.iter().chain(OF_DESCRIPTORS).chain([&RESTORES]) {
            assert!(numbers.iter().any(|name| name == listed), "no call is named {listed}");
        }
    }

    #[test]
    fn errors_are_called_what_others_call_them() {
        let told = |number: i64| weigh_schema::call_row::Returned(-number).error();
        for number in 1..134 {
            let others = syscalls::Errno::new(number).name().map(str::to_string);
            // Two numbers are no errors.
            let others = others.unwrap_or_else(|| format!("error {number}"));
            assert_eq!(told(number.into()), Some(others));
        }
    }

    #[test]
    fn an_unknown_number_is_told() {
        assert_eq!(name(1000), "call 1000");
    }
}
