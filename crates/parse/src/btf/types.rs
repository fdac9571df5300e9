//! The bytes of type information: where each type and string is.

use std::cell::OnceCell;
use std::ops::Range;

use super::index::Index;

pub(super) const HEADER: usize = 24;
pub(super) const TYPE: usize = 12;

pub(crate) const INT: u32 = 1;
pub(crate) const POINTER: u32 = 2;
pub(crate) const ARRAY: u32 = 3;
pub(crate) const STRUCT: u32 = 4;
pub(crate) const UNION: u32 = 5;
pub(crate) const ENUM: u32 = 6;
pub(crate) const TYPEDEF: u32 = 8;
pub(super) const VOLATILE: u32 = 9;
pub(super) const RESTRICT: u32 = 11;
pub(super) const FUNCTION: u32 = 12;
pub(super) const PROTOTYPE: u32 = 13;
pub(crate) const FLOAT: u32 = 16;
pub(super) const TYPE_TAG: u32 = 18;
pub(crate) const ENUM64: u32 = 19;

/// Type information of a kernel, or of a BPF program.
pub struct Btf<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) strings: Range<usize>,
    /// Where each type begins; the first is number 1.
    pub(super) types: Vec<u32>,
    pub(super) string_index: OnceCell<Index>,
    pub(super) type_index: OnceCell<Index>,
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

    pub(super) fn at(&self, id: u32) -> Option<usize> {
        let index = (id as usize).checked_sub(1)?;
        self.types.get(index).map(|at| *at as usize)
    }

    pub(super) fn word(&self, at: usize) -> u32 {
        word(self.bytes, at).unwrap_or(0)
    }

    /// The numbers of all types.
    pub(super) fn ids(&self) -> Range<u32> {
        1..self.types.len() as u32 + 1
    }

    fn kind_at(&self, at: usize) -> u32 {
        (self.word(at + 4) >> 24) & 0x1f
    }

    pub(super) fn kind(&self, id: u32) -> Option<u32> {
        Some(self.kind_at(self.at(id)?))
    }

    /// What a typedef, a qualifier, a pointer or a function refers to.
    pub(super) fn target(&self, id: u32) -> Option<u32> {
        Some(self.word(self.at(id)? + 8))
    }

    pub(super) fn all_strings(&self) -> &'b [u8] {
        &self.bytes[self.strings.clone()]
    }

    pub(super) fn string(&self, offset: u32) -> &'b [u8] {
        let from = self.all_strings().get(offset as usize..).unwrap_or_default();
        &from[..memchr::memchr(0, from).unwrap_or(from.len())]
    }

    /// Where a type's name begins among the strings.
    pub(super) fn name_begins(&self, id: u32) -> u32 {
        self.at(id).map_or(0, |at| self.word(at))
    }

    pub(super) fn name(&self, id: u32) -> &'b [u8] {
        self.string(self.name_begins(id))
    }
}

pub(super) fn begins(bytes: &[u8], types: Range<usize>) -> Option<Vec<u32>> {
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
pub(super) fn length(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        INT | 14 | 17 => 4,
        ARRAY => 12,
        STRUCT | UNION | 15 | ENUM64 => 12 * count,
        ENUM | PROTOTYPE => 8 * count,
        POINTER | 7..=12 | FLOAT | TYPE_TAG => 0,
        _ => return None,
    })
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// The name without its flavor, what is behind `___`: by that libbpf compares types.
pub(super) fn essential(name: &[u8]) -> &[u8] {
    let begins_flavor = |five: &[u8]| matches!(five, [first, b'_', b'_', b'_', last] if *first != b'_' && *last != b'_');
    let flavor = name.windows(5).rposition(begins_flavor);
    &name[..flavor.map_or(name.len(), |at| at + 1)]
}
