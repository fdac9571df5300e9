//! The peak of memory with sharing counted once: bounds from the kernel side, narrowed by looks
//! at the pages.

use weigh_schema::event::{MemoryReading, SharedMemoryReading};
use weigh_schema::quality::Quality;

/// How near the two bounds must be for the value to be called exact.
const EXACT_WITHIN: f64 = 0.01;

/// How near the sum at a look must be to the greatest sum for the look to stand for the peak.
const LOOK_AT_PEAK_WITHIN: f64 = 0.03;

/// The peak, and how sure it is.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEstimate {
    /// The value.
    pub bytes: f64,
    /// How far it can be trusted.
    pub quality: Quality,
    /// The bounds, where they are apart.
    pub reason: Option<String>,
}

/// The peak that follows from the bounds and the looks.
pub fn estimate_peak(memory: &MemoryReading, looks: &[SharedMemoryReading]) -> MemoryEstimate {
    let upper = memory.rss_sum_peak as f64;
    let best_look = looks.iter().max_by_key(|look| look.rss_sum_bytes);
    let seen = looks.iter().map(|look| look.union_bytes).max().unwrap_or(0) as f64;
    let lower = (memory.floor_peak as f64).max(seen).min(upper);
    if upper - lower <= upper * EXACT_WITHIN {
        return MemoryEstimate { bytes: upper, quality: Quality::Exact, reason: None };
    }
    // What was counted more than once, seen where the sum was near its greatest.
    let at_peak = best_look
        .filter(|look| look.rss_sum_bytes as f64 >= upper * (1.0 - LOOK_AT_PEAK_WITHIN))
        .map(|look| {
            let surplus = look.rss_sum_bytes.saturating_sub(look.union_bytes);
            (upper - surplus as f64).clamp(lower, upper)
        });
    let bounds = format!("between {} and {} bytes, by the kernel's counters", lower, upper);
    match (at_peak, best_look) {
        (Some(bytes), _) => MemoryEstimate {
            bytes,
            quality: Quality::Sampled,
            reason: Some(format!(
                "pages are shared; looked at {} times, also at the peak; {bounds}",
                looks.len()
            )),
        },
        (None, Some(look)) if look.rss_sum_bytes > 0 => {
            let share = (look.union_bytes as f64 / look.rss_sum_bytes as f64).min(1.0);
            MemoryEstimate {
                bytes: (upper * share).clamp(lower, upper),
                quality: Quality::Estimated,
                reason: Some(format!(
                    "pages are shared; the part seen at a lower sum ({share:.3}) was taken for the peak; {bounds}"
                )),
            }
        }
        _ => MemoryEstimate {
            bytes: upper,
            quality: Quality::Estimated,
            reason: Some(format!("pages may be shared and were not looked at; {bounds}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(floor_peak: u64, rss_sum_peak: u64) -> MemoryReading {
        MemoryReading { floor_peak, rss_sum_peak, ..Default::default() }
    }

    #[test]
    fn bounds_that_meet_are_exact() {
        let peak = estimate_peak(&reading(995, 1000), &[]);
        assert_eq!((peak.bytes, peak.quality, peak.reason), (1000.0, Quality::Exact, None));
    }

    #[test]
    fn a_look_at_the_peak_settles_it() {
        let look = SharedMemoryReading { at_ns: 1, union_bytes: 503, rss_sum_bytes: 2500 };
        let peak = estimate_peak(&reading(500, 2510), &[look]);
        assert_eq!((peak.bytes, peak.quality), (513.0, Quality::Sampled));
        assert!(peak.reason.unwrap().contains("between 503 and 2510"));
    }

    #[test]
    fn a_look_below_the_peak_is_scaled_within_the_bounds() {
        let look = SharedMemoryReading { at_ns: 1, union_bytes: 250, rss_sum_bytes: 500 };
        let peak = estimate_peak(&reading(300, 1000), &[look]);
        assert_eq!((peak.bytes, peak.quality), (500.0, Quality::Estimated));
    }

    #[test]
    fn without_a_look_the_upper_bound_is_given_as_an_estimate() {
        let peak = estimate_peak(&reading(300, 1000), &[]);
        assert_eq!((peak.bytes, peak.quality), (1000.0, Quality::Estimated));
    }
}
