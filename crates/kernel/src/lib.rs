//! Static analysis of a kernel: its parts, where calls cross from one to another, and the fewest
//! probes that see this.
//!
//! Bytes in, [`Analysis`] out: reads an image (`vmlinuz` or `vmlinux`) and, where they are given, a
//! list of symbols, type information, and the functions that ftrace offers; opens nothing itself.
//! Refuses what each module below says it refuses. docs/kernel.md says what it is for and what it
//! cannot see.

#![cfg_attr(test, allow(clippy::expect_used, clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod analysis;
mod boundaries;
mod choice;
mod code;
mod elf;
mod image;
#[cfg(test)]
mod sample;
mod source_files;
mod subsystem;
mod symbols;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use thiserror::Error;

pub use analysis::{
    Allowed, Analysis, Caller, Counts, Evidence, Probe, Source, SubsystemBorder, VERSION,
};
pub use boundaries::CallBoundaries;
pub use choice::SMALL;
pub use elf::{Elf, ElfError, build_id};
pub use image::{ImageError, LARGEST, version, vmlinux};
pub use source_files::dwarf::DwarfError;
pub use source_files::{Placed, SourcePaths, Table, TableError};
pub use subsystem::{Subsystem, Subsystems, SubsystemsError};
pub use symbols::embedded::EmbeddedError;
pub use symbols::{Symbol, SymbolContent, Symbols, SymbolsError};

use boundaries::Ground;
use choice::{Choice, Chosen};
use code::{Function, Program};
use source_files::dwarf::Units;

/// How the entries of system calls are named.
pub const ENTRY: &str = "__x64_sys_";
/// What stands for calls that this kernel was built without.
const NO_CALL: &str = "ni_syscall";

/// What an analysis begins with.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// A boot image or an ELF file.
    pub image: &'a [u8],
    /// Symbols, as in `/proc/kallsyms`; else the image's own are taken.
    pub symbols: Option<&'a [u8]>,
    /// Type information (BTF); else the image's own is taken.
    pub btf: Option<&'a [u8]>,
    /// The names of the functions in such, or why it cannot be read: what a BPF program can be attached to by name.
    pub typed_functions: fn(&[u8]) -> Result<HashSet<String>, String>,
    /// The build id that the image must have.
    pub build_id: Option<&'a str>,
    /// The lines of `available_filter_functions`.
    pub filter_functions: Option<&'a str>,
    /// Names of system calls; none: all.
    pub wanted: &'a [String],
    /// Names of the parts that are told apart; none: all. Another belongs to its caller.
    pub told_apart: &'a [String],
    /// The parts of the kernel.
    pub subsystems: &'a Subsystems,
}

