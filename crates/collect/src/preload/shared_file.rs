//! Where the library and the shared file are while a job runs, and the file as weigh sees it.
//!
//! Emits a folder that only this run knows of, with both in it; both are gone when weigh lets go. Only the user
//! that weigh runs as can open the file: a process that writes it can harm every program that maps it.
//! What a weigh left that was killed is removed once nobody can have a use for it (`leftovers`).
//! Refuses folders from which nothing may be executed: the loader would complain on the standard
//! error of every program of the job; and those on a file system without room for what a job begins with.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::mem::offset_of;
use std::ops::{Deref, Range};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::error::PreloadError;
use super::layout::{Head, MAGIC, RECORDS, ROOM_STEP, Record, SLOTS, Shared, Slot};
use super::level::Level;
use super::program::LOADER;
use super::{cleanup, clock, io_table, old_libraries};
use crate::shared_map::SharedMap;

const LEVEL_2: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_preload_2.so"));
const LEVEL_3: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_preload_3.so"));
const LEVEL_4: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_preload_4.so"));

/// The name of the library, and the link by which programs load it. AddressSanitizer ends a program whose first library
/// is not called `libasan.so`, by the name that the loader was given; linked statically, one that has mapped a file of
/// that name. The library keeps out of such programs where it sees them executed, but a static program, or one that
/// makes the system call by itself, hands its environment on.
const LIBRARY: (&str, &str) = ("libweigh_preload.so", "weigh-before-libasan.so");

/// Slots that there is room for ahead of those that were taken: a few where programs can make more at any moment,
/// else as many as a job may take from one look to the next.
const AHEAD: [usize; 2] = [4 * ROOM_STEP, 64 * ROOM_STEP];

/// The longest path that fits into the shared file, with its NUL byte.
const PATH_BYTES: usize = 256;

/// How often a folder is made again that another weigh has swept before it was claimed.
const TRIES: u32 = 8;

/// A file that weigh and programs share.
pub struct SharedFile {
    /// Behind the name of the first one.
    pub suffix: &'static str,
    /// How long it is.
    pub bytes: usize,
    /// The parts that there must be room for before any program comes, where programs can make more room, and
    /// where they cannot.
    pub begins_with: fn(can_grow: bool) -> Vec<Range<usize>>,
}

impl SharedFile {
    fn make(&self, first: &Path) -> io::Result<SharedMap> {
        let mut name = first.as_os_str().to_owned();
        name.push(self.suffix);
        let file =
            File::options().read(true).write(true).create_new(true).mode(0o600).open(name)?;
        // Whatever the job's mask of permissions is.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(self.bytes as u64)?;
        let map = SharedMap::new(file, self.bytes)?;
        for part in (self.begins_with)(map.can_grow()) {
            map.make_room(part)?;
        }
        Ok(map)
    }
}

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
    pub fn new(
        last_resort: &Path,
        library: &[u8],
        files: &[SharedFile],
    ) -> Result<(Folder, Vec<SharedMap>), PreloadError> {
        let _lifted = FileSizeLimit::lift();
        let mut refused = Vec::new();
        for parent in candidates(last_resort) {
            cleanup::sweep(&parent);
            match Folder::within(&parent, library, files) {
                Ok(made) => return Ok(made),
                Err(error) if error.raw_os_error() == Some(libc::EFBIG) => {
                    return Err(too_large(files));
                }
                Err(error) => refused.push(format!("{}: {error}", parent.display())),
            }
        }
        Err(PreloadError::NoPlace { tried: refused.join("; ") })
    }

    /// Puts another library beside the first one.
    pub fn add_library(&self, name: &str, library: &[u8]) -> io::Result<PathBuf> {
        self.add(name, &old_libraries::fitted(library))
    }

    /// Puts a file that programs read into it.
    pub fn add(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent().filter(|parent| *parent != self.path) {
            std::fs::create_dir_all(parent)?;
            std::fs::set_permissions(parent, Permissions::from_mode(0o755))?;
        }
        let mut out = OpenOptions::new().write(true).create_new(true).open(&path)?;
        out.write_all(bytes)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(path)
    }

    fn within(
        parent: &Path,
        library: &[u8],
        files: &[SharedFile],
    ) -> io::Result<(Folder, Vec<SharedMap>)> {
        // Processes of the job may become other users, for whom the loader must find the library, though it can
        // open none of the files there, and does nothing.
        let may_change_user = rustix::process::geteuid().is_root();
        let folder_mode = if may_change_user { 0o711 } else { 0o700 };
        let (path, owner) = claimed(parent, folder_mode)?;
        let built = || -> io::Result<(Folder, Vec<SharedMap>)> {
            let name = path.join(LIBRARY.0);
            let mut out = OpenOptions::new().write(true).create_new(true).open(&name)?;
            out.write_all(&old_libraries::fitted(library))?;
            std::fs::set_permissions(&name, Permissions::from_mode(0o755))?;
            may_be_executed(&name)?;
            let link = path.join(LIBRARY.1);
            std::os::unix::fs::symlink(LIBRARY.0, &link)?;
            let file = path.join(random_name()?);
            if [&link, &file].iter().any(|p| p.as_os_str().len() >= PATH_BYTES) {
                return Err(io::Error::other("the path is too long"));
            }
            let maps = files.iter().map(|shared| shared.make(&file)).collect::<io::Result<_>>()?;
            Ok((Folder { path: path.clone(), library: link, file, _owner: owner }, maps))
        };
        // What is left of the folder where the making of a file failed is gone with it.
        built().inspect_err(|_| drop(std::fs::remove_dir_all(&path)))
    }
}

