//! Other tools that account for a command: how each is started, and what it says of a run.
//!
//! They are found on PATH or in the folder of a virtual environment. One that is not there, or
//! that fails at `true`, is absent for a reason, which goes into the pages.

mod read;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

pub use read::Report;

use crate::runs::Bench;
use crate::tools::Quantity;

/// A tool, as it is known here.
pub struct Peer {
    /// Its name.
    pub name: &'static str,
    program: &'static str,
    version: &'static str,
    /// The options up to the command, with `REPORT` for the folder that it reports into and
    /// `SCRATCH` for the one above; in the order of preference.
    options: &'static [&'static str],
    /// Whether it wants the command as one word, for a shell.
    shell: bool,
    read: fn(&Report, Quantity) -> Option<f64>,
}

/// All that are known.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "strace",
        program: "strace",
        version: "--version",
        options: &[
            "-f -qq --seccomp-bpf -e trace=process,read,write -e signal=none -s 0 -o REPORT/said",
            "-f -qq -e trace=process,read,write -e signal=none -s 0 -o REPORT/said",
        ],
        shell: false,
        read: read::strace,
    },
    Peer {
        name: "perf stat",
        program: "perf",
        version: "--version",
        options: &[
            "stat -x, -e task-clock,sched:sched_process_fork -o REPORT/said --",
            "stat -x, -e task-clock -o REPORT/said --",
        ],
        shell: false,
        read: read::perf,
    },
    Peer {
        name: "GNU time",
        program: "/usr/bin/time",
        version: "--version",
        options: &["-q -f %M,%U,%S -o REPORT/said"],
        shell: false,
        read: read::time,
    },
    Peer {
        name: "runexec",
        program: "runexec",
        version: "--version",
        options: &[
            "--full-access-dir SCRATCH --output REPORT/output --",
            "--read-only-dir / --full-access-dir SCRATCH --output REPORT/output --",
            "--no-container --output REPORT/output --",
        ],
        shell: false,
        read: read::runexec,
    },
    Peer {
        name: "psrecord",
        program: "psrecord",
        version: "",
        options: &["--include-children --interval 0.1 --log-format csv --log REPORT/said"],
        shell: true,
        read: read::psrecord,
    },
    Peer {
        name: "con-duct",
        program: "duct",
        version: "--version",
        options: &["-l NONE --fail-time 0 --sample-interval 0.1 --report-interval 1 -p REPORT/"],
        shell: false,
        read: read::duct,
    },
];

/// A tool that is here and works.
pub struct Installed {
    /// Which one.
    pub peer: &'static Peer,
    /// What it says of its version.
    pub version: String,
    /// The options with which it works.
    options: &'static str,
    /// What came of the options before these.
    pub failures: Vec<String>,
    program: PathBuf,
}

impl Installed {
    /// Looks for a tool and tries it.
    pub fn find(peer: &'static Peer, bench: &Bench) -> Result<Installed> {
        let program = find(peer.program, &bench.search_path())?;
        let mut found =
            Installed { peer, version: String::new(), options: "", failures: Vec::new(), program };
        found.version = version(&found.program, peer, bench)?;
        for options in peer.options {
            found.options = options;
            match bench.tries_peer(&found) {
                Ok(()) => return Ok(found),
                Err(error) => found.failures.push(format!("`{}`: {error:#}", found.usage())),
            }
        }
        bail!("{}; {}", found.version, found.failures.join("; "))
    }

    /// The words that run a command under it.
    pub fn words(&self, scratch: &Path, report: &Path, command: &[String]) -> Vec<String> {
        let place = |word: &str| {
            word.replace("REPORT", &report.display().to_string())
                .replace("SCRATCH", &scratch.display().to_string())
        };
        let mut words = vec![self.program.display().to_string()];
        words.extend(self.options.split(' ').map(place));
        if self.peer.shell {
            words.push(command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
        } else {
            words.extend(command.iter().cloned());
        }
        words
    }

    /// How it is run, for people.
    pub fn usage(&self) -> String {
        let options = self.options.replace("REPORT/", "").replace("SCRATCH", "DIR");
        format!("{} {options}", self.peer.program)
    }

    /// What it says of a quantity; absent if it has no such figure.
    pub fn said(&self, report: &Report, quantity: Quantity) -> Option<f64> {
        (self.peer.read)(report, quantity)
    }
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The file of a program.
fn find(program: &str, search: &str) -> Result<PathBuf> {
    if program.starts_with('/') {
        let there = Path::new(program).exists();
        return there.then(|| program.into()).with_context(|| format!("no {program} here"));
    }
    let places = search.split(':').map(|folder| Path::new(folder).join(program));
    places
        .into_iter()
        .find(|path| path.is_file())
        .with_context(|| format!("no `{program}` on PATH or among the benchmark's own peers"))
}

/// What a tool says of its version, in a line.
fn version(program: &Path, peer: &Peer, bench: &Bench) -> Result<String> {
    let mut command = Command::new(program);
    if peer.version.is_empty() {
        // Only its package knows.
        command = Command::new(program.with_file_name("python"));
        let query = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))";
        command.args(["-c", query, peer.program]);
    } else {
        command.arg(peer.version);
    }
    let output = command.env("PATH", bench.search_path()).output();
    let output = output.with_context(|| program.display().to_string())?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().next().unwrap_or("version unknown").trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(name: &str) -> Installed {
        let peer = PEERS.iter().find(|peer| peer.name == name).unwrap();
        let options = peer.options[0];
        let program = PathBuf::from(peer.program);
        Installed { peer, version: String::new(), options, failures: Vec::new(), program }
    }

    #[test]
    fn words_go_around_the_command() {
        let command = ["a b", "it's"].map(String::from);
        let (scratch, report) = (Path::new("/s"), Path::new("/s/r"));
        let words = installed("perf stat").words(scratch, report, &command);
        assert_eq!(words[words.len() - 4..], ["/s/r/said", "--", "a b", "it's"]);
        let words = installed("psrecord").words(scratch, report, &command);
        assert_eq!(words.last().unwrap(), r"'a b' 'it'\''s'");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let error = find("surely-no-such-tool", "/usr/bin:/bin").unwrap_err();
        assert!(error.to_string().contains("surely-no-such-tool"), "{error}");
        assert!(find("/usr/bin/surely-no-such-tool", "").is_err());
        assert!(find("sh", "/surely/not:/bin").is_ok());
    }
}
