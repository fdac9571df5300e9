//! Whether a program will want to trace others itself: a process can have one tracer only.
//!
//! Reads the executable file, once for each version of it: `weigh_parse::executable` says what of it.
//! What cannot be read or understood counts as a program that does not trace, and so does a static
//! one without names that makes the call in another way than C libraries do, or beyond the
//! part that is looked through. So does a file that a process serves (FUSE): it may be
//! one of the job, and stand still while the tracer waits for it.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind, ReadCache};
use rustix::fs::{AtFlags, StatxFlags};
use weigh_parse::executable;

use crate::preload::program::{head as head_of_program, of_elf as why_blind_in_elf};
use crate::procfs;

/// More programs than this are not remembered.
const MOST: usize = 1024;

/// What a program is known to want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it lies, as `/proc` names it.
    pub path: PathBuf,
    /// Why it has to be left alone, if it has to.
    pub traces: Option<&'static str>,
    /// The user it is to run as, if it is a set-user-ID program on a file system that lets it.
    pub runs_as: Option<u32>,
    /// Whether the loader that it names is the one that a library is for.
    pub can_have_library: bool,
    /// What the kernel has read to execute it: bytes and calls.
    pub header_reads: (u64, u64),
}

/// A version of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Version {
    device: (u32, u32),
    inode: u64,
    modified: (i64, u32),
}

/// What a version of a file says of itself.
#[derive(Clone, Copy)]
struct Content {
    traces: Option<&'static str>,
    can_have_library: bool,
    header_reads: (u64, u64),
}

impl Content {
    /// Of one that must not be read.
    const UNREAD: Content = Content { traces: None, can_have_library: true, header_reads: (0, 0) };

    fn of(path: &Path) -> Content {
        let Ok(head) = head_of_program(path) else { return Content::UNREAD };
        Content {
            traces: why_it_traces(path),
            can_have_library: why_blind_in_elf(&head) == 0,
            header_reads: header_reads(&head),
        }
    }
}

/// What the kernel reads to execute a program: the beginning of its file (BINPRM_BUF_SIZE), its headers, and the same
/// of the loader that it names. Of what is no ELF file, the first alone is known.
fn header_reads(head: &[u8]) -> (u64, u64) {
    const FIRST: usize = 256;
    let first = (head.len().min(FIRST) as u64, 1);
    let parsed = match FileKind::parse(head) {
        Ok(FileKind::Elf64) => headers::<FileHeader64<Endianness>>(head),
        Ok(FileKind::Elf32) => headers::<FileHeader32<Endianness>>(head),
        _ => None,
    };
    let Some((headers, loader)) = parsed else { return first };
    let mut reads = vec![first, (headers, 1)];
    if let Some(name) = loader {
        reads.push((name.len() as u64, 1));
        let path = crate::procfs::path_of(name.strip_suffix(b"\0").unwrap_or(name).to_vec());
        let loader = head_of_program(&path).unwrap_or_default();
        let own = match FileKind::parse(&*loader) {
            Ok(FileKind::Elf64) => headers_of_loader::<FileHeader64<Endianness>>(&loader),
            Ok(FileKind::Elf32) => headers_of_loader::<FileHeader32<Endianness>>(&loader),
            _ => None,
        };
        reads.extend(own.map(|bytes| (bytes, 2)));
    }
    reads.iter().fold((0, 0), |sum, read| (sum.0 + read.0, sum.1 + read.1))
}

/// How many bytes a program's headers have, and the name of its loader.
fn headers<H: FileHeader<Endian = Endianness>>(head: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    let header = H::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let bytes = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
    let parts = header.program_headers(endian, head).ok()?;
    let loader = parts.iter().find(|part| part.p_type(endian) == object::elf::PT_INTERP);
    Some((bytes, loader.and_then(|part| part.data(endian, head).ok())))
}

/// The loader's first header, and the others.
fn headers_of_loader<H: FileHeader<Endian = Endianness>>(head: &[u8]) -> Option<u64> {
    Some(size_of::<H>() as u64 + headers::<H>(head)?.0)
}

/// What is known of programs.
#[derive(Default)]
pub struct Programs {
    known: HashMap<Version, Content>,
}

