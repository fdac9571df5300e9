//! What else is known of each file and process, in the shape that the page wants: numbers behind each other in short
//! lists, for a page has thousands of rows. The words are the terminal's.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use weigh_schema::io::{Field, FileUse, Stride, Transfer};
use weigh_schema::{Number, Quality, Unit};

use crate::io::details::{DOUBTS, PARTS, about, doubts, number};

/// Numbers that belong together.
#[derive(Clone, Debug, Serialize)]
pub struct DetailPart {
    /// What they are about.
    pub title: &'static str,
    /// The numbers.
    pub fields: Vec<DetailField>,
}

/// A number that is kept of each file and process.
#[derive(Clone, Debug, Serialize)]
pub struct DetailField {
    /// Its key in JSON.
    pub key: String,
    /// Its word.
    pub word: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Its unit.
    pub unit: Unit,
}

/// Why numbers of a row are not exact.
#[derive(Clone, Debug, Serialize)]
pub struct DetailDoubt {
    /// What it is about.
    pub about: &'static str,
    /// How far they can be trusted.
    pub quality: Quality,
    /// What stands before them.
    pub sign: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Their keys.
    pub keys: Vec<String>,
}

/// What else is known, by column: as many rows as the files have.
#[derive(Clone, Debug, Serialize)]
pub struct FileDetails {
    /// The words: the fields of all parts, one after the other, are those that `numbers` point to.
    pub parts: Vec<DetailPart>,
    /// What `doubts` point to.
    pub doubt: Vec<DetailDoubt>,
    /// Kinds of transfer.
    pub kind: Vec<&'static str>,
    /// Texts, each once; other columns point here.
    pub texts: Vec<String>,
    /// What kind of object it is, and who has counted, in words.
    pub about: Vec<u32>,
    /// The place of a field, its number, the next place; numbers that are nothing are left out.
    pub numbers: Vec<Vec<Number>>,
    /// The place of a kind, bytes read, by how many calls, bytes written, by how many calls, the next place; what is
    /// not seen is nothing.
    pub kinds: Vec<Vec<u64>>,
    /// Reads by size: from how many bytes on, how many, the next size.
    pub read_sizes: Vec<Vec<u64>>,
    /// Writes by size.
    pub write_sizes: Vec<Vec<u64>>,
    /// How far, how often, the next distance.
    pub read_strides: Vec<Vec<i64>>,
    /// The same of writes.
    pub write_strides: Vec<Vec<i64>>,
    /// The slowest call, if there is one.
    pub slowest: Vec<Option<u32>>,
    /// How long it took; 0 without one.
    pub slowest_seconds: Vec<f64>,
    /// When it ended.
    pub slowest_at: Vec<f64>,
    /// Why numbers are not exact.
    pub doubts: Vec<Vec<u32>>,
    #[serde(skip)]
    index: HashMap<String, u32>,
}

impl Default for FileDetails {
    fn default() -> FileDetails {
        FileDetails {
            parts: PARTS.iter().map(|part| named(part.title, part.fields)).collect(),
            doubt: DOUBTS
                .iter()
                .map(|doubt| DetailDoubt {
                    about: doubt.about,
                    quality: doubt.quality,
                    sign: doubt.sign,
                    reason: doubt.reason,
                    keys: doubt.fields.iter().map(|field| field.key()).collect(),
                })
                .collect(),
            kind: Transfer::ALL.iter().map(|kind| kind.name()).collect(),
            texts: Vec::new(),
            about: Vec::new(),
            numbers: Vec::new(),
            kinds: Vec::new(),
            read_sizes: Vec::new(),
            write_sizes: Vec::new(),
            read_strides: Vec::new(),
            write_strides: Vec::new(),
            slowest: Vec::new(),
            slowest_seconds: Vec::new(),
            slowest_at: Vec::new(),
            doubts: Vec::new(),
            index: HashMap::new(),
        }
    }
}

fn named(title: &'static str, fields: &[(Field, &'static str)]) -> DetailPart {
    let field = |(field, word): &(Field, &'static str)| DetailField {
        key: field.key(),
        word,
        help: field.help(),
        unit: field.unit(),
    };
    DetailPart { title, fields: fields.iter().map(field).collect() }
}

