//! The kernel's delay accounting (`kernel.task_delayacct`): its state, and a guard that switches
//! it on while somebody needs it.
//!
//! The kernel gives a thread its delay counters when the thread is made, and only while the
//! switch is on: take the guard before the job is started. The switch is machine-wide, so several
//! weighs share a lock file; the last one that lets go restores what the first one found. A value that somebody else
//! wrote meanwhile stays: inotify tells of each write. Each mount of procfs has inodes of its own, so a write through
//! another one is not noticed, and is lost. What a weigh that was killed has left on, the next weigh restores,
//! whatever it is to do. Needs root.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, flock};
use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

/// The switch.
pub const SYSCTL: &str = "/proc/sys/kernel/task_delayacct";
/// The lock file; it begins with the value to restore, grows with each weigh's write of another, and is empty if there is none.
pub const LOCK: &str = "/run/weigh-delayacct.lock";

/// Why delays cannot be accounted for.
#[derive(Debug, thiserror::Error)]
pub enum DelaysError {
    /// The kernel has no such switch.
    #[error("{0} does not exist: the kernel is older than 5.14 or built without delay accounting")]
    NoSwitch(PathBuf),
    /// A file refused.
    #[error("cannot {action} {path}: {source}")]
    Access {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

fn access(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DelaysError {
    move |source| DelaysError::Access { action, path: path.to_owned(), source }
}

/// Whether delay accounting is on.
pub fn is_on() -> Result<bool, DelaysError> {
    read_switch(Path::new(SYSCTL))
}

/// Switches delay accounting on until the guard, and those of all other weighs, are dropped.
pub fn enable_while() -> Result<DelaysGuard, DelaysError> {
    DelaysGuard::take(Path::new(SYSCTL), Path::new(LOCK))
}

/// Restores what a weigh that was killed has left on, if no other one needs it.
pub fn restore_abandoned() {
    restore_left(Path::new(SYSCTL), Path::new(LOCK));
}

fn restore_left(switch: &Path, lock_path: &Path) {
    let mut options = OpenOptions::new();
    let lock = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(lock_path);
    if let Ok(lock) = lock
        && lock.metadata().is_ok_and(|about| about.len() > 0)
    {
        drop(DelaysGuard { switch: switch.to_owned(), lock, others: None });
    }
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo =
    CollectorInfo::new("delays", "time waiting for block I/O, reclaim, swap-in", None)
        .probed_by(probe)
        .asks(SourceTraits {
            mode: SourceMode::Query,
            rights: "root where kernel.task_delayacct is off",
            scope: "machine",
            intrusiveness: Intrusiveness::None,
            cost: "the kernel's own accounting at each wait",
        });

fn probe() -> CollectorStatus {
    status(&is_on())
}

/// How the collector fares, given whether the switch is on.
pub fn status(state: &Result<bool, DelaysError>) -> CollectorStatus {
    let (status, reason) = match state {
        Ok(true) => (CollectorState::Active, None),
        Ok(false) => (
            CollectorState::Disabled,
            Some("kernel.task_delayacct is 0; --delays switches it on for the job".to_owned()),
        ),
        Err(error) => (CollectorState::Unavailable, Some(error.to_string())),
    };
    CollectorStatus::new(INFO.name, Mechanism::Proc, status, reason)
}

/// Keeps delay accounting on.
#[derive(Debug)]
pub struct DelaysGuard {
    switch: PathBuf,
    lock: File,
    /// None where the kernel does not tell.
    others: Option<OtherWrites>,
}

/// Tells whether somebody has written the switch since this was made.
#[derive(Debug)]
struct OtherWrites {
    watch: OwnedFd,
    /// The kernel keeps the switch's inode, which is watched, no longer than somebody has it open.
    _switch: File,
    /// The lock file's length: it grows when another weigh writes.
    note_bytes: u64,
}

impl OtherWrites {
    fn watch(switch: &Path, lock: &File) -> io::Result<OtherWrites> {
        let note_bytes = lock.metadata()?.len();
        let _switch = File::open(switch)?;
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&watch, switch, WatchFlags::MODIFY)?;
        Ok(OtherWrites { watch, _switch, note_bytes })
    }

    /// Whether one was not a weigh's.
    fn is_foreign(&self, lock: &File) -> bool {
        let mut room = [MaybeUninit::uninit(); 512];
        let is_written = inotify::Reader::new(&self.watch, &mut room).next().is_ok();
        is_written && lock.metadata().is_ok_and(|about| about.len() == self.note_bytes)
    }
}

impl DelaysGuard {
    fn take(switch: &Path, lock_path: &Path) -> Result<DelaysGuard, DelaysError> {
        // Where there is no switch no lock file is made.
        read_switch(switch)?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(lock_path)
            .map_err(access("open", lock_path))?;
        // The exclusive lock is held for an instant only, by one who restores.
        flock(&lock, FlockOperation::LockShared)
            .map_err(|errno| access("lock", lock_path)(errno.into()))?;
        // What was read before the lock was had may be another's value by now, or have been one.
        if !read_switch(switch)? {
            // The note comes first: a weigh that finds the switch on finds the note too.
            note_off(&mut lock).map_err(access("write", lock_path))?;
            std::fs::write(switch, "1").map_err(access("write", switch))?;
            // Another weigh that hears of this write finds the note longer than before.
            note_off(&mut lock).map_err(access("write", lock_path))?;
        }
        let others = OtherWrites::watch(switch, &lock).ok();
        Ok(DelaysGuard { switch: switch.to_owned(), lock, others })
    }

    fn restore(&mut self) -> io::Result<()> {
        flock(&self.lock, FlockOperation::NonBlockingLockExclusive)?;
        let restored = self.restore_noted();
        // A child that has not executed its program yet has the same open file.
        let _ = flock(&self.lock, FlockOperation::Unlock);
        restored
    }

    fn restore_noted(&mut self) -> io::Result<()> {
        let mut note = String::new();
        self.lock.seek(SeekFrom::Start(0))?;
        self.lock.read_to_string(&mut note)?;
        if let Some(value) = note.get(..1) {
            std::fs::write(&self.switch, value)?;
            self.lock.set_len(0)?;
        }
        Ok(())
    }
}

impl Drop for DelaysGuard {
    /// Restores the switch if no other weigh needs it.
    fn drop(&mut self) {
        if self.others.as_ref().is_some_and(|others| others.is_foreign(&self.lock)) {
            // It is somebody else's value from now on.
            let _ = self.lock.set_len(0);
        }
        // Either others hold the lock, and the last of them will do it, or the switch cannot be
        // written, and then the note stays for the next weigh.
        let _ = self.restore();
    }
}

fn note_off(lock: &mut File) -> io::Result<()> {
    lock.seek(SeekFrom::End(0))?;
    lock.write_all(b"0")
}

fn read_switch(path: &Path) -> Result<bool, DelaysError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim() != "0"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(DelaysError::NoSwitch(path.to_owned()))
        }
        Err(error) => Err(access("read", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        switch: PathBuf,
        lock: PathBuf,
    }

    fn place(value: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (switch, lock) = (folder.path().join("switch"), folder.path().join("lock"));
        std::fs::write(&switch, value).unwrap();
        Place { _folder: folder, switch, lock }
    }

    impl Place {
        fn take(&self) -> DelaysGuard {
            DelaysGuard::take(&self.switch, &self.lock).unwrap()
        }

        fn is_on(&self) -> bool {
            read_switch(&self.switch).unwrap()
        }
    }

    #[test]
    fn the_last_one_restores() {
        let place = place("0\n");
        let first = place.take();
        assert!(place.is_on());
        let second = place.take();
        drop(first);
        assert!(place.is_on(), "the second still needs it");
        drop(second);
        assert!(!place.is_on());
        drop(place.take());
        assert!(!place.is_on(), "and again");
    }

    #[test]
    fn what_others_have_switched_on_stays_on() {
        let place = place("1\n");
        drop(place.take());
        assert!(place.is_on());
    }

    #[test]
    fn what_somebody_wrote_meanwhile_stays() {
        for value in ["1", "0"] {
            let place = place("0\n");
            let first = place.take();
            let second = place.take();
            std::fs::write(&place.switch, value).unwrap();
            drop(first);
            assert_eq!(std::fs::read_to_string(&place.lock).unwrap(), "", "nothing to restore");
            drop(second);
            assert_eq!(std::fs::read_to_string(&place.switch).unwrap(), value);
        }
    }

    /// Another weigh's write is not somebody else's value: the first one's is restored.
    #[test]
    fn what_another_weigh_wrote_is_restored() {
        let place = place("0\n");
        let first = place.take();
        std::fs::write(&place.switch, "0").unwrap();
        let second = place.take();
        assert!(place.is_on());
        drop(second);
        assert!(place.is_on(), "the first one needs it");
        drop(first);
        assert!(!place.is_on());
    }

    /// It is read again once the lock is had: meanwhile another may have switched it on for good.
    #[test]
    fn what_was_switched_on_while_the_lock_was_waited_for_stays_on() {
        let place = place("0\n");
        let restoring = File::create(&place.lock).unwrap();
        flock(&restoring, FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| place.take());
            let inode = std::os::unix::fs::MetadataExt::ino(&restoring.metadata().unwrap());
            let waits = || {
                let locks = std::fs::read_to_string("/proc/locks").unwrap();
                let of_file = format!(":{inode} ");
                locks.lines().any(|line| line.contains("->") && line.contains(&of_file))
            };
            let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while !waits() {
                assert!(std::time::Instant::now() < end, "it does not wait");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::fs::write(&place.switch, "1\n").unwrap();
            flock(&restoring, FlockOperation::Unlock).unwrap();
            drop(waiting.join().unwrap());
        });
        assert!(place.is_on());
        assert_eq!(std::fs::read_to_string(&place.lock).unwrap(), "", "no note for a later one");
    }

    /// A child between its fork and its program has the lock's file as well.
    #[test]
    fn a_copy_of_the_lock_keeps_nobody_waiting() {
        let place = place("0\n");
        let guard = place.take();
        let _copy = guard.lock.try_clone().unwrap();
        drop(guard);
        assert!(!place.is_on());
        let other = File::open(&place.lock).unwrap();
        flock(&other, FlockOperation::NonBlockingLockShared).expect("nobody has it");
    }

    #[test]
    fn a_killed_one_is_cleaned_up_after() {
        let place = place("1\n");
        std::fs::write(&place.lock, "0").unwrap();
        drop(place.take());
        assert!(!place.is_on());
    }

    #[test]
    fn what_a_killed_one_left_on_is_restored_by_any_other() {
        let place = place("0\n");
        restore_left(&place.switch, &place.lock);
        assert!(!place.lock.exists(), "nothing was left");
        // Killed, it restores nothing; its lock is gone with it.
        let killed = place.take();
        let living = place.take();
        restore_left(&place.switch, &place.lock);
        assert!(place.is_on(), "others hold it");
        let DelaysGuard { lock, .. } = &killed;
        flock(lock, FlockOperation::Unlock).unwrap();
        std::mem::forget(killed);
        flock(&living.lock, FlockOperation::Unlock).unwrap();
        std::mem::forget(living);
        restore_left(&place.switch, &place.lock);
        assert!(!place.is_on());
        assert_eq!(std::fs::read_to_string(&place.lock).unwrap(), "");
    }

    #[test]
    fn errors_name_the_file() {
        let place = place("0");
        let missing = place.switch.with_extension("missing");
        let error = DelaysGuard::take(&missing, &place.lock).unwrap_err();
        assert!(matches!(&error, DelaysError::NoSwitch(path) if *path == missing));
        assert_eq!(status(&Err(error)).status, CollectorState::Unavailable);
        assert_eq!(status(&Ok(false)).status, CollectorState::Disabled);
    }

    #[test]
    fn the_real_switch_works() {
        let before = match is_on() {
            Ok(before) => before,
            Err(DelaysError::NoSwitch(_)) => return,
            Err(error) => panic!("{error}"),
        };
        if !rustix::process::geteuid().is_root() || before {
            return;
        }
        let guard = enable_while().unwrap();
        assert!(is_on().unwrap());
        drop(guard);
    }
}
