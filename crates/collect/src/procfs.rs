//! Reads files under `/proc`; what stands in them is [`weigh_parse::procfs`]'s to say.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use weigh_parse::procfs::*;

const _: () = assert!(SIGCHLD == libc::SIGCHLD.cast_unsigned());

/// What could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The file could not be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file says something unexpected.
    #[error("{path} holds no {what}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
}

impl ProcError {
    /// Whether the process simply is no more.
    pub fn is_gone(&self) -> bool {
        matches!(self, ProcError::Read { source, .. } if is_gone(source))
    }
}

/// Whether an error means that the process is no more.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Whether weigh sees processes by the numbers that the kernel side has for them.
pub fn is_initial_pid_namespace() -> bool {
    // The kernel gives it this number (PROC_PID_INIT_INO).
    const INITIAL: u64 = 0xefff_fffc;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|about| about.ino() == INITIAL)
}

/// Bytes for which there is room at first: most files have fewer.
const USUAL_BYTES: usize = 4096;

/// Reads a whole file. Neither its size nor the place in it is asked for, of which the kernel says nothing here.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, ProcError> {
    read_start(path, u64::MAX)
}

/// Reads a file up to so many bytes.
pub fn read_start(path: impl AsRef<Path>, most_bytes: u64) -> Result<Vec<u8>, ProcError> {
    let path = path.as_ref();
    let read_all = || {
        let mut text = Vec::with_capacity(USUAL_BYTES);
        File::open(path)?.take(most_bytes).read_to_end(&mut text)?;
        Ok(text)
    };
    read_all().map_err(|source| ProcError::Read { path: path.to_owned(), source })
}

/// The control groups that are mounted where weigh runs: read once, as they were then.
pub(crate) fn group_mounts() -> &'static [Mount] {
    static MOUNTS: OnceLock<Vec<Mount>> = OnceLock::new();
    MOUNTS.get_or_init(|| {
        let mut mounts = parse_mountinfo(&read("/proc/self/mountinfo").unwrap_or_default());
        mounts.retain(|mount| mount.kind.starts_with("cgroup"));
        mounts
    })
}

/// Reads `/proc/PID/stat`, which the kernel gives in one piece.
pub fn read_stat_text(pid: u32) -> Result<Vec<u8>, ProcError> {
    let path = format!("/proc/{pid}/stat");
    let read_once = || {
        let mut text = vec![0; USUAL_BYTES];
        let bytes = File::open(&path)?.read(&mut text)?;
        text.truncate(bytes);
        Ok(text)
    };
    read_once().map_err(|source| ProcError::Read { path: PathBuf::from(&path), source })
}

/// Reads `/proc/PID/NAME`.
pub fn read_of(pid: u32, name: &str) -> Result<Vec<u8>, ProcError> {
    read(format!("/proc/{pid}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_parse() {
        let pid = std::process::id();
        let stat = parse_stat(&read_stat_text(pid).unwrap()).unwrap();
        assert_eq!(stat.pid, pid);
        assert!(stat.rss_pages > 0 && stat.threads > 0 && stat.exit_code.is_some());
        let status = parse_status(&read_of(pid, "status").unwrap());
        assert_eq!(status.process, Some(pid));
        assert_eq!(status.parent_pid, Some(stat.parent_pid));
        assert!(status.rss_peak_bytes >= status.rss_bytes && status.rss_bytes > Some(0));
        assert!(parse_io(&read_of(pid, "io").unwrap()).unwrap().read_chars > 0);
        assert!(parse_mem_total(&read("/proc/meminfo").unwrap()).unwrap() > 1 << 20);
        let maps = parse_maps(&read_of(pid, "maps").unwrap());
        assert!(maps.iter().any(|m| m.name == b"[stack]"));
        let smaps = parse_smaps(&read_of(pid, "smaps").unwrap());
        assert!(smaps.len().abs_diff(maps.len()) < 20);
        let (rss, pss) = parse_smaps_rollup(&read_of(pid, "smaps_rollup").unwrap()).unwrap();
        assert!(rss >= pss && pss > 0);
        assert!(
            parse_mountinfo(&read_of(pid, "mountinfo").unwrap())
                .iter()
                .any(|m| m.point == Path::new("/proc") && m.kind == "proc")
        );
    }

    #[test]
    fn a_vanished_process_is_told_from_other_errors() {
        assert!(read_of(u32::MAX, "stat").unwrap_err().is_gone());
        assert!(read_stat_text(u32::MAX).unwrap_err().is_gone());
        assert!(!read("/proc").unwrap_err().is_gone());
    }
}
