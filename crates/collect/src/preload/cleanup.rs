//! What a weigh has left behind that was killed: its folder with the library and the shared file.
//!
//! As long as a process of its job may execute something, the loader looks for the library there,
//! and complains on the job's standard error if it is gone. So a folder stays while its weigh lives
//! (it holds a lock), or while any process names it in its environment or maps it. Refuses to judge
//! what it cannot see: folders of other users, of other PID namespaces, or with processes of this
//! user whose environment is closed, or not there yet, and that are not older than the folder.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::procfs;

/// How the names of the folders begin.
pub const PREFIX: &str = "weigh-";

/// The file that names the weigh that made the folder, and shows that it lives.
const OWNER: &str = "owner";

/// Looks at a process that has no environment, for it may be about to get one.
const LOOKS: u32 = 10;

/// Time between them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Makes the file that holds the folder for as long as what comes back is kept. Refused as [`is_swept`] where another
/// weigh took the folder, which nobody held yet, for one that was left behind.
pub fn claim(folder: &Path) -> io::Result<File> {
    let path = folder.join(OWNER);
    let mut owner = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    flock(&owner, FlockOperation::NonBlockingLockExclusive)?;
    if owner.metadata()?.nlink() == 0 {
        return Err(ErrorKind::NotFound.into());
    }
    // Not before the lock is held: a reader that finds this and no lock knows that there was one.
    owner.write_all(Maker::here()?.text().as_bytes())?;
    Ok(owner)
}

/// Whether a folder could not be claimed because it was swept meanwhile: another one can be.
pub fn is_swept(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WouldBlock)
}

/// Removes what is left in `parent` that nobody can have a use for.
pub fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| is_name_of_ours(&entry.file_name())) {
        let folder = entry.path();
        // Neither asks nor removes by a link.
        let _ = match is_left(&folder) {
            Ok(true) => std::fs::remove_dir_all(folder),
            // A weigh that was killed before it made the file: only a folder that is empty goes.
            Err(error) if error.kind() == ErrorKind::NotFound => std::fs::remove_dir(folder),
            Ok(false) | Err(_) => Ok(()),
        };
    }
}

/// The prefix, and the 32 digits of a random name.
fn is_name_of_ours(name: &OsStr) -> bool {
    let digits = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Where and when a folder was made.
#[derive(PartialEq, Eq)]
struct Maker {
    /// Which boot of which machine it was.
    boot: String,
    /// Who can be seen there.
    pids: String,
    /// When, since that boot.
    ns: u64,
}

impl Maker {
    fn here() -> io::Result<Maker> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let pids = std::fs::read_link("/proc/self/ns/pid")?.display().to_string();
        Ok(Maker { boot, pids, ns: super::clock::now_ns() })
    }

    fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.boot, self.pids, self.ns)
    }

    /// Nothing if not all of it is there.
    fn parse(text: &str) -> Option<Maker> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (boot, pids, ns) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Maker { boot: boot.into(), pids: pids.into(), ns: ns.parse().ok()? })
    }
}

/// Whether the folder's weigh is dead, and nobody is left of its job.
fn is_left(folder: &Path) -> io::Result<bool> {
    let about = std::fs::symlink_metadata(folder)?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let owner = folder.join(OWNER);
    let text = std::fs::read_to_string(&owner)?;
    let lock = File::open(&owner)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    // It was killed while it made the folder, and has started no job; or it does not hold the lock yet, and makes
    // another folder when it finds this one gone.
    let Some(maker) = Maker::parse(&text) else { return Ok(true) };
    let here = Maker::here()?;
    if here.boot != maker.boot {
        return Ok(true);
    }
    Ok(here.pids == maker.pids && !is_in_use(folder, maker.ns)?)
}

