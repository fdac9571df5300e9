//! The clock of the slots, and what the library needs to know to find it in a time namespace
//! (`libweigh/preload/clock.c`).

use std::sync::atomic::Ordering;

use rustix::time::ClockId;

use super::layout::Head;
use crate::{clock, procfs};

/// Two readings that are further apart than this say nothing of the clocks.
const APART_NS: u64 = 1_000_000;

/// The clock of the slots.
pub fn now_ns() -> u64 {
    clock::Moment::now().ns()
}

/// Writes down how far the clock of the day is ahead, for it may have been set, and when it was
/// found so: a process that sees neither clock as weigh does has that to go by.
pub fn tell(head: &Head) {
    let (before, day, after) = (now_ns(), clock::now_ns(ClockId::Realtime), now_ns());
    // After an interruption in between, the next look does it; the first time anything is better
    // than nothing, for the library would ask the kernel then.
    if after - before < APART_NS || head.day_ahead_ns.load(Ordering::Relaxed) == 0 {
        head.day_ahead_ns.store(day.wrapping_sub(before), Ordering::Relaxed);
    }
    head.told_ns.store(before, Ordering::Relaxed);
}

/// When a process was made, on the clock of the slots, to the tick.
pub fn made_ns(pid: u32) -> Option<u64> {
    let stat = procfs::parse_stat(&procfs::read_of(pid, "stat").ok()?)?;
    Some(stat.start_ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}
