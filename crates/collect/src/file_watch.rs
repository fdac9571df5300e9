//! Files that a job writes, watched for what happens to them.
//!
//! Reads inotify events, which only wake, and the files themselves; emits that a file was created
//! or truncated, and each line it gets. A file that is replaced is read to its end first. Refuses
//! what is no regular file. What happens to a file several times between two looks is seen once.

mod lines;

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use weigh_schema::Mechanism;
use weigh_schema::event::CollectorStatus;
use weigh_schema::summary::WatchedFile;

use lines::Lines;

/// What is read of one file at one look, at most: whatever else is due should not wait long.
const READ_MOST: u64 = 1 << 20;

/// What a directory tells: names that come and go.
const OF_DIRECTORY: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// What happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It was created, or another was put in its place.
    Created,
    /// It became shorter.
    Truncated,
    /// It got this line; the end of a very long one is cut off.
    Line(Vec<u8>),
}

/// Watches files.
pub struct FileWatch {
    inotify: Option<OwnedFd>,
    files: Vec<Watched>,
    has_more: bool,
    trouble: Option<String>,
}

struct Watched {
    wanted: WatchedFile,
    open: Option<Open>,
    /// What was refused, so that it is not tried at each look.
    refused: Option<Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

struct Open {
    identity: Identity,
    file: File,
    position: u64,
    lines: Lines,
    watch: Option<i32>,
}

impl FileWatch {
    /// Begins to watch: what the files hold now is old, except where the wish is otherwise.
    pub fn start(wanted: Vec<WatchedFile>) -> FileWatch {
        let (inotify, trouble) = match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
            Ok(inotify) => (Some(inotify), None),
            Err(error) => (None, Some(format!("inotify_init1: {error}; looked at each interval"))),
        };
        let watched = |wanted| Watched { wanted, open: None, refused: None };
        let files = wanted.into_iter().map(watched).collect();
        let mut watch = FileWatch { inotify, files, has_more: false, trouble };
        for at in 0..watch.files.len() {
            watch.find(at, &mut |_| ());
            let Watched { wanted, open, .. } = &mut watch.files[at];
            if let Some(open) = open.as_mut().filter(|_| !wanted.from_start) {
                open.position = open.file.metadata().map_or(0, |m| m.len());
            }
        }
        watch
    }

    /// Becomes readable when it is worth to look; none if nothing tells.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// Whether the last look left lines for the next.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// What has happened since the last look, by the number of the file.
    pub fn look(&mut self) -> Vec<(usize, Happened)> {
        self.forget_events();
        self.has_more = false;
        let mut found = Vec::new();
        for at in 0..self.files.len() {
            let mut tell = |happened| found.push((at, happened));
            self.find(at, &mut tell);
            let Watched { wanted, open, .. } = &mut self.files[at];
            if let Some(open) = open {
                match open.read(wanted, READ_MOST, &mut tell) {
                    Ok(is_whole) => self.has_more |= !is_whole,
                    Err(error) => {
                        self.trouble = Some(format!("{}: {error}", wanted.path.display()))
                    }
                }
            }
        }
        found
    }

    /// The job has ended: all that is left, lines that never got their end included.
    pub fn last_look(&mut self) -> Vec<(usize, Happened)> {
        let mut found = self.look();
        while self.has_more {
            found.extend(self.look());
        }
        for (at, watched) in self.files.iter_mut().enumerate() {
            let rest = watched.open.as_mut().and_then(|open| open.lines.rest());
            found.extend(rest.map(|line| (at, Happened::Line(line))));
        }
        found
    }

    /// Removes a file; that it is gone already is no error.
    pub fn remove(&mut self, at: usize) {
        let path = &self.files[at].wanted.path;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.trouble = Some(format!("cannot remove {}: {error}", path.display()));
            }
            _ => {}
        }
    }

    /// How it fared; what it could not keep is the caller's to say.
    pub fn status(&self, name: &str, lost: u64) -> CollectorStatus {
        let status = CollectorStatus::of_reasons(name, Mechanism::Inotify, self.trouble.as_slice());
        CollectorStatus { lost, ..status }
    }

    /// Looks whether the path names the file that is open, and opens it if not.
    fn find(&mut self, at: usize, tell: &mut dyn FnMut(Happened)) {
        // First the watch, then the look: what happens in between is in both rather than in none.
        if self.files[at].open.is_none() {
            self.watch_directory(at);
        }
        let Watched { wanted, open, .. } = &mut self.files[at];
        let identity = std::fs::metadata(&wanted.path).ok().as_ref().map(identity);
        if identity == open.as_ref().map(|open| open.identity) {
            return;
        }
        if let Some(mut before) = open.take() {
            while let Ok(false) = before.read(wanted, READ_MOST, tell) {}
            before.lines.rest().into_iter().for_each(|line| tell(Happened::Line(line)));
            before.close(self.inotify.as_ref());
            self.watch_directory(at);
        }
        let Watched { wanted, open, refused } = &mut self.files[at];
        if identity.is_none() || identity == *refused {
            return;
        }
        match Open::new(&wanted.path, self.inotify.as_ref()) {
            Ok(opened) => {
                *open = Some(opened);
                *refused = None;
                tell(Happened::Created);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.trouble = Some(format!("{}: {error}", wanted.path.display()));
                *refused = identity;
            }
        }
    }

    /// Has the directory in which the file is, or the nearest one that there is, tell of names.
    fn watch_directory(&mut self, at: usize) {
        let Some(inotify) = &self.inotify else { return };
        let path = &self.files[at].wanted.path;
        let above = path.ancestors().skip(1).map(|dir| match dir.as_os_str().is_empty() {
            true => Path::new("."),
            false => dir,
        });
        let mut refusal = None;
        for directory in above {
            match inotify::add_watch(inotify, directory, OF_DIRECTORY) {
                Ok(_) => return,
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        if let Some(error) = refusal {
            let path = path.display();
            self.trouble = Some(format!("{path}: inotify_add_watch: {error}"));
        }
    }

    fn forget_events(&self) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        while events.next().is_ok() {}
    }
}

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

