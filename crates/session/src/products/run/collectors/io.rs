//! What the job reads and writes by file and process: as `weigh io` has it, for the recording.
//!
//! While the job runs, what has changed is written into the journal at each tick, so that a recording that
//! is cut short has it up to the last one.

use std::time::Instant;

use anyhow::Context as _;
use weigh_account::io::{Checkpoint, IoBook, Run, found};
use weigh_collect::follow::{FileMechanism, JobMechanism, MechanismError};
use weigh_collect::io::{MAPPED_READ, MAPPED_WRITTEN, RowScope, Telling, name};
use weigh_collect::notice;
use weigh_collect::preload::PreloadError;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::io::{IoFound, Transfer};
use weigh_schema::update::Update;
use weigh_schema::{Mechanism, Quality, Unit, Value, metric_name};

use super::collector::{
    ActiveCollector, CollectorSource, FileRows, Findings, MissingCollector, Subject,
};
use super::footprint::settle_growth;
use crate::products::io::mount::{JobMount, MountEnd};
use crate::products::io::{Gatherer, LOOK, mechanism};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::RunSettings;
use crate::products::run::settings::{RunIoMechanism, RunIoSettings};

const NAME: &str = "io";
const METRICS: &[&str] =
    &[metric_name::mmap_read_bytes_total, metric_name::mmap_written_bytes_total];
const WRITTEN_TO_THE_PAGE: &str = "whole pages; stores into a page that is dirty already, and into memory of a \
                                   tmpfs, are not seen";

/// So many rows are written into the journal at a tick; if more have changed, those that were written
/// longest ago.
const ROWS_AT_A_TICK: usize = 1024;
/// What is known so far is put together and written for no more than a fifth of the time.
const REST_PER_RECORD: u32 = 4;

/// The metric is of all files.
const ELSEWHERE: &str =
    "of a mount only its own files are known: what is done with others is not seen there";

const WITHOUT_ROOT: &str =
    "; without root, --mechanism preload and --io-mechanism preload+ptrace count calls by file";

/// Who tells of reads and writes, if the user has said who is to: refuses what does not work here. Before the
/// command is created, for its environment may have to hold something.
pub(in crate::products::run) fn open(
    settings: &RunSettings,
    follower: &mut dyn JobMechanism,
) -> anyhow::Result<Option<Box<dyn FileMechanism>>> {
    let Some(io) = &settings.io else { return Ok(None) };
    Ok(match io.mechanism {
        // By who follows the job.
        RunIoMechanism::Auto | RunIoMechanism::Ptrace => None,
        RunIoMechanism::PreloadPtrace => {
            let command = &settings.command[0];
            let counts = follower.file_counts();
            let both = counts.map_or(Ok(None), |counts| counts.count_beside_library(command));
            if let Some(error) = both.as_ref().err().and_then(|e| PreloadError::of_file_size(e)) {
                notice!(
                    "--io-mechanism preload+ptrace does not work here: {error}; by ptrace alone instead"
                );
                return Ok(None);
            }
            let both = both.context("--io-mechanism preload+ptrace does not work here")?;
            Some(both.context("--io-mechanism preload+ptrace: only beside --mechanism ptrace")?)
        }
        asked @ (RunIoMechanism::Bpf | RunIoMechanism::PreloadBpf) => {
            if asked == RunIoMechanism::PreloadBpf {
                mechanism::tell_bpf_instead("--io-mechanism", settings.is_quiet);
            }
            let kernel = mechanism::by_kernel(io.telling(), io.apart);
            Some(kernel.context("--io-mechanism bpf does not work here")?)
        }
    })
}

