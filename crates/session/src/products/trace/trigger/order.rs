//! What goes to the helper.

use serde::{Deserialize, Serialize};

use crate::products::run::event_hook::Order;

/// The first argument of weigh as the helper.
pub(super) const HELPER: &str = "--be-helper-of-trigger";

/// An order, and how long the helper has to wait before.
#[derive(Serialize, Deserialize)]
pub(super) struct TriggerOrder {
    pub wait_ms: u64,
    #[serde(flatten)]
    pub order: Order,
}
