//! What an analysis says: numbers, names, and the probes of each part of the kernel.
//!
//! It can be kept as JSON and read again. [`VERSION`] changes whenever the same kernel would give
//! another analysis.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::source_files::Placed;

/// Of what is kept.
pub const VERSION: u32 = 2;

/// The analysis of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// [`VERSION`] when it was made.
    pub version: u32,
    /// What the image says it is.
    pub kernel: String,
    /// The image's build id, in hexadecimal.
    pub build_id: Option<String>,
    /// Where the names are from.
    pub symbols: Source,
    /// How the functions' source files are known.
    pub placed: Placed,
    /// What was read of the code.
    pub code: Counts,
    /// The system calls from which all begins, without `__x64_sys_`; empty: all of them.
    pub wanted: Vec<String>,
    /// The parts that are told apart; empty: all of them.
    pub told_apart: Vec<String>,
    /// By the number of a system call, the part that its own code is of.
    pub calls: BTreeMap<u32, String>,
    /// How many functions these are.
    pub entries: usize,
    /// How many functions can be reached from them.
    pub reached: usize,
    /// Tables of operations in the image.
    pub tables: usize,
    /// By what it is known which functions can be probed.
    pub allowed_by: Vec<Evidence>,
    /// The parts of the kernel that are reached, in the order of their declaration.
    pub subsystems: Vec<SubsystemBorder>,
}

/// Where names are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A list that was given: `/proc/kallsyms`, a `System.map`.
    List,
    /// The image's ELF symbols.
    Elf,
    /// What the image holds for its own `/proc/kallsyms`.
    Embedded,
}

/// How much code there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Functions.
    pub functions: usize,
    /// Instructions.
    pub instructions: u64,
    /// Direct calls.
    pub calls: u64,
    /// Jumps to the beginning of another function.
    pub tail_jumps: u64,
    /// Calls and jumps by pointer, which lead to where the code does not say.
    pub by_pointer: u64,
}

/// What says whether a function can be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// How the function begins.
    Code,
    /// The kernel's type information.
    Btf,
    /// `available_filter_functions`.
    Tracefs,
}

/// A part of the kernel, and what is called across its border.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsystemBorder {
    /// Its name.
    pub name: String,
    /// What it does.
    pub what: String,
    /// Functions that belong to it.
    pub functions: usize,
    /// Of these, those that can be reached.
    pub reached: usize,
    /// Places in other parts that call it.
    pub sites: usize,
    /// Functions of it that are called from other parts.
    pub callees: usize,
    /// Of these, those that only tables of operations name.
    pub by_table_only: usize,
    /// Of these, those that are over before a probe would be.
    pub small: usize,
    /// Of these, those that are left to the probe of one that they call.
    pub wrappers: usize,
    /// Where the calls come from, most places first.
    pub callers: Vec<Caller>,
    /// What has to be probed, most places first.
    pub probes: Vec<Probe>,
}

impl SubsystemBorder {
    /// How many of its probes the kernel allows so.
    pub fn allowed(&self, how: Allowed) -> usize {
        self.probes.iter().filter(|probe| probe.allowed == how).count()
    }
}

/// A part that calls another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Its name.
    pub subsystem: String,
    /// From how many places.
    pub sites: usize,
}

/// A function whose entry and return have to be probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Its name.
    pub function: String,
    /// Its source file or folder.
    pub path: Option<String>,
    /// Places in other parts that call it.
    pub sites: usize,
    /// The parts that call it, directly or by pointer.
    pub callers: Vec<String>,
    /// Whether it is called by pointer, from a table of operations.
    pub by_table: bool,
    /// Whether the kernel lets it be probed.
    pub allowed: Allowed,
}

/// How the kernel lets a function be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// By fentry and fexit, by its name.
    Fentry,
    /// By a kprobe at its address: its type is not known, its name is that of several, or there is
    /// no place for ftrace at its beginning.
    Kprobe,
    /// Not at all.
    No,
}