/// Whether any process may still execute a program that looks for the library.
fn is_in_use(folder: &Path, made_ns: u64) -> io::Result<bool> {
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if names(pid, folder).unwrap_or_else(|| may_be_of_job(pid, made_ns)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a process has the folder in its environment or in its address space; nothing if that
/// cannot be seen.
fn names(pid: u32, folder: &Path) -> Option<bool> {
    let path = folder.as_os_str().as_bytes();
    for _ in 0..LOOKS {
        let mut is_empty = Vec::new();
        // In this order: a program that is executed has its environment before it maps anything.
        for file in ["maps", "environ"] {
            match procfs::read_of(pid, file) {
                Ok(text) if text.windows(path.len()).any(|part| part == path) => return Some(true),
                Ok(text) => is_empty.push(text.is_empty()),
                Err(error) if error.is_gone() => return Some(false),
                Err(_) => return None,
            }
        }
        if is_empty != [false, true] {
            return Some(false);
        }
        // Whose program has been laid out has no environment, and will not have one until it executes another.
        let stat = procfs::read_of(pid, "stat").ok().and_then(|text| procfs::parse_stat(&text));
        if stat.is_some_and(|stat| stat.is_laid_out == Some(true)) {
            return Some(false);
        }
        // It has an address space but no environment: it is just executing a program.
        std::thread::sleep(BETWEEN_LOOKS);
    }
    None
}

/// Of one that cannot be looked into. An ordinary user's processes that have become somebody
/// else's did so by a set-user-ID program, and the loader takes the variable out of those.
fn may_be_of_job(pid: u32, made_ns: u64) -> bool {
    let of = |name| procfs::read_of(pid, name).ok();
    let stat = of("stat").and_then(|text| procfs::parse_stat(&text));
    if stat.is_none_or(|stat| matches!(stat.state, 'Z' | 'X') && stat.threads <= 1) {
        return false;
    }
    let status = of("status").map(|text| procfs::parse_status(&text));
    let user = rustix::process::getuid().as_raw();
    let is_ours = status.is_some_and(|status| user == 0 || status.uid == Some(user));
    // To the tick, and a little more.
    is_ours && super::clock::made_ns(pid).is_some_and(|began| began + 1_000_000_000 > made_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn folder_in(parent: &Path) -> std::path::PathBuf {
        let folder = parent.join(format!("{PREFIX}{:032x}", 7));
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn a_folder_stays_while_its_weigh_lives_and_while_its_job_does() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder_in(parent.path());
        let owner = claim(&folder).unwrap();
        sweep(parent.path());
        assert!(folder.exists(), "its weigh lives");
        let library = folder.join("libweigh_preload.so");
        let mut job = Command::new("sleep").arg("60").env("WEIGH_TEST", &library).spawn().unwrap();
        drop(owner);
        sweep(parent.path());
        assert!(folder.exists(), "a process has it in its environment");
        job.kill().unwrap();
        job.wait().unwrap();
        // A child that another test has just forked still holds the lock, until it executes.
        let begun = std::time::Instant::now();
        while folder.exists() && begun.elapsed() < Duration::from_secs(10) {
            sweep(parent.path());
        }
        assert!(!folder.exists(), "nobody needs it any more");
    }

    #[test]
    fn what_is_not_known_to_be_left_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder_in(parent.path());
        let owner = folder.join(OWNER);
        let here = Maker::here().unwrap();
        let elsewhere = Maker { pids: "pid:[1]".into(), ..Maker::here().unwrap() };
        std::fs::write(&owner, elsewhere.text()).unwrap();
        sweep(parent.path());
        assert!(folder.exists(), "in another PID namespace its job may run");
        let before = Maker { boot: "another".into(), ..here };
        std::fs::write(&owner, before.text()).unwrap();
        sweep(parent.path());
        assert!(!folder.exists(), "nobody of another boot is left");
    }

    #[test]
    fn a_weigh_that_was_killed_while_it_made_the_folder_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let here = Maker::here().unwrap();
        for text in [None, Some(""), Some(&*here.boot)] {
            let folder = folder_in(parent.path());
            if let Some(text) = text {
                std::fs::write(folder.join(OWNER), text).unwrap();
            }
            sweep(parent.path());
            assert!(!folder.exists(), "{text:?}");
        }
        // One that is held stays, and so does what somebody else calls so.
        let folder = folder_in(parent.path());
        let owner = File::create(folder.join(OWNER)).unwrap();
        flock(&owner, FlockOperation::NonBlockingLockExclusive).unwrap();
        let others = ["weigh-", "weigh-results", "weigh-0123456789abcdef"];
        let others = others.map(|name| parent.path().join(name));
        others.iter().for_each(|other| std::fs::create_dir(other).unwrap());
        sweep(parent.path());
        assert!(folder.exists() && others.iter().all(|other| other.exists()));
    }

    /// It cannot look for the library, and will never.
    #[test]
    fn a_process_with_an_empty_environment_keeps_no_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder_in(parent.path());
        std::fs::write(folder.join(OWNER), Maker::here().unwrap().text()).unwrap();
        let mut bare = Command::new("sleep").arg("60").env_clear().spawn().unwrap();
        let environment = || procfs::read_of(bare.id(), "environ").unwrap();
        while !environment().is_empty() {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        assert_eq!(names(bare.id(), &folder), Some(false));
        bare.kill().unwrap();
        bare.wait().unwrap();
    }

    #[test]
    fn a_folder_that_was_swept_is_not_claimed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder_in(parent.path());
        sweep(parent.path());
        assert!(is_swept(&claim(&folder).unwrap_err()));
    }
}
