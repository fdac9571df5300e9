//! What counters of the CPU have counted between two events.
//!
//! Takes pairs of records; emits the differences of the counters that both events have. A counter is its CPU's:
//! of a pair on two CPUs there is no difference, and it is counted as such.

use weigh_schema::synthesis::CounterDifference;

use super::spread::Spread;
use crate::condition::Source;
use crate::counter::Counter;
use crate::probe::{Content, Probe};
use crate::record::Record;
use crate::value::Value;

/// A counter that both have.
struct Shared {
    name: String,
    /// Its places among the fields of the first and of the second.
    places: (usize, usize),
    told: CounterDifference,
    spread: Spread,
}

/// All of them.
pub struct Between {
    first: Probe,
    shared: Vec<Shared>,
}

fn counters(probe: &Probe) -> impl Iterator<Item = (usize, Counter)> {
    probe.fields.iter().enumerate().filter_map(|(place, field)| match &field.content {
        Content::Number(Source::Counter(counter)) => Some((place, *counter)),
        _ => None,
    })
}

fn shown(probe: &Probe, record: Record<'_>, place: usize) -> Option<u64> {
    match probe.value(record, place) {
        Value::Unsigned(count) => Some(count),
        _ => None,
    }
}

impl Between {
    /// Of the counters that both events have; none if there are none.
    pub fn of(first: &Probe, second: &Probe) -> Option<Between> {
        let shared = counters(first).filter_map(|(place, counter)| {
            let (other, _) = counters(second).find(|(_, other)| *other == counter)?;
            Some(Shared {
                name: first.fields[place].name.clone(),
                places: (place, other),
                told: CounterDifference::default(),
                spread: Spread::default(),
            })
        });
        let shared: Vec<Shared> = shared.collect();
        (!shared.is_empty()).then(|| Between { first: first.clone(), shared })
    }

    /// A pair.
    pub fn add(&mut self, first: Record<'_>, probe: &Probe, second: Record<'_>) {
        for Shared { places, told, spread, .. } in &mut self.shared {
            if first.cpu() != second.cpu() {
                told.other_cpu_total += 1;
                continue;
            }
            let from = shown(&self.first, first, places.0);
            let to = shown(probe, second, places.1);
            match from.zip(to).and_then(|(from, to)| to.checked_sub(from)) {
                Some(count) => {
                    told.pairs_total += 1;
                    told.sum = told.sum.saturating_add(count);
                    spread.add(count.into());
                }
                None => told.absent_total += 1,
            }
        }
    }

    /// What was counted.
    pub fn told(&self) -> Vec<CounterDifference> {
        let told = self.shared.iter().map(|shared| CounterDifference {
            counter: shared.name.clone(),
            values: shared.spread.told(1.0),
            ..shared.told.clone()
        });
        told.collect()
    }
}
