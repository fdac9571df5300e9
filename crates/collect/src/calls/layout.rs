//! From the kernel side's structures to the words of the schema: see `crate::layout`.

use std::mem::{offset_of, size_of};

use weigh_schema::byte_text;
use weigh_schema::call::{
    Call, Cell, Grouping, Interval, LateCost, Named, Rival, Sharing, Tally, TimeHistogram,
};
use weigh_schema::subsystem::{Account, LATER};

use super::thread_credentials::ThreadCredentials;
use crate::socket_name::{self, INET, INET6};

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod skeleton {
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
    at_stage(types::stage::STAGE_ARMED)
}

fn at_stage(stage: types::stage) -> Vec<u8> {
    let mut window = vec![0; size_of::<types::window>()];
    let stage = stage.0.to_ne_bytes();
    let at = offset_of!(types::window, stage);
    window[at..at + stage.len()].copy_from_slice(&stage);
    window
}

/// A thread whose calls are followed from now on.
pub(super) fn member() -> Vec<u8> {
    at_stage(types::stage::STAGE_MEMBER)
}

/// A thread that is in a call, and of which nothing else is known.
pub(super) fn inside() -> Vec<u8> {
    let mut window = vec![0; size_of::<types::window>()];
    let at = offset_of!(types::window, inside);
    window[at..at + 4].copy_from_slice(&1u32.to_ne_bytes());
    window
}

/// Whether the calls of the thread that this is kept of are followed.
pub(super) fn is_member(window: &[u8]) -> bool {
    let member = types::stage::STAGE_MEMBER.0;
    Reader(window).u32(offset_of!(types::window, stage)) == Some(member)
}

/// What the kernel side is to know of a thread that joins; client 0: it joins the job.
pub(super) fn join_request(client: u32, slot: u32, ticket: u64) -> types::join_request {
    types::join_request { client, slot, ticket }
}

/// The thread to be looked at; 0: the first of the process.
pub(super) fn look_request(connection: i32, process: u32, number: u32) -> types::look {
    let connection = connection.cast_unsigned();
    types::look { connection, process, number, ..Default::default() }
}

/// What was found, if the thread is there.
pub(super) fn looked(look: &types::look) -> Option<ThreadCredentials> {
    (look.found != 0).then_some(ThreadCredentials {
        tid: look.tid,
        tgid: look.tgid,
        level: look.level,
        caller: (look.caller_uid, look.caller_gid),
        behind: look.behind,
        caller_effective: look.caller_effective,
        users: look.users,
        groups: look.groups,
        permitted: look.permitted,
        has_connected: look.connected != 0,
        same_credentials: look.same_credentials != 0,
        same_users: look.same_users != 0,
        may_trace: look.may_trace != 0,
        is_dumpable: look.dumpable != 0,
    })
}

pub(super) fn grouping(grouping: Grouping) -> types::grouping {
    match grouping {
        Grouping::Call => types::grouping::BY_CALL,
        Grouping::Thread => types::grouping::BY_THREAD,
        Grouping::File => types::grouping::BY_FILE,
        Grouping::Connection => types::grouping::BY_CONNECTION,
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
    Tally {
        cells: tally.cells,
        calls: tally.calls,
        lost: tally.lost,
        untold: tally.untold,
        untold_later: tally.untold_later,
        merged_later: tally.merged_later,
        threads: tally.threads,
        living: tally.living,
    }
}

/// How many cells of the table are in use.
pub(super) fn cells_taken(tally: Tally) -> u32 {
    tally.cells.try_into().unwrap_or(u32::MAX)
}

const PAGE: u64 = 4096;

/// Bytes of pages in a chunk that are somebody's, and not on the device: one may be dirty again while
/// it is on its way.
pub(super) fn to_come(chunk: &[u8]) -> u64 {
    let shares = size_of::<types::shares>();
    let (dirty, flying) = (offset_of!(types::chunk, dirty), offset_of!(types::chunk, flying));
    // Of all pages of a chunk, one behind the other.
    let length = flying - dirty;
    let pages = |start: usize| {
        let pages = chunk.get(start..start + length).unwrap_or_default().chunks(shares);
        pages.filter(|page| page.iter().any(|byte| *byte != 0)).count() as u64
    };
    PAGE * (pages(dirty) + pages(flying))
}

pub(super) fn bucket_key(key: &[u8]) -> Option<(u32, u32)> {
    let key = Reader(key);
    Some((key.u32(0)?, key.u32(4)?))
}

pub(super) fn cell(value: &[u8], times: TimeHistogram) -> Option<Cell> {
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
        waits_at_pipes_ns: reader.u64(offset_of!(types::cell, waits_at_pipes_ns))?,
        waits_at_sockets_ns: reader.u64(offset_of!(types::cell, waits_at_sockets_ns))?,
        account: Account::from_bytes(value.get(offset_of!(types::cell, account)..)?)?,
        by_part: None,
        times,
    })
}

