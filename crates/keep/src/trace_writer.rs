//! The Parquet file of `weigh trace`: a row for each event, a column for each field.

use std::path::Path;

use anyhow::{Context as _, bail};
use weigh_schema::trace::{EventNote, FieldKind, NOTE, TraceNote, column};
use weigh_trace::packet_sizes::{PacketCounts, PacketSizes};
use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::Record;
use weigh_trace::replay;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::value::{PlainNumber, Value};

use crate::stream::{StreamColumn, StreamKind, StreamWriter};

/// The header's columns, before those of the fields.
pub const HEADER: [(&str, StreamKind); 7] = [
    (column::TIME, StreamKind::Time),
    (column::EVENT, StreamKind::Text),
    (column::CPU, StreamKind::Unsigned),
    (column::TGID, StreamKind::Unsigned),
    (column::TID, StreamKind::Unsigned),
    (column::ID, StreamKind::Unsigned),
    (column::NUMBER, StreamKind::Unsigned),
];
/// What a thread takes in the notes, about, and an event that was followed beside what it was asked for.
const THREAD_BYTES: usize = 64;
const FOLLOWED_BYTES: usize = 1024;
/// Records that are put in column by column: they stay in a processor's first cache meanwhile.
const AT_ONCE: usize = 128;

/// Where what the records of a probe have goes.
#[derive(Default)]
struct Ways {
    /// The number of its name.
    name: i64,
    fields: Vec<FieldWay>,
    /// Of its packet, if it has one.
    sizes: Option<PacketSizes>,
    /// Its records have only numbers, texts and bytes: as long as each has so many bytes, all of their numbers are there.
    bytes_of_plain: Option<usize>,
}

/// Where a field goes.
struct FieldWay {
    column: usize,
    /// How it is read, if it is a number and nothing else.
    number: Option<PlainNumber>,
}

/// A file of columns, which [`crate::TraceRecording`] reads again.
pub struct TraceWriter {
    file: StreamWriter,
    all: Vec<StreamColumn>,
    /// Of each probe: where what its records have goes.
    ways: Vec<Ways>,
    /// What the file will say of each.
    events: Vec<EventNote>,
    /// What that will take, but for the threads.
    note_bytes: usize,
    threads: usize,
    packets: PacketCounts,
    /// Whether packets alone are followed: their records are content with the order of the rings.
    is_of_packets: bool,
}

impl TraceWriter {
    /// Makes the file. Fields of the same name and kind share a column; of another kind, it has the
    /// event's name before its own.
    pub fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<TraceWriter> {
        let mut all: Vec<StreamColumn> = HEADER
            .map(|(name, kind)| StreamColumn { name: name.to_string(), kind, always: true })
            .to_vec();
        let mut columns: Vec<Vec<usize>> = Vec::new();
        for probe in probes {
            let places = probe.fields.iter().map(|field| place(&mut all, probe, field));
            columns.push(places.collect());
        }
        // Which names there are is known.
        let is_name = |column: &StreamColumn| column.name == HEADER[1].0 && column.always;
        let written = all.iter().map(|column| match is_name(column) {
            true => StreamColumn { kind: StreamKind::Name, ..column.clone() },
            false => column.clone(),
        });
        let file = StreamWriter::create(path, &written.collect::<Vec<_>>(), &[])?;
        let events = Vec::new();
        let is_of_packets = probes.iter().all(|probe| probe.has_packet());
        let mut made = TraceWriter {
            file,
            all,
            ways: Vec::new(),
            events,
            note_bytes: 0,
            threads: 0,
            packets: PacketCounts::default(),
            is_of_packets,
        };
        for (probe, columns) in probes.iter().zip(columns) {
            made.introduce(probe, columns)?;
        }
        Ok(made)
    }

    /// Remembers what is to be said of an event.
    fn introduce(&mut self, probe: &Probe, columns: Vec<usize>) -> anyhow::Result<()> {
        let names: Vec<String> =
            columns.iter().map(|place| self.all[*place].name.clone()).collect();
        let note = replay::note(probe, &names);
        self.note_bytes += serde_json::to_string(&note)?.len() + FOLLOWED_BYTES;
        let name = self.file.name(1, note.name.as_bytes());
        let name = name.with_context(|| format!("{}: there are too many events", note.name))?;
        let way = |(column, field): (&usize, &ProbeField)| FieldWay {
            column: *column,
            number: field.plain_number(),
        };
        let fields = columns.iter().zip(&probe.fields).map(way).collect();
        let bytes_of_plain = bytes_of_plain(probe);
        self.events.push(note);
        let sizes = PacketSizes::new(probe);
        self.ways.push(Ways { name, fields, sizes, bytes_of_plain });
        self.expect_notes();
        Ok(())
    }

