//! Streams of users without privileges, by the agent: what is asked ([`HostAsk`]) and answered ([`HostAnswer`]) between the user's
//! weigh ([`super::remote_stream`]) and the process of the agent's that attaches the probes ([`serve`]).
//!
//! A line of JSON asks, one answers. No program comes from the user: events are parsed, checked and made into programs on
//! the agent's side.

mod request;
mod serve;
mod wire;

pub use request::{agent, open_request};
pub use serve::be_stream;
pub use wire::{HostAnswer, HostAsk, OpenRequest};
