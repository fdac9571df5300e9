//! The conversation with a stream.

#[path = "../../../crates/cli/src/trace/control/conversation.rs"]
mod conversation;
#[path = "../../../crates/cli/src/trace/control/reader.rs"]
mod reader;
#[path = "../../../crates/cli/src/trace/control/wire.rs"]
mod wire;

pub use super::description::Where;
pub use conversation::Conversation;
pub use wire::{Answer, Ask, Attached, WakeBy};
