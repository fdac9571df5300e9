//! A real `weigh run` of a short command, by this very program.
//!
//! Reads the summary that it writes; emits it. Refuses with what the run said if it failed, or if
//! it took unreasonably long.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use weigh_schema::summary::Summary;

use crate::local_agent::abandoned;

/// Long enough for a few samples and a scan of the disk footprint.
const JOB: [&str; 2] = ["sleep", "0.2"];

/// Long enough to see whether a job can be followed at all.
const SHORT_JOB: [&str; 1] = ["true"];

/// Loading the programs takes well under a second, starting a GPU's driver a few.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a trial left behind.
pub(super) struct Trial {
    /// Its summary.
    pub summary: Summary,
    /// What weigh itself said during the run.
    pub said: Vec<String>,
}

/// A trial of all that `weigh run` does by itself.
pub(super) fn run() -> anyhow::Result<Trial> {
    trial(&[], &JOB)
}

/// A trial of one mechanism.
pub(super) fn run_mechanism(name: &str) -> anyhow::Result<Trial> {
    trial(&["--mechanism", name], &SHORT_JOB)
}

fn trial(options: &[&str], job: &[&str]) -> anyhow::Result<Trial> {
    let place = Scratch::new()?;
    let program = std::env::current_exe().context("where this program is")?;
    let summary = place.path.join("summary");
    let said = place.path.join("said");
    let said_file = std::fs::File::create(&said).context("a scratch file")?;
    let mut child = Command::new(&program)
        .args(["run", "--quiet", "--details", "--interval", "50ms", "--output"])
        .arg(place.path.join("recording"))
        .arg("--json")
        .arg(&summary)
        .args(options)
        .arg("--")
        .args(job)
        .current_dir(&place.path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said_file)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting for the trial")? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the trial did not end within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let said = lines_said(&said);
    // It is there, empty, as soon as the options are read.
    let text = std::fs::read_to_string(&summary).unwrap_or_default();
    if text.is_empty() {
        bail!("{}", said.last().cloned().unwrap_or_else(|| format!("the trial ended: {status}")));
    }
    let summary = serde_json::from_str(&text).context("the trial's summary")?;
    Ok(Trial { summary, said })
}

/// What the trial said in weigh's name; if nothing was, all that was said.
pub(super) fn lines_said(said: &Path) -> Vec<String> {
    let bytes = std::fs::read(said).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let own: Vec<String> =
        lines.iter().filter_map(|line| line.strip_prefix("weigh: ")).map(str::to_string).collect();
    if own.is_empty() { lines.iter().map(ToString::to_string).collect() } else { own }
}

/// A directory that is removed with all that is in it, and held until then.
pub(super) struct Scratch {
    /// Where it is.
    pub path: std::path::PathBuf,
    _held: std::os::fd::OwnedFd,
}

/// How the names of such directories begin.
const PREFIX: &str = "weigh-doctor-";

impl Scratch {
    pub(super) fn new() -> anyhow::Result<Scratch> {
        abandoned::sweep_whole(&std::env::temp_dir(), PREFIX);
        let name = format!("{PREFIX}{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Not `create_dir_all`: what somebody else has laid there is not ours to use.
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let held = abandoned::hold(&path).with_context(|| format!("{} is gone", path.display()))?;
        Ok(Scratch { path, _held: held })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the system's directory for such things.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
