//! What is attached to the kernel, part by part: all programs are loaded once, and their links come
//! and go with those who ask.
//!
//! Loading makes the kernel verify every program, which takes seconds; attaching takes a fifth of a
//! millisecond for each (`tests/attaching.rs` measures both), and what is loaded and not attached costs
//! nobody any time.

use std::collections::BTreeMap;
use std::time::Instant;

use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, ProgramMut};
use weigh_schema::subsystem::{CpuCounter, SUBSYSTEMS, Subsystem};

use super::KernelCalls;
use super::choosing::{
    ALWAYS, INTERRUPTS, JOIN, LOOK, OWN, PAGES, UNDER_WAY, WITHOUT_INTERRUPTS, owners, root_of,
};
use super::functions::let_go;
use crate::job::{JobError, bpf};

/// Stands for whoever asks for anything: the job's threads, and calls where they are followed. The
/// parts that others' time depends on come with it.
pub const ANYTHING: u64 = 1;

const TCP: &str = "tcp";

/// The parts that no configuration has defined.
const BUILT_IN: u64 = (1 << SUBSYSTEMS.len()) - 1;

/// The programs that are attached.
#[derive(Default)]
pub(super) struct Links {
    by_program: BTreeMap<String, Link>,
    pub(super) parts: u64,
}