/// Why a kernel cannot be analysed.
#[derive(Debug, Error)]
pub enum AnalysisError {
    /// The image cannot be unpacked.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its ELF file is none of a kernel.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The list of symbols is of no use.
    #[error("the list of symbols: {0}")]
    Symbols(#[from] SymbolsError),
    /// No list was given, and the image's own cannot be read.
    #[error("a list of symbols (/proc/kallsyms, System.map) is needed; of the image's own: {0}")]
    Embedded(#[from] EmbeddedError),
    /// The type information is wrong.
    #[error("the type information (BTF): {0}")]
    Btf(String),
    /// The debugging information is wrong.
    #[error(transparent)]
    Dwarf(#[from] DwarfError),
    /// The table that weigh carries is wrong.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Not the image that was to be analysed.
    #[error("it is of another kernel: its build id is {found}; {expected} was expected")]
    OtherBuild {
        /// Which it was to have.
        expected: String,
        /// Which it has.
        found: String,
    },
    /// The symbols are not where functions begin.
    #[error(
        "the symbols are of another kernel than the image: {astray} of {calls} calls lead to where \
         no function is"
    )]
    OtherSymbols {
        /// How many do.
        astray: u64,
        /// Of how many.
        calls: u64,
    },
    /// A call that this kernel does not have.
    #[error("this kernel has no system call {0:?} (no function {ENTRY}{0})")]
    NoCall(String),
    /// A part that is not in the list.
    #[error("there is no part of the kernel {part:?}; there are {}", known.join(", "))]
    NoPart {
        /// Which.
        part: String,
        /// Which there are.
        known: Vec<String>,
    },
    /// None at all.
    #[error("it has no functions {ENTRY}*, from which system calls begin")]
    NoCalls,
}

/// Analyses a kernel.
pub fn analyse(input: &Input) -> Result<Analysis, AnalysisError> {
    let unpacked = vmlinux(input.image)?;
    let elf = Elf::open(&unpacked)?;
    check_build(&elf, input.build_id)?;
    let (symbols, source) = symbols_of(&elf, input.symbols)?;
    let btf = input.btf.unwrap_or_else(|| elf.content(".BTF"));
    let known = match btf {
        [] => HashSet::new(),
        btf => (input.typed_functions)(btf).map_err(AnalysisError::Btf)?,
    };
    let program = Program::read(&elf, &symbols, &known);
    check_symbols(&program)?;
    let places = places_of(&elf, &program.functions)?;
    let all_parts = parts_of(&program.functions, &places, input.subsystems);
    let parts = told_apart(&all_parts, input)?;
    let entries = entries(&program, input.wanted)?;
    let (held, tables) = boundaries::held(&elf, &symbols, &program, input.subsystems);
    let ends = ends_of(&program.functions, &places, input.subsystems);
    let ground = Ground {
        program: &program,
        parts: &parts,
        all_parts: &all_parts,
        ends: &ends,
        held: &held,
        subsystems: input.subsystems,
    };
    let borders = boundaries::walk(&ground, &entries);
    let choices = choice::choose(&program, &parts, &borders);
    let attach = Attach::new(&program, &known, input.filter_functions);
    let report =
        Report { subsystems: input.subsystems, program: &program, places: &places, attach };
    let subsystems = report.borders(&parts, &borders, choices);
    Ok(Analysis {
        version: VERSION,
        kernel: kernel_of(input.image, &elf),
        build_id: elf.build_id(),
        symbols: source,
        placed: places.placed,
        code: Counts {
            functions: places.placed.all(),
            instructions: program.read.instructions,
            calls: program.read.calls,
            tail_jumps: program.read.tail_jumps,
            by_pointer: program.read.by_pointer,
        },
        wanted: input.wanted.to_vec(),
        told_apart: input.told_apart.to_vec(),
        calls: calls(&boundaries::numbered(&elf, &symbols, &program), &parts, input.subsystems),
        entries: entries.len(),
        reached: borders.reached.len(),
        tables,
        allowed_by: report.attach.evidence(),
        subsystems,
    })
}

/// The functions of each source file that an image with debugging information names; what is gone
/// once the kernel has started is left out.
pub fn table_of(image: &[u8]) -> Result<Table, AnalysisError> {
    let mut table = Table::default();
    let elf = Elf::open(image)?;
    let (symbols, _) = symbols_of(&elf, None)?;
    let program = Program::read(&elf, &symbols, &HashSet::new());
    if let Some(units) = Units::read(&elf)? {
        for function in program.functions.iter().filter(|function| !function.is_for_start) {
            let Some(path) = units.path(function.address) else { continue };
            function.names.iter().for_each(|name| table.add(path, name));
        }
    }
    Ok(table)
}

/// How many functions of a list of symbols a table places; the list is no image's.
pub fn cover(table: &Table, symbols: &Symbols) -> Placed {
    let is_function =
        |symbol: &&Symbol| symbol.kind == SymbolContent::Code && code::is_name(&symbol.name);
    let functions = symbols.list().iter().filter(is_function);
    let names: Vec<[String; 1]> = functions.map(|symbol| [symbol.name.clone()]).collect();
    source_files::by_table(names.iter().map(|name| name.as_slice()), table).placed
}

/// How often a table is right of an image with debugging information.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judgement {
    /// Functions that the debugging information places in a part of the kernel or in none.
    pub known: usize,
    /// Of these, those that the table places so that they belong to the same part, or to none.
    pub same: usize,
    /// Those that it gives to another part.
    pub other: usize,
    /// Those that it does not place, and that belong to a part.
    pub missed: usize,
    /// How it places them.
    pub placed: Placed,
}

/// Judges a table by an image with debugging information.
pub fn judge(
    table: &Table,
    image: &[u8],
    subsystems: &Subsystems,
) -> Result<Judgement, AnalysisError> {
    let elf = Elf::open(image)?;
    let (symbols, _) = symbols_of(&elf, None)?;
    let mut functions = Program::read(&elf, &symbols, &HashSet::new()).functions;
    functions.retain(|function| !function.is_for_start);
    let by_debug = places_of(&elf, &functions)?;
    let by_table = by_table(&functions, table);
    let mut judgement = Judgement { placed: by_table.placed, ..Judgement::default() };
    for (truth, found) in by_debug.paths.iter().zip(&by_table.paths) {
        let Some(truth) = truth else { continue };
        judgement.known += 1;
        let truth = subsystems.of(truth);
        match found.as_ref().map(|path| subsystems.of(path)) {
            Some(found) if found == truth => judgement.same += 1,
            None if truth.is_none() => judgement.same += 1,
            None => judgement.missed += 1,
            Some(_) => judgement.other += 1,
        }
    }
    Ok(judgement)
}

