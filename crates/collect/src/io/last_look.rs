//! Whether files have a name still, and which, when all is over: until then they may be renamed and deleted, by anybody.
//! And what their file systems say of them then: size, mode, times.
//!
//! Reads the file system where a file was last known to be; where that leads elsewhere, asks for the file by its inode
//! and generation, which takes root and a file system that can be asked so; else looks through its folder, and through
//! the file system if that is small. Asks no file system that a process may
//! serve, or that lies on another machine: it might not answer.

use std::ffi::{CString, OsStr};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp, openat2, statx,
};
use rustix::io::Errno;
use weigh_schema::byte_text;
use weigh_schema::io::{FileAtEnd, FileId, FileState};

use super::inode_search::{InodeName, InodeSearch};
use crate::procfs::{self, Mount};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastLook {
    /// Whether it has no name any more; none if nobody knows.
    pub is_deleted: Option<bool>,
    /// Its name, if that is another than it was.
    pub name: Option<String>,
    /// Whether it is told from others that have had its number: the file system has no generations else.
    pub is_told_apart: bool,
    /// Whether its name leads to another file system than it lies on.
    pub is_elsewhere: bool,
    /// What its file system says of it, if it was found by its name.
    pub state: Option<FileAtEnd>,
}

impl LastLook {
    fn deleted(is_deleted: bool, name: Option<String>) -> LastLook {
        let is_deleted = Some(is_deleted);
        LastLook { is_deleted, name, is_told_apart: true, is_elsewhere: false, state: None }
    }
}

/// When files were made is kept by ticks, which are no longer than that.
const TICK_NS: i64 = 10_000_000;

/// What the generation of a file's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kernel's.
    Kernel,
    /// A mark of its birth, of who has no rights to ask for the kernel's.
    Birth,
}

/// Looks for files.
pub struct LastLooks {
    generation: Generation,
    mounts: Vec<Mount>,
    search: InodeSearch,
}

/// Types of file systems whose requests are answered by a process, or another machine.
const SILENT: [&str; 10] =
    ["fuse", "nfs", "cifs", "smb", "9p", "virtiofs", "ceph", "afs", "autofs", "lustre"];

impl LastLooks {
    /// Of files whose generations are these.
    pub fn new(generation: Generation) -> LastLooks {
        let table = procfs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts = procfs::parse_mountinfo(&table);
        LastLooks { generation, mounts, search: InodeSearch::default() }
    }

    /// Looks for one by its last path. `used_ns` is when it was used first, since 1970.
    pub fn look(&self, file: FileId, path: &str, used_ns: i64) -> LastLook {
        let path = byte_text::bytes(path);
        let path = Path::new(OsStr::from_bytes(&path));
        if !path.is_absolute() {
            return LastLook::default();
        }
        let look = self.look_at(file, path);
        let name = look.name.as_deref().map(byte_text::bytes);
        let found = name.as_deref().map_or(path, |name| Path::new(OsStr::from_bytes(name)));
        let is_there = look.is_deleted == Some(false);
        let is_told_apart = !is_there || self.is_told_apart(file, found, used_ns);
        let is_elsewhere = look.is_deleted.is_none() && self.is_elsewhere(file, path);
        let state = look.state.or_else(|| {
            let found = self.open(found).ok().filter(|_| is_there)?;
            (self.is_it(file, &found) == Some(true)).then(|| state_of(&found)).flatten()
        });
        LastLook { is_told_apart, is_elsewhere, state, ..look }
    }

    /// Whether what is there now cannot have got the number of one that is gone: by its generation, or because it was
    /// there before the file was used.
    fn is_told_apart(&self, file: FileId, found: &Path, used_ns: i64) -> bool {
        // overlayfs has no handles, by which a generation could be compared.
        let is_overlay = || self.mount_of(found).is_some_and(|mount| mount.kind == "overlay");
        if file.generation != 0 && !(self.generation == Generation::Kernel && is_overlay()) {
            return true;
        }
        let stat = self.open(found).ok().and_then(|found| about(&found));
        stat.is_some_and(|stat| {
            let born_ns = time_ns(&stat.stx_btime);
            stat.stx_mask & StatxFlags::BTIME.bits() != 0 && born_ns < used_ns - TICK_NS
        })
    }