/// Starts it on the job. Unless the user has said who is to tell: where
/// the job is followed by a library in its programs or by a tracer, that counts by file, too.
pub(super) fn start(
    (settings, wanted): (&RunSettings, &RunIoSettings),
    subject: Subject<'_>,
    follower: &mut dyn JobMechanism,
    asked_for: Option<Box<dyn FileMechanism>>,
) -> ActiveCollector {
    let (telling, apart) = (wanted.telling(), wanted.apart);
    let arm = |io: Box<dyn FileMechanism>| -> Result<Gatherer, MechanismError> {
        let mut gatherer = Gatherer::new(io, name);
        match (gatherer.io.attachment(), subject) {
            (Some(io), Subject::Command(waiting)) => io.arm(subject.pid(), waiting.pidfd())?,
            (Some(io), Subject::Process(pid)) => io.running()?.join(pid)?,
            (None, _) => {}
        }
        Ok(gatherer)
    };
    let by_tracer = follower.mechanism() == Mechanism::Ptrace;
    let counted = follower.file_counts().and_then(|counts| counts.counted());
    let by_kernel = || arm(mechanism::by_kernel(telling, apart)?);
    let open = || {
        if let Some(io) = asked_for {
            return arm(io);
        }
        let by_follower = || Some(Gatherer::new(counted?, name));
        let without = match (telling, apart) {
            // It sees each call by itself.
            _ if by_tracer => {
                return by_follower().map_or_else(by_kernel, Ok);
            }
            (Telling::Sums, RowScope::Processes) => {
                let Some(gatherer) = by_follower() else { return by_kernel() };
                let RunSettings { command, is_quiet, .. } = settings;
                mechanism::tell_if_blind(&command[0], "--io-mechanism", *is_quiet);
                return Ok(gatherer);
            }
            (Telling::Sums, RowScope::Threads) => "--io-by thread: rows are each process's",
            (Telling::Each, RowScope::Processes) => {
                "--io-calls: no row for each call, only sums by file"
            }
            (Telling::Each, RowScope::Threads) => {
                "--io-calls, --io-by thread: only sums by file and process"
            }
        };
        // Sums by file are better than neither.
        by_kernel().or_else(|error| {
            let Some(gatherer) = by_follower() else { return Err(error) };
            notice!("{without}: {error}");
            Ok(gatherer)
        })
    };
    let mut mechanism = Mechanism::Bpf;
    let collector: Box<dyn CollectorSource> = match open() {
        Ok(gatherer) => {
            mechanism = gatherer.io.grounds().mechanism;
            Box::new(FileUses::of(gatherer, None))
        }
        Err(error) => {
            let reason = format!("{error}{WITHOUT_ROOT}");
            notice!("--io: nothing is told by file: {reason}");
            Box::new(MissingCollector {
                name: NAME.to_string(),
                mechanism,
                state: CollectorState::Unavailable,
                reason,
                metrics: METRICS,
            })
        }
    };
    ActiveCollector { metrics: METRICS, mechanism, collector }
}

/// Starts it on what is mounted for the job.
pub(super) fn start_at(mount: JobMount) -> ActiveCollector {
    let JobMount { gatherer, end } = mount;
    let mechanism = gatherer.io.grounds().mechanism;
    let collector = Box::new(FileUses::of(gatherer, Some(end)));
    ActiveCollector { metrics: METRICS, mechanism, collector }
}

struct FileUses {
    gatherer: Gatherer,
    /// What is mounted for the job, if that is whence it is known.
    mount: Option<MountEnd>,
    saved: Checkpoint,
    began: Instant,
    next_look: Instant,
    next_record: Instant,
}

impl FileUses {
    fn of(gatherer: Gatherer, mount: Option<MountEnd>) -> FileUses {
        let now = Instant::now();
        let (next_look, next_record) = (now + LOOK, now);
        let saved = Checkpoint::default();
        FileUses { gatherer, mount, saved, began: now, next_look, next_record }
    }

    fn run(&self) -> Run {
        Run {
            command: Vec::new(),
            command_base64: Vec::new(),
            pid: None,
            mount: None,
            wall_seconds: self.began.elapsed().as_secs_f64(),
            tally: self.gatherer.io.tally(),
            grounds: self.gatherer.io.grounds(),
        }
    }

    /// What has changed goes into the journal.
    fn save(&mut self, book: &IoBook, recorder: &mut Recorder<'_>) {
        self.gatherer.emit_changed(book, &mut self.saved, ROWS_AT_A_TICK, recorder.sink);
        recorder.note_written(&self.gatherer.written_devices);
        recorder.sink.emit(&Update::IoTotals(Box::new(found(book, &self.run()))));
    }
}

