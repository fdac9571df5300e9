//! Serves programs with libweigh, which have no rights of their own: gives each a page that it
//! shares with the kernel side, has the kernel side take in its threads, and lets programs read each
//! other's accounts where they may.
//!
//! Users' `weigh run` and `weigh trace` are served too: each job, what it reads and writes (`files`), what of that
//! reaches devices (`writes`), and each stream of events has a process with the agent's rights that has the kernel
//! follow it.
//!
//! Streams of records (`streams`) are served to everybody: what the node does, and what clients publish. Where the kernel
//! side cannot be had they are all that is served (`plain`).
//!
//! Reads requests from a socket, and `/proc`; emits answers with descriptors. Refuses threads of
//! others, more programs than a user may have, and every message that is not understood. It has no
//! thread of its own: its host polls the [`Server`] and lets it [`Server::handle`].
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod access;
mod activity;
mod backoff;
mod client;
mod configured;
mod files;
mod follow;
mod listener;
mod otlp_intake;
mod plain;
mod process;
mod profiles;
mod quota;
mod rate_limit;
mod rounds;
mod served;
mod server;
mod streams;
mod subscriptions;
mod timer;
mod writes;

pub use activity::Notes;
pub use configured::LeftOut;
pub use files::RemoteIo;
pub use follow::{
    RemoteError, RemoteJob, answers, be_session, is_session, session, socket, stream,
};
pub use listener::{ServerError, listen_at, serves_programs, turn_all_away};
pub use otlp_intake::{
    HEADER, IntakeSettings, OtlpIntake, OtlpMessage, OtlpReply, OtlpSignal, PeerNote, TakeMessage,
};
pub use plain::PlainServer;
pub use process::{Refusal, command_of, give_way_to_agent, may_ask, may_follow};
pub use profiles::ProfileServer;
pub use quota::{PROGRAMS, SlotQuota};
pub use server::{Server, Settings};
pub use streams::{
    NodeControl, NodeReader, PageAccess, PublishedReader, StreamClient, StreamDoor, StreamError,
    StreamServer, StreamSettings, Visibility,
};
pub use weigh_wire::{Peer, StreamRequest};
pub use writes::RemoteWrites;
