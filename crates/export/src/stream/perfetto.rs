//! A trace for Perfetto (ui.perfetto.dev): a track for each thread with its events as instants, pairs of them
//! on tracks below it, fields as their arguments; counters; and flows, which join the events of one thing.
//!
//! A flow is what has the same `id` in the header, as long as its events come in the order in which they
//! were asked for: addresses are used again, and what goes back to an earlier event is another thing.
//!
//! The messages are those of perfetto's protos/perfetto/trace; only the fields that are used are named.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals, comm};
use weigh_trace::value::Value;

use super::format::StreamFormat;
use super::pairs;
use super::whole_file::WholeFile;
use crate::protobuf::{Message, length};

/// A trace for Perfetto.
pub const FORMAT: StreamFormat = StreamFormat {
    endings: &[".perfetto-trace"],
    create: |file| Ok(Box::new(Perfetto::create(file.path, file.probes, file.counters)?)),
};

/// `Trace.packet`.
const PACKET: u32 = 1;
mod packet {
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const EVENT: u32 = 11;
    pub const INTERNED: u32 = 12;
    pub const FLAGS: u32 = 13;
    pub const TRACK: u32 = 60;
}
/// `SEQ_INCREMENTAL_STATE_CLEARED`, `SEQ_NEEDS_INCREMENTAL_STATE`: names were told, names are needed.
const NAMES_BEGIN: u64 = 1;
const NAMES_NEEDED: u64 = 2;
mod interned {
    pub const CATEGORIES: u32 = 1;
    pub const EVENTS: u32 = 2;
    pub const ARGUMENTS: u32 = 3;
}
mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT: u32 = 5;
    pub const COUNTER: u32 = 8;
}
mod event {
    pub const CATEGORY: u32 = 3;
    pub const ARGUMENT: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const COUNTER_VALUE: u32 = 30;
    pub const FLOW: u32 = 47;
    pub const BEGIN: u64 = 1;
    pub const END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}
mod argument {
    pub const NAME: u32 = 1;
    pub const BOOL: u32 = 2;
    pub const UNSIGNED: u32 = 3;
    pub const SIGNED: u32 = 4;
    pub const TEXT: u32 = 6;
    pub const POINTER: u32 = 7;
}

/// Tracks are told apart by numbers: of processes, of threads, of counters, of pairs.
const PROCESSES: u64 = 1 << 60;
const THREADS: u64 = 2 << 60;
const COUNTERS: u64 = 3 << 60;
const PAIRS: u64 = 4 << 60;
/// All that come from weigh are of one sequence.
const SEQUENCE: u64 = 1;
/// Things that are remembered for their flows; beyond that flows begin anew.
const MOST_FLOWS: usize = 1 << 20;
/// The names that every event has besides those of its fields.
const CPU: u64 = 1;
const ID: u64 = 2;

/// A trace that is being written.
struct Perfetto {
    file: WholeFile,
    counters: Vec<String>,
    /// Names of arguments, and how many of events and categories were told.
    arguments: HashMap<String, u64>,
    categories: HashMap<String, u64>,
    /// Of each probe.
    shown: HashMap<u32, EventNames>,
    threads: HashSet<u32>,
    processes: HashSet<u32>,
    /// For each thing its last event, and its flow.
    flows: HashMap<u64, (u32, u64)>,
    last_flow: u64,
    /// What the next record belongs to, if that was said.
    joined: Vec<u64>,
    /// How many pairs there were.
    pairs: u64,
}

/// How a probe's records are shown.
#[derive(Clone)]
struct EventNames {
    category: u64,
    /// Of each field: its name, and its counter.
    fields: Vec<(u64, Option<u64>)>,
}

impl Perfetto {
    fn create(path: &Path, probes: &[&Probe], counters: &[String]) -> anyhow::Result<Perfetto> {
        let mut trace = Perfetto {
            file: WholeFile::create(path, length)?,
            counters: counters.to_vec(),
            arguments: HashMap::from([("cpu".to_string(), CPU), ("id".to_string(), ID)]),
            categories: HashMap::new(),
            shown: HashMap::new(),
            threads: HashSet::new(),
            processes: HashSet::new(),
            flows: HashMap::new(),
            last_flow: 0,
            joined: Vec::new(),
            pairs: 0,
        };
        trace.file.pending.message(PACKET, |packet| {
            packet.number(packet::SEQUENCE, SEQUENCE);
            packet.number(packet::FLAGS, NAMES_BEGIN);
            packet.message(packet::INTERNED, |names| {
                name(names, interned::ARGUMENTS, CPU, "cpu");
                name(names, interned::ARGUMENTS, ID, "id");
            });
        });
        for (number, probe) in probes.iter().enumerate() {
            trace.introduce(number as u32, probe);
        }
        Ok(trace)
    }

