//! When pages are looked at: at new peaks, and where a limit is near.
//!
//! Reads the job's sums; emits looks into the recording, and holds limits to what they have found.

use weigh_account::Crossed;
use weigh_schema::Mechanism;
use weigh_schema::event::{JobReading, SharedMemoryReading};
use weigh_schema::metric_name;

use super::run_source::RunSource;
use crate::products::run::page_scan::at_one_moment;
use crate::products::run::settings::Collector;

impl RunSource<'_> {
    /// Without the kernel nobody tells of a new peak that may be shared memory counted twice.
    pub(super) fn notice_peaks(&mut self) {
        if self.job.mechanism() != Mechanism::Bpf && self.settings.wants(Collector::Pages) {
            let memory = self.job.glance().memory;
            self.page_scan.notice(memory.rss_sum_peak, memory.floor_peak);
        }
    }

    pub(super) fn look_at_pages(&mut self) {
        if self.page_scan.next().is_none() {
            return;
        }
        let departures = self.job.memory_bound().map_or(0, |bound| bound.departures());
        let before = self.job.glance();
        let living = || self.job.living().iter().map(|p| p.pid).collect();
        if let Some(reading) = self.page_scan.look(&before, &living) {
            self.looked(&before, departures, reading);
        }
    }

    /// What a look has found is recorded, and limits are held to it from now on.
    fn looked(&mut self, before: &JobReading, departures: u64, reading: SharedMemoryReading) {
        let reading = at_one_moment(reading, &self.job.glance());
        // Growth while the pages were looked at is in both of its sums.
        let twice = reading.rss_sum_bytes.saturating_sub(reading.union_bytes);
        let apart = before.memory.rss_sum.saturating_sub(before.memory.floor);
        if let Some(bound) = self.job.memory_bound() {
            // If it cannot be set the kernel side holds to its lower bound, as before.
            let _ = bound.set_unseen(apart.saturating_sub(twice), departures);
        }
        // It may have told of a crossing meanwhile, and of the process at that very point.
        self.events();
        let crossed = Crossed {
            metric: metric_name::memory_peak_bytes,
            observed: reading.certain_bytes.unwrap_or(reading.union_bytes) as f64,
            fully: true,
        };
        if self.enforcer.is_new(&crossed) {
            self.enforcer.found_by_look(&crossed, reading.at_ns, &mut *self.job);
            self.page_scan.limit_is_crossed();
        }
        self.recorder.look(reading);
    }

    pub(super) fn look_at_what_is_held(&mut self) {
        if !self.settings.wants(Collector::Pages) {
            return;
        }
        let living: Vec<u32> = self.job.living().iter().map(|p| p.pid).collect();
        if let Some(reading) = self.page_scan.look_now(&self.job.glance(), &living) {
            self.recorder.look(at_one_moment(reading, &self.job.glance()));
        }
    }
}
