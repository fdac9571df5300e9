//! Recordings and tables that are written, and read again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod growing;
mod journal;
mod older;
mod refusals;
mod round_trip;
#[path = "../support/mod.rs"]
mod support;
mod syscalls;
