//! How near the kernel's own marks of resident sizes are: `ru_maxrss`, and VmHWM of `/proc/PID/status`.
//!
//! Since Linux 6.2 each CPU adds to a resident size in batches, and a mark is taken without what some have not added yet.
//! Emits a note for each peak that may be off by more than counts as exact. Refuses nothing.
//!
//! All CPUs count, not those alone on which the job may run: reclaim, khugepaged, KSM, swapoff, a debugger, userfaultfd,
//! uprobes and drivers change a resident size on the CPU that they run on, and nobody counts most of these; and a job can
//! often widen its CPUs. An exact size that was read at another moment is a lower bound of the peak, and no more.

use weigh_schema::event::{MemoryReading, Note};
use weigh_schema::{Quality, metric_name};

use crate::host;

/// Pages of files, anonymous and shared ones are counted apart.
const COUNTERS: u64 = 3;
/// Pages that a CPU keeps back, at most, are fewer.
const LEAST_BATCH: u64 = 32;

/// Adds what there is to say of peaks that follow from marks, where nothing else qualifies them.
pub fn qualify(notes: &mut Vec<Note>, memory: &MemoryReading) {
    let here =
        if host::kernel_is_at_least((6, 2)) { host::cpus_present().map(off_by) } else { Some(0) };
    qualify_by(notes, memory, here);
}

/// `off_by` is of one address space; none where it is not known.
fn qualify_by(notes: &mut Vec<Note>, memory: &MemoryReading, off_by: Option<u64>) {
    let spaces = memory.spaces_at_peak.max(1);
    for (metric, bytes, spaces) in [
        (metric_name::memory_peak_process_rss_bytes, memory.process_peak, 1),
        (metric_name::memory_peak_rss_sum_bytes, memory.rss_sum_peak, spaces),
        (metric_name::memory_peak_bytes, memory.rss_sum_peak, spaces),
    ] {
        let is_qualified = |note: &Note| note.metric == metric && note.quality != Quality::Exact;
        let off_by = off_by.map(|off_by| off_by.saturating_mul(spaces));
        let is_near = |off_by: u64| off_by as f64 <= bytes as f64 * Quality::EXACT_WITHIN;
        if !off_by.is_some_and(is_near) && !notes.iter().any(is_qualified) {
            notes.push(note(metric, off_by));
        }
    }
}

fn note(metric: &str, off_by: Option<u64>) -> Note {
    let (bound, unknown) = match off_by {
        Some(bytes) => (format!(" by up to {bytes} bytes"), ""),
        None => (String::new(), ", and how many CPUs there are cannot be read"),
    };
    let reason = format!(
        "by the kernel's own mark, which may be off{bound}: each CPU adds to a resident size in batches{unknown}"
    );
    Note::new(metric, Quality::Estimated, reason)
}

/// By how many bytes the mark of one address space may be off on so many CPUs.
fn off_by(cpus: u32) -> u64 {
    let cpus = u64::from(cpus);
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
        let far = off_by(2);
        let notes_of = |process_peak, before: &[Note], far| {
            let memory = MemoryReading { process_peak, ..MemoryReading::default() };
            let mut notes = before.to_vec();
            qualify_by(&mut notes, &memory, far);
            notes.retain(|note| note.metric == metric_name::memory_peak_process_rss_bytes);
            notes
        };
        let small = notes_of(far * 99, &[], Some(far));
        assert_eq!(small[0].quality, Quality::Estimated);
        assert!(small[0].reason.contains(&format!(" {far} bytes")), "{}", small[0].reason);
        assert_eq!(notes_of(far * 100, &[], Some(far)), []);
        assert_eq!(notes_of(0, &[], Some(0)), []);
        let sampled = Note::new(&small[0].metric, Quality::Sampled, "looked at now and then");
        assert_eq!(notes_of(far, std::slice::from_ref(&sampled), Some(far)), [sampled]);
        let unknown = notes_of(u64::MAX, &[], None);
        assert_eq!(unknown[0].quality, Quality::Estimated);
        assert!(unknown[0].reason.contains("cannot be read"), "{}", unknown[0].reason);
    }

    /// A container may show fewer online, and a CPU may have gone offline since.
    #[test]
    fn no_fewer_cpus_count_than_ever_took_part() {
        let allowed = std::thread::available_parallelism().expect("the CPUs of this thread").get();
        let present = host::cpus_present().expect("a list of CPUs");
        assert!(present as usize >= allowed && present >= host::cpus_online().expect("a list"));
    }
}