/// A new folder, held for as long as the file is open.
fn claimed(parent: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    let mut tries = 0..TRIES;
    loop {
        let path = parent.join(format!("{}{}", cleanup::PREFIX, random_name()?));
        std::fs::DirBuilder::new().mode(mode).create(&path)?;
        let allowed = std::fs::set_permissions(&path, Permissions::from_mode(mode));
        match allowed.and_then(|()| cleanup::claim(&path)) {
            Ok(owner) => return Ok((path, owner)),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                if !cleanup::is_swept(&error) || tries.next().is_none() {
                    return Err(error);
                }
            }
        }
    }
}

/// The limit on the size of files, lifted for as long as this lives. It is meant for the job, but only who has
/// CAP_SYS_RESOURCE may go beyond a hard one.
struct FileSizeLimit(Rlimit);

impl FileSizeLimit {
    fn lift() -> Option<FileSizeLimit> {
        let limit = getrlimit(Resource::Fsize);
        let none = Rlimit { current: None, maximum: None };
        let is_set = limit.maximum.is_some() && setrlimit(Resource::Fsize, none).is_ok();
        is_set.then_some(FileSizeLimit(limit))
    }
}

impl Drop for FileSizeLimit {
    fn drop(&mut self) {
        // To lower a limit is always allowed.
        let _ = setrlimit(Resource::Fsize, self.0);
    }
}

fn too_large(files: &[SharedFile]) -> PreloadError {
    let needed = files.iter().map(|file| file.bytes as u64).max().unwrap_or_default();
    PreloadError::FileSize { needed, most: getrlimit(Resource::Fsize).maximum.unwrap_or(u64::MAX) }
}

/// How programs find the library: what their environment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryEntry {
    /// Where the library is.
    pub library: PathBuf,
    /// The file that the programs share.
    pub file: PathBuf,
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The folder of one run, with the shared file as weigh sees it.
pub struct RunFolder {
    /// Where it is.
    pub folder: Folder,
    map: SharedMap,
    /// How many slots there is to be room for beyond those that were taken.
    ahead: usize,
}

/// Slots from one number to another, and their PIDs.
fn parts_of_slots(from: usize, to: usize) -> [Range<usize>; 2] {
    let (pids, slots) = (offset_of!(Shared, pids), offset_of!(Shared, slots));
    let (pid, slot) = (size_of::<AtomicU64>(), size_of::<Slot>());
    [pids + pid * from..pids + pid * to, slots + slot * from..slots + slot * to]
}

