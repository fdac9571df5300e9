//! What can go wrong before, and while, a folder is served.

use std::io;
use std::path::PathBuf;

/// Why a folder is not served.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// It cannot be looked at.
    #[error("{what} {}: {error}", path.display())]
    Unreachable {
        /// SOURCE or MOUNTPOINT.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is something else.
    #[error("{what} {}: this is no directory", path.display())]
    NoDirectory {
        /// SOURCE or MOUNTPOINT.
        what: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// Files there would be hidden.
    #[error("MOUNTPOINT {}: expected an empty directory: a mount hides what is in it", .0.display())]
    NotEmpty(PathBuf),
    /// The file system would have to ask itself.
    #[error(
        "SOURCE {} and MOUNTPOINT {}: neither may be inside the other, nor may they be the same: the mount would serve itself",
        source_path.display(), mountpoint.display()
    )]
    Nested {
        /// What is served.
        source_path: PathBuf,
        /// Where.
        mountpoint: PathBuf,
    },
    /// A former server was killed, and its mount is still there.
    #[error(
        "MOUNTPOINT {path}: a mount is there whose server is gone; take it away: umount -l {path}, or fusermount3 -u {path}",
        path = .0.display()
    )]
    Dead(PathBuf),
    /// The kernel has no FUSE, or the machine does not show it.
    #[error(
        "/dev/fuse is not there: load the module (modprobe fuse), or let the container have the device"
    )]
    NoDevice,
    /// It may not be opened.
    #[error(
        "/dev/fuse cannot be opened: {0}; most systems open it to all users (chmod 0666 /dev/fuse), else become root"
    )]
    Device(io::Error),
    /// A user who is not root needs a helper that is.
    #[error(
        "without CAP_SYS_ADMIN a mount needs the program fusermount3, which is not there; install it (Debian: apt-get install fuse3), or become root"
    )]
    NoHelper,
    /// The kernel, or the helper, said no.
    #[error("{} cannot be mounted: {error}", mountpoint.display())]
    Refused {
        /// Where.
        mountpoint: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It could not be taken away.
    #[error("{} cannot be unmounted: {error}", mountpoint.display())]
    Stays {
        /// Where.
        mountpoint: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Serving ended by itself.
    #[error("the file system ended: {0}")]
    Ended(io::Error),
}
