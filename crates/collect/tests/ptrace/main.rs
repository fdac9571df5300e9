//! Jobs that are followed by ptrace.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod isolation;
mod jobs;
#[path = "../common/traced.rs"]
mod traced;
mod traced_calls;
