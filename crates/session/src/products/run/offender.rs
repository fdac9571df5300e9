//! Who a limit that was crossed is laid to, where no program was at the point of the crossing: the process that has
//! used most of it since the last look.
//!
//! Reads what the follower and `/proc` know of each living process, once a limit is half used up. Names nobody for
//! what no process uses (the time), and where none has used anything.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weigh_account::job_value;
use weigh_collect::follow::JobMechanism;
use weigh_collect::inspect::{inspect, inspect_briefly};
use weigh_collect::procfs;
use weigh_schema::byte_text;
use weigh_schema::event::{JobReading, ProcessEnd};
use weigh_schema::metric_name;
use weigh_schema::summary::Offender;
use weigh_schema::{Counter, CounterValues, Group, metric};

/// A look at all processes that took t is followed by no other for so many t.
const PAUSE_PER_LOOK: u32 = 20;
/// Processes that have ended are remembered, at most.
const ENDED_MOST: usize = 4096;

/// A process, whatever its number is given to later.
type Identity = (u32, u64);

/// What each process had used at the last look.
#[derive(Default)]
pub(super) struct UsageWatch {
    before: HashMap<Identity, CounterValues>,
    ended: Vec<ProcessEnd>,
    /// Those that had ended at the last look.
    ended_before: Vec<ProcessEnd>,
    /// When the last look was over, and how long it took.
    last: Option<(Instant, Duration)>,
}

impl UsageWatch {
    /// A process has ended since the last look.
    pub fn ended(&mut self, process: &ProcessEnd) {
        if self.ended.len() >= ENDED_MOST {
            self.ended.drain(..ENDED_MOST / 2);
        }
        self.ended.push(process.clone());
    }

    /// Nobody is near a limit.
    pub fn forget(&mut self) {
        self.ended.clear();
    }

    /// This is the last look from now on, unless looks at so many processes would keep limits waiting.
    pub fn remember(&mut self, job: &dyn JobMechanism) {
        if self.last.is_some_and(|(at, took)| at.elapsed() < took * PAUSE_PER_LOOK) {
            return;
        }
        let began = Instant::now();
        self.before = job.living().iter().map(|p| (identity(p), use_of(p))).collect();
        self.ended_before = std::mem::take(&mut self.ended);
        self.last = Some((Instant::now(), began.elapsed()));
    }

    /// The process that has used most of a metric since the last look.
    pub fn greatest(&self, name: &str, job: &dyn JobMechanism) -> Option<Offender> {
        match (name, metric(name)?.group) {
            (_, Group::Time | Group::Gpu) => None,
            (_, Group::Memory) => holds_most(job),
            (metric_name::threads_peak, _) => {
                let pid = most(job.living().iter().map(|p| Some((p.pid, stat(p.pid)?.threads))))?;
                Some(inspect_briefly(pid))
            }
            (_, Group::Processes) => Some(inspect_briefly(has_most_children(job)?)),
            _ => self.used_most(name, job),
        }
    }

    fn used_most(&self, name: &str, job: &dyn JobMechanism) -> Option<Offender> {
        // What fills a disk may have been written some looks before the scan that finds it.
        let recently = self.ended.iter().chain(&self.ended_before);
        self.used_most_since(&self.before, self.ended.iter(), name, job)
            .or_else(|| self.used_most_since(&HashMap::new(), recently, name, job))
    }

    fn used_most_since<'a>(
        &self,
        before: &HashMap<Identity, CounterValues>,
        ended: impl Iterator<Item = &'a ProcessEnd>,
        name: &str,
        job: &dyn JobMechanism,
    ) -> Option<Offender> {
        let none = CounterValues::default();
        let since = |process: &ProcessEnd, now: &CounterValues| {
            let before = before.get(&identity(process)).unwrap_or(&none);
            used(name, now).saturating_sub(used(name, before))
        };
        let living = job.living();
        let alive = living.iter().map(|p| (since(p, &use_of(p)), p, true));
        let ended = ended.map(|p| (since(p, &p.counters), p, false));
        let (amount, process, is_alive) = alive.chain(ended).max_by_key(|(amount, ..)| *amount)?;
        (amount > 0).then(|| match is_alive {
            true => inspect_briefly(process.pid),
            false => of_ended(process),
        })
    }
}

fn of_ended(process: &ProcessEnd) -> Offender {
    let command = match process.command.is_empty() {
        true => std::slice::from_ref(&process.name),
        false => &process.command[..],
    };
    Offender {
        pid: process.pid,
        thread: process.pid,
        name: byte_text::shown(&process.name),
        name_base64: byte_text::base64(&process.name),
        command: command.iter().map(|word| byte_text::shown(word)).collect(),
        command_base64: byte_text::base64_of_each(command),
        unreadable: vec!["it had ended when the limit was found to be crossed".to_string()],
        ..Offender::default()
    }
}

