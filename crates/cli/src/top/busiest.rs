//! What the jobs of a report are busy with, by the journals that their `weigh run` has open.

use std::time::Duration;

use weigh_collect::process_detail::recording_folder;
use weigh_schema::top::{TopJobKind, TopReport};
use weigh_web::BusyJobs;

/// The journals, each read once: where one look has ended the next one goes on.
#[derive(Default)]
pub struct BusiestReader {
    jobs: BusyJobs,
}

impl BusiestReader {
    /// Completes a report: by all of its jobs, or by the one with that PID. Reads for so long at most.
    pub fn complete(&mut self, report: &mut TopReport, only: Option<u32>, patience: Duration) {
        let jobs = report.jobs.iter().filter(|job| job.kind == TopJobKind::Weigh);
        let pids = jobs.map(|job| job.pid);
        let recordings = pids.filter_map(|pid| Some((pid, recording_folder(pid)?))).collect();
        report.busiest = Some(Box::new(self.jobs.look(&recordings, only, patience)));
    }

    /// Nobody looks for now.
    pub fn rest(&mut self) {
        self.jobs.rest();
    }
}
