//! From the kernel side's structures to the words of the schema: see `crate::layout`.

use std::mem::{offset_of, size_of};

use weigh_schema::byte_text;
use weigh_schema::io::{
    Called, Deed, Direction, Event, Field, FileId, Named, Numbers, Object, OffsetHistogram,
    Process, SEEN, STRIDES, Sources, Stretch, Tally, Transfer, Untold, Use, Who,
};

use crate::socket_name::{self, INET, INET6};

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/io.skel.rs"));
}

use skeleton::types;

/// Numbers at their places; none where the bytes are too few.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn from(self, at: usize) -> Option<Reader<'a>> {
        self.0.get(at..).map(Reader)
    }

    fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }

    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    fn u16(self, at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
    }
}

/// A thread that is followed from its exec on.
pub(super) fn armed() -> Vec<u8> {
    let mut window = vec![0; size_of::<types::io_window>()];
    let stage = types::stage::STAGE_ARMED.0.to_ne_bytes();
    let at = offset_of!(types::io_window, stage);
    window[at..at + stage.len()].copy_from_slice(&stage);
    window
}

/// Whether the thread that this is kept of is followed.
pub(super) fn is_member(window: &[u8]) -> bool {
    let member = types::stage::STAGE_MEMBER.0;
    Reader(window).u32(offset_of!(types::io_window, stage)) == Some(member)
}

/// So long is the key of a file and process.
pub(super) const KEY_BYTES: usize = size_of::<types::io_key>();
/// And that of an AIO request.
pub(super) const REQUEST_KEY_BYTES: usize = size_of::<types::aio_key>();

/// So long is all that is told.
pub(super) const SIZES: [usize; 7] = [
    size_of::<types::io_device>(),
    size_of::<types::io_told_use>(),
    size_of::<types::io_told_process>(),
    size_of::<types::io_told_name>(),
    size_of::<types::io_told_call>(),
    REQUEST_KEY_BYTES,
    size_of::<types::aio_request>(),
];

/// A key of no file.
pub(super) fn no_key() -> Vec<u8> {
    vec![0; KEY_BYTES]
}

/// The key of a file's name: of no process.
pub(super) fn key_of(file: FileId) -> Vec<u8> {
    let mut key = no_key();
    let mut put = |at: usize, bytes: &[u8]| key[at..at + bytes.len()].copy_from_slice(bytes);
    put(offset_of!(types::io_key, inode), &file.inode.to_ne_bytes());
    put(offset_of!(types::io_key, device), &file.device.to_ne_bytes());
    put(offset_of!(types::io_key, generation), &file.generation.to_ne_bytes());
    key
}

pub(super) fn tally(tally: &types::io_tally) -> Tally {
    Tally {
        threads: tally.threads,
        living: tally.living,
        lost_processes: tally.lost_processes,
        lost_threads: tally.lost_threads,
        lost_names: tally.lost_names,
        lost_requests: tally.lost_requests,
        rest_calls: tally.rest_calls,
        lost_calls: tally.lost_calls,
        lost_pages: tally.lost_pages,
        lost_ahead: tally.lost_ahead,
        untold: Untold {
            calls_total: tally.untold_calls,
            read_bytes: tally.untold_bytes[0],
            written_bytes: tally.untold_bytes[1],
        },
        apart_calls: tally.apart_calls,
        shared_maps: tally.shared_maps,
        memory_maps: tally.memory_maps,
        sparse_fills: tally.sparse_fills,
        hidden_requests: tally.hidden_requests,
        uncounted_calls: Some(tally.uncounted_calls),
        freeing_calls: Some(tally.frees),
    }
}

