//! From the kernel side's structures to the words of the schema.
//!
//! The structures' types are generated from the BPF object's own BTF, so there is one declaration
//! of them (`bpf/job.h`). Records that are shorter than their type are refused.

use std::mem::size_of;

use weigh_schema::CounterValues;
use weigh_schema::event::{
    Crossing, Event, FileKey, JobReading, MemoryReading, Population, ProcessEnd,
};

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/job.skel.rs"));
}

/// The generated skeleton of the function probes.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod functions {
    include!(concat!(env!("OUT_DIR"), "/functions.skel.rs"));
}

use skeleton::types;

/// Plain old data shared with the kernel side.
///
/// # Safety
/// Any bytes must be a valid value: integers and arrays of them only.
pub(crate) unsafe trait Plain: Copy {}
macro_rules! plain {
    ($($name:ident),+) => { $(
        // SAFETY: generated from BTF, of integers, arrays of them, and newtypes of them.
        unsafe impl Plain for types::$name {}
    )+ };
}
plain!(job, process, thread, control, process_end, exec, crossing, file_opened);

/// The bytes of a value, for a map.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: the slice covers exactly the value and lives as long as the borrow.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// A value from the bytes of a map or record; what is missing at the end is zero.
fn from_start<T: Plain>(bytes: &[u8]) -> T {
    // SAFETY: `Plain` types are valid for all bytes, so also for zeros.
    let mut value: T = unsafe { std::mem::zeroed() };
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: both ranges are at least `length` long and do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            std::ptr::from_mut(&mut value).cast::<u8>(),
            length,
        );
    }
    value
}

/// A value from bytes that must hold it whole.
pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    (bytes.len() >= size_of::<T>()).then(|| from_start(bytes))
}

const LIMITED: [(&str, types::limited); 8] = [
    ("memory_peak_bytes", types::limited::LIMITED_MEMORY),
    ("memory_peak_rss_sum_bytes", types::limited::LIMITED_RSS_SUM),
    ("memory_peak_process_rss_bytes", types::limited::LIMITED_PROCESS_RSS),
    ("memory_peak_swap_bytes", types::limited::LIMITED_SWAP),
    ("memory_peak_virtual_bytes", types::limited::LIMITED_VIRTUAL),
    ("processes_total", types::limited::LIMITED_PROCESSES_TOTAL),
    ("processes_peak", types::limited::LIMITED_PROCESSES),
    ("threads_peak", types::limited::LIMITED_THREADS),
];

/// The slot of a limit that is checked in the kernel.
pub(crate) fn limited_index(metric: &str) -> Option<usize> {
    LIMITED.iter().find(|(name, _)| *name == metric).map(|(_, limited)| limited.0 as usize)
}

fn limited_name(limited: types::limited) -> String {
    LIMITED
        .iter()
        .find(|(_, known)| *known == limited)
        .map_or_else(|| format!("limit {}", limited.0), |(name, _)| (*name).to_string())
}

/// Splits arguments as the kernel keeps them, each ended by a NUL.
pub fn split_arguments(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|b| *b == 0).map(|a| String::from_utf8_lossy(a).into_owned()).collect()
}

fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|b| *b as u8).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn whole(value: i64) -> u64 {
    value.max(0) as u64
}

/// The job as a reading.
pub(crate) fn reading(job: &types::job, now: u64) -> JobReading {
    JobReading {
        at_ns: now.saturating_sub(job.started),
        counters: CounterValues(job.counters),
        population: Population {
            processes: job.processes,
            processes_peak: job.processes_peak,
            processes_total: job.processes_total,
            threads: job.threads,
            threads_peak: job.threads_peak,
        },
        memory: MemoryReading {
            rss_sum: whole(job.rss),
            rss_sum_peak: whole(job.rss_peak),
            rss_sum_peak_at_ns: job.rss_peak_at.saturating_sub(job.started),
            floor: whole(job.floor + job.common),
            floor_peak: whole(job.floor_peak),
            process_peak: whole(job.process_peak),
            swap: whole(job.swap),
            swap_peak: whole(job.swap_peak),
            virtual_size: whole(job.virtual_size),
            virtual_peak: whole(job.virtual_peak),
        },
    }
}

