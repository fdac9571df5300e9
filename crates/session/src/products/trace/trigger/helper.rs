//! The helper's side of `--on-event` of `weigh trace`: runs the command for each order, one after the other.
//!
//! Reads orders from its standard input, a JSON object a line; emits a byte to its standard output for each command that
//! has ended, and a line to standard error for each that failed.

use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{getegid, geteuid, getgid, getuid};
use weigh_collect::notice;

use super::order::{HELPER, TriggerOrder};
use crate::products::run::event_hook::run_command;

/// The command and its arguments, if these say that this weigh is the helper.
pub fn is_trigger_helper(arguments: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut arguments = arguments.into_iter().skip(1);
    let is_helper = arguments.next().is_some_and(|first| first == HELPER);
    let words: Vec<OsString> = arguments.collect();
    (is_helper && !words.is_empty()).then_some(words)
}

/// Does what it is told until there is no more.
pub fn be_trigger_helper(words: &[OsString]) -> ExitCode {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(TriggerOrder { wait_ms, order }) = serde_json::from_str(&line) else { continue };
        std::thread::sleep(Duration::from_millis(wait_ms));
        if let Err(error) = command(words).and_then(|mut command| run_command(&mut command, &order))
        {
            notice!("the command of --on-event, {}: {error}", words[0].display());
        }
        // The stream may have ended.
        let mut output = io::stdout();
        let _ = output.write_all(b".").and_then(|()| output.flush());
    }
    ExitCode::SUCCESS
}

/// The words as they are. Where weigh has another user's rights than the one who has started it, the command has not.
fn command(words: &[OsString]) -> io::Result<Command> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if geteuid() != getuid() || getegid() != getgid() {
        command.gid(getgid().as_raw()).uid(getuid().as_raw());
    }
    Ok(command)
}
