//! When to look for sessions of `weigh run` among all processes: not at each tick.
//!
//! By inotify it is known when this program's file is opened, as it is to be executed; who has executed another copy, or
//! did before, is found now and then. Reads `/proc/PID/cmdline` where it is time to.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::process_list;

/// Between two looks though nobody has executed the program.
const PAUSE: Duration = Duration::from_secs(60);
/// The file is opened before a process has its new command line: it is looked once more after that.
const LOOKS: u32 = 2;

/// Tells when a session may have begun.
pub struct SessionWatch {
    inotify: Option<OwnedFd>,
    program: PathBuf,
    looks_left: u32,
    next: Instant,
}

impl SessionWatch {
    /// By the program that runs here.
    pub fn new() -> SessionWatch {
        SessionWatch::of(std::env::current_exe().unwrap_or_default())
    }

    /// By another program. It is to be looked at once.
    fn of(program: PathBuf) -> SessionWatch {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let watch = SessionWatch { inotify, program, looks_left: 1, next: Instant::now() + PAUSE };
        watch.add();
        watch
    }

    /// Again and again: an update puts another file in its place.
    fn add(&self) {
        if let Some(inotify) = &self.inotify {
            let _ = inotify::add_watch(inotify, &self.program, WatchFlags::OPEN);
        }
    }

    /// Whether processes are to be looked through now.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if self.was_opened() {
            self.looks_left = LOOKS;
        } else if now >= self.next {
            self.add();
            self.looks_left = self.looks_left.max(1);
        }
        let is_due = self.looks_left > 0;
        if is_due {
            self.looks_left -= 1;
            self.next = now + PAUSE;
        }
        is_due
    }

    /// Takes what has come: more is no more.
    fn was_opened(&self) -> bool {
        let mut events = [0; 256];
        let mut read = || rustix::io::read(self.inotify.as_ref()?, &mut events).ok();
        let mut has_any = false;
        while read().is_some_and(|bytes| bytes > 0) {
            has_any = true;
        }
        has_any
    }
}

impl Default for SessionWatch {
    fn default() -> SessionWatch {
        SessionWatch::new()
    }
}

/// Whether any process has a command line that is of a session.
pub fn is_there_any(is_session: &dyn Fn(&[String]) -> bool) -> bool {
    process_list::pids().any(|pid| is_session(&process_list::read_command(pid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another test's child may hold the file that was just written.
    fn execute(program: &std::path::Path) {
        while std::process::Command::new(program).status().is_err() {}
    }

    #[test]
    fn it_is_due_at_first_after_an_execution_and_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::copy("/bin/true", &program).unwrap();
        let mut watch = SessionWatch::of(program.clone());
        let now = Instant::now();
        let mut due = |seconds: u64| watch.is_due(now + Duration::from_secs(seconds));
        assert_eq!([due(0), due(1), due(2), due(59)], [true, false, false, false]);
        assert_eq!([due(61), due(62), due(120)], [true, false, false]);
        execute(&program);
        assert_eq!([due(120), due(120), due(121)], [true, true, false]);
        // A newer one is noticed from the next look on.
        std::fs::remove_file(&program).unwrap();
        std::fs::copy("/bin/true", &program).unwrap();
        assert!((130..=191).filter(|second| due(*second)).count() > 0);
        assert!(!due(192));
        execute(&program);
        assert_eq!([due(193), due(193), due(194)], [true, true, false]);
    }

    #[test]
    fn a_command_line_is_found_among_all() {
        let mut child = std::process::Command::new("sleep").arg("171.25").spawn().unwrap();
        let is_it = |command: &[String]| command == ["sleep", "171.25"];
        let end = Instant::now() + Duration::from_secs(30);
        while !is_there_any(&is_it) && Instant::now() < end {}
        assert!(is_there_any(&is_it));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(!is_there_any(&is_it));
    }
}
