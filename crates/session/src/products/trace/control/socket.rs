//! The socket that a stream listens at, in the folder of its user's streams.
//!
//! Takes away what streams that were killed have left there: sockets of this user's, whose process is gone, and at
//! which nobody answers. Everything else stays.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, geteuid, test_kill_process};

/// Where this user's streams listen; none if there is no place for that.
pub fn folder() -> Option<PathBuf> {
    if geteuid().is_root() {
        return Some(PathBuf::from("/run/weigh"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
    Some(PathBuf::from(runtime).join("weigh"))
}

/// The name of a stream's socket.
pub fn name(pid: u32) -> String {
    format!("trace-{pid}.sock")
}

/// Whose socket a file of that name would be.
pub fn pid_of(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("trace-")?.strip_suffix(".sock")?.parse().ok()
}

/// Listens there.
pub fn listen(folder: PathBuf) -> io::Result<(UnixListener, PathBuf)> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder)?;
    let path = folder.join(name(std::process::id()));
    // Of one with the same number that was killed.
    let _ = fs::remove_file(&path);
    clear(&folder, &path);
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Takes away what was left. What is not to be had stays: it harms nobody.
fn clear(folder: &Path, own: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Some(pid) = pid_of(&entry.file_name())
            && let Some(left) = left_at(&path, pid)
        {
            take_away(&path, left, own);
        }
    }
}

/// FileIdentity file it is: device, number, and since when.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileIdentity(u64, u64, i64, i64);

impl FileIdentity {
    fn of(file: &fs::Metadata) -> FileIdentity {
        FileIdentity(file.dev(), file.ino(), file.mtime(), file.mtime_nsec())
    }
}

/// The socket there, if nobody will listen at it any more. Its process may be one of another PID namespace: so it is
/// asked, too.
fn left_at(path: &Path, pid: u32) -> Option<FileIdentity> {
    let file = fs::symlink_metadata(path).ok()?;
    let is_own = file.file_type().is_socket() && file.uid() == geteuid().as_raw();
    (is_own && is_gone(pid) && nobody_listens(path)).then(|| FileIdentity::of(&file))
}

fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

fn nobody_listens(path: &Path) -> bool {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asked = SocketAddrUnix::new(path)
        .and_then(|address| connect(&socket_with(family, kind, flags, None)?, &address));
    asked == Err(Errno::CONNREFUSED)
}

/// Meanwhile the number may have become another stream's, which has put its own socket there: so what is there is
/// put aside first, to the place of this process's own, and put back if it is not what was looked at.
fn take_away(path: &Path, left: FileIdentity, own: &Path) {
    if fs::rename(path, own).is_err() {
        return;
    }
    let is_that = fs::symlink_metadata(own).is_ok_and(|file| FileIdentity::of(&file) == left);
    let _ = if is_that { fs::remove_file(own) } else { fs::rename(own, path) };
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A number that was a process's, and is nobody's.
    fn gone() -> u32 {
        let mut process = Command::new("true").spawn().expect("it starts");
        process.wait().expect("it ends");
        process.id()
    }

    /// A socket that nobody listens at any more.
    fn left(folder: &Path, pid: u32) -> PathBuf {
        let path = folder.join(name(pid));
        UnixListener::bind(&path).expect("a socket");
        path
    }

    #[test]
    fn what_streams_that_were_killed_have_left_is_taken_away_and_nothing_else() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let at = folder.path();
        let mut one_more = Command::new("sleep").arg("60").spawn().expect("it starts");
        let killed = left(at, gone());
        let of_one_that_lives = left(at, one_more.id());
        let file = at.join(name(gone()));
        fs::write(&file, "precious").expect("a file");
        let answers = at.join(name(gone()));
        let _listens = UnixListener::bind(&answers).expect("a socket");
        let other = at.join("agent.sock");
        UnixListener::bind(&other).expect("a socket");
        let of_another = geteuid().is_root().then(|| left(at, gone()));
        if let Some(path) = &of_another {
            std::os::unix::fs::chown(path, Some(65534), None).expect("root may");
        }

        let (_listener, own) = listen(at.to_path_buf()).expect("a place");
        assert!(!killed.exists());
        for stays in
            [&of_one_that_lives, &file, &answers, &other, &own].into_iter().chain(&of_another)
        {
            assert!(stays.exists(), "{}", stays.display());
        }
        one_more.kill().and_then(|()| one_more.wait()).expect("it ends");
    }

    #[test]
    fn a_socket_that_came_meanwhile_stays() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (own, number) = (folder.path().join("own"), gone());
        let path = left(folder.path(), number);
        let looked_at = left_at(&path, number).expect("nobody's");
        fs::remove_file(&path).expect("it is there");
        let _listens = UnixListener::bind(&path).expect("a socket");
        take_away(&path, looked_at, &own);
        assert!(path.exists() && !own.exists());
    }
}
