//! Instructions, cycles and cache misses of the job, from the CPU's own counters.
//!
//! Opens one `perf_event_open` counter per metric on a process that has not yet executed its
//! command. The counter starts at that exec and every later thread and process inherits it; the
//! kernel adds the counts of ended ones to it. Emits [`HardwareCount`]s. Each counter is optional:
//! one that cannot be had says why and the others go on.
//!
//! Not seen: what a set-user-ID program does (the kernel takes counters off a process that gains
//! rights by exec), unless weigh itself has CAP_PERFMON and the program's rights do not change.

use std::fs::File;
use std::io::{self, Read};

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus, HardwareCount};
use weigh_schema::metric_name;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use crate::perf::{
    DISABLED, ENABLE_ON_EXEC, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, Event, FORMAT_TIME_ENABLED,
    FORMAT_TIME_RUNNING, INHERIT, Of, explanation, is_forbidden, open, paranoid_text,
};

/// A hardware event that has a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardwareEvent {
    /// Instructions retired.
    Instructions,
    /// Core cycles.
    Cycles,
    /// Cache misses, as the CPU's generic event defines them.
    CacheMisses,
}

impl HardwareEvent {
    /// All of them.
    pub const ALL: &'static [HardwareEvent] =
        &[HardwareEvent::Instructions, HardwareEvent::Cycles, HardwareEvent::CacheMisses];

    /// The metric it is counted for.
    pub const fn metric(self) -> &'static str {
        match self {
            HardwareEvent::Instructions => metric_name::cpu_instructions_total,
            HardwareEvent::Cycles => metric_name::cpu_cycles_total,
            HardwareEvent::CacheMisses => metric_name::cpu_cache_misses_total,
        }
    }

    /// `PERF_COUNT_HW_*`.
    const fn event(self) -> Event {
        Event::of_cpu(match self {
            HardwareEvent::Cycles => 0,
            HardwareEvent::Instructions => 1,
            HardwareEvent::CacheMisses => 3,
        })
    }
}

/// Why a counter gives no value.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    /// It could not be opened.
    #[error("perf_event_open({event:?}): {explanation}")]
    Open {
        /// The event.
        event: HardwareEvent,
        /// What the error means, and what would help.
        explanation: String,
        /// The error itself.
        source: io::Error,
    },
    /// It could not be read.
    #[error("reading the counter of {event:?}: {source}")]
    Read {
        /// The event.
        event: HardwareEvent,
        /// Why not.
        source: io::Error,
    },
    /// It never had its turn.
    #[error("the counter of {event:?} never ran: the CPU's counters are taken by others")]
    NeverRan {
        /// The event.
        event: HardwareEvent,
    },
}

impl HardwareError {
    /// The metric that it leaves without a value.
    pub fn metric(&self) -> &'static str {
        match self {
            HardwareError::Open { event, .. }
            | HardwareError::Read { event, .. }
            | HardwareError::NeverRan { event } => event.metric(),
        }
    }
}

struct Counter {
    event: HardwareEvent,
    file: File,
    kernel_included: bool,
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "hardware",
    "instructions, cycles, cache misses from the CPU's own counters",
    Some("a machine that offers them; CAP_PERFMON, or kernel.perf_event_paranoid up to 2"),
)
.probed_by(probe)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "none up to kernel.perf_event_paranoid 2, else CAP_PERFMON",
    scope: "job",
    intrusiveness: Intrusiveness::None,
    cost: "the counters run anyway; a switch between threads saves and restores them",
});

fn probe() -> CollectorStatus {
    HardwareCounters::attach(std::process::id(), HardwareEvent::ALL).status()
}

/// The counters of one job.
pub struct HardwareCounters {
    counters: Vec<Counter>,
    failures: Vec<HardwareError>,
}

impl HardwareCounters {
    /// Opens what can be opened of `events` on `pid`, to count from its next exec on.
    pub fn attach(pid: u32, events: &[HardwareEvent]) -> HardwareCounters {
        let mut counters = Vec::new();
        let mut failures = Vec::new();
        for &event in events {
            match open_counter(pid, event) {
                Ok(counter) => counters.push(counter),
                Err(error) => failures.push(error),
            }
        }
        HardwareCounters { counters, failures }
    }

    /// Reads every counter that was opened: the whole job so far.
    pub fn read(&mut self) -> Vec<Result<HardwareCount, HardwareError>> {
        self.counters.iter_mut().map(read_counter).collect()
    }

