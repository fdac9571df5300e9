//! What is known of a file and process beside its row in the table: how large the pieces were, in which order, what
//! was done again, what the page cache had, what devices did, who had it written. Below the row on a terminal; the page
//! has the same words. What is nothing is left out, and what is not known is never told as nothing. Pure.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;
use weigh_schema::amount::show_amount;
use weigh_schema::io::{Field, FileUse, Object, SIZES, Stride, Totals, Transferred, bucket_start};
use weigh_schema::{Quality, Unit};

use crate::text::{Line, Paint, Screen, cut};

/// Numbers that belong together, each with its word.
pub(crate) struct Part {
    pub(crate) title: &'static str,
    pub(crate) fields: &'static [(Field, &'static str)],
}

const fn part(title: &'static str, fields: &'static [(Field, &'static str)]) -> Part {
    Part { title, fields }
}

/// Each number is in one of them.
pub(crate) const PARTS: [Part; 10] = [
    part(
        "time",
        &[
            (Field::ReadTime, "reading"),
            (Field::WriteTime, "writing"),
            (Field::SyncTime, "syncing"),
            (Field::MetadataTime, "metadata"),
            (Field::First, "first used at"),
            (Field::Last, "last used at"),
        ],
    ),
    part(
        "calls",
        &[
            (Field::Opens, "opens"),
            (Field::Closes, "closes"),
            (Field::Maps, "maps"),
            (Field::Seeks, "seeks"),
            (Field::Syncs, "syncs"),
            (Field::SmallSyncs, "syncs after less than 64 KiB"),
            (Field::Truncates, "truncates"),
            (Field::Metadata, "metadata calls"),
            (Field::Failed, "failed"),
        ],
    ),
    part(
        "order of reads",
        &[
            (Field::ConsecutiveReads, "consecutive"),
            (Field::StridedReads, "strided"),
            (Field::SequentialReads, "sequential"),
            (Field::RandomReads, "random"),
        ],
    ),
    part(
        "order of writes",
        &[
            (Field::ConsecutiveWrites, "consecutive"),
            (Field::StridedWrites, "strided"),
            (Field::SequentialWrites, "sequential"),
            (Field::RandomWrites, "random"),
        ],
    ),
    part(
        "offsets",
        &[(Field::Lowest, "from"), (Field::Highest, "to"), (Field::Placed, "known for")],
    ),
    part(
        "again",
        &[
            (Field::Reread, "re-read"),
            (Field::Rewritten, "re-written"),
            (Field::Forgotten, "stretches forgotten"),
        ],
    ),
    part(
        "page cache",
        &[
            (Field::Cached, "reads from it alone"),
            (Field::Filled, "taken into it"),
            (Field::AheadUnused, "read ahead, never used"),
            (Field::AheadDoubts, "times pages read ahead may have been used unseen"),
        ],
    ),
    part(
        "devices",
        &[
            (Field::DeviceRead, "read"),
            (Field::DeviceReadTime, "reads took"),
            (Field::DeviceWritten, "written"),
            (Field::DeviceWriteTime, "writes took"),
        ],
    ),
    part(
        "written back",
        &[
            (Field::WrittenSelf, "by the process"),
            (Field::WrittenKernel, "by the kernel"),
            (Field::WrittenOther, "by others"),
            (Field::WrittenFirst, "first at"),
            (Field::WrittenLast, "last at"),
        ],
    ),
    part(
        "past the page cache",
        &[(Field::Direct, "reads and writes"), (Field::Unaligned, "unaligned")],
    ),
];

/// Why numbers of one row are not exact, where others' are.
pub(crate) struct Doubt {
    /// What it is about, in a word.
    pub(crate) about: &'static str,
    pub(crate) quality: Quality,
    /// What stands before the numbers.
    pub(crate) sign: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) fields: &'static [Field],
}

const ORDER: &[Field] = &[
    Field::ConsecutiveReads,
    Field::StridedReads,
    Field::SequentialReads,
    Field::RandomReads,
    Field::ConsecutiveWrites,
    Field::StridedWrites,
    Field::SequentialWrites,
    Field::RandomWrites,
    Field::Reread,
    Field::Rewritten,
];
const AGAIN: &[Field] = &[Field::Reread, Field::Rewritten];

pub(crate) const MOVED: usize = 0;
const UNKNOWN: usize = 1;
const FORGOTTEN: usize = 2;
const PLACELESS: usize = 3;
const UNKNOWN_AGAIN: usize = 4;
const AHEAD: usize = 5;

pub(crate) const DOUBTS: [Doubt; 6] = [
    Doubt {
        about: "reads and writes",
        quality: Quality::Estimated,
        sign: "≥ ",
        reason: "the process moved others by io_uring, AIO or system calls of its own, which were not seen: lower bounds",
        fields: ORDER,
    },
    Doubt {
        about: "reads and writes",
        quality: Quality::Unavailable,
        sign: "≥ ",
        reason: "nothing was seen that moved bytes, and what may have done so cannot be seen here",
        fields: ORDER,
    },
    Doubt {
        about: "re-read, re-written",
        quality: Quality::Estimated,
        sign: "≥ ",
        reason: "stretches of the file were forgotten for want of room: lower bounds",
        fields: AGAIN,
    },
    Doubt {
        about: "re-read, re-written",
        quality: Quality::Estimated,
        sign: "≥ ",
        reason: "the offset of some reads or writes is not known: lower bounds",
        fields: AGAIN,
    },
    Doubt {
        about: "re-read, re-written",
        quality: Quality::Unavailable,
        sign: "≥ ",
        reason: "not every read and write can be seen here",
        fields: AGAIN,
    },
    Doubt {
        about: "read ahead, never used",
        quality: Quality::Estimated,
        sign: "≤ ",
        reason: "pages of it may have been used unseen while they waited: an upper bound",
        fields: &[Field::AheadUnused],
    },
];

/// Which of [`DOUBTS`] are of this row.
pub(crate) fn doubts(file: &FileUse) -> Vec<usize> {
    let moved = match file.moved_quality {
        Quality::Unavailable => Some(UNKNOWN),
        _ => file.is_bound().then_some(MOVED),
    };
    // What was read again is only told of what has places.
    let has_places = matches!(file.object, Object::Regular | Object::Disk);
    let again = match file.again_quality {
        _ if !has_places || moved.is_some() => None,
        Quality::Exact => None,
        Quality::Unavailable => Some(UNKNOWN_AGAIN),
        _ if number(&file.totals, Field::Forgotten).is_some() => Some(FORGOTTEN),
        _ => has_unplaced(&file.totals).then_some(PLACELESS),
    };
    let ahead = (file.readahead_quality == Quality::Estimated).then_some(AHEAD);
    [moved, again, ahead].into_iter().flatten().collect()
}

/// Whether the offset of some accesses is not known.
fn has_unplaced(totals: &Totals) -> bool {
    let placed = number(totals, Field::Placed).unwrap_or_default();
    placed < (totals.by_calls.read_calls + totals.by_calls.write_calls) as f64
}

/// A number, unless it is nothing: 0 is a place and a time, too.
pub(crate) fn number(totals: &Totals, field: Field) -> Option<f64> {
    let found = totals.numbers.get(&field.key())?.as_f64();
    let is_place = matches!(field, Field::Lowest | Field::First | Field::WrittenFirst);
    (found != 0.0 || is_place).then_some(found)
}

/// What the row is about: what kind of object, and who has counted.
pub(crate) fn about(file: &FileUse) -> String {
    let deleted = if file.is_deleted { ", deleted" } else { "" };
    let sources: Vec<String> = file.sources.iter().map(ToString::to_string).collect();
    match sources.is_empty() {
        true => format!("{}{deleted}", file.object),
        false => format!("{}{deleted}, counted by {}", file.object, sources.join("+")),
    }
}

/// Lines below the file's row.
pub(super) fn lines(file: &FileUse, screen: Screen) -> Vec<Line> {
    const INDENT: usize = 4;
    const TITLE: usize = 21;
    let width = screen.columns.saturating_sub(INDENT + TITLE);
    let mut lines = Vec::new();
    for (title, items) in rows(file) {
        for (place, text) in fill(&items, width).into_iter().enumerate() {
            let title = if place == 0 { title } else { "" };
            let line = Line::new().add(" ".repeat(INDENT), Paint::Plain).add(title, Paint::Dim);
            lines.push(line.pad_to(INDENT + TITLE).add(text, Paint::Plain));
        }
    }
    lines
}

/// As many of the texts on each line as it has room for; a text is not broken.
fn fill(items: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let comma = if place + 1 < items.len() { "," } else { "" };
        let item = format!("{}{comma}", cut(item, width.saturating_sub(comma.len())));
        match lines.last_mut() {
            Some(line) if line.width() + 1 + item.width() <= width => {
                line.push(' ');
                line.push_str(&item);
            }
            _ => lines.push(item),
        }
    }
    lines
}