impl KernelCalls {
    /// Attaches these parts of those that were chosen, and lets go of the others; what this side holds
    /// by itself stays. What has been attached goes on undisturbed.
    pub fn attach_only(&mut self, parts: u64) -> Result<(), JobError> {
        // A program of several parts is not attached for one that it was not loaded for.
        let target = with_always(
            (parts | self.held) & (self.chosen_parts() | ANYTHING | CpuCounter::bits()),
        );
        if target & !self.links.parts & bits([TCP]) != 0 {
            self.forget_senders();
        }
        let mut links = std::mem::take(&mut self.links.by_program);
        let mut failed: Vec<(String, String)> = Vec::new();
        let mut programs: Vec<(String, ProgramMut<'_>)> = self
            .skeleton
            .object_mut()
            .progs_mut()
            .map(|program| (program.name().to_string_lossy().into_owned(), program))
            .collect();
        // Somebody's interval is open meanwhile: a beginning that is seen while the end is not yet would last, and what
        // an interrupt that never ends is on top of is not accounted. They go in the order of their names: beginnings first.
        programs.sort_by_key(|(name, _)| !is_end(name));
        for (name, program) in programs {
            if parts_of(&program, &name) & target == 0 || !self.standby.wants(&name) {
                continue;
            }
            let link = match links.remove(&name) {
                Some(link) => Ok(link),
                None => program.attach(),
            };
            match link {
                Ok(link) => drop(self.links.by_program.insert(name, link)),
                Err(error) if is_needed(&name) => {
                    self.links = Links::default();
                    return Err(bpf("attach")(error));
                }
                Err(error) => failed.push((name, error.to_string())),
            }
        }
        let lacking = match &mut self.on_request {
            // Nobody is told that what lacks a function is measured.
            Some(functions) => functions.attach_only(target, &self.skeleton)?,
            None => 0,
        };
        let counted = if self.follows_calls() { target } else { 0 };
        self.counting.attach_only(counted, self.skeleton.object());
        self.links.parts = target & !lacking;
        failed.into_iter().for_each(|(program, reason)| self.lacks(&program, reason));
        Ok(())
    }

    /// Sockets that went while nobody looked still have their places. Nothing of theirs is under way: the part would
    /// not have been let go of.
    fn forget_senders(&mut self) {
        if let Some(variables) = self.skeleton.maps.bss_data.as_deref_mut() {
            variables.sender_cookies.fill(0);
            variables.sender_layers = 0;
        }
    }

    /// What stays attached, whoever else asks for what; from the next time on.
    pub fn hold(&mut self, parts: u64) {
        self.held = parts;
    }

    /// What this side holds.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Stops following: what is in the table stays readable.
    pub fn detach(&mut self) {
        self.held = 0;
        self.links = Links::default();
        self.counting.attach_only(0, self.skeleton.object());
        let began = Instant::now();
        let_go(&mut self.functions);
        if let Some(functions) = &mut self.function_probes {
            functions.detach_seconds = began.elapsed().as_secs_f64();
        }
    }

    /// The parts that are attached now, as bits.
    pub fn attached_parts(&self) -> u64 {
        self.links.parts & self.available_parts()
    }

    /// The functions are attached, and stay so.
    pub(super) fn took_functions(&mut self) {
        self.links.parts |= self.chosen_parts() & !BUILT_IN;
    }

    /// The parts that programs were loaded for, as bits.
    fn chosen_parts(&self) -> u64 {
        self.attached.iter().fold(0, |set, part| set | self.bit(&part.subsystem))
    }

    /// The bit of a part, built in or a configuration's.
    fn bit(&self, name: &str) -> u64 {
        let own = || self.own.as_deref()?.iter().position(|part| part.name == name);
        match Subsystem::named(name) {
            Some(part) => part.bit(),
            None => own().map_or(0, |place| 1 << (SUBSYSTEMS.len() + place)),
        }
    }

    /// The parts and counters that can be seen here, as bits. The remainder is one where the ends of
    /// calls are known.
    pub fn available_parts(&self) -> u64 {
        let seen = self.attached.iter().filter(|part| part.probes > 0);
        let seen = seen.fold(0, |set, part| set | self.bit(&part.subsystem));
        // What was attached for as long as calls were followed does not come back.
        let has_functions = self.on_request.is_some() || !self.functions.is_empty();
        let seen = if has_functions { seen } else { seen & BUILT_IN };
        u64::from(self.follows_calls()) | seen | self.counting.available()
    }

    /// A program could not be attached: of those for different kernels one is enough.
    fn lacks(&mut self, program: &str, reason: String) {
        let is_twin = |other: &str| other != program && root_of(other) == root_of(program);
        let mut loaded = self.skeleton.object().progs().filter(|p| p.autoload());
        let has_twin = loaded.any(|p| is_twin(&p.name().to_string_lossy()));
        for part in owners(program) {
            if let Some(part) = self.attached.iter_mut().find(|known| known.subsystem == part)
                && !part.missing.contains(&reason)
            {
                part.probes = part.probes.saturating_sub(1);
                if !has_twin {
                    part.missing.push(reason.clone());
                }
            }
        }
    }
}

/// The bits of parts with these names.
fn bits<'a>(names: impl IntoIterator<Item = &'a str>) -> u64 {
    let known = names.into_iter().filter_map(Subsystem::named).map(Subsystem::bit);
    known.fold(0, |set, bit| set | bit)
}

/// With what has to be there for the times of these parts to be right.
fn with_always(parts: u64) -> u64 {
    let plain = bits(WITHOUT_INTERRUPTS) | ANYTHING | CpuCounter::bits();
    let interrupts = match parts & !plain {
        0 => 0,
        _ => bits([INTERRUPTS]),
    };
    if parts == 0 { 0 } else { parts | ANYTHING | bits([ALWAYS]) | interrupts }
}

/// Whether a program tells of an end, of which it is no harm if the beginning was not seen.
fn is_end(program: &str) -> bool {
    ["_end", "_exit"].iter().any(|end| root_of(program).ends_with(end))
}

fn is_needed(program: &str) -> bool {
    owners(program).any(|of| ["member", "call", ALWAYS, INTERRUPTS].contains(&of))
}

/// The parts that a program is attached for, as bits; none if it is not, or was not loaded.
fn parts_of(program: &ProgramMut<'_>, name: &str) -> u64 {
    if !program.autoload()
        || [JOIN, LOOK, PAGES, UNDER_WAY].contains(&name)
        || name.starts_with(OWN)
    {
        return 0;
    }
    let anything = owners(name).any(|of| matches!(of, "member" | "call"));
    bits(owners(name)) | if anything { ANYTHING } else { 0 }
}