fn identity(process: &ProcessEnd) -> Identity {
    (process.pid, process.started_ns)
}

fn stat(pid: u32) -> Option<procfs::Stat> {
    procfs::parse_stat(&procfs::read_of(pid, "stat").ok()?)
}

/// What a process has used so far, by the mechanism that knows most of it.
fn use_of(process: &ProcessEnd) -> CounterValues {
    let mut values = CounterValues::default();
    if let Some(stat) = stat(process.pid) {
        values.set(Counter::UserTicks, ticks_ns(stat.user_ticks));
        values.set(Counter::SystemTicks, ticks_ns(stat.system_ticks));
        values.set(Counter::Runtime, ticks_ns(stat.user_ticks + stat.system_ticks));
        values.set(Counter::MinorFaults, stat.minor_faults);
        values.set(Counter::MajorFaults, stat.major_faults);
    }
    let io = procfs::read_of(process.pid, "io").ok();
    for (counter, value) in
        io.and_then(|text| procfs::parse_io(&text)).iter().flat_map(procfs::io_values)
    {
        values.set(counter, value);
    }
    values.at_least(&process.counters)
}

fn ticks_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000) / rustix::param::clock_ticks_per_second().max(1)
}

/// How much of a metric that is: in any unit, for comparing.
fn used(name: &str, counters: &CounterValues) -> u64 {
    let Some(metric) = metric(name) else { return 0 };
    match metric.group {
        Group::Cpu => counters.get(Counter::Runtime),
        Group::Files if name != metric_name::files_opened_total => written(counters),
        _ => {
            let reading = JobReading { counters: counters.clone(), ..JobReading::default() };
            // Seconds are compared to the nanosecond.
            job_value(metric, &reading, 0.0).map_or(0, |value| (value * 1e9) as u64)
        }
    }
}

/// What fills directories, as far as counters tell.
fn written(counters: &CounterValues) -> u64 {
    use Counter::{OtherWriteChars, StorageWritten, UringWriteChars, WriteChars};
    let by_calls = [WriteChars, UringWriteChars, OtherWriteChars].map(|c| counters.get(c));
    by_calls.iter().sum::<u64>().max(counters.get(StorageWritten))
}

/// The process that holds most memory.
pub(super) fn holds_most(job: &dyn JobMechanism) -> Option<Offender> {
    let held = |pid: u32| {
        let status = procfs::read_of(pid, "status").ok()?;
        procfs::parse_status(&status).rss_bytes
    };
    let pid = job.living().into_iter().map(|process| process.pid).max_by_key(|pid| held(*pid))?;
    Some(inspect(pid, pid))
}

/// The process of which most living ones are children.
fn has_most_children(job: &dyn JobMechanism) -> Option<u32> {
    let living = job.living();
    let mut children: HashMap<u32, u64> = HashMap::new();
    for process in &living {
        let parent = match process.parent_pid {
            0 => stat(process.pid).map_or(0, |stat| stat.parent_pid),
            parent => parent,
        };
        *children.entry(parent).or_default() += 1;
    }
    most(living.iter().map(|p| Some((p.pid, *children.get(&p.pid)?))))
}

/// The process with the greatest number; the eldest of equals.
fn most(counts: impl Iterator<Item = Option<(u32, u64)>>) -> Option<u32> {
    let greatest = counts.flatten().max_by_key(|(pid, count)| (*count, std::cmp::Reverse(*pid)));
    greatest.map(|(pid, _)| pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_a_disk_is_what_was_written() {
        let mut counters = CounterValues::default();
        counters.set(Counter::WriteChars, 5);
        counters.set(Counter::StorageWritten, 4096);
        assert_eq!(used("disk_growth_peak_bytes", &counters), 4096);
        counters.set(Counter::OtherWriteChars, 8192);
        assert_eq!(used("disk_footprint_peak_bytes", &counters), 8197);
        assert_eq!(used("io_written_bytes_total", &counters), 8197 * 1_000_000_000);
        assert_eq!(used("cpu_seconds", &counters), 0);
    }

    #[test]
    fn of_equals_the_eldest_is_named() {
        assert_eq!(most([Some((7, 2)), None, Some((5, 2)), Some((4, 1))].into_iter()), Some(5));
        assert_eq!(most(std::iter::empty()), None);
    }
}
