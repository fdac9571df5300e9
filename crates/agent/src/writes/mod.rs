//! What a job of a user without privileges has written to devices, followed in the kernel: the user's weigh asks, over a
//! stream, and another process with the agent's privileges, one for each job, answers with a sum.
//! What is kept of pages and requests stays with it.

mod remote;
mod serve;

use serde::{Deserialize, Serialize};
use weigh_schema::call::WrittenFound;

pub use remote::RemoteWrites;
pub(crate) use serve::serve;

/// What a user's weigh asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Ask {
    /// To get ready; the first request, and the only one of its kind.
    Open {
        /// [`crate::follow::wire::VERSION`].
        version: u32,
    },
    /// To follow the command that a descriptor stands for, which comes with it; once.
    Arm,
    /// To follow no longer, and to tell what was found.
    Found,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Tell {
    /// It was done.
    Done,
    /// It was not, or cannot be.
    Refused(String),
    /// What was found.
    Found(WrittenFound),
}
