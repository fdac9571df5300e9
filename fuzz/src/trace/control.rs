//! The conversation with a stream.

#[path = "../../../crates/session/src/products/trace/control/conversation.rs"]
mod conversation;
#[path = "../../../crates/session/src/products/trace/control/wire.rs"]
mod wire;

pub use super::description::StreamPosition;
pub use conversation::Conversation;
pub use wire::{Answer, Ask, Attachment, WakeBy};
