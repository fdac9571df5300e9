//! The conversation with the agent's process that traces for a user.

#[path = "../../../crates/session/src/products/trace/stream_host/wire.rs"]
mod wire;

pub use wire::{HostAnswer, HostAsk};
