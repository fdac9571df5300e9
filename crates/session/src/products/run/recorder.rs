//! Turns what is collected into updates, by way of the accounting, and emits them to the sink of the run.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use weigh_account::io::Step;
use weigh_account::{Series, Tree};
use weigh_collect::clock::Moment;
use weigh_schema::event::{JobReading, ProcessEnd, SharedMemoryReading};
use weigh_schema::io::FileUse;
use weigh_schema::sink::Sink;
use weigh_schema::summary::Snapshot;
use weigh_schema::update::{Scope, Update};
use weigh_schema::{METRICS, MetricKind, Value};

/// What is recorded while the job runs.
pub(super) struct Recorder<'a> {
    /// What takes updates that need nothing of this.
    pub sink: &'a mut dyn Sink,
    tree: Tree,
    series: Series,
    /// The job's start, since the Unix epoch.
    epoch_ns: i64,
    /// When this was made, and how long after the job's start.
    made: (Moment, u64),
    looks: Vec<SharedMemoryReading>,
    /// All processes that were of the job.
    pids: HashSet<u32>,
    /// Whether files are followed: each has a row that says all that was done with it.
    with_uses: bool,
    /// The devices of files that were written, as rows have them.
    written_devices: BTreeSet<u32>,
    /// The metrics that readings do not tell.
    unknown: HashSet<&'static str>,
    unknown_series: HashSet<&'static str>,
}

impl<'a> Recorder<'a> {
    /// Records what happens from `epoch_ns` on, which was `since_ns` ago.
    pub fn new(
        sink: &'a mut dyn Sink,
        epoch_ns: i64,
        since_ns: u64,
        with_uses: bool,
    ) -> Recorder<'a> {
        Recorder {
            sink,
            tree: Tree::default(),
            series: Series::default(),
            epoch_ns,
            made: (Moment::now(), since_ns),
            looks: Vec::new(),
            pids: HashSet::new(),
            with_uses,
            written_devices: BTreeSet::new(),
            unknown: HashSet::new(),
            unknown_series: HashSet::new(),
        }
    }

    /// The time of something since the Unix epoch.
    pub fn epoch(&self, at_ns: u64) -> i64 {
        self.epoch_ns.saturating_add_unsigned(at_ns)
    }

    /// The time now since the Unix epoch, whatever the clock of the day has been set to meanwhile.
    pub fn now(&self) -> i64 {
        let (moment, since_ns) = self.made;
        self.epoch(since_ns + moment.elapsed_ns())
    }

    /// A process began to execute a program.
    pub fn exec(&mut self, pid: u32, command: Vec<String>) {
        self.pids.insert(pid);
        self.tree.exec(pid, command);
    }

    /// A process has ended, or is alive at the end.
    pub fn process(&mut self, process: &ProcessEnd, now_ns: u64) {
        self.pids.insert(process.pid);
        let mut row = self.tree.row(process, self.epoch_ns, now_ns);
        row.metrics.retain(|name, _| !self.unknown.contains(name.as_str()));
        self.sink.emit(&Update::Process(row));
    }

    /// The processes that were of the job so far.
    pub fn pids(&self) -> &HashSet<u32> {
        &self.pids
    }

    /// What a process opened. A file that was followed is told of once, by who followed it.
    pub fn opened(&mut self, file: FileUse) {
        if !self.with_uses {
            self.sink.emit(&Update::FileUse(Box::new(file)));
        }
    }

    /// The job has written files on these devices.
    pub fn note_written(&mut self, devices: &BTreeSet<u32>) {
        self.written_devices.extend(devices);
    }

    /// The devices of files that the job is known to have written: major * 2^20 + minor.
    pub fn written_devices(&self) -> impl Iterator<Item = u32> {
        self.written_devices.iter().copied()
    }

    /// What was read and written since the last look.
    pub fn io_step(&mut self, step: Step) {
        let moments = step.moments.into_iter().map(Update::IoInterval);
        for entry in moments.chain(step.places.into_iter().map(Update::OffsetHistogram)) {
            self.sink.emit(&entry);
        }
    }

    /// Values of one process: its own counters, its memory on GPUs; now, or at that time since the Unix epoch.
    pub fn process_samples(
        &mut self,
        pid: u32,
        time_ns: Option<i64>,
        values: BTreeMap<String, f64>,
    ) {
        if !values.is_empty() {
            let (time_ns, scope) = (time_ns.unwrap_or_else(|| self.now()), Scope::Process(pid));
            self.sink.emit(&Update::Samples { time_ns, scope, values });
        }
    }

    /// A snapshot was taken.
    pub fn snapshot(&mut self, snapshot: Snapshot) {
        self.sink.emit(&Update::Snapshot(Box::new(snapshot)));
        self.sink.flush();
    }

    /// From now on readings do not tell these metrics.
    pub fn set_unknown(&mut self, metrics: HashSet<&'static str>) {
        let unknown = METRICS.iter().filter(|metric| metrics.contains(metric.name));
        self.unknown_series = unknown.filter_map(|metric| metric.series).collect();
        self.unknown = metrics;
    }

    /// A reading at a tick, with what other collectors sampled.
    pub fn tick(&mut self, reading: &JobReading, more: Vec<(&'static str, f64)>) {
        let mut samples = self.known_samples(reading);
        samples.extend(more);
        self.samples(reading.at_ns, samples);
        self.sink.flush();
    }

    /// Ends a window of `cpu_cores_peak` at the last reading.
    pub fn end_window(&mut self) {
        self.series.end_window();
    }

    /// What a reading tells, without what it does not.
    pub fn known_samples(&mut self, reading: &JobReading) -> Vec<(&'static str, f64)> {
        let mut samples = self.series.samples(reading);
        samples.retain(|(series, _)| !self.unknown_series.contains(series));
        samples
    }

    /// The last samples of the job: every series of a counter ends at the summary's value.
    pub fn last_samples(
        &mut self,
        at_ns: u64,
        mut samples: Vec<(&'static str, f64)>,
        metrics: &BTreeMap<String, Value>,
    ) {
        let totals = METRICS.iter().filter(|metric| metric.kind == MetricKind::Counter);
        for (name, series) in totals.filter_map(|metric| Some((metric.name, metric.series?))) {
            samples.retain(|(sampled, _)| *sampled != series);
            let value = metrics.get(name).and_then(Value::number);
            samples.extend(value.map(|value| (series, value)));
        }
        self.samples(at_ns, samples);
        self.sink.flush();
    }

    /// A new peak of memory.
    pub fn peak(&mut self, at_ns: u64, rss_sum: u64, floor: u64, spaces: u64) {
        let samples = self.series.peak_samples(rss_sum, floor, spaces);
        self.samples(at_ns, samples);
    }

    /// A look at shared pages.
    pub fn look(&mut self, look: SharedMemoryReading) {
        self.series.shared(&look);
        let samples = self.series.peak_samples(look.rss_sum_bytes, look.union_bytes, look.spaces);
        self.samples(look.at_ns, samples);
        self.looks.push(look);
    }

    /// The looks so far.
    pub fn looks(&self) -> &[SharedMemoryReading] {
        &self.looks
    }

    /// The greatest rate of CPU use over a window.
    pub fn cores_peak(&self) -> Option<f64> {
        self.series.cores_peak()
    }

    fn samples(&mut self, at_ns: u64, samples: Vec<(&'static str, f64)>) {
        let values = samples.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let time_ns = self.epoch(at_ns);
        let scope = Scope::Job;
        self.sink.emit(&Update::Samples { time_ns, scope, values });
    }
}