/// A process, ended or not.
pub(crate) fn process_end(process: &types::process, started: u64) -> ProcessEnd {
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
        counters: CounterValues(process.counters),
        rss_peak_bytes: whole(process.rss_peak),
        virtual_peak_bytes: whole(process.virtual_peak),
        swap_peak_bytes: whole(process.swap_peak),
    }
}

fn crossing(record: &types::crossing, started: u64) -> Crossing {
    Crossing {
        metric: limited_name(record.limited),
        at_ns: record.at.saturating_sub(started),
        observed: record.observed as f64,
        pid: (record.pid != 0).then_some(record.pid),
        tid: record.tid,
        held: record.held != 0,
        stack: record.stack.iter().copied().take(record.frames as usize).collect(),
    }
}

/// The key under which the kernel side counts the opens of a file.
pub(crate) fn file_key(key: &FileKey) -> Vec<u8> {
    [key.process, key.inode, key.device].iter().flat_map(|part| part.to_ne_bytes()).collect()
}

/// One record of the ring buffer; none if it is too short to be one.
pub(crate) fn event(bytes: &[u8], started: u64) -> Option<Event> {
    let kind = types::event_kind(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?));
    match kind {
        types::event_kind::EVENT_PROCESS_END => {
            let end: types::process_end = from_bytes(bytes)?;
            Some(Event::ProcessEnd(Box::new(process_end(&end.process, started))))
        }
        types::event_kind::EVENT_EXEC => {
            let exec: types::exec = from_start(bytes);
            let start = std::mem::offset_of!(types::exec, arguments);
            let arguments = bytes.get(start..start + exec.length as usize)?;
            Some(Event::Exec {
                pid: exec.pid,
                at_ns: exec.at.saturating_sub(started),
                command: split_arguments(arguments),
                cut: exec.length < exec.total,
            })
        }
        types::event_kind::EVENT_PEAK => {
            let peak: types::crossing = from_bytes(bytes)?;
            Some(Event::Peak {
                at_ns: peak.at.saturating_sub(started),
                rss_sum: whole(peak.rss),
                floor: whole(peak.floor),
            })
        }
        types::event_kind::EVENT_LIMIT => {
            Some(Event::Limit(crossing(&from_bytes(bytes)?, started)))
        }
        types::event_kind::EVENT_WARNING => {
            Some(Event::Warning(crossing(&from_bytes(bytes)?, started)))
        }
        types::event_kind::EVENT_EMPTY => Some(Event::Empty),
        types::event_kind::EVENT_FILE => {
            let file: types::file_opened = from_start(bytes);
            let start = std::mem::offset_of!(types::file_opened, path);
            let path = bytes.get(start..start + file.length as usize)?;
            let path = path.split(|b| *b == 0).next().unwrap_or_default();
            Some(Event::File {
                pid: file.pid,
                path: String::from_utf8_lossy(path).into_owned(),
                key: FileKey { process: file.process, inode: file.inode, device: file.device },
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_oddities() {
        assert_eq!(split_arguments(b"sh\0-c\0echo  hi\0\0"), ["sh", "-c", "echo  hi", ""]);
        assert_eq!(split_arguments(b"\0"), Vec::<String>::new());
        assert_eq!(split_arguments(b"a\xff"), ["a\u{fffd}"]);
    }

    #[test]
    fn short_records_are_refused() {
        for length in 0..size_of::<types::process_end>() {
            let mut record = vec![0u8; length];
            if length >= 4 {
                record[..4].copy_from_slice(&types::event_kind::EVENT_PROCESS_END.0.to_ne_bytes());
            }
            assert_eq!(event(&record, 0), None, "{length}");
        }
    }
}
