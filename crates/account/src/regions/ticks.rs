//! How long the ticks of a profile's clock are.

use weigh_schema::profile::ProfileClock;
use weigh_schema::region::snapshot::ClockPair;

const NS: f64 = 1e-9;

/// Turns ticks into times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickScale {
    from: ClockPair,
    ns_per_tick: f64,
}

impl TickScale {
    /// From two moments by both clocks; none if they are the same, or not in order.
    pub fn between(clock: ProfileClock, first: ClockPair, last: ClockPair) -> Option<TickScale> {
        if clock == ProfileClock::Monotonic {
            return Some(TickScale { from: ClockPair::default(), ns_per_tick: 1.0 });
        }
        let ticks = last.ticks.checked_sub(first.ticks).filter(|ticks| *ticks > 0)?;
        let ns = last.ns.checked_sub(first.ns).filter(|ns| *ns > 0)?;
        Some(TickScale { from: first, ns_per_tick: ns as f64 / ticks as f64 })
    }

    /// How long so many ticks take.
    pub fn seconds(&self, ticks: f64) -> f64 {
        ticks * self.ns_per_tick * NS
    }

    /// When a tick was, in nanoseconds of CLOCK_MONOTONIC.
    pub fn monotonic_ns(&self, ticks: u64) -> i64 {
        let since = i128::from(ticks) - i128::from(self.from.ticks);
        let ns = since as f64 * self.ns_per_tick;
        i64::try_from(self.from.ns).unwrap_or(i64::MAX).saturating_add(ns as i64)
    }
}
