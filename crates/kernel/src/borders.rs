//! Where calls cross from one part of the kernel to another, of all that can be reached from the
//! wanted system calls.
//!
//! Reads who calls whom, the part of each function, and the tables of operations. Emits crossings:
//! the part that calls, the function that is called, from how many places. A function without a part
//! is walked through in the part of whoever calls it. Refuses nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::code::Program;
use crate::elf::Elf;
use crate::subsystem::Subsystems;
use crate::symbols::{Kind, Symbols};

/// Pages of code are the largest thing that a table of operations is not.
const LARGEST_TABLE: u64 = 4096;

/// What is called across borders.
#[derive(Debug, Default)]
pub struct Borders {
    /// For each part that is called and each function called there: from which part, and places.
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
    /// The part of each, if it has one.
    pub parts: &'a [Option<usize>],
    /// Those that are called by pointer from outside.
    pub entered: &'a BTreeSet<usize>,
}

/// Walks from the entries of system calls.
pub fn walk(ground: &Ground, entries: &[usize]) -> Borders {
    let mut walker =
        Walker { ground, borders: Borders::default(), seen: HashSet::new(), next: Vec::new() };
    for entry in entries {
        walker.go(*entry, ground.parts[*entry]);
    }
    walker.run();
    let calls_by_pointer = |number: &usize| ground.program.functions[*number].by_pointer > 0;
    if walker.borders.reached.iter().any(calls_by_pointer) {
        for number in ground.entered {
            let Some(part) = ground.parts[*number] else { continue };
            walker.borders.crossings.entry((part, *number)).or_default();
            walker.borders.entered.insert(*number);
            walker.go(*number, Some(part));
        }
        walker.run();
    }
    walker.borders
}

struct Walker<'a> {
    ground: &'a Ground<'a>,
    borders: Borders,
    /// A function, and the part on whose behalf it runs.
    seen: HashSet<(usize, Option<usize>)>,
    next: Vec<(usize, Option<usize>)>,
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
            for (callee, sites) in &self.ground.program.functions[caller].callees {
                if self.ground.program.functions[*callee].is_for_start {
                    continue;
                }
                let to = self.ground.parts[*callee].or(from);
                if let (Some(from), Some(to)) = (from, to)
                    && from != to
                {
                    let callers = self.borders.crossings.entry((to, *callee)).or_default();
                    let places = callers.entry(from).or_default();
                    places.extend((0..*sites).map(|site| (caller, site)));
                }
                self.go(*callee, to);
            }
        }
    }
}

/// The functions in tables of operations, and how many tables there are.
pub fn entered(
    elf: &Elf,
    symbols: &Symbols,
    program: &Program,
    subsystems: &Subsystems,
) -> (BTreeSet<usize>, usize) {
    let data: Vec<_> = symbols.list().iter().filter(|symbol| symbol.kind == Kind::Data).collect();
    let starts: HashMap<u64, usize> =
        program.functions.iter().enumerate().map(|(n, function)| (function.address, n)).collect();
    let (mut entered, mut tables) = (BTreeSet::<usize>::new(), 0);
    for (place, symbol) in data.iter().enumerate() {
        // What is exported has its name in three places.
        if symbol.name.starts_with("__k") || !subsystems.is_table(&symbol.name) {
            continue;
        }
        let Some(section) = elf.section_at(symbol.address) else { continue };
        let next = data[place..].iter().find(|other| other.address > symbol.address);
        let end = next.map_or(u64::MAX, |next| next.address);
        let length = (end - symbol.address).min(LARGEST_TABLE) as usize;
        let start = (symbol.address - section.address) as usize;
        let content = &section.data[start..section.data.len().min(start + length)];
        let words = content.chunks_exact(8).filter_map(|word| word.try_into().ok());
        let held: Vec<usize> =
            words.filter_map(|word| starts.get(&u64::from_le_bytes(word)).copied()).collect();
        tables += usize::from(!held.is_empty());
        entered.extend(held);
    }
    entered.retain(|number| !program.functions[*number].is_for_start);
    (entered, tables)
}