impl CollectorSource for FileUses {
    fn begin(&mut self) {
        self.gatherer.begin();
        self.began = Instant::now();
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.next_look)
    }

    fn attend(&mut self, recorder: &mut Recorder<'_>) {
        if Instant::now() >= self.next_look {
            self.gatherer.set_clock(recorder.now());
            self.gatherer.take_in(recorder.sink);
            self.next_look = Instant::now() + LOOK;
        }
    }

    fn record(&mut self, recorder: &mut Recorder<'_>) {
        let began = Instant::now();
        if began < self.next_record {
            return;
        }
        // What cannot be read now is told of in the end.
        if let Ok(book) = self.gatherer.so_far() {
            self.save(&book, recorder);
            recorder.io_step(self.gatherer.step(&book, recorder.now()));
        }
        self.next_record = Instant::now() + began.elapsed() * REST_PER_RECORD;
    }

    fn file_rows(&mut self) -> Option<&mut dyn FileRows> {
        Some(self)
    }

    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        recorder: &mut Recorder<'_>,
    ) -> CollectorStatus {
        let mut run = self.run();
        let end = self.gatherer.end(&mut run, recorder.sink);
        let lost = run.tally.lost_calls + run.tally.lost_requests + run.tally.lost_threads;
        let book = std::mem::take(&mut self.gatherer.book);
        recorder.io_step(self.gatherer.step(&book, recorder.now()));
        let mut all = self.gatherer.conclude(&book, &run, recorder.sink);
        recorder.note_written(&self.gatherer.written_devices);
        if let Err(error) = end {
            all.notes.push(format!("what was open in the end could not be read: {error}"));
        }
        let mechanism = all.mechanism;
        match all.qualities.get(Transfer::Mapped.name()) {
            _ if self.mount.is_some() => findings.unavailable(METRICS, ELSEWHERE),
            Some(trust) => findings.unavailable(METRICS, &trust.reason),
            None => give_mapped(&all, lost, &run, findings),
        }
        if self.mount.is_none() {
            settle_growth(findings, &run.tally, &run.grounds);
        }
        let is_whole = lost == 0 && run.tally.apart_calls == 0;
        findings.uncounted_calls = run.tally.uncounted_calls.filter(|_| is_whole);
        let status = CollectorStatus::of_reasons(NAME, mechanism, &all.notes);
        findings.io = Some(Box::new(all));
        CollectorStatus { lost, ..status }
    }
}

impl FileRows for FileUses {
    fn may_end(&mut self) -> bool {
        let Some(mount) = &mut self.mount else { return true };
        mount.is_done(|| self.gatherer.io.detach()).unwrap_or_else(|error| {
            notice!("{error}");
            true
        })
    }
}

/// The metrics of mapped memory are the sums of all files. What came into the page cache is exact unless something was
/// lost; of what was stored a lower bound is known.
fn give_mapped(found: &IoFound, lost: u64, run: &Run, findings: &mut Findings) {
    let mapped = found.totals.by_kind.get(Transfer::Mapped.name()).copied().unwrap_or_default();
    let mut missing = Vec::from_iter((lost > 0).then(|| format!("{lost} things found no room")));
    if run.grounds.quality != Quality::Exact {
        missing.extend(run.grounds.notes.iter().cloned());
    }
    let written = found.qualities.get(MAPPED_WRITTEN).map(|trust| trust.reason.clone());
    let written = written.unwrap_or_else(|| WRITTEN_TO_THE_PAGE.to_string());
    let read = found.qualities.get(MAPPED_READ).map(|trust| trust.reason.clone());
    let reasons = [Vec::from_iter(read), vec![written]].map(|own| [own, missing.clone()].concat());
    let moved = [mapped.read_bytes, mapped.written_bytes];
    for ((name, bytes), reasons) in METRICS.iter().zip(moved).zip(reasons) {
        let value = Value::whole(Unit::Bytes, bytes, Mechanism::Bpf).estimated_for(&reasons);
        findings.given.insert((*name).to_string(), value);
    }
}
