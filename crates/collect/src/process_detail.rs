//! One process in detail: its I/O, threads, open files and limits.
//!
//! Reads `/proc/PID/io`, `task/*/stat`, `fd` and `limits`; emits what they say, or why they cannot be read: most of them
//! are the owner's and root's alone.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use weigh_parse::allowed::resource_limits;
use weigh_schema::allowed::ResourceLimit;
use weigh_schema::byte_text;
use weigh_schema::printable::in_words;
use weigh_schema::recording::files;
use weigh_schema::top_detail::{MOST_FILES, MOST_THREADS, ProcessReading, TopFile, TopOpenFiles};

use crate::procfs::{self, Io, ProcError, Stat, parse_io, parse_stat};

/// Bytes read and written since its start.
pub fn io(pid: u32) -> ProcessReading<Io> {
    reading(procfs::read_of(pid, "io"), parse_io, "counters")
}

/// Its threads, in the order of their numbers.
pub fn threads(pid: u32) -> ProcessReading<Vec<Stat>> {
    let numbers = match numbers_in(format!("/proc/{pid}/task").into()) {
        Ok(numbers) => numbers,
        Err(error) => return ProcessReading::unavailable(why(&error)),
    };
    // One that has ended meanwhile is none.
    let stat = |tid: &u32| parse_stat(&procfs::read_of(pid, &format!("task/{tid}/stat")).ok()?);
    ProcessReading::of(numbers.iter().take(MOST_THREADS).filter_map(stat).collect())
}

/// What it has open.
pub fn open_files(pid: u32) -> ProcessReading<TopOpenFiles> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let numbers = match numbers_in(folder.clone()) {
        Ok(numbers) => numbers,
        Err(error) => return ProcessReading::unavailable(why(&error)),
    };
    let file = |descriptor: &u32| {
        let target = std::fs::read_link(folder.join(descriptor.to_string())).ok()?;
        let target = byte_text::keep(target.as_os_str().as_encoded_bytes());
        let (target, target_base64) = byte_text::shown_with_base64(&target);
        Some(TopFile { descriptor: *descriptor, target, target_base64 })
    };
    let list = numbers.iter().take(MOST_FILES).filter_map(file).collect();
    ProcessReading::of(TopOpenFiles { count: numbers.len() as u64, list })
}

/// The folder of the recording that it writes, if it does: its journal is open.
pub fn recording_folder(pid: u32) -> Option<PathBuf> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let target = |number: u32| std::fs::read_link(folder.join(number.to_string())).ok();
    let mut targets = numbers_in(folder.clone()).ok()?.into_iter().filter_map(target);
    let journal = targets.find(|target| target.ends_with(files::JOURNAL))?;
    journal.parent().map(PathBuf::from)
}

/// Its resource limits by their names; those that are not there are infinite.
pub fn limits(pid: u32) -> ProcessReading<BTreeMap<String, ResourceLimit>> {
    let parse = |text: &[u8]| Some(resource_limits(&String::from_utf8_lossy(text)));
    reading(procfs::read_of(pid, "limits"), parse, "limits")
}

fn reading<T>(
    text: Result<Vec<u8>, ProcError>,
    parse: impl FnOnce(&[u8]) -> Option<T>,
    what: &str,
) -> ProcessReading<T> {
    match text {
        Ok(text) => match parse(&text) {
            Some(value) => ProcessReading::of(value),
            None => ProcessReading::unavailable(format!("the kernel says no {what}")),
        },
        Err(ProcError::Read { source, .. }) => ProcessReading::unavailable(why(&source)),
        Err(error) => ProcessReading::unavailable(error.to_string()),
    }
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "only its user and root may read it".to_string(),
        _ if procfs::is_gone(error) => "it has ended".to_string(),
        _ => in_words(error.to_string()),
    }
}

/// The numbers that a folder of `/proc` has as names.
fn numbers_in(folder: PathBuf) -> io::Result<Vec<u32>> {
    let mut numbers: Vec<u32> = std::fs::read_dir(folder)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// Exact odd amounts, held to what this process itself does.
    #[test]
    fn this_process_is_read_in_detail() {
        let pid = std::process::id();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let before = io(pid).value.unwrap();
        file.write_all(&[7; 12_345]).unwrap();
        file.flush().unwrap();
        let after = io(pid).value.unwrap();
        assert!(after.write_chars >= before.write_chars + 12_345);
        let open = open_files(pid).value.unwrap();
        let path = file.path().to_str().unwrap();
        assert!(open.list.iter().any(|open| open.target == path), "{open:?}");
        let thread = std::thread::Builder::new().name("seven".into());
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = thread.spawn(move || wait.recv().is_ok()).unwrap();
        let named = || {
            threads(pid).value.is_some_and(|found| found.iter().any(|stat| stat.name == "seven"))
        };
        // Its name is given by itself.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !named() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(named());
        drop(go);
        thread.join().unwrap();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let found = limits(pid).value.unwrap();
        assert_eq!(found.get("open_files").and_then(|limit| limit.soft), limit.current);
    }

    #[test]
    fn a_recording_is_where_its_journal_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        assert_eq!(recording_folder(std::process::id()).filter(|found| *found == folder), None);
        let journal = std::fs::File::create(folder.join(files::JOURNAL)).unwrap();
        assert_eq!(recording_folder(std::process::id()), Some(folder));
        drop(journal);
        assert_eq!(recording_folder(u32::MAX), None);
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        assert_eq!(io(u32::MAX).reason.as_deref(), Some("it has ended"));
        assert!(open_files(u32::MAX).value.is_none() && threads(u32::MAX).value.is_none());
    }
}
