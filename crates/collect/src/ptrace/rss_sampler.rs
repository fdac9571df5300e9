//! Looks at the memory of living processes, more often while it grows.
//!
//! Reads `/proc/PID/status`; emits sums of what was seen at one moment. Takes at most a hundredth
//! of a CPU. What comes and goes between two looks is not seen, but for each process's own
//! high-water mark.

use std::time::{Duration, Instant};

use weigh_schema::event::{MemoryParts, MemoryReading};

use super::files::Files;
use super::job::Job;
use super::tracer::Shared;
use crate::procfs::Status;
use crate::spaces;

/// The times between two looks, at least and at most.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// A look that took t is followed by none for this many t.
const PAUSE_PER_LOOK: u32 = 100;

/// Growth between two looks that asks for more of them.
const GROWN: f64 = 1.02;

/// Makes looks and keeps the greatest sums.
pub struct RssSampler {
    /// Sums now, and the greatest so far.
    pub memory: MemoryReading,
    next: Instant,
    pause: Duration,
}

impl RssSampler {
    /// The first one comes soon.
    pub fn new() -> RssSampler {
        RssSampler {
            memory: MemoryReading::default(),
            next: Instant::now() + BETWEEN.0,
            pause: BETWEEN.0,
        }
    }

    /// When the next one is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Looks at all living processes.
    pub fn look(&mut self, shared: &Shared, files: &mut Files) {
        let begun = Instant::now();
        let living: Vec<(u32, u64)> =
            shared.job().processes.values().map(|p| (p.pid, p.space)).collect();
        // Read without the lock: the tracer must not wait.
        let seen: Vec<_> = living.iter().map(|(pid, _)| memory_of(files, *pid)).collect();
        let mut job = shared.job();
        for ((pid, space), status) in living.iter().zip(&seen) {
            // One that has the same address space still was there all the time, and executed nothing meanwhile.
            if let Some(process) = job.processes.get_mut(pid).filter(|p| p.space == *space)
                && let Some(status) = status
            {
                process.memory.see(status);
                process.uid = status.uid;
            }
        }
        let before = self.memory.rss_sum;
        self.sum_up(&job);
        drop(job);
        let is_growing = self.memory.rss_sum as f64 > before as f64 * GROWN;
        self.pause = if is_growing { BETWEEN.0 } else { (self.pause * 2).min(BETWEEN.1) };
        let ended = Instant::now();
        self.next = ended + self.pause.max((ended - begun) * PAUSE_PER_LOOK);
    }

    fn sum_up(&mut self, job: &Job) {
        let mut sums = MemoryReading::default();
        let (mut parts, mut common) = (MemoryParts::default(), 0);
        // Before its exec the first one is but a copy of weigh.
        for process in job.processes.values().filter(|p| p.pid != job.main || p.execs > 0) {
            let memory = &process.memory;
            if memory.is_shared {
                continue;
            }
            let mapped = memory.resident.saturating_sub(memory.anonymous);
            sums.spaces += 1;
            sums.virtual_size += memory.size;
            sums.swap += memory.swap;
            sums.hugetlb_peak += memory.hugetlb;
            sums.rss_sum += memory.resident;
            sums.floor = sums.floor.max(memory.resident);
            parts.anonymous += memory.anonymous;
            parts.unshared += memory.anonymous.saturating_sub(memory.anonymous_at_birth);
            parts.shared += memory.shared.min(mapped);
            parts.file += mapped.saturating_sub(memory.shared);
            common = common.max(mapped);
        }
        // Pages are shared through a file, shared memory or a fork only: leave these out, or count
        // them once.
        sums.floor = sums.floor.max(parts.unshared + common).min(sums.rss_sum);
        let known = &mut self.memory;
        (known.rss_sum, known.floor, known.spaces) = (sums.rss_sum, sums.floor, sums.spaces);
        (known.swap, known.virtual_size) = (sums.swap, sums.virtual_size);
        if sums.rss_sum > known.rss_sum_peak {
            (known.rss_sum_peak, known.rss_sum_peak_at_ns) = (sums.rss_sum, job.now_ns());
            (known.spaces_at_peak, known.parts_at_peak) = (sums.spaces, Some(parts));
        }
        known.hugetlb_peak = known.hugetlb_peak.max(sums.hugetlb_peak);
        known.floor_peak = known.floor_peak.max(sums.floor);
        known.swap_peak = known.swap_peak.max(sums.swap);
        known.virtual_peak = known.virtual_peak.max(sums.virtual_size);
    }
}

/// The status of a process, by a thread that has memory: its first one may have ended before others.
fn memory_of(files: &mut Files, pid: u32) -> Option<Status> {
    let status = files.status_of(pid)?;
    if status.rss_bytes.is_some() {
        return Some(status);
    }
    let tid = spaces::thread_with_memory(pid);
    if tid == pid { Some(status) } else { files.status_of(tid) }
}
