//! What is asked of a mount.

use std::io;
use std::os::fd::BorrowedFd;

use crate::accounts::Detail;

/// ioctl(2) by its number, with room for what goes in and out, of which it says how much comes out. The
/// caller brings it along: it takes an unsafe call, and there is no `unsafe` here.
pub type Control = fn(BorrowedFd<'_>, u32, &mut [u8; 32]) -> io::Result<usize>;

/// What is asked of a mount.
#[derive(Clone, Copy, Debug)]
pub struct MountRequest {
    /// Each read and write is to come here.
    pub exact: bool,
    /// The kernel may read and write by itself.
    pub may_pass: bool,
    /// How finely is to be counted.
    pub detail: Detail,
    /// Asks a file for its flags, or sets them.
    pub control: Control,
}
