//! A process that ran before weigh, and may go on after it.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use weigh_schema::Value;
use weigh_schema::event::ProcessEnd;

use super::run_source::RunSource;
use crate::products::run::settings::WaitFor;

impl RunSource<'_> {
    /// Nobody but the kernel tells weigh how a process has ended that is no child of it.
    pub(super) fn note_joined_end(&mut self, process: &ProcessEnd) {
        if self.settings.pid == Some(process.pid) && self.joined_status.is_none() {
            let status = process.wait_status.map(u32::cast_signed);
            self.joined_status = status.map(ExitStatus::from_raw);
        }
    }

    pub(super) fn joined_has_ended(&self) -> bool {
        let is_enough = self.settings.wait_for == WaitFor::Main && !self.enforcer.is_ending();
        is_enough && self.joined_status.is_some() || self.job.glance().population.processes == 0
    }

    /// Not while a limit ends the job: that is weigh's to do, and soon done.
    pub(super) fn may_leave_joined(&self) -> bool {
        self.settings.pid.is_some() && !self.enforcer.is_ending()
    }
}

/// What was used before is in no value.
pub(super) fn qualify(metrics: &mut BTreeMap<String, Value>, pid: u32) {
    let watched = format!("of the time watched: process {pid} ran before");
    for value in metrics.values_mut().filter(|value| value.value.is_some()) {
        value.reason = Some(match value.reason.take() {
            Some(before) => format!("{before}; {watched}"),
            None => watched.clone(),
        });
    }
}
