//! Inputs made of seeds by small changes, as fuzzers do: bits, numbers at the edges, parts cut out, doubled, moved to
//! other seeds.

/// Not longer, as in `scripts/fuzz.sh`.
const LONGEST: usize = 8192;
const MOST_CHANGES: usize = 6;
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];
const WORDS: [&[u8]; 16] = [
    b"\0",
    b"\n",
    b"\x1b[2J",
    b"\xff",
    b"\xe2\x80\xa8",
    b"{",
    b"\"",
    b"=",
    b":",
    b" ",
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"null",
    b"../",
    b"%s",
];

pub struct Changes<'a> {
    seeds: &'a [Vec<u8>],
    state: u64,
}

impl<'a> Changes<'a> {
    /// The same for the same name.
    pub fn new(seeds: &'a [Vec<u8>], name: &str) -> Changes<'a> {
        let state = name.bytes().fold(1, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
        Changes { seeds, state }
    }

    /// `SplitMix64`.
    fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    fn seed(&mut self) -> &'a [u8] {
        let at = self.below(self.seeds.len());
        &self.seeds[at]
    }

    /// A part of so many bytes, mostly a short one.
    fn part(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = if self.below(4) == 0 { length } else { 16 };
        start..length.min(start + 1 + self.below(most))
    }

    fn change(&mut self, data: &mut Vec<u8>) {
        let part = self.part(data.len());
        match self.below(8) {
            0 => drop(data.drain(part)),
            1 => self.insert(data, part.start, WORDS[self.state as usize % WORDS.len()]),
            2 => {
                let doubled = data[part.clone()].to_vec();
                self.insert(data, part.start, &doubled);
            }
            3 => {
                let other = self.seed();
                let taken = self.part(other.len());
                data.splice(part, other[taken].iter().copied());
            }
            4 => self.put_edge(data, part.start),
            5 => data.truncate(part.start),
            6 => part.for_each(|at| data[at] = self.number() as u8),
            _ => {
                let bit = 1 << self.below(8);
                if let Some(byte) = data.get_mut(part.start) {
                    *byte ^= bit;
                }
            }
        }
    }

    fn insert(&mut self, data: &mut Vec<u8>, at: usize, bytes: &[u8]) {
        data.splice(at..at, bytes.iter().copied());
    }

    /// A number of 1 to 8 bytes, in either order, or as text.
    fn put_edge(&mut self, data: &mut Vec<u8>, at: usize) {
        let edge =
            EDGES[self.below(EDGES.len())].wrapping_add(self.below(3) as u64).wrapping_sub(1);
        let size = 1 << self.below(4);
        let bytes = match self.below(3) {
            0 => edge.to_le_bytes()[..size].to_vec(),
            1 => edge.to_be_bytes()[8 - size..].to_vec(),
            _ => edge.to_string().into_bytes(),
        };
        let end = data.len().min(at + bytes.len());
        data.splice(at..end, bytes);
    }
}

impl Iterator for Changes<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut data = self.seed().to_vec();
        for _ in 0..=self.below(MOST_CHANGES) {
            self.change(&mut data);
        }
        data.truncate(LONGEST);
        Some(data)
    }
}
