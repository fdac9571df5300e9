//! Ways to run a command: bare, beside a job that weigh measures, under weigh, under a peer.
//!
//! A run ends with an error if the command, or what is around it, fails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use weigh_schema::summary::Summary;

use crate::neighbour::Neighbour;
use crate::witness::{self, Times};

/// Let the kernel free what the last run had attached before the next one begins.
const SETTLE: Duration = Duration::from_millis(100);

/// Where to find what is run, and a folder for what it leaves.
pub struct Bench {
    weigh: PathBuf,
    workloads: PathBuf,
    myself: PathBuf,
    scratch: TempDir,
    /// Few repetitions, small amounts: whether it works, not how it performs.
    pub quick: bool,
}

/// How a command is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Arm {
    /// With nothing around it.
    Bare,
    /// Unmeasured, while weigh measures another job, which waits all the time.
    Beside,
    /// Under weigh, with these options.
    Weigh(Vec<String>),
    /// Under another tool: the words before the command.
    Peer(Vec<String>),
}

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The command alone.
    pub command: Times,
    /// All that was started for it: the tool and the witness, and the command.
    pub all: Times,
}

impl Run {
    /// CPU seconds of what is around the command.
    pub fn cpu_around(&self) -> f64 {
        (self.all.cpu - self.command.cpu).max(0.0)
    }
}

/// A run under weigh of a program that says itself what it did.
pub struct Measured {
    /// weigh's summary.
    pub summary: Summary,
    /// How weigh ended.
    pub status: ExitStatus,
    /// The file that the environment variable `GROW_PROGRESS` named, if the program wrote it.
    pub progress: Option<Vec<u8>>,
    truth: String,
}

impl Measured {
    /// What the program says of itself.
    pub fn truth(&self, key: &str) -> Result<u64> {
        let found = self.truth.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        found
            .with_context(|| format!("the program does not say {key}"))?
            .parse()
            .with_context(|| key.to_string())
    }

    /// What weigh says.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let value = self.summary.metrics.get(name).with_context(|| format!("no {name}"))?;
        value.number().with_context(|| format!("{name}: {:?}", value.reason))
    }
}

impl Bench {
    /// Runs are made in an empty folder of their own: what weigh does by the size of the working
    /// directory is not in the figures.
    pub fn new(weigh: &Path, workloads: &Path, quick: bool) -> Result<Bench> {
        let real = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
        let scratch = TempDir::with_prefix("weigh-bench-").context("a temporary folder")?;
        fs::create_dir(scratch.path().join("work")).context("a working directory")?;
        let (weigh, workloads) = (real(weigh)?, real(workloads)?);
        let myself = std::env::current_exe().context("my own path")?;
        Ok(Bench { weigh, workloads, myself, scratch, quick })
    }

    /// How often to do something: that often, or only twice.
    pub fn times(&self, full: usize) -> usize {
        if self.quick { 2 } else { full }
    }

    /// A workload and its arguments.
    pub fn workload(&self, line: &str) -> Vec<String> {
        let mut words = line.split_whitespace().map(String::from);
        let program = self.workloads.join(words.next().unwrap_or_default());
        std::iter::once(program.display().to_string()).chain(words).collect()
    }

    /// The fixed amount of computing that takes about that long.
    pub fn spin(&self, wanted: Duration) -> Vec<String> {
        let rounds = witness::rounds_in(wanted).to_string();
        vec![self.myself.display().to_string(), "spin".into(), rounds]
    }

    /// The version of weigh.
    pub fn version(&self) -> Result<String> {
        let output = Command::new(&self.weigh).arg("--version").output().context("weigh")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    }

