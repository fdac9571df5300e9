//! The most that the processes of a job can have held at one moment, from what each of them held
//! at most and from when to when it was there.
//!
//! Time is cut into stretches, one for each look at the job. Of processes that began and ended
//! within one, the greatest sum at one moment is found; whoever was there longer counts in full in
//! each stretch he touched. That is never less than what was held, and for processes that come one
//! after the other not much more. Stretches are joined when there are too many: the bound stays one.

/// Stretches to keep.
const STRETCHES: usize = 65_536;

/// A process that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// When it was started.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// The most it held.
    pub bytes: u64,
}

/// The bound so far.
#[derive(Debug, Default)]
pub struct PeakBound {
    /// When each stretch ends, and the bound in it.
    stretches: Vec<(u64, u64)>,
}

impl PeakBound {
    /// A stretch has ended, and these were found to have ended: in it, or in one before.
    pub fn stretch(&mut self, ends_ns: u64, ended: &[Held]) {
        let begins_ns = self.stretches.last().map_or(0, |(end, _)| *end);
        let (brief, long): (Vec<Held>, Vec<Held>) =
            ended.iter().partition(|held| held.from_ns > begins_ns);
        self.stretches.push((ends_ns, greatest_sum(&brief)));
        for held in long {
            let first = self.stretches.partition_point(|(end, _)| *end < held.from_ns);
            for (_, bytes) in &mut self.stretches[first..] {
                *bytes = bytes.saturating_add(held.bytes);
            }
        }
        if self.stretches.len() > STRETCHES {
            self.stretches = self
                .stretches
                .chunks(2)
                .map(|pair| {
                    let end = pair.iter().map(|(end, _)| *end).max();
                    let bytes = pair.iter().map(|(_, bytes)| *bytes).max();
                    (end.unwrap_or_default(), bytes.unwrap_or_default())
                })
                .collect();
        }
    }

    /// The bound, if `alive` are there still.
    pub fn bytes(&self, alive: &[Held]) -> u64 {
        let sums = self.stretches.iter().map(|(end, bytes)| {
            let there = alive.iter().filter(|held| held.from_ns <= *end);
            bytes + there.map(|held| held.bytes).sum::<u64>()
        });
        sums.max().unwrap_or_default()
    }
}

fn greatest_sum(held: &[Held]) -> u64 {
    // Who ends as another begins gives way to him: an end comes before a beginning.
    let mut steps: Vec<(u64, bool, u64)> =
        held.iter().map(|h| (h.from_ns, true, h.bytes)).collect();
    steps.extend(held.iter().map(|h| (h.to_ns.max(h.from_ns + 1), false, h.bytes)));
    steps.sort_unstable();
    let (mut now, mut greatest) = (0u64, 0);
    for (_, begins, bytes) in steps {
        now = if begins { now + bytes } else { now.saturating_sub(bytes) };
        greatest = greatest.max(now);
    }
    greatest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(from_ns: u64, to_ns: u64, bytes: u64) -> Held {
        Held { from_ns, to_ns, bytes }
    }

    #[test]
    fn one_after_the_other_is_not_a_sum() {
        let mut peak = PeakBound::default();
        peak.stretch(100, &[held(10, 20, 5), held(20, 30, 7), held(40, 50, 6)]);
        assert_eq!(peak.bytes(&[]), 7);
    }

    #[test]
    fn at_the_same_time_is() {
        let mut peak = PeakBound::default();
        peak.stretch(100, &[held(10, 30, 5), held(20, 40, 7), held(40, 50, 6)]);
        assert_eq!(peak.bytes(&[]), 12);
    }

    #[test]
    fn who_is_there_for_long_counts_wherever_he_was() {
        let mut peak = PeakBound::default();
        peak.stretch(100, &[held(10, 30, 50)]);
        peak.stretch(200, &[held(110, 130, 5)]);
        peak.stretch(300, &[held(150, 250, 7), held(210, 220, 1)]);
        assert_eq!(peak.bytes(&[]), 50, "he began after the first stretch");
        assert_eq!(peak.bytes(&[held(105, 0, 60)]), 72);
    }

    #[test]
    fn many_stretches_are_joined() {
        let mut peak = PeakBound::default();
        for i in 0..200_000u64 {
            peak.stretch(10 * i + 10, &[held(10 * i + 1, 10 * i + 2, i % 1000)]);
        }
        assert!(peak.stretches.len() <= STRETCHES + 1);
        assert_eq!(peak.bytes(&[]), 999);
        peak.stretch(2_000_010, &[held(5, 2_000_005, 1)]);
        assert_eq!(peak.bytes(&[]), 1000);
    }
}
