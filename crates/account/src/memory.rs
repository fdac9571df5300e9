//! The peak of memory with sharing counted once: bounds from the kernel side, narrowed by looks
//! at the pages.

use weigh_schema::Unit;
use weigh_schema::event::{MemoryParts, MemoryReading, SharedMemoryReading};
use weigh_schema::quality::{Mechanism, Quality, Value};

/// How near the two bounds must be for the value to be called exact.
const EXACT_WITHIN: f64 = 0.01;

/// How near the sum at a look must be to the greatest sum for the look to stand for the peak.
const LOOK_AT_PEAK_WITHIN: f64 = 0.03;

/// The peak that follows from the bounds and the looks.
pub(crate) fn estimate_peak(
    memory: &MemoryReading,
    looks: &[SharedMemoryReading],
    source: Mechanism,
) -> Value {
    let upper = memory.rss_sum_peak as f64;
    let certain = |look: &SharedMemoryReading| look.certain_bytes.unwrap_or(look.union_bytes);
    let seen = looks.iter().map(certain).max().unwrap_or(0) as f64;
    let lower = (memory.floor_peak as f64).max(seen).min(upper);
    if upper - lower <= upper * EXACT_WITHIN {
        return Value::exact(Unit::Bytes, upper, source);
    }
    let likely = memory.likely_peak as f64;
    let bounds = format!("between {lower} and {upper} bytes, by the kernel's counters");
    let qualified = |bytes: f64, quality, why: String| {
        let value = Value::exact(Unit::Bytes, bytes.clamp(lower, upper), source);
        value.qualified(quality, format!("{why}; {bounds}"))
    };
    let estimated = |bytes, why: String| qualified(bytes, Quality::Estimated, why);
    match (surplus_at_peak(upper, looks), part_seen(memory, looks)) {
        (Some(surplus), _) if looks.iter().any(|look| look.certain_bytes.is_some()) => estimated(
            upper - surplus,
            "this system lets no address spaces be compared: processes that share one may count once each"
                .to_owned(),
        ),
        (Some(surplus), _) => qualified(
            upper - surplus,
            Quality::Sampled,
            format!("pages are shared; looked at {} times, also at the peak", looks.len()),
        ),
        (None, Some(part)) if upper * part < likely => estimated(
            upper * part,
            format!(
                "pages are shared; the part seen at a lower sum ({part:.3}) was taken for the peak"
            ),
        ),
        (None, _) => estimated(
            likely,
            "pages may be shared, and were not looked at near the peak: what forks have inherited \
             is counted once"
                .to_owned(),
        ),
    }
}

/// Of what a peak of so many bytes was made, from the sums of resident sizes at that moment. Where the sum is greater,
/// what was counted more than once is taken from what can be shared: first what forks have inherited, then mapped pages.
pub(crate) fn parts_of_peak(parts: &MemoryParts, peak_bytes: f64) -> MemoryParts {
    let MemoryParts { anonymous, unshared, shared, file } = *parts;
    let surplus = (anonymous + shared + file).saturating_sub(peak_bytes as u64);
    let of_inherited = surplus.min(anonymous.saturating_sub(unshared));
    let mapped = shared + file;
    let of_mapped = (surplus - of_inherited).min(mapped);
    let of_shared = (u128::from(of_mapped) * u128::from(shared) / u128::from(mapped.max(1))) as u64;
    MemoryParts {
        anonymous: anonymous - of_inherited,
        unshared,
        shared: shared - of_shared,
        file: file - (of_mapped - of_shared),
    }
}

/// What was counted more than once, seen where the sum was near its greatest.
fn surplus_at_peak(upper: f64, looks: &[SharedMemoryReading]) -> Option<f64> {
    let best = looks.iter().max_by_key(|look| look.rss_sum_bytes)?;
    let is_at_peak = best.rss_sum_bytes as f64 >= upper * (1.0 - LOOK_AT_PEAK_WITHIN);
    is_at_peak.then(|| best.rss_sum_bytes.saturating_sub(best.union_bytes) as f64)
}