fn symbols_of(elf: &Elf, list: Option<&[u8]>) -> Result<(Symbols, Source), AnalysisError> {
    if let Some(list) = list {
        return Ok((Symbols::parse(list)?.laid_over(elf)?, Source::List));
    }
    match elf.symbols() {
        Some(symbols) => Ok((symbols, Source::Elf)),
        None => Ok((symbols::embedded::find(elf)?.laid_over(elf)?, Source::Embedded)),
    }
}

fn check_build(elf: &Elf, expected: Option<&str>) -> Result<(), AnalysisError> {
    let Some(expected) = expected else { return Ok(()) };
    let found = elf.build_id();
    if found.as_deref() == Some(expected) {
        return Ok(());
    }
    let found = found.unwrap_or_else(|| "missing".to_string());
    Err(AnalysisError::OtherBuild { expected: expected.to_string(), found })
}

/// Of Debian's kernels one call in ten thousand goes into the middle of a function; of symbols that
/// are another build's, most do.
fn check_symbols(program: &Program) -> Result<(), AnalysisError> {
    let read = &program.read;
    let calls = read.calls + read.astray;
    if read.astray > calls / 20 {
        return Err(AnalysisError::OtherSymbols { astray: read.astray, calls });
    }
    Ok(())
}

fn places_of(elf: &Elf, functions: &[Function]) -> Result<SourcePaths, AnalysisError> {
    Ok(match Units::read(elf)? {
        Some(units) => source_files::by_debug(functions, &units),
        None => by_table(functions, &Table::shipped()?),
    })
}

fn by_table(functions: &[Function], table: &Table) -> SourcePaths {
    let names = functions.iter().map(|function| match function.is_for_start {
        true => &[],
        false => function.names.as_slice(),
    });
    source_files::by_table(names, table)
}

fn parts_of(functions: &[Function], places: &SourcePaths, all: &Subsystems) -> Vec<Option<usize>> {
    let part = |(function, path): (&Function, &Option<String>)| match path {
        Some(path) if !function.is_part() => all.of(path),
        _ => None,
    };
    functions.iter().zip(&places.paths).map(part).collect()
}

/// The parts that were asked for: a function of another is nobody's.
fn told_apart(parts: &[Option<usize>], input: &Input) -> Result<Vec<Option<usize>>, AnalysisError> {
    let list = input.subsystems.list();
    let known = |name: &String| list.iter().any(|one| one.name == *name);
    if let Some(part) = input.told_apart.iter().find(|name| !known(name)) {
        let known = list.iter().map(|one| one.name.clone()).collect();
        return Err(AnalysisError::NoPart { part: part.clone(), known });
    }
    let is_told =
        |part: &usize| input.told_apart.is_empty() || input.told_apart.contains(&list[*part].name);
    Ok(parts.iter().map(|part| part.filter(is_told)).collect())
}

/// The part that the code of each system call is of.
fn calls(
    numbered: &BTreeMap<u32, usize>,
    parts: &[Option<usize>],
    all: &Subsystems,
) -> BTreeMap<u32, String> {
    let named = |(call, function): (&u32, &usize)| {
        Some((*call, all.list()[parts[*function]?].name.clone()))
    };
    numbered.iter().filter_map(named).collect()
}

fn ends_of(functions: &[Function], places: &SourcePaths, all: &Subsystems) -> Vec<bool> {
    let is_end = |(function, path): (&Function, &Option<String>)| {
        function.is_for_start || path.as_ref().is_some_and(|path| all.is_end(path))
    };
    functions.iter().zip(&places.paths).map(is_end).collect()
}

fn entries(program: &Program, wanted: &[String]) -> Result<Vec<usize>, AnalysisError> {
    let mut entries: Vec<usize> = if wanted.is_empty() {
        let is_entry = |name: &str| name.strip_prefix(ENTRY).is_some_and(|call| call != NO_CALL);
        program.names().filter(|(name, _)| is_entry(name)).flat_map(|(_, n)| n).copied().collect()
    } else {
        let mut entries = Vec::new();
        for call in wanted {
            match program.named(&format!("{ENTRY}{call}")) {
                [] => return Err(AnalysisError::NoCall(call.clone())),
                found => entries.extend(found),
            }
        }
        entries
    };
    entries.sort_unstable();
    entries.dedup();
    if entries.is_empty() { Err(AnalysisError::NoCalls) } else { Ok(entries) }
}

