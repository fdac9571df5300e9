//! The one protocol between weigh and its local clients: programs with libweigh, and users' weigh at the agent.
//!
//! A frame is four words ([`Head`]) and a payload. [`messages`] lists all requests and answers, with the greatest payload
//! and the number of descriptors of each. Reads frames of clients that may be hostile: the decoder is total, allocates
//! no more than has arrived, and refuses other versions, kinds that are not in the list, payloads that are too long,
//! and descriptors that do not belong to a kind.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod datagram;
mod frame;
pub mod library;
pub mod messages;
mod peer;
mod stream;
mod token;

pub use frame::{HEAD_BYTES, Head, Message, Payload, Rule, VERSION, WireError, decode, encode};
pub use messages::{AgentRequest, Answer, FileRequest, JobRequest, StreamRequest, WriteRequest};
pub use peer::{Peer, peer_of};
pub use stream::{ask, receive, receive_parts, receive_request, send, send_parts};
pub use token::Token;