    /// Why counters are missing.
    pub fn failures(&self) -> &[HardwareError] {
        &self.failures
    }

    /// Whether work in the kernel is counted too.
    pub fn is_kernel_included(&self) -> bool {
        self.counters.iter().all(|c| c.kernel_included)
    }

    /// How the collector fares.
    pub fn status(&self) -> CollectorStatus {
        let mut reasons: Vec<String> = self.failures.iter().map(ToString::to_string).collect();
        if !self.is_kernel_included() {
            reasons.push(format!(
                "work in the kernel is not counted: {} allows user mode only without CAP_PERFMON",
                paranoid_text()
            ));
        }
        let state = match (self.counters.is_empty(), reasons.is_empty()) {
            (true, true) => CollectorState::Disabled,
            (true, false) => CollectorState::Unavailable,
            (false, false) => CollectorState::Degraded,
            (false, true) => CollectorState::Active,
        };
        CollectorStatus::new(
            INFO.name,
            Mechanism::Perf,
            state,
            (!reasons.is_empty()).then(|| reasons.join("; ")),
        )
    }
}

fn open_counter(pid: u32, event: HardwareEvent) -> Result<Counter, HardwareError> {
    match perf_event_open(pid, event, 0) {
        Ok(file) => Ok(Counter { event, file, kernel_included: true }),
        Err(error) if is_forbidden(&error) => perf_event_open(pid, event, EXCLUDE_KERNEL)
            .map(|file| Counter { event, file, kernel_included: false })
            .map_err(|source| open_error(event, source)),
        Err(source) => Err(open_error(event, source)),
    }
}

fn perf_event_open(pid: u32, event: HardwareEvent, exclude: u64) -> io::Result<File> {
    let flags = DISABLED | INHERIT | ENABLE_ON_EXEC | EXCLUDE_HYPERVISOR | exclude;
    let format = FORMAT_TIME_ENABLED | FORMAT_TIME_RUNNING;
    open(event.event(), Of::Thread(pid), format, flags, None).map(File::from)
}

fn read_counter(counter: &mut Counter) -> Result<HardwareCount, HardwareError> {
    let event = counter.event;
    let mut bytes = [0u8; 24];
    counter.file.read_exact(&mut bytes).map_err(|source| HardwareError::Read { event, source })?;
    let word = |i: usize| {
        u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes are a word"))
    };
    let (count, running_ratio) =
        scale(word(0), word(1), word(2)).ok_or(HardwareError::NeverRan { event })?;
    Ok(HardwareCount { metric: event.metric().to_owned(), count, running_ratio })
}

/// Scales a count to the time in which it was wanted. `None` if it was wanted but never ran.
fn scale(count: u64, enabled_ns: u64, running_ns: u64) -> Option<(u64, f64)> {
    if running_ns >= enabled_ns {
        return Some((count, 1.0));
    }
    if running_ns == 0 {
        return None;
    }
    let scaled = u128::from(count) * u128::from(enabled_ns) / u128::from(running_ns);
    Some((u64::try_from(scaled).unwrap_or(u64::MAX), running_ns as f64 / enabled_ns as f64))
}

fn open_error(event: HardwareEvent, source: io::Error) -> HardwareError {
    HardwareError::Open { event, explanation: explanation(&source), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_its_metric() {
        for event in HardwareEvent::ALL {
            assert!(weigh_schema::metric(event.metric()).is_some(), "{event:?}");
        }
    }

    #[test]
    fn a_shared_counter_is_scaled_and_a_starved_one_unknown() {
        assert_eq!(scale(7, 100, 100), Some((7, 1.0)));
        assert_eq!(scale(7, 0, 0), Some((7, 1.0)));
        assert_eq!(scale(100, 400, 100), Some((400, 0.25)));
        assert_eq!(scale(0, 400, 0), None);
        assert_eq!(scale(u64::MAX, u64::MAX, 1).map(|s| s.0), Some(u64::MAX));
    }

    #[test]
    fn a_process_that_is_gone_is_said_to_be() {
        let counters = HardwareCounters::attach(i32::MAX as u32, HardwareEvent::ALL);
        assert_eq!(counters.failures().len(), 3);
        let status = counters.status();
        assert_eq!(status.status, CollectorState::Unavailable);
        assert!(status.reason.is_some());
    }
}
