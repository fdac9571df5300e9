//! From a directory's handle and a name to a path.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

use weigh_parse::fanotify::Location;

use crate::procfs::path_of;

type FileSystem = [u8; 8];

/// Knows where file systems are mounted, and for one batch the directories met in it.
#[derive(Default)]
pub struct Resolver {
    points: HashMap<FileSystem, PathBuf>,
    /// Open only while a batch is resolved: an open mount root would keep the job from unmounting.
    roots: HashMap<FileSystem, Option<File>>,
    /// For one batch only, for directories move.
    folders: HashMap<(FileSystem, Vec<u8>), Option<PathBuf>>,
}

impl Resolver {
    /// Notes a mount point. The first of a file system wins.
    pub fn add(&mut self, point: &Path) {
        if let Some(file_system) = file_system_of(point) {
            self.points.entry(file_system).or_insert_with(|| point.to_owned());
        }
    }

    /// The path of a file now; `None` if its directory is gone.
    pub fn path(&mut self, location: &Location) -> Option<PathBuf> {
        let key = (location.file_system, location.handle.clone());
        if !self.folders.contains_key(&key) {
            let folder = self.folder(location);
            self.folders.insert(key.clone(), folder);
        }
        let folder = self.folders.get(&key)?.as_ref()?;
        Some(match location.name.as_slice() {
            b"." => folder.clone(),
            name => folder.join(path_of(name.to_vec())),
        })
    }

    /// Ends a batch: lets go of all mounts.
    pub fn close(&mut self) {
        self.roots.clear();
        self.folders.clear();
    }

    fn folder(&mut self, location: &Location) -> Option<PathBuf> {
        let points = &self.points;
        let root = self
            .roots
            .entry(location.file_system)
            .or_insert_with(|| File::open(points.get(&location.file_system)?).ok())
            .as_ref()?;
        let folder = open_by_handle(root, location)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()?;
        path.is_absolute().then_some(path)
    }
}

fn file_system_of(point: &Path) -> Option<FileSystem> {
    let stat = rustix::fs::statfs(point).ok()?;
    // SAFETY: the kernel's `fsid_t` is two 32-bit numbers without padding, private in rustix; the
    // sizes are compared by the compiler and any bytes are valid for an array of bytes.
    Some(unsafe { std::mem::transmute::<rustix::fs::Fsid, FileSystem>(stat.f_fsid) })
}

/// `struct file_handle`.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; libc::MAX_HANDLE_SZ as usize],
}

fn open_by_handle(root: &File, location: &Location) -> Option<File> {
    let mut handle = Handle {
        bytes: u32::try_from(location.handle.len()).ok()?,
        kind: location.handle_type,
        data: [0; libc::MAX_HANDLE_SZ as usize],
    };
    handle.data.get_mut(..location.handle.len())?.copy_from_slice(&location.handle);
    // SAFETY: the handle is laid out as the kernel wants it, its length is checked against its
    // room just above, and it lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            root.as_raw_fd(),
            &raw mut handle,
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Some(unsafe { File::from_raw_fd(fd as i32) })
}
