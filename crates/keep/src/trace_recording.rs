//! The rows of a recording of `weigh trace`, made into the records that they were.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use weigh_schema::recording::files;
use weigh_schema::trace::{EventNote, FieldNote, NOTE, RECORDING, TraceNote};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::replay::{self, BatchVisitor, Cell, Header, RecordedStream};
use weigh_trace::sink::Meaning;
use weigh_trace::synthesis::merge::SLACK_NS;

use crate::error::KeepError;
use crate::stream_reader::{StreamBatch, StreamReader, Values};
use crate::trace_writer;

/// What every Parquet file begins with.
const MAGIC: &[u8] = b"PAR1";

/// A recording of `weigh trace` that is being read.
pub struct TraceRecording {
    file: StreamReader,
    note: TraceNote,
    probes: Vec<Probe>,
    /// The columns that are read: those of the header first.
    columns: Vec<usize>,
    /// Of each event's fields: which of those it is.
    places: Vec<Vec<usize>>,
}

impl TraceRecording {
    /// Opens one.
    pub fn open(path: &Path) -> anyhow::Result<TraceRecording> {
        let name = path.display();
        check_kind(path)?;
        let file = StreamReader::open(path).with_context(|| {
            format!(
                "{name} has no end, where a Parquet file says what is in it: weigh was killed before it had \
                 written that, or a part is missing"
            )
        })?;
        let Some(text) = file.note(NOTE) else {
            bail!(
                "{name} is no recording of weigh trace: it does not say which events are in it{}",
                around(path)
            );
        };
        let note = note_of(text).with_context(|| name.to_string())?;
        let probes: Vec<Probe> = note
            .events
            .iter()
            .map(replay::probe)
            .collect::<Result<_, _>>()
            .with_context(|| format!("{name} is damaged"))?;
        let mut columns = Vec::new();
        for (column, kind) in trace_writer::HEADER {
            columns.push(file.column(column, kind)?);
        }
        let places = note.events.iter().map(|event| places(&file, event, &mut columns));
        let places = places.collect::<Result<_, _>>()?;
        Ok(TraceRecording { file, note, probes, columns, places })
    }

    /// How many events are in it.
    pub fn rows(&self) -> u64 {
        self.file.rows()
    }

    /// For each batch the time of the oldest record that comes behind it.
    fn oldest_behind(&self) -> anyhow::Result<Vec<u64>> {
        let mut oldest = Vec::new();
        self.file.each_batch(&self.columns[..1], |batch: &StreamBatch| {
            let times = (0..batch.rows).filter_map(|row| batch.columns[0].number(row));
            oldest.push(times.min().map_or(u64::MAX, |time| self.boot_ns(time)));
            Ok::<_, KeepError>(())
        })?;
        let mut behind = u64::MAX;
        for place in oldest.iter_mut().rev() {
            // What waits for others that may still come is told so much less.
            let own = std::mem::replace(place, behind.saturating_add(SLACK_NS));
            behind = behind.min(own);
        }
        Ok(oldest)
    }

    /// By the records' clock.
    fn boot_ns(&self, time: i64) -> u64 {
        time.wrapping_sub(self.note.origin.epoch_ns).cast_unsigned()
    }

    /// Writes the record of a row behind what is there.
    fn write(
        &self,
        batch: &StreamBatch,
        row: usize,
        meaning: &Meaning,
        to: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let head = |place: usize| batch.columns[place].number(row).unwrap_or_default();
        let event = usize::try_from(head(6)).unwrap_or(usize::MAX);
        let (Some(probe), Some(places)) = (self.probes.get(event), self.places.get(event)) else {
            bail!("a row is of event {}, of which the recording says nothing", head(6));
        };
        let header = Header {
            event: event as u32,
            time_ns: self.boot_ns(head(0)),
            id: head(5).cast_unsigned(),
            cpu: head(2) as u32,
            tgid: head(3) as u32,
            tid: head(4) as u32,
        };
        let frames: Vec<Option<Vec<u64>>> =
            places.iter().map(|place| numbers_of(&batch.columns[*place], row, meaning)).collect();
        let cells: Vec<Cell<'_>> = places
            .iter()
            .zip(&frames)
            .map(|(place, frames)| cell(&batch.columns[*place], row, frames.as_deref()))
            .collect();
        Ok(replay::write(probe, header, &cells, to)?)
    }
}

