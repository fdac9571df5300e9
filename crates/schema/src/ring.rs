//! Rings that programs in the kernel write records into, and that many may read at once: how they lie in
//! memory, declared once. Programs, readers and `libweigh/src/ring.h` are derived from it.
//!
//! An array of the kernel's has an element for each ring: a line that says what it is, the data, and behind it
//! room for one record more. So no record wraps: one that begins before the end goes on behind it. Nobody but
//! programs writes there, once the first lines are written: the array is frozen. A second array has a line for
//! each ring, with how far its owner has read: what lies behind that may be written again.
//!
//! To write, a program moves the ring's head on by what the record takes, fills it, and writes the stamp that
//! stands before it last ([`stamp`]): its position and 1, and the key of these rings, by which 64 bits of a record, which
//! a program that is followed may choose, cannot be taken for a stamp when another one is to stand there. What the
//! record did not need of its room is given back: the head moves back to its end, by less than [`Layout::spare`]. So a
//! reader at position `p`, below the head, finds the record whole when its stamp is that of `p`, and has been overtaken
//! when the head is more than [`Layout::kept`] beyond `p`: then what it has read meanwhile may be of several records. The owner is never overtaken, for a program that finds no room
//! before the owner's position gives its record up, and counts it.

use std::fmt::Write as _;

/// What the first word of a ring is.
pub const MAGIC: u64 = 0x0033_676e_6972_6777;
/// Bytes of a line: what is written by different sides lies in different ones.
pub const LINE: usize = 64;
/// Bytes before a record: its stamp.
pub const STAMP: usize = 8;
/// Positions are a multiple of this.
pub const ALIGNMENT: usize = 8;
/// Bytes behind the data: the largest record and its stamp.
pub const SLOP: usize = 32 * 1024;
/// Bytes of the largest record.
pub const MOST_RECORD: usize = SLOP - STAMP;
/// The least and the most bytes of data. The kernel's verifier allows for no offset of 2^29.
pub const LEAST_BYTES: usize = 4096;
/// See above.
pub const MOST_BYTES: usize = 1 << 28;
/// Rings of an array.
pub const MOST_RINGS: usize = 1 << 16;

/// One part in so many of a small ring may have been written over although its head does not say so.
const SPARE: usize = 8;

/// Where the words of a ring's first line lie.
pub mod word {
    /// What it is: [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// How many rings there are.
    pub const RINGS: usize = 8;
    /// Bytes of the data of each.
    pub const BYTES: usize = 16;
    /// How many bytes were ever reserved in it.
    pub const HEAD: usize = 24;
    /// A number that nobody can guess, the same in all rings of an array.
    pub const KEY: usize = 32;
}

/// The rings of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many.
    pub rings: usize,
    /// Bytes of the data of each: a power of 2.
    pub bytes: usize,
}

impl Layout {
    /// None if there can be no such rings.
    pub fn new(rings: u64, bytes: u64) -> Option<Layout> {
        let (rings, bytes) = (usize::try_from(rings).ok()?, usize::try_from(bytes).ok()?);
        let is_sound = (1..=MOST_RINGS).contains(&rings)
            && bytes.is_power_of_two()
            && (LEAST_BYTES..=MOST_BYTES).contains(&bytes);
        is_sound.then_some(Layout { rings, bytes })
    }

    /// Bytes of an element.
    pub fn element(&self) -> usize {
        LINE + self.bytes + SLOP
    }

    /// Bytes of all of them.
    pub fn all(&self) -> usize {
        self.rings * self.element()
    }

    /// Bytes of the array of positions that have been read.
    pub fn consumers(&self) -> usize {
        self.rings * LINE
    }

    /// A head has been at most so many bytes further on than it is: records that take more never give room back.
    pub fn spare(&self) -> usize {
        SLOP.min(self.bytes / SPARE)
    }

    /// Bytes before the head that are as they were written.
    pub fn kept(&self) -> usize {
        self.bytes - self.spare()
    }

    /// Where a word of a ring's first line lies in the array.
    pub fn word(&self, ring: usize, word: usize) -> usize {
        ring * self.element() + word
    }