/// Each title with what stands behind it.
fn rows(file: &FileUse) -> Vec<(&'static str, Vec<String>)> {
    let doubts = doubts(file);
    let of = |part: &Part| (part.title, items(file, part, &doubts));
    // How fast and how much comes before the order and the rest.
    let (first, others) = PARTS.split_at(2);
    let mut rows: Vec<_> = first.iter().map(of).collect();
    rows[0].1.extend(slowest(file));
    let bound = if doubts.contains(&MOVED) { DOUBTS[MOVED].sign } else { "" };
    let totals = &file.totals;
    rows.extend([
        ("kinds of transfer", kinds(totals)),
        ("sizes of reads", sizes(&totals.read_sizes, bound)),
        ("sizes of writes", sizes(&totals.write_sizes, bound)),
        ("strides of reads", strides(&file.read_strides)),
        ("strides of writes", strides(&file.write_strides)),
    ]);
    rows.extend(others.iter().map(of));
    let said = |doubt: &usize| {
        let Doubt { about, quality, reason, .. } = &DOUBTS[*doubt];
        ("not exact", vec![format!("{about} {quality}: {reason}")])
    };
    rows.extend(doubts.iter().map(said));
    rows.retain(|(_, items)| !items.is_empty());
    rows
}

fn items(file: &FileUse, part: &Part, doubts: &[usize]) -> Vec<String> {
    let told = |(field, word): &(Field, &str)| {
        let number = number(&file.totals, *field)?;
        let doubt = doubts.iter().find(|doubt| DOUBTS[**doubt].fields.contains(field));
        let sign = doubt.map_or("", |doubt| DOUBTS[*doubt].sign);
        let share = share(file, *field, number);
        Some(format!("{word} {sign}{}{share}", show_amount(number, field.unit())))
    };
    part.fields.iter().filter_map(told).collect()
}

