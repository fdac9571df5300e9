//! What a file's totals say, by number and in words.

use weigh_schema::amount::{percent, show_amount};
use weigh_schema::io::{Field, IoFound, Totals, Transfer};
use weigh_schema::{Quality, Unit};

pub(super) fn size(bytes: u64) -> String {
    show_amount(bytes as f64, Unit::Bytes)
}

pub(super) fn seconds(totals: &Totals, key: &str) -> f64 {
    totals.numbers.get(key).map_or(0.0, |number| number.as_f64())
}

pub(crate) fn mapped(totals: &Totals) -> u64 {
    let mapped = totals.by_kind.get(Transfer::Mapped.name());
    mapped.map_or(0, |mapped| mapped.read_bytes + mapped.written_bytes)
}

/// Bytes that devices read and wrote.
pub(crate) fn device(totals: &Totals) -> [u64; 2] {
    let of = |key: &str| totals.numbers.get(key).map_or(0, |number| number.as_f64() as u64);
    [of("device_read_bytes"), of("device_written_bytes")]
}

/// Whether it is not seen what devices do.
pub(crate) fn are_devices_unseen(found: &IoFound) -> bool {
    is_unavailable(found, &Field::DeviceRead.key())
}

/// Whether nothing is known of these numbers.
pub(crate) fn is_unavailable(found: &IoFound, key: &str) -> bool {
    found.qualities.get(key).is_some_and(|trust| trust.quality == Quality::Unavailable)
}

/// The commonest way through the file, and its share. What is neither consecutive nor strided is irregular, as the
/// advice counts it, unless it never went back.
pub(crate) fn pattern(totals: &Totals) -> String {
    let of = |kind: &str| {
        let key = |what: &str| format!("{kind}_{what}_total");
        ["reads", "writes"].iter().map(|what| seconds(totals, &key(what))).sum::<f64>()
    };
    let [on, strided, ahead, back] = ["consecutive", "strided", "sequential", "random"].map(of);
    let word = if back > 0.0 { "irregular" } else { "ahead" };
    let kinds = [(on, "on"), (strided, "strided"), (ahead + back, word)];
    let all: f64 = kinds.iter().map(|(count, _)| count).sum();
    let most = kinds.iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(count, _)| *count > 0.0);
    let share = |count: f64| percent(count as u64, all as u64);
    most.map_or_else(String::new, |(count, kind)| format!("{kind} {} %", share(*count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::Number;

    #[test]
    fn the_commonest_pattern_has_its_share() {
        let mut totals = Totals::default();
        totals.numbers.insert("consecutive_reads_total".into(), Number::Whole(3));
        totals.numbers.insert("random_writes_total".into(), Number::Whole(1));
        assert_eq!(pattern(&totals), "on 75 %");
        assert_eq!(pattern(&Totals::default()), "");
        // Half of what is read anywhere in a file lies ahead.
        let of = |ahead: u64, back: u64| {
            let mut totals = Totals::default();
            let keys = ["consecutive_reads_total", "sequential_reads_total", "random_reads_total"];
            for (key, count) in keys.into_iter().zip([1, ahead, back]) {
                totals.numbers.insert(key.into(), Number::Whole(count));
            }
            pattern(&totals)
        };
        assert_eq!(of(49, 50), "irregular 99 %");
        assert_eq!(of(99, 0), "ahead 99 %");
        // All of it is said of all of it alone.
        assert_eq!(of(9999, 0), "ahead 99 %");
    }
}
