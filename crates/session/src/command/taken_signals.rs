//! The signals that weigh takes for itself, and how it ends by what ended the command.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use weigh_collect::cpu_limit;
use weigh_collect::signals::{self, SignalReader};
use weigh_collect::spawn::SignalMask;

use crate::error::SessionError;

/// How a shell's job control stops a command.
pub(crate) const JOB_CONTROL: [i32; 3] = [20, 21, 22]; // TSTP TTIN TTOU

/// Blocks the signals that weigh takes for itself, and reads them from now on: a notice that its own CPU time is nearly
/// used up is among them.
pub fn take_signals(hears_of_children: bool) -> Result<(SignalMask, SignalReader), SessionError> {
    let taken = signals::taken(hears_of_children);
    let mask =
        SignalMask::block(&taken).map_err(|e| SessionError::system("cannot block signals", e))?;
    let signals =
        SignalReader::new(&taken).map_err(|e| SessionError::system("cannot read signals", e))?;
    cpu_limit::give_notice();
    Ok((mask, signals))
}

/// How weigh ends when the command has ended so: by the same signal, or with the same code.
pub fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        signals::die_by(signal);
        return ExitCode::from(128u8.wrapping_add(signal as u8));
    }
    ExitCode::from(status.code().unwrap_or(0) as u8)
}
