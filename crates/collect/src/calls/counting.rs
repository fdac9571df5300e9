//! Counters of the CPU: of calls by an event on each CPU, which the BPF programs read at a call's borders;
//! of intervals of libweigh by events of their own threads, which the programs read themselves.
//!
//! Tries each that is wanted before anything is loaded. Refuses none: one that cannot be had says why.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};
use weigh_schema::call::CounterState;
use weigh_schema::subsystem::{CPU_COUNTERS, CpuCounter};

use crate::perf::{
    EXCLUDE_HYPERVISOR, Event, FORMAT_GROUP, FORMAT_TIME_ENABLED, FORMAT_TIME_RUNNING, Of,
    explanation, online, open,
};

/// What the BPF programs call their maps, before the counter's name.
const MAP: &str = "count_";

/// The counters that are wanted, and which event each is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<usize, Event>);

impl Counters {
    /// These.
    pub fn of(counters: &[&CpuCounter]) -> Counters {
        Counters(counters.iter().map(|counter| (place(counter), event(counter))).collect())
    }

    /// All that there are.
    pub fn all() -> Counters {
        Counters::of(&CPU_COUNTERS.iter().collect::<Vec<_>>())
    }

    /// A counter counts something else: `PERF_TYPE_*` and its number. For tests, where there are no
    /// counters of the CPU.
    #[doc(hidden)]
    pub fn instead(mut self, counter: &CpuCounter, kind: u32, config: u64) -> Counters {
        self.0.insert(place(counter), Event { kind, config, more: [0; 2] });
        self
    }
}

fn place(counter: &CpuCounter) -> usize {
    CPU_COUNTERS.iter().position(|other| other == counter).unwrap_or(0)
}

/// `PERF_COUNT_HW_*`: the schema knows no kernel's numbers.
fn event(counter: &CpuCounter) -> Event {
    Event::of_cpu(if counter.name == "instructions" { 1 } else { 0 })
}

/// The counters, as they can be had here.
#[derive(Debug, Default)]
pub(super) struct Counting {
    states: Vec<CounterState>,
    events: Vec<(&'static CpuCounter, Event)>,
}

/// Those of CPUs, while somebody wants them.
pub(super) struct CpuEvents {
    /// Each with the map that the BPF programs read it by.
    events: Vec<(&'static CpuCounter, Event, MapHandle)>,
    opened: Vec<OwnedFd>,
    attached: u64,
}

impl Counting {
    /// Tries which can be had: on the first CPU, which stands for the others.
    pub(super) fn try_out(wanted: &Counters) -> Counting {
        let mut counting = Counting::default();
        let cpu = online().first().copied().unwrap_or(0);
        for (place, event) in &wanted.0 {
            let Some(counter) = CPU_COUNTERS.get(*place) else { continue };
            let found = open(*event, Of::Cpu(cpu), FORMAT, EXCLUDE_HYPERVISOR, None);
            if found.is_ok() {
                counting.events.push((counter, *event));
            }
            let unavailable = found.err().map(|error| refusal(counter, &error));
            counting.states.push(CounterState { name: counter.name.to_string(), unavailable });
        }
        counting
    }

    /// Those that can be had, as bits.
    pub(super) fn available(&self) -> u64 {
        self.events.iter().fold(0, |set, (counter, _)| set | counter.bit())
    }

    pub(super) fn states(&self) -> &[CounterState] {
        &self.states
    }

    /// None can be had after all.
    pub(super) fn refuse(&mut self, error: &io::Error) {
        for (counter, _) in std::mem::take(&mut self.events) {
            let state = self.states.iter_mut().find(|state| state.name == counter.name);
            state.into_iter().for_each(|s| s.unavailable = Some(refusal(counter, error)));
        }
    }

    /// Counters of one thread, on whatever CPU: which, and their descriptors; reading the first gives all.
    pub(super) fn of_thread(&self, tid: u32, bits: u64) -> io::Result<(u64, Vec<OwnedFd>)> {
        let group = self.open_group(Of::Thread(tid), bits & self.available())?;
        let found = group.iter().fold(0, |set, (counter, _)| set | counter.bit());
        Ok((found, group.into_iter().map(|(_, event)| event).collect()))
    }

