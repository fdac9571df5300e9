//! A job that weigh measures and that waits for a word before and after it does anything.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};

use crate::runs::Bench;

/// The job: a shell that runs its arguments, if it has any, when it is told to.
const SCRIPT: &str = r#"echo ready; read -r line || :
if [ $# -gt 0 ]; then "$@" >/dev/null || exit; echo ready; read -r line || :; fi"#;

/// The job, being measured.
pub struct Neighbour {
    weigh: Child,
    output: BufReader<ChildStdout>,
    recording: PathBuf,
}

impl Neighbour {
    /// Starts it; back when it is being measured and waits.
    pub fn start(bench: &Bench, command: &[String]) -> Result<Neighbour> {
        let recording = bench.path("neighbour");
        let mut words = bench.weigh_into(&recording, &[]);
        words.extend(["sh", "-c", SCRIPT, "sh"].map(String::from));
        words.extend(command.iter().cloned());
        let mut command = bench.command(&words)?;
        let mut weigh = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(weigh.stdout.take().context("a pipe")?);
        let mut neighbour = Neighbour { weigh, output, recording };
        neighbour.wait()?;
        Ok(neighbour)
    }

    /// Lets it run its command; back when that has ended.
    pub fn work(&mut self) -> Result<()> {
        let input = self.weigh.stdin.as_mut().context("a pipe")?;
        input.write_all(b"go\n").context("telling the neighbour")?;
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("waiting for the neighbour")?;
        ensure!(line == "ready\n", "the neighbour is not ready: '{line}'");
        Ok(())
    }

    /// Ends it.
    pub fn end(mut self, bench: &Bench) -> Result<()> {
        drop(self.weigh.stdin.take());
        let status = self.weigh.wait().context("waiting for the neighbour")?;
        bench.succeeded(&["the neighbour".to_string()], status)?;
        std::fs::remove_dir_all(&self.recording).context("the neighbour's recording")
    }
}