/// The structure that a record is of: it holds which of its numbers are not 0, then those.
fn told(record: &[u8]) -> Option<[u8; size_of::<types::call_record>()]> {
    let mut value = [0; size_of::<types::call_record>()];
    let (given, numbers) = record.split_at_checked((value.len() / 8).div_ceil(64) * 8)?;
    let mut numbers = numbers.chunks_exact(8);
    for (word, bits) in given.chunks_exact(8).enumerate() {
        let mut bits = u64::from_ne_bytes(bits.try_into().ok()?);
        while bits != 0 {
            let at = (word * 64 + bits.trailing_zeros() as usize) * 8;
            value.get_mut(at..at + 8)?.copy_from_slice(numbers.next()?);
            bits &= bits - 1;
        }
    }
    numbers.next().is_none().then_some(value)
}

/// A record of the ring of calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallRecord {
    /// A call has ended.
    Call(Box<Call>),
    /// Something that a call has caused.
    LateCost(Box<LateCost>),
}

/// What was told; none if the record is nothing of the kind.
pub(super) fn told_of(record: &[u8]) -> Option<CallRecord> {
    let value = &told(record)?;
    // No call ends when the clock begins.
    match Reader(value).u64(offset_of!(types::call_record, ended))? {
        0 => Some(CallRecord::LateCost(Box::new(later(value)?))),
        _ => Some(CallRecord::Call(Box::new(call(value)?))),
    }
}

fn later(value: &[u8]) -> Option<LateCost> {
    let reader = Reader(value);
    let first = offset_of!(types::call_record, account) + offset_of!(types::weigh_account, later);
    let mut growth = [0; LATER.len()];
    for (place, number) in growth.iter_mut().enumerate() {
        *number = reader.u64(first + place * 8)?;
    }
    Some(LateCost { sequence: reader.u64(offset_of!(types::call_record, sequence))?, growth })
}

fn call(value: &[u8]) -> Option<Call> {
    let reader = Reader(value);
    Some(Call {
        pid: reader.u32(offset_of!(types::call_record, pid))?,
        tid: reader.u32(offset_of!(types::call_record, tid))?,
        sequence: reader.u64(offset_of!(types::call_record, sequence))?,
        number: reader.u64(offset_of!(types::call_record, number))?,
        result: reader.u64(offset_of!(types::call_record, result))? as i64,
        began_ns: reader.u64(offset_of!(types::call_record, began))?,
        ended_ns: reader.u64(offset_of!(types::call_record, ended))?,
        of: [
            reader.u64(offset_of!(types::call_record, of))?,
            reader.u64(offset_of!(types::call_record, of) + 8)?,
        ],
        interval: interval(value),
        account: Account::from_bytes(value.get(offset_of!(types::call_record, account)..)?)?,
        rivals: std::array::from_fn(|kind| rival(value, kind)),
    })
}

fn interval(value: &[u8]) -> Option<Interval> {
    let reader = Reader(value);
    let number =
        reader.u64(offset_of!(types::call_record, interval)).filter(|number| *number != 0)?;
    Some(Interval { number, token: reader.u64(offset_of!(types::call_record, token))? })
}

fn rival(value: &[u8], kind: usize) -> Option<Rival> {
    let at = offset_of!(types::call_record, rivals) + kind * size_of::<types::rival>();
    let reader = Reader(value.get(at..at + size_of::<types::rival>())?);
    let pid = reader.u32(offset_of!(types::rival, pid)).filter(|pid| *pid != 0)?;
    let name = reader.0.get(offset_of!(types::rival, name)..)?.get(..16)?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let (name, name_base64) = byte_text::shown_with_base64(&byte_text::keep(&name[..end]));
    Some(Rival { pid, name, name_base64, time_ns: reader.u64(offset_of!(types::rival, time))? })
}

const TYPE_OF_FILE: u32 = 0o170_000;
const SOCKET: u32 = 0o140_000;
const PIPE: u32 = 0o010_000;
/// Of epoll, eventfd, io_uring and their like.
const ANONYMOUS: u32 = 0;

