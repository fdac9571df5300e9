//! From the kernel side's structures to the words of the schema: see `crate::layout`.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use weigh_schema::call::{Call, Cell, Grouping, Sharing, Tally};
use weigh_schema::subsystem::Account;

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(super) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/calls.skel.rs"));
}

use skeleton::types;

/// Numbers of a structure that is nothing but numbers, one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }
}

/// A thread whose calls are followed from its exec on.
pub(super) fn armed() -> Vec<u8> {
    let mut window = vec![0; size_of::<types::window>()];
    let stage = types::stage::STAGE_ARMED.0.to_ne_bytes();
    let at = offset_of!(types::window, stage);
    window[at..at + stage.len()].copy_from_slice(&stage);
    window
}

pub(super) fn grouping(grouping: Grouping) -> types::grouping {
    match grouping {
        Grouping::Call => types::grouping::BY_CALL,
        Grouping::Thread => types::grouping::BY_THREAD,
    }
}

pub(super) fn sharing(sharing: Sharing) -> types::sharing {
    match sharing {
        Sharing::Bytes => types::sharing::BY_BYTES,
        Sharing::Equal => types::sharing::EQUALLY,
        Sharing::Last => types::sharing::TO_LAST,
    }
}

pub(super) fn tally(tally: &types::tally) -> Tally {
    Tally { cells: tally.cells, calls: tally.calls, lost: tally.lost, threads: tally.threads }
}

/// How many cells of the table are in use.
pub(super) fn cells_taken(tally: Tally) -> u32 {
    tally.cells.try_into().unwrap_or(u32::MAX)
}

pub(super) fn bucket_key(key: &[u8]) -> Option<(u32, u32)> {
    let key = Reader(key);
    Some((key.u32(0)?, key.u32(4)?))
}

pub(super) fn cell(value: &[u8], times: BTreeMap<u32, u64>) -> Option<Cell> {
    let reader = Reader(value);
    let key = offset_of!(types::cell, key);
    Some(Cell {
        number: reader.u64(key + offset_of!(types::cell_key, number))?,
        of: [
            reader.u64(key + offset_of!(types::cell_key, of))?,
            reader.u64(key + offset_of!(types::cell_key, of) + 8)?,
        ],
        errors: reader.u64(offset_of!(types::cell, errors))?,
        bytes: reader.u64(offset_of!(types::cell, bytes))?,
        shortest_ns: reader.u64(offset_of!(types::cell, shortest_ns))?,
        longest_ns: reader.u64(offset_of!(types::cell, longest_ns))?,
        account: Account::from_bytes(value.get(offset_of!(types::cell, account)..)?)?,
        times,
    })
}

pub(super) fn call(value: &[u8]) -> Option<Call> {
    let reader = Reader(value);
    Some(Call {
        pid: reader.u32(offset_of!(types::told, pid))?,
        tid: reader.u32(offset_of!(types::told, tid))?,
        sequence: reader.u64(offset_of!(types::told, sequence))?,
        number: reader.u64(offset_of!(types::told, number))?,
        result: reader.u64(offset_of!(types::told, result))? as i64,
        began_ns: reader.u64(offset_of!(types::told, began))?,
        ended_ns: reader.u64(offset_of!(types::told, ended))?,
        of: [
            reader.u64(offset_of!(types::told, of))?,
            reader.u64(offset_of!(types::told, of) + 8)?,
        ],
        account: Account::from_bytes(value.get(offset_of!(types::told, account)..)?)?,
    })
}
