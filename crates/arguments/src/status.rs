//! What weigh's own status tells of.

use clap::Args;

/// The same for all verbs that start a command.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct StatusArguments {
    /// End with 125 if not all that was measured could be written. Without this weigh ends as the command did, and says
    /// on standard error what is missing.
    #[arg(long)]
    pub require_recording: bool,
}
