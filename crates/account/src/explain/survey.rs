//! The first reading: how long calls of each kind take.

use std::collections::BTreeMap;

use weigh_schema::call_row::CallRow;
use weigh_schema::explain::{AskedToken, SlowRule, Verdict};

use super::bucket::{Times, slowest_from};
use super::call_kind::{Borders, KindKey, is_of};
use super::compare::Comparison;

/// Fewer calls of a kind have no ordinary ones: the quartiles would hold a handful.
const LEAST_CALLS: u64 = 40;

/// How long calls take: the first reading.
#[derive(Debug, Default)]
pub struct Survey {
    pub(super) kinds: BTreeMap<KindKey, Times>,
    pub(super) measured: u64,
    /// Whose intervals are asked for, and how many there are.
    pub(super) asked: Vec<(AskedToken, u64)>,
}

impl Survey {
    /// Of intervals: those of these tokens are to be compared with ordinary ones of all others.
    pub fn asked_for(tokens: &[AskedToken]) -> Survey {
        let mut asked: Vec<(AskedToken, u64)> = Vec::new();
        for token in tokens {
            // One that is named twice, as a text and by its number, is one.
            if asked.iter().all(|(other, _)| other.token != token.token) {
                asked.push((token.clone(), 0));
            }
        }
        Survey { asked, ..Survey::default() }
    }

    /// The first token of which there is no interval.
    pub fn unfound(&self) -> Option<&AskedToken> {
        self.asked.iter().find(|(_, intervals)| *intervals == 0).map(|(token, _)| token)
    }

    /// Takes a call in.
    pub fn add(&mut self, row: &CallRow) {
        self.measured |= row.measured;
        if let Some((_, intervals)) = self.asked.iter_mut().find(|(asked, _)| is_of(row, asked)) {
            *intervals += 1;
            return;
        }
        self.kinds.entry(KindKey::of(row)).or_default().add(row.account.time_ns());
    }

    /// The second reading, with slow calls being these.
    pub fn compare(mut self, slow: SlowRule) -> Comparison {
        if !self.asked.is_empty() {
            let others = self.kinds.remove(&KindKey::interval()).unwrap_or_default();
            // No limit of time: calls that were asked for are shown however long they took.
            let borders = borders(&others, SlowRule::Seconds(f64::INFINITY));
            let asked = self.asked.into_iter().map(|(token, _)| (token, borders.clone()));
            return Comparison::of_asked(self.measured, asked.collect());
        }
        let borders = |(kind, times): (KindKey, Times)| (kind, borders(&times, slow));
        Comparison::new(slow, self.measured, self.kinds.into_iter().map(borders).collect())
    }
}

pub(super) fn borders(times: &Times, rule: SlowRule) -> Borders {
    let quantile = |share| times.quantile(share).unwrap_or_default();
    let median = Times::first(quantile(0.5));
    let quartiles = (Times::first(quantile(0.25)), Times::first(quantile(0.75) + 1));
    let slow = match rule {
        SlowRule::Share(share) => slowest_from(times, share).max(median.saturating_mul(2)),
        SlowRule::Seconds(seconds) => (seconds * 1e9).round() as u64,
    };
    let least = match rule {
        SlowRule::Share(share) => LEAST_CALLS.max((1.0 / share).ceil() as u64),
        SlowRule::Seconds(_) => LEAST_CALLS,
    };
    let verdict = match times.total() {
        calls if calls < least => Verdict::TooFew,
        _ if slow <= quartiles.0 => Verdict::AllSlow,
        _ => Verdict::Differ,
    };
    let ordinary = (quartiles.0, quartiles.1.min(slow));
    Borders { calls: times.total(), median, ordinary, slow, verdict }
}
