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

pub fn must(command: &mut Command) -> Output {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// The library and a program of `libweigh/tests`, made by what a user has: header, library, compiler.
pub fn program(name: &str) -> PathBuf {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh");
    let made = MADE.get_or_init(|| {
        let made = folder();
        let out = made.path().join("build");
        must(
            Command::new("make")
                .args(["-s", "-C"])
                .arg(&source)
                .arg(format!("OUT={}", out.display()))
                .arg(format!("PREFIX={}", made.path().display()))
                .arg("install"),
        );
        for test in ["exact", "life", "later", "peer", "steps", "hostile", "parts"] {
            must(
                Command::new("cc")
                    .args(["-std=gnu17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"])
                    .arg(format!("-I{}/include", made.path().display()))
                    .arg(source.join(format!("tests/{test}.c")))
                    .arg("-o")
                    .arg(made.path().join(test))
                    // Half of them by the one, half by the other.
                    .args(match test {
                        "exact" | "peer" | "steps" => {
                            let library = made.path().join("lib");
                            let search = format!("-Wl,-rpath,{}", library.display());
                            vec![format!("-L{}", library.display()), "-lweigh".into(), search]
                        }
                        _ => vec![format!("{}/lib/libweigh.a", made.path().display())],
                    })
                    .arg("-pthread"),
            );
        }
        made
    });
    made.path().join(name)
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
        let mut process = Command::new(weigh_binary())
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

    /// A folder on a file system with a device below it.
    pub fn storage(&self) -> TempDir {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).expect("permissions");
        folder
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
