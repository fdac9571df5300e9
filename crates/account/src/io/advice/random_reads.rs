//! Reads here and there, for which the kernel reads ahead in vain.

use weigh_schema::Number;
use weigh_schema::amount::{percent, show_seconds, show_size};
use weigh_schema::io::Field;

use super::file::{File, is_share};
use super::rule::{Finding, Rule};

const READS: u64 = 1000;
const SHARE: u64 = 50;

pub const RULE: Rule = Rule {
    name: "random_reads",
    threshold: "1000 reads that go back or ahead irregularly, at least half of all, while the page cache took \
                in more than twice the bytes that were read",
    reason: "What the page cache takes in beyond what is read was read ahead, or is the rest of a page. Twice \
             is what reads of half a page cost at least. Tell the kernel (posix_fadvise with \
             POSIX_FADV_RANDOM, madvise with MADV_RANDOM), or sort the reads by their offset.",
    apply,
};

fn apply(file: &File) -> Option<Finding> {
    let random = file.get(Field::RandomReads) + file.get(Field::SequentialReads);
    let (calls, read) = (file.numbers.calls_of(0), file.numbers.bytes_by_calls(0));
    let filled = file.get(Field::Filled);
    let is_so =
        file.is_of_disk() && random >= READS && is_share(random, calls, SHARE) && filled > 2 * read;
    is_so.then(|| Finding {
        text: format!(
            "{} % of {calls} reads go back or ahead irregularly; {} were read and {} came into the page cache for it{}; \
             reading took {}. Announce random reads (POSIX_FADV_RANDOM), or sort them by offset",
            percent(random, calls),
            show_size(read as f64),
            show_size(filled as f64),
            in_vain(file),
            show_seconds(file.seconds(Field::ReadTime)),
        ),
        seconds: file.seconds(Field::ReadTime),
        figures: vec![
            ("read_calls_total", Number::Whole(calls)),
            ("irregular_reads_total", Number::Whole(random)),
            ("read_bytes", Number::Whole(read)),
            ("filled_bytes", Number::Whole(filled)),
            ("readahead_unused_bytes", Number::Whole(file.get(Field::AheadUnused))),
        ],
    })
}

/// How much of it was never used, where nobody may have used it unseen.
fn in_vain(file: &File) -> String {
    match (file.get(Field::AheadUnused), file.get(Field::AheadDoubts)) {
        (unused, 0) if unused > 0 => {
            format!(", of which {} were never used", show_size(unused as f64))
        }
        _ => String::new(),
    }
}
