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
//! Nobody waits for the file system but this thread, except for the first scan and the last one, some milliseconds: a
//! hung network mount leaves the thread behind and the caller goes on. A wait counts the time that the scanner has
//! a CPU or waits for the disk, not the time that it waits for a CPU; and it ends at once where the scan can be seen
//! not to end in time. The last scan is made by a thread of the caller's priority.

mod progress;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use progress::ScanProgress;

/// Scans take at most one part in so many of a CPU; with a limit on them, as other looks do.
const PART_OF_CPU: (u32, u32) = (100, 5);
/// And of the time at most one part in so many, for most of a scan of a slow file system is waiting.
const PART_OF_TIME: u32 = 10;
/// From the start of one scan to the start of the next: the least, the most that is meant, and the most with a limit.
const APART: (Duration, Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(100), Duration::from_millis(20));
/// The distance grows by one part in so many of the time since the start.
const PART_OF_AGE: u32 = 5;
/// On a busy machine a wait takes no longer than that: before the command begins, and after its end.
const LONGEST_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));
/// So few files are scanned at the end whatever the scan before took: it may have found nothing in the cache.
const FEW_FILES: u64 = 1000;

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
    /// The same without the time that it waited for a CPU.
    pub own_time: Duration,
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
pub enum ScanRate {
    /// At growing distance, with the lowest priority.
    #[default]
    Relaxed,
    /// For a limit: often enough to act in time, if scans are short.
    Limited,
}

impl ScanRate {
    /// From the start of a scan to the start of the next.
    fn distance(self, age: Duration, used: Duration, took: Duration) -> Duration {
        let (least, most, most_limited) = APART;
        let (part, most) = match self {
            ScanRate::Relaxed => (PART_OF_CPU.0, most),
            ScanRate::Limited => (PART_OF_CPU.1, most_limited),
        };
        let meant = (age / PART_OF_AGE).clamp(least, most);
        meant.max(used * part).max(took * PART_OF_TIME.min(part))
    }
}

/// What the thread that scans periodically is to do; of a scan, which one it is.
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
    /// The thread that scans periodically has begun its second scan: where there is no limit, at the lowest priority,
    /// which it cannot raise again.
    is_repeating: bool,
    is_final_done: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Of the thread that scans periodically.
    progress: ScanProgress,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state stays whole between any two statements: a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a scan has come so far, no longer than it uses up `budget` of its own time, and not at all where it
    /// will not be over by then. Returns what is left of the budget.
    fn wait_for(
        &self,
        scan: &ScanProgress,
        budget: Duration,
        longest: Duration,
        is_done: impl Fn(&State) -> bool,
    ) -> (MutexGuard<'_, State>, Duration) {
        let (mut state, asked) = (self.lock(), Instant::now());
        let mut watch = scan.watch(budget);
        while !is_done(&state) && !watch.is_over() && asked.elapsed() < budget.max(longest) {
            let waited = self.changed.wait_timeout(state, progress::LOOKS_APART);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (state, watch.left())
    }
}

/// Scans directories in the background until it is dropped.
pub struct FootprintScanner {
    shared: Arc<Shared>,
    walker: Arc<walk::Walker>,
    is_freed_by_calls: bool,
}

