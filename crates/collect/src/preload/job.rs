//! A job with the library in its programs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorStatus, Event, FileKey, JobReading, Note, ProcessEnd};
use weigh_schema::limit::OnLimit;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};
use weigh_schema::{CounterValues, Mechanism};

use super::clock::{self, made_ns, now_ns};
use super::cross_check::{self, CheckedCounts};
use super::error::PreloadError;
use super::files::Files;
use super::io_table::UsageTable;
use super::layout::{FLAG_EXECED, FLAG_SANITIZED, Life, STATE_EXECED, UNTOLD};
use super::level::Level;
use super::notes::Basis;
use super::process_table::{Elsewhere, Tally};
use super::shared_file::{self, Folder, LibraryEntry, RunFolder};
use super::{process, program};
use crate::clock::Moment;
use crate::follow::{
    self, Attachment, Children, CommandSetup, Enforcement, FileCounts, JobMechanism, JobReader,
    MechanismError, Members, OpenCounts, RunningAttachment, RunningOffer, process_limit,
};
use crate::limit_watchdog::LimitWatchdog;
use crate::poll::JobPoller;
use crate::reaped_io::WaitedIo;
use crate::rusage::has_no_children;
use crate::secure_start::command_variable;
use crate::{resident_marks, rusage, signals, spaces};

/// Time between looks, at most.
const LOOK: Duration = Duration::from_millis(50);

/// Processes that a job may have beyond its limit when it is told to end.
const LAST_WISH: u32 = 16;

/// The job, for what counts its files and what follows it for more.
pub(crate) type SharedJob = Rc<RefCell<PreloadedJob>>;

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "preload",
    "each process of a dynamically linked program: CPU, memory, I/O by calls, network, files",
    None,
)
.asks(SourceTraits {
    mode: SourceMode::Interposition,
    rights: "none",
    scope: "job: dynamically linked programs",
    intrusiveness: Intrusiveness::Medium,
    cost: "a library to load in each program; up to 0.1 µs at each call that it counts",
});

/// A job with the library in its programs.
pub struct PreloadedJob {
    level: Level,
    pub(super) place: RunFolder,
    command: OsString,
    why_blind: u32,
    poller: Option<JobPoller>,
    pub(super) tally: Tally,
    files: Files,
    uses: Option<CheckedCounts>,
    begun: Moment,
    last: Option<Instant>,
    pub(super) reading: JobReading,
    pub(super) alive: BTreeSet<u32>,
    pub(super) usage_before: CounterValues,
    pub(super) waited_io: WaitedIo,
    /// What the kernel has counted for all, once nobody is left.
    pub(super) total: Option<CounterValues>,
    pub(super) watchdog: LimitWatchdog,
}

impl PreloadedJob {
    /// Whether it attaches to processes that run already.
    pub const RUNNING: RunningOffer =
        Err("gets its library into programs when they begin, and not into one that runs already");

    /// What is counted by file.
    pub(crate) fn usage_counts(&self) -> Option<CheckedCounts> {
        self.uses.clone()
    }

    /// Where programs find the library.
    pub(crate) fn entry(&self) -> LibraryEntry {
        let Folder { library, file, .. } = &self.place.folder;
        LibraryEntry { library: library.clone(), file: file.clone() }
    }

    /// A tracer counts in programs that the library is not in: `in_process` says whether it does in one.
    pub(crate) fn let_others_count(&mut self, in_process: impl Fn(u32) -> bool + 'static) {
        self.tally.elsewhere = Elsewhere(Some(Box::new(in_process)));
    }

    /// Makes the shared file and puts the library beside it. `command` is what will be executed,
    /// with [`PreloadedJob::variables`] in its environment; `last_resort` a directory
    /// for the file where no temporary one can be written.
    pub fn open(
        level: Level,
        command: &OsStr,
        last_resort: &Path,
    ) -> Result<PreloadedJob, PreloadError> {
        let (place, uses) = RunFolder::new(level, last_resort)?;
        let uses = uses.map(|map| CheckedCounts::new(UsageTable::new(map)));
        rusage::adopt_orphans();
        Ok(PreloadedJob {
            level,
            place,
            command: command.to_owned(),
            why_blind: program::why_blind(command),
            poller: None,
            tally: Tally::default(),
            files: Files::default(),
            uses,
            begun: Moment::now(),
            last: None,
            reading: JobReading::default(),
            alive: BTreeSet::new(),
            usage_before: CounterValues::default(),
            waited_io: WaitedIo::begin().map_err(PreloadError::OwnIo)?,
            total: None,
            watchdog: LimitWatchdog::default(),
        })
    }

