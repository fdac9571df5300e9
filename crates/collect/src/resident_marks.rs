//! How near the kernel's own marks of resident sizes are: `ru_maxrss`, and VmHWM of `/proc/PID/status`.
//!
//! Since Linux 6.2 each CPU adds to a resident size in batches, and a mark is taken without what some have not added yet.
//! Emits a note for each peak that may be off by more than counts as exact. Refuses nothing.

use weigh_schema::event::{MemoryReading, Note};
use weigh_schema::{Quality, metric_name};

use crate::{host, requirements};

/// Pages of files, anonymous and shared ones are counted apart.
const COUNTERS: u64 = 3;
/// Pages that a CPU keeps back, at most, are fewer.
const LEAST_BATCH: u64 = 32;

/// Adds what there is to say of peaks that follow from marks, where nothing else qualifies them.
pub fn qualify(notes: &mut Vec<Note>, memory: &MemoryReading) {
    let off_by = off_by_here();
    let spaces = memory.spaces_at_peak.max(1);
    for (metric, bytes, spaces) in [
        (metric_name::memory_peak_process_rss_bytes, memory.process_peak, 1),
        (metric_name::memory_peak_rss_sum_bytes, memory.rss_sum_peak, spaces),
        (metric_name::memory_peak_bytes, memory.rss_sum_peak, spaces),
    ] {
        let is_qualified = |note: &Note| note.metric == metric && note.quality != Quality::Exact;
        let off_by = off_by.saturating_mul(spaces);
        if off_by as f64 > bytes as f64 * Quality::EXACT_WITHIN && !notes.iter().any(is_qualified) {
            notes.push(note(metric, off_by));
        }
    }
}

fn note(metric: &str, off_by: u64) -> Note {
    let reason = format!(
        "by the kernel's own mark, which may be off by up to {off_by} bytes: each CPU adds to a resident size in batches"
    );
    Note::new(metric, Quality::Estimated, reason)
}

fn off_by_here() -> u64 {
    let cpus = host::cpus_online().unwrap_or_else(|_| requirements::possible_cpus());
    if host::kernel_is_at_least((6, 2)) { off_by(cpus.into()) } else { 0 }
}

/// By how many bytes the mark of one address space may be off on so many CPUs.
fn off_by(cpus: u64) -> u64 {
    let batch = LEAST_BATCH.max(2 * cpus);
    COUNTERS * cpus * (batch - 1) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_peaks_are_estimates_and_great_ones_are_near_enough() {
        let page = rustix::param::page_size() as u64;
        assert_eq!([off_by(2), off_by(128)], [3 * 2 * 31 * page, 3 * 128 * 255 * page]);
        let far = off_by_here();
        let notes_of = |process_peak, before: &[Note]| {
            let memory = MemoryReading { process_peak, ..MemoryReading::default() };
            let mut notes = before.to_vec();
            qualify(&mut notes, &memory);
            notes.retain(|note| note.metric == metric_name::memory_peak_process_rss_bytes);
            notes
        };
        if far == 0 {
            return; // this kernel adds to them at once
        }
        let small = notes_of(far * 99, &[]);
        assert_eq!(small[0].quality, Quality::Estimated);
        assert!(small[0].reason.contains(&format!(" {far} bytes")), "{}", small[0].reason);
        assert_eq!(notes_of(far * 100, &[]), []);
        let sampled = Note::new(&small[0].metric, Quality::Sampled, "looked at now and then");
        assert_eq!(notes_of(far, std::slice::from_ref(&sampled)), [sampled]);
    }
}
