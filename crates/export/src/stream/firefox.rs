//! A profile for the Firefox Profiler (profiler.firefox.com): events as markers of their threads with their fields,
//! pairs as markers that last, and stacks as the samples of a thread, each with the weight 1.
//!
//! Such a profile is one JSON object, whose tables cannot be written before all is known: it is in memory until
//! the end, so it takes so many events at most, and says how many it has left out.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context as _;
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Marker, MarkerFieldFlags,
    MarkerFieldFormat, MarkerLocations, MarkerTiming, MarkerTypeHandle, ProcessHandle, Profile,
    ReferenceTimestamp, RuntimeSchemaMarkerField, RuntimeSchemaMarkerSchema, SamplingInterval,
    StackHandle, StringHandle, ThreadHandle, Timestamp,
};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

use super::format::StreamFormat;
use super::pairs::{self, Pair, Pairs};

/// A profile for the Firefox Profiler.
pub const FORMAT: StreamFormat = StreamFormat {
    endings: &[".firefox.json"],
    create: |file| Ok(Box::new(Firefox::create(file.path, file.probes)?)),
};

/// What the profiler could not show anyway is left out.
const MOST: u64 = 1 << 20;

/// A profile that is being made.
struct Firefox {
    path: PathBuf,
    file: File,
    profile: Profile,
    kinds: HashMap<u32, MarkerKind>,
    pair: MarkerTypeHandle,
    processes: HashMap<u32, ProcessHandle>,
    threads: HashMap<u32, ThreadHandle>,
    pairs: Pairs,
    taken: u64,
    left_out: u64,
}

/// How an event's markers are shown.
#[derive(Clone, Copy)]
struct MarkerKind {
    kind: MarkerTypeHandle,
    name: StringHandle,
}

/// A marker: an event, or a pair.
struct Mark {
    kind: MarkerKind,
    values: Vec<StringHandle>,
}

impl Marker for Mark {
    fn marker_type(&self, _: &mut Profile) -> MarkerTypeHandle {
        self.kind.kind
    }

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.kind.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        self.values[field as usize]
    }

    fn number_field_value(&self, _: u32) -> f64 {
        0.0
    }
}

impl Firefox {
    /// Makes the file, which stays empty until the end.
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Firefox> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let reference = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
        let interval = SamplingInterval::from_nanos(1_000_000);
        let mut profile = Profile::new("weigh trace", reference, interval);
        profile.set_symbolicated(true);
        let pair = profile.register_marker_type(schema("pair", &[]));
        let mut made = Firefox {
            path: path.to_path_buf(),
            file,
            profile,
            kinds: HashMap::new(),
            pair,
            processes: HashMap::new(),
            threads: HashMap::new(),
            pairs: Pairs::new(probes),
            taken: 0,
            left_out: 0,
        };
        for (number, probe) in (0..).zip(probes) {
            made.introduce(number, probe);
        }
        Ok(made)
    }

    fn introduce(&mut self, number: u32, probe: &Probe) {
        let fields = probe.fields.iter().map(|field| field.name.as_str());
        let names: Vec<&str> = ["CPU", "id"].into_iter().chain(fields).collect();
        // Several events may have one name; the profiler wants others for others.
        let kind = self.profile.register_marker_type(schema(&format!("event {number}"), &names));
        let name = self.profile.intern_string(&probe.name);
        self.kinds.insert(number, MarkerKind { kind, name });
    }

    fn thread(&mut self, tgid: u32, tid: u32, meaning: &Meaning) -> ThreadHandle {
        let Firefox { profile, processes, threads, .. } = self;
        let (names, begin) = (meaning.threads.borrow(), at(0));
        let process = *processes
            .entry(tgid)
            .or_insert_with(|| profile.add_process(&names.name(tgid), tgid, begin));
        *threads.entry(tid).or_insert_with(|| {
            let thread = profile.add_thread(process, tid, begin, tid == tgid);
            profile.set_thread_name(thread, &names.name(tid));
            thread
        })
    }

    /// A stack, whose names come with the innermost first.
    fn stack(&mut self, thread: ThreadHandle, names: &[Rc<str>]) -> Option<StackHandle> {
        let mut frames = Vec::with_capacity(names.len());
        for name in names.iter().rev() {
            frames.push(FrameInfo {
                frame: Frame::Label(self.profile.intern_string(name)),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            });
        }
        self.profile.intern_stack_frames(thread, frames.into_iter())
    }

    fn mark(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) {
        let Some(kind) = self.kinds.get(&record.event()).copied() else { return };
        let thread = self.thread(record.tgid(), record.tid(), meaning);
        let time_ns = record.time_ns().saturating_sub(meaning.began_ns);
        let mut texts = vec![record.cpu().to_string(), format!("{:#x}", record.id())];
        let mut stack = None;
        for value in probe.values(record) {
            texts.push(match meaning.stack(&value, record) {
                Some(names) => {
                    stack = stack.or_else(|| self.stack(thread, &names));
                    names.join(";")
                }
                None => value.to_string(),
            });
        }
        let values = texts.iter().map(|text| self.profile.intern_string(text)).collect();
        let timing = match pairs::derived(probe, record, meaning.began_ns) {
            Some(pair) => MarkerTiming::Interval(at(pair.from_ns), at(pair.to_ns)),
            None => MarkerTiming::Instant(at(time_ns)),
        };
        let marker = self.profile.add_marker(thread, timing, Mark { kind, values });
        if let Some(stack) = stack {
            self.profile.set_marker_stack(thread, marker, Some(stack));
            self.profile.add_sample(thread, at(time_ns), Some(stack), CpuDelta::ZERO, 1);
        }
    }

    /// Pairs that end with a record.
    fn pairs(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) {
        for pair in self.pairs.take(probe, record, meaning.began_ns) {
            let Pair { name, tgid, tid, from_ns, to_ns, .. } = pair;
            let thread = self.thread(tgid, tid, meaning);
            let name = self.profile.intern_string(&name);
            let timing = MarkerTiming::Interval(at(from_ns), at(to_ns));
            let kind = MarkerKind { kind: self.pair, name };
            self.profile.add_marker(thread, timing, Mark { kind, values: Vec::new() });
        }
    }
}

