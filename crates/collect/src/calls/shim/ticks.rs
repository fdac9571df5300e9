//! How fast the processor's counter runs, by which the library takes the time of calls: reading it
//! takes half as long as asking the kernel's clock.
//!
//! Refuses (gives no scale) where the kernel's own clock does not go by that counter, for then it may
//! stand still, change its pace, or differ from CPU to CPU.

use std::time::Duration;

use crate::clock::monotonic_ns;

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Shorter than that, the readings' own time would show.
const LEAST: Duration = Duration::from_millis(100);

/// Enough for times that are told to a thousandth.
const BRIEF: Duration = Duration::from_millis(10);

/// The counter, and the clock at the same moment.
#[derive(Clone, Copy)]
struct Moment {
    ticks: u64,
    ns: u64,
}

/// The counter since its first reading.
pub(crate) struct Ticks(Option<Moment>);

impl Ticks {
    /// Reads it for the first time, where it can be gone by.
    pub(crate) fn begin() -> Ticks {
        let is_good = std::fs::read_to_string(CLOCK).is_ok_and(|name| name.trim() == "tsc");
        Ticks(if is_good { moment() } else { None })
    }

    /// Whether it can be gone by.
    pub(crate) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// How fast it runs, as far as that can be told by now.
    pub(crate) fn pace(&self) -> TickRate {
        TickRate(self.0.and_then(|began| Some((began, self.scale_after(BRIEF)?))))
    }

    /// Nanoseconds for each 2^32 ticks.
    pub(super) fn scale(&self) -> Option<u64> {
        self.scale_after(LEAST)
    }

    fn scale_after(&self, least: Duration) -> Option<u64> {
        let began = self.0?;
        let passed = Duration::from_nanos(monotonic_ns().saturating_sub(began.ns));
        std::thread::sleep(least.saturating_sub(passed));
        scale(began, moment()?)
    }
}

/// How fast the counter runs; where there is none, ticks are the nanoseconds of the monotonic clock.
#[derive(Clone, Copy)]
pub(crate) struct TickRate(Option<(Moment, u64)>);

impl TickRate {
    /// How long so many ticks are.
    pub(crate) fn span_ns(&self, ticks: u64) -> u64 {
        self.0.map_or(ticks, |(_, scale)| span(ticks, scale))
    }

    /// When the counter stood so, by the monotonic clock.
    pub(crate) fn moment_ns(&self, ticks: u64) -> u64 {
        let Some((began, scale)) = self.0 else { return ticks };
        match ticks.checked_sub(began.ticks) {
            Some(later) => began.ns.saturating_add(span(later, scale)),
            None => began.ns.saturating_sub(span(began.ticks - ticks, scale)),
        }
    }
}

fn span(ticks: u64, scale: u64) -> u64 {
    u64::try_from((u128::from(ticks) * u128::from(scale)) >> 32).unwrap_or(u64::MAX)
}

fn scale(from: Moment, to: Moment) -> Option<u64> {
    let ns = u128::from(to.ns.checked_sub(from.ns)?) << 32;
    u64::try_from(ns.checked_div(u128::from(to.ticks.checked_sub(from.ticks)?))?).ok()
}

/// Both at once: of several tries the one that took the least time.
fn moment() -> Option<Moment> {
    let reading = || {
        let (before, ns, after) = (counter()?, monotonic_ns(), counter()?);
        Some((after.wrapping_sub(before), Moment { ticks: before / 2 + after / 2, ns }))
    };
    let tries = (0..16).filter_map(|_| reading());
    tries.min_by_key(|(took, _)| *took).map(|(_, moment)| moment)
}

#[cfg(target_arch = "x86_64")]
fn counter() -> Option<u64> {
    // SAFETY: every processor of this architecture has the counter, and reading it changes nothing.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_nanoseconds_for_ticks() {
        let from = Moment { ticks: 1000, ns: 500 };
        // 2.5 ticks a nanosecond.
        let to = Moment { ticks: 1000 + 2_500_000_000, ns: 500 + 1_000_000_000 };
        assert_eq!(scale(from, to), Some((1 << 32) * 2 / 5));
        assert_eq!(scale(to, from), None);
        assert_eq!(scale(from, from), None);
    }

    #[test]
    fn the_counter_agrees_with_the_clock() {
        let ticks = Ticks::begin();
        let Some(scale) = ticks.scale() else { return };
        let began = moment().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let ended = moment().unwrap();
        let told = (u128::from(ended.ticks - began.ticks) * u128::from(scale)) >> 32;
        let passed = u128::from(ended.ns - began.ns);
        assert!(told.abs_diff(passed) < passed / 10_000, "{told} of {passed}");
    }
}