/// One record as the kernel side writes it; none if it is too short to be one.
pub(super) fn event(record: &[u8], began_ns: u64) -> Option<Event> {
    let reader = Reader(record);
    match types::io_kind(reader.u32(0)?) {
        types::io_kind::TOLD_NAME if record.len() < offset_of!(types::io_told_name, path) => None,
        types::io_kind::TOLD_NAME => named(reader).map(Event::Named),
        types::io_kind::TOLD_USE => {
            let key = reader.from(offset_of!(types::io_told_use, key))?;
            let value = reader.from(offset_of!(types::io_told_use, r#use))?;
            Some(Event::Used(Box::new(used(key.0, value.0, began_ns)?)))
        }
        types::io_kind::TOLD_PROCESS => {
            let value = reader.from(offset_of!(types::io_told_process, process))?;
            process(value.0, began_ns).map(Event::Ended)
        }
        types::io_kind::TOLD_CALL => called(reader, began_ns).map(Event::Called),
        _ => None,
    }
}

fn file_id(key: Reader<'_>) -> Option<FileId> {
    Some(FileId {
        device: key.u32(offset_of!(types::io_key, device))?,
        generation: key.u32(offset_of!(types::io_key, generation))?,
        inode: key.u64(offset_of!(types::io_key, inode))?,
    })
}

fn who(key: Reader<'_>) -> Option<Who> {
    Some(Who {
        pid: key.u32(offset_of!(types::io_key, pid))?,
        tid: key.u32(offset_of!(types::io_key, tid))?,
    })
}

/// Moves a time of the monotonic clock to the beginning of the following; 0 is none.
fn since(time: u64, began_ns: u64) -> u64 {
    if time == 0 { 0 } else { time.saturating_sub(began_ns).max(1) }
}

/// What a process did with a file.
pub(super) fn used(key: &[u8], value: &[u8], began_ns: u64) -> Option<Use> {
    let (key, value) = (Reader(key), Reader(value));
    let at = offset_of!(types::io_use, numbers);
    let words: Option<Vec<u64>> = (0..Numbers::WORDS).map(|i| value.u64(at + 8 * i)).collect();
    let mut words = words?;
    for field in [Field::First, Field::Last] {
        let place = Numbers::WORDS - weigh_schema::io::FIELDS.len() + field as usize;
        words[place] = since(words[place], began_ns);
    }
    let mode = value.u32(offset_of!(types::io_use, mode))?;
    let rdev = value.u32(offset_of!(types::io_use, rdev))?;
    let object = if mode == 0 { Object::Unknown } else { Object::of_mode(mode, rdev) };
    Some(Use {
        sources: Sources::default(),
        file: file_id(key)?,
        who: who(key)?,
        object,
        is_deleted: object == Object::Regular && value.u32(offset_of!(types::io_use, links))? == 0,
        numbers: Numbers::from_words(&words)?,
        directions: [direction(value, 0)?, direction(value, 1)?],
        places: places(value.from(offset_of!(types::io_use, places))?)?,
        slowest: (
            value.u64(offset_of!(types::io_use, slowest_ns))?,
            value.u64(offset_of!(types::io_use, slowest_number))?,
            since(value.u64(offset_of!(types::io_use, slowest_at))?, began_ns),
        ),
    })
}

/// What devices did with a file.
pub(super) fn of_device(key: &[u8], value: &[u8], began_ns: u64) -> Option<Use> {
    let (key, value) = (Reader(key), Reader(value));
    let mut numbers = Numbers::default();
    let mut put = |field, at: usize| {
        numbers.set(field, value.u64(at)?);
        Some(())
    };
    put(Field::DeviceRead, offset_of!(types::io_device, read))?;
    put(Field::DeviceReadTime, offset_of!(types::io_device, read_ns))?;
    put(Field::DeviceWritten, offset_of!(types::io_device, written))?;
    put(Field::DeviceWriteTime, offset_of!(types::io_device, write_ns))?;
    put(Field::WrittenSelf, offset_of!(types::io_device, by_itself))?;
    put(Field::WrittenKernel, offset_of!(types::io_device, by_kernel))?;
    put(Field::WrittenOther, offset_of!(types::io_device, by_others))?;
    put(Field::AheadUnused, offset_of!(types::io_device, ahead))?;
    put(Field::AheadDoubts, offset_of!(types::io_device, doubts))?;
    // All that was read ahead has been used since.
    if !numbers.has_later() {
        return None;
    }
    let first = since(value.u64(offset_of!(types::io_device, first_written))?, began_ns);
    let last = since(value.u64(offset_of!(types::io_device, last_written))?, began_ns);
    numbers.set(Field::WrittenFirst, if first == 0 { u64::MAX } else { first });
    numbers.set(Field::WrittenLast, last);
    Some(Use { file: file_id(key)?, who: who(key)?, numbers, ..Use::default() })
}

fn direction(value: Reader<'_>, which: usize) -> Option<Direction> {
    let at = offset_of!(types::io_use, directions) + which * size_of::<types::io_direction>();
    let direction = value.from(at)?;
    let pair = |at: usize| Some((direction.u64(at)?, direction.u64(at + 8)?));
    let seen = offset_of!(types::io_direction, seen);
    let seen: Option<Vec<_>> = (0..SEEN).map(|i| pair(seen + 16 * i)).collect();
    let strides = offset_of!(types::io_direction, strides);
    let strides: Option<Vec<_>> = (0..STRIDES).map(|i| pair(strides + 16 * i)).collect();
    let stretch = |(from, to)| Stretch { from, to };
    Some(Direction {
        seen: seen?.into_iter().map(stretch).filter(|s| s.from < s.to).collect(),
        strides: strides?.into_iter().filter(|s| s.1 > 0).map(|(b, n)| (b as i64, n)).collect(),
    })
}

fn places(value: Reader<'_>) -> Option<OffsetHistogram> {
    let shift = value.u64(offset_of!(types::io_places, shift))?;
    let mut places = OffsetHistogram { shift: shift.min(63) as u32, ..OffsetHistogram::default() };
    let at = offset_of!(types::io_places, bytes);
    for (i, bytes) in places.bytes.as_flattened_mut().iter_mut().enumerate() {
        *bytes = value.u64(at + 8 * i)?;
    }
    Some(places)
}

/// A process, living or ended.
pub(super) fn process(value: &[u8], began_ns: u64) -> Option<Process> {
    let value = Reader(value);
    let name = value.0.get(offset_of!(types::io_process, name)..)?.get(..16)?;
    let u64 = |at: usize| value.u64(at);
    Some(Process {
        pid: value.u32(offset_of!(types::io_process, pid))?,
        parent: value.u32(offset_of!(types::io_process, parent))?,
        name: text(name),
        started_ns: since(u64(offset_of!(types::io_process, started))?, began_ns),
        ended_ns: since(u64(offset_of!(types::io_process, ended))?, began_ns),
        path_calls: u64(offset_of!(types::io_process, path_calls))?,
        path_ns: u64(offset_of!(types::io_process, path_ns))?,
        failed_opens: u64(offset_of!(types::io_process, failed_opens))?,
        foreign_calls: u64(offset_of!(types::io_process, foreign_calls))?,
        moves_unseen: u64(offset_of!(types::io_process, hidden_requests))? > 0,
    })
}

/// One thing that was done.
fn called(value: Reader<'_>, began_ns: u64) -> Option<Called> {
    use types::{io_deed, io_told_call};
    let u32 = |at: usize| value.u32(at);
    let u64 = |at: usize| value.u64(at);
    let key = value.from(offset_of!(io_told_call, key))?;
    let file = file_id(key)?;
    let transfer = *Transfer::ALL.get(u32(offset_of!(io_told_call, transfer))? as usize)?;
    let wrote = u32(offset_of!(io_told_call, wrote))? != 0;
    let deed = match io_deed(u32(offset_of!(io_told_call, deed))?) {
        io_deed::DID_MOVE if wrote => Deed::Write(transfer),
        io_deed::DID_MOVE => Deed::Read(transfer),
        io_deed::DID_OPEN => Deed::Open,
        io_deed::DID_CLOSE => Deed::Close,
        io_deed::DID_SEEK => Deed::Seek,
        io_deed::DID_SYNC => Deed::Sync,
        io_deed::DID_TRUNCATE => Deed::Truncate,
        io_deed::DID_MAP => Deed::Map,
        io_deed::DID_FILL => Deed::Fill,
        io_deed::DID_PATH => Deed::Path,
        _ => Deed::Metadata,
    };
    let is_placed = u32(offset_of!(io_told_call, is_placed))? != 0;
    let is_asked = u32(offset_of!(io_told_call, is_asked))? != 0;
    Some(Called {
        file: (file != FileId::default()).then_some(file),
        pid: key.u32(offset_of!(types::io_key, pid))?,
        tid: u32(offset_of!(io_told_call, tid))?,
        deed,
        number: u32(offset_of!(io_told_call, number))?.into(),
        calls: u32(offset_of!(io_told_call, calls))?,
        bytes: u64(offset_of!(io_told_call, bytes))?,
        from: Some(u64(offset_of!(io_told_call, from))?).filter(|_| is_placed),
        asked: Some(u64(offset_of!(io_told_call, asked))?).filter(|_| is_asked),
        error: u32(offset_of!(io_told_call, error))?.cast_signed(),
        time_ns: u64(offset_of!(io_told_call, time_ns))?,
        ended_ns: since(u64(offset_of!(io_told_call, at))?, began_ns),
    })
}

/// An AIO request, as it was asked for.
pub(super) fn request(value: &[u8]) -> Option<Use> {
    let value = Reader(value);
    let key = value.from(offset_of!(types::aio_request, file))?;
    let mut numbers = Numbers::default();
    let direction = value.u32(offset_of!(types::aio_request, wrote))? as usize & 1;
    numbers.bytes[Transfer::Aio as usize][direction] =
        value.u64(offset_of!(types::aio_request, bytes))?;
    numbers.calls[Transfer::Aio as usize][direction] = 1;
    if value.u64(offset_of!(types::aio_request, mapping))? != 0 {
        // It may have used pages, and nobody was told which.
        numbers.set(Field::AheadDoubts, 1);
    }
    let object = Object::of_mode(value.u32(offset_of!(types::aio_request, mode))?, 0);
    Some(Use { file: file_id(key)?, who: who(key)?, object, numbers, ..Use::default() })
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    byte_text::keep(&bytes[..end])
}

/// The name of a file or socket.
fn named(value: Reader<'_>) -> Option<Named> {
    let file = file_id(value.from(offset_of!(types::io_told_name, key))?)?;
    let mode = value.u32(offset_of!(types::io_told_name, mode))?;
    let object = Object::of_mode(mode, value.u32(offset_of!(types::io_told_name, rdev))?);
    let length = value.u32(offset_of!(types::io_told_name, length))? as usize;
    let name = match object {
        Object::Socket => addresses(value)?,
        // It has no name in any directory.
        Object::Pipe if length == 0 => format!("pipe:[{}]", file.inode),
        Object::Anonymous => "anonymous inode".to_string(),
        _ => path(value, length)?,
    };
    let name = if object == Object::Socket { format!("{name} [{}]", file.inode) } else { name };
    Some(Named { file, object, name })
}

fn path(value: Reader<'_>, length: usize) -> Option<String> {
    let at = offset_of!(types::io_told_name, path);
    let components = value.0.get(at..at + length)?;
    let components = components.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let mut parts: Vec<&[u8]> = components.collect();
    parts.reverse();
    let joined = byte_text::keep(&parts.join(&b'/'));
    Some(match value.u32(offset_of!(types::io_told_name, is_complete))? {
        0 => format!("…/{joined}"),
        _ => format!("/{joined}"),
    })
}

/// A Unix socket's name as the field has it: an abstract one begins with `@`.
fn unix_name(bytes: &[u8]) -> Option<String> {
    match bytes {
        [] => None,
        [0, name @ ..] => Some(format!("@{}", byte_text::keep(name))),
        path => {
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            Some(byte_text::keep(path))
        }
    }
}

fn unix_socket(value: Reader<'_>) -> Option<String> {
    let at = offset_of!(types::io_told_name, path);
    let name = |from: usize, length: usize| {
        let length = usize::from(value.u16(length)?).min(UNIX_BYTES);
        unix_name(value.0.get(at + from..at + from + length)?)
    };
    let local = name(0, offset_of!(types::io_told_name, local_port));
    let remote = name(UNIX_BYTES, offset_of!(types::io_told_name, remote_port));
    Some(socket_name::of_unix(local, remote))
}

/// The longest name of a Unix socket.
const UNIX_BYTES: usize = 108;
const UNIX: u32 = 1;

fn addresses(value: Reader<'_>) -> Option<String> {
    let family = value.u32(offset_of!(types::io_told_name, family))?;
    match family {
        UNIX => return unix_socket(value),
        INET | INET6 => {}
        _ => return Some("socket".to_string()),
    }
    let address = |at: usize, port: usize| {
        socket_name::address(family, value.0.get(at..)?.first_chunk()?, value.u16(port)?)
    };
    let protocol = value.u32(offset_of!(types::io_told_name, protocol))?;
    let local = address(
        offset_of!(types::io_told_name, local),
        offset_of!(types::io_told_name, local_port),
    )?;
    let remote = address(
        offset_of!(types::io_told_name, remote),
        offset_of!(types::io_told_name, remote_port),
    )?;
    Some(socket_name::of_ends(protocol, local, Some(remote).filter(|remote| remote.port() != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_records_are_refused() {
        for kind in 1..=4u32 {
            for length in 0..64 {
                let mut record = kind.to_ne_bytes().to_vec();
                record.resize(4 + length, 0);
                assert_eq!(event(&record, 0), None, "{kind} {length}");
            }
        }
    }

    #[test]
    fn numbers_and_places_are_as_long_as_the_kernel_side_has_them() {
        assert_eq!(size_of::<types::io_numbers>(), 8 * Numbers::WORDS);
        assert_eq!(size_of::<types::io_places>(), 8 * (1 + 2 * weigh_schema::io::PLACES));
    }
}
