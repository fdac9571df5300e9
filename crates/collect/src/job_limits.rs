//! Holds a job that the kernel follows to its limits: writes them where the programs of `bpf/job.bpf.c` check them.

use libbpf_rs::{MapCore as _, MapFlags};
use weigh_schema::limit::OnLimit;
use weigh_schema::metric_name;
use weigh_schema::record::Limited;

use crate::follow::{Enforcement, MechanismError, MemoryBound};
use crate::job::{JobError, KernelJob, SLOT, bpf};
use crate::layout::{self, skeleton::types};

/// Limits that a fork can cross.
const OF_FORKS: [&str; 3] =
    [metric_name::processes_total, metric_name::processes_peak, metric_name::threads_peak];

impl KernelJob {
    fn write_control(&self) -> Result<(), JobError> {
        let control = layout::bytes_of(&self.control);
        let controls = &self.skeleton.maps.controls;
        controls.update(&SLOT, control, MapFlags::ANY).map_err(bpf("writing the limits"))
    }

    /// From now on limits of I/O are checked at the end of each call, if that was wanted and works.
    fn check_calls(&mut self) -> bool {
        let program = &self.skeleton.progs.on_call_end;
        if !self.checks_calls && program.autoload() {
            let link = program.attach();
            self.checks_calls = link.is_ok();
            self.links.extend(link);
        }
        self.checks_calls
    }

    /// From now on forks of the job that a limit forbids do not begin, on a kernel that cannot stop
    /// a child before its first instruction. It slows every call on the machine a little: only
    /// where the user has set such a limit, or a job is being killed.
    fn hold_forks(&mut self) {
        let program = &self.skeleton.progs.on_call;
        if !self.holds_forks && program.autoload() {
            self.links.extend(program.attach());
            self.holds_forks = true;
        }
    }
}

impl Enforcement for KernelJob {
    fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        on_limit: OnLimit,
    ) -> Result<Vec<String>, MechanismError> {
        let mut taken = Vec::new();
        self.control.hold = match on_limit {
            OnLimit::Warn => types::hold::HOLD_NOT,
            OnLimit::Stop => types::hold::HOLD_STOP,
            OnLimit::Kill => types::hold::HOLD_KILL,
        };
        for (metric, limit, warning) in limits {
            if let Some(limited) = Limited::of_metric(metric) {
                if limited.is_of_calls() && !(on_limit != OnLimit::Warn && self.check_calls()) {
                    continue;
                }
                let index = limited as usize;
                self.control.limits[index] = (*limit as u64).max(1);
                self.control.warnings[index] = *warning as u64;
                taken.push((*metric).to_string());
            }
        }
        self.write_control()?;
        let limits_forks = taken.iter().any(|metric| OF_FORKS.contains(&metric.as_str()));
        if limits_forks && on_limit != OnLimit::Warn {
            self.hold_forks();
        }
        Ok(taken)
    }

    fn release(&mut self) -> Result<(), MechanismError> {
        self.control.hold = types::hold::HOLD_NOT;
        Ok(self.write_control()?)
    }

    fn set_ending(&mut self) -> Result<(), MechanismError> {
        self.control.phase = types::phase::PHASE_ENDING;
        Ok(self.write_control()?)
    }

    fn set_killing(&mut self) -> Result<(), MechanismError> {
        self.hold_forks();
        self.control.phase = types::phase::PHASE_KILLING;
        Ok(self.write_control()?)
    }
}

impl MemoryBound for KernelJob {
    fn departures(&self) -> u64 {
        self.raw_job().departures
    }

    fn set_unseen(&mut self, bytes: u64, departures: u64) -> Result<(), MechanismError> {
        if departures != self.departures() {
            return Ok(());
        }
        (self.control.unseen, self.control.departures) = (bytes, departures);
        Ok(self.write_control()?)
    }
}