fn at(since_ns: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(since_ns)
}

fn schema(name: &str, fields: &[&str]) -> RuntimeSchemaMarkerSchema {
    // Some names mean something else there.
    let field = |(number, name): (usize, &&str)| RuntimeSchemaMarkerField {
        key: format!("field{number}"),
        label: name.to_string(),
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    };
    RuntimeSchemaMarkerSchema {
        type_name: name.to_string(),
        description: None,
        locations: MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE,
        chart_label: None,
        tooltip_label: None,
        table_label: None,
        fields: fields.iter().enumerate().map(field).collect(),
        graphs: Vec::new(),
    }
}

impl RecordSink for Firefox {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        if self.taken >= MOST {
            self.left_out += 1;
            return Ok(());
        }
        self.taken += 1;
        meaning.meet(probe, record);
        self.mark(probe, record, meaning);
        self.pairs(probe, record, meaning);
        Ok(())
    }

    fn join(&mut self, flow: u64) {
        self.pairs.join(flow);
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.pairs.add(number, probe);
        self.introduce(number as u32, probe);
        Ok(())
    }

    fn finish(
        mut self: Box<Self>,
        totals: &Totals,
        meaning: &Meaning,
    ) -> anyhow::Result<Option<String>> {
        let began = meaning.epoch_ns.saturating_add_unsigned(meaning.began_ns);
        let reference = ReferenceTimestamp::from_millis_since_unix_epoch(began as f64 / 1e6);
        self.profile.set_reference_timestamp(reference);
        if !totals.origin.command.is_empty() {
            self.profile.set_product(&totals.origin.command);
        }
        let mut out = BufWriter::new(&self.file);
        let written = serde_json::to_writer(&mut out, &self.profile).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|()| out.flush()) {
            // Half of it is nothing.
            drop(out);
            let _ = std::fs::remove_file(&self.path);
            let failed = format!("cannot write {}", self.path.display());
            return Err(anyhow::Error::new(error).context(failed));
        }
        let left_out = (self.left_out > 0).then(|| {
            let (path, left_out) = (self.path.display(), self.left_out);
            format!("{path} holds the first {MOST} events; {left_out} are left out")
        });
        Ok(left_out)
    }
}