impl Open {
    fn new(path: &Path, inotify: Option<&OwnedFd>) -> io::Result<Open> {
        let refuse = || io::Error::other("no regular file; only those are watched");
        // To open a FIFO would let its writer go on.
        if !std::fs::metadata(path)?.is_file() {
            return Err(refuse());
        }
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(refuse());
        }
        let of_file = WatchFlags::MODIFY | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let watch = inotify.and_then(|i| inotify::add_watch(i, itself, of_file).ok());
        Ok(Open { identity: identity(&found), file, position: 0, lines: Lines::default(), watch })
    }

    /// Reads what it got, up to so much; whether that was all.
    fn read(
        &mut self,
        wanted: &WatchedFile,
        most: u64,
        tell: &mut dyn FnMut(Happened),
    ) -> io::Result<bool> {
        let size = self.file.metadata()?.len();
        if size < self.position {
            self.position = if wanted.from_start_if_truncated { 0 } else { size };
            self.lines = Lines::default();
            tell(Happened::Truncated);
        }
        if !wanted.lines {
            self.position = size;
            return Ok(true);
        }
        self.file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut self.file).take(most).read_to_end(&mut bytes)?;
        self.position += read as u64;
        self.lines.add(&bytes, &mut |line| tell(Happened::Line(line)));
        Ok((read as u64) < most)
    }

    fn close(self, inotify: Option<&OwnedFd>) {
        if let (Some(inotify), Some(watch)) = (inotify, self.watch) {
            // Of a file that is gone the watch is gone too.
            let _ = inotify::remove_watch(inotify, watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::event::CollectorState;

    fn wanted(path: &Path) -> WatchedFile {
        WatchedFile {
            path: path.to_path_buf(),
            lines: true,
            from_start: false,
            from_start_if_truncated: true,
        }
    }

    fn line(text: &str) -> (usize, Happened) {
        (0, Happened::Line(text.as_bytes().to_vec()))
    }

    fn append(path: &Path, text: &str) {
        use std::io::Write as _;
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn is_awake(watch: &FileWatch) -> bool {
        let fd = watch.wake_fd().expect("inotify");
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).unwrap() == 1
    }

    #[test]
    fn a_file_that_comes_grows_is_truncated_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/log");
        let mut watch = FileWatch::start(vec![wanted(&path)]);
        assert_eq!(watch.look(), []);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(is_awake(&watch), "the nearest directory that there was tells");
        assert_eq!(watch.look(), []);
        append(&path, "one\ntw");
        assert!(is_awake(&watch));
        assert_eq!(watch.look(), [(0, Happened::Created), line("one")]);
        assert!(!is_awake(&watch));
        append(&path, "o\n\n");
        assert!(is_awake(&watch));
        assert_eq!(watch.look(), [line("two"), line("")]);
        File::create(&path).unwrap();
        append(&path, "new\n");
        assert_eq!(watch.look(), [(0, Happened::Truncated), line("new")]);
        append(&path, "last");
        std::fs::remove_file(&path).unwrap();
        assert!(is_awake(&watch));
        assert_eq!(watch.look(), [line("last")]);
        assert_eq!(watch.status("snapshots", 0).status, CollectorState::Active);
    }

    #[test]
    fn a_log_that_is_rotated_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, "old\n");
        let mut watch = FileWatch::start(vec![wanted(&path)]);
        assert_eq!(watch.look(), [], "what it had before is old");
        append(&path, "a\n");
        std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        append(&path, "b\n");
        assert_eq!(watch.look(), [line("a"), (0, Happened::Created), line("b")]);
        append(&path, "c");
        assert_eq!(watch.last_look(), [line("c")]);
    }

    #[test]
    fn what_is_there_at_the_start_is_read_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, "old\n");
        let mut watch = FileWatch::start(vec![WatchedFile { from_start: true, ..wanted(&path) }]);
        assert_eq!(watch.look(), [line("old")]);
        watch.remove(0);
        assert!(!path.exists());
        watch.remove(0);
        assert_eq!(watch.status("snapshots", 0).reason, None);
    }

    #[test]
    fn more_than_fits_one_look_is_left_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut watch = FileWatch::start(vec![wanted(&path)]);
        let lines = READ_MOST as usize / 4 + 1001;
        append(&path, &"abc\n".repeat(lines));
        let first = watch.look();
        assert!(watch.has_more());
        assert_eq!(first.len() + watch.last_look().len(), lines + 1, "and its creation");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let mut watch = FileWatch::start(vec![wanted(&path)]);
        assert_eq!(watch.look(), []);
        let status = watch.status("snapshots", 3);
        assert_eq!((status.status, status.lost), (CollectorState::Degraded, 3));
        assert!(status.reason.unwrap().contains("no regular file"));
    }
}
