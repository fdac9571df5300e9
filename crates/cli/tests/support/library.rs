//! libweigh's programs of `libweigh/tests`, made as a user makes them, and `weigh agent` for them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::weigh_binary;

/// A user without rights.
pub const NOBODY: &str = "65534";

/// A folder that every user can reach.
pub fn folder() -> TempDir {
    let folder = TempDir::with_prefix("weigh-test-").expect("a folder");
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everybody).expect("permissions");
    folder
}

/// The same on a file system with a device below it: where all was built, or, if it was built elsewhere,
/// where temporary files are.
pub fn storage() -> TempDir {
    let folder = TempDir::with_prefix_in("weigh-test-", env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.or_else(|_| TempDir::new()).expect("a folder");
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everybody).expect("permissions");
    folder
}

pub fn must(command: &mut Command) -> Output {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// The library and a program of `libweigh/tests`, made by what a user has: header, library, compiler;
/// or, where there is no compiler, made elsewhere before.
pub fn program(name: &str) -> PathBuf {
    static MADE: OnceLock<(PathBuf, Option<TempDir>)> = OnceLock::new();
    let (made, _) = MADE.get_or_init(|| match std::env::var_os("WEIGH_LIBWEIGH") {
        Some(made) => (made.into(), None),
        None => {
            let made = folder();
            let built = installed_library();
            must(Command::new("cp").arg("-r").arg(built.join(".")).arg(made.path()));
            (made.path().to_path_buf(), Some(made))
        }
    });
    made.join(name)
}

/// Shared by all test programs, and built before them by `scripts/test.sh`.
fn installed_library() -> PathBuf {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libweigh");
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/libweigh-programs.sh");
    must(Command::new(build).arg(&shared));
    shared.join("installed")
}

/// The same of some programs, made with one of the compiler's sanitizers: its runtime comes with the compiler.
pub fn sanitized(sanitizer: &str, programs: &[&str]) -> TempDir {
    let made = folder();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh");
    let mut make = Command::new("make");
    make.args(["-s", "-C"]).arg(&source).arg("tests");
    make.arg(format!("SANITIZE={sanitizer}")).arg(format!("TESTS={}", programs.join(" ")));
    make.arg(format!("OUT={}", made.path().join("build").display()));
    must(make.arg(format!("PREFIX={}", made.path().display())));
    made
}

/// libweigh's Python module, installed as a user installs it: the folder that it is in.
pub fn python_module() -> &'static Path {
    static INSTALLED: OnceLock<TempDir> = OnceLock::new();
    INSTALLED.get_or_init(install_python_module).path()
}

/// The same, laid out as packages have it, by the library that is built already.
pub fn packaged_python_module() -> &'static Path {
    static LAID_OUT: OnceLock<TempDir> = OnceLock::new();
    let lay_out = || {
        let place = folder();
        let module = place.path().join("weigh");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../libweigh/python/weigh");
        must(Command::new("cp").arg("-r").arg(source).arg(&module));
        let library = program("lib/libweigh.so.0");
        std::os::unix::fs::symlink(library, module.join("libweigh.so")).expect("a link");
        place
    };
    LAID_OUT.get_or_init(lay_out).path()
}

fn install_python_module() -> TempDir {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/python");
    let place = folder();
    let has_pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    if has_pip.is_ok_and(|output| output.status.success()) {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--no-index", "--target"]);
        must(install.arg(place.path()).arg(source));
        return place;
    }
    // What pip would do.
    let script = "import build_wheel, sys, zipfile; where = sys.argv[1]; \
                  zipfile.ZipFile(f'{where}/{build_wheel.build_wheel(where)}').extractall(where)";
    let mut build = Command::new("python3");
    must(build.current_dir(&source).args(["-B", "-c", script]).arg(place.path()));
    place
}

/// `weigh agent`, ready.
pub struct Agent {
    pub process: Child,
    pub folder: TempDir,
}

impl Agent {
    pub fn start(options: &[&str]) -> Agent {
        Agent::start_in(folder(), options)
    }

    pub fn start_in(folder: TempDir, options: &[&str]) -> Agent {
        Agent::started(Command::new(weigh_binary()), folder, options)
    }

    /// With CAP_BPF and CAP_PERFMON and nothing else, as the package's unit starts it.
    pub fn with_two_capabilities(folder: TempDir, options: &[&str]) -> Agent {
        let weigh = folder.path().join("weigh");
        std::fs::copy(weigh_binary(), &weigh).expect("a copy that anybody can run");
        let capabilities = "+bpf,+perfmon";
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65533", "--regid", "65533", "--clear-groups"])
            .args(["--inh-caps", capabilities, "--ambient-caps", capabilities])
            .args(["--bounding-set", "-all,+bpf,+perfmon", "--no-new-privs"])
            .arg(weigh);
        Agent::started(command, folder, options)
    }

    fn started(mut command: Command, folder: TempDir, options: &[&str]) -> Agent {
        let mut process = command
            .arg("agent")
            .arg("--socket")
            .arg(folder.path().join("socket"))
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("weigh starts");
        let mut said = BufReader::new(process.stderr.take().expect("standard error"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        assert!(line.contains("serves at"), "{line}");
        // Somebody has to take what else it says.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
        Agent { process, folder }
    }

    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program(name));
        command.env("WEIGH_SOCKET", self.folder.path().join("socket"));
        command
    }

    pub fn as_nobody(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        command.arg(program(name)).env("WEIGH_SOCKET", self.folder.path().join("socket"));
        command
    }

    /// See [`storage`].
    pub fn storage(&self) -> TempDir {
        storage()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.process.id() as i32);
        nix::sys::signal::kill(pid, signal).expect("it is there");
    }

    /// Ends it as an administrator does; it must end well.
    pub fn stop(mut self) -> TempDir {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let status = self.process.wait().expect("it is there");
        assert!(status.success(), "{status}");
        assert!(!self.folder.path().join("socket").exists(), "the socket is left behind");
        std::mem::replace(&mut self.folder, folder())
    }

    /// Ends it as the kernel does when memory runs out.
    pub fn kill(mut self) -> TempDir {
        self.signal(nix::sys::signal::Signal::SIGKILL);
        self.process.wait().expect("it is there");
        std::mem::replace(&mut self.folder, folder())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program that is told when to go on, and answers.
pub struct Asked {
    pub process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Asked {
    pub fn start(command: &mut Command) -> Asked {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().expect("output"));
        Asked { process, to, from }
    }

    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("text");
        line.trim_end().to_string()
    }

    pub fn ask(&mut self) -> String {
        self.say("")
    }

    /// Says a line, and has the answer.
    pub fn say(&mut self, line: &str) -> String {
        let to = self.to.as_mut().expect("input");
        to.write_all(format!("{line}\n").as_bytes()).expect("it listens");
        self.answer()
    }

    /// Says a line, to which there is no answer.
    pub fn say_last(&mut self, line: &str) {
        let to = self.to.as_mut().expect("input");
        to.write_all(format!("{line}\n").as_bytes()).expect("it listens");
    }

    /// Reason, calls, bytes.
    pub fn numbers(&mut self) -> (u64, u64, u64) {
        let line = self.ask();
        let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        (next(), next(), next())
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.process.wait();
    }
}
