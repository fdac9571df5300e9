//! The programs that tell who had a CPU while threads of the job waited for it (`bpf/cpu_waits.h`).
//!
//! Attached on request only: each switch between threads of the machine pays for them. Emits nothing itself; refuses to
//! count with a part of the programs.

use libbpf_rs::Link;

use crate::clock::kernel_monotonic_ns;
use crate::layout::skeleton::{JobProgs, OpenJobSkel};
use crate::offers::Offers;
use crate::requirements;

/// Whether they are there, and if not, why.
pub(crate) struct WaitPrograms(Result<(), String>);

/// Tracepoints that they are attached to.
const TRACEPOINTS: [&str; 4] =
    ["sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task"];

impl WaitPrograms {
    /// Has them loaded, if they are wanted and the kernel has what they need.
    pub(crate) fn choose(
        is_wanted: bool,
        open: &mut OpenJobSkel<'_>,
        offers: &Offers,
    ) -> WaitPrograms {
        if !is_wanted {
            return WaitPrograms(Err("not asked for".to_string()));
        }
        if let Some(missing) = TRACEPOINTS.iter().find(|name| !offers.tracepoint(name)) {
            return WaitPrograms(Err(format!("this kernel has no tracepoint {missing}")));
        }
        if let Err(error) = open.maps.cpu_clocks.set_max_entries(requirements::possible_cpus()) {
            return WaitPrograms(Err(format!("a map for each CPU: {error}")));
        }
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            // The two lowest bits tell something else.
            constants.clocks_began = kernel_monotonic_ns() & !3;
        }
        let programs = &mut open.progs;
        for program in [
            &mut programs.on_switch,
            &mut programs.on_wakeup,
            &mut programs.on_wakeup_new,
            &mut programs.on_migrate,
        ] {
            program.set_autoload(true);
        }
        WaitPrograms(Ok(()))
    }

    /// Attaches what was loaded.
    pub(crate) fn attach(&mut self, programs: &JobProgs<'_>, links: &mut Vec<Link>) {
        if self.0.is_err() {
            return;
        }
        // The clocks first, then what reads them.
        for program in [
            &programs.on_switch,
            &programs.on_migrate,
            &programs.on_wakeup,
            &programs.on_wakeup_new,
        ] {
            match program.attach() {
                Ok(link) => links.push(link),
                Err(error) => {
                    self.0 = Err(format!("{}: {error}", program.name().to_string_lossy()));
                    return;
                }
            }
        }
    }

    pub(crate) fn is_attached(&self) -> Result<(), String> {
        self.0.clone()
    }
}
