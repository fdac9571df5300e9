//! How much space the files under given directories take, and how many there are.
//!
//! A thread of its own scans the directories with `getdents64` and `statx`: allocated space
//! (blocks, so that holes are free), hard links once, other mounts and what lies behind symbolic
//! links not. The first scan begins at once; the next ones follow at a distance that grows with the
//! age of the job, up to 0.1 s, and take at most 1 % of one CPU; the thread has the lowest priority.
//! Where there is a limit they follow at 20 ms at most and take up to a fifth of a CPU. Emits [`Scan`]s
//! and their [`Peak`]; what happens between two scans is not seen: no tracepoint of the kernel tells
//! of space that any file system allocates or frees. Files that vanish meanwhile are normal;
//! directories that cannot be read are counted and named. What weigh itself writes is left out, by
//! device and inode.
//!
//! Nobody waits for the file system but this thread, except for the first scan, some milliseconds: a
//! hung network mount leaves the thread behind and the caller goes on.

mod walk;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weigh_schema::Mechanism;
use weigh_schema::event::{CollectorState, CollectorStatus};

/// Scans take at most one part in so many of a CPU; with a limit on them, as other looks do.
const PART_OF_CPU: (u32, u32) = (100, 5);
/// And of the time at most one part in so many, for most of a scan of a slow file system is waiting.
const PART_OF_TIME: u32 = 10;
/// From the start of one scan to the start of the next: the least, the most that is meant, and the most with a limit.
const APART: (Duration, Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(100), Duration::from_millis(20));
/// The distance grows by one part in so many of the time since the start.
const PART_OF_AGE: u32 = 250;

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum FootprintError {
    /// It cannot be opened.
    #[error("cannot watch {path}: {source}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The scanner's thread could not be started.
    #[error("cannot start the thread that scans: {0}")]
    Thread(std::io::Error),
}

/// A file or directory, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// The device, as stat(2) has it.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

impl FileIdentity {
    /// Of what has such a description.
    pub fn of(metadata: &std::fs::Metadata) -> FileIdentity {
        use std::os::unix::fs::MetadataExt as _;
        FileIdentity { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// The result of one scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Space allocated for the files and directories below the watched ones.
    pub bytes: u64,
    /// What of it is of files that are younger than the scanner, as far as the file system tells.
    pub new_bytes: u64,
    /// How many of them there are.
    pub files: u64,
    /// Directories and files that could not be looked at.
    pub unreadable: u64,
    /// The first of these, and why.
    pub first_unreadable: Option<String>,
}

/// A scan and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedScan {
    /// What it found.
    pub scan: Scan,
    /// When it began.
    pub begun: Instant,
    /// How long it took.
    pub took: Duration,
}

/// The greatest values of all scans so far; bytes and files may stem from different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Greatest space.
    pub bytes: u64,
    /// Greatest space beyond what was there before.
    pub growth: u64,
    /// Greatest number of files.
    pub files: u64,
    /// Scans made.
    pub scans: u64,
    /// The longest time from the start of one scan to the end of the next.
    pub apart: Duration,
}

/// What was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The space of it.
    pub bytes: u64,
    /// Whether all of it was looked at before the command began. If not, files that the file system says to be older
    /// than the command are in it as large as they were when they were met.
    pub is_before: bool,
}

/// What the scanner leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FootprintReport {
    /// Greatest values; `None` if no scan was ever completed.
    pub peak: Option<Peak>,
    /// What was there before; `None` if no scan was ever completed.
    pub baseline: Option<Baseline>,
    /// The last scan.
    pub latest: Option<TimedScan>,
    /// Whether the last scan was made at the end.
    pub is_final: bool,
    /// Whether files keep their space on all the file systems until a call frees it: others compress, share or give
    /// back by themselves.
    pub is_freed_by_calls: bool,
    /// How the collector fared.
    pub status: CollectorStatus,
}

/// How often to scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// At growing distance, with the lowest priority.
    #[default]
    Relaxed,
    /// For a limit: often enough to act in time, if scans are short.
    Limited,
}

