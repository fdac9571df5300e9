//! Records that come from a recording, not from the kernel.
//!
//! Reads what a recording says of its events, and the values of its rows; emits probes and records that are
//! read as any others: what shows, spreads, pairs or writes them need not know the difference. Refuses notes
//! that no recording of weigh has, and values that are not of their field's kind.

pub mod filter;

use weigh_schema::trace::{EventNote, FieldKind, FieldNote, TraceNote};

use crate::condition::{Source, TextSource};
use crate::event::{MOST_BYTES, MOST_FIELDS};
use crate::ip_prefix::ADDRESS_TEXT_BYTES;
use crate::path_resolve::{End, Meaning, PathEnd, Shape};
use crate::probe::{Content, Probe, ProbeField, lay_out};
use crate::record::{HEADER_BYTES, Record};
use crate::signature::Attach;
use crate::sink;

/// What a byte that is no UTF-8 is replaced by takes three.
const WIDEST_CHARACTER: u32 = 3;
/// A field has so many bytes at most, however often what it holds was replaced.
const MOST: u32 = MOST_BYTES as u32 * WIDEST_CHARACTER;

/// Some of a recording's records, and up to when all that happened has been shown with them.
pub type BatchVisitor<'v> =
    dyn FnMut(&mut dyn Iterator<Item = Record<'_>>, u64) -> anyhow::Result<()> + 'v;

/// A recording, whatever file it is.
pub trait RecordedStream {
    /// What it says of itself.
    fn note(&self) -> &TraceNote;

    /// How its records are read.
    fn probes(&self) -> &[Probe];

    /// Shows all records, some at a time, as they stand in the file; with each batch up to when all that
    /// happened has been shown, if that is wanted.
    fn each_batch(
        &self,
        in_order: bool,
        meaning: &sink::Meaning,
        visit: &mut BatchVisitor<'_>,
    ) -> anyhow::Result<()>;

    /// Whether what is wrong is what was read, not what is written: nothing of the rest is told.
    fn is_damage(&self, error: &anyhow::Error) -> bool;
}

/// What is wrong with a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// An event has too many fields.
    #[error("the event {0} has more than {MOST_FIELDS} fields")]
    Fields(String),
    /// A field cannot have such a size.
    #[error("the field {name} of {event} has {bytes} bytes, which none of its kind has")]
    Size {
        /// The event.
        event: String,
        /// The field.
        name: String,
        /// Its size.
        bytes: u32,
    },
    /// A value is not what its field holds.
    #[error("the field {name} of {event} holds what is not of its kind")]
    Kind {
        /// The event.
        event: String,
        /// The field.
        name: String,
    },
}

/// What a field is, in the words of recordings.
pub fn kind_of(field: &ProbeField) -> FieldKind {
    match (field.shape, &field.content) {
        (Shape::Unsigned, _) => FieldKind::Unsigned,
        (Shape::Signed, _) => FieldKind::Signed,
        (Shape::Bool, _) => FieldKind::Bool,
        (Shape::Pointer, _) => FieldKind::Pointer,
        (Shape::Enum(_), _) => FieldKind::Enum,
        // Its text is written.
        (Shape::Text | Shape::Address, _) => FieldKind::Text,
        (Shape::Bytes, _) => FieldKind::Bytes,
        (Shape::Stack, Content::Stack { is_user: true }) => FieldKind::UserStack,
        (Shape::Stack, _) => FieldKind::Stack,
    }
}

/// What a recording says of an event. Each field has its column.
pub fn note(probe: &Probe, columns: &[String]) -> EventNote {
    let field = |(field, column): (&ProbeField, &String)| FieldNote {
        name: field.name.clone(),
        column: column.clone(),
        kind: kind_of(field),
        bytes: if field.shape == Shape::Address { ADDRESS_TEXT_BYTES } else { field.bytes },
        is_signed: field.is_signed,
        constants: field.constants.clone(),
    };
    EventNote {
        name: probe.name.clone(),
        has_own_id: probe.has_own_id,
        has_signed_id: probe.has_signed_id(),
        fields: probe.fields.iter().zip(columns).map(field).collect(),
    }
}