    /// Whether the library can be put beside a job here, tried.
    pub fn check(last_resort: &Path) -> Result<(), PreloadError> {
        RunFolder::new(Level::Processes, last_resort).map(drop)
    }

    /// The greatest sum of resident sizes that all processes had at one moment is at least and at
    /// most this.
    pub fn memory_bounds(&self) -> (u64, u64) {
        let memory = &self.reading.memory;
        let lower = match self.are_spaces_compared() {
            true => memory.rss_sum_peak,
            false => memory.floor_peak,
        };
        (lower, self.tally.upper_bound().max(memory.rss_sum_peak))
    }

    /// Whether looks tell processes of one address space apart from others.
    pub(super) fn are_spaces_compared(&self) -> bool {
        self.poller.as_ref().is_none_or(|poller| poller.not_compared().is_none())
    }

    /// The first slot is the command's.
    fn take_first_slot(&self, pid: u32) {
        let slot = &self.place.slots[0];
        shared_file::put(&slot.program, self.command.as_bytes());
        slot.flags.store(self.why_blind | FLAG_EXECED, Ordering::Relaxed);
        slot.parent_pid.store(std::process::id(), Ordering::Relaxed);
        slot.uid.store(rustix::process::getuid().as_raw(), Ordering::Relaxed);
        slot.started_ns.store(now_ns(), Ordering::Relaxed);
        for untold in [&slot.ended_ns, &slot.wait_status] {
            untold.store(UNTOLD, Ordering::Relaxed);
        }
        self.place.pids[0].store(u64::from(pid), Ordering::Relaxed);
        let life = Life { generation: 0, pid, state: STATE_EXECED };
        slot.life.store(life.word(), Ordering::Release);
        for count in [&self.place.head.used, &self.place.head.alive, &self.place.head.alive_peak] {
            count.store(1, Ordering::Release);
        }
    }

    fn look(&mut self) {
        clock::tell(&self.place.head);
        self.place.keep_ahead();
        let Some(poller) = &mut self.poller else { return };
        let (at_ns, began_ns) = (self.begun.elapsed_ns(), now_ns());
        // A look that fails leaves the last one standing.
        if let Ok(poll) = poller.poll(at_ns) {
            let remaining = poller.remaining();
            self.tally.find_hidden(&self.place, &poll, &remaining);
            // Before the rows of those who opened them.
            let (hidden, events) = (&self.tally.hidden, &mut self.tally.events);
            self.files.look(&self.place, hidden, |event| events.push_back(event));
            let now: BTreeSet<u32> = poller.living().into_iter().collect();
            let ended = self.tally.look(&self.place, &poll, &now, remaining, began_ns, now_ns());
            self.uses.iter().for_each(|uses| uses.look(&self.place, &self.tally, &ended));
            ended.iter().for_each(|(slot, _)| process::recycle(&self.place, *slot));
            let with_slot = self.tally.living.iter().filter(|p| !p.said_its_last());
            // A process that is known by a number only can be sent nothing, but lives.
            self.alive = now.into_iter().chain(with_slot.map(|p| p.pid)).collect();
            self.reading = self.sum_up(poll.reading);
            self.tell_witness();
        }
        self.last = Some(Instant::now());
    }

    /// What there is to hold the counts by file against.
    fn tell_witness(&mut self) {
        let Some(uses) = &self.uses else { return };
        self.tally.note_living_blind_spots();
        let is_whole = self.total.is_some() && !self.waited_io.has_lost_threads;
        uses.hold_against(cross_check::JobTotals {
            counters: self.reading.counters.clone(),
            is_whole,
            blind: self.blind_spots(),
            unseen: self.tally.unseen_io(),
            living: self.alive.len() as u64,
        });
    }

