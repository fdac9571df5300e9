//! Which rows of a page have a value: a bit for each, the first is the lowest of the first word.

use super::pack;

/// Rows of a page: what all columns of it take stays in a processor's cache.
pub(super) const PAGE_ROWS: usize = 8192;

/// Bytes of what a page begins with, at most: how long that is, how many words follow, and they.
pub(super) const MOST_BYTES: usize = 4 + 8 + PAGE_ROWS / 8;

/// None where all rows have one.
pub(super) struct Presence(Option<Box<[u64; PAGE_ROWS / 64]>>);

impl Presence {
    pub(super) fn new(may_lack: bool) -> Presence {
        Presence(may_lack.then(|| Box::new([0; PAGE_ROWS / 64])))
    }

    /// This row has one.
    #[inline]
    pub(super) fn mark(&mut self, row: usize) {
        if let Some(word) = self.0.as_mut().and_then(|words| words.get_mut(row / 64)) {
            *word |= 1 << (row % 64);
        }
    }

    /// So many from this row on have one.
    pub(super) fn mark_all(&mut self, first: usize, count: usize) {
        let Some(words) = &mut self.0 else { return };
        let end = first + count;
        for (place, word) in words.iter_mut().enumerate().skip(first / 64) {
            let (low, high) = (first.max(place * 64), end.min(place * 64 + 64));
            if low >= high {
                break;
            }
            *word |= u64::MAX >> (64 - (high - low)) << (low % 64);
        }
    }

    /// What a page of so many rows and values begins with.
    pub(super) fn write(&mut self, rows: usize, values: usize, page: &mut Vec<u8>) {
        if let Some(words) = &self.0 {
            pack::presence(rows, values, &words[..], page);
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(words) = &mut self.0 {
            words.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rows_are_marked_as_each_of_them_is() {
        for (first, count) in [(0, 0), (0, 1), (0, 64), (63, 2), (7, 200), (PAGE_ROWS - 3, 3)] {
            let (mut all, mut each) = (Presence::new(true), Presence::new(true));
            all.mark_all(first, count);
            (first..first + count).for_each(|row| each.mark(row));
            assert_eq!(all.0, each.0, "{count} from {first} on");
        }
    }
}
