//! Snapshots: what was known of the job when something happened to a watched file.
//!
//! Reads the watched files, when something tells of them and at each interval; emits the marks at
//! which a snapshot is to be taken, and keeps those that were.

use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weigh_account::{Mark, Marks, WatchSpec};
use weigh_collect::file_watch::{FileWatch, Happened};
use weigh_schema::availability::CollectorInfo;
use weigh_schema::byte_text;
use weigh_schema::event::CollectorStatus;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};
use weigh_schema::summary::{Cause, Snapshot};

/// What it is for.
pub(super) const INFO: CollectorInfo = CollectorInfo::new(
    "snapshots",
    "the moments at which the job's own files say something (`--snapshot`)",
    None,
)
.asks(SourceTraits {
    mode: SourceMode::Notification,
    rights: "permission to read the files",
    scope: "files",
    intrusiveness: Intrusiveness::None,
    cost: "an inotify watch of each file and its folder; what is added to a file is read",
});

/// After a look none follows for so long, however often a file is written to.
const PAUSE: Duration = Duration::from_millis(10);

/// More are not kept: they are counted.
const MOST: usize = 1000;

/// Takes snapshots.
pub(super) struct Snapshots {
    files: Vec<WatchSpec>,
    watch: FileWatch,
    marks: Marks,
    taken: Vec<Snapshot>,
    untaken: u64,
    to_remove: Vec<usize>,
    rests_until: Option<Instant>,
}

impl Snapshots {
    /// Begins to watch.
    pub fn start(files: Vec<WatchSpec>) -> Snapshots {
        Snapshots {
            watch: FileWatch::start(files.iter().map(|file| file.file.clone()).collect()),
            marks: Marks::new(files.iter().map(|file| file.rules.clone())),
            files,
            taken: Vec::new(),
            untaken: 0,
            to_remove: Vec::new(),
            rests_until: None,
        }
    }

    /// Becomes readable when a look is due.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.wake_fd().filter(|_| self.rests_until.is_none())
    }

    /// When to look for a reason to look.
    pub fn next(&self) -> Option<Instant> {
        self.rests_until
    }

    /// Looks, if something told that it is worth it and the last look was a while ago.
    pub fn look_if_due(&mut self) -> Vec<Mark> {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return Vec::new();
        }
        self.rests_until = None;
        match self.watch.has_more() || self.is_told() {
            true => self.look(),
            false => Vec::new(),
        }
    }

    /// Looks.
    pub fn look(&mut self) -> Vec<Mark> {
        let happened = self.watch.look();
        self.rests_until = Some(Instant::now() + PAUSE);
        self.marks_of(&happened)
    }

    /// Looks when the job has ended.
    pub fn last_look(&mut self) -> Vec<Mark> {
        let happened = self.watch.last_look();
        self.marks_of(&happened)
    }

    fn is_told(&self) -> bool {
        self.watch.wake_fd().is_some_and(|fd| {
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
        })
    }

    fn marks_of(&mut self, happened: &[(usize, Happened)]) -> Vec<Mark> {
        let marks = self.marks.of(happened.iter().map(|(file, happened)| match happened {
            Happened::Created => (*file, Cause::Created, None),
            Happened::Truncated => (*file, Cause::Truncated, None),
            Happened::Line(line) => (*file, Cause::Line, Some(line.as_slice())),
        }));
        let found = happened.iter().filter(|(_, what)| *what == Happened::Created);
        let found = found.map(|(file, _)| *file);
        self.to_remove = found.filter(|file| self.files[*file].delete_if_found).collect();
        marks
    }

    /// All snapshots of the last look are taken: files that a program put there for that are
    /// removed, which tells the program that it can go on.
    pub fn are_taken(&mut self) {
        for file in std::mem::take(&mut self.to_remove) {
            self.watch.remove(file);
        }
    }

    /// The name of a file.
    pub fn file(&self, number: usize) -> String {
        byte_text::keep(self.files[number].file.path.as_os_str().as_bytes())
    }

    /// Keeps one, if there is room; whether there was.
    pub fn keep(&mut self, snapshot: &Snapshot) -> bool {
        let has_room = self.taken.len() < MOST;
        match has_room {
            true => self.taken.push(snapshot.clone()),
            false => self.untaken += snapshot.count,
        }
        has_room
    }

    /// All of them, and how the collector fared.
    pub fn finish(self) -> (Vec<Snapshot>, CollectorStatus) {
        let mut status = self.watch.status(INFO.name, self.untaken);
        if self.untaken > 0 {
            status.status = weigh_schema::event::CollectorState::Degraded;
            status.reason = Some(format!("{MOST} snapshots were taken; more are not kept"));
        }
        (self.taken, status)
    }
}
