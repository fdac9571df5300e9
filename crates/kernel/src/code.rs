//! The functions of a kernel and who calls whom.
//!
//! Reads the code of an image by its symbols: each function reaches to the next symbol. Emits
//! functions by address with their direct calls and their jumps to other functions (a call in last
//! place is a jump). What a call by pointer leads to is not in the code; such calls are counted.
//! Refuses nothing: what is no instruction is passed over.

use std::collections::{HashMap, HashSet};

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

use crate::elf::{Elf, Section};
use crate::symbols::{SymbolContent, Symbols};

/// Where a call by pointer goes on kernels that guard against speculation.
const BY_POINTER: &str = "__x86_indirect_";

/// What the compiler adds, and the kernel patches away or never returns from.
const MACHINERY: &[&str] = &[
    "__fentry__",
    "__x86_return_",
    "__stack_chk_fail",
    "__cfi_",
    "srso_",
    "retbleed_",
    "entry_untrain_ret",
    "zen_untrain_ret",
];

/// What a place for ftrace looks like where the build has made it a no-op already.
const NOP5: &[u8] = b"\x0f\x1f\x44\x00\x00";
const ENDBR64: &[u8] = b"\xf3\x0f\x1e\xfa";

/// Symbols that bound code in which no probe may be.
const NEVER_PROBED: &[(&str, &str)] = &[
    ("__noinstr_text_start", "__noinstr_text_end"),
    ("__kprobes_text_start", "__kprobes_text_end"),
    ("__entry_text_start", "__entry_text_end"),
];

/// A function and what it does.
#[derive(Debug)]
pub struct Function {
    /// Where it begins.
    pub address: u64,
    /// Its names; the first is the one to speak of it by.
    pub names: Vec<String>,
    /// Whether it begins with a place where ftrace, and so fentry, can attach.
    pub is_traceable: bool,
    /// Whether it lies where no probe may be.
    pub is_never_probed: bool,
    /// Whether it is gone once the kernel has started.
    pub is_for_start: bool,
    /// How long it is.
    pub instructions: u32,
    /// Whether it jumps back within itself.
    pub loops: bool,
    /// Calls and jumps by pointer.
    pub by_pointer: u32,
    /// Whom it calls, or jumps to: a function's number, and from how many places.
    pub callees: Vec<(usize, u32)>,
}

impl Function {
    /// The name to speak of it by.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Whether it is a part that the compiler has moved away from its function, or a trampoline: the
    /// same as its caller.
    pub fn is_part(&self) -> bool {
        self.name().ends_with(".cold") || self.name().starts_with("__SC")
    }
}

/// The code of a kernel.
#[derive(Debug)]
pub struct Program {
    /// By address.
    pub functions: Vec<Function>,
    by_name: HashMap<String, Vec<usize>>,
    /// Counts of what was read.
    pub read: Read,
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Instructions.
    pub instructions: u64,
    /// Direct calls of functions.
    pub calls: u64,
    /// Direct calls of what is no function: with the right symbols there are next to none.
    pub astray: u64,
    /// Jumps to the beginning of another function.
    pub tail_jumps: u64,
    /// Calls and jumps by pointer.
    pub by_pointer: u64,
}

impl Program {
    /// Reads all code of an image. Of several names of one function, one that `known` has is taken
    /// first.
    pub fn read(elf: &Elf, symbols: &Symbols, known: &HashSet<String>) -> Self {
        let mut functions = functions(elf, symbols, known);
        let starts: HashMap<u64, usize> =
            functions.iter().enumerate().map(|(number, (f, _))| (f.address, number)).collect();
        let roles: Vec<Role> = functions.iter().map(|(f, _)| Role::of(f)).collect();
        let mut read = Read::default();
        for (function, code) in &mut functions {
            disassemble(function, code, &starts, &roles, &mut read);
        }
        let functions: Vec<Function> = functions.into_iter().map(|(f, _)| f).collect();
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, function) in functions.iter().enumerate() {
            for name in &function.names {
                by_name.entry(name.clone()).or_default().push(number);
            }
        }
        Self { functions, by_name, read }
    }

    /// The functions of that name: static ones may share it.
    pub fn named(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// All names, each with its functions.
    pub fn names(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.by_name.iter().map(|(name, numbers)| (name.as_str(), numbers.as_slice()))
    }
}

/// What a call of a function means to the one who calls it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Called,
    ByPointer,
    Machinery,
}

