//! Which source file each function is from.
//!
//! Reads the debugging information of an image ([`dwarf`]) where it has some, else the shipped table
//! `data/functions.gz` (`scripts/kernel-functions.sh` makes it), which names the functions of each
//! file. Functions of one file lie side by side, so a name that several files have is of the file of
//! its neighbours, and a name that no file has is of the file, or folder, that both its neighbours
//! are of. Emits a path for each function, or none. Refuses a table of another form.

pub mod dwarf;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read as _;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::code::Function;

const SHIPPED: &[u8] = include_bytes!("../data/functions.gz");

/// The most that a table may unpack to: the shipped one is 1.1 MB.
const LARGEST: u64 = 64 << 20;

/// Why a table of functions cannot be read.
#[derive(Debug, Error)]
pub enum TableError {
    /// Not packed by gzip, or cut short, or too large.
    #[error("the table of functions cannot be unpacked: {0}")]
    Unpack(#[from] std::io::Error),
    /// A line of another form.
    #[error("line {0} of the table of functions is no `PATH<tab>NAME NAME…`")]
    Line(usize),
}

/// The functions of each source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    files: BTreeMap<String, BTreeSet<String>>,
}

impl Table {
    /// The one that weigh carries.
    pub fn shipped() -> Result<Self, TableError> {
        let mut text = String::new();
        flate2::read::GzDecoder::new(SHIPPED).take(LARGEST).read_to_string(&mut text)?;
        Self::parse(&text)
    }

    /// Reads lines of `PATH<tab>NAME NAME…`.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let mut table = Self::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let (path, names) = line.split_once('\t').ok_or(TableError::Line(number + 1))?;
            let file = table.files.entry(path.to_string()).or_default();
            file.extend(names.split(' ').map(str::to_string));
        }
        Ok(table)
    }

    /// Adds a function.
    pub fn add(&mut self, path: &str, function: &str) {
        let names = self.files.entry(path.to_string()).or_default();
        names.insert(base(function).to_string());
    }

    /// Adds what another has.
    pub fn merge(&mut self, other: Self) {
        for (path, names) in other.files {
            self.files.entry(path).or_default().extend(names);
        }
    }

    /// How much is in it.
    pub fn counts(&self) -> String {
        let functions: usize = self.files.values().map(BTreeSet::len).sum();
        format!("{functions} functions of {} files", self.files.len())
    }

    /// The lines that [`Table::parse`] reads.
    pub fn text(&self) -> String {
        let line = |(path, names): (&String, &BTreeSet<String>)| {
            format!("{path}\t{}\n", names.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
        };
        self.files.iter().map(line).collect()
    }

    fn by_name(&self) -> HashMap<&str, Vec<&str>> {
        let mut all: HashMap<&str, Vec<&str>> = HashMap::new();
        for (path, names) in &self.files {
            names.iter().for_each(|name| all.entry(name).or_default().push(path));
        }
        all
    }
}

/// A name without what the compiler adds to it: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
pub fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// How many functions were placed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// By debugging information.
    pub by_debug: usize,
    /// By a name that the table has once.
    pub by_name: usize,
    /// By a name that several files have, and the neighbours.
    pub by_choice: usize,
    /// By the neighbours alone.
    pub by_neighbours: usize,
    /// Not at all.
    pub not: usize,
}

impl Placed {
    /// All of them.
    pub fn all(&self) -> usize {
        self.by_debug + self.by_name + self.by_choice + self.by_neighbours + self.not
    }
}

/// The path of each function.
pub struct SourcePaths {
    /// In the functions' order; a folder ends with `/`.
    pub paths: Vec<Option<String>>,
    /// How they were found.
    pub placed: Placed,
}

/// Places functions by debugging information.
pub fn by_debug(functions: &[Function], units: &dwarf::Units) -> SourcePaths {
    let mut placed = Placed::default();
    let path = |function: &Function| {
        let path = units.path(function.address).filter(|_| !function.is_for_start);
        let count = if path.is_some() { &mut placed.by_debug } else { &mut placed.not };
        *count += usize::from(!function.is_for_start);
        path.map(str::to_string)
    };
    let paths = functions.iter().map(path).collect();
    SourcePaths { paths, placed }
}

/// Places functions by their names and neighbours: of each all its names, in the order of their
/// addresses. One without names is not placed, nor counted.
pub fn by_table<'a>(names: impl Iterator<Item = &'a [String]>, table: &Table) -> SourcePaths {
    let by_name = table.by_name();
    let candidates: Vec<Option<&[&str]>> =
        names.map(|names| (!names.is_empty()).then(|| candidates(names, &by_name))).collect();
    let sure: Vec<Option<&str>> = candidates
        .iter()
        .map(|paths| if let Some([path]) = *paths { Some(*path) } else { None })
        .collect();
    let before = nearest(sure.iter());
    let mut after = nearest(sure.iter().rev());
    after.reverse();
    let mut placed = Placed::default();
    let mut paths = Vec::with_capacity(candidates.len());
    for (number, candidates) in candidates.iter().enumerate() {
        let Some(candidates) = candidates else {
            paths.push(None);
            continue;
        };
        let around = [before[number], after[number]];
        let (path, count) = match candidates {
            [path] => (Some(*path), &mut placed.by_name),
            [] => (common(around), &mut placed.by_neighbours),
            several => {
                let chosen = around.into_iter().flatten().find(|path| several.contains(path));
                (chosen, &mut placed.by_choice)
            }
        };
        *(if path.is_some() { count } else { &mut placed.not }) += 1;
        paths.push(path.map(str::to_string));
    }
    SourcePaths { paths, placed }
}

fn candidates<'a>(names: &[String], by_name: &'a HashMap<&str, Vec<&'a str>>) -> &'a [&'a str] {
    let mut known = names.iter().filter_map(|name| by_name.get(base(name)));
    known.next().map_or(&[], Vec::as_slice)
}

/// For each place the last sure path before it.
fn nearest<'a, 'b: 'a>(sure: impl Iterator<Item = &'a Option<&'b str>>) -> Vec<Option<&'b str>> {
    let mut last = None;
    let step = |path: &Option<&'b str>| {
        let before = last;
        last = path.or(last);
        before
    };
    sure.map(step).collect()
}

/// What two neighbours have in common: the file, or its folder.
fn common(around: [Option<&str>; 2]) -> Option<&str> {
    let [Some(before), Some(after)] = around else { return None };
    if before == after {
        return Some(before);
    }
    let folder = |path: &'_ str| path.rfind('/').map_or(0, |at| at + 1);
    let shared = &before[..folder(before)];
    (!shared.is_empty() && shared == &after[..folder(after)]).then_some(shared)
}

#[cfg(test)]
#[path = "source_files/tests.rs"]
mod tests;
