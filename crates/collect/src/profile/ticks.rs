//! The clocks that profiles are written by.

use weigh_schema::profile::ProfileClock;
use weigh_schema::region::snapshot::ClockPair;

use crate::clock::monotonic_ns;

/// So many pairs are read, and the closest is taken.
const TRIES: usize = 8;

/// This moment, by a profile's clock and by CLOCK_MONOTONIC.
pub fn clock_pair(clock: ProfileClock) -> ClockPair {
    let pairs = (0..TRIES).map(|_| {
        let before = ticks(clock);
        let ns = monotonic_ns();
        let after = ticks(clock);
        let width = after.wrapping_sub(before);
        (width, ClockPair { ticks: before.wrapping_add(width / 2), ns })
    });
    let closest = pairs.min_by_key(|(width, _)| *width).map(|(_, pair)| pair).unwrap_or_default();
    match clock {
        ProfileClock::Monotonic => ClockPair { ticks: closest.ns, ..closest },
        ProfileClock::Counter => closest,
    }
}

fn ticks(clock: ProfileClock) -> u64 {
    match clock {
        ProfileClock::Monotonic => 0,
        ProfileClock::Counter => counter(),
    }
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 has the instruction; it changes nothing.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read this register; it changes nothing.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns()
}
