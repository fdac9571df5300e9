//! Runs a command with the library in it, in a process of its own: the kernel's sums over all that
//! was waited for are one per process, and tests run side by side.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use std::os::unix::process::ExitStatusExt as _;
use weigh_collect::follow::{
    Attachment as _, Children as _, JobReader as _, Members as _, OpenCounts as _,
};
use weigh_collect::preload::{Level, PreloadedJob};
use weigh_collect::spawn::{SignalMask, With, spawn_with};
use weigh_schema::event::{Event, ProcessEnd};
use weigh_schema::{Counter, Quality};

/// What separates the arguments of the command in the variable that carries them.
const SEPARATOR: &str = "\u{1f}";

/// Where the workloads are, built.
pub fn workloads() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/workloads");
        let made = Command::new("make").args(["--silent", "-C"]).arg(&folder).status().unwrap();
        assert!(made.success());
        folder.join("bin").canonicalize().unwrap()
    })
}

/// The path of a workload.
pub fn workload(name: &str) -> String {
    workloads().join(name).display().to_string()
}

/// Compiles a program, and gives its path.
pub fn compile(folder: &Path, name: &str, source: &str) -> String {
    let (input, output) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&input, source).unwrap();
    let cc = Command::new("cc").args(["-O1", "-pthread", "-o"]).args([&output, &input]).status();
    assert!(cc.unwrap().success());
    output.display().to_string()
}

/// What became of a job.
#[derive(Debug)]
pub struct Job {
    values: BTreeMap<String, u64>,
    pub notes: BTreeMap<String, (String, String)>,
    pub rows: Vec<BTreeMap<String, String>>,
    pub files: Vec<(String, u64)>,
    pub statuses: String,
    /// What it said on standard error, complaints of the loader among it.
    pub stderr: String,
    pub truth: BTreeMap<String, u64>,
}

impl Job {
    pub fn value(&self, name: &str) -> u64 {
        *self.values.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub fn truth(&self, name: &str) -> u64 {
        *self.truth.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The rows of processes with this name.
    pub fn named(&self, name: &str) -> Vec<&BTreeMap<String, String>> {
        self.rows.iter().filter(|row| row["name"] == name).collect()
    }
}

/// How the command is to be run.
pub struct Run<'a> {
    pub level: Level,
    pub command: Vec<&'a str>,
    pub variables: Vec<(&'a str, &'a str)>,
    pub as_nobody: bool,
}

pub fn run(level: Level, command: &[&str]) -> Job {
    Run { level, command: command.to_vec(), variables: Vec::new(), as_nobody: false }.run()
}

impl Run<'_> {
    pub fn run(&self) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let truth = folder.path().join("truth");
        std::fs::write(&truth, "").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&truth, open).unwrap();
        let mut runner = Command::new(std::env::current_exe().unwrap());
        runner.args(["--exact", "run_job", "--ignored", "--nocapture"]);
        if self.as_nobody {
            let program = runner.get_program().to_owned();
            let arguments: Vec<OsString> = runner.get_args().map(OsString::from).collect();
            runner = Command::new("setpriv");
            runner.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
            runner.arg(program).args(arguments);
        }
        let output = runner
            .env("JOB_LEVEL", format!("{:?}", self.level))
            .env("JOB_COMMAND", self.command.join(SEPARATOR))
            .env("TRUTH_FILE", &truth)
            .envs(self.variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        read_back(&output, &std::fs::read_to_string(&truth).unwrap())
    }
}

fn read_back(output: &Output, truth: &str) -> Job {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{stderr}");
    let number = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let mut job = Job {
        values: BTreeMap::new(),
        notes: BTreeMap::new(),
        rows: Vec::new(),
        files: Vec::new(),
        statuses: String::new(),
        stderr,
        truth: truth.lines().filter_map(number).collect(),
    };
    for line in text.lines() {
        let Some((_, line)) = line.split_once("@@") else { continue };
        let fields: Vec<&str> = line.split(SEPARATOR).collect();
        match fields[0] {
            "value" => job.values.extend(number(fields[1])),
            "note" => {
                let said = (fields[2].to_owned(), fields[3].to_owned());
                job.notes.insert(fields[1].to_owned(), said);
            }
            "status" => job.statuses = fields[1].to_owned(),
            "file" => job.files.push((fields[2].to_owned(), fields[1].parse().unwrap())),
            _ => {
                let pairs = fields[1..].iter().filter_map(|field| field.split_once('='));
                job.rows.push(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect());
            }
        }
    }
    job
}