impl Pace {
    /// From the start of a scan to the start of the next.
    fn distance(self, age: Duration, used: Duration, took: Duration) -> Duration {
        let (least, most, most_limited) = APART;
        let (part, most) = match self {
            Pace::Relaxed => (PART_OF_CPU.0, most),
            Pace::Limited => (PART_OF_CPU.1, most_limited),
        };
        let meant = (age / PART_OF_AGE).clamp(least, most);
        meant.max(used * part).max(took * PART_OF_TIME.min(part))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Periodic,
    Final,
    Stop,
}

struct State {
    order: Order,
    latest: Option<TimedScan>,
    peak: Option<Peak>,
    baseline: Option<Baseline>,
    has_begun: bool,
    is_final_done: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Set while the scan in progress is not wanted any more.
    interrupt: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state stays whole between any two statements: a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scans directories in the background until it is dropped.
pub struct FootprintScanner {
    shared: Arc<Shared>,
    roots: Vec<PathBuf>,
    is_freed_by_calls: bool,
}

impl FootprintScanner {
    /// Starts watching `roots`, without what is `excluded`. A directory named twice, or one inside
    /// another, is counted once. The first scan begins at once.
    pub fn start(
        roots: &[PathBuf],
        excluded: &[FileIdentity],
        pace: Pace,
    ) -> Result<FootprintScanner, FootprintError> {
        let walker = walk::Walker::open(roots, excluded)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                order: Order::Periodic,
                latest: None,
                peak: None,
                baseline: None,
                has_begun: false,
                is_final_done: false,
            }),
            changed: Condvar::new(),
            interrupt: AtomicBool::new(false),
        });
        let is_freed_by_calls = walker.is_freed_by_calls();
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("weigh-footprint".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || scan_until_told(&walker, pace, &theirs))
            .map_err(FootprintError::Thread)?;
        Ok(FootprintScanner { shared, roots: roots.to_vec(), is_freed_by_calls })
    }

    /// What is measured is about to begin: waits for the first scan, which finds what was there
    /// before, no longer than `budget`.
    pub fn begin(&self, budget: Duration) {
        let not_yet = |state: &mut State| state.latest.is_none();
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), budget, not_yet);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_begun = true;
    }

    /// The directories that are watched.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The last completed scan.
    pub fn latest(&self) -> Option<TimedScan> {
        self.shared.lock().latest.clone()
    }

    /// The greatest values so far; `None` before the first scan is complete.
    pub fn peak(&self) -> Option<Peak> {
        self.shared.lock().peak
    }

    /// What was there before; `None` before the first scan is complete.
    pub fn baseline(&self) -> Option<Baseline> {
        self.shared.lock().baseline
    }

    /// Waits for the first scan, if it is still going on, and makes a last one if the ones before let expect that it
    /// ends in time: all that for no longer than `budget`.
    pub fn finish(self, budget: Duration) -> FootprintReport {
        let asked = Instant::now();
        let is_first = |state: &mut State| state.latest.is_none();
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), budget, is_first);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let left = budget.saturating_sub(asked.elapsed());
        if state.latest.as_ref().is_some_and(|latest| latest.took.mul_f64(1.5) <= left) {
            state.order = Order::Final;
            self.shared.interrupt.store(true, Ordering::Relaxed);
            self.shared.changed.notify_all();
            let not_yet = |s: &mut State| !s.is_final_done;
            state = self
                .shared
                .changed
                .wait_timeout_while(state, left, not_yet)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let (peak, baseline, is_final) = (state.peak, state.baseline, state.is_final_done);
        let latest = state.latest.clone();
        drop(state);
        let status = status(latest.as_ref(), is_final, asked);
        let is_freed_by_calls = self.is_freed_by_calls;
        FootprintReport { peak, baseline, latest, is_final, is_freed_by_calls, status }
    }
}

impl FootprintReport {
    /// Whether the greatest growth was found by a last scan at the end, and all of it was looked at before and then.
    pub fn ends_at_its_peak(&self) -> bool {
        let (Some(latest), Some(before), Some(peak)) = (&self.latest, &self.baseline, &self.peak)
        else {
            return false;
        };
        let is_whole = self.is_final && before.is_before && latest.scan.unreadable == 0;
        is_whole && latest.scan.bytes.saturating_sub(before.bytes) == peak.growth
    }
}

impl Drop for FootprintScanner {
    /// Tells the thread to stop and does not wait for it.
    fn drop(&mut self) {
        self.shared.lock().order = Order::Stop;
        self.shared.interrupt.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }
}

