//! The files of programs and libraries, by what they are called in events.
//!
//! Reads what is written: a path; the name of a library, which is looked for where the loader looks; the
//! name of a command. Of a process that runs (`--pid`) it is the file that this process has or would find:
//! it may have another root, or a library that was replaced since. Emits the file's functions and points.
//! Refuses what is not there, with the nearest names, and what is no program of this machine.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weigh_collect::procfs::{self, MapEntry};
use weigh_trace::error::Wrong;
use weigh_trace::executable::{Executable, ExecutableError};
use weigh_trace::signature::NoSignature;
use weigh_trace::suggest::nearest;

/// Where the loader looks if nobody says otherwise.
const FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Who says otherwise.
const CONFIGURATION: &str = "/etc/ld.so.conf";
const MORE: &str = "/etc/ld.so.conf.d";

/// Who finds them.
pub struct Programs {
    /// Whose files are meant.
    pid: Option<u32>,
    /// Those that were read: a thousand probes may be in one.
    known: RefCell<HashMap<PathBuf, (Stamp, Rc<Executable>)>>,
}

/// By what a file is known to be the same still: its number, its size, and when it was written.
type Stamp = (u64, u64, u64, i64, i64);

/// Why a file cannot be probed.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is no file")]
    NoFile,
    #[error(transparent)]
    NoExecutable(#[from] ExecutableError),
}

impl Programs {
    /// For a process that runs, or for whatever comes.
    pub fn of(pid: Option<u32>) -> Programs {
        Programs { pid, known: RefCell::default() }
    }

    /// The file that is called so.
    pub fn open(&self, name: &str) -> Result<Rc<Executable>, NoSignature> {
        match (self.pid, name.contains('/')) {
            (Some(pid), _) => self.of_process(pid, name),
            (None, true) => self.at(Path::new(name)),
            (None, false) if name.contains(".so") => self.of_folders(name, &library_folders()),
            (None, false) => self.of_folders(name, &folders_of("PATH")),
        }
    }

    fn at(&self, path: &Path) -> Result<Rc<Executable>, NoSignature> {
        self.read(path).map_err(|why| {
            let near = if matches!(why, ReadError::Io(_)) { neighbours(path) } else { Vec::new() };
            refuse(&path.display().to_string(), why, near)
        })
    }

    fn read(&self, path: &Path) -> Result<Rc<Executable>, ReadError> {
        let facts = fs::metadata(path)?;
        if !facts.is_file() {
            return Err(ReadError::NoFile);
        }
        let stamp = (facts.dev(), facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec());
        if let Some((then, known)) = self.known.borrow().get(path)
            && *then == stamp
        {
            return Ok(Rc::clone(known));
        }
        let file = Box::new(File::open(path)?);
        let read = Rc::new(Executable::read(&path.display().to_string(), file)?);
        self.known.borrow_mut().insert(path.to_path_buf(), (stamp, Rc::clone(&read)));
        Ok(read)
    }

    /// The first of this name that is of this machine.
    fn of_folders(&self, name: &str, folders: &[PathBuf]) -> Result<Rc<Executable>, NoSignature> {
        for folder in folders {
            let path = folder.join(name);
            match self.read(&path) {
                Err(ReadError::Io(_) | ReadError::NoExecutable(ExecutableError::OtherMachine)) => {}
                _ => return self.at(&path),
            }
        }
        let names: Vec<String> = folders.iter().flat_map(|folder| names_in(folder)).collect();
        let near = nearest(name, names.iter().map(String::as_str));
        Err(refuse(name, "there is no such library or command; a path has a '/'", near))
    }

    /// The file as a process that runs has it.
    fn of_process(&self, pid: u32, name: &str) -> Result<Rc<Executable>, NoSignature> {
        let maps = procfs::read_of(pid, "maps").map(|text| procfs::parse_maps(&text));
        let maps = maps.map_err(|error| refuse(name, error, Vec::new()))?;
        let is_it = |path: &str| match name.contains('/') {
            true => path == name,
            false => path.rsplit('/').next() == Some(name),
        };
        let mapped = maps.iter().filter(|map| map.inode != 0).find(|map| is_it(&path_of(map)));
        let Some(map) = mapped else {
            if Path::new(name).is_absolute() {
                // It may come to have it.
                return self.at(&in_its_root(pid, name));
            }
            let mut names: Vec<String> =
                maps.iter().map(path_of).filter(|path| path.starts_with('/')).collect();
            names.dedup();
            let near = nearest(name, names.iter().filter_map(|path| path.rsplit('/').next()));
            return Err(refuse(name, format!("process {pid} has no file of this name"), near));
        };
        let path = in_its_root(pid, &path_of(map));
        match fs::metadata(&path) {
            Ok(facts) if facts.ino() == map.inode => self.at(&path),
            // It was replaced since: what the process has is another file.
            _ => {
                self.at(Path::new(&format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end)))
            }
        }
    }
}

fn refuse(path: &str, why: impl ToString, near: Vec<String>) -> NoSignature {
    (Wrong::Executable { path: path.to_string(), why: why.to_string() }, near)
}

/// Files beside it with nearly its name.
fn neighbours(path: &Path) -> Vec<String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let near = nearest(&name.to_string_lossy(), names_in(folder).iter().map(String::as_str));
    near.iter().map(|name| folder.join(name).display().to_string()).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn folders_of(variable: &str) -> Vec<PathBuf> {
    let value = std::env::var_os(variable).unwrap_or_default();
    std::env::split_paths(&value).filter(|folder| folder.is_absolute()).collect()
}

fn library_folders() -> Vec<PathBuf> {
    let mut folders = folders_of("LD_LIBRARY_PATH");
    let mut files: Vec<PathBuf> =
        names_in(Path::new(MORE)).iter().map(|name| Path::new(MORE).join(name)).collect();
    files.sort();
    files.insert(0, CONFIGURATION.into());
    for file in files {
        let text = fs::read_to_string(file).unwrap_or_default();
        folders
            .extend(text.lines().map(str::trim).filter(|l| l.starts_with('/')).map(PathBuf::from));
    }
    folders.extend(FOLDERS.map(PathBuf::from));
    folders
}

fn in_its_root(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{path}"))
}

/// As the process called it when it took it in.
fn path_of(map: &MapEntry) -> String {
    let path = String::from_utf8_lossy(&map.name).into_owned();
    path.strip_suffix(" (deleted)").map(str::to_string).unwrap_or(path)
}
