//! What several events say together: the third place of a filter, behind the buffer.
//!
//! Reads what is wanted ([`ask`]), the probes whose records will come, and then these records in the order of
//! their times ([`merge`] puts them into it); emits what is told of them, events that are derived from two of
//! them, and which of them belong together. Refuses events and fields that are not there, before the first
//! record. No clock is read: the same records give the same result.
//!
//! All that it remembers is bounded: so many keys of each table, so many first events that wait.

pub mod ask;
mod between;
pub mod derived;
pub mod key;
pub mod merge;
mod output;
mod pairs;
mod spread;
mod stage;
mod table;

use weigh_schema::synthesis::{REPORT, SynthesisReport, SynthesisResult};

use crate::error::{Refusal, Wrong};
use crate::event::Field;
use crate::probe::Probe;
use crate::record::Record;
use crate::suggest::nearest;
use ask::{Ask, AskKind, Which};
pub use output::Out;
use stage::Stage;

impl Which {
    /// Which of the events are called so: by the whole name, or by what is behind the group.
    pub fn find(&self, names: &[&str]) -> Vec<usize> {
        match &self.name {
            Err(number) => (0..names.len()).filter(|place| *place as u64 == *number).collect(),
            Ok(name) => {
                let is_it = |full: &str| {
                    full == name || full.split_once(':').is_some_and(|(_, rest)| rest == name)
                };
                (0..names.len()).filter(|place| is_it(names[*place])).collect()
            }
        }
    }

    /// The same, or why there is none.
    pub fn need(&self, names: &[&str], text: &str) -> Result<Vec<usize>, Refusal> {
        let found = self.find(names);
        if !found.is_empty() {
            return Ok(found);
        }
        let called = self.name.clone().unwrap_or_else(|number| number.to_string());
        let behind = names.iter().filter_map(|name| Some(name.split_once(':')?.1));
        let near = nearest(&called, names.iter().copied().chain(behind));
        Err(self.span.refuse(text, Wrong::NoEvent(called)).near(near))
    }

    fn need_one(&self, names: &[&str], text: &str) -> Result<usize, Refusal> {
        match self.need(names, text)?[..] {
            [one] => Ok(one),
            ref several => {
                let numbers: Vec<String> = several.iter().map(usize::to_string).collect();
                let wrong = Wrong::Unsupported(format!(
                    "several events are called so; say which by its number, one of {}",
                    numbers.join(", ")
                ));
                Err(self.span.refuse(text, wrong))
            }
        }
    }
}

impl Ask {
    /// The events that it looks at, by their numbers, and the fields that it needs of each.
    pub fn needs(&self, names: &[&str]) -> Result<Vec<(usize, Vec<&Field>)>, Refusal> {
        let text = &self.text;
        match &self.kind {
            AskKind::Latency(pair) | AskKind::Sequence { pair, .. } => Ok(vec![
                (pair.first.need_one(names, text)?, pair.by.iter().map(|(a, _)| a).collect()),
                (pair.second.need_one(names, text)?, pair.by.iter().map(|(_, b)| b).collect()),
            ]),
            AskKind::Rate(table)
            | AskKind::Top { table, .. }
            | AskKind::Histogram { table, .. } => {
                let mut events: Vec<usize> = Vec::new();
                for which in &table.of {
                    events.extend(which.need(names, text)?);
                }
                if table.of.is_empty() {
                    events.extend(0..names.len());
                }
                events.sort_unstable();
                events.dedup();
                let fields = self.fields_of_table();
                Ok(events.into_iter().map(|event| (event, fields.clone())).collect())
            }
        }
    }
}

/// All that is wanted of several events.
pub struct Synthesis {
    stages: Vec<Stage>,
    events: u64,
}

/// How many events of each probe were lost, and the rules by which not every one was taken.
pub struct Gaps<'g> {
    /// Lost.
    pub lost: &'g [u64],
    /// Rules.
    pub sampling: &'g [Option<String>],
}

impl Synthesis {
    /// Checks what is wanted against the probes; each table has so many keys at most.
    pub fn new(asks: &[Ask], probes: &[&Probe], most: usize) -> Result<Synthesis, Refusal> {
        let mut stages = Vec::new();
        let mut derived = 0;
        for (number, ask) in asks.iter().enumerate() {
            stages.push(Stage::new(ask, probes, most, number as u64, derived)?);
            derived += u32::from(matches!(ask.kind, AskKind::Sequence { .. }));
        }
        Ok(Synthesis { stages, events: 0 })
    }

    /// The last of these is followed from now on, and each table that is meant to looks at it.
    pub fn add(&mut self, asks: &[Ask], probes: &[&Probe]) -> Result<(), Refusal> {
        let Some(last) = probes.last() else { return Ok(()) };
        let stages = self.stages.iter_mut().zip(asks);
        let mut takers: Vec<_> = stages.filter(|(_, ask)| ask.takes_in(&last.name)).collect();
        // None looks at it unless all can.
        for (stage, ask) in &mut takers {
            stage.prepare(ask, probes)?;
        }
        takers.iter_mut().for_each(|(stage, _)| stage.add());
        Ok(())
    }

    /// It is not followed any more, and all that happened before has been taken: no second one of it will come.
    pub fn remove(&mut self, event: usize) {
        self.stages.iter_mut().for_each(|stage| stage.remove(event));
    }

    /// The derived events, in the order of their numbers.
    pub fn derived(&self) -> Vec<&Probe> {
        self.stages.iter().filter_map(Stage::derived).collect()
    }

    /// Takes a record; none that comes later is older.
    pub fn take(&mut self, probe: &Probe, record: Record<'_>, out: &mut Out) {
        self.events += 1;
        for stage in &mut self.stages {
            stage.take(probe, record, out);
        }
    }

    /// No record that is older than that will come.
    pub fn pass(&mut self, now_ns: u64, out: &mut Out) {
        for stage in &mut self.stages {
            stage.pass(now_ns, out);
        }
    }

    /// What was found, with so many rows of each table at most. It is so late by the records' clock; events
    /// were followed for so long, and so many came too late for their place.
    pub fn report(
        &self,
        rows: usize,
        (now_ns, seconds): (u64, f64),
        late: u64,
        gaps: &Gaps<'_>,
    ) -> SynthesisReport {
        let found = self.stages.iter().map(|stage| {
            let events = stage.events();
            let sampling = |event: &usize| gaps.sampling.get(*event).cloned().flatten();
            SynthesisResult {
                asked: stage.asked().to_string(),
                lost_total: events.iter().filter_map(|event| gaps.lost.get(*event)).sum(),
                sampled: events.iter().filter_map(sampling).collect(),
                what: stage.what(rows, now_ns, seconds),
            }
        });
        SynthesisReport {
            schema: REPORT.to_string(),
            seconds,
            events_total: self.events,
            late_total: late,
            reports_missed_total: 0,
            switches_total: 0,
            switches: Vec::new(),
            found: found.collect(),
        }
    }
}
