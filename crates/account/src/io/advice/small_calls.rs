//! Many small reads or writes, one behind the other.

use weigh_schema::Number;
use weigh_schema::Unit;
use weigh_schema::amount::{percent, show_amount, show_seconds};
use weigh_schema::io::{Field, bucket_start};
use weigh_schema::metric_name;

use super::file::{File, is_share, processes};
use super::rule::{Finding, Rule};

/// Below this a call costs more than what it moves.
const SMALL: u64 = 4096;
const CALLS: u64 = 1000;
const SHARE: u64 = 50;

pub const RULE: Rule = Rule {
    name: "small_calls",
    threshold: "1000 reads (or writes) of less than 4 KiB, at least half of all, and at least half of all \
                going on where the last one ended",
    reason: "A call that moves nothing took 390 ns where one that reads 4 KiB took 650 (a virtual machine, \
             Linux 6.18): below that the call is most of the price. Read and write through a buffer of 64 KiB or more, or all at once.",
    apply,
};

fn apply(file: &File) -> Option<Finding> {
    let reads = look(file, 0, Field::ConsecutiveReads, Field::ReadTime, "reads");
    let writes = look(file, 1, Field::ConsecutiveWrites, Field::WriteTime, "writes");
    match (reads, writes) {
        (Some(one), Some(other)) => Some(if one.seconds < other.seconds { other } else { one }),
        (one, other) => one.or(other),
    }
}

fn look(file: &File, way: usize, follows: Field, time: Field, what: &str) -> Option<Finding> {
    let sizes = &file.numbers.sizes[way];
    let small = |bucket: &usize| (1..SMALL).contains(&bucket_start(*bucket));
    let calls: u64 = sizes.iter().sum();
    let few: u64 = (0..sizes.len()).filter(small).map(|bucket| sizes[bucket]).sum();
    let common = (0..sizes.len()).filter(small).max_by_key(|bucket| sizes[*bucket])?;
    let following = file.get(follows);
    let is_so = few >= CALLS && is_share(few, calls, SHARE) && is_share(following, calls, SHARE);
    let (from, to) = (bucket_start(common), bucket_start(common + 1) - 1);
    is_so.then(|| Finding {
        text: format!(
            "{} % of {calls} {what} are smaller than 4 KiB, most of {from} to {} each, {} % go on where the last \
             one ended, by {}; they took {}. Use a buffer of 64 KiB or more, or one process that {what} for all",
            percent(few, calls),
            show_amount(to as f64, Unit::Bytes),
            percent(following, calls),
            processes(file.movers[way]),
            show_seconds(file.seconds(time)),
        ),
        seconds: file.seconds(time),
        figures: vec![
            ("calls_total", Number::Whole(calls)),
            (metric_name::processes_total, Number::Whole(file.movers[way] as u64)),
            ("small_calls_total", Number::Whole(few)),
            ("consecutive_total", Number::Whole(following)),
            ("common_size_bytes", Number::Whole(from)),
        ],
    })
}
