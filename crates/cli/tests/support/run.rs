//! Runs of weigh: put together, started, waited for.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::measured::Measured;
use super::{patience, processes, weigh_binary};

/// How long a run may take, on a real machine, before it counts as hung.
const HUNG_SECONDS: f64 = 60.0;

/// A folder for one run. When it goes, so does whatever still carries its mark.
pub struct Scratch(TempDir);

/// Whether what is written into a [`Scratch`] goes to storage at some time.
pub fn is_stored() -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let scratch = Scratch::new();
    let is_stored = rustix::fs::statfs(scratch.mark()).expect("a file system").f_type != TMPFS;
    if !is_stored {
        crate::support::leave_out("files for temporary use are in memory here");
    }
    is_stored
}

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
    confinement: Option<OsString>,
    hung_seconds: f64,
    own_group: bool,
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
            confinement: None,
            hung_seconds: HUNG_SECONDS,
            own_group: false,
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

    /// Adds an argument of the command.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Weigh {
        self.command.push(argument.into());
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

    /// Runs weigh within what the workload `confine` makes of its first argument (root).
    pub fn within(mut self, confinement: impl Into<OsString>) -> Weigh {
        self.confinement = Some(confinement.into());
        self
    }

    /// Runs it in a process group of its own. The kernel ignores SIGTSTP in a group that has no parent in
    /// another group of the same session, and the group of the tests may have none.
    pub fn in_own_group(mut self) -> Weigh {
        self.own_group = true;
        self
    }

    /// So many times more is to do than in other tests: until it counts as hung it may take longer.
    pub fn longer(mut self, times: f64) -> Weigh {
        self.hung_seconds *= times.max(1.0);
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
        let mut command = match (&self.confinement, self.user) {
            (Some(confinement), _) => {
                let mut command = Command::new(super::workload("confine"));
                command.arg(confinement).arg(super::weigh_for_everybody());
                command
            }
            (None, Some(_)) => Command::new(super::weigh_for_everybody()),
            (None, None) => Command::new(weigh_binary()),
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
        if self.own_group {
            command.process_group(0);
        }
        let begun = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Running { scratch, child, begun, most: patience(self.hung_seconds) }
    }

    /// Runs it to its end, however it ends.
    #[track_caller]
    pub fn end(self) -> Measured {
        self.start().end()
    }

    /// Runs it to its end; fails unless weigh exits with 0, and, started as root, measured by BPF.
    #[track_caller]
    pub fn measure(self) -> Measured {
        let by_the_kernel = super::is_root() && self.user.is_none() && self.confinement.is_none();
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
    most: Duration,
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
            std::thread::sleep(super::BETWEEN_LOOKS * super::slowness());
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
        let until = self.begun + self.most;
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

/// Weigh in one of [`super::WAYS`], with what it found in the folder; the command is still to come.
pub fn by(way: &[&str], scratch: &Scratch) -> Command {
    let mut command = Command::new(weigh_binary());
    command.args(way).arg("-q");
    match way[0] {
        "run" => command.arg("-o").arg(scratch.path("recording")),
        "trace" => command.arg("-o").arg(scratch.path("events.jsonl")),
        _ => command.arg("--json").arg(scratch.path("found.json")),
    };
    command
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

/// The same of one that ends with a status of its own: that, too.
#[track_caller]
pub fn bare_status(scratch: &Scratch, command: &[&str]) -> (Vec<u8>, Option<i32>) {
    let mut bare = Command::new(command[0]);
    bare.args(&command[1..]).stdin(Stdio::null());
    set_surroundings(&mut bare, scratch);
    let output = bare.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    (output.stdout, output.status.code())
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
