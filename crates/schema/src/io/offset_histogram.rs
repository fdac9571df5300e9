//! Where in a file bytes were read and written: in a fixed number of places of equal width.

/// So many places of equal width.
pub const PLACES: usize = 32;
/// They are of so many bytes at least, as a power of two: a page.
pub const PLACE_SHIFT: u64 = 12;

/// Bytes by place. All places are as wide as they must be for the last to reach the file's furthest byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetHistogram {
    /// How wide each place is, as a power of two.
    pub shift: u32,
    /// Read, and written.
    pub bytes: [[u64; PLACES]; 2],
}

impl OffsetHistogram {
    /// Makes the places wider, if they are not so wide yet.
    pub fn widen(&mut self, shift: u32) {
        let by = shift.saturating_sub(self.shift);
        if by == 0 {
            return;
        }
        for direction in &mut self.bytes {
            for place in 0..PLACES {
                let bytes = std::mem::take(&mut direction[place]);
                direction[place.checked_shr(by).unwrap_or(0)] += bytes;
            }
        }
        self.shift = shift;
    }

    /// Bytes were read (0) or written (1) from there on; as `collect/bpf/io/offset_histogram.h` has it.
    pub fn add(&mut self, direction: usize, from: u64, bytes: u64) {
        let Some(last) = bytes.checked_sub(1).map(|more| from.saturating_add(more)) else { return };
        let needed = u64::BITS - (last / PLACES as u64).leading_zeros();
        self.widen(needed.max(PLACE_SHIFT as u32));
        let (first, width) = ((from >> self.shift) as usize, 1u64 << self.shift);
        for place in first..=(last >> self.shift) as usize {
            let start = (place as u64) << self.shift;
            let end = (start + (width - 1)).min(last);
            self.bytes[direction & 1][place % PLACES] += end - start.max(from) + 1;
        }
    }

    /// Takes in what was done elsewhere, or later.
    pub fn fold(&mut self, other: &OffsetHistogram) {
        self.combine(other, u64::saturating_add);
    }

    /// What has come since, if `before` was the same at an earlier time.
    pub fn since(&self, before: &OffsetHistogram) -> OffsetHistogram {
        let mut rest = self.clone();
        rest.combine(before, u64::saturating_sub);
        rest
    }

    fn combine(&mut self, other: &OffsetHistogram, combine: fn(u64, u64) -> u64) {
        let mut other = other.clone();
        other.widen(self.shift);
        self.widen(other.shift);
        let theirs = other.bytes.iter().flatten();
        for (mine, theirs) in self.bytes.iter_mut().flatten().zip(theirs) {
            *mine = combine(*mine, *theirs);
        }
    }

    /// Each place where something was done: from where to where it reaches, bytes read, bytes written.
    pub fn used(&self) -> impl Iterator<Item = (u64, u64, u64, u64)> {
        (0..PLACES).filter_map(|place| {
            let (read, written) = (self.bytes[0][place], self.bytes[1][place]);
            let from = (place as u64) << self.shift;
            (read | written > 0).then(|| (from, from + (1 << self.shift), read, written))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(shift: u32, read: &[u64]) -> OffsetHistogram {
        let mut places = OffsetHistogram { shift, ..OffsetHistogram::default() };
        places.bytes[0][..read.len()].copy_from_slice(read);
        places
    }

    #[test]
    fn an_access_lies_in_as_many_places_as_it_reaches() {
        let mut found = OffsetHistogram::default();
        found.add(0, 4000, 200);
        assert_eq!(found, places(12, &[96, 104]));
        found.add(0, 0, 0);
        found.add(0, 32 * 4096 - 1, 1);
        assert_eq!((found.shift, found.bytes[0][31]), (12, 1));
        found.add(0, 32 * 4096 - 1, 2);
        assert_eq!((found.shift, found.bytes[0][15], found.bytes[0][16]), (13, 2, 1));
        let sum: u64 = found.bytes[0].iter().sum();
        assert_eq!(sum, 203);
        // Beyond where any file reaches.
        found.add(1, u64::MAX - 5, 100);
        assert_eq!((found.shift, found.bytes[1][31]), (59, 6));
    }

    #[test]
    fn wider_places_hold_what_narrow_ones_held() {
        let mut wide = places(12, &[1, 2, 4, 8, 16]);
        wide.widen(14);
        assert_eq!(wide, places(14, &[15, 16]));
        wide.widen(60);
        assert_eq!(wide, places(60, &[31]));
    }

    #[test]
    fn places_of_different_width_add_up_and_come_apart() {
        let (narrow, wide) = (places(12, &[1, 2, 4]), places(13, &[8, 16]));
        let mut sum = narrow.clone();
        sum.fold(&wide);
        assert_eq!(sum, places(13, &[11, 20]));
        assert_eq!(sum.since(&narrow), wide);
        let used: Vec<_> = sum.used().collect();
        assert_eq!(used, [(0, 8192, 11, 0), (8192, 16384, 20, 0)]);
    }
}
