//! The accounting: from readings and events to series, process rows, and the summary's values.
//!
//! Pure: no clock and no I/O of its own, so the same input always gives the same result, and it
//! can be tested on recorded input. Reads the types of `schema::event`; emits those of
//! `schema::recording` and `schema::summary`.

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod calls;
mod explain;
pub mod io;
mod limits;
mod marks;
pub mod node;
pub mod published;
pub mod regions;
pub mod rules;
mod sampling;
mod series;
pub mod stream;
mod summary;
mod tree;

pub use calls::{Owners, Slowest, call_kinds, call_row, is_idle_call, single_call};
pub use explain::{
    CallReader, ExplainRequest, FollowedCommand, Missing, NothingToExplain, PhaseSurvey,
    PhaseTimes, explain,
};
pub use limits::{Crossed, LimitWatch};
pub use marks::{Mark, Marks, Rule, WatchSpec};
pub use sampling::{SamplingSchedule, Tick};
pub use series::Series;
pub use summary::{Measured, job_value, metrics};
pub use tree::{Tree, shell_words};
