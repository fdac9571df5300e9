//! Where the library and the shared file are while a job runs, and the file as weigh sees it.
//!
//! Emits a folder that only this run knows of, with both in it; both are gone when weigh lets go.
//! What a weigh left that was killed is removed once nobody can have a use for it (`leftovers`).
//! Refuses folders from which nothing may be executed: the loader would complain on the standard
//! error of every program of the job.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::layout::{MAGIC, Shared};
use super::{Level, PreloadError, clock, leftovers};
use crate::io::FileSystem;

const LEVEL_2: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_preload_2.so"));
const LEVEL_3: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_preload_3.so"));
const LEVEL_4: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_preload_4.so"));

/// The dynamic loader that the library is for.
pub const LOADER: &str = if cfg!(target_arch = "aarch64") {
    "/lib/ld-linux-aarch64.so.1"
} else {
    "/lib64/ld-linux-x86-64.so.2"
};

/// The longest path that fits into the shared file, with its NUL byte.
const PATH_BYTES: usize = 256;

/// A folder that only one run knows of, with a library and a file that its programs share.
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// The library.
    pub library: PathBuf,
    /// The shared file.
    pub file: PathBuf,
    /// Held as long as weigh lives: who can lock it knows that it does not.
    _owner: File,
}

impl Folder {
    /// Makes it in the first place that allows it; where nothing else can be written, in the last
    /// resort.
    pub fn new(last_resort: &Path, library: &[u8], bytes: u64) -> Result<Folder, PreloadError> {
        let mut refused = Vec::new();
        for parent in candidates(last_resort) {
            leftovers::sweep(&parent);
            match Folder::within(&parent, library, bytes) {
                Ok(folder) => return Ok(folder),
                Err(error) => refused.push(format!("{}: {error}", parent.display())),
            }
        }
        Err(PreloadError::NoPlace { tried: refused.join("; ") })
    }

    fn within(parent: &Path, library: &[u8], bytes: u64) -> io::Result<Folder> {
        // Processes of the job may become other users. They can not list the folder, and nobody
        // can guess the name: only who was given it in his environment gets in.
        let may_change_user = rustix::process::geteuid().is_root();
        let (folder_mode, file_mode) =
            if may_change_user { (0o711, 0o666) } else { (0o700, 0o600) };
        let path = parent.join(format!("{}{}", leftovers::PREFIX, random_name()?));
        std::fs::DirBuilder::new().mode(folder_mode).create(&path)?;
        let built = || -> io::Result<(PathBuf, PathBuf, File)> {
            std::fs::set_permissions(&path, Permissions::from_mode(folder_mode))?;
            let owner = leftovers::claim(&path)?;
            let name = path.join("libweigh_preload.so");
            let mut out = OpenOptions::new().write(true).create_new(true).open(&name)?;
            out.write_all(library)?;
            std::fs::set_permissions(&name, Permissions::from_mode(0o755))?;
            may_be_executed(&name)?;
            let file = path.join(random_name()?);
            if [&name, &file].iter().any(|p| p.as_os_str().len() >= PATH_BYTES) {
                return Err(io::Error::other("the path is too long"));
            }
            let shared = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(file_mode)
                .open(&file)?;
            shared.set_permissions(Permissions::from_mode(file_mode))?;
            shared.set_len(bytes)?;
            Ok((name, file, owner))
        };
        match built() {
            Ok((library, file, owner)) => Ok(Folder { path, library, file, _owner: owner }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }
}

impl Folder {
    /// Another file that the programs share, named after the first one.
    pub fn another(&self, suffix: &str, bytes: u64) -> io::Result<File> {
        let mut name = self.file.clone().into_os_string();
        name.push(suffix);
        let file = File::options().read(true).write(true).create_new(true).open(name)?;
        file.set_permissions(std::fs::metadata(&self.file)?.permissions())?;
        file.set_len(bytes)?;
        Ok(file)
    }
}

/// How programs find the library: what their environment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryEntry {
    /// Where the library is.
    pub library: PathBuf,
    /// The file that the programs share.
    pub file: PathBuf,
}

/// What is of the library, and not of the job: itself, and the files that its programs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryFiles {
    /// The file system's device, as the kernel has it.
    pub device: u32,
    /// Their inodes.
    pub inodes: [u64; 3],
}