    /// Whether a file lies below the one that has its name.
    fn is_elsewhere(&self, file: FileId, path: &Path) -> bool {
        let device = (file.device >> 20, file.device & 0xf_ffff);
        self.mount_of(path).is_some_and(|mount| mount.kind == "overlay" && mount.device != device)
    }

    fn look_at(&self, file: FileId, path: &Path) -> LastLook {
        let found = self.open(path);
        let is_there = match &found {
            Ok(found) => self.is_it(file, found),
            Err(Errno::NOENT | Errno::NOTDIR) => Some(false),
            Err(_) => None,
        };
        match is_there {
            Some(true) => {
                let state = found.ok().and_then(|found| state_of(&found));
                LastLook { state, ..LastLook::deleted(false, None) }
            }
            Some(false) => {
                let look = match self.generation {
                    Generation::Kernel => self.look_elsewhere(file, path),
                    Generation::Birth => LastLook::default(),
                };
                if look.is_deleted.is_some() { look } else { self.search(file, path) }
            }
            None => LastLook::default(),
        }
    }

    /// By the inode's number, where folders can be looked through.
    fn search(&self, file: FileId, path: &Path) -> LastLook {
        let folder = path.parent().filter(|folder| !self.is_silent(folder));
        let Some(folder) = folder else { return LastLook::default() };
        // The job may have had another file system there.
        let is_its = |mount: &&Mount| mount.device == (file.device >> 20, file.device & 0xf_ffff);
        let Some(mount) = self.mount_of(folder).filter(is_its) else {
            return LastLook::default();
        };
        match self.search.find(file.inode, folder, mount) {
            InodeName::Nowhere => LastLook::deleted(true, None),
            InodeName::At(name) if self.leads_to(file, &name) => {
                LastLook::deleted(false, Some(text_of(&name)))
            }
            InodeName::At(_) | InodeName::Unknown => LastLook::default(),
        }
    }

    fn leads_to(&self, file: FileId, name: &Path) -> bool {
        self.open(name).ok().and_then(|found| self.is_it(file, &found)) == Some(true)
    }

    /// The mount on which a folder lies: of several at one place the last.
    fn mount_of(&self, folder: &Path) -> Option<&Mount> {
        let over = self.mounts.iter().filter(|mount| folder.starts_with(&mount.point));
        over.max_by_key(|mount| mount.point.components().count())
    }

    /// Whether it lies where a file system may not answer.
    fn is_silent(&self, path: &Path) -> bool {
        let is_silent = |mount: &Mount| SILENT.iter().any(|kind| mount.kind.starts_with(kind));
        self.mounts.iter().any(|mount| path.starts_with(&mount.point) && is_silent(mount))
    }

