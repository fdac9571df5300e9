//! Numbers by the hashes of what they are found by.

/// Numbers at the places of their hashes, or behind; 0 where nothing is.
pub(super) struct Index(Vec<u32>);

impl Index {
    /// Half of the places are free at least, so that each search ends.
    pub(super) fn with_room_for(count: usize) -> Index {
        Index(vec![0; (2 * count).next_power_of_two()])
    }

    /// Of several with a hash the first is found first.
    pub(super) fn add(&mut self, hash: u64, number: u32) {
        let mut place = self.begin(hash);
        while self.0[place] != 0 {
            place = self.next(place);
        }
        self.0[place] = number;
    }

    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
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

/// Of its length, beginning, middle and end, without a loop: few names differ elsewhere alone.
pub(super) fn hash(string: &[u8]) -> u64 {
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

pub(super) fn step(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
