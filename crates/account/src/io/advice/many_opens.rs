//! The same file opened again and again.

use weigh_schema::Number;
use weigh_schema::amount::show_seconds;
use weigh_schema::io::Field;
use weigh_schema::metric_name;

use super::file::{File, processes};
use super::rule::{Finding, Rule};

const OPENS: u64 = 1000;
const EACH: u64 = 4;
/// A process that opens it once has nothing to keep open.
const BY_EACH: u64 = 2;

pub const RULE: Rule = Rule {
    name: "many_opens",
    threshold: "1000 opens of one file, two or more by each process, with fewer than four reads and writes for each",
    reason: "An open and its close are two calls that walk the path, and on a network file system ask the server. \
             With four reads and writes for each they are a third of the calls at most. Keep the file open.",
    apply,
};

fn apply(file: &File) -> Option<Finding> {
    let opens = file.get(Field::Opens);
    let moves = file.numbers.calls_of(0) + file.numbers.calls_of(1);
    let metadata = file.get(Field::Metadata) + file.get(Field::Seeks);
    let is_often = opens >= OPENS.max(BY_EACH * file.openers as u64);
    (file.is_of_disk() && is_often && moves < EACH * opens).then(|| Finding {
        text: format!(
            "opened {opens} times by {} for {moves} reads and writes, with {metadata} calls of metadata and \
             seeks; opens and metadata took {}. Keep it open",
            processes(file.openers),
            show_seconds(file.seconds(Field::MetadataTime)),
        ),
        seconds: file.seconds(Field::MetadataTime),
        figures: vec![
            ("opens_total", Number::Whole(opens)),
            (metric_name::processes_total, Number::Whole(file.openers as u64)),
            ("moves_total", Number::Whole(moves)),
            ("metadata_calls_total", Number::Whole(metadata)),
        ],
    })
}
