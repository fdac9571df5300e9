//! One run of `weigh run`, from its options to what it left behind.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weigh_keep::Recording;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::recording::{FileRow, ProcessRow, SampleRow};
use weigh_schema::summary::Summary;
use weigh_schema::{Mechanism, Value};

use super::{patience, processes, weigh_binary};

/// How long a run may take, on a real machine, before it counts as hung.
const HUNG_SECONDS: f64 = 60.0;

/// A folder for one run. When it goes, so does whatever still carries its mark.
pub struct Scratch(TempDir);

impl Scratch {
    /// A new one, that everybody can write to.
    pub fn new() -> Scratch {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = TempDir::with_prefix("weigh-test-").expect("a folder for temporary files");
        let scratch = Scratch(folder);
        let everybody = || fs::Permissions::from_mode(0o777);
        fs::create_dir(scratch.path("work")).expect("a working directory");
        fs::set_permissions(scratch.0.path(), everybody()).expect("permissions");
        fs::set_permissions(scratch.path("work"), everybody()).expect("permissions");
        scratch
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What all processes of the run carry.
    pub fn mark(&self) -> &Path {
        self.0.path()
    }

    /// The processes of the run that are alive, weigh itself left out.
    pub fn survivors(&self) -> Vec<u32> {
        processes::marked(self.mark())
    }

    /// The content of a file in it; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for pid in self.survivors() {
            processes::signal(pid, 9);
        }
    }
}

/// A run of weigh that is being put together.
pub struct Weigh {
    scratch: Scratch,
    options: Vec<OsString>,
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    stdin: Option<PathBuf>,
    user: Option<u32>,
}

impl Weigh {
    /// `weigh run -- COMMAND…`.
    pub fn run<A: Into<OsString>>(command: impl IntoIterator<Item = A>) -> Weigh {
        Weigh {
            scratch: Scratch::new(),
            options: Vec::new(),
            command: command.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            stdin: None,
            user: None,
        }
    }

    /// `weigh run -- WORKLOAD ARGUMENTS…`, the arguments apart by blanks.
    pub fn workload(line: &str) -> Weigh {
        let mut words = line.split_whitespace();
        let program = super::workload(words.next().expect("a workload"));
        Weigh::run(std::iter::once(program).chain(words.map(String::from)))
    }

    /// `weigh run -- bash -c SCRIPT`.
    pub fn bash(script: &str) -> Weigh {
        Weigh::run(["bash", "-c", script])
    }

    /// Adds options, apart by blanks.
    pub fn options(mut self, line: &str) -> Weigh {
        self.options.extend(line.split_whitespace().map(OsString::from));
        self
    }

    /// Adds one option, blanks and all.
    pub fn option(mut self, option: impl Into<OsString>) -> Weigh {
        self.options.push(option.into());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Weigh {
        self.environment.push((name.into(), value.as_ref().into()));
        self
    }

    /// Reads standard input from a file instead of `/dev/null`.
    pub fn stdin(mut self, path: &Path) -> Weigh {
        self.stdin = Some(path.to_path_buf());
        self
    }

    /// Runs weigh as that user, who has no capabilities. Without root: as who runs the tests.
    pub fn run_by(mut self, uid: u32) -> Weigh {
        self.user = super::is_root().then_some(uid);
        self
    }

    /// The folder of the run.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Starts it.
    #[track_caller]
    pub fn start(self) -> Running {
        use std::os::unix::process::CommandExt as _;
        let scratch = self.scratch;
        let output = |name| File::create(scratch.path(name)).expect("a file in the folder");
        let mut command = match self.user {
            Some(_) => Command::new(super::weigh_for_everybody()),
            None => Command::new(weigh_binary()),
        };
        command.arg("run");
        if !self.options.iter().any(|option| option == "-o") {
            command.arg("-o").arg(scratch.path("recording"));
        }
        command.args(&self.options).arg("--").args(&self.command);
        set_surroundings(&mut command, &scratch);
        command.envs(self.environment).stdout(output("stdout")).stderr(output("stderr"));
        match self.stdin {
            Some(path) => command.stdin(File::open(path).expect("standard input")),
            None => command.stdin(Stdio::null()),
        };
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        let begun = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Running { scratch, child, begun }
    }

    /// Runs it to its end, however it ends.
    #[track_caller]
    pub fn end(self) -> Measured {
        self.start().end()
    }

    /// Runs it to its end; fails unless weigh exits with 0, and, started as root, measured by BPF.
    #[track_caller]
    pub fn measure(self) -> Measured {
        let by_the_kernel = super::is_root() && self.user.is_none();
        let measured = self.end();
        assert!(measured.status.success(), "weigh did not exit with 0\n{}", measured.everything());
        if by_the_kernel {
            measured.was_followed_by_the_kernel();
        }
        measured
    }
}

/// Gives a command the folder and the mark of a run.
pub fn set_surroundings(command: &mut Command, scratch: &Scratch) {
    command
        .current_dir(scratch.path("work"))
        .env("TRUTH_FILE", scratch.path("truth"))
        .env("XDG_STATE_HOME", scratch.path("state"))
        .env(processes::MARK, scratch.mark());
}

/// A run of weigh that goes on.
pub struct Running {
    pub scratch: Scratch,
    pub child: Child,
    begun: Instant,
}

impl Running {
    /// The PID of weigh.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a process of the job whose command line holds `part`.
    #[track_caller]
    pub fn process(&mut self, part: &str) -> u32 {
        let mut found = None;
        let mark = self.scratch.mark().to_path_buf();
        self.wait_until(&format!("a process of the job is '{part}'"), 20.0, || {
            let candidates = processes::marked(&mark);
            found = candidates.into_iter().find(|p| processes::command_line(*p).contains(part));
            found.is_some()
        });
        found.expect("waited for")
    }

