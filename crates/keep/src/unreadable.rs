//! Tables of a recording that cannot be read, where the rest is shown all the same.

use crate::error::KeepError;
use crate::recording::Recording;

/// What could not be read of a recording.
#[derive(Debug)]
pub struct UnreadableTables {
    /// What stands before the names of its files.
    folder: String,
    reasons: Vec<String>,
}

impl UnreadableTables {
    /// Of none so far.
    pub fn new(recording: &Recording) -> UnreadableTables {
        let folder = format!("{}/", recording.directory().display());
        UnreadableTables { folder, reasons: Vec::new() }
    }

    /// What was read; nothing, and the reason is kept, if it could not be.
    pub fn take<T: Default>(&mut self, read: Result<T, KeepError>) -> T {
        read.unwrap_or_else(|error| {
            let reason = error.to_string().replace(&self.folder, "");
            if !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
            T::default()
        })
    }

    /// That not all is shown, and why; none if it is.
    pub fn sentence(&self) -> Option<String> {
        let reasons = self.reasons.join("; ");
        (!reasons.is_empty()).then(|| format!("not all of it can be shown: {reasons}"))
    }
}
