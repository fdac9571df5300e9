//! Type information of some types alone.
//!
//! Emits BTF of the types with the names asked for, whatever their flavor, and of what they hold. What a pointer leads
//! to is left out: relocations do not follow pointers. Type numbers are others than the kernel's.

use std::collections::{HashMap, HashSet};

use super::types::{
    ARRAY, Btf, ENUM, ENUM64, FLOAT, HEADER, INT, POINTER, RESTRICT, STRUCT, TYPE, TYPE_TAG,
    TYPEDEF, UNION, VOLATILE, essential, length,
};

/// Types within types, at most.
const DEEPEST: usize = 64;

/// The kinds that relocations begin at.
const ROOTS: [u32; 5] = [STRUCT, UNION, ENUM, ENUM64, TYPEDEF];

/// Type information with some types only.
pub struct Subset {
    /// The bytes, for libbpf.
    pub bytes: Vec<u8>,
    /// The names of which no type was found.
    pub missing: HashSet<Vec<u8>>,
}

impl Btf<'_> {
    /// The types of these names, and what they hold. None if something in them is not understood.
    pub fn subset(&self, names: &HashSet<Vec<u8>>) -> Option<Subset> {
        let mut writer = Writer::new(self);
        let mut missing = names.clone();
        let wanted = self.begins_of(names);
        for id in self.ids().filter(|id| self.kind(*id).is_some_and(|kind| ROOTS.contains(&kind))) {
            if wanted.has(self.name_begins(id)) {
                missing.remove(essential(self.name(id)));
                writer.add(id, 0)?;
            }
        }
        Some(Subset { bytes: writer.finish(), missing })
    }

    /// Where these names begin among the strings, whatever their flavor.
    fn begins_of(&self, names: &HashSet<Vec<u8>>) -> Bits {
        let strings = self.all_strings();
        let mut wanted = Bits(vec![0; strings.len() / 64 + 1]);
        names.iter().filter_map(|name| self.find_string(name)).for_each(|begin| wanted.set(begin));
        for at in memchr::memmem::find_iter(strings, b"___") {
            let begin = strings[..at].iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
            if names.contains(essential(self.string(begin as u32))) {
                wanted.set(begin as u32);
            }
        }
        wanted
    }
}

struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, bit: u32) {
        self.0[bit as usize / 64] |= 1 << (bit % 64);
    }

    fn has(&self, bit: u32) -> bool {
        self.0.get(bit as usize / 64).is_some_and(|word| word & 1 << (bit % 64) != 0)
    }
}

struct Writer<'a, 'b> {
    from: &'a Btf<'b>,
    types: Vec<Vec<u32>>,
    /// The new numbers of types.
    ids: HashMap<u32, u32>,
    strings: Vec<u8>,
    offsets: HashMap<u32, u32>,
}

impl<'a, 'b> Writer<'a, 'b> {
    fn new(from: &'a Btf<'b>) -> Writer<'a, 'b> {
        let (ids, offsets) = (HashMap::from([(0, 0)]), HashMap::from([(0, 0)]));
        Writer { from, types: Vec::new(), ids, strings: vec![0], offsets }
    }

    fn string(&mut self, offset: u32) -> u32 {
        *self.offsets.entry(offset).or_insert_with(|| {
            let new = self.strings.len() as u32;
            self.strings.extend_from_slice(self.from.string(offset));
            self.strings.push(0);
            new
        })
    }

    /// Adds a type and what it holds; its new number.
    fn add(&mut self, id: u32, depth: usize) -> Option<u32> {
        if let Some(new) = self.ids.get(&id) {
            return Some(*new);
        }
        let (at, kind) = (self.from.at(id)?, self.from.kind(id)?);
        if depth > DEEPEST {
            return None;
        }
        let new = self.types.len() as u32 + 1;
        self.ids.insert(id, new);
        self.types.push(Vec::new());
        let [name, info, size] = [0, 4, 8].map(|offset| self.from.word(at + offset));
        let count = (info & 0xffff) as usize;
        let rest = length(kind, count)? / 4;
        let mut words: Vec<u32> = (0..rest).map(|n| self.from.word(at + TYPE + 4 * n)).collect();
        let mut size = size;
        match kind {
            INT | FLOAT => {}
            POINTER => size = 0,
            ARRAY => {
                words[0] = self.add(words[0], depth + 1)?;
                words[1] = self.add(words[1], depth + 1)?;
            }
            STRUCT | UNION => {
                for member in words.chunks_exact_mut(3) {
                    member[0] = self.string(member[0]);
                    member[1] = self.add(member[1], depth + 1)?;
                }
            }
            ENUM => words.chunks_exact_mut(2).for_each(|value| value[0] = self.string(value[0])),
            ENUM64 => words.chunks_exact_mut(3).for_each(|value| value[0] = self.string(value[0])),
            TYPEDEF | VOLATILE..=RESTRICT | TYPE_TAG => size = self.add(size, depth + 1)?,
            // Behind a typedef there may be a function's prototype: nothing is held by it.
            _ => return self.add_nothing(new),
        }
        let name = self.string(name);
        self.types[new as usize - 1] = [vec![name, info, size], words].concat();
        Some(new)
    }

    /// A pointer, in place of what no value is of.
    fn add_nothing(&mut self, new: u32) -> Option<u32> {
        self.types[new as usize - 1] = vec![0, POINTER << 24, 0];
        Some(new)
    }

    fn finish(self) -> Vec<u8> {
        let types: Vec<u32> = self.types.concat();
        let length = 4 * types.len() as u32;
        let header = [0x0001_eb9f, HEADER as u32, 0, length, length, self.strings.len() as u32];
        let words = header.into_iter().chain(types);
        words.flat_map(u32::to_le_bytes).chain(self.strings).collect()
    }
}
