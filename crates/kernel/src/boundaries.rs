//! Where calls cross from one part of the kernel to another, of all that can be reached from the
//! wanted system calls.
//!
//! Reads who calls whom, the part of each function, and the tables of operations. Emits crossings:
//! the part that calls, the function that is called, from how many places. A function without a part
//! is walked through in the part of its caller. Refuses nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::code::Program;
use crate::elf::Elf;
use crate::subsystem::Subsystems;
use crate::symbols::{SymbolContent, Symbols};

/// Stands for a caller that is of no part.
pub const NOBODY: usize = usize::MAX;

/// Pages of code are the largest thing that a table of operations is not.
const LARGEST_TABLE: u64 = 4096;

/// What is called across borders.
#[derive(Debug, Default)]
pub struct CallBoundaries {
    /// For each part that is called and each function called there: from which part, or from
    /// [`NOBODY`]'s, and places.
    pub crossings: BTreeMap<(usize, usize), BTreeMap<usize, BTreeSet<Site>>>,
    /// Functions that tables of operations hold, and that belong to a part.
    pub entered: BTreeSet<usize>,
    /// All functions that can be reached.
    pub reached: HashSet<usize>,
}

/// A place that calls: the function it is in, and which of its calls of the same function it is.
pub type Site = (usize, u32);

/// What is known of the kernel's functions.
pub struct Ground<'a> {
    /// Their code.
    pub program: &'a Program,
    /// The part of each, if it has one that is told apart.
    pub parts: &'a [Option<usize>],
    /// The part of each, told apart or not.
    pub all_parts: &'a [Option<usize>],
    /// Those that are not followed.
    pub ends: &'a [bool],
    /// Those that tables of operations hold, by the kind of table.
    pub held: &'a BTreeMap<usize, BTreeSet<usize>>,
    /// The parts, and which of them call by tables of which kind.
    pub subsystems: &'a Subsystems,
}

/// Walks from the entries of system calls.
pub fn walk(ground: &Ground, entries: &[usize]) -> CallBoundaries {
    let mut walker = Walker {
        ground,
        borders: CallBoundaries::default(),
        seen: HashSet::new(),
        next: Vec::new(),
        by_pointer: BTreeSet::new(),
    };
    for entry in entries {
        walker.go(*entry, ground.parts[*entry]);
    }
    walker.run();
    let mut known = 0;
    while known != walker.by_pointer.len() {
        known = walker.by_pointer.len();
        walker.enter();
        walker.run();
    }
    walker.borders
}

struct Walker<'a> {
    ground: &'a Ground<'a>,
    borders: CallBoundaries,
    /// A function, and the part on whose behalf it runs.
    seen: HashSet<(usize, Option<usize>)>,
    next: Vec<(usize, Option<usize>)>,
    /// The parts that call by pointer, and on whose behalf.
    by_pointer: BTreeSet<(usize, Option<usize>)>,
}

impl Walker<'_> {
    fn go(&mut self, number: usize, part: Option<usize>) {
        if self.seen.insert((number, part)) {
            self.borders.reached.insert(number);
            self.next.push((number, part));
        }
    }

    fn run(&mut self) {
        while let Some((caller, from)) = self.next.pop() {
            if self.ground.program.functions[caller].by_pointer > 0 {
                let part = self.ground.all_parts[caller].or(from);
                self.by_pointer.extend(part.map(|part| (part, from)));
            }
            for (callee, sites) in &self.ground.program.functions[caller].callees {
                if self.ground.ends[*callee] {
                    continue;
                }
                let to = self.ground.parts[*callee].or(from);
                if let Some(to) = to
                    && from != Some(to)
                {
                    let callers = self.borders.crossings.entry((to, *callee)).or_default();
                    let places = callers.entry(from.unwrap_or(NOBODY)).or_default();
                    places.extend((0..*sites).map(|site| (caller, site)));
                }
                self.go(*callee, to);
            }
        }
    }

    /// Enters what the parts that call by pointer find in their tables.
    fn enter(&mut self) {
        let Ground { parts, held, subsystems, .. } = self.ground;
        let by_pointer = self.by_pointer.clone();
        for (kind, functions) in *held {
            let callers = subsystems.callers(*kind);
            for (_, from) in by_pointer.iter().filter(|(part, _)| callers.contains(part)) {
                for number in functions {
                    let to = parts[*number].or(*from);
                    if let Some(to) = to.filter(|to| Some(*to) != *from) {
                        let callers = self.borders.crossings.entry((to, *number)).or_default();
                        callers.entry(from.unwrap_or(NOBODY)).or_default();
                        self.borders.entered.insert(*number);
                    }
                    self.go(*number, to);
                }
            }
        }
    }
}

