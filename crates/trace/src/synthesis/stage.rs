//! One thing that is wanted of several events, at work.
//!
//! Takes every record, looks at those of its events, and hands on what comes of them.

use weigh_schema::synthesis::{Pairs as Told, What};

use super::ask::{Ask, AskKind, PairAsk};
use super::between::Between;
use super::derived::Derived;
use super::key::{Key, Part, number};
use super::output::Out;
use super::pairs::{Outcome, Pairs};
use super::table::{Detail, Table};
use crate::error::{Refusal, Wrong};
use crate::event::Field;
use crate::probe::Probe;
use crate::record::Record;

/// Numbers of flows are a stage's, and none that others give: the stage above these bits, marked.
const FLOW_BITS: u32 = 48;
const FLOWS: u64 = 1 << 63;

/// An event that is looked at.
struct Side {
    event: usize,
    key: Key,
    value: Option<Part>,
}

/// Pairs that are looked for.
struct PairWork {
    pairs: Pairs,
    first: Side,
    second: Side,
    /// Of a sequence: the event that is made of a pair, and its number.
    derived: Option<(Derived, u32)>,
    /// Of a sequence: first events that nothing follows are meant.
    is_not: bool,
    /// Of latencies: the counters that both have.
    between: Option<Between>,
    /// The second one is not followed any more.
    is_over: bool,
    flows: u64,
}

/// What is made of them.
enum Work {
    Pairs(Box<PairWork>),
    Table {
        table: Table,
        sides: Vec<Side>,
        /// The same with one more, which is about to be followed.
        coming: Vec<Side>,
        kind: fn(weigh_schema::synthesis::Table) -> What,
        /// Of the most frequent: how many.
        most: usize,
    },
}

/// One thing that is wanted.
pub struct Stage {
    asked: String,
    work: Work,
    /// The key of the record at hand.
    key: Vec<u8>,
}

impl Stage {
    /// Checks what is wanted against the probes. `number` is its own among all, `derived` that of the event that
    /// it makes.
    pub fn new(
        ask: &Ask,
        probes: &[&Probe],
        most: usize,
        number: u64,
        derived: u32,
    ) -> Result<Stage, Refusal> {
        let work = match &ask.kind {
            AskKind::Latency(pair) => pairs(ask, pair, None, probes, most, (number, derived))?,
            AskKind::Sequence { pair, is_not } => {
                pairs(ask, pair, Some(*is_not), probes, most, (number, derived))?
            }
            AskKind::Rate(_) => table(ask, probes, most, (Detail::Rate, What::Rate, usize::MAX))?,
            AskKind::Top { most: rows, .. } => {
                table(ask, probes, most, (Detail::Count, What::Top, *rows))?
            }
            AskKind::Histogram { .. } => {
                table(ask, probes, most, (Detail::Values, What::Histogram, usize::MAX))?
            }
        };
        Ok(Stage { asked: ask.text.clone(), work, key: Vec::new() })
    }

