//! The most that the processes of a job can have held at one moment, from what each of them held
//! at most and from when to when it was there.
//!
//! Processes that have ended are kept one by one until there are many. Then those that were brief
//! are folded, some at a time, into one that was there from the first's beginning to the last's end
//! and held the greatest sum that they held at one moment: the bound stays one.

/// Processes to keep.
const KEPT: usize = 8_192;

/// How many are folded into one.
const FOLDED: usize = 64;

/// A process that has ended.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPeak {
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
    ended: Vec<ProcessPeak>,
}

impl PeakBound {
    /// A process has ended.
    pub fn add(&mut self, held: ProcessPeak) {
        self.ended.push(held);
        if self.ended.len() > KEPT {
            self.fold();
        }
    }

    /// The bound, if `alive` are there still, until the end of time.
    pub fn bytes(&self, alive: &[ProcessPeak]) -> u64 {
        let forever = alive.iter().map(|held| ProcessPeak { to_ns: u64::MAX, ..*held });
        greatest_sum(&self.ended.iter().copied().chain(forever).collect::<Vec<_>>())
    }

    fn fold(&mut self) {
        let begins = self.ended.iter().map(|h| h.from_ns).min().unwrap_or_default();
        let ends = self.ended.iter().map(|h| h.to_ns).max().unwrap_or_default();
        let groups = (self.ended.len() / FOLDED).max(1) as u64;
        let brief_ns = 4 * (ends.saturating_sub(begins) / groups);
        let all = std::mem::take(&mut self.ended);
        let (mut brief, mut long): (Vec<ProcessPeak>, Vec<ProcessPeak>) =
            all.into_iter().partition(|h| h.to_ns.saturating_sub(h.from_ns) <= brief_ns);
        if long.len() > KEPT / 2 {
            brief.append(&mut long);
        }
        brief.sort_unstable_by_key(|held| held.from_ns);
        let folded = brief.chunks(FOLDED).map(|some| ProcessPeak {
            from_ns: some.iter().map(|h| h.from_ns).min().unwrap_or_default(),
            to_ns: some.iter().map(|h| h.to_ns).max().unwrap_or_default(),
            bytes: greatest_sum(some),
        });
        self.ended = folded.chain(long).collect();
    }
}

fn greatest_sum(held: &[ProcessPeak]) -> u64 {
    // Where one ends as another begins, the end comes first.
    let mut steps: Vec<(u64, bool, u64)> =
        held.iter().map(|h| (h.from_ns, true, h.bytes)).collect();
    steps.extend(held.iter().map(|h| (h.to_ns.max(h.from_ns.saturating_add(1)), false, h.bytes)));
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

    fn held(from_ns: u64, to_ns: u64, bytes: u64) -> ProcessPeak {
        ProcessPeak { from_ns, to_ns, bytes }
    }

    fn bound(all: &[ProcessPeak]) -> PeakBound {
        let mut peak = PeakBound::default();
        all.iter().for_each(|held| peak.add(*held));
        peak
    }

    #[test]
    fn one_after_the_other_is_not_a_sum() {
        assert_eq!(bound(&[held(10, 20, 5), held(20, 30, 7), held(40, 50, 6)]).bytes(&[]), 7);
    }

    #[test]
    fn at_the_same_time_is() {
        let peak = bound(&[held(10, 30, 5), held(20, 40, 7), held(40, 50, 6)]);
        assert_eq!(peak.bytes(&[]), 12);
        assert_eq!(peak.bytes(&[held(45, 0, 60)]), 66, "who is there still did not end");
    }

    #[test]
    fn many_are_folded_and_the_bound_stays_one() {
        let mut peak = bound(&[held(1, 4_000_000, 50)]);
        for i in 0..200_000u64 {
            peak.add(held(10 * i + 1, 10 * i + 9, i % 1000));
        }
        assert!(peak.ended.len() <= KEPT + 1);
        assert!((1049..=1100).contains(&peak.bytes(&[])), "{}", peak.bytes(&[]));
    }
}
