//! What is attached, and how it changes: by its holder, which may be a thread of its own. A change of all parts
//! takes tens of milliseconds, and who has asked for it is not the only one who is served.
//!
//! Emits what came of a change. Where a program fails that nothing can do without, all stays as it was.

use std::collections::BTreeMap;
use std::io;

use libbpf_rs::Object;

use super::counting::CpuEvents;
use super::functions::OnRequest;
use super::link::{Link, Program};
use super::packet_demand::Demand;
use super::program_parts::{is_end, is_needed, parts_of};

/// What is to be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The parts, as bits.
    pub(super) parts: u64,
    /// Of the programs that packets pass.
    pub(super) packets: Demand,
    /// The counters that each CPU counts, as bits.
    pub(super) counted: u64,
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) plan: Plan,
    /// Nothing has changed, for a program failed that nothing can do without.
    pub(super) error: Option<io::Error>,
    /// The programs that could not be attached, and why.
    pub(super) failed: Vec<(String, String)>,
    /// The parts that are not attached after all, as bits.
    pub(super) lacking: u64,
    /// Why no CPU counts.
    pub(super) not_counted: Option<io::Error>,
}

struct Attachable {
    name: String,
    parts: u64,
    program: Program,
}

impl Attachable {
    fn is_of(&self, plan: &Plan) -> bool {
        self.parts & plan.parts != 0 && plan.packets.wants(&self.name)
    }
}

/// The programs, and those that are attached.
pub(super) struct Links {
    /// In the order in which they are attached.
    programs: Vec<Attachable>,
    by_program: BTreeMap<String, Link>,
    /// Of functions, that come and go with those who ask.
    pub(super) on_request: Option<OnRequest>,
    cpus: CpuEvents,
}

impl Links {
    /// Of programs that are loaded; none is attached.
    pub(super) fn of(object: &mut Object, cpus: CpuEvents) -> Links {
        let mut programs = Vec::new();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let parts = parts_of(&program, &name);
            if let Some(program) = Program::of(&program).filter(|_| parts != 0) {
                programs.push(Attachable { name, parts, program });
            }
        }
        // Somebody's interval is open meanwhile: a beginning that is seen while the end is not yet would last, and what
        // an interrupt that never ends is on top of is not accounted. They go in the order of their names: beginnings first.
        programs.sort_by_key(|program| !is_end(&program.name));
        Links { programs, by_program: BTreeMap::new(), on_request: None, cpus }
    }

    /// Attaches what is to be, and lets go of the rest. What has been attached goes on undisturbed.
    pub(super) fn change(&mut self, plan: Plan) -> Outcome {
        let mut outcome =
            Outcome { plan, error: None, failed: Vec::new(), lacking: 0, not_counted: None };
        let mut fresh = BTreeMap::new();
        for wanted in self.programs.iter().filter(|program| program.is_of(&plan)) {
            if self.by_program.contains_key(&wanted.name) {
                continue;
            }
            match wanted.program.attach() {
                Ok(link) => drop(fresh.insert(wanted.name.clone(), link)),
                Err(error) if is_needed(&wanted.name) => {
                    outcome.error = Some(error);
                    return outcome;
                }
                Err(error) => outcome.failed.push((wanted.name.clone(), error.to_string())),
            }
        }
        // Beginnings go before their ends, and of two programs at a tracepoint the later first: else the kernel waits
        // for a grace period.
        for program in self.programs.iter().rev().filter(|program| !program.is_of(&plan)) {
            self.by_program.remove(&program.name);
        }
        self.by_program.extend(fresh);
        if let Some(functions) = &mut self.on_request {
            // Nobody is told that what lacks a function is measured.
            outcome.lacking = functions.attach_only(plan.parts);
        }
        outcome.not_counted = self.cpus.attach_only(plan.counted).err();
        outcome
    }
}
