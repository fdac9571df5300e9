//! What could be better. Each rule has a file of its own, with its threshold, the reason for it, and the
//! figures that it follows from; there is no advice without figures.

mod fsync_each_write;
mod many_opens;
mod many_readers;
mod random_reads;
mod reread;
mod small_calls;
mod unaligned_direct;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weigh_schema::Number;
use weigh_schema::byte_text;
use weigh_schema::io::{Advice, Field, FileId, Numbers, Object};

use super::numbers::seconds;
use super::packed_row::Kept;
use super::usage_table::IoBook;

/// A rule.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// When it speaks.
    pub threshold: &'static str,
    /// Why that is the threshold, and what to do.
    pub reason: &'static str,
    apply: fn(&File) -> Option<Found>,
}

/// All rules.
pub const RULES: &[Rule] = &[
    small_calls::RULE,
    reread::RULE,
    random_reads::RULE,
    many_opens::RULE,
    fsync_each_write::RULE,
    unaligned_direct::RULE,
    many_readers::RULE,
];

/// So many processes, in words.
fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_string(),
        many => format!("{many} processes"),
    }
}

/// A file and all who used it.
#[derive(Default)]
struct File {
    object: Object,
    numbers: Numbers,
    /// Bytes that each process read by calls.
    read: Vec<u64>,
    /// How many processes read it, and how many wrote it.
    movers: [usize; 2],
    /// How many processes opened it.
    openers: usize,
}

impl File {
    fn of(rows: &[(u32, &Kept)]) -> File {
        let object = rows.iter().map(|(_, row)| row.object).max().unwrap_or_default();
        let mut file = File { object, ..File::default() };
        let mut read: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut movers, mut openers) = ([BTreeSet::new(), BTreeSet::new()], BTreeSet::new());
        for (pid, row) in rows.iter().map(|(pid, row)| (*pid, row.amounts())) {
            file.numbers.fold(&row.numbers);
            *read.entry(pid).or_default() += row.numbers.bytes_by_calls(0);
            for (way, movers) in movers.iter_mut().enumerate() {
                movers.extend((row.numbers.calls_of(way) > 0).then_some(pid));
            }
            openers.extend((row.numbers.get(Field::Opens) > 0).then_some(pid));
        }
        (file.movers, file.openers) = (movers.map(|pids| pids.len()), openers.len());
        file.read = read.into_values().collect();
        file
    }

    fn get(&self, field: Field) -> u64 {
        self.numbers.get(field)
    }

    /// Time in a kind of calls, in seconds.
    fn seconds(&self, field: Field) -> f64 {
        seconds(self.get(field))
    }

    fn is_of_disk(&self) -> bool {
        matches!(self.object, Object::Regular | Object::Disk)
    }
}

/// What a rule found.
struct Found {
    /// What was seen and what to do; the file is named before it.
    text: String,
    seconds: f64,
    figures: Vec<(&'static str, Number)>,
}

/// What the rules have to say, what took most time first.
pub fn advice(book: &IoBook) -> Vec<Advice> {
    let mut files: HashMap<FileId, Vec<(u32, &Kept)>> = HashMap::new();
    for ((file, who), row) in &book.rows {
        files.entry(*file).or_default().push((who.pid, row));
    }
    let mut all = Vec::new();
    // A rule holds what was seen against all there was.
    files.retain(|_, rows| !rows.iter().any(|(pid, _)| book.moves_unseen(*pid)));
    for (id, rows) in files {
        let file = File::of(&rows);
        for rule in RULES {
            let Some(found) = (rule.apply)(&file) else { continue };
            all.push(Advice {
                rule: rule.name.to_string(),
                file: byte_text::shown(book.name(id).unwrap_or("a file without a name")),
                file_base64: book.name_base64(id),
                text: found.text,
                seconds: found.seconds,
                figures: found
                    .figures
                    .iter()
                    .map(|(k, v)| (k.to_string(), *v))
                    .collect::<BTreeMap<_, _>>(),
            });
        }
    }
    all.sort_by(|a, b| {
        b.seconds.total_cmp(&a.seconds).then_with(|| (&a.file, &a.rule).cmp(&(&b.file, &b.rule)))
    });
    all
}

/// Whether a part is so many of a hundred, or more.
fn is_share(part: u64, whole: u64, share: u64) -> bool {
    whole > 0 && 100 * u128::from(part) >= u128::from(share) * u128::from(whole)
}

#[cfg(test)]
mod tests;
