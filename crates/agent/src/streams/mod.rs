//! Streams of records: what the node does at each tick, and what clients publish.
//!
//! Reads requests of clients, whom [`StreamDoor`] lets in; emits answers. A record is serialised once for all readers.
//! Refuses more clients and more published values than a user may have, names that are not plain, and changes by others
//! than root and the agent's own user. No thread of its own: its host gives one to the [`StreamServer`], writes records to it,
//! and takes from it what clients want of the node ([`NodeControl`]).

mod checkpoint;
mod connection;
mod door;
mod known_profiles;
mod otlp;
mod page;
mod profiles;
mod published;
mod published_reader;
mod record;
mod remote;
mod requests;
mod server;
mod spans;
mod statsd;
mod status;
#[cfg(test)]
mod tests;

pub use door::StreamDoor;
pub use page::PageAccess;
pub use published_reader::PublishedReader;
pub use record::Visibility;
pub use remote::{NodeReader, StreamClient, StreamError};
pub use server::{NodeControl, StreamServer, StreamSettings};
