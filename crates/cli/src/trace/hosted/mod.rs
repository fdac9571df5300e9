//! Streams of users without rights, by the agent: what is asked ([`HostAsk`]) and answered ([`HostAnswer`]) between the user's
//! weigh ([`super::guest`]) and the process of the agent's that attaches probes for him ([`serve`]).
//!
//! A line of JSON asks, one answers. No program comes from the user: events are parsed, checked and made into programs on
//! the agent's side.

mod asking;
mod serve;
mod wire;

pub use asking::{agent, wanted};
pub use serve::be_stream;
pub use wire::{HostAnswer, HostAsk, Open, OpenEvent, VERSION};
