//! A row of the table of usage: what one process did with one file, all together.

use weigh_schema::io::{Direction, Field, Numbers, Object, OffsetHistogram, Sources, Use};

use super::extents;

/// What one process did with one file, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// What the file is.
    pub object: Object,
    /// Whether it had been deleted when it was told of last.
    pub is_deleted: bool,
    /// The numbers.
    pub numbers: Numbers,
    /// Reads and writes.
    pub directions: [Direction; 2],
    /// Where in the file.
    pub places: OffsetHistogram,
    /// The slowest call: its time, its number, when it ended.
    pub slowest: (u64, u64, u64),
    /// The mechanisms that counted it.
    pub sources: Sources,
}

impl Row {
    /// Takes in what another thread did at the same time: each byte was read, or written, again by nobody but
    /// who read it before.
    pub(super) fn join(&mut self, other: &Row) {
        self.numbers.fold(&other.numbers);
        self.places.fold(&other.places);
        for (mine, theirs) in self.directions.iter_mut().zip(&other.directions) {
            extents::join(&mut mine.seen, &theirs.seen);
        }
    }

    /// Takes in what was done later: what it has in common with before was read, or written, again.
    pub fn fold(&mut self, more: &Use) {
        let again = [Field::Reread, Field::Rewritten];
        self.numbers.fold(&more.numbers);
        self.places.fold(&more.places);
        for (which, field) in again.into_iter().enumerate() {
            let (mine, theirs) = (&mut self.directions[which], &more.directions[which]);
            let twice = self.numbers.get(field) + extents::common(&mine.seen, &theirs.seen);
            self.numbers.set(field, twice);
            let forgotten = extents::join(&mut mine.seen, &theirs.seen);
            let forgotten = self.numbers.get(Field::Forgotten) + forgotten;
            self.numbers.set(Field::Forgotten, forgotten);
            fold_strides(&mut mine.strides, &theirs.strides);
        }
        if more.object != Object::Unknown {
            self.object = more.object;
        }
        self.is_deleted |= more.is_deleted;
        self.slowest = self.slowest.max(more.slowest);
        self.sources.join(more.sources);
    }
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
