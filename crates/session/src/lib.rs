//! The engine: one measurement from start to end.
//!
//! A [`Session`] starts a command or stays beside what runs already, polls its [`Source`]s, passes signals on, and
//! ends when they say so, when it is time, or when somebody interrupts. It knows what no source measures and how no
//! mechanism works.

#![cfg_attr(test, allow(clippy::expect_used, clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod capabilities;
pub mod choice;
mod command;
pub mod doctor;
mod engine;
mod error;
pub mod kernel_map;
pub mod local_agent;
pub mod products;
mod source;
mod unmeasured;
mod unwritable;

pub use command::ending::{require_recording, status_in_spite_of_error};
pub use command::{
    Command, CommandWait, CpuNotice, Launcher, PendingCommand, end_like, end_with, must_run,
    why_measuring_stopped,
};
pub use engine::Session;
pub use error::{SessionError, SourceError, in_full};
pub use source::{Reaper, SessionEnd, Source, Sources};
pub use unmeasured::{run_after_fault, run_unmeasured};
pub use unwritable::{go_without, unless_medium_failed};
pub use weigh_schema::sink::Sink;