/// The body of the test that is one job.
pub fn run_job() {
    let Some(command) = std::env::var_os("JOB_COMMAND") else { return };
    let command: Vec<OsString> =
        command.to_str().unwrap().split(SEPARATOR).map(OsString::from).collect();
    let named = std::env::var("JOB_LEVEL").unwrap();
    let levels = [Level::Processes, Level::Calls, Level::Files];
    let level = levels.into_iter().find(|level| format!("{level:?}") == named).unwrap();
    let mut job = PreloadedJob::open(level, &command[0], &std::env::temp_dir()).unwrap();
    let mask = SignalMask::block(&[]).unwrap();
    let waiting =
        spawn_with(&command, &mask, &With { variables: &job.variables(), ..With::default() })
            .unwrap();
    job.arm(waiting.pid.as_raw_nonzero().get() as u32, waiting.pidfd()).unwrap();
    let (root, _pidfd) = waiting.go().unwrap();
    let (mut root_ended, mut events) = (false, Vec::new());
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        while let Some((pid, status)) = job.next_child().unwrap() {
            root_ended |= pid == root && status.stopped_signal().is_none();
        }
        events.extend(job.events());
        if root_ended {
            job.read().unwrap();
            while job.next_child().unwrap().is_some() {}
            if job.living().is_empty() && job.unsettled() == 0 {
                break;
            }
        }
        assert!(Instant::now() < deadline, "the job does not end: {:?}", job.living());
        std::thread::sleep(Duration::from_millis(5));
    }
    let reading = job.read().unwrap();
    events.extend(job.events());
    let value = |name: &str, value: u64| println!("@@value{SEPARATOR}{name}={value}");
    for &counter in Counter::ALL {
        value(counter.slot_name(), reading.counters.get(counter));
    }
    value("processes_total", reading.population.processes_total);
    value("processes_peak", reading.population.processes_peak);
    value("threads_peak", reading.population.threads_peak);
    value("process_peak", reading.memory.process_peak);
    value("sum_at_least", job.memory_bounds().0);
    value("sum_at_most", job.memory_bounds().1);
    for note in job.notes() {
        let quality: Quality = note.quality;
        println!("@@note{SEPARATOR}{}{SEPARATOR}{quality}{SEPARATOR}{}", note.metric, note.reason);
    }
    println!("@@status{SEPARATOR}{:?}", job.statuses());
    let (mut rows, mut files) = (job.processes(), Vec::new());
    for event in events {
        match event {
            Event::ProcessEnd(end) => rows.push(*end),
            Event::File { path, key, .. } => files.push((path, key)),
            _ => {}
        }
    }
    for (path, key) in files {
        println!("@@file{SEPARATOR}{}{SEPARATOR}{path}", job.take_opens(&key).unwrap());
    }
    rows.iter().for_each(print_row);
}

fn print_row(row: &ProcessEnd) {
    let status = row.wait_status.map_or("none".to_owned(), |s| s.to_string());
    let mut fields = vec![
        "@@row".to_owned(),
        format!("pid={}", row.pid),
        format!("parent={}", row.parent_pid),
        // A line each.
        format!("name={}", row.name.replace('\n', "\\n")),
        format!("command={}", row.command.join(" ").replace('\n', "\\n")),
        format!("status={status}"),
        format!("uid={}", row.uid),
        format!("rss_peak={}", row.rss_peak_bytes),
        format!("wall_ns={}", row.ended_ns.unwrap_or_default().saturating_sub(row.started_ns)),
    ];
    let counters =
        Counter::ALL.iter().map(|c| format!("{}={}", c.slot_name(), row.counters.get(*c)));
    fields.extend(counters);
    println!("{}", fields.join(SEPARATOR));
}

/// What the kernel counts for a command that runs without weigh.
pub fn witness(command: &[&str], truth: &Path) -> BTreeMap<String, u64> {
    let output = Command::new(workload("witness"))
        .args(command)
        .env("TRUTH_FILE", truth)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pair = |line: &str| {
        Some((line.split_once('=')?.0.to_owned(), line.split_once('=')?.1.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}