    /// Runs a command so often, with the witness at its side.
    pub fn run(&self, arm: &Arm, repeats: usize, command: &[String]) -> Result<Run> {
        let times = self.scratch.path().join("times");
        let mut words = match arm {
            Arm::Bare | Arm::Beside => Vec::new(),
            Arm::Weigh(options) => self.weigh_words(options),
            Arm::Peer(words) => words.clone(),
        };
        words.extend([&self.myself, Path::new("witness"), &times].map(|p| p.display().to_string()));
        words.extend([repeats.to_string(), "--".to_string()]);
        words.extend(command.iter().cloned());
        let _ = fs::remove_file(&times);
        let neighbour = (*arm == Arm::Beside).then(|| Neighbour::start(self, &[])).transpose()?;
        std::thread::sleep(SETTLE);
        let (all, status) = witness::timed(|| self.start(&words)?.wait().context("waiting"))?;
        self.succeeded(&words, status)?;
        self.clear()?;
        if let Some(neighbour) = neighbour {
            neighbour.end(self)?;
        }
        Ok(Run { command: witness::read_times(&times)?, all })
    }

    /// Runs words as they are, and says what all of it took.
    pub fn run_plain(&self, words: &[String]) -> Result<Times> {
        std::thread::sleep(SETTLE);
        let (times, status) = witness::timed(|| self.start(words)?.wait().context("waiting"))?;
        self.succeeded(words, status)?;
        self.clear()?;
        Ok(times)
    }

    /// Runs a program that tells the truth about itself under weigh; it may fail.
    pub fn measure(&self, options: &[&str], command: &[String]) -> Result<Measured> {
        let file = |name| self.scratch.path().join(name);
        for name in ["truth", "progress"] {
            let _ = fs::remove_file(file(name));
        }
        let options: Vec<String> = options.iter().map(|word| word.to_string()).collect();
        let mut words = self.weigh_words(&options);
        words.extend(command.iter().cloned());
        let status = self.start(&words)?.wait().context("waiting")?;
        let path = self.recording().join("summary.json");
        let text = fs::read(&path).with_context(|| self.said(&words, status))?;
        let summary = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        self.clear()?;
        let truth = fs::read_to_string(file("truth")).unwrap_or_default();
        Ok(Measured { summary, status, progress: fs::read(file("progress")).ok(), truth })
    }

    /// `weigh run` and its options, up to the command.
    pub fn weigh_words(&self, options: &[String]) -> Vec<String> {
        self.weigh_into(&self.recording(), options)
    }

    /// The same with the recording's place.
    pub fn weigh_into(&self, recording: &Path, options: &[String]) -> Vec<String> {
        let mut words = vec![self.weigh.display().to_string()];
        words.extend(["run", "--quiet", "-o"].map(String::from));
        words.push(recording.display().to_string());
        words.extend(options.iter().cloned());
        words.push("--".to_string());
        words
    }

    /// A path in the folder for what is left.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn recording(&self) -> PathBuf {
        self.scratch.path().join("recording")
    }

    /// The words as a command to start, with no input, and its errors kept.
    pub fn command(&self, words: &[String]) -> Result<Command> {
        let (program, arguments) = words.split_first().context("no command")?;
        let errors = File::create(self.scratch.path().join("stderr")).context("stderr")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.scratch.path().join("work"));
        for (name, file) in [("TRUTH_FILE", "truth"), ("GROW_PROGRESS", "progress")] {
            command.env(name, self.scratch.path().join(file));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        Ok(command)
    }

    fn start(&self, words: &[String]) -> Result<Child> {
        self.command(words)?.spawn().with_context(|| words.join(" "))
    }

    /// Refuses a status that is not success, with what was said on stderr.
    pub fn succeeded(&self, words: &[String], status: ExitStatus) -> Result<()> {
        ensure!(status.success(), self.said(words, status));
        Ok(())
    }

    fn said(&self, words: &[String], status: ExitStatus) -> String {
        let errors = fs::read(self.scratch.path().join("stderr")).unwrap_or_default();
        format!("{}: {status}\n{}", words.join(" "), String::from_utf8_lossy(&errors))
    }

    fn clear(&self) -> Result<()> {
        let recording = self.recording();
        if recording.exists() {
            fs::remove_dir_all(&recording).with_context(|| recording.display().to_string())?;
        }
        Ok(())
    }
}
