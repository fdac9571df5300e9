//! O_DIRECT that does not go by blocks.

use weigh_schema::Number;
use weigh_schema::amount::percent;
use weigh_schema::io::Field;

use super::file::File;
use super::rule::{Finding, Rule};
use crate::io::file_use::seconds;

const CALLS: u64 = 100;

pub const RULE: Rule = Rule {
    name: "unaligned_direct",
    threshold: "100 reads and writes past the page cache (O_DIRECT) whose offset or length is no multiple of 4096",
    reason: "Devices work by 4096 bytes: a part of such a block is read, changed and written back, or the file \
             system falls back to the page cache. A hundred are beyond a header and a tail.",
    apply,
};

fn apply(file: &File) -> Option<Finding> {
    let (unaligned, all) = (file.get(Field::Unaligned), file.get(Field::Direct));
    (unaligned >= CALLS).then(|| Finding {
        text: format!(
            "{unaligned} of {all} reads and writes with O_DIRECT ({} %) are not aligned to 4096 bytes. Align offsets and \
             lengths, or leave O_DIRECT out",
            percent(unaligned, all),
        ),
        seconds: seconds(file.get(Field::ReadTime) + file.get(Field::WriteTime)),
        figures: vec![
            ("unaligned_direct_calls_total", Number::Whole(unaligned)),
            ("direct_calls_total", Number::Whole(all)),
        ],
    })
}
