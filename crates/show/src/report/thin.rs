//! Fewer samples that still tell the same story.
//!
//! A page can draw some thousand points; a long job leaves millions. Reads one series in the
//! order of time; emits at most the wanted number of its own samples: of every stretch the
//! extremes, so that no peak is lost, and the first and last of all.

/// One sample: seconds since the start, and the value.
pub(super) type Sample = (f64, f64);

/// At most `wanted` (but at least 6) of the samples.
pub(super) fn thin(samples: Vec<Sample>, wanted: usize) -> Vec<Sample> {
    let wanted = wanted.max(6);
    if samples.len() <= wanted {
        return samples;
    }
    let last = samples.len() - 1;
    // Two of every stretch, besides the first and the last sample.
    let stretches = (wanted - 2) / 2;
    let mut kept = vec![samples[0]];
    for i in 0..stretches {
        let inner = last - 1;
        let stretch = &samples[1 + i * inner / stretches..1 + (i + 1) * inner / stretches];
        kept.extend(extremes(stretch));
    }
    kept.push(samples[last]);
    kept
}

/// The least and the greatest sample, in the order of time; one if they are the same.
fn extremes(stretch: &[Sample]) -> Vec<Sample> {
    let mut least = 0;
    let mut greatest = 0;
    for (i, (_, value)) in stretch.iter().enumerate() {
        if *value < stretch[least].1 {
            least = i;
        }
        if *value > stretch[greatest].1 {
            greatest = i;
        }
    }
    let mut at = vec![least, greatest];
    at.sort_unstable();
    at.dedup();
    at.into_iter().filter_map(|i| stretch.get(i).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_and_ends_survive() {
        let mut samples: Vec<Sample> = (0..100_000).map(|i| (i as f64, (i % 7) as f64)).collect();
        samples[54_321].1 = 1e9;
        samples[12_345].1 = -1e9;
        let kept = thin(samples.clone(), 500);
        assert!(kept.len() <= 500, "{}", kept.len());
        assert!(kept.len() > 400, "{}", kept.len());
        for wanted in [samples[0], samples[54_321], samples[12_345], samples[99_999]] {
            assert!(kept.contains(&wanted), "{wanted:?}");
        }
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0), "in the order of time");
    }

    #[test]
    fn few_samples_stay_as_they_are() {
        for n in 0..7 {
            let samples: Vec<Sample> = (0..n).map(|i| (i as f64, 0.0)).collect();
            assert_eq!(thin(samples.clone(), 6), samples);
        }
    }
}
