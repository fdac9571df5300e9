//! A job that runs: the source that follows it, holds it to its limits, and emits what is recorded.

mod conclusion;
mod cutoff;
mod job_state;
mod joined;
mod limits;
mod page_looks;
mod run_source;
mod ticks;

pub(super) use cutoff::Cutoff;
pub(super) use limits::{LimitLooks, is_of_calls, tell_lower_bounds, tell_price_of_calls};
pub(super) use run_source::RunSource;
pub(super) use ticks::Ticks;