    /// Binds its keys to the last of these probes, too, which is not looked at yet.
    pub fn prepare(&mut self, ask: &Ask, probes: &[&Probe]) -> Result<(), Refusal> {
        let (Work::Table { sides, coming, .. }, Some(new)) =
            (&mut self.work, probes.len().checked_sub(1))
        else {
            return Ok(());
        };
        let events = sides.iter().map(|side| side.event).chain([new]);
        let all = events.map(|event| side(ask, event, ask.fields_of_table(), probes));
        *coming = all.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// It is looked at from now on.
    pub fn add(&mut self) {
        if let Work::Table { sides, coming, .. } = &mut self.work {
            *sides = std::mem::take(coming);
        }
    }

    /// No event of that number will come.
    pub fn remove(&mut self, event: usize) {
        if let Work::Pairs(work) = &mut self.work
            && work.second.event == event
        {
            work.is_over = true;
            work.pairs.end();
        }
    }

    /// As it was asked for.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// The event that it makes.
    pub fn derived(&self) -> Option<&Probe> {
        match &self.work {
            Work::Pairs(work) => work.derived.as_ref().map(|(derived, _)| &derived.probe),
            Work::Table { .. } => None,
        }
    }

    /// The events that it looks at, each once.
    pub fn events(&self) -> Vec<usize> {
        match &self.work {
            Work::Pairs(work) if work.first.event == work.second.event => vec![work.first.event],
            Work::Pairs(work) => vec![work.first.event, work.second.event],
            Work::Table { sides, .. } => sides.iter().map(|side| side.event).collect(),
        }
    }

    /// Takes a record.
    pub fn take(&mut self, probe: &Probe, record: Record<'_>, out: &mut Out) {
        let event = record.event() as usize;
        match &mut self.work {
            Work::Pairs(work) => work.take(probe, record, &mut self.key, out),
            Work::Table { table, sides, .. } => {
                let Some(side) = sides.iter().find(|side| side.event == event) else { return };
                let value = side.value.map(|part| number(&part.of(probe, record)));
                match side.key.write(probe, record, &mut self.key) {
                    true if value != Some(None) => {
                        table.add(&self.key, record.time_ns(), value.flatten());
                    }
                    _ => table.nameless(),
                }
            }
        }
    }

    /// Nothing older than that will come.
    pub fn pass(&mut self, now_ns: u64, out: &mut Out) {
        if let Work::Pairs(work) = &mut self.work {
            work.pass(now_ns, out);
        }
    }

    /// What was found, with so many rows at most.
    pub fn what(&self, rows: usize, now_ns: u64, seconds: f64) -> What {
        match &self.work {
            Work::Pairs(work) => {
                let counters = work.between.as_ref().map(Between::told).unwrap_or_default();
                match work.derived {
                    None => What::Latency(Told { counters, ..work.pairs.told() }),
                    Some(_) => What::Sequence(work.pairs.told()),
                }
            }
            Work::Table { table, sides, kind, most, .. } => match sides.first() {
                Some(side) => kind(table.told(&side.key, rows.min(*most), now_ns, seconds)),
                None => kind(weigh_schema::synthesis::Table::default()),
            },
        }
    }
}

impl PairWork {
    fn take(&mut self, probe: &Probe, record: Record<'_>, key: &mut Vec<u8>, out: &mut Out) {
        let event = record.event() as usize;
        if event != self.first.event && event != self.second.event {
            return;
        }
        self.pass(record.time_ns(), out);
        // An event that is both ends what was before it begins.
        if event == self.second.event {
            self.take_second(probe, record, key, out);
        }
        if event == self.first.event {
            self.take_first(probe, record, key, out);
        }
    }

    fn take_first(&mut self, probe: &Probe, record: Record<'_>, key: &mut Vec<u8>, out: &mut Out) {
        if !self.first.key.write(probe, record, key) {
            return self.pairs.nameless(true);
        }
        if self.is_over {
            return self.pairs.unwatched();
        }
        self.flows += 1;
        if self.derived.is_none() {
            out.flows.push(self.flows);
        }
        let is_kept = self.derived.is_some() || self.between.is_some();
        let kept = is_kept.then(|| record.bytes());
        self.pairs.first(key, record.time_ns(), kept, self.flows);
    }

    fn take_second(&mut self, probe: &Probe, record: Record<'_>, key: &mut Vec<u8>, out: &mut Out) {
        let PairWork { pairs, second, derived, is_not, between, .. } = self;
        if !second.key.write(probe, record, key) {
            return pairs.nameless(false);
        }
        let time_ns = record.time_ns();
        pairs.second(key, time_ns, |outcome| {
            let Outcome::Followed { after_ns, record: held, flow } = outcome else { return };
            match (derived.as_ref(), held.as_deref().and_then(Record::new)) {
                (None, held) => {
                    out.flows.push(flow);
                    if let (Some(between), Some(held)) = (between.as_mut(), held) {
                        between.add(held, probe, record);
                    }
                }
                (Some((derived, number)), Some(held)) if !*is_not => {
                    let both = (held, Some(record));
                    derived.write(*number, both, (time_ns, after_ns), &mut out.records);
                }
                _ => {}
            }
        });
    }

