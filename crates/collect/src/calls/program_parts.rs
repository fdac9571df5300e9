//! The parts of the kernel that a program is attached for.

use libbpf_rs::ProgramMut;

use weigh_schema::subsystem::Subsystem;

use super::program_names::{
    ALWAYS, INTERRUPTS, JOIN, LOOK, OWN, PAGES, UNDER_WAY, owners, root_of,
};

/// Stands for every client that asks for anything: the job's threads, and calls where they are followed. The
/// parts that others' time depends on come with it.
pub const ANYTHING: u64 = 1;

/// The bits of parts with these names.
pub(super) fn bits<'a>(names: impl IntoIterator<Item = &'a str>) -> u64 {
    let known = names.into_iter().filter_map(Subsystem::named).map(Subsystem::bit);
    known.fold(0, |set, bit| set | bit)
}

/// Whether a program tells of an end, of which it is no harm if the beginning was not seen.
pub(super) fn is_end(program: &str) -> bool {
    ["_end", "_exit"].iter().any(|end| root_of(program).ends_with(end))
}

pub(super) fn is_needed(program: &str) -> bool {
    owners(program).any(|of| ["member", "call", ALWAYS, INTERRUPTS].contains(&of))
}

/// The parts that a program is attached for, as bits; none if it is not, or was not loaded.
pub(super) fn parts_of(program: &ProgramMut<'_>, name: &str) -> u64 {
    if !program.autoload()
        || [JOIN, LOOK, PAGES, UNDER_WAY].contains(&name)
        || name.starts_with(OWN)
    {
        return 0;
    }
    let anything = owners(name).any(|of| matches!(of, "member" | "call"));
    bits(owners(name)) | if anything { ANYTHING } else { 0 }
}