    /// Waits until something is so; fails if it does not come to be within `seconds` (of a real
    /// machine), or weigh ends first.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, seconds: f64, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + patience(seconds);
        while !is_so() {
            let ended = self.child.try_wait().expect("it is our child");
            assert!(
                ended.is_none() && Instant::now() < end,
                "waited in vain until {what}; weigh ended: {ended:?}; it said:\n{}",
                self.scratch.text("stderr")
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until weigh or the job says something on standard error.
    #[track_caller]
    pub fn wait_for(&mut self, words: &str) {
        let path = self.scratch.path("stderr");
        self.wait_until(&format!("standard error has '{words}'"), 20.0, || {
            std::fs::read_to_string(&path).is_ok_and(|text| text.contains(words))
        });
    }

    /// Waits until weigh ends.
    #[track_caller]
    pub fn end(mut self) -> Measured {
        let until = self.begun + patience(HUNG_SECONDS);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > until {
                let said = self.scratch.text("stderr");
                let left = self.scratch.survivors();
                let left: Vec<_> = left.iter().map(|pid| processes::command_line(*pid)).collect();
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("weigh has not ended after {:?}; alive: {left:?}; it said:\n{said}", {
                    until - self.begun
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Measured::new(self.scratch, status, self.begun.elapsed())
    }
}

/// What a run left behind.
pub struct Measured {
    pub scratch: Scratch,
    pub status: ExitStatus,
    /// From the start of weigh to its end.
    pub took: Duration,
    pub stdout: Vec<u8>,
    pub stderr: String,
    summary: Option<Summary>,
}

impl Measured {
    fn new(scratch: Scratch, status: ExitStatus, took: Duration) -> Measured {
        let stdout = fs::read(scratch.path("stdout")).unwrap_or_default();
        let stderr = scratch.text("stderr");
        let summary = serde_json::from_str(&scratch.text("recording/summary.json")).ok();
        Measured { scratch, status, took, stdout, stderr, summary }
    }

    /// All that is known, for the message of a failed test.
    pub fn everything(&self) -> String {
        let summary = self.summary.as_ref().map_or("there is no summary\n".to_string(), in_short);
        format!(
            "weigh ended with: {} after {:?}\n--- truth\n{}--- summary\n{summary}--- standard error\n{}---",
            self.status,
            self.took,
            self.scratch.text("truth"),
            self.remarks()
        )
    }

    /// Fails if weigh made do with less than it has as root.
    #[track_caller]
    pub fn was_followed_by_the_kernel(&self) {
        let works = |c: &&CollectorStatus| {
            c.mechanism == Mechanism::Bpf
                && c.name == "processes"
                && c.status == CollectorState::Active
        };
        let found = self.summary().collectors.iter().find(works);
        self.check(found.is_some(), || "the kernel did not follow the job".to_string());
    }

    /// What weigh and the job said on standard error, without the table for people.
    pub fn remarks(&self) -> &str {
        let table = self.stderr.find("weigh  ");
        &self.stderr[..table.unwrap_or(self.stderr.len())]
    }

    /// The summary.
    #[track_caller]
    pub fn summary(&self) -> &Summary {
        match &self.summary {
            Some(summary) => summary,
            None => panic!("the run left no summary\n{}", self.everything()),
        }
    }

    /// The recording.
    #[track_caller]
    pub fn recording(&self) -> Recording {
        let recording = Recording::open(&self.scratch.path("recording"));
        recording.unwrap_or_else(|error| panic!("{error}\n{}", self.everything()))
    }

    /// The rows of the table of processes.
    #[track_caller]
    pub fn processes(&self) -> Vec<ProcessRow> {
        self.recording().processes(None).expect("the table of processes can be read").rows
    }

    /// The row of the one process with that command.
    #[track_caller]
    pub fn process(&self, command: &str) -> ProcessRow {
        let mut rows = self.processes();
        let commands: Vec<_> = rows.iter().map(|row| row.command.clone()).collect();
        rows.retain(|row| row.command == command);
        self.check(rows.len() == 1, || {
            format!("{} rows are of '{command}', expected 1: {commands:#?}", rows.len())
        });
        rows.remove(0)
    }

    /// The rows of the table of samples.
    #[track_caller]
    pub fn samples(&self) -> Vec<SampleRow> {
        self.recording().samples(None).expect("the table of samples can be read").rows
    }

    /// The rows of the table of files.
    #[track_caller]
    pub fn files(&self) -> Vec<FileRow> {
        self.recording().files(None).expect("the table of files can be read").rows
    }

    /// A metric's value and quality.
    #[track_caller]
    pub fn value(&self, metric: &str) -> &Value {
        match self.summary().metrics.get(metric) {
            Some(value) => value,
            None => panic!("the summary has no {metric}\n{}", self.everything()),
        }
    }

    /// A metric's number; fails if it is unavailable.
    #[track_caller]
    pub fn number(&self, metric: &str) -> f64 {
        let value = self.value(metric);
        value.number().unwrap_or_else(|| {
            panic!("{metric} is not available: {:?}\n{}", value.reason, self.everything())
        })
    }

    /// What the workload said of itself.
    #[track_caller]
    pub fn truth(&self, key: &str) -> u64 {
        let text = self.scratch.text("truth");
        match truths(&text).get(key) {
            Some(value) => *value,
            None => panic!("the workload did not tell {key}\n{}", self.everything()),
        }
    }

    /// Fails unless a metric is a number, to the last digit.
    #[track_caller]
    pub fn is(&self, metric: &str, expected: u64) {
        let found = self.number(metric);
        assert!(
            found == expected as f64,
            "{metric} is {found}, expected {expected}, {:+} off\n{}",
            found - expected as f64,
            self.everything()
        );
    }

    /// Fails unless a metric is a number, give or take `ratio` of it.
    #[track_caller]
    pub fn is_near(&self, metric: &str, expected: u64, ratio: f64) {
        let slack = expected as f64 * ratio;
        self.is_between(metric, expected as f64 - slack, expected as f64 + slack);
    }

    /// Fails unless a metric lies between two numbers.
    #[track_caller]
    pub fn is_between(&self, metric: &str, low: f64, high: f64) {
        let found = self.number(metric);
        self.check((low..=high).contains(&found), || {
            format!("{metric} is {found}, expected {low} to {high}")
        });
    }

    /// Fails, with all that is known, unless something is so.
    #[track_caller]
    pub fn check(&self, is_so: bool, otherwise: impl FnOnce() -> String) {
        if !is_so {
            panic!("{}\n{}", otherwise(), self.everything());
        }
    }

    /// Fails unless weigh said this on standard error.
    #[track_caller]
    pub fn said(&self, part: &str) {
        self.check(self.stderr.contains(part), || format!("weigh did not say '{part}'"));
    }
}

/// A summary, one metric a line.
fn in_short(summary: &Summary) -> String {
    let json = |part: &dyn Fn() -> serde_json::Result<String>| part().expect("JSON");
    let mut text = String::new();
    for (name, value) in &summary.metrics {
        let number = value.number().map_or("-".to_string(), |number| number.to_string());
        let reason = value.reason.as_deref().unwrap_or("");
        text += &format!("{name} = {number} {} {reason}\n", value.quality);
    }
    text += &format!("exit: {}\n", json(&|| serde_json::to_string(&summary.exit)));
    for limit in &summary.limits {
        text += &format!("limit: {}\n", json(&|| serde_json::to_string(limit)));
    }
    for collector in &summary.collectors {
        text += &format!("collector: {}\n", json(&|| serde_json::to_string(collector)));
    }
    text
}

/// Reads `key=value` lines; of several with one key the last counts. Others are passed over.
pub fn truths(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .filter_map(|(key, value)| Some((key.to_string(), value.parse().ok()?)))
        .collect()
}

/// Runs a command bare, with the folder and the mark of a run; gives standard output.
#[track_caller]
pub fn bare(scratch: &Scratch, command: &[&str]) -> Vec<u8> {
    let mut bare = Command::new(command[0]);
    bare.args(&command[1..]).stdin(Stdio::null());
    set_surroundings(&mut bare, scratch);
    let output = bare.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output.stdout
}

/// Runs weigh with these arguments; gives its status and what it said.
#[track_caller]
pub fn weigh(scratch: &Scratch, arguments: &[&str]) -> std::process::Output {
    weigh_as(None, scratch, arguments)
}

/// The same as another user, if the tests run as root.
#[track_caller]
pub fn weigh_as(user: Option<u32>, scratch: &Scratch, arguments: &[&str]) -> std::process::Output {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(weigh_binary());
    if let Some(uid) = user.filter(|_| super::is_root()) {
        command = Command::new(super::weigh_for_everybody());
        command.uid(uid).gid(uid);
    }
    command.args(arguments).stdin(Stdio::null());
    set_surroundings(&mut command, scratch);
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