impl RecordedStream for TraceRecording {
    fn note(&self) -> &TraceNote {
        &self.note
    }

    fn probes(&self) -> &[Probe] {
        &self.probes
    }

    fn each_batch(
        &self,
        in_order: bool,
        meaning: &Meaning,
        visit: &mut BatchVisitor<'_>,
    ) -> anyhow::Result<()> {
        let mut until = if in_order { self.oldest_behind()? } else { Vec::new() }.into_iter();
        let mut bytes = Vec::new();
        self.file.each_batch(&self.columns, |batch| {
            bytes.clear();
            for row in 0..batch.rows {
                self.write(batch, row, meaning, &mut bytes)?;
            }
            let mut rest = bytes.as_slice();
            let mut records = std::iter::from_fn(|| {
                let (one, behind) = rest.split_at_checked(Record::new(rest)?.size() as usize)?;
                rest = behind;
                Record::new(one)
            });
            visit(&mut records, until.next().unwrap_or_default())
        })
    }

    fn is_damage(&self, error: &anyhow::Error) -> bool {
        let error = error.downcast_ref::<KeepError>();
        error.is_some_and(|error| {
            matches!(error, KeepError::Damaged { .. } | KeepError::Read { .. })
        })
    }
}

/// Of a file of a recording: what names the recording.
fn around(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let is_one = [files::SUMMARY, files::JOURNAL].iter().any(|name| folder.join(name).is_file());
    match is_one {
        true => format!(
            ". It is a part of a recording, which is named by its folder: {}",
            folder.display()
        ),
        false => String::new(),
    }
}

/// What is no Parquet file is told what can be read.
fn check_kind(path: &Path) -> anyhow::Result<()> {
    use std::io::Read as _;
    let name = path.display();
    let mut begin = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
    file.take(MAGIC.len() as u64)
        .read_to_end(&mut begin)
        .with_context(|| format!("cannot read {name}"))?;
    if begin != MAGIC {
        bail!(
            "{name} is no recording that can be read back: of the files of weigh trace only .parquet can, the \
             others are for other programs{}",
            around(path)
        );
    }
    Ok(())
}

/// The note, if this weigh knows such.
fn note_of(text: &str) -> anyhow::Result<TraceNote> {
    #[derive(serde::Deserialize)]
    struct Schema {
        schema: String,
    }
    let damaged =
        |error: serde_json::Error| anyhow!("what it says of its events is damaged: {error}");
    let Schema { schema } = serde_json::from_str(text).map_err(damaged)?;
    if schema != RECORDING {
        bail!("it was written by another version of weigh ({schema}); this one reads {RECORDING}");
    }
    serde_json::from_str(text).map_err(damaged)
}

/// Where the fields of an event are among the columns that are read.
fn places(
    file: &StreamReader,
    event: &EventNote,
    columns: &mut Vec<usize>,
) -> Result<Vec<usize>, KeepError> {
    let place = |field: &FieldNote| {
        let column = file.column(&field.column, trace_writer::kind(field.kind))?;
        let known = columns.iter().position(|known| *known == column);
        Ok(known.unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        }))
    };
    event.fields.iter().map(place).collect()
}

/// What stands for the functions of a stack.
fn numbers_of(column: &Values, row: usize, meaning: &Meaning) -> Option<Vec<u64>> {
    let names = column.texts(row)?;
    let mut known = meaning.names.borrow_mut();
    names.map(|name| known.number(&String::from_utf8_lossy(name))).collect()
}

fn cell<'b>(column: &'b Values, row: usize, frames: Option<&'b [u64]>) -> Cell<'b> {
    match (column, frames) {
        (Values::Lists { .. }, Some(frames)) => Cell::Frames(frames),
        (Values::Numbers(_), _) => column.number(row).map_or(Cell::Absent, Cell::Number),
        (Values::Texts(_), _) => column.text(row).map_or(Cell::Absent, Cell::Text),
        _ => Cell::Absent,
    }
}
