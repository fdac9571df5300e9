//! `weigh agent` as its unit runs it, and ordinary users who ask it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};

use super::run::{Scratch, Weigh, set_surroundings};
use super::{processes, weigh_for_everybody};

/// An ordinary user.
pub const NOBODY: u32 = 65534;
/// No user of this machine: the agent's unit makes one up as well.
const AGENT: &str = "61234";
const UNIT: &str = include_str!("../../../../packaging/weigh-agent.service");

/// `weigh agent`, ready, with what the unit gives it.
pub struct Agent {
    pub process: Child,
    pub scratch: Scratch,
}

impl Agent {
    pub fn start() -> Agent {
        let scratch = Scratch::new();
        let rights = UNIT.lines().find_map(|line| line.strip_prefix("AmbientCapabilities="));
        let rights: Vec<String> = std::iter::once("-all".to_string())
            .chain(rights.expect("rights").split(' ').map(|right| {
                format!("+{}", right.strip_prefix("CAP_").expect("a name").to_lowercase())
            }))
            .collect();
        let rights = rights.join(",");
        let mut process = Command::new("setpriv")
            .args(["--reuid", AGENT, "--regid", AGENT, "--clear-groups", "--no-new-privs"])
            .args(["--inh-caps", &rights, "--ambient-caps", &rights, "--bounding-set", &rights])
            .arg(weigh_for_everybody())
            .args(["agent", "--socket"])
            .arg(scratch.path("socket"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("setpriv starts");
        let mut said = BufReader::new(process.stderr.take().expect("standard error"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        assert!(line.contains("serves at"), "{line}");
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
        Agent { process, scratch }
    }

    /// A run of an ordinary user's, who asks this agent.
    pub fn asked_by(&self, run: Weigh) -> Weigh {
        run.run_by(NOBODY).env("WEIGH_SOCKET", self.scratch.path("socket"))
    }

    /// `weigh run -- WORKLOAD…` of an ordinary user's.
    pub fn workload(&self, line: &str) -> Weigh {
        self.asked_by(Weigh::workload(line))
    }

    /// Another verb of an ordinary user's weigh, who asks this agent.
    pub fn command(&self, scratch: &Scratch, arguments: &[&str]) -> Command {
        let mut command = Command::new(weigh_for_everybody());
        command.uid(NOBODY).gid(NOBODY).args(arguments).stdin(Stdio::null());
        set_surroundings(&mut command, scratch);
        command.env("WEIGH_SOCKET", self.scratch.path("socket"));
        command
    }

    /// The same, to its end.
    #[track_caller]
    pub fn weigh(&self, scratch: &Scratch, arguments: &[&str]) -> Output {
        let mut command = self.command(scratch, arguments);
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Those who follow jobs.
    pub fn sessions(&self) -> Vec<u32> {
        processes::children(self.process.id())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A copy of setpriv by which everybody becomes root.
pub fn root_for_everybody(scratch: &Scratch) -> String {
    let copy = scratch.path("become");
    std::fs::copy("/usr/bin/setpriv", &copy).expect("a copy");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).expect("rights");
    copy.display().to_string()
}