/// The probe that reads the records which [`write`] makes.
pub fn probe(note: &EventNote) -> Result<Probe, RecordedError> {
    if note.fields.len() > MOST_FIELDS {
        return Err(RecordedError::Fields(note.name.clone()));
    }
    let mut fields = Vec::new();
    for field in &note.fields {
        fields.push(self::field(field).ok_or_else(|| RecordedError::Size {
            event: note.name.clone(),
            name: field.name.clone(),
            bytes: field.bytes,
        })?);
    }
    let record_bytes = lay_out(&mut fields);
    Ok(Probe {
        name: note.name.clone(),
        // Nowhere: it has happened.
        attach: Attach::User { path: String::new(), sites: Vec::new(), returns: false },
        id: Some(Source::PathEnd(PathEnd {
            slot: 0,
            hops: Vec::new(),
            end: End::Argument,
            bytes: 8,
            shape: if note.has_signed_id { Shape::Signed } else { Shape::Unsigned },
            is_signed: note.has_signed_id,
            kind: 0,
            meaning: Meaning::Plain,
        })),
        has_own_id: note.has_own_id,
        owner: None,
        packet: None,
        only: None,
        compatible: None,
        fields,
        test: None,
        sampling: None,
        record_bytes,
    })
}

fn field(note: &FieldNote) -> Option<ProbeField> {
    // Where it comes from is said for form's sake.
    let number = || Content::Number(Source::Tid);
    let is_number = matches!(note.bytes, 1 | 2 | 4 | 8);
    let is_held = (1..=MOST).contains(&note.bytes);
    let is_stack = is_held && note.bytes.is_multiple_of(8);
    let (shape, content, is_possible) = match note.kind {
        FieldKind::Unsigned => (Shape::Unsigned, number(), is_number),
        FieldKind::Signed => (Shape::Signed, number(), is_number),
        FieldKind::Bool => (Shape::Bool, number(), is_number),
        FieldKind::Pointer => (Shape::Pointer, number(), is_number),
        FieldKind::Enum => (Shape::Enum(0), number(), is_number),
        FieldKind::Text => {
            (Shape::Text, Content::Text { source: TextSource::Comm, is_user: false }, is_held)
        }
        // Bytes that lie where they lay: nobody looks for them again.
        FieldKind::Bytes => {
            (Shape::Bytes, Content::Text { source: TextSource::Comm, is_user: false }, is_held)
        }
        FieldKind::Stack => (Shape::Stack, Content::Stack { is_user: false }, is_stack),
        FieldKind::UserStack => (Shape::Stack, Content::Stack { is_user: true }, is_stack),
    };
    let bytes = match note.kind {
        FieldKind::Text => note.bytes.saturating_mul(WIDEST_CHARACTER).min(MOST),
        _ => note.bytes,
    };
    is_possible.then(|| ProbeField {
        name: note.name.clone(),
        shape,
        is_signed: note.is_signed,
        offset: 0,
        bytes,
        content,
        constants: note.constants.clone(),
    })
}