fn kernel_of(image: &[u8], elf: &Elf) -> String {
    const BANNER: &[u8] = b"Linux version ";
    let banner = || {
        let data = elf.section(".rodata")?.data;
        let at = data.windows(BANNER.len()).position(|window| window == BANNER)?;
        let text = data[at + BANNER.len()..].split(|byte| matches!(byte, 0 | b'\n')).next()?;
        Some(String::from_utf8_lossy(&text[..text.len().min(256)]).into_owned())
    };
    version(image).or_else(banner).unwrap_or_else(|| "unknown".to_string())
}

/// Which functions can be probed, and how.
struct Attach<'a> {
    program: &'a Program,
    typed: &'a HashSet<String>,
    offered: Option<HashSet<&'a str>>,
}

impl<'a> Attach<'a> {
    fn new(program: &'a Program, typed: &'a HashSet<String>, offered: Option<&'a str>) -> Self {
        let names =
            |text: &'a str| text.lines().filter_map(|line| line.split(' ').next()).collect();
        Self { program, typed, offered: offered.map(names) }
    }

    fn evidence(&self) -> Vec<Evidence> {
        let mut all = vec![Evidence::Code];
        all.extend((!self.typed.is_empty()).then_some(Evidence::Btf));
        all.extend(self.offered.is_some().then_some(Evidence::Tracefs));
        all
    }

    fn to(&self, function: &Function) -> Allowed {
        let name = function.name();
        let is_offered = self.offered.as_ref().is_none_or(|offered| offered.contains(name));
        let is_alone = self.program.named(name).len() == 1;
        if function.is_never_probed {
            Allowed::No
        } else if function.is_traceable && is_offered && is_alone && self.typed.contains(name) {
            Allowed::Fentry
        } else {
            Allowed::Kprobe
        }
    }
}

/// Puts numbers into words.
struct Report<'a> {
    subsystems: &'a Subsystems,
    program: &'a Program,
    places: &'a SourcePaths,
    attach: Attach<'a>,
}

impl Report<'_> {
    fn borders(
        &self,
        parts: &[Option<usize>],
        borders: &CallBoundaries,
        mut choices: BTreeMap<usize, Choice>,
    ) -> Vec<SubsystemBorder> {
        let list = self.subsystems.list().iter().enumerate();
        list.filter_map(|(number, subsystem)| {
            let own = || parts.iter().enumerate().filter(|(_, part)| **part == Some(number));
            let reached = own().filter(|(function, _)| borders.reached.contains(function)).count();
            let choice = choices.remove(&number).unwrap_or_default();
            (reached > 0).then(|| {
                let (sites, callers) = self.callers(number, borders);
                SubsystemBorder {
                    name: subsystem.name.clone(),
                    what: subsystem.what.clone(),
                    functions: own().count(),
                    reached,
                    sites,
                    callees: choice.callees,
                    by_table_only: choice.by_table_only,
                    small: choice.small,
                    wrappers: choice.wrappers,
                    callers,
                    probes: self.probes(&choice.probes),
                }
            })
        })
        .collect()
    }

    /// A place that is walked in several parts' names counts once in all, and once for each.
    fn callers(&self, part: usize, borders: &CallBoundaries) -> (usize, Vec<Caller>) {
        let mut places = HashSet::new();
        let mut by_part: BTreeMap<usize, usize> = BTreeMap::new();
        for ((to, callee), callers) in &borders.crossings {
            if *to != part {
                continue;
            }
            for (from, sites) in callers {
                if !sites.is_empty() {
                    *by_part.entry(*from).or_default() += sites.len();
                }
                places.extend(sites.iter().map(|site| (*callee, *site)));
            }
        }
        let caller = |(from, sites)| Caller { subsystem: self.part_name(from), sites };
        let mut callers: Vec<Caller> = by_part.into_iter().map(caller).collect();
        callers.sort_by_key(|caller| std::cmp::Reverse(caller.sites));
        (places.len(), callers)
    }

    fn probes(&self, chosen: &BTreeMap<usize, Chosen>) -> Vec<Probe> {
        let probe = |(number, chosen): (&usize, &Chosen)| {
            let function = &self.program.functions[*number];
            let places: HashSet<_> = chosen.callers.values().flatten().collect();
            Probe {
                function: function.name().to_string(),
                path: self.places.paths[*number].clone(),
                sites: places.len(),
                callers: chosen.callers.keys().map(|part| self.part_name(*part)).collect(),
                by_table: chosen.is_entered,
                allowed: self.attach.to(function),
            }
        };
        let mut probes: Vec<Probe> = chosen.iter().map(probe).collect();
        probes.sort_by(|a, b| b.sites.cmp(&a.sites).then_with(|| a.function.cmp(&b.function)));
        probes
    }

    fn part_name(&self, part: usize) -> String {
        self.subsystems.list().get(part).map_or("no part".to_string(), |one| one.name.clone())
    }
}
