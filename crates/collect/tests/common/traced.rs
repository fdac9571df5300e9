//! Runs a command under a tracer, to its end.
#![allow(dead_code)]

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use weigh_collect::follow::{
    Attachment as _, Children as _, JobDetail, JobMechanism as _, JobReader as _, Members as _,
};
use weigh_collect::ptrace::{Stops, TracedJob};
use weigh_collect::rusage::waited;
use weigh_collect::spawn::{SignalMask, With, spawn_with};
use weigh_schema::event::{CollectorStatus, Event, JobReading, Note, ProcessEnd};
use weigh_schema::{Counter, CounterValues};

/// A tracer waits for all children of this process, whichever test started them: one test at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program of `tests/workloads`, built if it has to be.
pub fn workload(name: &str) -> String {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/workloads");
        if !folder.join("bin/witness-static").exists() {
            let made = std::process::Command::new("make").arg("-sC").arg(&folder).status();
            assert!(made.unwrap().success(), "workloads");
        }
        folder.canonicalize().unwrap().join("bin")
    });
    folder.join(name).display().to_string()
}

/// What came of a run.
pub struct Run {
    pub status: ExitStatus,
    pub stops: Vec<i32>,
    pub rows: Vec<ProcessEnd>,
    pub execs: usize,
    pub reading: JobReading,
    pub readings: Vec<JobReading>,
    pub notes: Vec<Note>,
    pub statuses: Vec<CollectorStatus>,
    pub truth: String,
    /// What the kernel has counted for all that was waited for, before and after.
    pub waited: (CounterValues, CounterValues),
}

impl Run {
    /// A counter of the whole job.
    pub fn count(&self, counter: Counter) -> u64 {
        self.reading.counters.get(counter)
    }

    /// What the program says it did.
    pub fn truth(&self, key: &str) -> u64 {
        let line = self.truth.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key} in {:?}", self.truth)).parse().unwrap()
    }

    /// The rows of processes with that name.
    pub fn named(&self, name: &str) -> Vec<&ProcessEnd> {
        self.rows.iter().filter(|row| row.name == name).collect()
    }

    /// Nobody is left, and each process has its row.
    pub fn check_population(&self) {
        let population = &self.reading.population;
        assert_eq!((population.processes, population.threads), (0, 0));
        assert_eq!(population.processes_total as usize, self.rows.len(), "{:?}", self.rows);
    }

    /// Everything fits together: nothing is left, and the rows add up to the job.
    pub fn check(&self) {
        self.check_population();
        let mut sum = CounterValues::default();
        for &counter in Counter::ALL {
            sum.set(counter, self.rows.iter().map(|row| row.counters.get(counter)).sum());
            assert_eq!(sum.get(counter), self.count(counter), "{counter:?}");
        }
        for pair in self.readings.windows(2) {
            for &counter in Counter::ALL {
                assert!(pair[0].counters.get(counter) <= pair[1].counters.get(counter));
            }
        }
        let memory = &self.reading.memory;
        assert!(memory.floor_peak <= memory.rss_sum_peak, "{memory:?}");
        assert!(memory.process_peak <= memory.floor_peak, "{memory:?}");
    }
}

/// What a test does while a command runs: it gets the job and the command's PID.
pub type Meanwhile<'a> = &'a mut dyn FnMut(&mut TracedJob, u32);

pub fn trace(command: &[&str]) -> Run {
    trace_with(command, &mut |_, _| {})
}

/// The same with the calls looked at.
pub fn trace_calls(command: &[&str], stops: Stops) -> Run {
    let wanted = JobDetail { calls: true, network: true, files: true, ..JobDetail::default() };
    trace_by(command, TracedJob::that_sees(wanted, stops).unwrap(), &mut |_, _| {})
}

pub fn trace_with(command: &[&str], meanwhile: Meanwhile<'_>) -> Run {
    trace_by(command, TracedJob::new().unwrap(), meanwhile)
}

fn trace_by(command: &[&str], mut job: TracedJob, meanwhile: Meanwhile<'_>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let truth = folder.path().join("truth");
    let mut arguments: Vec<OsString> = vec!["/usr/bin/env".into()];
    arguments.push(format!("TRUTH_FILE={}", truth.display()).into());
    // The same process: `env` executes the command in its own place.
    arguments.extend(command.iter().map(OsString::from));
    let before = waited().counters;
    let mask = SignalMask::block(&[]).unwrap();
    let waiting = spawn_with(
        &arguments,
        &mask,
        &With { filter: job.command_setup().filter, ..With::default() },
    )
    .unwrap();
    let pid = waiting.pid.as_raw_nonzero().get() as u32;
    // A process group whose leader's parent is elsewhere in the session: in an orphaned one, as
    // that of these tests may be, the terminal's stop signals stop nobody.
    rustix::process::setpgid(Some(waiting.pid), Some(waiting.pid)).unwrap();
    job.arm(pid, waiting.pidfd()).unwrap();
    waiting.go().unwrap();

    let (mut status, mut stops) = (None, Vec::new());
    let (mut rows, mut execs, mut readings) = (Vec::new(), 0, Vec::new());
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut next_reading = Instant::now();
    loop {
        wait(&job);
        while let Some((changed, change)) = job.next_child().unwrap() {
            assert_eq!(changed.as_raw_nonzero().get() as u32, pid);
            match change.stopped_signal() {
                Some(signal) => stops.push(signal),
                None => status = Some(change),
            }
        }
        meanwhile(&mut job, pid);
        for event in job.events() {
            match event {
                Event::ProcessEnd(row) => rows.push(*row),
                Event::Exec { .. } => execs += 1,
                _ => {}
            }
        }
        if status.is_some() && job.glance().population.processes == 0 {
            break;
        }
        if Instant::now() >= next_reading {
            readings.push(job.read().unwrap());
            next_reading = Instant::now() + Duration::from_millis(20);
        }
        assert!(Instant::now() < deadline, "{command:?} does not end: {:?}", job.living());
    }
    let reading = job.read().unwrap();
    readings.push(reading.clone());
    rows.extend(job.events().into_iter().filter_map(|event| match event {
        Event::ProcessEnd(row) => Some(*row),
        _ => None,
    }));
    let (notes, statuses) = (job.notes(), job.statuses());
    Box::new(job).close();
    let truth = std::fs::read_to_string(truth).unwrap_or_default();
    let status = status.unwrap();
    let waited = (before, waited().counters);
    Run { status, stops, rows, execs, reading, readings, notes, statuses, truth, waited }
}

fn wait(job: &TracedJob) {
    let until = job.next_look().unwrap().saturating_duration_since(Instant::now());
    let until = until.min(Duration::from_millis(20));
    let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: until.subsec_nanos().into() };
    let wake: BorrowedFd<'_> = job.wake_fd().unwrap();
    let _ = poll(&mut [PollFd::new(&wake.as_fd(), PollFlags::IN)], Some(&timeout));
}
