//! A number of an account: its unit, what it counts, and its names for readers, in sentences and in code.

use crate::unit::Unit;

/// How a number of several calls comes of those of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Added up.
    Sum,
    /// The one that was seen last; it was seen if the number of this name, of the same part and behind it, is not 0.
    Latest {
        /// That number's name.
        seen: &'static str,
    },
    /// The greatest.
    Greatest,
}

/// One number that is kept of a subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it counts, without its unit.
    pub name: &'static str,
    /// In which unit.
    pub unit: Unit,
    /// What exactly, and when.
    pub help: &'static str,
    /// The part of the kernel that has to be looked into, too, for it to be known.
    pub beside: Option<&'static str>,
    /// The part without which it lacks what went through the page cache.
    pub wholly_with: Option<&'static str>,
    /// How it is that of several calls.
    pub merge: Merge,
    /// What one of it is in a sentence, and what several are, where that is not its name.
    words: Option<[&'static str; 2]>,
}

impl Field {
    pub(super) const fn new(name: &'static str, unit: Unit, help: &'static str) -> Field {
        Field { name, unit, help, beside: None, wholly_with: None, merge: Merge::Sum, words: None }
    }

    pub(super) const fn beside(self, part: &'static str) -> Field {
        Field { beside: Some(part), ..self }
    }

    pub(super) const fn wholly_with(self, part: &'static str) -> Field {
        Field { wholly_with: Some(part), ..self }
    }

    /// A state, as it was seen last: known where the number of that name is not 0.
    pub(super) const fn latest(self, seen: &'static str) -> Field {
        Field { merge: Merge::Latest { seen }, ..self }
    }

    pub(super) const fn greatest(self) -> Field {
        Field { merge: Merge::Greatest, ..self }
    }

    /// For bytes and seconds, of which one is no other than several.
    pub(super) const fn in_words(self, words: &'static str) -> Field {
        self.counted(words, words)
    }

    pub(super) const fn counted(self, one: &'static str, several: &'static str) -> Field {
        Field { words: Some([one, several]), ..self }
    }

    /// Whether it is a state that is known only where it was seen, and then 0 as well.
    pub fn is_state(&self) -> bool {
        matches!(self.merge, Merge::Latest { .. })
    }

    /// What its amount is of, in a sentence: `4 requests`, `3 dirtied pages`.
    pub fn words(&self) -> String {
        self.words.map_or_else(|| self.name.replace('_', " "), |[_, several]| several.to_string())
    }

    /// The same of an amount of one: `1 request`.
    pub fn word(&self) -> String {
        self.words.map_or_else(|| singular(&self.words()), |[one, _]| one.to_string())
    }

    /// Its name for readers: base units, `device_seconds`, `sent_bytes_total`, `requests_total`.
    pub fn key(&self) -> String {
        match (self.unit, self.merge) {
            (Unit::Seconds, _) => format!("{}_seconds", self.name),
            (Unit::Bytes, Merge::Sum) => format!("{}_bytes_total", self.name),
            (Unit::Bytes, _) => format!("{}_bytes", self.name),
            (_, Merge::Sum) => format!("{}_total", self.name),
            _ => self.name.to_string(),
        }
    }

    /// Its name in the shared structure, whose numbers are whole: nanoseconds, bytes, counts.
    pub fn slot(&self) -> String {
        match self.unit {
            Unit::Seconds => format!("{}_ns", self.name),
            Unit::Bytes => format!("{}_bytes", self.name),
            _ => self.name.to_string(),
        }
    }

    /// What a number of the shared structure is in base units.
    pub fn in_base_unit(&self, raw: u64) -> f64 {
        match self.unit {
            Unit::Seconds => raw as f64 / 1e9,
            _ => raw as f64,
        }
    }
}

/// One of what that is several of, by the rules that most nouns keep.
pub(crate) fn singular(several: &str) -> String {
    let one = match several {
        name if name.ends_with("ies") => name.strip_suffix("ies").map(|stem| format!("{stem}y")),
        name if name.ends_with("ches") => name.strip_suffix("es").map(str::to_string),
        name => name.strip_suffix('s').map(str::to_string),
    };
    one.unwrap_or_else(|| several.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::{CPU_COUNTERS, LATER, PART, SUBSYSTEMS};

    #[test]
    fn one_of_what_is_counted_is_told_from_several() {
        let of_parts = SUBSYSTEMS.iter().flat_map(|subsystem| subsystem.fields);
        let counts: Vec<&Field> =
            PART.iter().chain(of_parts).chain(LATER).filter(|f| f.unit == Unit::Count).collect();
        assert!(!counts.is_empty());
        for field in counts {
            assert_ne!(field.word(), field.words(), "{}: 1 what, and 2 what?", field.key());
        }
        assert!(CPU_COUNTERS.iter().all(|counter| singular(counter.name) != counter.name));
        let words = ["entries", "switches", "handles", "dirtied pages"];
        assert_eq!(words.map(singular), ["entry", "switch", "handle", "dirtied page"]);
    }
}
