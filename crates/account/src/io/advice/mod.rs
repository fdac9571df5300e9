//! What could be better. Each rule has a file of its own, with its threshold, the reason for it, and the
//! figures that it follows from; there is no advice without figures.

mod file;
mod fsync_each_write;
mod many_opens;
mod many_readers;
mod random_reads;
mod reread;
mod rule;
mod small_calls;
mod unaligned_direct;

use std::collections::{BTreeMap, HashMap};

use weigh_schema::byte_text;
use weigh_schema::io::{Advice, FileId};

use super::usage_table::{IoBook, RowState};
use file::File;
pub use rule::Rule;

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

/// What the rules have to say, what took most time first.
pub fn advice(book: &IoBook) -> Vec<Advice> {
    let mut files: HashMap<FileId, Vec<(u32, &RowState)>> = HashMap::new();
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

#[cfg(test)]
mod tests;
