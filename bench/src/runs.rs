//! Ways to run a command: bare, beside a job that weigh measures, under weigh, under a peer.
//!
//! A run ends with an error if the command, or what is around it, fails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use weigh_schema::summary::Summary;

use crate::neighbour::Neighbour;
use crate::peers::{Installed, Report};
use crate::rounds::Length;
use crate::tools::{Figure, Quantity};
use crate::witness::{self, Times};

/// Let the kernel free what the last run had attached before the next one begins.
const SETTLE: Duration = Duration::from_millis(100);

/// Where to find what is run, and a folder for what it leaves.
pub struct Bench {
    weigh: PathBuf,
    workloads: PathBuf,
    myself: PathBuf,
    scratch: TempDir,
    /// A folder with the programs of peers, looked into before PATH.
    peers: PathBuf,
    /// Few repetitions, small amounts: whether it works, not how it performs.
    pub quick: bool,
}

/// How a command is run.
#[derive(Clone)]
pub enum Arm {
    /// With nothing around it.
    Bare,
    /// Unmeasured, while weigh measures another job, which waits all the time.
    Beside,
    /// Under weigh, with these options.
    Weigh(Vec<String>),
    /// Under `weigh calls`, with these options.
    Calls(Vec<String>),
    /// Under another tool.
    Peer(Rc<Installed>),
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

/// What was said of a run by the tool that it was under, and by the program itself.
pub struct Account {
    /// From the start to the end, in seconds.
    pub wall: f64,
    said: Said,
    truth: String,
}

enum Said {
    Weigh(Box<Summary>),
    Peer(Rc<Installed>, Report),
    Nothing,
}

impl Account {
    /// What the tool says; absent if it has no such figure.
    pub fn figure(&self, quantity: Quantity) -> Option<Figure> {
        match &self.said {
            Said::Weigh(summary) => {
                let value = summary.metrics.get(quantity.metric())?;
                let (quality, reason) = (Some(value.quality), value.reason.clone());
                Some(Figure { value: value.number(), quality, reason })
            }
            Said::Nothing => None,
            Said::Peer(peer, report) => {
                let value = peer.said(report, quantity)?;
                Some(Figure { value: Some(value), quality: None, reason: None })
            }
        }
    }

    /// What the program says of itself; absent if it did not come to that.
    pub fn told(&self, key: &str) -> Option<f64> {
        told(&self.truth, key)?.parse().ok()
    }