    fn grounds(&mut self) -> Basis {
        self.tally.note_living_blind_spots();
        let tally = &self.tally;
        let is_blind = !tally.blind_spots().is_empty();
        let why_not = if !tally.all_are_waited_for() {
            "a process did not wait for its children, whose counts the kernel keeps nowhere: looked \
             at in /proc now and then"
        } else if self.waited_io.has_lost_threads {
            "what a thread of weigh did that has ended cannot be told from what the job did"
        } else {
            "the job has not ended: looked at in /proc now and then"
        };
        let rusage_peak = rusage::waited().rss_peak_bytes;
        let process_peak = if tally.cut_short == 0 && !is_blind && !self.was_refused() {
            Ok(Mechanism::Preload)
        } else if self.total.is_some() && rusage_peak > rusage::own_rss_peak_bytes() {
            Ok(Mechanism::Rusage)
        } else {
            Err("processes that the library was not in, or that were killed, were looked at now \
                 and then"
                .to_owned())
        };
        Basis {
            level: self.level,
            is_waited_for: self.total.is_some() && !self.waited_io.has_lost_threads,
            why_not,
            blind: self.blind_spots(),
            unborn: self.unborn(),
            may_miss_processes: is_blind || tally.strangers_ended > 0 || self.was_refused(),
            has_no_threads: tally.has_no_threads(),
            unseen_io: tally.unseen_io(),
            process_peak,
            sum_bounds: self.memory_bounds(),
            was_killed: tally.cut_short > 0 && tally.with_slots() > 1,
        }
    }

    /// Processes in PID namespaces that were made, and have not begun.
    fn unborn(&self) -> u32 {
        let head = &self.place.head;
        let made = head.nested_made.load(Ordering::Relaxed);
        made.saturating_sub(head.nested_begun.load(Ordering::Relaxed))
    }

    /// Whether there was no slot for a process: too many at once, no room in the file, or its address space is
    /// limited.
    fn was_refused(&self) -> bool {
        self.place.is_cut() || self.place.head.refused.load(Ordering::Relaxed) != 0
    }

    /// The programs that the library was not in, for people.
    fn blind_spots(&self) -> String {
        let tally = &self.tally;
        let blind = tally.blind_spots();
        let mut all: Vec<String> =
            blind.iter().map(|(program, why)| format!("{program} ({why})")).collect();
        if self.was_refused() {
            let why = match self.place.is_cut() {
                true => "processes of which the job has cut the shared file short",
                false => "processes for which there was no place in the shared file",
            };
            all.push(why.to_owned());
        }
        let strangers = tally.unseen_strangers();
        if strangers > 0 {
            all.push(format!("{strangers} processes that the library did not hear of"));
        }
        all.join(", ")
    }
}

impl JobReader for PreloadedJob {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Preload
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watchdog.wake_fd()
    }

    fn next_look(&self) -> Option<Instant> {
        Some(self.last.map_or_else(Instant::now, |last| last + LOOK))
    }

    fn events(&mut self) -> Vec<Event> {
        let crossings = self.watchdog.crossings();
        if !crossings.is_empty() || self.last.is_none_or(|last| last.elapsed() >= LOOK) {
            self.look();
        }
        self.tally.events.drain(..).chain(crossings.into_iter().map(Event::Limit)).collect()
    }

    fn read(&mut self) -> Result<JobReading, MechanismError> {
        self.look();
        Ok(self.reading.clone())
    }

    fn glance(&self) -> JobReading {
        self.reading.clone()
    }

    fn statuses(&self) -> Vec<CollectorStatus> {
        let blind = self.blind_spots();
        let overflow = u64::from(self.place.head.overflow.load(Ordering::Relaxed));
        let lost = overflow + self.files.lost(&self.place);
        let reason = (!blind.is_empty()).then(|| format!("the library was not in {blind}"));
        let status = CollectorStatus::of_reasons(INFO.name, Mechanism::Preload, reason.as_slice());
        vec![CollectorStatus { lost, ..status }]
    }

    fn notes(&mut self) -> Vec<Note> {
        let mut notes = self.grounds().notes();
        resident_marks::qualify(&mut notes, &self.reading.memory, None);
        notes
    }
}

impl Attachment for PreloadedJob {
    fn command_setup(&self) -> CommandSetup<'_> {
        let own_folders = vec![self.place.folder.path.clone()];
        CommandSetup { variables: self.variables(), own_folders, filter: None }
    }

    fn arm(&mut self, pid: u32, _: BorrowedFd<'_>) -> Result<(), MechanismError> {
        let poller = JobPoller::new(pid, &[std::process::id()])?;
        self.waited_io = WaitedIo::begin().map_err(PreloadError::OwnIo)?;
        self.usage_before = rusage::waited().counters;
        self.begun = Moment::now();
        self.tally.epoch_ns = now_ns();
        self.uses.iter().for_each(CheckedCounts::begin);
        self.tally.fork_ns = made_ns(pid).unwrap_or(self.tally.epoch_ns);
        self.take_first_slot(pid);
        self.watchdog.start(&poller, self.begun);
        self.poller = Some(poller);
        Ok(())
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Err(PreloadError::RunsAlready.into())
    }
}

