//! Which calls move bytes, by their names: the kernel side adds up what they return, `weigh explain`
//! compares it.

/// What follows the name of a call of a 32-bit program.
pub const COMPATIBLE_NAME: &str = " (32-bit)";

/// Calls that take a descriptor as their first argument and return how many bytes they moved.
pub const TRANSFERS: &[&str] = &[
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "recvfrom",
    "recvmsg",
    "sendto",
    "sendmsg",
    "sendfile",
    "splice",
    "tee",
    "vmsplice",
    "copy_file_range",
    "getdents64",
];

/// Whether what a call of this name returns is how many bytes it moved.
pub fn moves_bytes(call: &str) -> bool {
    TRANSFERS.contains(&call.strip_suffix(COMPATIBLE_NAME).unwrap_or(call))
}
