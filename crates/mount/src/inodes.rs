//! A file that the kernel knows: by a descriptor that refers to the file itself, never by a path.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{BackingId, FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, FileType as Kind, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::io::Errno;
use weigh_schema::io::{FileId, Object};

/// The number of the folder itself.
pub const ROOT: u64 = 1;

/// One file.
#[derive(Debug)]
pub struct Inode {
    /// What the kernel calls it.
    pub node: u64,
    /// It, opened for nothing but to refer to it.
    pub fd: OwnedFd,
    /// What accounts call it.
    pub file: FileId,
    /// What it is.
    pub object: Object,
    /// How it is open.
    pub open: Mutex<Opened>,
}

/// How a file is open: the kernel wants all who have it open at once to be served alike.
#[derive(Debug, Default)]
pub struct Opened {
    /// How often.
    pub times: u32,
    /// What the kernel reads and writes instead of asking here.
    pub backing: Option<Arc<BackingId>>,
}

impl Inode {
    /// What is known of it.
    pub fn stat(&self) -> Result<Statx, Errno> {
        stat(&self.fd)
    }

    /// The same as the kernel wants it.
    pub fn attributes(&self) -> Result<FileAttr, Errno> {
        Ok(attributes(self.node, &self.stat()?))
    }

    /// Where the file itself is reached through /proc, by calls that take a path only.
    pub fn link(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// How it is open; nobody else opens or closes it meanwhile.
    pub fn opened(&self) -> MutexGuard<'_, Opened> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a file that is referred to.
pub fn stat(fd: &OwnedFd) -> Result<Statx, Errno> {
    let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(fd.as_fd(), "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, what)
}

/// What a file is, as the kernel wants it.
pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// What is known of a file as the kernel wants it, with its number for the file.
pub fn attributes(node: u64, stat: &Statx) -> FileAttr {
    let kind = file_type(Kind::from_raw_mode(stat.stx_mode.into()));
    FileAttr {
        ino: INodeNo(node),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: time(&stat.stx_atime),
        mtime: time(&stat.stx_mtime),
        ctime: time(&stat.stx_ctime),
        crtime: UNIX_EPOCH,
        kind,
        perm: stat.stx_mode & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: encoded(stat.stx_rdev_major, stat.stx_rdev_minor),
        blksize: stat.stx_blksize,
        flags: 0,
    }
}

fn time(at: &StatxTimestamp) -> SystemTime {
    let within = Duration::from_nanos(at.tv_nsec.into());
    let seconds = Duration::from_secs(at.tv_sec.unsigned_abs());
    let whole = if at.tv_sec < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    whole.unwrap_or(UNIX_EPOCH) + within
}

/// The number of a device as the kernel hands it over: 12 bits of the one, 20 of the other.
fn encoded(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The same, taken apart: what `mknod` wants.
pub fn device(encoded: u32) -> rustix::fs::Dev {
    rustix::fs::makedev((encoded >> 8) & 0xfff, (encoded & 0xff) | ((encoded >> 12) & 0xf_ff00))
}

/// Which file: inodes have no generation to ask for, but a time of birth, of which the lowest bits are taken.
pub fn file_id(stat: &Statx) -> FileId {
    let born = stat.stx_btime.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    FileId {
        device: stat.stx_dev_major << 20 | stat.stx_dev_minor,
        generation: born.wrapping_add(stat.stx_btime.tv_nsec.into()) as u32,
        inode: stat.stx_ino,
    }
}

/// What it is.
pub fn object(stat: &Statx) -> Object {
    match Kind::from_raw_mode(stat.stx_mode.into()) {
        Kind::Symlink => Object::Unknown,
        _ => Object::of_mode(stat.stx_mode.into(), stat.stx_rdev_major << 20 | stat.stx_rdev_minor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_come_out_as_they_went_in() {
        for (major, minor) in [(1, 3), (259, 70_000), (0xfff, 0xf_ffff)] {
            assert_eq!(device(encoded(major, minor)), rustix::fs::makedev(major, minor));
        }
    }

    #[test]
    fn times_before_the_epoch_are_told_from_those_after() {
        let scratch = tempfile::tempdir().expect("a folder");
        let file = std::fs::File::create(scratch.path().join("old")).expect("made");
        let before = UNIX_EPOCH - Duration::from_millis(1500);
        file.set_modified(before).expect("set");
        let stat = stat(&file.into()).expect("known");
        assert_eq!(attributes(7, &stat).mtime, before);
    }
}
