//! Strings and types by name.
//!
//! A kernel has a hundred thousand names, and one who follows each type to its own waits for memory most of the time. So
//! the strings are gone through once, one after the other, and a type is found by where its name lies.

use super::index::{Index, hash, step};
use super::types::{Btf, FUNCTION, PROTOTYPE, STRUCT, TYPEDEF};

/// Typedefs and qualifiers in a row, at most.
const CHAIN: usize = 32;

impl Btf<'_> {
    /// A function that is not built into all of its callers.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.find_type(FUNCTION, name.as_bytes())
    }

    /// A structure.
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find_type(STRUCT, name.as_bytes())
    }

    /// The type of the programs of a tracepoint.
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        self.find_type(TYPEDEF, format!("btf_trace_{name}").as_bytes())
    }

    /// The same for a tracepoint of a module, whose types and strings go on where the kernel's end.
    pub fn tracepoint_of_module(&self, module: &[u8], name: &str) -> Option<u32> {
        let module = Btf::parse(module)?;
        let name = format!("btf_trace_{name}");
        let is_it = |id: &u32| {
            let offset = module.at(*id).map_or(0, |at| module.word(at));
            let offset = offset.checked_sub(self.strings.len() as u32);
            offset.is_some_and(|offset| module.string(offset) == name.as_bytes())
        };
        let mut typedefs = module.ids().filter(|id| module.kind(*id) == Some(TYPEDEF));
        Some(self.types.len() as u32 + typedefs.find(is_it)?)
    }

    /// How many arguments programs at a tracepoint are given; none if there is no such tracepoint.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let mut id = self.tracepoint(name)?;
        for _ in 0..CHAIN {
            if self.kind(id)? == PROTOTYPE {
                let count = self.word(self.at(id)? + 4) & 0xffff;
                // The first is the tracepoint's own data.
                return Some((count as usize).saturating_sub(1));
            }
            id = self.target(id)?;
        }
        None
    }

    /// Where each string begins, by what it is. None begins within another one.
    pub(super) fn index_strings(&self) -> Index {
        let strings = self.all_strings();
        let ends = memchr::memchr_iter(0, strings);
        let mut index = Index::with_room_for(ends.clone().count());
        let mut begin = 0;
        for end in ends {
            index.add(hash(&strings[begin..end]), begin as u32);
            begin = end + 1;
        }
        index
    }

    /// The functions, typedefs and structures, by where their names begin.
    pub(super) fn index_types(&self) -> Index {
        let is_indexed = |id: &u32| matches!(self.kind(*id), Some(FUNCTION | TYPEDEF | STRUCT));
        let ids: Vec<u32> = self.ids().filter(is_indexed).collect();
        let mut index = Index::with_room_for(ids.len());
        for id in ids {
            index.add(step(0, self.name_begins(id).into()), id);
        }
        index
    }

    /// Where a string begins.
    pub(super) fn find_string(&self, string: &[u8]) -> Option<u32> {
        let index = self.string_index.get_or_init(|| self.index_strings());
        index.find(hash(string), |begin| self.string(begin) == string)
    }

    /// The first type of a kind, function, typedef or structure, with a name.
    pub(super) fn find_type(&self, kind: u32, name: &[u8]) -> Option<u32> {
        let begins = self.find_string(name)?;
        let index = self.type_index.get_or_init(|| self.index_types());
        let is_it = |id: u32| self.name_begins(id) == begins && self.kind(id) == Some(kind);
        index.find(step(0, begins.into()), is_it)
    }
}