/// How many of all reads needed no device.
fn share(file: &FileUse, field: Field, number: f64) -> String {
    let by = &file.totals.by_calls;
    match field {
        Field::Cached if !by.unseen.reads && by.read_calls as f64 >= number => {
            format!(" of {} ({:.0} %)", by.read_calls, 100.0 * number / by.read_calls as f64)
        }
        _ => String::new(),
    }
}

fn slowest(file: &FileUse) -> Option<String> {
    let slowest = file.slowest.as_ref()?;
    let time = |seconds: f64| show_amount(seconds, Unit::Seconds);
    let (took, at) = (time(slowest.seconds), time(slowest.at_seconds));
    Some(format!("slowest {} took {took} and ended at {at}", slowest.call))
}

/// What is not seen of a kind is left out: why stands below the table.
fn kinds(totals: &Totals) -> Vec<String> {
    let size = |bytes: u64| show_amount(bytes as f64, Unit::Bytes);
    let said = |(name, by): (&String, &Transferred)| {
        let read = (!by.unseen.reads && by.read_calls > 0)
            .then(|| format!("{} read by {}", size(by.read_bytes), by.read_calls));
        let written = (!by.unseen.writes && by.write_calls > 0)
            .then(|| format!("{} written by {}", size(by.written_bytes), by.write_calls));
        let both: Vec<String> = read.into_iter().chain(written).collect();
        (!both.is_empty()).then(|| format!("{name} {}", both.join(" and ")))
    };
    totals.by_kind.iter().filter_map(said).collect()
}

fn sizes(sizes: &BTreeMap<u64, u64>, bound: &str) -> Vec<String> {
    let size = |bytes: u64| show_amount(bytes as f64, Unit::Bytes);
    let range = |from: u64| match from {
        0 | 1 => size(from),
        from if from >= bucket_start(SIZES - 1) => format!("{} and more", size(from)),
        from => format!("{} to {}", size(from), size(from * 2)),
    };
    sizes.iter().map(|(from, count)| format!("{}: {bound}{count}", range(*from))).collect()
}

fn strides(strides: &[Stride]) -> Vec<String> {
    let said = |stride: &Stride| {
        let far = show_amount(stride.bytes.unsigned_abs() as f64, Unit::Bytes);
        match stride.bytes {
            0 => format!("at the same offset: {}", stride.times),
            1.. => format!("{far} ahead: {}", stride.times),
            _ => format!("{far} back: {}", stride.times),
        }
    };
    strides.iter().map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::io::FIELDS;

    #[test]
    fn each_number_has_one_word() {
        let mut found: Vec<usize> = PARTS
            .iter()
            .flat_map(|part| part.fields.iter().map(|(field, _)| *field as usize))
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..FIELDS.len()).collect::<Vec<_>>());
    }

    #[test]
    fn what_stands_on_a_line_fits_and_is_whole() {
        let items: Vec<String> = ["one 1", "two 2", "three 3", "four"].map(String::from).into();
        assert_eq!(fill(&items, 14), ["one 1, two 2,", "three 3, four"]);
        assert_eq!(fill(&items, 6), ["one 1,", "two 2,", "thre…,", "four"]);
        assert!(fill(&[], 6).is_empty());
    }
}
