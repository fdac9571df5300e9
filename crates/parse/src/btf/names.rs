//! Strings and types by name.
//!
//! A kernel has a hundred thousand names, and one who follows each type to its own waits for memory most of the time. So
//! the strings are gone through once, one after the other, and a type is found by where its name lies.

use super::{Btf, FUNCTION, STRUCT, TYPEDEF};

/// Numbers at the places of their hashes, or behind; 0 where nothing is.
pub(super) struct Index(Vec<u32>);

impl Index {
    /// Half of the places are free at least, so that each search ends.
    fn with_room_for(count: usize) -> Index {
        Index(vec![0; (2 * count).next_power_of_two()])
    }

    /// Of several with a hash the first is found first.
    fn add(&mut self, hash: u64, number: u32) {
        let mut place = self.begin(hash);
        while self.0[place] != 0 {
            place = self.next(place);
        }
        self.0[place] = number;
    }

    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = self.begin(hash);
        loop {
            match self.0[place] {
                0 => return None,
                number if is_it(number) => return Some(number),
                _ => place = self.next(place),
            }
        }
    }

    fn begin(&self, hash: u64) -> usize {
        hash as usize & (self.0.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.0.len() - 1)
    }
}

impl Btf<'_> {
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

/// Of its length, beginning, middle and end, without a loop: few names differ elsewhere alone.
fn hash(string: &[u8]) -> u64 {
    let length = string.len() as u64;
    let word = |at: usize| string[at..].first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
    match string.len().checked_sub(8) {
        Some(last) => {
            let words = [word(0), word(last / 2), word(last)];
            words.into_iter().flatten().fold(length, step)
        }
        None => step(length, string.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))),
    }
}

fn step(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