    fn expect_notes(&mut self) {
        self.file.expect_notes(self.note_bytes + self.threads * THREAD_BYTES);
    }

    /// Room is kept for the names of threads that have come.
    fn count_threads(&mut self, meaning: &Meaning) {
        let threads = meaning.threads.borrow().count();
        if threads != self.threads {
            self.threads = threads;
            self.expect_notes();
        }
    }

    /// How many of these, from the first on, can be put in column by column.
    fn count_plain(&self, batch: &[(&Probe, Record<'_>)]) -> usize {
        let Some((_, first)) = batch.first() else { return 0 };
        let event = first.event();
        let ways = self.ways.get(event as usize);
        let Some(least) = ways.and_then(|ways| ways.bytes_of_plain) else { return 0 };
        let is_plain = |record: &Record<'_>| {
            record.event() == event && record.absent() == 0 && record.bytes().len() >= least
        };
        let room = self.file.room().min(AT_ONCE);
        batch.iter().take(room).take_while(|(_, record)| is_plain(record)).count()
    }

    /// Puts in records of one event, all of whose values are there.
    fn put_columns(&mut self, batch: &[(&Probe, Record<'_>)], meaning: &Meaning) {
        let Some((probe, first)) = batch.first() else { return };
        let TraceWriter { file, ways, packets, .. } = self;
        let Some(way) = ways.get(first.event() as usize) else { return };
        if let Some(sizes) = &way.sizes {
            batch.iter().for_each(|(_, record)| packets.count(sizes, *record));
        }
        let records = || batch.iter().map(|(_, record)| *record);
        let time = |record: Record<'_>| meaning.epoch_ns.saturating_add_unsigned(record.time_ns());
        file.numbers(0, records().map(time));
        file.numbers(1, records().map(|_| way.name));
        file.numbers(2, records().map(|record| record.cpu().into()));
        file.numbers(3, records().map(|record| record.tgid().into()));
        file.numbers(4, records().map(|record| record.tid().into()));
        file.numbers(5, records().map(|record| record.id().cast_signed()));
        file.numbers(6, records().map(|record| record.event().into()));
        for (place, field) in way.fields.iter().enumerate() {
            match field.number {
                Some(number) => {
                    let of = |record| number.of(record).unwrap_or_default();
                    file.numbers(field.column, records().map(of));
                }
                None => put_texts(file, field.column, (probe, place), records()),
            }
        }
        file.end_some(batch.len());
    }
}

/// See [`Ways::bytes_of_plain`].
fn bytes_of_plain(probe: &Probe) -> Option<usize> {
    let end = |field: &ProbeField| match (field.plain_number(), replay::kind_of(field)) {
        (Some(_), _) => Some((field.offset + field.bytes) as usize),
        (None, FieldKind::Text | FieldKind::Bytes) => Some(0),
        _ => None,
    };
    probe.fields.iter().try_fold(0, |most, field| Some(most.max(end(field)?)))
}

fn place(all: &mut Vec<StreamColumn>, probe: &Probe, field: &ProbeField) -> usize {
    let kind = kind(replay::kind_of(field));
    let other = format!("{}.{}", probe.name, field.name);
    for name in [&field.name, &other] {
        match all.iter().position(|column| column.name == *name) {
            Some(place) if place >= HEADER.len() && all[place].kind == kind => return place,
            Some(_) => {}
            None => {
                all.push(StreamColumn { name: name.clone(), kind, always: false });
                return all.len() - 1;
            }
        }
    }
    let name = format!("{other}.{}", all.len());
    all.push(StreamColumn { name, kind, always: false });
    all.len() - 1
}

/// What a column holds that fields of a kind are in.
pub fn kind(kind: FieldKind) -> StreamKind {
    match kind {
        FieldKind::Unsigned | FieldKind::Bool | FieldKind::Pointer => StreamKind::Unsigned,
        FieldKind::Signed => StreamKind::Signed,
        FieldKind::Enum | FieldKind::Text => StreamKind::Text,
        FieldKind::Bytes => StreamKind::Bytes,
        FieldKind::Stack | FieldKind::UserStack => StreamKind::Texts,
    }
}

impl RecordSink for TraceWriter {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        meaning.meet(probe, record);
        let TraceWriter { file, ways, packets, .. } = self;
        let way = ways.get(record.event() as usize).context("a record of no event")?;
        if let Some(sizes) = &way.sizes {
            packets.count(sizes, record);
        }
        file.number(0, meaning.epoch_ns.saturating_add_unsigned(record.time_ns()));
        file.number(1, way.name);
        file.number(2, record.cpu().into());
        file.number(3, record.tgid().into());
        file.number(4, record.tid().into());
        file.number(5, record.id().cast_signed());
        file.number(6, record.event().into());
        let absent = record.absent();
        for (place, field) in way.fields.iter().enumerate() {
            match field.number {
                Some(number) if absent >> place & 1 == 0 => {
                    if let Some(number) = number.of(record) {
                        file.number(field.column, number);
                    }
                }
                Some(_) => {}
                None => {
                    let value = probe.value(record, place);
                    match meaning.stack(&value, record) {
                        Some(names) => {
                            file.texts(field.column, names.iter().map(|name| name.as_bytes()));
                        }
                        None => put(file, (field.column, 0), value),
                    }
                }
            }
        }
        file.end_row();
        self.count_threads(meaning);
        Ok(())
    }

    fn take_all(
        &mut self,
        batch: &[(&Probe, Record<'_>)],
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        let mut rest = batch;
        while let Some((probe, record)) = rest.first() {
            let plain = self.count_plain(rest);
            let (run, others) = rest.split_at(plain.max(1));
            match plain {
                0 => self.take(probe, *record, meaning)?,
                _ => {
                    run.iter().for_each(|(probe, record)| meaning.meet(probe, *record));
                    self.put_columns(run, meaning);
                    self.count_threads(meaning);
                }
            }
            rest = others;
        }
        Ok(())
    }

    fn needs_order(&self) -> bool {
        !self.is_of_packets
    }

    /// The file has the columns that it began with: fields that find theirs among them can come.
    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        let mut all = self.all.clone();
        let mut columns = Vec::new();
        for field in &probe.fields {
            let column = place(&mut all, probe, field);
            if column >= self.all.len() {
                bail!(
                    "a Parquet file keeps the columns that it began with, and has none for {} of {}; name \
                     fields that it has, or follow into a .jsonl file",
                    field.name,
                    probe.name
                );
            }
            columns.push(column);
        }
        // Numbers between may have been refused.
        self.ways.resize_with(number, Ways::default);
        self.events.resize(number, EventNote::default());
        self.introduce(probe, columns)
    }

    fn finish(
        mut self: Box<Self>,
        totals: &Totals,
        meaning: &Meaning,
    ) -> anyhow::Result<Option<String>> {
        self.file.end_rows();
        let (_, unwritten_total) = self.file.closed();
        let packets = self.packets;
        let has_packets = self.ways.iter().any(|way| way.sizes.is_some());
        let note = TraceNote {
            events: self.events,
            unwritten_total,
            packets_cut_total: has_packets.then_some(packets.cut),
            threads: meaning.threads.borrow().all(),
            ..totals.note()
        };
        let note = serde_json::to_string(&note)?;
        let closed = self.file.finish(&[(NOTE.to_string(), note)])?;
        match closed.error {
            None => Ok(packets.remark()),
            Some(error) => Err(anyhow::Error::new(error).context(format!(
                "the file ends early: {} events are in it, {} could not be written",
                closed.rows, closed.unwritten
            ))),
        }
    }
}

/// Puts texts or bytes into rows that are being made: a text that lies there as the one before it is not looked at again.
fn put_texts<'r>(
    file: &mut StreamWriter,
    column: usize,
    (probe, place): (&Probe, usize),
    records: impl Iterator<Item = Record<'r>>,
) {
    let field = &probe.fields[place];
    let mut before: Option<(&[u8], &[u8])> = None;
    for (row, record) in records.enumerate() {
        let room = field.room_in(record).unwrap_or_default();
        let text = match before {
            Some((same, text)) if same == room => Some(text),
            _ => match probe.value(record, place) {
                Value::Text(text) if std::str::from_utf8(text).is_ok() => Some(text),
                other => {
                    put(file, (column, row), other);
                    None
                }
            },
        };
        if let Some(text) = text {
            file.text_of(column, row, text);
        }
        before = text.map(|text| (room, text));
    }
}

/// Puts a value into a column, of one of the rows that are being made: numbers of the first alone.
fn put(file: &mut StreamWriter, (column, row): (usize, usize), value: Value<'_>) {
    let mut text = |text: &[u8]| file.text_of(column, row, text);
    match value {
        Value::Absent => {}
        Value::Unsigned(number) | Value::Pointer(number) => {
            file.number(column, number.cast_signed());
        }
        Value::Signed(number) => file.number(column, number),
        Value::Bool(truth) => file.number(column, truth.into()),
        Value::Constant(_, Some(name)) => text(name.as_bytes()),
        Value::Constant(number, None) => text(number.to_string().as_bytes()),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(_) => text(bytes),
            Err(_) => text(String::from_utf8_lossy(bytes).as_bytes()),
        },
        Value::Bytes(bytes) => text(bytes),
        Value::Address(address) => text(address.to_string().as_bytes()),
        // A list of names, by the resolver of names.
        Value::Stack { .. } => {}
    }
}