fn status(latest: Option<&TimedScan>, is_final: bool, asked: Instant) -> CollectorStatus {
    let mut reasons = Vec::new();
    match latest {
        None => reasons.push("the job ended before the first scan was complete".to_owned()),
        Some(latest) if !is_final => reasons.push(format!(
            "the last scan took {:.1} s and was begun {:.1} s before the end",
            latest.took.as_secs_f64(),
            asked.saturating_duration_since(latest.begun).as_secs_f64()
        )),
        Some(_) => {}
    }
    if let Some(TimedScan { scan, .. }) = latest
        && let Some(first) = &scan.first_unreadable
    {
        reasons.push(format!("{} entries could not be read, first {first}", scan.unreadable));
    }
    CollectorStatus {
        name: "footprint".to_owned(),
        mechanism: Mechanism::Stat,
        status: match (latest, reasons.is_empty()) {
            (None, _) => CollectorState::Unavailable,
            (Some(_), true) => CollectorState::Active,
            (Some(_), false) => CollectorState::Degraded,
        },
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        lost: 0,
    }
}

/// The thread's life.
fn scan_until_told(walker: &walk::Walker, pace: Pace, shared: &Shared) {
    let started = Instant::now();
    let (mut next, mut is_courteous) = (started, false);
    while let Some(order) = wait_for_turn(shared, next) {
        let (begun, used) = (Instant::now(), cpu_time());
        if let Some(scan) = walker.scan(&shared.interrupt) {
            let took = begun.elapsed();
            record(shared, TimedScan { scan, begun, took }, order);
            let used = cpu_time().saturating_sub(used);
            next = begun + pace.distance(started.elapsed(), used, took);
        }
        if order == Order::Final {
            return;
        }
        // The first scan is waited for.
        if pace == Pace::Relaxed && !std::mem::replace(&mut is_courteous, true) {
            lower_priority();
        }
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Sleeps until `next` or an order; `None` if there is nothing to do any more.
fn wait_for_turn(shared: &Shared, next: Instant) -> Option<Order> {
    let mut state = shared.lock();
    loop {
        let left = next.saturating_duration_since(Instant::now());
        match state.order {
            Order::Stop => return None,
            Order::Final => break,
            Order::Periodic if left.is_zero() => break,
            Order::Periodic => {}
        }
        state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    // Under the lock: an order that comes later finds the flag down and raises it again.
    shared.interrupt.store(false, Ordering::Relaxed);
    Some(state.order)
}

fn record(shared: &Shared, timed: TimedScan, order: Order) {
    let mut state = shared.lock();
    let before = state.peak.unwrap_or_default();
    let scan = &timed.scan;
    let is_before = !state.has_begun;
    let first = Baseline { bytes: scan.bytes - scan.new_bytes, is_before };
    let baseline = *state.baseline.get_or_insert(first);
    let since = state.latest.as_ref().map_or(timed.begun, |last| last.begun);
    state.peak = Some(Peak {
        bytes: before.bytes.max(scan.bytes),
        growth: before.growth.max(scan.bytes.saturating_sub(baseline.bytes)),
        files: before.files.max(scan.files),
        scans: before.scans + 1,
        apart: before.apart.max((timed.begun + timed.took).saturating_duration_since(since)),
    });
    state.latest = Some(timed);
    state.is_final_done = order == Order::Final;
    shared.changed.notify_all();
}

/// Lowest priority for CPU and disk, for the calling thread only. Only a courtesy: what fails
/// here is made up for by the pauses.
fn lower_priority() {
    const IOPRIO_WHO_PROCESS: i32 = 1;
    const IOPRIO_CLASS_IDLE: i32 = 3;
    const IOPRIO_CLASS_SHIFT: i32 = 13;
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
    // SAFETY: three numbers; 0 is the calling thread.
    unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IOPRIO_WHO_PROCESS,
            0,
            IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT,
        );
    }
}

/// One scan at once, by the calling thread: for tests and for programs that need no series.
pub fn scan_once(roots: &[PathBuf]) -> Result<Scan, FootprintError> {
    let never = AtomicBool::new(false);
    Ok(walk::Walker::open(roots, &[])?.scan(&never).expect("nobody interrupts it"))
}

fn open_error(path: &Path, source: rustix::io::Errno) -> FootprintError {
    FootprintError::Open { path: path.to_owned(), source: source.into() }
}
