//! Counters of the CPU that events are asked for with: whether this machine has them, and who counts.
//!
//! Refuses those that it does not have, before anything is attached, with those that it has.

use weigh_collect::trace::{KernelTrace, TraceError, why_no_counter};
use weigh_trace::counter::{COUNTERS, Counter, Named};
use weigh_trace::error::{Refusal, Wrong};
use weigh_trace::event::{Event, Field, FieldContent};
use weigh_trace::probe::Probe;

/// Those that are open, each with what programs find it by.
#[derive(Default)]
pub struct OpenCounters(Vec<(Counter, i32)>);

/// Those that have a name and can be had here.
pub fn here() -> Vec<&'static Named> {
    let can_be_had =
        |named: &&Named| why_no_counter((named.counter.kind, named.counter.config)).is_none();
    COUNTERS.iter().filter(can_be_had).collect()
}

/// Refuses an event with counters that this machine does not have.
pub fn check(event: &Event) -> Result<(), Refusal> {
    event.fields.iter().flatten().chain(&event.more).try_for_each(|field| of_field(field, event))
}

fn of_field(field: &Field, event: &Event) -> Result<(), Refusal> {
    let FieldContent::Counter { counter, name } = &field.wanted else { return Ok(()) };
    let Some(why) = why_no_counter((counter.kind, counter.config)) else { return Ok(()) };
    let here = here().iter().map(|named| named.name).collect();
    let wrong = Wrong::CounterNotHere { name: name.clone(), why, here };
    Err(field.span.refuse(&event.text, wrong))
}

impl OpenCounters {
    /// All that are open.
    pub fn all(&self) -> &[(Counter, i32)] {
        &self.0
    }

    /// Opens those that a probe reads, unless they are.
    pub fn open(&mut self, kernel: &mut KernelTrace, probe: &Probe) -> Result<(), TraceError> {
        for counter in probe.counters() {
            if self.0.iter().all(|(other, _)| *other != counter) {
                let counted = (counter.kind, counter.config);
                let array = kernel.open_counter(&counter.to_string(), counted)?;
                self.0.push((counter, array));
            }
        }
        Ok(())
    }

    /// Closes those that none of these probes reads.
    pub fn keep<'p>(&mut self, kernel: &mut KernelTrace, probes: impl Iterator<Item = &'p Probe>) {
        let read: Vec<Counter> = probes.flat_map(Probe::counters).collect();
        self.0.retain(|(counter, _)| read.contains(counter));
        let arrays: Vec<i32> = self.0.iter().map(|(_, array)| *array).collect();
        kernel.keep_counters(&arrays);
    }
}
