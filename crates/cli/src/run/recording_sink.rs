//! The recording of a run, as a sink: updates in, lines of the journal out.

use std::path::Path;

use weigh_keep::{KeepError, RecordingWriter};
use weigh_schema::update::Update;
use weigh_session::{Sink, SourceError};

/// A recording that is being made.
pub struct RecordingSink {
    writer: RecordingWriter,
    error: Option<SourceError>,
}

impl RecordingSink {
    /// Makes the directory and the journal.
    pub fn create(directory: &Path) -> Result<RecordingSink, KeepError> {
        Ok(RecordingSink { writer: RecordingWriter::create(directory)?, error: None })
    }

    /// Gives the recording up and removes it.
    pub fn discard(self) {
        self.writer.discard();
    }

    /// What finishes it.
    pub fn into_writer(self) -> RecordingWriter {
        self.writer
    }

    fn take_note_of_error(&mut self) {
        if let (None, Some(error)) = (&self.error, self.writer.error()) {
            let place = self.writer.directory().display();
            let text = format!("the recording cannot be written to {place}: {error}");
            self.error = Some(text.into());
        }
    }
}

impl Sink for RecordingSink {
    fn emit(&mut self, update: &Update) {
        self.writer.append(update);
        self.take_note_of_error();
    }

    fn flush(&mut self) {
        self.writer.flush();
        self.take_note_of_error();
    }

    fn error(&self) -> Option<&SourceError> {
        self.error.as_ref()
    }
}
