//! What a read and a write take, as they are, or followed by a weigh that was started for it.
//!
//! Makes small reads and writes of a file that the page cache has, so that what is added to a call is most of it; emits
//! what one took. The followed ones are made by this very program, started again as the command of that weigh.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weigh_collect::notice;
use weigh_schema::doctor::CallTimes;

use super::trial::lines_said;
use crate::error::in_full;

/// What says that this weigh is to make the calls.
const CALLER: &str = "--make-calls-for-a-trial";

/// Bytes of each.
pub(super) const BLOCK: usize = 1024;
const BLOCKS: u64 = 64;
/// The least is taken of so many rounds.
pub(super) const ROUNDS: usize = 41;

/// Loading programs takes a second or two.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// What calls take while a job is followed: the job's, and those of a process outside of it.
pub(super) struct TrialTimes {
    /// Before anything was followed.
    pub without: CallTimes,
    /// The job's.
    pub followed: CallTimes,
    /// Others'.
    pub others: CallTimes,
}

/// Makes calls, and says what one took.
fn make_calls(place: &Path) -> anyhow::Result<CallTimes> {
    let path = place.join(format!("calls-{}", std::process::id()));
    let made = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
    let file = made.with_context(|| format!("a scratch file in {}", place.display()))?;
    std::fs::remove_file(&path).context("a scratch file")?;
    let mut block = [7; BLOCK];
    // Each page is there and dirty from then on.
    round(|at| file.write_all_at(&block, at))?;
    let read_seconds = least(|| round(|at| file.read_exact_at(&mut block, at)))?;
    let write_seconds = least(|| round(|at| file.write_all_at(&[7; BLOCK], at)))?;
    Ok(CallTimes { read_seconds, write_seconds })
}

/// How long each of some calls takes in the mean.
fn round(mut call: impl FnMut(u64) -> std::io::Result<()>) -> anyhow::Result<f64> {
    let began = Instant::now();
    for number in 0..BLOCKS {
        call(number * BLOCK as u64).context("a scratch file")?;
    }
    Ok(began.elapsed().as_secs_f64() / BLOCKS as f64)
}

/// Rounds that met other load took longer than the calls have to.
fn least(mut round: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    (0..ROUNDS).try_fold(f64::INFINITY, |least, _| Ok(least.min(round()?)))
}

/// Where it is to write, if this weigh is to make the calls.
pub fn place_of_calls(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Option<std::path::PathBuf> {
    let mut arguments = arguments.into_iter().skip(1);
    (arguments.next()? == CALLER).then(|| arguments.next())?.map(Into::into)
}

/// Makes them, tells, and stays until nobody holds the other end of standard input: as long as it is followed, others'
/// calls are seen to be none of the job's.
pub fn be_caller(place: &Path) -> ExitCode {
    let told = make_calls(place).and_then(|took| Ok(serde_json::to_string(&took)?));
    match told {
        Ok(told) => {
            let _ = writeln!(std::io::stdout(), "{told}");
            let _ = std::io::stdin().read(&mut [0]);
            ExitCode::SUCCESS
        }
        Err(error) => {
            notice!("{}", in_full(&error));
            ExitCode::FAILURE
        }
    }
}

/// Tries it with a weigh that gets these options.
pub(super) fn run(options: &[String], place: &Path) -> anyhow::Result<TrialTimes> {
    let without = make_calls(place)?;
    let program = std::env::current_exe().context("where this program is")?;
    let said = place.join("said");
    let mut child = Command::new(&program)
        .args(options)
        .arg("--")
        .args([program.as_os_str(), CALLER.as_ref(), place.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&said).context("a scratch file")?)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let told = told_by(&mut child);
    // The job is there still, and waits.
    let others = make_calls(place);
    drop(child.stdin.take());
    let ended = child.wait().context("waiting for the trial")?;
    match told? {
        Some(followed) => Ok(TrialTimes { without, followed, others: others? }),
        None => {
            bail!("{}", lines_said(&said).last().cloned().unwrap_or(ended.to_string()))
        }
    }
}

/// What the followed calls took; nothing if the command was not run.
fn told_by(child: &mut Child) -> anyhow::Result<Option<CallTimes>> {
    // A pipe was asked for.
    let Some(output) = child.stdout.take() else { return Ok(None) };
    let mut ready = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
    if poll(&mut ready, Some(&PATIENCE)).context("waiting for the trial")? == 0 {
        let _ = child.kill();
        bail!("the trial told nothing within {:?}", Duration::from_secs(PATIENCE.tv_sec as u64));
    }
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("what the trial told")?;
    Ok(if line.is_empty() { None } else { Some(serde_json::from_str(&line)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_met_other_load_do_not_count() {
        let mut times = (0..ROUNDS).map(|i| if i == 7 { 2e-7 } else { 1.0 });
        assert_eq!(least(|| Ok(times.next().expect("a round"))).expect("a time"), 2e-7);
    }
}
