//! What a stream says of itself to those who read it: its events with their fields, where it is in its rings, and
//! what it has seen until there.
//!
//! Reads probes; emits what is sent as JSON, and on the other side probes again, which are enough to read records and
//! not to make programs. Refuses what cannot be a record.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use weigh_schema::ring;
use weigh_trace::field_kind::FieldKind;
use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::HEADER_BYTES;
use weigh_trace::signature::Attach;

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Whose.
    pub pid: u32,
    /// What the records' clock showed when it began.
    pub began_ns: u64,
    /// The clock of the day when that one showed 0.
    pub epoch_ns: i64,
    /// Its events, by their numbers.
    pub events: Vec<EventDescription>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDescription {
    /// What its records call it.
    pub id: usize,
    /// Its name.
    pub event: String,
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Whether what fills the header's id can be below 0.
    pub has_signed_id: bool,
    /// Its fields.
    pub fields: Vec<FieldDescription>,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDescription {
    /// Its name.
    pub name: String,
    /// What it is: see [`FieldKind`].
    pub kind: String,
    /// Whether it can be below 0.
    pub is_signed: bool,
    /// StreamPosition it lies in a record.
    pub offset: u32,
    /// How many bytes it has.
    pub bytes: u32,
    /// Which bit of a record's `absent` is its own.
    pub bit: u32,
    /// Names of its values.
    #[serde(default)]
    pub constants: Vec<(i64, String)>,
}

/// StreamPosition a stream is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// In each ring.
    pub positions: Vec<u64>,
    /// Records of each event that it has taken until there.
    pub seen: Vec<u64>,
    /// Events of each that never came into a ring.
    pub lost: Vec<u64>,
}

impl EventDescription {
    /// A probe, by its number.
    pub fn of(id: usize, probe: &Probe) -> EventDescription {
        let field = |(bit, field): (usize, &ProbeField)| FieldDescription {
            name: field.name.clone(),
            kind: FieldKind::of(field).word().to_string(),
            is_signed: field.is_signed,
            offset: field.offset,
            bytes: field.bytes,
            bit: bit as u32,
            constants: field.constants.clone(),
        };
        EventDescription {
            id,
            event: probe.name.clone(),
            record_bytes: probe.record_bytes,
            has_signed_id: probe.has_signed_id(),
            fields: probe.fields.iter().enumerate().map(field).collect(),
        }
    }

    /// The same as one who reads its records needs it.
    pub fn as_read(&self) -> anyhow::Result<Probe> {
        let size = self.record_bytes as usize;
        ensure!(
            (HEADER_BYTES..=ring::MOST_RECORD).contains(&size) && self.fields.len() <= 32,
            "{}: it has no such records",
            self.event
        );
        let field = |field: &FieldDescription| {
            let end = u64::from(field.offset) + u64::from(field.bytes);
            ensure!(end <= size as u64, "{}: {} lies outside of it", self.event, field.name);
            let kind = FieldKind::named(&field.kind);
            let kind =
                kind.with_context(|| format!("{}: {} is of no kind", self.event, field.name))?;
            let (shape, content) = kind.as_read(field.bytes, field.is_signed);
            Ok(ProbeField {
                name: field.name.clone(),
                shape,
                is_signed: field.is_signed,
                offset: field.offset,
                bytes: field.bytes,
                content,
                constants: field.constants.clone(),
            })
        };
        let id = self.has_signed_id.then(|| FieldKind::Signed.as_number());
        Ok(Probe {
            name: self.event.clone(),
            attach: Attach::Tracepoint { btf_id: 0, module: None },
            id,
            has_own_id: false,
            fields: self.fields.iter().map(field).collect::<anyhow::Result<_>>()?,
            test: None,
            sampling: None,
            owner: None,
            packet: None,
            only: None,
            compatible: None,
            record_bytes: self.record_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> EventDescription {
        let field = |name: &str, kind: &str, offset, bytes, bit| FieldDescription {
            name: name.to_string(),
            kind: kind.to_string(),
            is_signed: kind == "signed",
            offset,
            bytes,
            bit,
            constants: vec![(-1, "NONE".to_string())],
        };
        EventDescription {
            id: 3,
            event: "net:x".to_string(),
            record_bytes: 64,
            has_signed_id: true,
            fields: vec![
                field("ret", "signed", 40, 8, 0),
                field("where", "ustack", 48, 8, 1),
                field("name", "text", 56, 8, 2),
            ],
        }
    }

    #[test]
    fn what_was_described_is_read_as_it_was() {
        let described = described();
        let probe = described.as_read().unwrap();
        assert_eq!(EventDescription::of(3, &probe), described);
        let text = serde_json::to_string(&described).unwrap();
        assert_eq!(serde_json::from_str::<EventDescription>(&text).unwrap(), described);
    }

    #[test]
    fn what_can_be_no_record_is_refused() {
        for bytes in [0, 39, 1 << 20] {
            assert!(EventDescription { record_bytes: bytes, ..described() }.as_read().is_err());
        }
        for (offset, bytes, kind) in [(60, 8, "signed"), (u32::MAX, 8, "text"), (40, 8, "float")] {
            let mut wrong = described();
            wrong.fields[0] = FieldDescription {
                offset,
                bytes,
                kind: kind.to_string(),
                ..wrong.fields[0].clone()
            };
            assert!(wrong.as_read().is_err(), "{offset} {bytes} {kind}");
        }
    }
}
