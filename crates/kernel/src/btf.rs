//! The functions that the kernel's type information knows: what a BPF program can be attached to by
//! name (fentry, fexit).
//!
//! Reads BTF (Documentation/bpf/btf.rst), from `/sys/kernel/btf/vmlinux` or an image's section.
//! Emits names. Refuses bytes that are no BTF, and kinds that are newer than this reader, for their
//! length is not known.

use std::collections::HashSet;

use thiserror::Error;

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
const KIND_FUNC: u32 = 12;

/// Why type information cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    /// Something else.
    #[error("it is no little-endian BTF: it begins with {0:02x?}, not with 9f eb 01")]
    NoBtf(Vec<u8>),
    /// It ends too early.
    #[error("{what} lies beyond its end (byte {at}, of {length})")]
    CutShort {
        /// What was looked for.
        what: &'static str,
        /// Where.
        at: usize,
        /// The end.
        length: usize,
    },
    /// A kind from the future.
    #[error("the type at byte {at} is of kind {kind}; kinds up to 19 are known")]
    Kind {
        /// Where.
        at: usize,
        /// Which.
        kind: u32,
    },
}

/// The names of all functions.
pub fn functions(btf: &[u8]) -> Result<HashSet<&str>, BtfError> {
    if !btf.starts_with(&MAGIC.to_le_bytes()) || btf.get(2) != Some(&1) {
        return Err(BtfError::NoBtf(btf[..btf.len().min(3)].to_vec()));
    }
    let header = |at| word(btf, at, "the header").map(|value| value as usize);
    let begin = header(4)?.max(HEADER);
    let types = part(btf, begin, header(8)?, header(12)?, "the types")?;
    let strings = part(btf, begin, header(16)?, header(20)?, "the strings")?;
    let mut names = HashSet::new();
    let mut at = 0;
    while at < types.len() {
        let name = word(types, at, "a type")? as usize;
        let info = word(types, at + 4, "a type")?;
        let kind = (info >> 24) & 0x1f;
        let count = (info & 0xffff) as usize;
        if kind == KIND_FUNC
            && let Some(name) = text(strings, name)
        {
            names.insert(name);
        }
        at += 12 + rest(kind, count).ok_or(BtfError::Kind { at, kind })?;
    }
    Ok(names)
}

/// How much follows a type's three words.
fn rest(kind: u32, count: usize) -> Option<usize> {
    match kind {
        // Integers, variables, and tags of declarations: a word.
        1 | 14 | 17 => Some(4),
        // Pointers, forwards, typedefs, qualifiers, functions, floats, tags of types: nothing.
        2 | 7..=12 | 16 | 18 => Some(0),
        3 => Some(12),
        // Structures, unions, sections, enumerations of 64 bits: three words a member.
        4 | 5 | 15 | 19 => Some(count * 12),
        // Enumerations, prototypes: two.
        6 | 13 => Some(count * 8),
        _ => None,
    }
}

fn part<'a>(
    btf: &'a [u8],
    begin: usize,
    offset: usize,
    length: usize,
    what: &'static str,
) -> Result<&'a [u8], BtfError> {
    let start = begin.saturating_add(offset);
    let end = start.saturating_add(length);
    btf.get(start..end).ok_or(BtfError::CutShort { what, at: end, length: btf.len() })
}

fn word(bytes: &[u8], at: usize, what: &'static str) -> Result<u32, BtfError> {
    let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
    field.map(u32::from_le_bytes).ok_or(BtfError::CutShort {
        what,
        at: at + 4,
        length: bytes.len(),
    })
}

fn text(strings: &[u8], at: usize) -> Option<&str> {
    let bytes = strings.get(at..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(bytes).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF of `int`, `struct {…}` with a member, and two functions.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0vfs_read\0m\0do_it\0";
        let words: &[u32] = &[
            1,
            1 << 24,
            4,
            32, // int
            0,
            4 << 24 | 1,
            8,
            14,
            1,
            0, // struct with `m`
            5,
            12 << 24,
            1, // vfs_read
            16,
            12 << 24,
            1, // do_it
        ];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut btf = MAGIC.to_le_bytes().to_vec();
        btf.extend([1, 0]);
        let (types_length, strings_length) = (types.len() as u32, strings.len() as u32);
        for word in [HEADER as u32, 0, types_length, types_length, strings_length] {
            btf.extend(word.to_le_bytes());
        }
        btf.extend(types);
        btf.extend(strings);
        btf
    }

    #[test]
    fn functions_are_found_behind_types_of_other_lengths() {
        assert_eq!(functions(&sample()), Ok(HashSet::from(["vfs_read", "do_it"])));
    }

    #[test]
    fn what_is_cut_or_new_is_refused() {
        let whole = sample();
        for length in 0..whole.len() {
            assert!(functions(&whole[..length]).is_err(), "{length}");
        }
        let mut new = whole;
        new[HEADER + 7] = 25;
        assert_eq!(functions(&new), Err(BtfError::Kind { at: 0, kind: 25 }));
    }
}
