//! The recording of a run, as a sink: updates in, lines of the journal out.

use anyhow::Context as _;
use weigh_keep::RecordingWriter;
use weigh_schema::update::Update;
use weigh_session::{Sink, SourceError, go_without, unless_medium_failed};

use super::settings::RunOutput;

const NO_RECORDING: &str = "there is no recording";

/// A recording that is being made, or why there is none.
pub struct RecordingSink {
    writer: anyhow::Result<RecordingWriter>,
    error: Option<SourceError>,
}

impl RecordingSink {
    /// Makes the directory and the journal. Refuses a directory that the user named and that cannot be one; any other
    /// failure leaves the run without a recording, unless one is required.
    pub fn create(output: &mut RunOutput) -> anyhow::Result<RecordingSink> {
        let created = match output.no_default.take() {
            Some(error) => Err(error),
            None => RecordingWriter::create(&output.directory),
        };
        let writer = match created {
            Err(error) if !output.is_directory_given => {
                let text = format!("{NO_RECORDING} (-o DIR names a place for one)");
                Err(go_without(anyhow::Error::new(error).context(text))?)
            }
            created => unless_medium_failed(created.context(NO_RECORDING))?,
        };
        Ok(RecordingSink { writer, error: None })
    }

    /// Gives the recording up and removes it.
    pub fn discard(self) {
        if let Ok(writer) = self.writer {
            writer.discard();
        }
    }

    /// What finishes it, or why there is none.
    pub fn into_writer(self) -> anyhow::Result<RecordingWriter> {
        self.writer
    }

    fn take_note_of_error(&mut self) {
        let Ok(writer) = &self.writer else { return };
        if let (None, Some(error)) = (&self.error, writer.error()) {
            let place = writer.directory().display();
            let text = format!("the recording cannot be written to {place}: {error}");
            self.error = Some(text.into());
        }
    }
}

impl Sink for RecordingSink {
    fn emit(&mut self, update: &Update) {
        if let Ok(writer) = &mut self.writer {
            writer.append(update);
        }
        self.take_note_of_error();
    }

    fn flush(&mut self) {
        if let Ok(writer) = &mut self.writer {
            writer.flush();
        }
        self.take_note_of_error();
    }

    fn is_watched(&self) -> bool {
        self.writer.as_ref().is_ok_and(RecordingWriter::is_watched)
    }

    fn error(&self) -> Option<&SourceError> {
        self.error.as_ref()
    }
}
