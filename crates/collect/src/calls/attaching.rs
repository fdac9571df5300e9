//! What is attached to the kernel, part by part: all programs are loaded once, and their links come
//! and go with those who ask.
//!
//! Loading makes the kernel verify every program, which takes seconds; attaching takes a fifth of a
//! millisecond for each (`tests/attaching.rs` measures both), and what is loaded and not attached costs
//! nobody any time.

use std::collections::BTreeMap;

use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, ProgramMut};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use super::{ALWAYS, JOIN, KernelCalls, OWN, root_of};
use crate::job::{JobError, bpf};

/// Stands for whoever asks for anything: the job's threads, and calls where they are followed. The
/// parts that others' time depends on come with it.
pub const ANYTHING: u64 = 1;

/// The links of each part that is attached, by its number.
#[derive(Default)]
pub(super) struct Links(BTreeMap<usize, Vec<Link>>);

impl Links {
    fn parts(&self) -> u64 {
        self.0.keys().map(|number| 1 << number).fold(0, |set, bit: u64| set | bit)
    }
}

impl KernelCalls {
    /// Attaches these parts of those that were chosen, and lets go of the others; what this side holds
    /// by itself stays. What has been attached goes on undisturbed.
    pub fn attach_only(&mut self, parts: u64) -> Result<(), JobError> {
        let target = with_always(parts | self.held);
        let before = self.links.parts();
        let mut failed: Vec<(String, String)> = Vec::new();
        for program in self.skeleton.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let Some(number) = part_of(&program, &name) else { continue };
            if (target & !before) >> number & 1 == 0 {
                continue;
            }
            let links = self.links.0.entry(number).or_default();
            match program.attach() {
                Ok(link) => links.push(link),
                Err(error) if is_needed(&name) => {
                    self.links.0.retain(|number, _| before >> number & 1 == 1);
                    return Err(bpf("attach")(error));
                }
                Err(error) => failed.push((name, error.to_string())),
            }
        }
        self.links.0.retain(|number, _| target >> number & 1 == 1);
        failed.into_iter().for_each(|(program, reason)| self.lacks(&program, reason));
        Ok(())
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
        self.links.0.clear();
        self.functions.clear();
    }

    /// The parts that are attached now, as bits.
    pub fn attached_parts(&self) -> u64 {
        self.links.parts() & self.available_parts()
    }

    /// The parts that can be seen here, as bits. The remainder is one where the ends of calls are
    /// known.
    pub fn available_parts(&self) -> u64 {
        let seen = self.attached.iter().filter(|part| part.probes > 0);
        let seen = seen.filter_map(|part| Subsystem::named(&part.subsystem)).map(Subsystem::bit);
        seen.fold(u64::from(self.follows_calls()), |set, bit| set | bit)
    }

    /// A program could not be attached: of those for different kernels one is enough.
    fn lacks(&mut self, program: &str, reason: String) {
        let is_twin = |other: &str| other != program && root_of(other) == root_of(program);
        let mut loaded = self.skeleton.object().progs().filter(|p| p.autoload());
        let has_twin = loaded.any(|p| is_twin(&p.name().to_string_lossy()));
        let Some((part, _)) = program.split_once("__") else { return };
        if let Some(part) = self.attached.iter_mut().find(|known| known.subsystem == part)
            && !part.missing.contains(&reason)
        {
            part.probes = part.probes.saturating_sub(1);
            if !has_twin {
                part.missing.push(reason);
            }
        }
    }
}

fn with_always(parts: u64) -> u64 {
    let always = || ALWAYS.iter().filter_map(|name| Subsystem::named(name)).map(Subsystem::bit);
    if parts == 0 { 0 } else { always().fold(parts | ANYTHING, |set, bit| set | bit) }
}

fn is_needed(program: &str) -> bool {
    let first = program.split("__").next().unwrap_or_default();
    matches!(first, "member" | "call") || ALWAYS.contains(&first)
}

/// The number of the part that a program is attached for; none if it is not, or was not loaded.
fn part_of(program: &ProgramMut<'_>, name: &str) -> Option<usize> {
    if !program.autoload() || name == JOIN || name.starts_with(OWN) {
        return None;
    }
    let first = name.split("__").next()?;
    let known = SUBSYSTEMS.iter().position(|subsystem| subsystem.name == first);
    known.or_else(|| matches!(first, "member" | "call").then_some(0))
}
