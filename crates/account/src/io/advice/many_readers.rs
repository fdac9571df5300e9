//! Many processes that each read the whole file.

use weigh_schema::Number;
use weigh_schema::amount::{show_seconds, show_size};
use weigh_schema::io::Field;

use super::file::File;
use super::rule::{Finding, Rule};

const READERS: usize = 4;
const LEAST: u64 = 16 << 20;

pub const RULE: Rule = Rule {
    name: "many_readers",
    threshold: "four or more processes that read 16 MiB or more of one file each, the same bytes for the most part",
    reason: "Each has a copy of its own, in its memory and over the network. One reader can hand it on, or all \
             map the file and share its pages. Below four, or 16 MiB, what is spared is small.",
    apply,
};

fn apply(file: &File) -> Option<Finding> {
    let readers: Vec<u64> = file.read.iter().copied().filter(|bytes| *bytes >= LEAST).collect();
    let sum: u64 = readers.iter().sum();
    let reach = file.get(Field::Highest).saturating_sub(file.numbers.known(Field::Lowest)?);
    // If they share it out among themselves, all together read no more than there is.
    let is_so = file.is_of_disk() && readers.len() >= READERS && sum > 2 * reach;
    is_so.then(|| Finding {
        text: format!(
            "{} processes read {} of {} that there are; reading took {}. Let one read and hand it on, or map the file",
            readers.len(),
            show_size(sum as f64),
            show_size(reach as f64),
            show_seconds(file.seconds(Field::ReadTime)),
        ),
        seconds: file.seconds(Field::ReadTime),
        figures: vec![
            ("readers_total", Number::Whole(readers.len() as u64)),
            ("read_bytes", Number::Whole(sum)),
            ("reach_bytes", Number::Whole(reach)),
        ],
    })
}
