//! A sync after each few bytes.

use weigh_schema::Number;
use weigh_schema::amount::show_seconds;
use weigh_schema::io::Field;

use super::file::File;
use super::rule::{Finding, Rule};

const SYNCS: u64 = 20;

pub const RULE: Rule = Rule {
    name: "fsync_each_write",
    threshold: "20 calls of fsync or its like after less than 64 KiB of new data each",
    reason: "A sync waits for the device, and for the file system's journal, however little there is to write. \
             Fewer than twenty are what careful programs do at their end. Write more before each.",
    apply,
};

fn apply(file: &File) -> Option<Finding> {
    let (small, all) = (file.get(Field::SmallSyncs), file.get(Field::Syncs));
    let written = file.numbers.bytes_by_calls(1);
    (small >= SYNCS).then(|| Finding {
        text: format!(
            "{small} of {all} syncs came after less than 64 KiB of new data, {} B on average; syncs took {}. Write \
             more before each",
            written / all.max(1),
            show_seconds(file.seconds(Field::SyncTime)),
        ),
        seconds: file.seconds(Field::SyncTime),
        figures: vec![
            ("small_syncs_total", Number::Whole(small)),
            ("syncs_total", Number::Whole(all)),
            ("written_bytes", Number::Whole(written)),
        ],
    })
}