/// Records that there is room for at the beginning, on a level that tells of opens.
fn first_records(can_grow: bool) -> usize {
    if can_grow { ROOM_STEP } else { RECORDS }
}

fn begins_with(can_grow: bool) -> Vec<Range<usize>> {
    let slots = parts_of_slots(0, AHEAD[usize::from(!can_grow)]);
    std::iter::once(0..size_of::<Head>()).chain(slots).collect()
}

fn begins_with_records(can_grow: bool) -> Vec<Range<usize>> {
    let at = offset_of!(Shared, records);
    let records = at..at + size_of::<Record>() * first_records(can_grow);
    begins_with(can_grow).into_iter().chain([records]).collect()
}

impl RunFolder {
    /// Makes the folder, and begins the file; the other one that level 4 has, too.
    pub fn new(
        level: Level,
        last_resort: &Path,
    ) -> Result<(RunFolder, Option<SharedMap>), PreloadError> {
        let library = match level {
            Level::Processes => LEVEL_2,
            Level::Calls => LEVEL_3,
            Level::Files => LEVEL_4,
        };
        let begins_with = match level {
            Level::Processes => begins_with,
            Level::Calls | Level::Files => begins_with_records,
        };
        let mut files = vec![SharedFile { suffix: "", bytes: size_of::<Shared>(), begins_with }];
        files.extend((level == Level::Files).then_some(io_table::FILE));
        let (folder, maps) = Folder::new(last_resort, library, &files)?;
        let mut maps = maps.into_iter();
        let no_map = || PreloadError::NoPlace { tried: folder.path.display().to_string() };
        let map = maps.next().ok_or_else(no_map)?;
        let can_grow = map.can_grow();
        let place = RunFolder { folder, map, ahead: AHEAD[usize::from(!can_grow)] };
        place.head.room.store(place.ahead as u32, Ordering::Relaxed);
        if level != Level::Processes {
            place.head.record_room.store(first_records(can_grow) as u32, Ordering::Relaxed);
        }
        place.introduce();
        Ok((place, maps.next()))
    }

    /// Slots that there is room for.
    pub fn room(&self) -> usize {
        (self.head.room.load(Ordering::Acquire) as usize).min(SLOTS)
    }

    /// Makes room for slots before they are taken. A process that finds none is counted.
    pub fn keep_ahead(&self) {
        let (used, room) = (super::process::used(self), self.room());
        let more = (room + self.ahead).min(SLOTS);
        let is_needed = used + self.ahead > room && room < more;
        if is_needed
            && parts_of_slots(room, more).into_iter().all(|part| self.map.make_room(part).is_ok())
        {
            self.head.room.fetch_max(more as u32, Ordering::AcqRel);
        }
    }

    /// Whether a program has cut the file.
    pub fn is_cut(&self) -> bool {
        self.map.is_cut()
    }

    fn introduce(&self) {
        put(&self.head.file, self.folder.file.as_os_str().as_bytes());
        put(&self.head.library, self.folder.library.as_os_str().as_bytes());
        put(&self.head.loader, LOADER.as_bytes());
        self.head.lead_ns.store(crate::clock::lead_ns("boottime") as u64, Ordering::Relaxed);
        clock::tell(&self.head);
        if let Ok(about) = std::fs::symlink_metadata("/proc/self") {
            self.head.proc_device.store(about.dev(), Ordering::Relaxed);
        }
        self.head.magic.store(MAGIC, Ordering::Release);
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping is as large as the type, lives as long as `self`, and the type is
        // made of atomics only, for which every value is valid.
        unsafe { self.map.start().cast().as_ref() }
    }
}

impl Deref for RunFolder {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared()
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

/// Writes a text, cut so that a NUL byte follows it.
pub fn put(to: &[AtomicU8], text: &[u8]) {
    for (to, byte) in to[..to.len() - 1].iter().zip(text) {
        to.store(*byte, Ordering::Relaxed);
    }
}
