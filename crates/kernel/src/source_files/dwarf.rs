//! The source files that an image's debugging information names.
//!
//! Reads `.debug_info` and what it points to: of each compilation unit its name and which addresses
//! are its own, nothing below. So a function that a header defines is of the file that it was
//! compiled into. Emits a path, from the top of the kernel's sources, for an address. Refuses
//! information that cannot be read; sections that are compressed are among that.

use std::collections::HashSet;

use gimli::{DwarfSections, EndianSlice, LittleEndian};
use thiserror::Error;

use crate::elf::Elf;

/// Why debugging information cannot be read.
#[derive(Debug, Error)]
#[error("its debugging information cannot be read: {0}")]
pub struct DwarfError(#[from] gimli::Error);

/// Addresses and the files they are from.
pub struct Units {
    /// By start.
    ranges: Vec<(u64, u64, usize)>,
    paths: Vec<String>,
}

impl Units {
    /// Reads those of an image; nothing if it has none.
    pub fn read(elf: &Elf) -> Result<Option<Self>, DwarfError> {
        if elf.content(".debug_info").is_empty() {
            return Ok(None);
        }
        let section = |id: gimli::SectionId| Ok::<_, gimli::Error>(elf.content(id.name()));
        let sections = DwarfSections::load(section)?;
        let dwarf = sections.borrow(|content| EndianSlice::new(content, LittleEndian));
        let (mut ranges, mut names) = (Vec::new(), Vec::new());
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            let Some(name) = unit.name else { continue };
            let mut own = dwarf.unit_ranges(&unit)?;
            while let Some(range) = own.next()? {
                if range.begin != 0 && range.begin < range.end {
                    ranges.push((range.begin, range.end, names.len()));
                }
            }
            names.push(name.to_string_lossy().into_owned());
        }
        ranges.sort_unstable();
        Ok(Some(Self { ranges, paths: below_the_top(&names) }))
    }

    /// The file that the code at an address is from.
    pub fn path(&self, address: u64) -> Option<&str> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (_, end, unit) = self.ranges[..after].last()?;
        (address < *end).then(|| self.paths[*unit].as_str())
    }
}

/// Paths from the top of the sources. Where some are so already, their first folders tell in the
/// others where the top is; else it is what all of them begin with.
fn below_the_top(names: &[String]) -> Vec<String> {
    let names: Vec<&str> = names.iter().map(|name| name.trim_start_matches("./")).collect();
    let (absolute, relative): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| name.starts_with('/'));
    let tops: HashSet<&str> =
        relative.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    let shared = shared_folder(&absolute);
    let below = |name: &&str| {
        let by_tops = name
            .match_indices('/')
            .map(|(at, _)| &name[at + 1..])
            .find(|rest| rest.split_once('/').is_some_and(|(first, _)| tops.contains(first)));
        by_tops
            .filter(|_| name.starts_with('/'))
            .or(name.strip_prefix(shared))
            .unwrap_or(name)
            .to_string()
    };
    names.iter().map(below).collect()
}

/// The folder that all paths are below, with its `/`.
fn shared_folder<'a>(paths: &[&'a str]) -> &'a str {
    let folder = |path: &'a str| &path[..path.rfind('/').map_or(0, |at| at + 1)];
    let first = paths.first().map_or("", |path| folder(path));
    paths.iter().fold(first, |shared, path| {
        let common = shared.char_indices().zip(path.chars()).find(|((_, one), other)| one != other);
        folder(common.map_or(shared, |((at, _), _)| &shared[..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::below_the_top;

    fn below(names: &[&str]) -> Vec<String> {
        below_the_top(&names.iter().map(|name| name.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn the_folder_of_the_build_is_taken_away() {
        let names = ["/b/linux/mm/slub.c", "/b/linux/kernel/fork.c", "/b/linux/mm/\u{e9}.c"];
        assert_eq!(below(&names), ["mm/slub.c", "kernel/fork.c", "mm/\u{e9}.c"]);
        assert!(below(&[]).is_empty());
        assert_eq!(below(&["/only/one.c"]), ["one.c"]);
    }

    #[test]
    fn relative_paths_say_where_the_top_is() {
        let names = [
            "./arch/x86/mm/fault.c",
            "mm/slub.c",
            "/b/linux/arch/x86/a.S",
            "/b/linux/arch/x86/b.S",
        ];
        let expected = ["arch/x86/mm/fault.c", "mm/slub.c", "arch/x86/a.S", "arch/x86/b.S"];
        assert_eq!(below(&names), expected);
    }
}