impl Members for PreloadedJob {
    fn living(&self) -> Vec<ProcessEnd> {
        let mut living = self.tally.remaining();
        living.retain(|process| self.alive.contains(&process.pid));
        living
    }

    fn processes(&mut self) -> Vec<ProcessEnd> {
        self.tally.remaining()
    }

    /// A process that has ended but was not waited for yet is not in the kernel's sums.
    fn unsettled(&self) -> u64 {
        u64::from(self.alive.is_empty() && !has_no_children())
    }

    fn signal(&mut self, to: Option<u32>, list: &[i32]) -> usize {
        let mut reached = Vec::new();
        if let Some(poller) =
            self.poller.as_ref().filter(|_| to.is_none() && signals::put_an_end(list))
        {
            let _turn = self.watchdog.wait_for_turn();
            reached = poller.signal_all(list);
        }
        self.look();
        let of_job: Vec<u32> =
            self.alive.iter().copied().filter(|pid| to.is_none_or(|to| to == *pid)).collect();
        // Those of whom only the library knew, too.
        let missed: Vec<u32> = of_job.into_iter().filter(|pid| !reached.contains(pid)).collect();
        reached.len() + signals::send_to_all(&missed, list)
    }
}

impl Children for PreloadedJob {
    fn next_child(&mut self) -> io::Result<Option<(Pid, ExitStatus)>> {
        let changed = follow::next_child()?;
        if let Some((pid, status)) = changed
            && status.stopped_signal().is_none()
        {
            let pid = pid.as_raw_nonzero().get() as u32;
            self.tally.statuses.insert(pid, status.into_raw() as u32);
        }
        Ok(changed)
    }
}

impl Enforcement for PreloadedJob {
    fn why_lower_bounds(&self) -> Option<String> {
        spaces::refusal()
    }

    fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        on_limit: OnLimit,
    ) -> Result<Vec<String>, MechanismError> {
        self.watchdog.set_limits(limits, on_limit);
        let most = process_limit(limits, on_limit)
            .map_or(0, |most| u32::try_from(most.max(1)).unwrap_or(u32::MAX));
        self.place.head.most.store(most, Ordering::Relaxed);
        Ok(Vec::new())
    }

    fn release(&mut self) -> Result<(), MechanismError> {
        self.watchdog.rest();
        self.place.head.most.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn set_ending(&mut self) -> Result<(), MechanismError> {
        // A process that is told to end may need a few to do so.
        let more = |most: u32| (most != 0).then(|| most.saturating_add(LAST_WISH));
        let _ = self.place.head.most.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        self.watchdog.set_ending();
        Ok(())
    }
}

impl OpenCounts for PreloadedJob {
    fn take_opens(&mut self, key: &FileKey) -> Option<u64> {
        self.files.take(key)
    }
}

impl JobMechanism for PreloadedJob {
    fn enforcement(&mut self) -> Option<&mut dyn Enforcement> {
        Some(self)
    }

    fn children(&mut self) -> Option<&mut dyn Children> {
        Some(self)
    }

    fn file_counts(&mut self) -> Option<&mut dyn FileCounts> {
        Some(self)
    }

    fn open_counts(&mut self) -> Result<&mut dyn OpenCounts, String> {
        match self.level {
            Level::Calls | Level::Files => Ok(self),
            Level::Processes => Err("only level 3 looks at files".to_owned()),
        }
    }
}

impl PreloadedJob {
    /// Variables that load the library into the command.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        // Another loader would complain, or fail; and so would a sanitizer's runtime.
        if self.why_blind & program::KEPT_OUT != 0 {
            return Vec::new();
        }
        let mut libraries = self.place.folder.library.clone().into_os_string();
        if let Some(others) = command_variable("LD_PRELOAD").filter(|list| !list.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        let mut place = self.place.folder.file.clone().into_os_string();
        place.push(":0.0");
        vec![("LD_PRELOAD".into(), libraries), ("WEIGH_PRELOAD".into(), place)]
    }
}

/// Whether a library must be kept out of a command, which goes on without.
pub(crate) fn is_kept_out_of(command: &OsStr) -> bool {
    program::why_blind(command) & FLAG_SANITIZED != 0
}

/// Whether a library must not be named in a command's environment: its loader would complain, or fail, or its
/// sanitizer's runtime would.
pub(crate) fn must_not_be_named(command: &OsStr) -> bool {
    program::why_blind(command) & program::KEPT_OUT != 0
}

/// Why a library cannot be loaded into a command; none if it can, or if nobody knows.
pub fn why_blind_in(command: &OsStr) -> Option<&'static str> {
    program::reason(program::why_blind(command))
}
