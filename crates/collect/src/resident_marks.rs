//! How near the kernel's own marks of resident sizes are: `ru_maxrss`, and VmHWM of `/proc/PID/status`.
//!
//! Since Linux 6.2 each CPU adds to a resident size in batches, and a mark is taken without what some have not added yet.
//! Before, each thread did so: it kept back what its last page faults had added.
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

/// So many page faults of a thread, and one more, may have been kept back before 6.2.
const FAULTS_KEPT_BACK: u64 = 64;
/// A fault maps what is around it in the page cache, too.
const FAULT_BYTES: u64 = 64 << 10;

/// Adds what there is to say of peaks that follow from marks, where nothing else qualifies them. `threads`: how many
/// there were at once, at most, if that is known.
pub fn qualify(notes: &mut Vec<Note>, memory: &MemoryReading, threads: Option<u64>) {
    let marks = match host::kernel_is_at_least((6, 2)) {
        true => Marks::by_cpus(host::cpus_present()),
        false => Marks::by_threads(threads),
    };
    qualify_by(notes, memory, marks);
}

/// How far marks may be off.
#[derive(Clone, Copy)]
struct Marks {
    /// By so many bytes, if that is known.
    off_by: Option<u64>,
    /// In each address space, and not in all together.
    in_each: bool,
    who: &'static str,
    unknown: &'static str,
}

impl Marks {
    fn by_cpus(cpus: Option<u32>) -> Marks {
        let unknown = ", and how many CPUs there are cannot be read";
        Marks { off_by: cpus.map(of_cpus), in_each: true, who: "CPU", unknown }
    }

    fn by_threads(threads: Option<u64>) -> Marks {
        let unknown = ", and how many threads there were is not known";
        Marks { off_by: threads.map(of_threads), in_each: false, who: "thread", unknown }
    }

    fn in_spaces(self, spaces: u64) -> Option<u64> {
        let times = if self.in_each { spaces } else { 1 };
        self.off_by.map(|bytes| bytes.saturating_mul(times))
    }
}

fn qualify_by(notes: &mut Vec<Note>, memory: &MemoryReading, marks: Marks) {
    let spaces = memory.spaces_at_peak.max(1);
    for (metric, bytes, spaces) in [
        (metric_name::memory_peak_process_rss_bytes, memory.process_peak, 1),
        (metric_name::memory_peak_rss_sum_bytes, memory.rss_sum_peak, spaces),
        (metric_name::memory_peak_bytes, memory.rss_sum_peak, spaces),
    ] {
        let is_qualified = |note: &Note| note.metric == metric && note.quality != Quality::Exact;
        let off_by = marks.in_spaces(spaces);
        let is_near = |off_by: u64| off_by as f64 <= bytes as f64 * Quality::EXACT_WITHIN;
        if !off_by.is_some_and(is_near) && !notes.iter().any(is_qualified) {
            notes.push(note(metric, off_by, marks));
        }
    }
}

fn note(metric: &str, off_by: Option<u64>, marks: Marks) -> Note {
    let (bound, unknown) = match off_by {
        Some(bytes) => (format!(" by up to {bytes} bytes"), ""),
        None => (String::new(), marks.unknown),
    };
    let reason = format!(
        "by the kernel's own mark, which may be off{bound}: each {} adds to a resident size in batches{unknown}",
        marks.who
    );
    Note::new(metric, Quality::Estimated, reason)
}

/// By how many bytes the mark of one address space may be off on so many CPUs.
fn of_cpus(cpus: u32) -> u64 {
    let cpus = u64::from(cpus);
    let batch = LEAST_BATCH.max(2 * cpus);
    COUNTERS * cpus * (batch - 1) * rustix::param::page_size() as u64
}

/// By how many bytes the marks of all address spaces together may be off where so many threads ran at once, before 6.2.
fn of_threads(threads: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    threads.max(1).saturating_mul((FAULTS_KEPT_BACK + 1) * FAULT_BYTES.max(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_peaks_are_estimates_and_great_ones_are_near_enough() {
        let page = rustix::param::page_size() as u64;
        assert_eq!([of_cpus(2), of_cpus(128)], [3 * 2 * 31 * page, 3 * 128 * 255 * page]);
        let far = of_cpus(2);
        let notes_of = |process_peak, before: &[Note], off_by| {
            let marks = Marks { off_by, ..Marks::by_cpus(None) };
            let memory = MemoryReading { process_peak, ..MemoryReading::default() };
            let mut notes = before.to_vec();
            qualify_by(&mut notes, &memory, marks);
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

    /// The threads of all processes together are known, or they are not.
    #[test]
    fn before_batches_of_cpus_threads_kept_pages_back() {
        let of_one = of_threads(1);
        assert_eq!([of_one, of_threads(0), of_threads(7)], [65 << 16, 65 << 16, 7 * of_one]);
        let notes_of = |rss_sum_peak, threads| {
            let memory = MemoryReading { rss_sum_peak, spaces_at_peak: 5, ..Default::default() };
            let mut notes = Vec::new();
            qualify_by(&mut notes, &memory, Marks::by_threads(threads));
            notes.retain(|note| note.metric == metric_name::memory_peak_rss_sum_bytes);
            notes
        };
        assert_eq!(notes_of(of_one * 300, Some(3)), []);
        let small = &notes_of(of_one * 299, Some(3))[0];
        assert!(small.reason.contains(&format!(" {} bytes", 3 * of_one)), "{}", small.reason);
        let unknown = &notes_of(u64::MAX, None)[0];
        assert!(unknown.reason.contains("threads there were is not known"), "{}", unknown.reason);
    }

    /// A container may show fewer online, and a CPU may have gone offline since.
    #[test]
    fn no_fewer_cpus_count_than_ever_took_part() {
        let allowed = std::thread::available_parallelism().expect("the CPUs of this thread").get();
        let present = host::cpus_present().expect("a list of CPUs");
        assert!(present as usize >= allowed && present >= host::cpus_online().expect("a list"));
    }
}
