//! From the records of the kernel side to the words of the schema.
//!
//! Reads what `schema::record` declares: records of the ring buffer, and processes as a map has them. Those that are
//! shorter than their type are refused.

use weigh_schema::byte_text;
use weigh_schema::event::{Crossing, Event, FileKey, ProcessEnd};
use weigh_schema::record::{self, EventKind, Field as _, Limited};

/// One record of the ring buffer, with times since the job `started`; none if it is too short to be one.
pub fn event(bytes: &[u8], started: u64) -> Option<Event> {
    let kind = EventKind::numbered(u32::take(&mut &*bytes)?)?;
    let mut rest = bytes;
    match kind {
        EventKind::ProcessEnd => {
            let end = record::ProcessEnd::take(&mut rest)?;
            Some(Event::ProcessEnd(Box::new(process_end(end.process, started))))
        }
        EventKind::Exec => {
            let exec = record::Exec::take(&mut rest)?;
            Some(Event::Exec {
                pid: exec.pid,
                at_ns: exec.at.saturating_sub(started),
                command: split_arguments(rest.get(..exec.length as usize)?),
                cut: exec.length < exec.total,
            })
        }
        EventKind::Peak => {
            let peak = record::Crossing::take(&mut rest)?;
            Some(Event::Peak {
                at_ns: peak.at.saturating_sub(started),
                rss_sum: whole(peak.rss),
                floor: whole(peak.floor),
            })
        }
        EventKind::Limit => Some(Event::Limit(crossing(&mut rest, started)?)),
        EventKind::Warning => Some(Event::Warning(crossing(&mut rest, started)?)),
        EventKind::Empty => Some(Event::Empty),
        EventKind::File => {
            let file = record::FileOpened::take(&mut rest)?;
            let path = rest.get(..file.length as usize)?;
            Some(Event::File {
                pid: file.pid,
                path: byte_text::keep(path.split(|b| *b == 0).next().unwrap_or_default()),
                key: FileKey { process: file.process, inode: file.inode, device: file.device },
            })
        }
    }
}

/// A process as the kernel side keeps it, ended or not; none if the bytes are too few.
pub fn process(mut bytes: &[u8], started: u64) -> Option<ProcessEnd> {
    let process = record::Process::take(&mut bytes)?;
    Some(process_end(process, started))
}

/// The address space of such a process, and its number among the job's.
pub fn address_space(mut bytes: &[u8]) -> Option<(u64, u64)> {
    let process = record::Process::take(&mut bytes)?;
    Some((process.mm, process.mm_id))
}

fn process_end(process: record::Process, started: u64) -> ProcessEnd {
    let ended = process.ended != 0;
    ProcessEnd {
        pid: process.pid,
        parent_pid: process.parent,
        started_ns: process.started.saturating_sub(started),
        ended_ns: ended.then(|| process.ended.saturating_sub(started)),
        wait_status: ended.then_some(process.wait_status),
        uid: process.uid,
        name: text(&process.name),
        command: Vec::new(),
        counters: process.counters,
        is_io_lost: false,
        rss_peak_bytes: whole(process.rss_peak),
        virtual_peak_bytes: whole(process.virtual_peak),
        swap_peak_bytes: whole(process.swap_peak),
    }
}

fn crossing(bytes: &mut &[u8], started: u64) -> Option<Crossing> {
    let record = record::Crossing::take(bytes)?;
    Some(Crossing {
        metric: limited_name(record.limited),
        at_ns: record.at.saturating_sub(started),
        observed: record.observed as f64,
        pid: (record.pid != 0).then_some(record.pid),
        tid: record.tid,
        held: record.held != 0,
        stack: record.stack.iter().copied().take(record.frames as usize).collect(),
    })
}

fn limited_name(number: u32) -> String {
    let metric = Limited::numbered(number).and_then(Limited::metric);
    metric.map_or_else(|| format!("limit {number}"), str::to_string)
}

/// Splits arguments as the kernel keeps them, each ended by a NUL.
fn split_arguments(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|b| *b == 0).map(byte_text::keep).collect()
}

/// Up to its NUL; the form keeps its bytes.
fn text(bytes: &[u8]) -> String {
    byte_text::keep(bytes.split(|b| *b == 0).next().unwrap_or_default())
}

/// An amount of memory, which several CPUs add up: it may be below nothing for a moment.
pub fn whole(value: i64) -> u64 {
    value.max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_oddities() {
        assert_eq!(split_arguments(b"sh\0-c\0echo  hi\0\0"), ["sh", "-c", "echo  hi", ""]);
        assert_eq!(split_arguments(b"\0"), Vec::<String>::new());
        assert_eq!(split_arguments(b"a\xff"), [byte_text::keep(b"a\xff")]);
    }

    #[test]
    fn short_records_are_refused() {
        for length in 0..record::ProcessEnd::BYTES {
            let mut record = vec![0u8; length];
            if length >= 4 {
                record[..4].copy_from_slice(&(EventKind::ProcessEnd as u32).to_ne_bytes());
            }
            assert_eq!(event(&record, 0), None, "{length}");
        }
    }

    #[test]
    fn what_follows_a_record_is_as_long_as_it_says() {
        let head = [EventKind::Exec as u32, 7, 0, 0, 5, 9];
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(b"sh\0-c\0");
        let Some(Event::Exec { pid: 7, command, cut: true, .. }) = event(&bytes, 0) else {
            panic!("{:?}", event(&bytes, 0))
        };
        assert_eq!(command, ["sh", "-c"]);
        assert_eq!(event(&bytes[..28], 0), None);
    }

    #[test]
    fn a_limit_that_nobody_knows_keeps_its_number() {
        assert_eq!(limited_name(Limited::Threads as u32), "threads_peak");
        assert_eq!(limited_name(99), "limit 99");
    }
}