/// A record's header, but for what the record itself says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Which of the recording's events.
    pub event: u32,
    /// When, by the records' clock.
    pub time_ns: u64,
    /// What it is about.
    pub id: u64,
    /// The CPU.
    pub cpu: u32,
    /// The process.
    pub tgid: u32,
    /// The thread.
    pub tid: u32,
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'c> {
    /// There is none.
    Absent,
    /// A number.
    Number(i64),
    /// A text, or bytes.
    Text(&'c [u8]),
    /// Functions, by numbers that the resolver of names knows; none is 0.
    Frames(&'c [u64]),
}

/// Writes a record behind what is there.
pub fn write(
    probe: &Probe,
    header: Header,
    cells: &[Cell<'_>],
    to: &mut Vec<u8>,
) -> Result<(), RecordedError> {
    let begin = to.len();
    let mut absent = 0u32;
    to.resize(begin + probe.record_bytes as usize, 0);
    for (place, field) in probe.fields.iter().enumerate() {
        let at = begin + field.offset as usize;
        let room = &mut to[at..at + field.bytes as usize];
        match put(field, cells.get(place).copied().unwrap_or(Cell::Absent), room) {
            Some(true) => {}
            Some(false) => absent |= 1 << place,
            None => {
                to.truncate(begin);
                let (event, name) = (probe.name.clone(), field.name.clone());
                return Err(RecordedError::Kind { event, name });
            }
        }
    }
    let mut head = Vec::with_capacity(HEADER_BYTES);
    head.extend(header.event.to_le_bytes());
    head.extend(probe.record_bytes.to_le_bytes());
    head.extend(header.time_ns.to_le_bytes());
    head.extend(header.id.to_le_bytes());
    for word in [header.cpu, header.tgid, header.tid, absent] {
        head.extend(word.to_le_bytes());
    }
    to[begin..begin + HEADER_BYTES].copy_from_slice(&head);
    Ok(())
}

/// Puts a value where its field lies; false if there is none, nothing if it is of another kind.
fn put(field: &ProbeField, cell: Cell<'_>, room: &mut [u8]) -> Option<bool> {
    let number = |number: i64, room: &mut [u8]| {
        let length = room.len().min(8);
        room[..length].copy_from_slice(&number.to_le_bytes()[..length]);
    };
    match (field.shape, cell) {
        (_, Cell::Absent) => return Some(false),
        (Shape::Enum(_), Cell::Text(name)) => {
            let named = field.constants.iter().find(|(_, constant)| constant.as_bytes() == name);
            let value = named.map(|(value, _)| *value);
            let parsed = || std::str::from_utf8(name).ok()?.parse().ok();
            number(value.or_else(parsed)?, room);
        }
        (Shape::Text | Shape::Bytes, Cell::Text(bytes)) => {
            let length = bytes.len().min(room.len());
            room[..length].copy_from_slice(&bytes[..length]);
        }
        (Shape::Stack, Cell::Frames(frames)) => {
            for (place, frame) in room.chunks_exact_mut(8).zip(frames) {
                place.copy_from_slice(&frame.to_le_bytes());
            }
        }
        (Shape::Unsigned | Shape::Signed | Shape::Bool | Shape::Pointer, Cell::Number(value)) => {
            number(value, room)
        }
        _ => return None,
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::value::Value;

    fn of(kind: FieldKind, bytes: u32, is_signed: bool) -> FieldNote {
        let constants = match kind {
            FieldKind::Enum => vec![(-2, "MINUS".to_string()), (3, "THREE".to_string())],
            _ => Vec::new(),
        };
        let name = format!("{kind:?}");
        FieldNote { column: name.clone(), name, kind, bytes, is_signed, constants }
    }

    fn event() -> EventNote {
        let fields = vec![
            of(FieldKind::Unsigned, 4, false),
            of(FieldKind::Signed, 2, true),
            of(FieldKind::Enum, 4, true),
            of(FieldKind::Text, 2, false),
            of(FieldKind::Bytes, 3, false),
            of(FieldKind::UserStack, 16, false),
            of(FieldKind::Bool, 1, false),
            of(FieldKind::Pointer, 8, false),
        ];
        EventNote { name: "a:b".into(), has_own_id: true, has_signed_id: true, fields }
    }

    #[test]
    fn what_is_written_is_read() {
        let probe = probe(&event()).unwrap();
        let mut bytes = vec![9; 8];
        let frames = [7];
        let cells = [
            Cell::Number(u32::MAX.into()),
            Cell::Number(-5),
            Cell::Text(b"MINUS"),
            Cell::Text("\u{fffd}\u{fffd}".as_bytes()),
            Cell::Text(b"\0\x01\x02"),
            Cell::Frames(&frames),
            Cell::Absent,
            Cell::Number(-1),
        ];
        let header = Header { event: 3, time_ns: 5, id: 6, cpu: 7, tgid: 8, tid: 9 };
        write(&probe, header, &cells, &mut bytes).unwrap();
        let record = Record::new(&bytes[8..]).unwrap();
        assert_eq!((record.event(), record.time_ns(), record.id()), (3, 5, 6));
        assert_eq!((record.cpu(), record.tgid(), record.tid()), (7, 8, 9));
        let stack = 7u64.to_le_bytes();
        let expected = [
            Value::Unsigned(u32::MAX.into()),
            Value::Signed(-5),
            Value::Constant(-2, Some("MINUS")),
            Value::Text("\u{fffd}\u{fffd}".as_bytes()),
            Value::Bytes(b"\0\x01\x02"),
            Value::Stack { bytes: &stack, is_user: true },
            Value::Absent,
            Value::Pointer(u64::MAX),
        ];
        assert!(
            probe.values(record).eq(expected),
            "{:?}",
            probe.values(record).collect::<Vec<_>>()
        );
        assert!(probe.has_own_id && probe.has_signed_id());
        let columns: Vec<String> = event().fields.into_iter().map(|field| field.column).collect();
        let told = note(&probe, &columns);
        assert_eq!(told.fields[5], event().fields[5]);
        assert_eq!(told.fields[2], event().fields[2]);
    }

    #[test]
    fn what_no_recording_has_is_refused() {
        for (kind, bytes) in
            [(FieldKind::Unsigned, 3), (FieldKind::Stack, 7), (FieldKind::Text, u32::MAX)]
        {
            let fields = vec![of(kind, bytes, false)];
            let refused = probe(&EventNote { fields, ..EventNote::default() });
            assert!(matches!(refused, Err(RecordedError::Size { .. })), "{kind:?}");
        }
        let fields = vec![of(FieldKind::Unsigned, 4, false); MOST_FIELDS + 1];
        assert!(probe(&EventNote { fields, ..EventNote::default() }).is_err());
        let probe = probe(&event()).unwrap();
        let mut bytes = Vec::new();
        for cells in [[Cell::Text(b"1")], [Cell::Frames(&[])]] {
            assert!(write(&probe, Header::default(), &cells, &mut bytes).is_err());
        }
        assert!(bytes.is_empty());
    }
}