    fn pass(&mut self, now_ns: u64, out: &mut Out) {
        let PairWork { pairs, derived, is_not, .. } = self;
        pairs.pass(now_ns, |outcome| {
            let Outcome::NotFollowed { until_ns, after_ns, record } = outcome else { return };
            if let (true, Some((derived, number)), Some(first)) =
                (*is_not, derived.as_ref(), record.as_deref().and_then(Record::new))
            {
                derived.write(*number, (first, None), (until_ns, after_ns), &mut out.records);
            }
        });
    }
}

fn pairs(
    ask: &Ask,
    pair: &PairAsk,
    sequence: Option<bool>,
    probes: &[&Probe],
    most: usize,
    (number, derived_number): (u64, u32),
) -> Result<Work, Refusal> {
    let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
    let mut sides = Vec::new();
    for (event, fields) in ask.needs(&names)? {
        let key = Key::bind(&fields, probes[event], probes, &ask.text)?;
        sides.push(Side { event, key, value: None });
    }
    let (Some(second), Some(first)) = (sides.pop(), sides.pop()) else {
        return Err(pair.first.span.refuse(&ask.text, Wrong::NoEvent(ask.text.clone())));
    };
    let both = first.key.parts().iter().zip(second.key.parts());
    for ((one, other), (_, field)) in both.zip(&pair.by) {
        if one.is_number(probes[first.event]) != other.is_number(probes[second.event]) {
            let (what, kind) = (field.name.clone(), "of another kind".to_string());
            let why = "a number is never the same as a text";
            return Err(field.span.refuse(&ask.text, Wrong::Type { what, kind, why }));
        }
    }
    let is_not = sequence == Some(true);
    let (one, other) = (probes[first.event], probes[second.event]);
    let derived = sequence.map(|is_not| {
        let span = pair.first.span.to(pair.second.span);
        Derived::of(one, other, is_not, &ask.text, span)
    });
    let between = if sequence.is_none() { Between::of(one, other) } else { None };
    Ok(Work::Pairs(Box::new(PairWork {
        pairs: Pairs::new(pair.within_ns, is_not, most),
        first,
        second,
        derived: derived.transpose()?.map(|derived| (derived, derived_number)),
        is_not,
        between,
        is_over: false,
        flows: FLOWS | number << FLOW_BITS,
    })))
}

fn table(
    ask: &Ask,
    probes: &[&Probe],
    most: usize,
    (detail, kind, rows): (Detail, fn(weigh_schema::synthesis::Table) -> What, usize),
) -> Result<Work, Refusal> {
    let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
    let mut sides: Vec<Side> = Vec::new();
    for (event, fields) in ask.needs(&names)? {
        sides.push(side(ask, event, fields, probes)?);
    }
    let by = ask.table().into_iter().flat_map(|table| &table.by);
    let by = by.map(|field| field.name.clone()).collect();
    let (table, coming) = (Table::new(by, detail, most), Vec::new());
    Ok(Work::Table { table, sides, coming, kind, most: rows })
}

/// An event of a table.
fn side(
    ask: &Ask,
    event: usize,
    mut fields: Vec<&Field>,
    probes: &[&Probe],
) -> Result<Side, Refusal> {
    let probe = probes[event];
    let value = match &ask.kind {
        AskKind::Histogram { .. } => fields.pop(),
        _ => None,
    };
    let value = value.map(|field| {
        let part = Part::need(field, probe, &ask.text)?;
        if part.is_number(probe) {
            return Ok(part);
        }
        let (what, kind) = (field.name.clone(), "a text, or bytes".to_string());
        let why = "only numbers are spread";
        Err(field.span.refuse(&ask.text, Wrong::Type { what, kind, why }))
    });
    let key = Key::bind(&fields, probe, probes, &ask.text)?;
    Ok(Side { event, key, value: value.transpose()? })
}
