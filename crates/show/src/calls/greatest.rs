//! The greatest numbers of an account of calls, in words: times, bytes, and times of what came later.

use std::collections::BTreeMap;

use weigh_schema::Unit;
use weigh_schema::call::Numbers;
use weigh_schema::subsystem::{Field, LATER, SUBSYSTEMS, Subsystem};

use super::shares::{run_queue, split};
use super::slowest::RUNNABLE;
use super::words::{in_words, seconds};

/// So many of each kind.
const MOST: usize = 3;

/// An amount, and its words.
type Words = (f64, String);

/// The greatest times, then bytes, then times of what came later.
pub(crate) fn greatest(parts: &BTreeMap<String, Numbers>, later: &Numbers) -> Vec<String> {
    [most(times(parts)), most(bytes(parts)), most(times_later(later))].concat()
}

fn most(mut words: Vec<Words>) -> Vec<String> {
    words.sort_by(|a, b| b.0.total_cmp(&a.0));
    words.into_iter().take(MOST).filter(|(amount, _)| *amount > 0.0).map(|(_, word)| word).collect()
}

fn times(parts: &BTreeMap<String, Numbers>) -> Vec<Words> {
    let words = |time: f64, doing: &str| (time, format!("{} {doing}", seconds(time)));
    let shares = split(parts).into_iter();
    let mut times: Vec<Words> =
        shares.map(|share| words(share.seconds, &share.part.doing(share.is_wait))).collect();
    times.push(words(run_queue(parts), RUNNABLE));
    times
}

fn bytes(parts: &BTreeMap<String, Numbers>) -> Vec<Words> {
    let of_part = |part: &'static Subsystem| {
        let numbers = parts.get(part.name)?;
        let fields = part.fields.iter().filter(|field| field.unit == Unit::Bytes);
        let words = move |field: &Field| {
            let number = numbers.get(&field.key())?;
            Some((number.as_f64(), format!("{} ({})", in_words(field, number), part.name)))
        };
        Some(fields.filter_map(words))
    };
    SUBSYSTEMS.iter().filter_map(of_part).flatten().collect()
}

fn times_later(later: &Numbers) -> Vec<Words> {
    let fields = LATER.iter().filter(|field| field.unit == Unit::Seconds);
    let words = |field: &Field| {
        let number = later.get(&field.key())?;
        Some((number.as_f64(), format!("later {}", in_words(field, number))))
    };
    fields.filter_map(words).collect()
}

#[cfg(test)]
mod tests {
    use weigh_schema::Number;

    use super::*;

    fn numbers(all: &[(&str, Number)]) -> Numbers {
        all.iter().map(|(key, number)| (key.to_string(), *number)).collect()
    }

    #[test]
    fn the_greatest_times_come_first_and_then_bytes_with_their_part() {
        let block = numbers(&[
            ("waiting_seconds", Number::Real(0.25)),
            ("transferred_bytes_total", Number::Whole(4096)),
        ]);
        let sched = numbers(&[("run_queue_seconds", Number::Real(0.5))]);
        let parts = [("block".to_string(), block), ("sched".to_string(), sched)].into();
        let later = numbers(&[("block_device_seconds", Number::Real(0.001))]);
        let words = greatest(&parts, &later);
        assert!(words[0].starts_with("500.0 ms"), "{words:?}");
        assert_eq!(words[1], "250.0 ms waiting for block devices");
        assert_eq!(words[2], "4.0 KiB transferred (block)");
        assert_eq!(words[3], "later 1.0 ms block device");
        assert_eq!(words.len(), 4);
    }
}