impl FileDetails {
    /// Takes a row in.
    pub(super) fn push(&mut self, used: &FileUse) {
        let about = self.text(&about(used));
        self.about.push(about);
        self.numbers.push(numbers(used));
        self.kinds.push(kinds(used));
        let sizes =
            |of: &BTreeMap<u64, u64>| of.iter().flat_map(|(from, count)| [*from, *count]).collect();
        self.read_sizes.push(sizes(&used.totals.read_sizes));
        self.write_sizes.push(sizes(&used.totals.write_sizes));
        self.read_strides.push(strides(&used.read_strides));
        self.write_strides.push(strides(&used.write_strides));
        let slowest = used.slowest.as_ref();
        let call = slowest.map(|slowest| self.text(&slowest.call));
        self.slowest.push(call);
        self.slowest_seconds.push(slowest.map_or(0.0, |slowest| short(slowest.seconds)));
        self.slowest_at.push(slowest.map_or(0.0, |slowest| moment(slowest.at_seconds)));
        self.doubts.push(doubts(used).into_iter().map(|doubt| doubt as u32).collect());
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(place) = self.index.get(text) {
            return *place;
        }
        let place = self.texts.len() as u32;
        self.index.insert(text.to_string(), place);
        self.texts.push(text.to_string());
        place
    }
}

fn numbers(used: &FileUse) -> Vec<Number> {
    let fields = PARTS.iter().flat_map(|part| part.fields).map(|(field, _)| *field).enumerate();
    let known =
        fields.filter_map(|(place, field)| Some((place, field, number(&used.totals, field)?)));
    known
        .flat_map(|(place, field, number)| [Number::Whole(place as u64), told(field, number)])
        .collect()
}

/// As much of a number as a page shows.
fn told(field: Field, number: f64) -> Number {
    match (field.unit(), field) {
        (Unit::Seconds, Field::First | Field::Last | Field::WrittenFirst | Field::WrittenLast) => {
            Number::Real(moment(number))
        }
        (Unit::Seconds, _) => Number::Real(short(number)),
        _ => Number::Whole(number as u64),
    }
}

/// To the microsecond.
fn moment(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// With four digits.
fn short(seconds: f64) -> f64 {
    format!("{seconds:.3e}").parse().unwrap_or(seconds)
}

fn kinds(used: &FileUse) -> Vec<u64> {
    let kind = |(place, kind): (usize, &Transfer)| {
        let by = used.totals.by_kind.get(kind.name())?;
        let read = if by.unseen.reads { [0; 2] } else { [by.read_bytes, by.read_calls] };
        let written = if by.unseen.writes { [0; 2] } else { [by.written_bytes, by.write_calls] };
        let is_any = read[1] + written[1] > 0;
        is_any.then_some([place as u64, read[0], read[1], written[0], written[1]])
    };
    Transfer::ALL.iter().enumerate().filter_map(kind).flatten().collect()
}

fn strides(strides: &[Stride]) -> Vec<i64> {
    strides.iter().flat_map(|stride| [stride.bytes, stride.times as i64]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Numbers stand behind their places, and what is nothing, or not seen, has none.
    #[test]
    fn a_row_is_short_and_whole() {
        let used = json!({
            "name": "/a", "object": "regular", "pid": 7, "process": "cat", "device": 1, "inode": 2,
            "read_bytes": 5, "read_calls": 1, "written_bytes": 0, "write_calls": 0,
            "by_kind": { "plain": { "read_bytes": 5, "read_calls": 1 }, "mapped": {} },
            "numbers": { "read_seconds": 0.000012345678, "lowest_bytes": 0, "highest_bytes": 5, "reread_bytes": 3 },
            "read_sizes": { "4": 1 }, "read_strides": [{ "bytes": -8, "times": 2 }],
            "again_quality": "estimated", "readahead_quality": "estimated",
            "slowest": { "call": "read", "seconds": 0.25, "at_seconds": 1.5 },
        });
        let used: FileUse = serde_json::from_value(used).expect("a row");
        let mut details = FileDetails::default();
        details.push(&used);
        details.push(&FileUse::followed(7, "/b".to_string()));
        let fields: Vec<_> = details.parts.iter().flat_map(|part| &part.fields).collect();
        let numbers: BTreeMap<_, _> = details.numbers[0]
            .chunks(2)
            .map(|pair| (fields[pair[0].as_f64() as usize].key.as_str(), pair[1].as_f64()))
            .collect();
        let expected = [
            ("highest_bytes", 5.0),
            ("lowest_bytes", 0.0),
            ("read_seconds", 0.00001235),
            ("reread_bytes", 3.0),
        ];
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(details.kinds, [vec![0, 5, 1, 0, 0], vec![]]);
        assert_eq!((&details.read_sizes[0], &details.read_strides[0]), (&vec![4, 1], &vec![-8, 2]));
        assert_eq!(details.slowest, [Some(1), None]);
        assert_eq!(details.texts, ["regular", "read", "unknown"]);
        let reasons: Vec<_> =
            details.doubts[0].iter().map(|i| details.doubt[*i as usize].reason).collect();
        assert!(reasons[0].contains("offset") && reasons[1].contains("upper bound"), "{reasons:?}");
        assert!(details.doubts[1].is_empty() && details.numbers[1].is_empty());
    }
}
