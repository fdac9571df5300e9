//! What comes from outside while a job is followed, taken apart: text of `/proc`, records of fanotify's
//! and of the BPF programs', executable files that the job brings along, messages and profiles of programs with libweigh.
//!
//! Pure functions: bytes in, what they say out. Refuses what makes no sense with `None` or a reason, and never
//! panics, for much of it is written by programs that may be hostile. `collect` and `agent` read the bytes.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod allowed;
pub mod btf;
pub mod executable;
pub mod fanotify;
pub mod job;
pub mod node;
pub mod offender;
pub mod otlp;
pub mod procfs;
pub mod profile;
pub mod statsd;
