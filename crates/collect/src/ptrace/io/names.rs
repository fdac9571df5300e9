//! Which file loses its last name by a call: looked at before the call, for afterwards nobody can say.
//!
//! Reads paths in the thread's memory, and asks what they lead to where the kernel has that in memory: no file system
//! is asked, for a process of the job may serve it, and would wait for weigh.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libc::{c_int, c_long};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use weigh_schema::io::FileId;

use super::files::{self, Referred};
use crate::ptrace::calls::descriptor::Name;
use crate::ptrace::sys::{Call, read_text};

/// A folder's descriptor, and where the path lies that begins there.
type PathArgument = (c_int, u64);

/// What a call would take a name from: that file, and which one gets the name instead.
fn places(call: &Call) -> Option<(PathArgument, Option<PathArgument>)> {
    let [a, b, c, d, flags, _] = call.arguments;
    match c_long::try_from(call.number).ok()? {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink => Some(((libc::AT_FDCWD, a), None)),
        libc::SYS_unlinkat if c & libc::AT_REMOVEDIR as u64 == 0 => Some(((a as c_int, b), None)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => Some(((libc::AT_FDCWD, b), Some((libc::AT_FDCWD, a)))),
        libc::SYS_renameat => Some(((c as c_int, d), Some((a as c_int, b)))),
        libc::SYS_renameat2 if flags & u64::from(libc::RENAME_EXCHANGE) == 0 => {
            Some(((c as c_int, d), Some((a as c_int, b))))
        }
        _ => None,
    }
}

/// The file that has no name any more when the call has been made.
pub fn loses_last(tid: u32, call: &Call) -> Option<FileId> {
    let (loses, gets) = places(call)?;
    let (file, links) = at(tid, loses)?;
    // To rename a file to its own name does nothing.
    let is_its_own =
        || gets.is_some_and(|gets| at(tid, gets).is_some_and(|(other, _)| other.file == file.file));
    (links == 1 && !is_its_own()).then_some(file.file)
}

/// What is there, and how many names it has.
fn at(tid: u32, (folder, path): PathArgument) -> Option<(Referred, u32)> {
    let text = read_text(tid, path)?;
    let path = Path::new(OsStr::from_bytes(&text));
    let of_thread = |name: &str| format!("/proc/{tid}/{name}");
    let reference = OFlags::PATH | OFlags::CLOEXEC;
    let base = match (path.is_absolute(), folder) {
        (true, _) => rustix::fs::open(of_thread("root"), reference, Mode::empty()),
        (false, libc::AT_FDCWD) => rustix::fs::open(of_thread("cwd"), reference, Mode::empty()),
        (false, fd) => rustix::fs::open(Name::of("fd", tid, fd).text(), reference, Mode::empty()),
    };
    let resolve = match path.is_absolute() {
        true => ResolveFlags::CACHED | ResolveFlags::IN_ROOT,
        false => ResolveFlags::CACHED,
    };
    let found = openat2(base.ok()?, path, reference | OFlags::NOFOLLOW, Mode::empty(), resolve);
    files::about(&found.ok()?)
}
