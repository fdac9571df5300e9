//! What people look at, made from what was recorded.
//!
//! Every function here is pure: schema types in, text out. Nothing is read or written, and no
//! metric is listed by hand: tables, page and documentation follow
//! [`METRICS`](weigh_schema::METRICS).
//!
//! * [`digest`][]: the summary in twelve lines, [`table`][]: all of it.
//! * [`progress`][]: one line while the job runs.
//! * [`report`][]: `report.html`.
//! * [`calls`][]: the table of calls, [`explain`][]: the slow ones beside the ordinary ones.
//! * [`io`][]: the table of files.
//! * [`regions`][]: the times of regions that programs name.
//! * [`synthesis`][]: what was found in several events together, [`trace`][]: the page of events.
//! * [`doctor`][]: what works here, and what does not.
//! * [`top`][]: the screen of `weigh top`, [`agent`][]: how an agent stands.
//! * [`docs`][]: `docs/metrics.md`.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod agent;
mod allowed;
pub mod calls;
pub mod digest;
pub mod docs;
pub mod doctor;
mod document;
pub mod explain;
mod gpus;
pub mod io;
mod live;
mod machine;
mod moments;
pub mod outcome;
pub mod progress;
pub mod regions;
pub mod report;
#[doc(hidden)]
pub mod shape;
pub mod synthesis;
pub mod table;
mod text;
pub mod top;
pub mod trace;

pub use live::{LiveAssets, live_assets};
pub use text::Screen;