impl Programs {
    /// The program that a process has just begun to execute.
    pub fn of(&mut self, pid: u32) -> Option<Program> {
        let link = format!("/proc/{pid}/exe");
        // Not synchronised: so the file system is not asked.
        let (flags, wanted) = (AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
        let facts = rustix::fs::statx(rustix::fs::CWD, &link, flags, wanted).ok()?;
        let device = (facts.stx_dev_major, facts.stx_dev_minor);
        let version = Version {
            device,
            inode: facts.stx_ino,
            modified: (facts.stx_mtime.tv_sec, facts.stx_mtime.tv_nsec),
        };
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let is_served = || {
            let mounts = procfs::read_of(pid, "mountinfo").unwrap_or_default();
            is_on_fuse(&String::from_utf8_lossy(&mounts), device)
        };
        let content = *self.known.entry(version).or_insert_with(|| match is_served() {
            true => Content::UNREAD,
            false => Content::of(Path::new(&link)),
        });
        let Content { traces, can_have_library, header_reads } = content;
        let is_set_user = u32::from(facts.stx_mode) & libc::S_ISUID != 0;
        let runs_as =
            (is_set_user && !is_served() && may_change_user(&link)).then_some(facts.stx_uid);
        // Asked for only where it is told.
        let path = (traces.is_some() || runs_as.is_some()).then(|| std::fs::read_link(&link).ok());
        let path = path.flatten().unwrap_or_default();
        Some(Program { path, traces, runs_as, can_have_library, header_reads })
    }
}

/// Whether a device is a file system that a process serves, by the lines of `mountinfo`.
fn is_on_fuse(mounts: &str, (major, minor): (u32, u32)) -> bool {
    let device = format!("{major}:{minor}");
    mounts.lines().any(|line| {
        let of_device = line.split(' ').nth(2) == Some(&device);
        let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
        of_device && kind.is_some_and(|kind| kind.starts_with("fuse"))
    })
}

fn may_change_user(path: &str) -> bool {
    use rustix::fs::StatVfsMountFlags;
    rustix::fs::statvfs(path).is_ok_and(|fs| !fs.f_flag.contains(StatVfsMountFlags::NOSUID))
}

fn why_it_traces(path: &Path) -> Option<&'static str> {
    executable::why_it_traces(&ReadCache::new(File::open(path).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_trace_are_known_by_their_symbols() {
        assert_eq!(why_it_traces(Path::new("/bin/sh")), None);
        assert_eq!(why_it_traces(Path::new("/etc/passwd")), None);
        assert_eq!(why_it_traces(Path::new("/proc/self/no such file")), None);
        // The test itself is linked with the tracer of this crate.
        let own = why_it_traces(&std::env::current_exe().unwrap());
        assert_eq!(own, Some("traces other processes"));
    }

    #[test]
    fn a_static_program_is_known_by_its_functions() {
        let folder = tempfile::tempdir().unwrap();
        let build = |name: &str, source: &str, more: &[&str]| {
            let (path, text) = (folder.path().join(name), folder.path().join("source.c"));
            std::fs::write(&text, source).unwrap();
            let mut compiler = std::process::Command::new("cc");
            let done = compiler.args(["-static", "-o"]).arg(&path).arg(&text).args(more).status();
            assert!(done.unwrap().success());
            path
        };
        let source =
            "#include <sys/ptrace.h>\nint main(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }";
        let why = why_it_traces(&build("traces", source, &[]));
        assert_eq!(why, Some("traces other processes"));
        let why = why_it_traces(&build("stripped", source, &["-s"]));
        assert_eq!(why, Some("traces other processes"));
        let other = "#include <stdio.h>\nint main(void) { return puts(\"ptrace\") < 0; }";
        assert_eq!(why_it_traces(&build("other", other, &[])), None);
        assert_eq!(why_it_traces(&build("other-stripped", other, &["-s"])), None);
    }

    #[test]
    fn a_file_that_a_process_serves_is_known_by_its_mount() {
        let mounts = "36 35 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      98 36 0:57 / /tmp/.mount_app ro,nosuid master:3 - fuse.app app ro\n";
        assert!(is_on_fuse(mounts, (0, 57)));
        assert!(!is_on_fuse(mounts, (8, 1)));
        assert!(!is_on_fuse(mounts, (0, 5)));
    }
}