impl Role {
    fn of(function: &Function) -> Self {
        let begins = |start: &&str| function.names.iter().any(|name| name.starts_with(*start));
        if begins(&BY_POINTER) {
            Self::ByPointer
        } else if MACHINERY.iter().any(begins) {
            Self::Machinery
        } else {
            Self::Called
        }
    }
}

/// The functions without what is in them, each with its code.
fn functions<'a>(
    elf: &Elf<'a>,
    symbols: &Symbols,
    known: &HashSet<String>,
) -> Vec<(Function, &'a [u8])> {
    let never: Vec<(u64, u64)> = NEVER_PROBED
        .iter()
        .filter_map(|(start, end)| Some((symbols.address(start)?, symbols.address(end)?)))
        .collect();
    let code: Vec<_> =
        symbols.list().iter().filter(|symbol| symbol.kind == SymbolContent::Code).collect();
    let mut groups = code.chunk_by(|one, other| one.address == other.address).peekable();
    let mut functions = Vec::new();
    while let Some(group) = groups.next() {
        let address = group[0].address;
        let Some(section) = elf.section_at(address).filter(|section| is_read(section)) else {
            continue;
        };
        let next = groups.peek().map(|group| group[0].address);
        let mut names: Vec<String> =
            group.iter().map(|symbol| symbol.name.clone()).filter(|name| is_name(name)).collect();
        if names.is_empty() {
            continue;
        }
        names.sort_by_key(|name| !known.contains(name.as_str()));
        names.dedup();
        let function = Function {
            address,
            names,
            is_traceable: false,
            is_never_probed: never.iter().any(|(start, end)| (*start..*end).contains(&address)),
            is_for_start: section.is_for_start(),
            instructions: 0,
            loops: false,
            by_pointer: 0,
            callees: Vec::new(),
        };
        functions.push((function, code_of(section, address, next)));
    }
    functions
}

/// Replacements for code elsewhere belong to no function of their own.
fn is_read(section: &Section) -> bool {
    section.is_code && !section.name.starts_with(".alt")
}

/// The padding before a function has a symbol, too.
pub fn is_name(name: &str) -> bool {
    !["__pfx_", "__cfi_", ".L"].iter().any(|start| name.starts_with(start))
}

fn code_of<'a>(section: &Section<'a>, address: u64, next: Option<u64>) -> &'a [u8] {
    let data = section.data;
    let offset = |address: u64| {
        usize::try_from(address.saturating_sub(section.address))
            .map_or(data.len(), |at| at.min(data.len()))
    };
    let start = offset(address);
    let end = next.map_or(data.len(), offset).max(start);
    &data[start..end]
}

fn disassemble(
    function: &mut Function,
    code: &[u8],
    starts: &HashMap<u64, usize>,
    roles: &[Role],
    read: &mut Read,
) {
    let body = code.strip_prefix(ENDBR64).unwrap_or(code);
    function.is_traceable = body.starts_with(NOP5);
    let prologue = function.address + (code.len() - body.len()) as u64;
    let range = function.address..function.address + code.len() as u64;
    let mut decoder = Decoder::with_ip(64, code, function.address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut sites: Vec<usize> = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        // Functions are padded with these.
        if matches!(instruction.code(), Code::Int3 | Code::Nopd | Code::Nopw | Code::INVALID) {
            continue;
        }
        function.instructions += 1;
        let is_call = instruction.is_call_near();
        if instruction.is_call_near_indirect() || instruction.is_jmp_near_indirect() {
            function.by_pointer += 1;
        } else if is_call
            || instruction.is_jmp_short_or_near()
            || instruction.is_jcc_short_or_near()
        {
            let target = instruction.near_branch_target();
            if range.contains(&target) && !is_call {
                function.loops |= target <= instruction.ip();
                continue;
            }
            let Some(&callee) = starts.get(&target) else {
                read.astray += u64::from(is_call);
                continue;
            };
            match roles[callee] {
                Role::ByPointer => function.by_pointer += 1,
                Role::Machinery => function.is_traceable |= is_call && instruction.ip() == prologue,
                Role::Called => {
                    sites.push(callee);
                    *(if is_call { &mut read.calls } else { &mut read.tail_jumps }) += 1;
                }
            }
        }
    }
    read.instructions += u64::from(function.instructions);
    read.by_pointer += u64::from(function.by_pointer);
    sites.sort_unstable();
    function.callees = sites
        .chunk_by(|one, other| one == other)
        .map(|same| (same[0], same.len() as u32))
        .collect();
}
