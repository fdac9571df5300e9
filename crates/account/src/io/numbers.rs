//! Numbers as they are told: in base units, without what is nothing.

use std::collections::BTreeMap;

use weigh_schema::io::{
    FIELDS, Fold, Numbers, Totals, Transfer, Transferred, Unseen, bucket_start,
};
use weigh_schema::{Number, Unit};

/// The numbers of a file and process, or of several, as far as they are seen. A kind of transfer that can
/// not be seen at all is there without numbers.
pub fn totals(numbers: &Numbers, unseen: Unseen, unseen_kinds: &[Transfer]) -> Totals {
    let is_hidden = |kind: Transfer| unseen_kinds.contains(&kind);
    let of_kind = |kind: Transfer| Transferred {
        read_bytes: numbers.bytes[kind as usize][0],
        read_calls: numbers.calls[kind as usize][0],
        written_bytes: numbers.bytes[kind as usize][1],
        write_calls: numbers.calls[kind as usize][1],
        // Who does not see reads and writes still sees copies: they are requests of their own.
        unseen: match kind {
            _ if is_hidden(kind) => Unseen { reads: true, writes: true },
            Transfer::Copied => Unseen::default(),
            _ => unseen,
        },
    };
    let is_any = |kind: &Transferred| {
        Transferred { unseen: Unseen::default(), ..*kind } != Transferred::default()
    };
    let kinds = Transfer::ALL.iter().map(|kind| (*kind, of_kind(*kind)));
    let told = kinds.filter(|(kind, of)| is_hidden(*kind) || is_any(of));
    let sizes = |direction: usize| -> BTreeMap<u64, u64> {
        let counts = numbers.sizes[direction].iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (bucket_start(bucket), *count)).collect()
    };
    let known = FIELDS.iter().filter_map(|field| Some((*field, numbers.known(*field)?)));
    let number = |(field, raw): (weigh_schema::io::Field, u64)| {
        let number = match field.unit() {
            Unit::Seconds => Number::Real(seconds(raw)),
            _ => Number::Whole(raw),
        };
        (field.key(), number)
    };
    Totals {
        by_calls: by_calls(numbers, unseen),
        by_kind: told.map(|(kind, of)| (kind.name().to_string(), of)).collect(),
        read_sizes: sizes(0),
        write_sizes: sizes(1),
        numbers: known
            .filter(|(field, raw)| *raw > 0 || field.fold() == Fold::Least)
            .map(number)
            .collect(),
    }
}

/// Bytes and calls without what is mapped.
pub fn by_calls(numbers: &Numbers, unseen: Unseen) -> Transferred {
    Transferred {
        read_bytes: numbers.bytes_by_calls(0),
        read_calls: numbers.calls_of(0),
        written_bytes: numbers.bytes_by_calls(1),
        write_calls: numbers.calls_of(1),
        unseen,
    }
}

/// Nanoseconds in the base unit.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
