//! Weigh's own CPU time is nearly used up, by a limit that was meant for the job: nothing is measured any more, and the
//! command is waited for.
//!
//! Reads signals and the command's end alone; emits what every value has to say of it.

use std::collections::BTreeMap;

use weigh_account::Tick;
use weigh_collect::notice;
use weigh_schema::event::CollectorStatus;
use weigh_schema::{Mechanism, Quality, Value, metric, metric_name};

use super::run_source::RunSource;
use crate::command::{Command, why_measuring_stopped};
use crate::engine::Session;
use crate::products::run::collectors::Findings;

/// The metric that needs no measuring.
const WALL: &str = metric_name::wall_seconds;

/// What was known when measuring stopped, if it has.
#[derive(Default)]
pub(in crate::products::run) struct Cutoff {
    because: Option<String>,
    pub findings: Findings,
    pub statuses: Vec<CollectorStatus>,
}

impl RunSource<'_> {
    /// Not while a limit ends the job: that is weigh's to do, and soon done. A filter of calls needs its tracer.
    pub(super) fn may_let_go(&self, command: &Command) -> bool {
        command.status().is_none()
            && !self.enforcer.is_ending()
            && self.job.command_setup().filter.is_none()
    }

    /// Lets go of the job, and waits for the command.
    pub(super) fn let_go(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let because = why_measuring_stopped();
        notice!("{because}; the command goes on");
        let at = self.begun.elapsed().as_secs_f64();
        self.cutoff.because = Some(format!("{because}, {at:.1} s after the start"));
        self.sample(Tick::Window)?;
        for other in self.others.drain(..) {
            let status = other.collector.finish(&mut self.cutoff.findings, &mut self.recorder);
            self.cutoff.statuses.push(status);
        }
        if let Some(enforcement) = self.job.enforcement() {
            // A mechanism that has gone stops no process.
            let _ = enforcement.release();
        }
        if let Some(children) = self.job.children() {
            children.let_go();
        }
        weigh_collect::rusage::leave_orphans();
        // A tracer waits for children no longer.
        session.command.wait_for_children_again()?;
        session.command.see_to_its_end(&|pid| self.job.living().iter().any(|p| p.pid == pid))?;
        Ok(())
    }
}

impl Cutoff {
    /// What the kernel side counts goes on by itself; all else was known until then.
    pub fn qualify(&self, metrics: &mut BTreeMap<String, Value>) {
        let Some(because) = &self.because else { return };
        let until_then = |name: &str, value: &Value| {
            name != WALL && metric(name).is_some() && value.source != Mechanism::Bpf
        };
        let cut = metrics.iter_mut().filter(|(name, value)| until_then(name, value));
        for (_, value) in cut.filter(|(_, value)| value.value.is_some()) {
            if value.quality == Quality::Exact {
                value.quality = Quality::Estimated;
            }
            value.reason = Some(match value.reason.take() {
                Some(before) => format!("{before}; {because}"),
                None => because.clone(),
            });
        }
    }
}
