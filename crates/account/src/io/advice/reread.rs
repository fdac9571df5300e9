//! The same bytes read several times by one process.

use weigh_schema::Number;
use weigh_schema::amount::{show_seconds, show_size};
use weigh_schema::io::Field;

use super::file::{File, is_share};
use super::rule::{Finding, Rule};

const LEAST: u64 = 16 << 20;
const SHARE: u64 = 50;

pub const RULE: Rule = Rule {
    name: "reread",
    threshold: "16 MiB read again by the process that had read them before, at least half of all bytes read",
    reason: "What was read once can be kept. Below 16 MiB there is little to spare; where less than half is read again, to keep everything may cost more memory than it spares.",
    apply,
};

fn apply(file: &File) -> Option<Finding> {
    let (again, all) = (file.get(Field::Reread), file.numbers.bytes_by_calls(0));
    let opens = file.get(Field::Opens);
    let is_so = file.is_of_disk() && again >= LEAST && is_share(again, all, SHARE);
    is_so.then(|| Finding {
        text: format!(
            "{} of {} read are bytes that the same process had read before, in {opens} opens; reading took {}. Keep \
             what was read, or map the file",
            show_size(again as f64),
            show_size(all as f64),
            show_seconds(file.seconds(Field::ReadTime)),
        ),
        seconds: file.seconds(Field::ReadTime),
        figures: vec![
            ("reread_bytes", Number::Whole(again)),
            ("read_bytes", Number::Whole(all)),
            ("opens_total", Number::Whole(opens)),
        ],
    })
}