    /// Where the stamp of the record at a position lies in the array.
    pub fn stamp(&self, ring: usize, position: u64) -> usize {
        ring * self.element() + LINE + (position as usize & (self.bytes - 1))
    }

    /// Where the position lies in the other array that has been read in a ring.
    pub fn consumer(&self, ring: usize) -> usize {
        ring * LINE
    }
}

/// What stands before the record at a position when it is whole.
pub const fn stamp(position: u64, key: u64) -> u64 {
    position.wrapping_add(1).wrapping_add(key)
}

/// How far it is from a record of so many bytes to the next.
pub const fn step(record: usize) -> usize {
    (STAMP + record).next_multiple_of(ALIGNMENT)
}

/// `libweigh/src/ring.h`.
pub fn header() -> String {
    let mut text = String::from(
        "/* Derived from crates/schema/src/ring.rs, which says how rings are read, by `weigh generate`. */\n\
         #ifndef WEIGH_RING_H\n#define WEIGH_RING_H\n\n",
    );
    let _ = writeln!(text, "#define WEIGH_RING_MAGIC {MAGIC:#018x}ULL");
    let numbers = [
        ("LINE", LINE, "bytes before a ring's data, and of a line of the array of consumers"),
        ("STAMP", STAMP, "bytes before a record"),
        ("ALIGNMENT", ALIGNMENT, "of positions"),
        ("SLOP", SLOP, "bytes behind a ring's data"),
        ("MOST_RECORD", MOST_RECORD, "bytes of the largest record"),
        ("LEAST_BYTES", LEAST_BYTES, "of a ring's data"),
        ("MOST_BYTES", MOST_BYTES, "of a ring's data"),
        ("MOST_RINGS", MOST_RINGS, "of an array"),
    ];
    for (name, value, help) in numbers {
        let _ = writeln!(text, "#define WEIGH_RING_{name} {value} /* {help} */");
    }
    let _ = writeln!(
        text,
        "/* Bytes before a ring's head that are as they were written. */\n\
         #define WEIGH_RING_KEPT(bytes) ((bytes) - ((bytes) / {SPARE} < {SLOP} ? (bytes) / {SPARE} : {SLOP}))"
    );
    text.push_str(
        "\n/* The first line of a ring; an element of the array is LINE + bytes + SLOP. */\nstruct weigh_ring_line {\n",
    );
    let words = [
        (word::MAGIC, "magic", "what it is"),
        (word::RINGS, "rings", "how many there are"),
        (word::BYTES, "bytes", "of the data of each: a power of 2"),
        (word::HEAD, "head", "how many bytes were ever reserved in it"),
        (word::KEY, "key", "a record's stamp is its position, and 1, and this"),
    ];
    for (_, name, help) in words {
        let _ = writeln!(text, "\tunsigned long long {name}; /* {help} */");
    }
    text.push_str("};\n\n#endif\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_each_other_and_the_last_has_room_behind_the_data() {
        let layout = Layout { rings: 3, bytes: 4096 };
        assert_eq!(layout.stamp(1, 4096), layout.stamp(1, 0));
        let last = layout.stamp(1, 4096 - ALIGNMENT as u64);
        assert!(last + step(MOST_RECORD) <= layout.word(2, 0));
        assert_eq!((step(40), step(41), step(MOST_RECORD)), (48, 56, SLOP));
        assert_eq!(layout.element() % LINE, 0);
        let spare = |bytes| Layout { rings: 1, bytes }.spare();
        assert_eq!([4096, 1 << 18, 1 << 28].map(spare), [512, SLOP, SLOP]);
        assert_eq!(layout.kept(), 3584);
    }

    #[test]
    fn rings_that_can_not_be_are_none() {
        for (rings, bytes) in [(0, 4096), (1, 4095), (1, 2048), (1, 1 << 29), (1 << 17, 4096)] {
            assert_eq!(Layout::new(rings, bytes), None);
        }
        assert_eq!(Layout::new(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn the_words_of_the_header_lie_where_it_is_said() {
        let order = [word::MAGIC, word::RINGS, word::BYTES, word::HEAD, word::KEY];
        assert!(order.iter().enumerate().all(|(index, word)| *word == index * 8));
    }
}