    /// Tells the names of a probe, and its counters.
    fn introduce(&mut self, number: u32, probe: &Probe) {
        let group = probe.name.split(':').next().unwrap_or_default().to_string();
        let next = self.categories.len() as u64 + 1;
        let category = *self.categories.entry(group.clone()).or_insert(next);
        let mut fields = Vec::new();
        let mut new = Vec::new();
        for (place, field) in probe.fields.iter().enumerate() {
            let next = self.arguments.len() as u64 + 1;
            let argument = *self.arguments.entry(field.name.clone()).or_insert(next);
            if argument == next {
                new.push((next, field.name.clone()));
            }
            let is_counter = self.counters.contains(&field.name);
            let counter = is_counter.then(|| COUNTERS | u64::from(number) << 8 | place as u64);
            fields.push((argument, counter));
        }
        let pending = &mut self.file.pending;
        pending.message(PACKET, |packet| {
            packet.number(packet::SEQUENCE, SEQUENCE);
            packet.number(packet::FLAGS, NAMES_NEEDED);
            packet.message(packet::INTERNED, |names| {
                name(names, interned::CATEGORIES, category, &group);
                name(names, interned::EVENTS, u64::from(number) + 1, &probe.name);
                for (number, text) in &new {
                    name(names, interned::ARGUMENTS, *number, text);
                }
            });
        });
        for ((_, counter), field) in fields.iter().zip(&probe.fields) {
            let Some(uuid) = counter else { continue };
            describe(pending, *uuid, |track| {
                track.bytes(track::NAME, format!("{} {}", probe.name, field.name).as_bytes());
                track.message(track::COUNTER, |_| {});
            });
        }
        self.shown.insert(number, EventNames { category, fields });
    }

    /// Tells of a thread, and its process, when its first event comes. `comm` is its name, if the event
    /// says it.
    fn meet(&mut self, tgid: u32, tid: u32, comm: Option<&str>, meaning: &Meaning) -> u64 {
        let (process, thread) = (PROCESSES | u64::from(tgid), THREADS | u64::from(tid));
        let name = |id| match comm {
            Some(comm) => comm.to_string(),
            None => meaning.threads.borrow().name(id),
        };
        let pending = &mut self.file.pending;
        if self.processes.insert(tgid) {
            describe(pending, process, |track| {
                track.message(track::PROCESS, |process| {
                    process.number(1, tgid.into());
                    process.bytes(6, name(tgid).as_bytes());
                });
            });
        }
        if self.threads.insert(tid) {
            describe(pending, thread, |track| {
                track.number(track::PARENT, process);
                track.message(track::THREAD, |thread| {
                    thread.number(1, tgid.into());
                    thread.number(2, tid.into());
                    thread.bytes(5, name(tid).as_bytes());
                });
            });
        }
        thread
    }

    /// What an event belongs to, by the thing that it is about.
    fn flow(&mut self, number: u32, id: u64) -> u64 {
        if self.flows.len() >= MOST_FLOWS {
            self.flows.clear();
        }
        match self.flows.get_mut(&id) {
            Some((last, flow)) if *last < number => {
                *last = number;
                *flow
            }
            _ => {
                self.last_flow += 1;
                self.flows.insert(id, (number, self.last_flow));
                self.last_flow
            }
        }
    }
}

fn name(names: &mut Vec<u8>, kind: u32, number: u64, text: &str) {
    names.message(kind, |name| {
        name.number(1, number);
        name.bytes(2, text.as_bytes());
    });
}

fn describe(pending: &mut Vec<u8>, uuid: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    pending.message(PACKET, |packet| {
        packet.number(packet::SEQUENCE, SEQUENCE);
        packet.message(packet::TRACK, |track| {
            track.number(track::UUID, uuid);
            fill(track);
        });
    });
}

