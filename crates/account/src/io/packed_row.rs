//! A row of the table of usage: how more is added to it, and how it is kept: of the some two hundred numbers of a file
//! and process most are nothing, and take no room here.

use std::sync::LazyLock;

use weigh_schema::io::{
    Direction, Field, FileId, Numbers, Object, OffsetHistogram, PLACES, Sources, Use, Who,
};

use super::extents;

/// The numbers, how wide the places are, and their bytes.
const WORDS: usize = Numbers::WORDS + 1 + 2 * PLACES;
const MASKS: usize = WORDS.div_ceil(64);

/// What stands for nothing: of some numbers that is not 0.
static BLANK: LazyLock<Vec<u64>> = LazyLock::new(|| words(&Use::default()).collect());

/// What is kept of a row.
#[derive(Clone, Debug, Default)]
pub struct RowState {
    pub(super) object: Object,
    is_deleted: bool,
    sources: Sources,
    /// Which numbers are something; those follow each other in `words`.
    present: [u64; MASKS],
    words: Box<[u64]>,
    /// What was read and what was written, in which order.
    pub(super) directions: [Direction; 2],
    slowest: (u64, u64, u64),
    /// When it was used last, by its process or by a device.
    pub(super) last: u64,
}

impl RowState {
    /// Of a row.
    pub(super) fn of(row: Use) -> RowState {
        let mut kept = RowState {
            object: row.object,
            is_deleted: row.is_deleted,
            sources: row.sources,
            slowest: row.slowest,
            last: row.numbers.get(Field::Last).max(row.numbers.get(Field::WrittenLast)),
            ..RowState::default()
        };
        let mut some = Vec::with_capacity(32);
        for (place, (word, blank)) in words(&row).zip(BLANK.iter()).enumerate() {
            if word != *blank {
                kept.present[place / 64] |= 1 << (place % 64);
                some.push(word);
            }
        }
        kept.words = some.into();
        kept.directions = row.directions;
        kept.directions.iter_mut().for_each(|direction| {
            direction.seen.shrink_to_fit();
            direction.strides.shrink_to_fit();
        });
        kept
    }

    /// The row of this file and process.
    pub fn row(&self, key: &(FileId, Who)) -> Use {
        Use { file: key.0, who: key.1, ..self.with(self.directions.clone()) }
    }

    /// The row but for whose it is, and for what was read and written where: for sums.
    pub(super) fn amounts(&self) -> Use {
        self.with(Default::default())
    }

    fn with(&self, directions: [Direction; 2]) -> Use {
        let mut row = Use {
            object: self.object,
            is_deleted: self.is_deleted,
            sources: self.sources,
            directions,
            slowest: self.slowest,
            ..Use::default()
        };
        let mut some = self.words.iter().copied();
        let mut places = [0; 1 + 2 * PLACES];
        for (place, word) in row.numbers.words_mut().chain(&mut places).enumerate() {
            if self.present[place / 64] >> (place % 64) & 1 == 1 {
                *word = some.next().unwrap_or(0);
            }
        }
        let [shift, bytes @ ..] = places;
        row.places.shift = shift as u32;
        row.places.bytes.as_flattened_mut().copy_from_slice(&bytes);
        row
    }

    /// Takes in what was done later.
    pub(super) fn fold(&mut self, more: &Use) {
        let directions = std::mem::take(&mut self.directions);
        let mut row = self.with(directions);
        fold(&mut row, more);
        *self = RowState::of(row);
    }
}

/// Takes in what another thread did at the same time: each byte was read, or written, again by nobody but
/// who read it before.
pub(super) fn join(row: &mut Use, other: &Use) {
    row.numbers.fold(&other.numbers);
    row.places.fold(&other.places);
    for (mine, theirs) in row.directions.iter_mut().zip(&other.directions) {
        extents::join(&mut mine.seen, &theirs.seen);
    }
}

/// Takes in what was done later: what it has in common with before was read, or written, again.
pub(super) fn fold(row: &mut Use, more: &Use) {
    let again = [Field::Reread, Field::Rewritten];
    row.numbers.fold(&more.numbers);
    row.places.fold(&more.places);
    for (which, field) in again.into_iter().enumerate() {
        let (mine, theirs) = (&mut row.directions[which], &more.directions[which]);
        let twice = row.numbers.get(field) + extents::common(&mine.seen, &theirs.seen);
        row.numbers.set(field, twice);
        let forgotten = extents::join(&mut mine.seen, &theirs.seen);
        let forgotten = row.numbers.get(Field::Forgotten) + forgotten;
        row.numbers.set(Field::Forgotten, forgotten);
        fold_strides(&mut mine.strides, &theirs.strides);
    }
    if more.object != Object::Unknown {
        row.object = more.object;
    }
    row.is_deleted |= more.is_deleted;
    row.slowest = row.slowest.max(more.slowest);
    row.sources.join(more.sources);
}

fn fold_strides(mine: &mut Vec<(i64, u64)>, theirs: &[(i64, u64)]) {
    for (bytes, times) in theirs {
        match mine.iter_mut().find(|(known, _)| known == bytes) {
            Some((_, sum)) => *sum += times,
            None => mine.push((*bytes, *times)),
        }
    }
    mine.sort_by_key(|(bytes, times)| (std::cmp::Reverse(*times), *bytes));
    mine.truncate(weigh_schema::io::STRIDES);
}

fn words(row: &Use) -> impl Iterator<Item = u64> {
    let OffsetHistogram { shift, bytes } = &row.places;
    row.numbers.words().chain([u64::from(*shift)]).chain(bytes.iter().flatten().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::io::Stretch;

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let file = FileId { inode: 7, ..FileId::default() };
        let mut row = Use {
            file,
            who: Who { pid: 5, tid: 6 },
            object: Object::Disk,
            slowest: (1, 2, 3),
            sources: Sources::BPF,
            ..Use::default()
        };
        let key = (row.file, row.who);
        assert_eq!(RowState::of(row.clone()).row(&key), row);
        assert!(RowState::of(row.clone()).words.is_empty());
        for (place, word) in row.numbers.words_mut().enumerate().filter(|(i, _)| i % 3 == 0) {
            *word = 7 + place as u64;
        }
        row.numbers.set(Field::Lowest, 0);
        row.places = OffsetHistogram { shift: 13, ..OffsetHistogram::default() };
        row.places.bytes[1][PLACES - 1] = 5;
        row.directions[1].seen.push(Stretch { from: 3, to: 4 });
        let kept = RowState::of(row.clone());
        assert_eq!(kept.row(&key), row);
        let last = row.numbers.get(Field::Last).max(row.numbers.get(Field::WrittenLast));
        assert_eq!((kept.amounts().numbers, kept.last), (row.numbers.clone(), last));
    }

    /// What one file takes: so many of them are kept that it matters.
    #[test]
    fn a_file_takes_little_room() {
        assert!(size_of::<RowState>() <= 200, "{}", size_of::<RowState>());
    }
}
