//! Which programs are to be loaded, by what is asked for and what this kernel offers.
//!
//! A program's name says whose it is (`part__what`, `one_and_other__what`) and, after `_before_`, for which
//! kernels. Emits what each part has, and what it lacks with the reason.

use std::collections::HashSet;

use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use super::functions::{Functions, function_probes};
use super::program_names::{
    ALWAYS, BACKLOG, INTERRUPTS, MANY, OWN, WITHOUT_INTERRUPTS, owners, root_of,
};
use super::request::{Attached, CallsRequest, Telling};
use crate::offers::Offers;

/// Tracepoints of file systems that most kernels have as modules: where they are not loaded, no file
/// is on them.
const OF_MODULES: [&str; 2] = ["f2fs", "xfs"];

/// Tell of all sockets, since 6.3.
const SOCKETS: [&str; 2] = ["sock_send_length", "sock_recv_length"];

/// Which programs are to be loaded, and what became of them.
pub(super) struct Chosen {
    pub(super) parts: Vec<Attached>,
    every_call: bool,
    rivals: bool,
    pub(super) functions: bool,
    /// Whether functions can be probed, once that has been asked.
    function_probes: Option<Result<(), String>>,
    many: bool,
    loaded: Vec<String>,
    lacking: Vec<(String, String)>,
}

impl Chosen {
    pub(super) fn of(wanted: &CallsRequest, telling: Telling, functions: &Functions) -> Chosen {
        let many = functions.many();
        let functions = !functions.is_empty() && function_probes().is_ok();
        let interrupts = functions
            || wanted.subsystems.iter().any(|part| !WITHOUT_INTERRUPTS.contains(&part.name));
        let is_wanted = |s: &&Subsystem| {
            s.name == ALWAYS
                || s.name == INTERRUPTS && interrupts
                || wanted.subsystems.iter().any(|w| w == s)
        };
        let part = |subsystem: &Subsystem| Attached {
            subsystem: subsystem.name.to_string(),
            probes: 0,
            functions: None,
            missing: Vec::new(),
        };
        let parts = SUBSYSTEMS.iter().skip(1).filter(is_wanted).map(part).collect();
        Chosen {
            parts,
            every_call: wanted.every_call,
            functions,
            function_probes: None,
            many,
            rivals: telling.rivals,
            loaded: Vec::new(),
            lacking: Vec::new(),
        }
    }

    /// The parts that are asked for of those that a program is of.
    fn parts(&mut self, program: &str) -> impl Iterator<Item = &mut Attached> {
        let names: Vec<String> = owners(program).map(String::from).collect();
        self.parts.iter_mut().filter(move |part| names.contains(&part.subsystem))
    }

    /// Whether a program is to be loaded; one whose tracepoint this kernel lacks is noted.
    pub(super) fn decide(&mut self, program: &str, section: &str, offers: &Offers<'_>) -> bool {
        if program.starts_with("member__") {
            return true;
        }
        if program.starts_with("call__") {
            return self.every_call;
        }
        if program == BACKLOG {
            return self.follows("tcp");
        }
        if program.starts_with(OWN) {
            return self.functions && (self.many || !program.ends_with(MANY));
        }
        if self.parts(program).next().is_none() || (program.contains("__rival_") && !self.rivals) {
            return false;
        }
        let (kind, tracepoint) = section.rsplit_once('/').unwrap_or_default();
        if kind.ends_with("fexit") {
            // Only what comes through sockets is seen by functions, and only for want of tracepoints.
            let is_loaded = !offers.tracepoint(SOCKETS[0])
                && self.function_probes(offers).is_ok()
                && offers.function(tracepoint);
            if is_loaded {
                self.loaded.push(program.to_string());
            }
            return is_loaded;
        }
        let mut modules = OF_MODULES.iter();
        let module = modules.find(|m| tracepoint.split_once('_').is_some_and(|(of, _)| of == **m));
        let in_module =
            || module.and_then(|module| offers.tracepoint_of_module(module, tracepoint));
        let reaches = if offers.tracepoint(tracepoint) { Some(true) } else { in_module() };
        let mut reason = match (reaches, module) {
            (Some(true), _) => {
                self.loaded.push(program.to_string());
                return true;
            }
            (Some(false), Some(module)) => {
                format!(
                    "{tracepoint} of the module {module} takes CAP_SYS_ADMIN, without which whole folios of \
                     its files count as written"
                )
            }
            (_, Some(_)) => return false,
            (_, None) => format!("this kernel has no tracepoint {tracepoint}"),
        };
        if SOCKETS.contains(&tracepoint)
            && let Err(refused) = self.function_probes(offers)
        {
            reason.push_str(&format!(" (since 6.3), and {refused}"));
        }
        self.lacking.push((program.to_string(), reason));
        false
    }

    /// Whether a program is to be loaded, now that all were decided on.
    pub(super) fn has(&self, program: &str) -> bool {
        self.loaded.iter().any(|loaded| loaded == program)
    }

    /// Whether functions can be probed here; asked once.
    fn function_probes(&mut self, offers: &Offers<'_>) -> Result<(), String> {
        self.function_probes.get_or_insert_with(|| offers.function_probes()).clone()
    }

    /// Whether a part is asked for.
    pub(super) fn follows(&self, subsystem: &str) -> bool {
        self.parts.iter().any(|part| part.subsystem == subsystem)
    }

    pub(super) fn bits(&self) -> u64 {
        let known = |part: &Attached| Subsystem::named(&part.subsystem).map_or(0, Subsystem::bit);
        self.parts.iter().map(known).sum::<u64>() | SUBSYSTEMS[0].bit()
    }

    pub(super) fn attached(mut self) -> Vec<Attached> {
        for program in std::mem::take(&mut self.loaded) {
            // Of the programs for different kernels one is enough.
            let twin = |other: &str| root_of(other) == root_of(&program);
            self.lacking.retain(|(lacking, _)| !twin(lacking));
            for part in self.parts(&program) {
                part.probes += 1;
            }
        }
        let mut twins = HashSet::new();
        for (program, reason) in std::mem::take(&mut self.lacking) {
            if twins.insert(root_of(&program).to_string()) {
                for part in self.parts(&program) {
                    part.missing.push(reason.clone());
                }
            }
        }
        self.parts
    }
}
