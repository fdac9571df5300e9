//! A set of page frames. Frames lie in a few dense stretches of a wide range, so: small bitmaps,
//! made where they are needed.

use std::collections::HashMap;

const WORDS: usize = 512;
const FRAMES_PER_CHUNK: u64 = WORDS as u64 * 64;

/// A set of frame numbers.
#[derive(Default)]
pub struct FrameSet {
    index: HashMap<u64, usize>,
    chunks: Vec<[u64; WORDS]>,
    /// Neighbours come one after the other: the chunk used last is most often the next one.
    last: Option<(u64, usize)>,
    len: u64,
}

impl FrameSet {
    /// Empties the set and keeps its memory.
    pub fn clear(&mut self) {
        self.chunks.fill([0; WORDS]);
        self.len = 0;
    }

    /// How many frames are in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Adds a frame.
    pub fn insert(&mut self, frame: u64) {
        let chunk = frame / FRAMES_PER_CHUNK;
        let slot = match self.last {
            Some((known, slot)) if known == chunk => slot,
            _ => self.slot(chunk),
        };
        let bit = (frame % FRAMES_PER_CHUNK) as usize;
        let word = &mut self.chunks[slot][bit / 64];
        let mask = 1 << (bit % 64);
        self.len += u64::from(*word & mask == 0);
        *word |= mask;
    }

    fn slot(&mut self, chunk: u64) -> usize {
        let chunks = &mut self.chunks;
        let slot = *self.index.entry(chunk).or_insert_with(|| {
            chunks.push([0; WORDS]);
            chunks.len() - 1
        });
        self.last = Some((chunk, slot));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn it_is_a_set() {
        let mut frames = FrameSet::default();
        let mut reference = HashSet::new();
        let mut x = 12345u64;
        for i in 0..50_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let frame = if i % 2 == 0 { x >> 9 & ((1 << 30) - 1) } else { x >> 40 & 0xfff };
            frames.insert(frame);
            reference.insert(frame);
        }
        assert_eq!(frames.len(), reference.len() as u64);
        frames.clear();
        assert_eq!(frames.len(), 0);
        frames.insert(FRAMES_PER_CHUNK - 1);
        frames.insert(FRAMES_PER_CHUNK);
        frames.insert(FRAMES_PER_CHUNK);
        assert_eq!(frames.len(), 2);
    }
}
