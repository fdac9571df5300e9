//! What the two sides say to each other.

use serde::{Deserialize, Serialize};
use weigh_schema::call::WrittenFound;

/// What a user's weigh asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ask {
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
pub(super) enum Tell {
    /// It was done.
    Done,
    /// It was not, or cannot be.
    Refused(String),
    /// What was found.
    Found(WrittenFound),
}