    /// They take turns on the CPU's counters all together.
    fn open_group(&self, of: Of, bits: u64) -> io::Result<Vec<(&'static CpuCounter, OwnedFd)>> {
        let wanted = self.events.iter().filter(|(counter, _)| counter.bit() & bits != 0);
        let events = open_group(of, wanted.clone().map(|(_, event)| *event))?;
        Ok(wanted.map(|(counter, _)| *counter).zip(events).collect())
    }
}

fn open_group(of: Of, events: impl Iterator<Item = Event>) -> io::Result<Vec<OwnedFd>> {
    let mut group: Vec<OwnedFd> = Vec::new();
    for event in events {
        let leader = group.first().map(|leader| leader.as_fd());
        group.push(open(event, of, FORMAT, EXCLUDE_HYPERVISOR, leader)?);
    }
    Ok(group)
}

impl CpuEvents {
    /// Those that can be had, of programs that are loaded; none counts yet.
    pub(super) fn of(counting: &Counting, object: &Object) -> io::Result<CpuEvents> {
        let with_map = |(counter, event): &(&'static CpuCounter, Event)| {
            map_of(object, counter).map(|map| (*counter, *event, map))
        };
        let events = counting.events.iter().map(with_map).collect::<io::Result<_>>()?;
        Ok(CpuEvents { events, opened: Vec::new(), attached: 0 })
    }

    /// Has each CPU count these of them, and no others. Where that fails none counts.
    pub(super) fn attach_only(&mut self, wanted: u64) -> io::Result<()> {
        if wanted == self.attached {
            return Ok(());
        }
        self.detach();
        let cpus = if wanted == 0 { Vec::new() } else { online() };
        let counted = cpus.into_iter().try_for_each(|cpu| self.count_on(cpu, wanted));
        match &counted {
            Ok(()) => self.attached = wanted,
            Err(_) => self.detach(),
        }
        counted
    }

    fn count_on(&mut self, cpu: u32, wanted: u64) -> io::Result<()> {
        let counted: Vec<_> = self.events.iter().filter(|(c, ..)| c.bit() & wanted != 0).collect();
        let opened = open_group(Of::Cpu(cpu), counted.iter().map(|(_, event, _)| *event))?;
        for ((_, _, map), event) in counted.iter().zip(&opened) {
            let value = event.as_raw_fd().to_ne_bytes();
            map.update(&cpu.to_ne_bytes(), &value, MapFlags::ANY).map_err(io::Error::other)?;
        }
        self.opened.extend(opened);
        Ok(())
    }

    /// No CPU counts any more: their events end with their descriptors and places.
    fn detach(&mut self) {
        let cpus = if self.opened.is_empty() { Vec::new() } else { online() };
        for (_, _, map) in &self.events {
            for cpu in &cpus {
                // There may be none.
                let _ = map.delete(&cpu.to_ne_bytes());
            }
        }
        self.opened.clear();
        self.attached = 0;
    }
}

const FORMAT: u64 = FORMAT_GROUP | FORMAT_TIME_ENABLED | FORMAT_TIME_RUNNING;

fn refusal(counter: &CpuCounter, error: &io::Error) -> String {
    format!("perf_event_open({}): {}", counter.name, explanation(error))
}

fn map_of(object: &Object, counter: &CpuCounter) -> io::Result<MapHandle> {
    let name = format!("{MAP}{}", counter.name);
    let mut maps = object.maps();
    let map = maps.find(|map| map.name().to_string_lossy() == name);
    let map = map.ok_or(io::ErrorKind::NotFound)?;
    MapHandle::try_from(&map).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_not_there_says_why_and_the_others_are_there() {
        let (cycles, instructions) = (&CPU_COUNTERS[0], &CPU_COUNTERS[1]);
        // PERF_TYPE_SOFTWARE has a clock of the CPU; it has no event of that number.
        let wanted = Counters::default().instead(cycles, 1, 0).instead(instructions, 1, 9999);
        let counting = Counting::try_out(&wanted);
        let reasons: Vec<_> = counting.states().iter().map(|s| s.unavailable.as_deref()).collect();
        assert_eq!(counting.available(), cycles.bit());
        assert_eq!(reasons[0], None);
        assert!(reasons[1].unwrap().contains("offers no such counter"), "{reasons:?}");
        let (found, events) = counting.of_thread(std::process::id(), u64::MAX).unwrap();
        assert_eq!((found, events.len()), (cycles.bit(), 1));
    }
}