impl Folder {
    /// Which they are; `suffix` is the other shared file's.
    pub fn files(&self, suffix: &str) -> io::Result<LibraryFiles> {
        let mut other = self.file.clone().into_os_string();
        other.push(suffix);
        let inode = |path: &Path| std::fs::metadata(path).map(|about| about.ino());
        let inodes = [inode(&self.library)?, inode(&self.file)?, inode(Path::new(&other))?];
        let device = FileSystem::of(&self.path).map_err(io::Error::other)?.device;
        Ok(LibraryFiles { device, inodes })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The folder of one run, with the shared file as weigh sees it.
pub struct Place {
    /// Where it is.
    pub folder: Folder,
    map: NonNull<Shared>,
}

impl Place {
    /// Makes the folder, and begins the file.
    pub fn new(level: Level, last_resort: &Path) -> Result<Place, PreloadError> {
        let library = match level {
            Level::Processes => LEVEL_2,
            Level::Calls => LEVEL_3,
            Level::Files => LEVEL_4,
        };
        let folder = Folder::new(last_resort, library, size_of::<Shared>() as u64)?;
        let mapped = File::options().read(true).write(true).open(&folder.file);
        let map = mapped.and_then(|file| map(&file)).map_err(|error| PreloadError::NoPlace {
            tried: format!("{}: {error}", folder.path.display()),
        })?;
        let place = Place { folder, map };
        place.introduce();
        Ok(place)
    }

    fn introduce(&self) {
        put(&self.head.file, self.folder.file.as_os_str().as_bytes());
        put(&self.head.library, self.folder.library.as_os_str().as_bytes());
        put(&self.head.loader, LOADER.as_bytes());
        self.head.lead_ns.store(clock::lead_ns() as u64, Ordering::Relaxed);
        clock::tell(&self.head);
        if let Ok(about) = std::fs::symlink_metadata("/proc/self") {
            self.head.proc_device.store(about.dev(), Ordering::Relaxed);
        }
        self.head.magic.store(MAGIC, Ordering::Release);
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping is as large as the type, lives as long as `self`, and the type is
        // made of atomics only, for which every value is valid.
        unsafe { self.map.as_ref() }
    }
}

impl Deref for Place {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from the mapping any more; it is unmapped once.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), size_of::<Shared>()) };
    }
}

/// Temporary places in memory first: what is written to the file is never worth a disk.
fn candidates(last_resort: &Path) -> Vec<PathBuf> {
    let named = ["XDG_RUNTIME_DIR", "TMPDIR"].iter().filter_map(std::env::var_os);
    let named: Vec<PathBuf> = named.map(PathBuf::from).filter(|p| p.is_absolute()).collect();
    let mut all = vec![PathBuf::from("/dev/shm")];
    all.extend(named);
    all.extend(["/tmp", "/var/tmp"].map(PathBuf::from));
    all.extend(std::path::absolute(last_resort));
    all
}

fn random_name() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Whether the loader could map it: a file system may be mounted `noexec`.
fn may_be_executed(library: &Path) -> io::Result<()> {
    let file = File::open(library)?;
    // SAFETY: a new private mapping that nobody uses, gone at once.
    unsafe {
        let flags = ProtFlags::READ | ProtFlags::EXEC;
        let map = mmap(std::ptr::null_mut(), 4096, flags, MapFlags::PRIVATE, &file, 0)?;
        munmap(map, 4096)?;
    }
    Ok(())
}

fn map(file: &File) -> io::Result<NonNull<Shared>> {
    let (flags, size) = (ProtFlags::READ | ProtFlags::WRITE, size_of::<Shared>());
    // SAFETY: a new mapping; the file has this size and is only ever mapped.
    let map = unsafe { mmap(std::ptr::null_mut(), size, flags, MapFlags::SHARED, file, 0)? };
    NonNull::new(map.cast()).ok_or_else(|| io::Error::other("mapped at 0"))
}

/// Writes a text, cut so that a NUL byte follows it.
pub fn put(to: &[AtomicU8], text: &[u8]) {
    for (to, byte) in to[..to.len() - 1].iter().zip(text) {
        to.store(*byte, Ordering::Relaxed);
    }
}
