//! Times in which at least one thread is in a phase.

/// Spans that do not touch each other, with how much lies in all before each.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// Begin, end, and the length of all spans before it; nanoseconds.
    spans: Vec<(i64, i64, i64)>,
    phases: u64,
}

impl Spans {
    /// Joins those that overlap.
    pub(super) fn new(mut all: Vec<(i64, i64)>) -> Spans {
        all.sort_unstable();
        let phases = all.len() as u64;
        let mut spans: Vec<(i64, i64, i64)> = Vec::new();
        for (from, to) in all {
            match spans.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => spans.push((from, to, 0)),
            }
        }
        let mut before = 0i64;
        for span in &mut spans {
            span.2 = before;
            before = before.saturating_add(span.1 - span.0);
        }
        Spans { spans, phases }
    }

    /// How many phases they were made of.
    pub(super) fn phases(&self) -> u64 {
        self.phases
    }

    /// How much lies before a moment.
    fn before(&self, at: i64) -> i64 {
        let next = self.spans.partition_point(|(from, ..)| *from <= at);
        let Some((from, to, before)) = next.checked_sub(1).and_then(|i| self.spans.get(i)) else {
            return 0;
        };
        before.saturating_add(at.min(*to) - from)
    }

    /// How much lies between two moments.
    pub(super) fn within(&self, from: i64, to: i64) -> i64 {
        self.before(to).saturating_sub(self.before(from))
    }

    /// Whether a moment lies in one.
    pub(super) fn contains(&self, at: i64) -> bool {
        let next = self.spans.partition_point(|(from, ..)| *from <= at);
        next.checked_sub(1).and_then(|i| self.spans.get(i)).is_some_and(|(_, to, _)| at < *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_overlap_count_once() {
        let spans = Spans::new(vec![(50, 60), (10, 20), (15, 30), (30, 31)]);
        assert_eq!((spans.phases(), spans.within(0, 100)), (4, 31));
        assert_eq!((spans.within(12, 55), spans.within(31, 50), spans.within(25, 28)), (24, 0, 3));
        assert!(spans.contains(10) && spans.contains(59) && !spans.contains(60));
        assert!(!spans.contains(9) && !spans.contains(40));
        assert_eq!(Spans::new(Vec::new()).within(0, 7), 0);
    }
}
