//! What a stream of `weigh trace` says of itself where its values are published.

use serde::{Deserialize, Serialize};

/// Bytes of what was asked of a stream of `weigh trace`.
pub const MOST_QUERY_BYTES: usize = 200;

/// What a stream of `weigh trace` was asked, and whom it follows, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceQuery {
    /// The words of `--latency`, `--rate` and so on, at most [`MOST_QUERY_BYTES`].
    pub asked: String,
    /// The process that it follows; null where it follows a command, or everybody.
    pub followed_pid: Option<u32>,
}
