//! Numbers as they are told: in base units, without what is nothing.

use std::collections::BTreeMap;

use weigh_schema::io::{
    FIELDS, Fold, Numbers, Totals, Transfer, Transferred, Unseen, bucket_start,
};
use weigh_schema::{Number, Quality, Unit};

use super::usage_table::IoBook;

/// The numbers of a file and process, or of several, as far as they are seen; `moves_unseen` says whether more may
/// have been moved by kinds that are not. A kind of transfer that cannot be seen at all is there without numbers.
/// So is mapped memory where only a part of it is seen, for that is by no call.
pub fn totals(book: &IoBook, numbers: &Numbers, moves_unseen: bool) -> Totals {
    let unseen = book.unseen;
    let is_hidden = |kind: Transfer| {
        book.unseen_kinds.contains(&kind) || kind == Transfer::Mapped && unseen.any()
    };
    let of_kind = |kind: Transfer| Transferred {
        read_bytes: numbers.bytes[kind as usize][0],
        read_calls: numbers.calls[kind as usize][0],
        written_bytes: numbers.bytes[kind as usize][1],
        write_calls: numbers.calls[kind as usize][1],
        // A mechanism that does not see reads and writes still sees copies: they are requests of their own.
        unseen: match kind {
            _ if book.unseen_kinds.contains(&kind) => Unseen { reads: true, writes: true },
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
        by_calls: lower_bound(by_calls(numbers, unseen), moves_unseen),
        by_kind: told.map(|(kind, of)| (kind.name().to_string(), of)).collect(),
        read_sizes: sizes(0),
        write_sizes: sizes(1),
        numbers: known
            .filter(|(field, raw)| *raw > 0 || field.fold() == Fold::Least)
            .filter(|(field, _)| !book.unseen_fields.contains(field))
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

/// Where more may have been moved unseen: what was seen is a lower bound, and where that is nothing, nothing is known.
pub fn lower_bound(seen: Transferred, moves_unseen: bool) -> Transferred {
    let unseen = Unseen {
        reads: seen.unseen.reads || moves_unseen && seen.read_calls == 0,
        writes: seen.unseen.writes || moves_unseen && seen.write_calls == 0,
    };
    Transferred { unseen, ..seen }
}

/// How far those bytes and calls that are known can be trusted.
pub fn moved_quality(seen: &Transferred, moves_unseen: bool) -> Quality {
    match seen.unseen {
        Unseen { reads: true, writes: true } => Quality::Unavailable,
        _ if moves_unseen => Quality::Estimated,
        _ => Quality::Exact,
    }
}

/// Nanoseconds in the base unit.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
