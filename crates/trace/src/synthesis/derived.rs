//! Events that no probe saw: of two that belong together, or of one that none followed.
//!
//! A record of them has the first one's header, with the time at which it was certain, how long that was after
//! the first, where the second happened, and the fields of both.

use crate::condition::Source;
use crate::error::{Refusal, Span, Wrong};
use crate::event::MOST_FIELDS;
use crate::path_resolve::Shape;
use crate::probe::{Content, Probe, ProbeField};
use crate::record::{HEADER_BYTES, Record, offset};

/// How long after the first one.
pub const AFTER: &str = "after_ns";
const WAY: &str = " followed by ";
/// Before the names of the second one's fields.
const THEN: &str = "then_";
const AFTER_BYTES: usize = 8;
/// Of the second one's header: its CPU, process and thread.
const THEN_BYTES: usize = 12;

/// Whether it is an event of this kind: no probe's name has such words.
pub fn is_derived(probe: &Probe) -> bool {
    probe.name.contains(WAY) && probe.fields.first().is_some_and(|field| field.name == AFTER)
}

/// A derived event.
pub struct Derived {
    /// How its records are read.
    pub probe: Probe,
    /// Whether there is a second one.
    has_second: bool,
    first_fields: u32,
    /// Where the second one's fields begin.
    second_at: u32,
}

fn number(name: String, offset: usize, bytes: usize, source: Source) -> ProbeField {
    ProbeField {
        name,
        shape: Shape::Unsigned,
        is_signed: false,
        offset: offset as u32,
        bytes: bytes as u32,
        content: Content::Number(source),
        constants: Vec::new(),
    }
}

/// All of a record behind its header.
fn fields_of(record: Record<'_>) -> &[u8] {
    record.bytes().get(HEADER_BYTES..record.size() as usize).unwrap_or_default()
}

impl Derived {
    /// Of these two; of the first alone, if it is one that none follows.
    pub fn of(
        first: &Probe,
        second: &Probe,
        is_not: bool,
        text: &str,
        span: Span,
    ) -> Result<Derived, Refusal> {
        let (way, extra) = if is_not { (" not", 0) } else { ("", THEN_BYTES) };
        let behind = (AFTER_BYTES + extra) as u32;
        // Nothing reads a program's registers for these: where a number comes from is said for form's sake.
        let mut fields = vec![number(AFTER.to_string(), HEADER_BYTES, AFTER_BYTES, Source::Tid)];
        if !is_not {
            let parts = [("cpu", Source::Cpu), ("tgid", Source::Tgid), ("tid", Source::Tid)];
            for (place, (name, source)) in parts.into_iter().enumerate() {
                let offset = HEADER_BYTES + AFTER_BYTES + 4 * place;
                fields.push(number(format!("{THEN}{name}"), offset, 4, source));
            }
        }
        let moved = |field: &ProbeField, by: u32, before: &str| ProbeField {
            name: format!("{before}{}", field.name),
            offset: field.offset + by,
            content: field.content.moved(by),
            ..field.clone()
        };
        fields.extend(first.fields.iter().map(|field| moved(field, behind, "")));
        let mut record_bytes = first.record_bytes + behind;
        let second_at = record_bytes;
        if !is_not {
            let by = record_bytes - HEADER_BYTES as u32;
            fields.extend(second.fields.iter().map(|field| moved(field, by, THEN)));
            record_bytes += second.record_bytes - HEADER_BYTES as u32;
        }
        if fields.len() > MOST_FIELDS {
            let count = fields.len();
            let wrong = Wrong::TooMuch(format!(
                "both events have {count} fields together, of {MOST_FIELDS} at most; name those that are wanted"
            ));
            return Err(span.refuse(text, wrong));
        }
        let probe = Probe {
            name: format!("{}{way}{WAY}{}", first.name, second.name),
            fields,
            test: None,
            sampling: None,
            record_bytes,
            ..first.clone()
        };
        let first_fields = first.fields.len() as u32;
        Ok(Derived { probe, has_second: !is_not, first_fields, second_at })
    }

    /// Writes a record behind what is there.
    pub fn write(
        &self,
        number: u32,
        (first, second): (Record<'_>, Option<Record<'_>>),
        (time_ns, after_ns): (u64, u64),
        to: &mut Vec<u8>,
    ) {
        let begin = to.len();
        to.extend(&first.bytes()[..HEADER_BYTES]);
        to.extend(after_ns.to_le_bytes());
        let mut absent = first.absent() << 1;
        if self.has_second
            && let Some(second) = second
        {
            for part in [second.cpu(), second.tgid(), second.tid()] {
                to.extend(part.to_le_bytes());
            }
            absent = first.absent() << 4
                | second.absent().checked_shl(4 + self.first_fields).unwrap_or_default();
            to.extend(fields_of(first));
            // A record may be shorter than its probe's others are.
            to.resize(begin + self.second_at as usize, 0);
            to.extend(fields_of(second));
        } else {
            to.extend(fields_of(first));
        }
        let size = (to.len() - begin) as u32;
        let mut set = |at: usize, bytes: &[u8]| {
            to[begin + at..begin + at + bytes.len()].copy_from_slice(bytes);
        };
        set(offset::event, &number.to_le_bytes());
        set(offset::size, &size.to_le_bytes());
        set(offset::time_ns, &time_ns.to_le_bytes());
        set(offset::absent, &absent.to_le_bytes());
    }
}