/// The functions in tables of operations, by the kind of table, and how many tables there are.
pub fn held(
    elf: &Elf,
    symbols: &Symbols,
    program: &Program,
    subsystems: &Subsystems,
) -> (BTreeMap<usize, BTreeSet<usize>>, usize) {
    let data: Vec<_> =
        symbols.list().iter().filter(|symbol| symbol.kind == SymbolContent::Data).collect();
    let starts: HashMap<u64, usize> =
        program.functions.iter().enumerate().map(|(n, function)| (function.address, n)).collect();
    let (mut all, mut tables) = (BTreeMap::<usize, BTreeSet<usize>>::new(), 0);
    for (place, symbol) in data.iter().enumerate() {
        // What is exported has its name in three places.
        let kind = subsystems.table(&symbol.name).filter(|_| !symbol.name.starts_with("__k"));
        let (Some(kind), Some(section)) = (kind, elf.section_at(symbol.address)) else { continue };
        let next = data[place..].iter().find(|other| other.address > symbol.address);
        let end = next.map_or(u64::MAX, |next| next.address);
        let length = (end - symbol.address).min(LARGEST_TABLE) as usize;
        let start = (symbol.address - section.address) as usize;
        let content = &section.data[start..section.data.len().min(start + length)];
        let words = content.chunks_exact(8).filter_map(|word| word.try_into().ok());
        let held: Vec<usize> =
            words.filter_map(|word| starts.get(&u64::from_le_bytes(word)).copied()).collect();
        tables += usize::from(!held.is_empty());
        let held = held.into_iter().filter(|number| !program.functions[*number].is_for_start);
        all.entry(kind).or_default().extend(held);
    }
    (all, tables)
}

/// The table that system calls begin with.
const CALLS: &str = "sys_call_table";

/// The function that each system call begins with, by its number; none if the table has no name.
pub fn numbered(elf: &Elf, symbols: &Symbols, program: &Program) -> BTreeMap<u32, usize> {
    let mut data: Vec<_> =
        symbols.list().iter().filter(|s| s.kind == SymbolContent::Data).collect();
    data.sort_by_key(|symbol| symbol.address);
    let Some(place) = data.iter().position(|symbol| symbol.name == CALLS) else {
        return BTreeMap::new();
    };
    let address = data[place].address;
    let next = data[place..].iter().find(|other| other.address > address);
    let Some(section) = elf.section_at(address) else { return BTreeMap::new() };
    let length = next.map_or(LARGEST_TABLE, |next| (next.address - address).min(LARGEST_TABLE));
    let start = (address - section.address) as usize;
    let content = &section.data[start..section.data.len().min(start + length as usize)];
    let words = content.chunks_exact(8).filter_map(|word| word.try_into().ok());
    let starts: HashMap<u64, usize> =
        program.functions.iter().enumerate().map(|(n, function)| (function.address, n)).collect();
    let numbered = (0..).zip(words.map(u64::from_le_bytes));
    numbered.filter_map(|(call, word)| Some((call, *starts.get(&word)?))).collect()
}