    /// How many bytes it wrote to say it.
    pub fn telling_bytes(&self) -> usize {
        self.truth.len()
    }
}

/// The value of a key in what a program told.
pub fn told<'a>(truth: &'a str, key: &str) -> Option<&'a str> {
    truth.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
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
        told(&self.truth, key)
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
    pub fn new(weigh: &Path, workloads: &Path, peers: &Path, quick: bool) -> Result<Bench> {
        let real = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
        let scratch = TempDir::with_prefix("weigh-bench-").context("a temporary folder")?;
        fs::create_dir(scratch.path().join("work")).context("a working directory")?;
        let (weigh, workloads) = (real(weigh)?, real(workloads)?);
        let myself = std::env::current_exe().context("my own path")?;
        // Without it there are the peers on PATH.
        let peers = real(peers).unwrap_or_default();
        Ok(Bench { weigh, workloads, myself, scratch, peers, quick })
    }

    /// How often to do something: that often, or only twice.
    pub fn times(&self, full: usize) -> usize {
        if self.quick { 2 } else { full }
    }

    /// How many rounds to make: so many, or only two.
    pub fn length(&self, full: Length) -> Length {
        if self.quick { Length { least: 2, most: 2, seconds: 0 } } else { full }
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
        let words = self.words(arm, &self.witnessed(repeats, command));
        self.prepare()?;
        let beside = matches!(arm, Arm::Beside);
        let neighbour = beside.then(|| Neighbour::start(self, &[])).transpose()?;
        std::thread::sleep(SETTLE);
        let (all, status) = witness::timed(|| self.start(&words)?.wait().context("waiting"))?;
        self.succeeded(&words, status)?;
        self.clear()?;
        if let Some(neighbour) = neighbour {
            neighbour.end(self)?;
        }
        let times = witness::read_times(&self.path("times"));
        Ok(Run { command: times.with_context(|| self.said(&words, status))?, all })
    }

    /// The words that run a command so often, and leave its times in a file.
    fn witnessed(&self, repeats: usize, command: &[String]) -> Vec<String> {
        let (myself, times) = (self.myself.display(), self.path("times"));
        let repeats = repeats.to_string();
        let mut words: Vec<String> = vec![myself.to_string(), "witness".to_string()];
        words.extend([times.display().to_string(), repeats, "--".to_string()]);
        words.extend(command.iter().cloned());
        words
    }

    /// The words that run a command in a way.
    fn words(&self, arm: &Arm, command: &[String]) -> Vec<String> {
        match arm {
            Arm::Bare | Arm::Beside => command.to_vec(),
            Arm::Weigh(options) => {
                let mut words = self.weigh_words(options);
                words.extend(command.iter().cloned());
                words
            }
            Arm::Calls(options) => {
                let mut words = vec![self.weigh_path(), "calls".into(), "--quiet".into()];
                words.extend(options.iter().cloned());
                words.push("--".to_string());
                words.extend(command.iter().cloned());
                words
            }
            Arm::Peer(peer) => peer.words(self.scratch.path(), &self.path("report"), command),
        }
    }

    /// Whether a tool works: whether the witness ran under it, and left what it found. The words
    /// are those that run a command under it.
    pub fn tries(&self, words: impl FnOnce(&[String]) -> Vec<String>) -> Result<()> {
        let words = words(&self.witnessed(1, &["true".to_string()]));
        self.prepare()?;
        let status = self.start(&words)?.wait().context("waiting")?;
        self.clear()?;
        if status.success() && self.path("times").exists() {
            return Ok(());
        }
        bail!("{status}: {}", self.last_words())
    }

    /// The same for a way of weigh.
    pub fn tries_weigh(&self, options: Vec<String>) -> Result<()> {
        self.tries(|command| self.words(&Arm::Weigh(options), command))
    }

    /// The same for a peer.
    pub fn tries_peer(&self, peer: &Installed) -> Result<()> {
        self.tries(|command| peer.words(self.scratch.path(), &self.path("report"), command))
    }

    /// Runs a program that tells the truth about itself in a way, and hears both. The program may
    /// fail; `last` says when all that it started has ended, if it outlives the tool.
    pub fn account(
        &self,
        arm: &Arm,
        command: &[String],
        last: impl Fn(&str) -> bool,
    ) -> Result<Account> {
        self.prepare()?;
        let words = self.words(arm, command);
        std::thread::sleep(SETTLE);
        let (Times { wall, .. }, status) =
            witness::timed(|| self.start(&words)?.wait().context("waiting"))?;
        let truth = self.wait_for_truth(last);
        let said = match arm {
            Arm::Weigh(_) => Said::Weigh(Box::new(self.summary(&words, status)?)),
            Arm::Peer(peer) => {
                let report = Report::read(&self.path("report"), &self.path("stdout"));
                Said::Peer(Rc::clone(peer), report)
            }
            Arm::Bare | Arm::Beside | Arm::Calls(_) => Said::Nothing,
        };
        self.clear()?;
        Ok(Account { wall, said, truth })
    }

    /// What the program told, when all of it has ended, or some seconds later.
    fn wait_for_truth(&self, last: impl Fn(&str) -> bool) -> String {
        const PATIENCE: Duration = Duration::from_secs(3);
        let begin = Instant::now();
        loop {
            let truth = fs::read_to_string(self.path("truth")).unwrap_or_default();
            if last(&truth) || begin.elapsed() > PATIENCE {
                return truth;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes away what the last run left.
    fn prepare(&self) -> Result<()> {
        for name in ["truth", "progress", "times"] {
            let _ = fs::remove_file(self.path(name));
        }
        let report = self.path("report");
        let _ = fs::remove_dir_all(&report);
        fs::create_dir(&report).context("a folder for reports")
    }

    /// Runs a command without the witness, and says what all of it took.
    pub fn run_plain(&self, arm: &Arm, command: &[String]) -> Result<Times> {
        let words = self.words(arm, command);
        self.prepare()?;
        std::thread::sleep(SETTLE);
        let (times, status) = witness::timed(|| self.start(&words)?.wait().context("waiting"))?;
        self.succeeded(&words, status)?;
        self.clear()?;
        Ok(times)
    }

    /// Runs a program that tells the truth about itself under weigh; it may fail.
    pub fn measure(&self, options: &[String], command: &[String]) -> Result<Measured> {
        self.prepare()?;
        let mut words = self.weigh_words(options);
        words.extend(command.iter().cloned());
        let status = self.start(&words)?.wait().context("waiting")?;
        let summary = self.summary(&words, status)?;
        self.clear()?;
        let truth = fs::read_to_string(self.path("truth")).unwrap_or_default();
        Ok(Measured { summary, status, progress: fs::read(self.path("progress")).ok(), truth })
    }

    /// What weigh left.
    fn summary(&self, words: &[String], status: ExitStatus) -> Result<Summary> {
        let path = self.recording().join("summary.json");
        let text = fs::read(&path).with_context(|| self.said(words, status))?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    }

    /// `weigh run` and its options, up to the command.
    pub fn weigh_words(&self, options: &[String]) -> Vec<String> {
        self.weigh_into(&self.recording(), options)
    }

    /// The binary to measure with.
    pub fn weigh_path(&self) -> String {
        self.weigh.display().to_string()
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

    /// Where programs are looked for.
    pub fn search_path(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        if self.peers.as_os_str().is_empty() {
            return path;
        }
        format!("{}:{path}", self.peers.display())
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
        let file = |name| File::create(self.path(name)).with_context(|| format!("a file {name}"));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.scratch.path().join("work"));
        command.env("PATH", self.search_path());
        for (name, file) in [("TRUTH_FILE", "truth"), ("GROW_PROGRESS", "progress")] {
            command.env(name, self.scratch.path().join(file));
        }
        command.stdin(Stdio::null()).stdout(file("stdout")?).stderr(file("stderr")?);
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

    /// The end of what was said on stderr.
    fn last_words(&self) -> String {
        let errors = fs::read(self.path("stderr")).unwrap_or_default();
        let text = self.without_paths(&String::from_utf8_lossy(&errors));
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(2)..].join(" ")
    }

    /// A text without the paths of this machine.
    pub fn without_paths(&self, text: &str) -> String {
        let mut text = text.to_string();
        let scratch = self.scratch.path();
        for (path, name) in [
            (scratch, "DIR"),
            (&self.myself, "weigh-bench"),
            (&self.weigh, "weigh"),
            (&self.workloads, "WORKLOADS"),
            (&self.peers, "PEERS"),
        ] {
            let path = path.display().to_string();
            if !path.is_empty() {
                text = text.replace(&path, name);
            }
        }
        text
    }

    fn clear(&self) -> Result<()> {
        let recording = self.recording();
        if recording.exists() {
            fs::remove_dir_all(&recording).with_context(|| recording.display().to_string())?;
        }
        Ok(())
    }
}
