//! A job or a process in detail.
//!
//! Reads `/proc/PID` of its processes; emits rates between two looks. Nothing is read of processes that nobody looks at.

use std::collections::HashMap;
use std::time::Instant;

use weigh_collect::process_detail as detail;
use weigh_collect::procfs::{Io, Stat};
use weigh_schema::byte_text;
use weigh_schema::top::{TopProcess, TopReport};
use weigh_schema::top_detail::{
    ProcessReading, TOP_JOB, TopDetail, TopIo, TopLimit, TopProcessDetail, TopThread,
};

/// What is looked at in detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopFocus {
    /// Nothing.
    #[default]
    Node,
    /// The processes of a job, or a process, by PID: their I/O.
    Job(u32),
    /// A process: all of it.
    Process(u32),
    /// The processes of a job, or a process: all of each.
    Whole(u32),
}

impl TopFocus {
    fn pid(self) -> Option<u32> {
        match self {
            TopFocus::Node => None,
            TopFocus::Job(pid) | TopFocus::Process(pid) | TopFocus::Whole(pid) => Some(pid),
        }
    }
}

/// What rates are made of.
#[derive(Default)]
pub(super) struct DetailReader {
    at: Option<Instant>,
    io: HashMap<u32, Io>,
    /// CPU time of threads, by their number and start.
    threads: HashMap<(u32, u64), f64>,
}

impl DetailReader {
    /// None where there is no such process, or nothing is looked at.
    pub fn look(&mut self, focus: TopFocus, report: &TopReport) -> Option<TopDetail> {
        let Some(pid) = focus.pid() else {
            *self = DetailReader::default();
            return None;
        };
        let job = report.jobs.iter().find(|job| job.pid == pid);
        let is_its = |process: &&TopProcess| match job {
            Some(_) => process.job == Some(pid),
            None => process.pid == pid,
        };
        let found: Vec<&TopProcess> = report.processes.iter().filter(is_its).collect();
        if job.is_none() && found.is_empty() {
            return None;
        }
        // Not the interval of reports: the first look is between two of them.
        let now = Instant::now();
        let before = std::mem::take(self);
        self.at = Some(now);
        let seconds = before.at.map(|before| now.duration_since(before).as_secs_f64());
        let seconds = seconds.filter(|seconds| *seconds > 0.0);
        let is_whole = !matches!(focus, TopFocus::Job(_));
        let mut look = Look { before: &before, now: self, seconds, is_whole };
        Some(TopDetail {
            schema: TOP_JOB.to_string(),
            node: report.node.clone(),
            time: report.time,
            interval_seconds: seconds,
            job: job.cloned(),
            processes: found.into_iter().map(|process| look.process(process)).collect(),
        })
    }
}

struct Look<'a> {
    before: &'a DetailReader,
    now: &'a mut DetailReader,
    seconds: Option<f64>,
    is_whole: bool,
}

/// Of a job's processes only their I/O is read on the screen.
const NOT_READ: &str = "not read here";

impl Look<'_> {
    fn process(&mut self, process: &TopProcess) -> TopProcessDetail {
        let pid = process.pid;
        let io = self.io(pid);
        if !self.is_whole {
            return TopProcessDetail {
                process: process.clone(),
                io,
                thread_list: ProcessReading::unavailable(NOT_READ),
                open_files: ProcessReading::unavailable(NOT_READ),
                limits: ProcessReading::unavailable(NOT_READ),
            };
        }
        TopProcessDetail {
            process: process.clone(),
            io,
            thread_list: map(detail::threads(pid), |stats| self.threads(&stats)),
            open_files: detail::open_files(pid),
            limits: map(detail::limits(pid), |limits| {
                let limit = |(name, limit): (String, weigh_schema::allowed::ResourceLimit)| {
                    TopLimit { name, soft: limit.soft, hard: limit.hard }
                };
                limits.into_iter().map(limit).collect()
            }),
        }
    }

    fn io(&mut self, pid: u32) -> ProcessReading<TopIo> {
        let (before, seconds) = (self.before.io.get(&pid).copied(), self.seconds);
        map(detail::io(pid), |io| {
            self.now.io.insert(pid, io);
            // Another process of the same number has done less.
            let rate = |get: fn(&Io) -> u64| {
                let grown = get(&io).checked_sub(get(before.as_ref()?))?;
                Some(grown as f64 / seconds?)
            };
            TopIo {
                read_bytes: io.read_chars,
                written_bytes: io.write_chars,
                storage_read_bytes: io.storage_read,
                storage_written_bytes: io.storage_written,
                read_bytes_per_second: rate(|io| io.read_chars),
                written_bytes_per_second: rate(|io| io.write_chars),
                storage_read_bytes_per_second: rate(|io| io.storage_read),
                storage_written_bytes_per_second: rate(|io| io.storage_written),
            }
        })
    }

    fn threads(&mut self, stats: &[Stat]) -> Vec<TopThread> {
        stats.iter().map(|stat| self.thread(stat)).collect()
    }

    fn thread(&mut self, stat: &Stat) -> TopThread {
        let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
        let cpu_seconds = (stat.user_ticks + stat.system_ticks) as f64 / ticks_per_second;
        let identity = (stat.pid, stat.start_ticks);
        self.now.threads.insert(identity, cpu_seconds);
        let used = self.before.threads.get(&identity).map(|before| cpu_seconds - before);
        let cores = used.zip(self.seconds).map(|(used, seconds)| used.max(0.0) / seconds);
        let (name, name_base64) = byte_text::shown_with_base64(&stat.name);
        TopThread {
            tid: stat.pid,
            name,
            name_base64,
            state: stat.state,
            cpu_cores: cores,
            cpu_seconds,
        }
    }
}

fn map<T, U>(reading: ProcessReading<T>, make: impl FnOnce(T) -> U) -> ProcessReading<U> {
    ProcessReading { value: reading.value.map(make), reason: reading.reason }
}
