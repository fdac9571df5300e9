//! A stream is changed while it runs: who asks, and how it is answered.
//!
//! Each stream listens at a socket of its own, at a place that all of its user's programs can find:
//! `/run/weigh/trace-PID.sock` for root, else `$XDG_RUNTIME_DIR/weigh/trace-PID.sock`. One line of JSON
//! asks ([`Ask`]), one answers ([`Answer`]). Who reads along stays connected, and may ask more.

mod connection;
mod conversation;
mod reader;
mod report_reader;
mod server;
mod socket;
mod wire;

pub use super::description::{Description, StreamPosition};
pub use connection::{ask_stream, connect};
pub use conversation::Conversation;
pub use reader::Written;
pub use report_reader::follow_reports;
pub use server::{Control, ControlTarget};
pub use wire::{
    Answer, Ask, AttachBy, Attachment, BufferEntry, Change, ProbeEntry, Register, RuleEntry, WakeBy,
};
