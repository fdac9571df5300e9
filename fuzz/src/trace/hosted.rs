//! The conversation with the agent's process that traces for a user.

#[path = "../../../crates/cli/src/trace/hosted/wire.rs"]
mod wire;

pub use wire::{HostAnswer, HostAsk};
