//! What takes what a session emits: the contract of everything that keeps, shows or passes it on.

use weigh_schema::update::Update;

use crate::error::SourceError;

/// Takes updates, in the order in which they are emitted.
///
/// Nothing that goes wrong in a sink ends a session, or decides about the job: it is kept, and told at the end.
pub trait Sink {
    /// Takes an update.
    fn emit(&mut self, update: &Update);

    /// All that is there for now has been emitted: what is written has to be found by others.
    fn flush(&mut self) {}

    /// Whether somebody waits for each update: a page that shows it live.
    fn is_watched(&self) -> bool {
        false
    }

    /// What went wrong, if something did: nothing more is taken from then on.
    fn error(&self) -> Option<&SourceError> {
        None
    }
}