    /// Refers to what is there now.
    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Err(Errno::AGAIN | Errno::INVAL | Errno::NOSYS) => {}
            known => return known,
        }
        match self.is_silent(path) {
            true => Err(Errno::AGAIN),
            false => rustix::fs::open(path, flags, Mode::empty()),
        }
    }

    /// Whether this is the file.
    fn is_it(&self, file: FileId, found: &OwnedFd) -> Option<bool> {
        let stat = about(found)?;
        if stat.stx_ino != file.inode {
            return Some(false);
        }
        // btrfs tells programs other numbers of devices than it has in the kernel: these are not compared.
        match self.generation {
            Generation::Kernel => {
                match Handle::of(found).and_then(|handle| handle.generation(file.inode)) {
                    Some(generation) => Some(generation == file.generation),
                    None => Some(true),
                }
            }
            Generation::Birth => (birth(&stat) == file.generation).then_some(true),
        }
    }

    /// The file system itself is asked for the inode.
    fn look_elsewhere(&self, file: FileId, path: &Path) -> LastLook {
        let found = path.parent().filter(|folder| !self.is_silent(folder)).and_then(|folder| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
            let inode = about(&folder)?.stx_ino;
            let handle = Handle::of(&folder)?.of_other(inode, file)?;
            Some(handle.open(&folder))
        });
        match found {
            Some(Ok(found)) => self.found(file, &found),
            Some(Err(Errno::STALE)) => LastLook::deleted(true, None),
            _ => LastLook::default(),
        }
    }

    fn found(&self, file: FileId, found: &OwnedFd) -> LastLook {
        if about(found).is_some_and(|stat| stat.stx_nlink == 0) {
            return LastLook::deleted(true, None);
        }
        let link = format!("/proc/self/fd/{}", found.as_raw_fd());
        let name = std::fs::read_link(link).ok();
        // The kernel may know it by its inode alone.
        let name = name.filter(|name| self.leads_to(file, name));
        let name = name.map(|name| text_of(&name));
        LastLook::deleted(false, name)
    }
}

fn text_of(path: &Path) -> String {
    byte_text::keep(path.as_os_str().as_bytes())
}

fn about(file: &OwnedFd) -> Option<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(file, c"", flags, wanted).ok()
}

/// What its file system says of it.
fn state_of(file: &OwnedFd) -> Option<FileAtEnd> {
    let stat = about(file)?;
    let has = |field: StatxFlags| stat.stx_mask & field.bits() != 0;
    let modified_ns = time_ns(&stat.stx_mtime);
    let state = FileState {
        size_bytes: stat.stx_size,
        mode: u32::from(stat.stx_mode) & 0o7777,
        modified_ns,
    };
    let is_whole = has(StatxFlags::SIZE) && has(StatxFlags::MTIME) && has(StatxFlags::CTIME);
    let born_ns = has(StatxFlags::BTIME).then(|| time_ns(&stat.stx_btime));
    let inode_changed_ns = time_ns(&stat.stx_ctime);
    is_whole.then_some(FileAtEnd { state, inode_changed_ns, born_ns })
}

/// Nanoseconds since the Unix epoch.
fn time_ns(time: &StatxTimestamp) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec))
}

/// A mark of when a file was made: its nanoseconds since 1970, as far as they have room.
pub fn birth(stat: &Statx) -> u32 {
    if stat.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return 0;
    }
    let seconds = stat.stx_btime.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    seconds.wrapping_add(stat.stx_btime.tv_nsec.into()) as u32
}

const MOST_HANDLE_BYTES: usize = 128;

/// By what a file system finds a file without its path.
#[repr(C, align(4))]
#[derive(Clone)]
struct Handle {
    bytes: u32,
    kind: i32,
    content: [u8; MOST_HANDLE_BYTES],
}

const _: () = assert!(offset_of!(Handle, content) == 8);

impl Handle {
    fn of(file: impl AsFd) -> Option<Handle> {
        let mut handle =
            Handle { bytes: MOST_HANDLE_BYTES as u32, kind: 0, content: [0; MOST_HANDLE_BYTES] };
        let (nothing, mut mount) = (CString::default(), 0);
        // SAFETY: the path ends with a NUL byte; the kernel writes no more than the given number of bytes behind the
        // handle's head, and one number.
        let failed = unsafe {
            let fd = file.as_fd().as_raw_fd();
            let to = (&raw mut handle).cast();
            libc::name_to_handle_at(fd, nothing.as_ptr(), to, &raw mut mount, libc::AT_EMPTY_PATH)
        };
        (failed == 0).then_some(handle)
    }