fn show(event: &mut Vec<u8>, name: u64, value: &Value<'_>) {
    if *value == Value::Absent {
        return;
    }
    event.message(event::ARGUMENT, |argument| {
        argument.number(argument::NAME, name);
        match value {
            Value::Unsigned(number) => argument.number(argument::UNSIGNED, *number),
            Value::Signed(number) => argument.number(argument::SIGNED, number.cast_unsigned()),
            Value::Bool(truth) => argument.number(argument::BOOL, (*truth).into()),
            Value::Pointer(address) => argument.number(argument::POINTER, *address),
            Value::Text(text) => {
                argument.bytes(argument::TEXT, String::from_utf8_lossy(text).as_bytes());
            }
            other => argument.bytes(argument::TEXT, other.to_string().as_bytes()),
        }
    });
}

fn as_counter(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Unsigned(number) => Some(*number),
        Value::Signed(number) | Value::Constant(number, _) => Some(number.cast_unsigned()),
        Value::Bool(truth) => Some((*truth).into()),
        _ => None,
    }
}

impl RecordSink for Perfetto {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        let number = record.event();
        let comm = comm(probe, record);
        let thread = self.meet(record.tgid(), record.tid(), comm.as_deref(), meaning);
        let mut flows = std::mem::take(&mut self.joined);
        if flows.is_empty() {
            flows.push(self.flow(number, record.id()));
        }
        let Some(EventNames { category, fields }) = self.shown.get(&number) else {
            return Ok(());
        };
        let pending = &mut self.file.pending;
        let (mut track, mut kind, mut time_ns) = (thread, event::INSTANT, record.time_ns());
        if let Some(first_ns) = pairs::first_ns(probe, record) {
            // Pairs overlap, which what is on one track may not.
            self.pairs += 1;
            (track, kind, time_ns) = (PAIRS | self.pairs, event::BEGIN, first_ns);
            describe(pending, track, |described| {
                described.number(track::PARENT, thread);
                described.bytes(track::NAME, probe.name.as_bytes());
            });
        }
        pending.message(PACKET, |packet| {
            packet.number(packet::TIMESTAMP, time_ns);
            packet.number(packet::SEQUENCE, SEQUENCE);
            packet.number(packet::FLAGS, NAMES_NEEDED);
            packet.message(packet::EVENT, |event| {
                event.number(event::TYPE, kind);
                event.number(event::TRACK, track);
                event.number(event::CATEGORY, *category);
                event.number(event::NAME, u64::from(number) + 1);
                flows.iter().for_each(|flow| event.fixed(event::FLOW, *flow));
                show(event, CPU, &Value::Unsigned(record.cpu().into()));
                show(event, ID, &Value::Pointer(record.id()));
                for ((name, _), value) in fields.iter().zip(probe.values(record)) {
                    match meaning.stack(&value, record) {
                        Some(names) => show(event, *name, &Value::Text(names.join(";").as_bytes())),
                        None => show(event, *name, &value),
                    }
                }
            });
        });
        if kind == event::BEGIN {
            pending.message(PACKET, |packet| {
                packet.number(packet::TIMESTAMP, record.time_ns());
                packet.number(packet::SEQUENCE, SEQUENCE);
                packet.message(packet::EVENT, |event| {
                    event.number(event::TYPE, event::END);
                    event.number(event::TRACK, track);
                });
            });
        }
        for ((_, counter), value) in fields.iter().zip(probe.values(record)) {
            let (Some(track), Some(value)) = (counter, as_counter(&value)) else { continue };
            pending.message(PACKET, |packet| {
                packet.number(packet::TIMESTAMP, record.time_ns());
                packet.number(packet::SEQUENCE, SEQUENCE);
                packet.message(packet::EVENT, |event| {
                    event.number(event::TYPE, event::COUNTER);
                    event.number(event::TRACK, *track);
                    event.number(event::COUNTER_VALUE, value);
                });
            });
        }
        self.file.write_much()
    }

    fn join(&mut self, flow: u64) {
        self.joined.push(flow);
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.introduce(number as u32, probe);
        Ok(())
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.file.write()
    }

    fn finish(mut self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.file.write().map(|()| None)
    }
}
