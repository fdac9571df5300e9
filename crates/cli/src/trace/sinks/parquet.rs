//! A Parquet file: a row for each event, a column for each field.

use std::path::Path;

use anyhow::bail;
use weigh_keep::{StreamColumn, StreamKind, StreamWriter};
use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::Record;
use weigh_trace::value::Value;
use weigh_trace::walk::Shape;

use super::{Meaning, Sink};
use crate::trace::counts::Totals;

/// The header's columns, before those of the fields.
const HEADER: [(&str, StreamKind); 6] = [
    ("time", StreamKind::Time),
    ("event", StreamKind::Text),
    ("cpu", StreamKind::Unsigned),
    ("tgid", StreamKind::Unsigned),
    ("tid", StreamKind::Unsigned),
    ("id", StreamKind::Unsigned),
];

/// A file of columns.
pub struct Columns {
    file: StreamWriter,
    all: Vec<StreamColumn>,
    /// For each probe the columns of its fields.
    columns: Vec<Vec<usize>>,
    events: Vec<String>,
}

impl Columns {
    /// Makes the file. Fields of the same name and kind share a column; of another kind, it has the
    /// event's name before its own.
    pub fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Columns> {
        let mut all: Vec<StreamColumn> = HEADER
            .map(|(name, kind)| StreamColumn { name: name.to_string(), kind, always: true })
            .to_vec();
        let mut columns = Vec::new();
        for probe in probes {
            let places = probe.fields.iter().map(|field| place(&mut all, probe, field));
            columns.push(places.collect());
        }
        let events: Vec<String> = probes.iter().map(|probe| probe.name.clone()).collect();
        let notes = [("weigh.events".to_string(), events.join(" "))];
        Ok(Columns { file: StreamWriter::create(path, &all, &notes)?, all, columns, events })
    }
}

fn place(all: &mut Vec<StreamColumn>, probe: &Probe, field: &ProbeField) -> usize {
    let kind = kind(field);
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

fn kind(field: &ProbeField) -> StreamKind {
    match field.shape {
        Shape::Unsigned | Shape::Bool | Shape::Pointer => StreamKind::Unsigned,
        Shape::Signed => StreamKind::Signed,
        Shape::Enum(_) | Shape::Text => StreamKind::Text,
        Shape::Bytes => StreamKind::Bytes,
        Shape::Stack => StreamKind::Texts,
    }
}

impl Sink for Columns {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        let (file, event) = (&mut self.file, record.event() as usize);
        file.number(0, meaning.epoch_ns.saturating_add_unsigned(record.time_ns()));
        file.text(1, self.events[event].as_bytes());
        file.number(2, record.cpu().into());
        file.number(3, record.tgid().into());
        file.number(4, record.tid().into());
        file.number(5, record.id().cast_signed());
        for (column, value) in self.columns[event].iter().zip(probe.values(record)) {
            match meaning.stack(&value, record) {
                Some(names) => file.texts(*column, names.iter().map(|name| name.as_bytes())),
                None => put(file, *column, value),
            }
        }
        file.end_row();
        Ok(())
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
        self.columns.resize(number, Vec::new());
        self.columns.push(columns);
        self.events.resize(number, String::new());
        self.events.push(probe.name.clone());
        Ok(())
    }

    fn finish(self: Box<Self>, totals: &Totals) -> anyhow::Result<()> {
        let lost = totals.lost().to_string();
        let closed = self.file.finish(&[("weigh.lost".to_string(), lost)])?;
        match closed.error {
            None => Ok(()),
            Some(error) => Err(anyhow::Error::new(error).context(format!(
                "the file ends early: {} events are in it, {} could not be written",
                closed.rows, closed.unwritten
            ))),
        }
    }
}

fn put(file: &mut StreamWriter, column: usize, value: Value<'_>) {
    match value {
        Value::Absent => {}
        Value::Unsigned(number) | Value::Pointer(number) => {
            file.number(column, number.cast_signed());
        }
        Value::Signed(number) => file.number(column, number),
        Value::Bool(truth) => file.number(column, truth.into()),
        Value::Constant(_, Some(name)) => file.text(column, name.as_bytes()),
        Value::Constant(number, None) => file.text(column, number.to_string().as_bytes()),
        Value::Text(text) => match std::str::from_utf8(text) {
            Ok(_) => file.text(column, text),
            Err(_) => file.text(column, String::from_utf8_lossy(text).as_bytes()),
        },
        Value::Bytes(bytes) => file.text(column, bytes),
        // A list of names, by whoever knows them.
        Value::Stack { .. } => {}
    }
}