/// The part of the sum that is not counted more than once, seen at a lower sum. A look at fewer address spaces than
/// there were at the peak says nothing of what these had in common.
fn part_seen(memory: &MemoryReading, looks: &[SharedMemoryReading]) -> Option<f64> {
    let spaces = memory.spaces_at_peak.max(2);
    let telling = looks.iter().filter(|look| look.spaces >= spaces && look.rss_sum_bytes > 0);
    let best = telling.max_by_key(|look| look.rss_sum_bytes)?;
    Some((best.union_bytes as f64 / best.rss_sum_bytes as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn estimate(memory: &MemoryReading, looks: &[SharedMemoryReading]) -> Value {
        estimate_peak(memory, looks, Mechanism::Bpf)
    }

    fn reading(floor_peak: u64, rss_sum_peak: u64, spaces_at_peak: u64) -> MemoryReading {
        MemoryReading { floor_peak, rss_sum_peak, spaces_at_peak, ..Default::default() }
    }

    fn look(union_bytes: u64, rss_sum_bytes: u64, spaces: u64) -> SharedMemoryReading {
        SharedMemoryReading { at_ns: 1, union_bytes, rss_sum_bytes, spaces, certain_bytes: None }
    }

    #[test]
    fn a_look_that_tells_no_address_spaces_apart_is_no_lower_bound() {
        let uncertain = SharedMemoryReading { certain_bytes: Some(61), ..look(360, 369, 6) };
        let peak = estimate(&reading(60, 370, 6), &[uncertain]);
        assert_eq!((peak.number(), peak.quality), (Some(361.0), Quality::Estimated));
        assert!(peak.reason.unwrap().contains("between 61 and 370"));
    }

    #[test]
    fn bounds_that_meet_are_exact() {
        let peak = estimate(&reading(995, 1000, 1), &[]);
        assert_eq!(
            (peak.number(), peak.quality, peak.reason),
            (Some(1000.0), Quality::Exact, None)
        );
    }

    #[test]
    fn a_look_at_the_peak_settles_it() {
        let peak = estimate(&reading(500, 2510, 5), &[look(503, 2500, 5)]);
        assert_eq!((peak.number(), peak.quality), (Some(513.0), Quality::Sampled));
        assert!(peak.reason.unwrap().contains("between 503 and 2510"));
    }

    #[test]
    fn a_look_below_the_peak_is_scaled_within_the_bounds() {
        let memory = MemoryReading { likely_peak: 1000, ..reading(300, 1000, 4) };
        let peak = estimate(&memory, &[look(250, 500, 4)]);
        assert_eq!((peak.number(), peak.quality), (Some(500.0), Quality::Estimated));
    }

    #[test]
    fn a_look_at_fewer_processes_than_at_the_peak_says_nothing() {
        // A big program that forks to execute a small one, looked at while it was alone.
        let peak = estimate(&reading(421, 840, 2), &[look(420, 420, 1)]);
        assert_eq!((peak.number(), peak.quality), (Some(421.0), Quality::Estimated));
        // Five that share after a fork, looked at when there were two.
        let peak = estimate(&reading(500, 2506, 5), &[look(500, 1000, 2)]);
        assert_eq!((peak.number(), peak.quality), (Some(500.0), Quality::Estimated));
        // Even where nothing says how many there were, one alone shares with nobody.
        let peak = estimate(&reading(421, 840, 0), &[look(420, 420, 1)]);
        assert_eq!(peak.number(), Some(421.0));
    }

    #[test]
    fn a_look_after_the_exec_does_not_double_what_was_forked() {
        // As many processes as at the peak, but one of them is the small program by now.
        let memory = MemoryReading { likely_peak: 423, ..reading(421, 840, 2) };
        let peak = estimate(&memory, &[look(421, 422, 2)]);
        assert_eq!((peak.number(), peak.quality), (Some(423.0), Quality::Estimated));
    }

    #[test]
    fn without_a_look_what_forks_inherited_counts_once() {
        let memory = MemoryReading { likely_peak: 700, ..reading(300, 1000, 3) };
        let peak = estimate(&memory, &[]);
        assert_eq!((peak.number(), peak.quality), (Some(700.0), Quality::Estimated));
        // Never below what is certain.
        let peak = estimate(&reading(300, 1000, 3), &[]);
        assert_eq!((peak.number(), peak.quality), (Some(300.0), Quality::Estimated));
    }

    #[test]
    fn parts_add_up_to_the_peak() {
        let parts = MemoryParts { anonymous: 100, unshared: 100, shared: 30, file: 20 };
        assert_eq!(parts_of_peak(&parts, 150.0), parts);
        // Seen a little before the peak: they are told as they were.
        assert_eq!(parts_of_peak(&parts, 160.0), parts);
        // Five processes after a fork: what they inherited counts once.
        let forked = MemoryParts { anonymous: 2500, unshared: 500, shared: 0, file: 0 };
        assert_eq!(parts_of_peak(&forked, 500.0).anonymous, 500);
        // Five that map the same memory: what is anonymous is nobody else's.
        let mapped = MemoryParts { anonymous: 10, unshared: 10, shared: 2500, file: 0 };
        let told = parts_of_peak(&mapped, 510.0);
        assert_eq!((told.anonymous, told.shared), (10, 500));
        // A program that forks to execute another keeps its files.
        let copied = MemoryParts { anonymous: 800, unshared: 400, shared: 0, file: 40 };
        let told = parts_of_peak(&copied, 425.0);
        assert_eq!((told.anonymous, told.file), (400, 25));
    }

    proptest! {
        #[test]
        fn no_estimate_leaves_the_interval_that_it_states(
            floor in 0u64..2000, upper in 1u64..2000, likely_peak in 0u64..3000, spaces in 0u64..6,
            looks in prop::collection::vec((0u64..2000, 0u64..2000, 0u64..6), 0..4),
        ) {
            let looks: Vec<_> = looks.into_iter().map(|(u, r, s)| look(u.min(r), r, s)).collect();
            let memory = MemoryReading { likely_peak, ..reading(floor, upper, spaces) };
            let peak = estimate(&memory, &looks);
            let bytes = peak.number().unwrap();
            let reason = peak.reason.unwrap_or_else(|| format!("between {bytes} and {bytes} bytes"));
            let words: Vec<&str> = reason.split("between ").nth(1).unwrap().split(' ').collect();
            let bound = |at: usize| words[at].parse::<f64>().unwrap();
            prop_assert!(bound(0) <= bytes && bytes <= bound(2), "{reason}: {bytes}");
        }
    }
}