impl FootprintScanner {
    /// Starts watching `roots`, without what is `excluded`. A directory named twice, or one inside
    /// another, is counted once. The first scan begins at once.
    pub fn start(
        roots: &[PathBuf],
        excluded: &[FileIdentity],
        pace: ScanRate,
    ) -> Result<FootprintScanner, FootprintError> {
        let walker = Arc::new(walk::Walker::open(roots, excluded)?);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                order: Order::Periodic,
                latest: None,
                peak: None,
                baseline: None,
                has_begun: false,
                is_repeating: false,
                is_final_done: false,
            }),
            changed: Condvar::new(),
            progress: ScanProgress::default(),
        });
        let is_freed_by_calls = walker.is_freed_by_calls();
        let theirs = (Arc::clone(&walker), Arc::clone(&shared));
        start_thread(move || scan_until_told(&theirs.0, pace, &theirs.1))
            .map_err(FootprintError::Thread)?;
        Ok(FootprintScanner { shared, walker, is_freed_by_calls })
    }

    /// What is measured is about to begin: waits for the first scan, which finds what was there
    /// before, for `budget` of the scanner's own time at most.
    pub fn begin(&self, budget: Duration) {
        self.wait_for_first(budget, LONGEST_WAIT.0).0.has_begun = true;
    }

    fn wait_for_first(
        &self,
        budget: Duration,
        longest: Duration,
    ) -> (MutexGuard<'_, State>, Duration) {
        let is_done = |state: &State| state.latest.is_some();
        self.shared.wait_for(&self.shared.progress, budget, longest, is_done)
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
    /// ends in time: all that for `budget` of the scanner's own time at most.
    pub fn finish(self, budget: Duration) -> FootprintReport {
        let asked = Instant::now();
        let (state, left) = self.wait_for_first(budget, LONGEST_WAIT.1);
        drop(state);
        self.scan_finally(left);
        let state = self.shared.lock();
        let (peak, baseline, is_final) = (state.peak, state.baseline, state.is_final_done);
        let latest = state.latest.clone();
        drop(state);
        let status = status(latest.as_ref(), is_final, asked);
        let is_freed_by_calls = self.is_freed_by_calls;
        FootprintReport { peak, baseline, latest, is_final, is_freed_by_calls, status }
    }

    /// The scan after the end of the job. A thread that has made one scan makes it; one that scans on has the lowest
    /// priority, and another one makes it.
    fn scan_finally(&self, budget: Duration) {
        let is_short = |latest: &TimedScan| {
            latest.own_time.mul_f64(1.5) <= budget || latest.scan.files <= FEW_FILES
        };
        let mut state = self.shared.lock();
        if !state.latest.as_ref().is_some_and(is_short) {
            return;
        }
        if !state.is_repeating {
            state.order = Order::Final;
            drop(state);
            self.shared.changed.notify_all();
            let is_done = |state: &State| state.is_final_done;
            drop(self.shared.wait_for(&self.shared.progress, budget, LONGEST_WAIT.1, is_done));
            return;
        }
        drop(state);
        self.scan_by_another(budget);
    }

    fn scan_by_another(&self, budget: Duration) {
        self.stop();
        let progress = Arc::new(ScanProgress::default());
        let (walker, shared, its) =
            (Arc::clone(&self.walker), Arc::clone(&self.shared), Arc::clone(&progress));
        let scan = move || {
            if let Some(timed) = timed_scan(&walker, &its) {
                record(&shared, timed, Order::Final);
            }
        };
        if start_thread(scan).is_ok() {
            let is_done = |state: &State| state.is_final_done;
            drop(self.shared.wait_for(&progress, budget, LONGEST_WAIT.1, is_done));
            progress.interrupt();
        }
    }

    /// Tells the thread that scans periodically to end, and does not wait for it.
    fn stop(&self) {
        self.shared.lock().order = Order::Stop;
        self.shared.progress.interrupt();
        self.shared.changed.notify_all();
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
    fn drop(&mut self) {
        self.stop();
    }
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "footprint",
    "space and number of files in the watched directories",
    Some("permission to list them"),
)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "permission to list the folders",
    scope: "folders",
    intrusiveness: Intrusiveness::None,
    cost: "scans take at most 1 % of one CPU, with a limit a fifth",
});

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
    let status = CollectorStatus::of_reasons(INFO.name, Mechanism::Stat, &reasons);
    match latest {
        Some(_) => status,
        None => CollectorStatus { status: CollectorState::Unavailable, ..status },
    }
}

fn start_thread(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name("weigh-footprint".to_owned());
    builder.stack_size(256 * 1024).spawn(work).map(drop)
}

/// The life of the thread that scans periodically.
fn scan_until_told(walker: &walk::Walker, pace: ScanRate, shared: &Shared) {
    let started = Instant::now();
    let mut next = started;
    while let Some(order) = wait_for_turn(shared, next, pace) {
        let (begun, used) = (Instant::now(), cpu_time());
        if let Some(timed) = timed_scan(walker, &shared.progress) {
            let took = timed.took;
            record(shared, timed, order);
            let used = cpu_time().saturating_sub(used);
            next = begun + pace.distance(started.elapsed(), used, took);
        }
        if order == Order::Final {
            return;
        }
    }
}

/// A scan by the calling thread; `None` if it was interrupted.
fn timed_scan(walker: &walk::Walker, progress: &ScanProgress) -> Option<TimedScan> {
    let (begun, pulse) = (Instant::now(), progress.begin());
    let scan = walker.scan(&pulse)?;
    Some(TimedScan { scan, begun, took: begun.elapsed(), own_time: pulse.own_time() })
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Sleeps until `next`, or until the last scan is asked for; nothing if there is nothing to do any more.
fn wait_for_turn(shared: &Shared, next: Instant, pace: ScanRate) -> Option<Order> {
    let mut state = shared.lock();
    while state.order == Order::Periodic {
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // The first scan is waited for.
            if state.latest.is_some() && !state.is_repeating {
                state.is_repeating = true;
                if pace == ScanRate::Relaxed {
                    lower_priority();
                }
            }
            return Some(Order::Periodic);
        }
        state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    (state.order == Order::Final).then_some(Order::Final)
}

fn record(shared: &Shared, timed: TimedScan, order: Order) {
    let mut state = shared.lock();
    // It has ended beside the last one, which is what counts.
    if order == Order::Periodic && state.order == Order::Stop {
        return;
    }
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
    let never = ScanProgress::default();
    Ok(walk::Walker::open(roots, &[])?.scan(&never.begin()).expect("nobody interrupts it"))
}

fn open_error(path: &Path, source: rustix::io::Errno) -> FootprintError {
    FootprintError::Open { path: path.to_owned(), source: source.into() }
}
