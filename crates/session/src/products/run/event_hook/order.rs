//! What goes to the helper.

use serde::{Deserialize, Serialize};

/// The first argument of weigh as the helper.
pub(super) const HELPER: &str = "--be-helper-of-on-event";

/// One line to the helper.
#[derive(Serialize, Deserialize)]
pub struct Order {
    /// The command's environment, besides weigh's.
    pub variables: Vec<(String, String)>,
    /// What it gets on its standard input.
    pub input: String,
}
