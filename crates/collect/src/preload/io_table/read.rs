//! From the numbers of a use to the words of the schema.

use weigh_schema::Unit;
use weigh_schema::byte_text;
use weigh_schema::io::{
    Direction, FIELDS, Field, FileId, Fold, Named, Numbers, Object, OffsetHistogram, SEEN, STRIDES,
    Sources, Stretch, Use, Who,
};

use crate::calls::shim::ticks::TickRate;
use crate::preload::uses_layout::{DIRECTION, DIRECTION_WORDS, NAME_BYTES, USE};

/// How the kernel marks a path that leads nowhere any more.
const DELETED: &str = " (deleted)";

/// A use as it was at one moment.
pub struct Words(Vec<u64>);

/// The place of a number.
pub fn at(name: &str) -> usize {
    USE.iter().position(|field| *field == name).unwrap_or(0)
}

impl Words {
    /// All numbers of a use.
    pub fn new(words: Vec<u64>) -> Words {
        Words(words)
    }

    /// One of them.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(at(name)).copied().unwrap_or_default()
    }

    /// Whose it is, as the library knows it.
    pub fn pid(&self) -> u32 {
        self.get("pid") as u32
    }

    /// Which file it is of.
    pub fn file(&self) -> FileId {
        FileId {
            device: self.get("device") as u32,
            generation: self.get("born") as u32,
            inode: self.get("inode"),
        }
    }

    fn object(&self) -> Object {
        Object::of_mode(self.get("mode") as u32, self.get("rdev") as u32)
    }

    fn is_deleted(&self) -> bool {
        self.object() == Object::Regular && self.get("links") == 0
    }

    /// What the file is called.
    pub fn named(&self) -> Named {
        let length = self.get("name_bytes") as usize;
        let from = USE.len() + Numbers::WORDS + 2 * DIRECTION_WORDS;
        let bytes: Vec<u8> = self.0[from..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let text = byte_text::keep(&bytes[..length.min(NAME_BYTES)]);
        let text = if length > NAME_BYTES { format!("…{text}") } else { text };
        let object = self.object();
        let name = match object {
            Object::Socket => format!("socket [{}]", self.get("inode")),
            Object::Anonymous => "anonymous inode".to_string(),
            Object::Regular => text.strip_suffix(DELETED).unwrap_or(&text).to_string(),
            _ => text,
        };
        Named { file: self.file(), object, name }
    }

    /// What was done with it; none if the numbers are too few.
    pub fn used(&self, pid: u32, pace: &TickRate, began_ns: u64) -> Option<Use> {
        let moment = |at: u64| pace.moment_ns(at).saturating_sub(began_ns);
        let mut numbers = Numbers::from_words(self.0.get(USE.len()..)?)?;
        for field in FIELDS.iter().filter(|field| field.unit() == Unit::Seconds) {
            let Some(known) = numbers.known(*field) else { continue };
            numbers.set(
                *field,
                match field.fold() {
                    Fold::Sum => pace.span_ns(known),
                    _ if known == 0 => 0,
                    _ => moment(known),
                },
            );
        }
        let is_used = numbers.get(Field::Last) > 0;
        Some(Use {
            sources: Sources::default(),
            file: self.file(),
            who: Who { pid, tid: 0 },
            object: if is_used { self.object() } else { Object::Unknown },
            is_deleted: self.is_deleted(),
            numbers,
            directions: [self.direction(0)?, self.direction(1)?],
            slowest: (
                pace.span_ns(self.get("slowest_time")),
                self.get("slowest_call"),
                moment(self.get("slowest_at")),
            ),
            // Where in the file is not kept apart in the programs.
            places: OffsetHistogram::default(),
        })
    }

    fn direction(&self, which: usize) -> Option<Direction> {
        let from = USE.len() + Numbers::WORDS + which * DIRECTION_WORDS + DIRECTION.len();
        let pairs = self.0.get(from..from + 2 * (SEEN + STRIDES))?;
        let pairs: Vec<(u64, u64)> = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let (seen, strides) = pairs.split_at(SEEN);
        let stretch = |(from, to): &(u64, u64)| Stretch { from: *from, to: *to };
        Some(Direction {
            seen: seen.iter().map(stretch).filter(|s| s.from < s.to).collect(),
            strides: strides
                .iter()
                .filter(|(_, times)| *times > 0)
                .map(|(bytes, times)| (*bytes as i64, *times))
                .collect(),
        })
    }
}