    /// Where the inode and its generation stand in it. Each file system has a form of its own; of those where they
    /// stand as in these (ext4 and others, XFS, btrfs) it is known that a file is found by them.
    fn places(&self, inode: u64) -> Option<(std::ops::Range<usize>, usize)> {
        let has = |place: &std::ops::Range<usize>| {
            let inode = inode.to_ne_bytes();
            self.content[place.clone()] == inode[..place.len()]
                && inode[place.len()..] == [0; 8][place.len()..]
        };
        let (place, generation) = match (self.bytes, self.kind) {
            (8, 1) => (0..4, 4),
            (12, 0x81) => (0..8, 8),
            (20, 0x4d) => (0..8, 16),
            _ => return None,
        };
        has(&place).then_some((place, generation))
    }

    /// The generation of the inode that it is of.
    fn generation(&self, inode: u64) -> Option<u32> {
        let (_, at) = self.places(inode)?;
        Some(u32::from_ne_bytes(self.content[at..at + 4].try_into().ok()?))
    }

    /// Of another file on the same file system. A generation of 0 stands for any.
    fn of_other(&self, inode: u64, file: FileId) -> Option<Handle> {
        let (place, at) = self.places(inode)?;
        if file.generation == 0 || place.len() == 4 && file.inode > u32::MAX.into() {
            return None;
        }
        let mut other = self.clone();
        let length = place.len();
        other.content[place].copy_from_slice(&file.inode.to_ne_bytes()[..length]);
        other.content[at..at + 4].copy_from_slice(&file.generation.to_ne_bytes());
        Some(other)
    }

    fn open(mut self, on: &OwnedFd) -> rustix::io::Result<OwnedFd> {
        // SAFETY: the kernel reads as many bytes as the handle says that it has; what it returns is a new descriptor.
        unsafe {
            let handle = (&raw mut self).cast();
            let fd =
                libc::open_by_handle_at(on.as_raw_fd(), handle, libc::O_PATH | libc::O_CLOEXEC);
            match fd {
                0.. => Ok(OwnedFd::from_raw_fd(fd)),
                _ => {
                    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(path: &Path) -> FileId {
        let file = rustix::fs::open(path, OFlags::PATH, Mode::empty()).expect("it is there");
        let stat = about(&file).expect("it is known");
        let generation = birth(&stat);
        FileId {
            device: stat.stx_dev_major << 20 | stat.stx_dev_minor,
            generation,
            inode: stat.stx_ino,
        }
    }

    #[test]
    fn a_file_is_there_by_its_name_as_long_as_that_leads_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let looks = || LastLooks::new(Generation::Birth);
        let path = folder.path().join("file");
        std::fs::write(&path, "x").expect("written");
        let (file, name) = (id(&path), path.display().to_string());
        let there = LastLook::deleted(false, None);
        let stateless = |look: LastLook| LastLook { state: None, ..look };
        let found = looks().look(file, &name, i64::MAX);
        let state = found.state.expect("its file system says it").state;
        assert_eq!((state.size_bytes, state.mode & !0o022), (1, 0o644));
        let modified = std::fs::metadata(&path).expect("it is there").modified().expect("a time");
        let since_epoch = modified.duration_since(std::time::UNIX_EPOCH).expect("it is later");
        assert_eq!(i128::from(state.modified_ns), since_epoch.as_nanos() as i128);
        assert_eq!(stateless(found), there);
        let other = FileId { inode: file.inode + 1, ..file };
        assert_ne!(looks().look(other, &name, i64::MAX).is_deleted, Some(false));
        let renamed = folder.path().join("renamed");
        std::fs::rename(&path, &renamed).expect("renamed");
        let later = Some(renamed.display().to_string());
        let found = looks().look(file, &name, i64::MAX);
        assert_eq!(found.state.map(|end| end.state), Some(state), "its new name leads to it");
        assert_eq!(stateless(found), LastLook::deleted(false, later));
        std::fs::remove_file(&renamed).expect("removed");
        // On a large file system who has no rights does not know whether it has another name elsewhere.
        assert_ne!(looks().look(file, &name, i64::MAX).is_deleted, Some(false));
        assert_eq!(looks().look(file, "pipe:[7]", i64::MAX), LastLook::default());
    }
}
