//! Which calls are about files, and what each does: what the kernel side is to know of them by their
//! numbers.

pub(crate) mod short;

use std::sync::LazyLock;

use super::layout::skeleton::types::io_call;

/// Stands for a call where there was none: mapped memory, io_uring.
const NO_CALL: u64 = u32::MAX as u64;

/// The calls, by what they do.
const CALLS: &[(io_call, &[&str])] = &[
    (io_call::CALL_READ, &["read"]),
    (io_call::CALL_WRITE, &["write"]),
    (io_call::CALL_PREAD, &["pread64"]),
    (io_call::CALL_PWRITE, &["pwrite64"]),
    (io_call::CALL_READV, &["readv"]),
    (io_call::CALL_WRITEV, &["writev"]),
    (io_call::CALL_PREADV, &["preadv", "preadv2"]),
    (io_call::CALL_PWRITEV, &["pwritev", "pwritev2"]),
    (io_call::CALL_RECEIVE, &["recvfrom", "recvmsg"]),
    (io_call::CALL_SEND, &["sendto", "sendmsg"]),
    (io_call::CALL_RECEIVE_MANY, &["recvmmsg"]),
    (io_call::CALL_SEND_MANY, &["sendmmsg"]),
    (io_call::CALL_SENDFILE, &["sendfile"]),
    (io_call::CALL_SPLICE, &["splice"]),
    (io_call::CALL_TEE, &["tee"]),
    (io_call::CALL_VMSPLICE, &["vmsplice"]),
    (io_call::CALL_COPY_RANGE, &["copy_file_range"]),
    #[cfg(target_arch = "x86_64")]
    (io_call::CALL_OPEN, &["open"]),
    #[cfg(target_arch = "x86_64")]
    (io_call::CALL_CREAT, &["creat"]),
    (io_call::CALL_OPENAT, &["openat"]),
    (io_call::CALL_OPENAT2, &["openat2"]),
    (io_call::CALL_CLOSE, &["close"]),
    (io_call::CALL_SEEK, &["lseek"]),
    (io_call::CALL_SYNC, &["fsync", "fdatasync", "sync_file_range", "syncfs"]),
    (io_call::CALL_TRUNCATE, &["ftruncate"]),
    (
        io_call::CALL_METADATA,
        &[
            "fstat",
            "fallocate",
            "fchmod",
            "fchown",
            "flock",
            "getdents64",
            "fadvise64",
            "readahead",
            "fstatfs",
            "fgetxattr",
            "fsetxattr",
            "flistxattr",
            "fremovexattr",
            "ioctl",
        ],
    ),
    (io_call::CALL_STATAT, &["newfstatat", "statx"]),
    (
        io_call::CALL_PATH,
        &[
            "faccessat",
            "faccessat2",
            "unlinkat",
            "renameat",
            "renameat2",
            "mkdirat",
            "readlinkat",
            "linkat",
            "symlinkat",
            "fchmodat",
            "fchownat",
            "truncate",
            "statfs",
            "utimensat",
            "getxattr",
            "lgetxattr",
            "setxattr",
            "listxattr",
        ],
    ),
    #[cfg(target_arch = "x86_64")]
    (
        io_call::CALL_PATH,
        &[
            "stat", "lstat", "access", "unlink", "rename", "mkdir", "rmdir", "readlink", "link",
            "symlink", "chmod", "chown", "lchown",
        ],
    ),
    (io_call::CALL_MMAP, &["mmap"]),
    (io_call::CALL_AIO_SUBMIT, &["io_submit"]),
    (io_call::CALL_AIO_EVENTS, &["io_getevents", "io_pgetevents"]),
    (io_call::CALL_URING, &["io_uring_enter"]),
    (
        io_call::CALL_FREE,
        &[
            "io_uring_setup",
            "open_by_handle_at",
            "lsetxattr",
            "setxattrat",
            "removexattr",
            "lremovexattr",
            "removexattrat",
            "mount",
            "move_mount",
            "umount2",
            "pivot_root",
        ],
    ),
];

/// Those of the calls above that may free space of a file system, besides those of [`io_call::CALL_FREE`].
const FREEING: &[&str] = &[
    "unlink",
    "unlinkat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "truncate",
    "ftruncate",
    "fallocate",
    "ioctl",
    "setxattr",
    "fsetxattr",
    "fremovexattr",
];

/// The name of a call.
pub fn name(number: u64) -> String {
    match number {
        NO_CALL => "(none)".to_string(),
        _ => crate::calls::name(number),
    }
}

/// More numbers of calls than there are.
pub(crate) const NUMBERS: usize = 512;

/// What a call does, by its number.
pub(crate) fn kind(number: u64) -> Option<io_call> {
    static KINDS: LazyLock<[Option<io_call>; NUMBERS]> = LazyLock::new(|| {
        std::array::from_fn(|number| {
            let name = crate::calls::name(number as u64);
            let known = CALLS.iter().find(|(_, names)| names.contains(&name.as_str()));
            known.map(|(what, _)| *what)
        })
    });
    KINDS.get(usize::try_from(number).ok()?).copied().flatten()
}

/// Whether a call may free space of a file system, by its number.
pub(crate) fn may_free(number: u64) -> bool {
    kind(number).is_some_and(|kind| {
        kind == io_call::CALL_FREE || FREEING.contains(&crate::calls::name(number).as_str())
    })
}

/// What the kernel side is to know of a call of this machine's own.
fn bits(number: u64) -> u8 {
    let frees = if may_free(number) { io_call::CALL_FREES.0 as u8 } else { 0 };
    kind(number).map_or(0, |what| what.0 as u8 | frees)
}

/// What the kernel side is to know of each call.
pub(super) fn fill(calls: &mut [u8]) {
    for (number, call) in calls.iter_mut().enumerate() {
        *call = bits(number as u64);
        if short::is_about_files(number as u64) {
            *call |= io_call::CALL_SHORT.0 as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_listed_exists_once() {
        let numbers: Vec<String> = (0..512).map(name).collect();
        let listed: Vec<&str> = CALLS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for (place, name) in listed.iter().enumerate() {
            assert!(numbers.iter().any(|number| number == name), "no call is named {name}");
            assert!(!listed[..place].contains(name), "{name} is listed twice");
        }
    }
}
