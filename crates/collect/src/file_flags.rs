//! The flags and properties that a file system keeps of a file: what `lsattr` shows and `chattr` changes.
//!
//! For the file system of `weigh io mount`, which hands such calls on. Refuses all other numbers: what they
//! mean, and how much memory they write, only the file system below knows.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use crate::host;

/// `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`, `FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`, `FS_IOC_GETVERSION`, and how
/// many bytes each moves, whatever its number says.
const KNOWN: [(u32, usize); 5] =
    [(0x8008_6601, 4), (0x4008_6602, 4), (0x801c_581f, 28), (0x401c_5820, 28), (0x8008_7601, 4)];

/// Those that change something.
const CHANGES: [u32; 2] = [0x4008_6602, 0x401c_5820];

/// Since then the kernel looks at the caller's rights itself before it asks a file system in user space; who asked
/// one before it would have that one's rights.
const CHECKED_SINCE: (u32, u32) = (5, 13);

/// Room for any of them.
pub type Data = [u8; 32];

/// Asks for them, or sets them to what the data says.
pub fn control(file: BorrowedFd<'_>, number: u32, data: &mut Data) -> io::Result<usize> {
    let Some((_, size)) = KNOWN.iter().find(|(known, _)| *known == number) else {
        return Err(io::Error::from_raw_os_error(libc::ENOTTY));
    };
    if CHANGES.contains(&number) && !host::kernel_is_at_least(CHECKED_SINCE) {
        return Err(io::Error::from_raw_os_error(libc::ENOTTY));
    }
    // SAFETY: the file is open for as long as it is borrowed, and none of these calls reads or writes more than
    // 28 bytes of the 32 that are ours.
    let outcome =
        unsafe { libc::ioctl(file.as_raw_fd(), number as libc::Ioctl, data.as_mut_ptr()) };
    match outcome {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(*size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn what_is_not_known_is_not_asked() {
        let folder = std::fs::File::open("/").expect("opens");
        let mut data = [0; 32];
        let error = control(folder.as_fd(), 0x5401, &mut data).expect_err("of terminals");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn flags_are_those_that_the_kernel_shows_elsewhere() {
        let scratch = tempfile::NamedTempFile::new().expect("a file");
        let mut data = [0; 32];
        let Ok(size) = control(scratch.as_file().as_fd(), 0x8008_6601, &mut data) else {
            println!("ignored: the file system keeps none");
            return;
        };
        assert_eq!(size, 4);
        let shown = rustix::fs::ioctl_getflags(scratch.as_file()).expect("they are known");
        assert_eq!(data[..4], shown.bits().to_ne_bytes());
        assert_eq!(data[4..], [0; 28]);
    }
}