/// The name of a file or socket.
pub(super) fn named(value: &[u8]) -> Option<Named> {
    let reader = Reader(value);
    let of =
        [reader.u64(offset_of!(types::named, of))?, reader.u64(offset_of!(types::named, of) + 8)?];
    let kind = reader.u32(offset_of!(types::named, mode))? & TYPE_OF_FILE;
    let is_nowhere = reader.u32(offset_of!(types::named, depth))? == 0;
    let name = match kind {
        SOCKET => format!("{} [{}]", addresses(value)?, of[1]),
        // It has no name in any directory.
        PIPE if is_nowhere => format!("pipe:[{}]", of[1]),
        ANONYMOUS => "anonymous inode".to_string(),
        _ => path(value)?,
    };
    Some(Named { of, name })
}

fn path(value: &[u8]) -> Option<String> {
    let reader = Reader(value);
    let depth = reader.u32(offset_of!(types::named, depth))? as usize;
    let names = value.get(offset_of!(types::named, names)..)?;
    let names: Vec<Vec<u8>> = names.chunks(NAME_BYTES).take(depth).map(component).collect();
    let names: Vec<&[u8]> = names.iter().rev().map(Vec::as_slice).collect();
    let joined = byte_text::keep(&names.join(&b'/'));
    Some(match reader.u32(offset_of!(types::named, is_complete))? {
        0 => format!("…/{joined}"),
        _ => format!("/{joined}"),
    })
}

const NAME_BYTES: usize = 64;

fn component(name: &[u8]) -> Vec<u8> {
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let name = &name[..end];
    // The kernel side keeps no more than this of each; a character that is cut is none.
    if end < NAME_BYTES - 1 {
        return name.to_vec();
    }
    let whole = match std::str::from_utf8(name) {
        Err(error) if error.error_len().is_none() => &name[..error.valid_up_to()],
        _ => name,
    };
    [whole, "…".as_bytes()].concat()
}

fn addresses(value: &[u8]) -> Option<String> {
    let reader = Reader(value);
    let family = reader.u32(offset_of!(types::named, family))?;
    if family != INET && family != INET6 {
        return Some(if family == 1 { "unix socket" } else { "socket" }.to_string());
    }
    let address = |at: usize, port: usize| {
        let port = u16::from_ne_bytes(*value.get(port..)?.first_chunk()?);
        socket_name::address(family, value.get(at..)?.first_chunk()?, port)
    };
    let protocol = reader.u32(offset_of!(types::named, protocol))?;
    let local = address(offset_of!(types::named, local), offset_of!(types::named, local_port))?;
    let remote = address(offset_of!(types::named, remote), offset_of!(types::named, remote_port))?;
    Some(socket_name::of_ends(protocol, local, Some(remote).filter(|remote| remote.port() != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: usize = size_of::<types::call_record>() / 8;

    fn record(places: &[usize], numbers: &[u64]) -> Vec<u8> {
        let mut given = vec![0u64; NUMBERS.div_ceil(64)];
        places.iter().for_each(|place| given[place / 64] |= 1 << (place % 64));
        given.iter().chain(numbers).flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn what_a_record_does_not_give_is_0_and_one_that_is_cut_is_none() {
        let at = |offset: usize| offset / 8;
        let last = NUMBERS - 1;
        let ended = at(offset_of!(types::call_record, ended));
        let places = [0, at(offset_of!(types::call_record, began)), ended, last];
        let Some(CallRecord::Call(call)) =
            told_of(&record(&places, &[7 | 9 << 32, 1_000, 2_000, 42]))
        else {
            panic!()
        };
        assert_eq!((call.pid, call.tid, call.began_ns, call.result), (7, 9, 1_000, 0));
        assert_eq!((call.account.later().last(), call.account.calls()), (Some(&42), 0));
        assert_eq!(call.rivals, [None, None, None]);
        assert_eq!(told_of(&record(&places, &[7, 1_000])), None, "a number is missing");
        assert_eq!(told_of(&record(&places, &[7, 1_000, 2_000, 42, 1])), None, "one too many");
        // Where the last of the words that say which are given has a bit for one more.
        if !NUMBERS.is_multiple_of(64) {
            assert_eq!(told_of(&record(&[NUMBERS], &[1])), None, "no such number");
        }
        assert_eq!(told_of(&[0; 7]), None);
        // One that has not ended.
        let Some(CallRecord::LateCost(later)) = told_of(&record(&[1, last], &[5, u64::MAX])) else {
            panic!()
        };
        assert_eq!((later.sequence, later.growth[0]), (5, 0));
        assert_eq!(later.growth.last(), Some(&u64::MAX));
    }
}
