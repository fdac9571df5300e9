//! The recording of a run, before it begins: where it goes, or why there is none.

use anyhow::Context as _;
use weigh_keep::{RecordingWriter, remove_recording};
use weigh_session::{go_without, unless_medium_failed};

use super::settings::RunOutput;

const NO_RECORDING: &str = "no recording can be made";

/// Makes the directory and the journal. Refuses a directory that the user named and that cannot be one; any other
/// failure leaves the run without a recording, unless one is required: then it says why.
pub fn create(output: &mut RunOutput) -> anyhow::Result<anyhow::Result<RecordingWriter>> {
    let created = match output.no_default.take() {
        Some(error) => Err(error),
        None if output.replaces => remove_recording(&output.directory)
            .and_then(|()| RecordingWriter::create(&output.directory)),
        None => RecordingWriter::create(&output.directory),
    };
    match created {
        Err(error) if !output.is_directory_given => {
            let text = format!("{NO_RECORDING} (-o DIR names a place for one)");
            Ok(Err(go_without(anyhow::Error::new(error).context(text))?))
        }
        created => unless_medium_failed(created.context(NO_RECORDING)),
    }
}
