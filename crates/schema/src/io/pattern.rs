//! How a process goes through a file in one direction, for ptrace: as `collect/bpf/io/access_rules.h` has it in C.

use super::field::Field;
use super::usage::{Direction, Numbers, SEEN, STRIDES, Stretch};

/// On from the last one, at the same distance as before, ahead, elsewhere: of reads, and of writes.
const PATTERNS: [[Field; 4]; 2] = [
    [Field::ConsecutiveReads, Field::StridedReads, Field::SequentialReads, Field::RandomReads],
    [Field::ConsecutiveWrites, Field::StridedWrites, Field::SequentialWrites, Field::RandomWrites],
];
const AGAIN: [Field; 2] = [Field::Reread, Field::Rewritten];

/// The last access.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    accesses: u64,
    from: u64,
    to: u64,
    stride: i64,
}

impl Cursor {
    /// An access at a known place.
    pub fn place(
        &mut self,
        numbers: &mut Numbers,
        direction: &mut Direction,
        which: usize,
        from: u64,
        bytes: u64,
    ) {
        let to = from + bytes;
        let mut add = |field: Field, more: u64| numbers.set(field, numbers.get(field) + more);
        add(Field::Placed, 1);
        let stride = from.wrapping_sub(self.from) as i64;
        if self.accesses > 0 {
            let follows = from == self.to;
            let pattern = match () {
                () if follows => 0,
                () if stride != 0 && stride == self.stride => 1,
                () if self.to < from => 2,
                () => 3,
            };
            add(PATTERNS[which][pattern], 1);
            if !follows {
                count_stride(&mut direction.strides, stride);
            }
        }
        if bytes > 0 {
            let (again, forgotten) = see(&mut direction.seen, from, to);
            add(AGAIN[which], again);
            add(Field::Forgotten, forgotten);
        }
        numbers.set(Field::Lowest, numbers.get(Field::Lowest).min(from));
        numbers.set(Field::Highest, numbers.get(Field::Highest).max(to));
        self.stride = if self.accesses > 0 { stride } else { 0 };
        self.accesses += 1;
        (self.from, self.to) = (from, to);
    }
}

/// The commonest strides: one that is new takes the place of one that was counted down to nothing.
fn count_stride(strides: &mut Vec<(i64, u64)>, stride: i64) {
    if let Some((_, times)) = strides.iter_mut().find(|(known, _)| *known == stride) {
        *times += 1;
        return;
    }
    if strides.len() < STRIDES {
        strides.push((stride, 1));
        return;
    }
    strides.iter_mut().for_each(|(_, times)| *times -= 1);
    strides.retain(|(_, times)| *times > 0);
}

/// Takes note of a stretch: how many of its bytes were known, and whether another had to be forgotten.
fn see(seen: &mut Vec<Stretch>, from: u64, to: u64) -> (u64, u64) {
    let mut again = 0;
    let mut range = Stretch { from, to };
    seen.retain(|known| {
        let touches = known.from <= to && from <= known.to;
        if touches {
            again += known.to.min(to).saturating_sub(known.from.max(from));
            range = Stretch { from: range.from.min(known.from), to: range.to.max(known.to) };
        }
        !touches
    });
    // The one that was touched last comes first.
    seen.insert(0, range);
    let forgotten = seen.len().saturating_sub(SEEN) as u64;
    seen.truncate(SEEN);
    (again, forgotten)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(accesses: &[(u64, u64)]) -> (Numbers, Direction) {
        let (mut numbers, mut direction) = (Numbers::default(), Direction::default());
        let mut cursor = Cursor::default();
        for (from, bytes) in accesses {
            cursor.place(&mut numbers, &mut direction, 0, *from, *bytes);
        }
        (numbers, direction)
    }

    #[test]
    fn the_four_ways_through_a_file() {
        let walked = [(0, 10), (10, 10), (30, 10), (50, 10), (70, 10), (5, 1)];
        let (numbers, direction) = walk(&walked);
        let counts = PATTERNS[0].map(|field| numbers.get(field));
        // 30 is the first step of a stride, 50 and 70 go on with it.
        assert_eq!(counts, [1, 2, 1, 1]);
        assert_eq!(direction.strides, [(20, 3), (-65, 1)]);
        assert_eq!((numbers.get(Field::Lowest), numbers.get(Field::Highest)), (0, 80));
        assert_eq!(numbers.get(Field::Reread), 1);
        assert_eq!(numbers.get(Field::Placed), walked.len() as u64);
    }

    #[test]
    fn what_is_read_again_is_counted_and_what_is_forgotten_too() {
        let (numbers, direction) = walk(&[(0, 100), (50, 100)]);
        assert_eq!(numbers.get(Field::Reread), 50);
        assert_eq!(direction.seen, [Stretch { from: 0, to: 150 }]);
        let apart: Vec<(u64, u64)> = (0..6).map(|i| (1000 * i, 1)).collect();
        let (numbers, direction) = walk(&apart);
        assert_eq!((numbers.get(Field::Forgotten), direction.seen.len()), (2, SEEN));
    }
}
