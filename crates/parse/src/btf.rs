//! The kernel's type information (BTF, Documentation/bpf/btf.rst), as far as a start of weigh needs it: which functions
//! and tracepoints there are, and the few types whose layout the BPF programs ask for.
//!
//! Reads the bytes of `/sys/kernel/btf/vmlinux` and of compiled BPF programs; emits type numbers, and smaller type
//! information for libbpf, which looks at every type of the kernel once for each type of a program. Refuses kinds that
//! are newer than this reader, for their length is not known.

mod names;
mod relocations;
mod subset;

use std::cell::OnceCell;
use std::ops::Range;

use names::Index;
pub use relocations::relocated_types;

const HEADER: usize = 24;
const TYPE: usize = 12;

pub(crate) const INT: u32 = 1;
pub(crate) const POINTER: u32 = 2;
pub(crate) const ARRAY: u32 = 3;
pub(crate) const STRUCT: u32 = 4;
pub(crate) const UNION: u32 = 5;
pub(crate) const ENUM: u32 = 6;
pub(crate) const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const RESTRICT: u32 = 11;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
pub(crate) const FLOAT: u32 = 16;
const TYPE_TAG: u32 = 18;
pub(crate) const ENUM64: u32 = 19;

/// Typedefs and qualifiers in a row, at most.
const CHAIN: usize = 32;

/// Type information of a kernel, or of a BPF program.
pub struct Btf<'b> {
    bytes: &'b [u8],
    strings: Range<usize>,
    /// Where each type begins; the first is number 1.
    types: Vec<u32>,
    string_index: OnceCell<Index>,
    type_index: OnceCell<Index>,
}

impl<'b> Btf<'b> {
    /// Finds the types; none if these bytes are no little-endian BTF, or have kinds that are not known.
    pub fn parse(bytes: &'b [u8]) -> Option<Btf<'b>> {
        if !bytes.starts_with(&[0x9f, 0xeb, 1]) {
            return None;
        }
        let begin = (word(bytes, 4)? as usize).max(HEADER);
        let part = |offset: usize| -> Option<Range<usize>> {
            let start = begin.checked_add(word(bytes, offset)? as usize)?;
            let end = start.checked_add(word(bytes, offset + 4)? as usize)?;
            (end <= bytes.len()).then_some(start..end)
        };
        let (types, strings) = (part(8)?, part(16)?);
        let types = begins(bytes, types)?;
        let (string_index, type_index) = (OnceCell::new(), OnceCell::new());
        Some(Btf { bytes, strings, types, string_index, type_index })
    }

    fn at(&self, id: u32) -> Option<usize> {
        let index = (id as usize).checked_sub(1)?;
        self.types.get(index).map(|at| *at as usize)
    }

    fn word(&self, at: usize) -> u32 {
        word(self.bytes, at).unwrap_or(0)
    }

    /// The numbers of all types.
    fn ids(&self) -> Range<u32> {
        1..self.types.len() as u32 + 1
    }

    fn kind_at(&self, at: usize) -> u32 {
        (self.word(at + 4) >> 24) & 0x1f
    }

    fn kind(&self, id: u32) -> Option<u32> {
        Some(self.kind_at(self.at(id)?))
    }

    /// What a typedef, a qualifier, a pointer or a function refers to.
    fn target(&self, id: u32) -> Option<u32> {
        Some(self.word(self.at(id)? + 8))
    }

    fn all_strings(&self) -> &'b [u8] {
        &self.bytes[self.strings.clone()]
    }

    fn string(&self, offset: u32) -> &'b [u8] {
        let from = self.all_strings().get(offset as usize..).unwrap_or_default();
        &from[..memchr::memchr(0, from).unwrap_or(from.len())]
    }

    /// Where a type's name begins among the strings.
    fn name_begins(&self, id: u32) -> u32 {
        self.at(id).map_or(0, |at| self.word(at))
    }

    fn name(&self, id: u32) -> &'b [u8] {
        self.string(self.name_begins(id))
    }

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
}

/// Whether one of such strings of bytes is anywhere in type information.
pub fn has_one_of(types: &[u8], words: &[Vec<u8>]) -> bool {
    words.iter().any(|word| memchr::memmem::find(types, word).is_some())
}

fn begins(bytes: &[u8], types: Range<usize>) -> Option<Vec<u32>> {
    let mut begins = Vec::with_capacity(types.len() / 24);
    let mut at = types.start;
    while at < types.end {
        begins.push(u32::try_from(at).ok()?);
        let info = word(bytes, at + 4)?;
        at += TYPE + length((info >> 24) & 0x1f, (info & 0xffff) as usize)?;
    }
    (at == types.end).then_some(begins)
}

/// Bytes that follow the head of a type.
fn length(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        INT | 14 | 17 => 4,
        ARRAY => 12,
        STRUCT | UNION | 15 | ENUM64 => 12 * count,
        ENUM | PROTOTYPE => 8 * count,
        POINTER | 7..=12 | FLOAT | TYPE_TAG => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// The name without its flavor, what is behind `___`: by that libbpf compares types.
fn essential(name: &[u8]) -> &[u8] {
    let begins_flavor = |five: &[u8]| matches!(five, [first, b'_', b'_', b'_', last] if *first != b'_' && *last != b'_');
    let flavor = name.windows(5).rposition(begins_flavor);
    &name[..flavor.map_or(name.len(), |at| at + 1)]
}

#[cfg(test)]
mod tests;
