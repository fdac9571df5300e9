//! How a run went: what is known of it in the end, or why nothing is.

use weigh_schema::call::CallsReport;
use weigh_schema::summary::Summary;

use super::event_hook::EventHook;

/// A run that is over.
pub struct RunOutcome {
    /// What is known of it.
    pub summary: Summary,
    /// What its system calls cost, where they were followed.
    pub calls: Option<Box<CallsReport>>,
    /// What is run for events: the end is still to be told.
    pub hook: EventHook,
    /// Whether the command was executed; if not it has been said why.
    pub has_begun: bool,
}

/// A run that has no outcome.
#[derive(Debug)]
pub struct RunFailure {
    /// Why.
    pub error: anyhow::Error,
    /// Whether the command was executed: then what was recorded of it until now is of use.
    pub has_begun: bool,
}

/// What fails before the command is executed.
impl From<anyhow::Error> for RunFailure {
    fn from(error: anyhow::Error) -> RunFailure {
        RunFailure { error, has_begun: false }
    }
}
