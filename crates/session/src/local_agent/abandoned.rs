//! Folders that a weigh has left behind that was killed: each holds a socket that nobody listens at any more.
//!
//! A folder is held by a shared lock on itself, as long as a weigh lives that serves there. Removed is what nobody
//! holds, of the same user, with sockets in it that refuse a connection and nothing else; of folders that weigh alone
//! writes into, all that is in them. Never told by a process's number, and no link is followed.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, statat,
    unlinkat,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Holds a folder; nothing if it has been taken for an abandoned one meanwhile.
pub fn hold(folder: &Path) -> Option<OwnedFd> {
    let held = open(CWD, folder.as_os_str()).ok()?;
    flock(&held, FlockOperation::LockShared).ok()?;
    (fstat(&held).ok()?.st_nlink > 0).then_some(held)
}

/// Removes what is left in `parent`.
pub fn sweep(parent: &Path) {
    let Ok(parent_fd) = open(CWD, parent.as_os_str()) else { return };
    let Ok(entries) = Dir::read_from(&parent_fd) else { return };
    for entry in entries.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_name(name) {
            let _ = remove(parent_fd.as_fd(), parent, name);
        }
    }
}

/// Removes what is left in `parent` of folders whose names begin so, with all that is in them.
pub fn sweep_whole(parent: &Path, prefix: &str) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.as_bytes().starts_with(prefix.as_bytes())
            && let Ok(_held) = take_over(CWD, entry.path().as_os_str())
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder of this user's that nobody holds; a weigh that makes one waits for this, and finds it removed.
fn take_over(at: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let folder = open(at, name)?;
    if fstat(&folder)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(rustix::io::Errno::PERM);
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// `weigh-PID-` and eight hexadecimal digits.
fn is_name(name: &OsStr) -> bool {
    let parts = || {
        let (pid, number) = name.to_str()?.strip_prefix("weigh-")?.split_once('-')?;
        let is_hexadecimal = number.len() == 8 && number.bytes().all(|b| b.is_ascii_hexdigit());
        Some(!pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) && is_hexadecimal)
    };
    parts().unwrap_or(false)
}

fn open(at: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

fn remove(parent: BorrowedFd<'_>, path: &Path, name: &OsStr) -> rustix::io::Result<()> {
    let folder = take_over(parent, name)?;
    let mut sockets = Vec::new();
    for entry in Dir::read_from(&folder)?.flatten() {
        let entry = entry.file_name().to_owned();
        if matches!(entry.to_bytes(), b"." | b"..") {
            continue;
        }
        let about = statat(&folder, &entry, AtFlags::SYMLINK_NOFOLLOW)?;
        let socket = path.join(name).join(OsStr::from_bytes(entry.to_bytes()));
        if FileType::from_raw_mode(about.st_mode) != FileType::Socket || is_listening(&socket) {
            return Ok(());
        }
        sockets.push(entry);
    }
    for socket in sockets {
        unlinkat(&folder, &socket, AtFlags::empty())?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// An older weigh holds no lock. Whatever it is but a refusal, somebody may be there.
fn is_listening(path: &Path) -> bool {
    let refused = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)
    };
    refused() != Err(rustix::io::Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    /// A socket in a folder of that name, with its listener.
    fn left(parent: &Path, name: &str) -> UnixListener {
        std::fs::create_dir(parent.join(name)).expect("a folder");
        UnixListener::bind(parent.join(name).join("0123456789abcdef")).expect("a socket")
    }

    #[test]
    fn what_nobody_holds_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().expect("a folder");
        let at = |name: &str| parent.path().join(name);
        drop(left(parent.path(), "weigh-1-01234567"));
        std::fs::create_dir(at("weigh-2-01234567")).expect("a folder");
        let stays =
            ["weigh-3-01234567", "weigh-4-0123456g", "weigh-5-01234567", "weigh-6-01234567"];
        drop(left(parent.path(), stays[0]));
        let held = hold(&at(stays[0])).expect("it is held");
        drop(left(parent.path(), stays[1]));
        drop(left(parent.path(), stays[2]));
        std::fs::write(at(stays[2]).join("file"), "somebody's").expect("a file");
        std::fs::create_dir(at("elsewhere")).expect("a folder");
        symlink(at("elsewhere"), at(stays[3])).expect("a link");
        sweep(parent.path());
        let names = std::fs::read_dir(parent.path()).expect("a folder").flatten();
        let mut names: Vec<_> = names.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        assert_eq!(names, [&["elsewhere"][..], &stays].concat());
        drop(held);
        sweep(parent.path());
        assert!(!at(stays[0]).exists(), "its weigh has gone");
    }

    #[test]
    fn a_whole_folder_goes_when_nobody_holds_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let (left, other) = (parent.path().join("weigh-doctor-1"), parent.path().join("other-1"));
        for folder in [&left, &other] {
            std::fs::create_dir_all(folder.join("recording")).expect("a folder");
        }
        let held = hold(&left);
        sweep_whole(parent.path(), "weigh-doctor-");
        assert!(left.exists());
        drop(held);
        sweep_whole(parent.path(), "weigh-doctor-");
        assert!(!left.exists() && other.exists());
    }

    #[test]
    fn a_folder_that_was_swept_before_it_was_held_is_not_held() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("weigh-1-01234567");
        std::fs::create_dir(&path).expect("a folder");
        sweep(parent.path());
        assert!(hold(&path).is_none());
    }
}
