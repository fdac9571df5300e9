//! What an error says of a mechanism or a collector that cannot run here is what `weigh doctor` shows of it.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::run::{Scratch, set_surroundings};
use crate::support::{weigh_for_everybody, workload};

/// Surroundings, by the command that makes them.
struct Surroundings {
    made_by: Vec<String>,
    scratch: Scratch,
}

impl Surroundings {
    fn new(program: &str, arguments: &[&str]) -> Surroundings {
        let words = std::iter::once(workload(program));
        let made_by = words.chain(arguments.iter().map(ToString::to_string)).collect();
        Surroundings { made_by, scratch: Scratch::new() }
    }

    fn weigh(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.made_by[0]);
        command.args(&self.made_by[1..]).arg(weigh_for_everybody()).args(arguments);
        set_surroundings(&mut command, &self.scratch);
        command.env("WEIGH_SOCKET", self.scratch.path("no-agent")).output().expect("it runs")
    }

    /// The rows of the doctor's JSON that have no value: names and reasons.
    fn not_here(&self, kind: &str, is_not: impl Fn(&Value) -> bool) -> Vec<(String, String)> {
        let output = self.weigh(&["doctor", "--json"]);
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = said[kind].as_array().expect("rows").iter().filter(|row| is_not(row));
        let text = |value: &Value| value.as_str().expect("a text").to_string();
        rows.map(|row| (text(&row["name"]), text(&row["reason"]))).collect()
    }

    fn mechanisms_not_here(&self) -> Vec<(String, String)> {
        self.not_here("mechanisms", |row| row["works"] == false)
    }

    fn collectors_not_here(&self) -> Vec<(String, String)> {
        self.not_here("collectors", |row| row["status"] == "unavailable")
    }
}

#[test]
fn the_error_of_a_mechanism_says_what_the_doctor_shows() {
    needs_root!();
    let library = ("preload", "larger than 8.0 MiB here");
    let rights = ("bpf", "CAP_BPF and CAP_PERFMON missing");
    let tracer = ("ptrace", "ptrace");
    let proc = |name| (name, "/proc is not there");
    let all = [proc("bpf"), proc("ptrace"), proc("preload"), proc("poll")];
    for (program, arguments, expected) in [
        ("confine", &["user"][..], &[rights][..]),
        ("confine", &["no-ptrace,user"], &[rights, tracer]),
        ("launch", &["hard=1:8388608", "user", "--"], &[rights, library]),
        ("confine", &["no-proc"], &all),
    ] {
        let here = Surroundings::new(program, arguments);
        let found = here.mechanisms_not_here();
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        let expected_names: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected_names, "{arguments:?}: {found:?}");
        for ((name, reason), (_, words)) in found.iter().zip(expected) {
            assert!(reason.contains(words), "{arguments:?}, {name}: {reason}");
            assert!(!reason.contains("does not work here"), "it is the reason alone: {reason}");
            let output = here.weigh(&["run", "--mechanism", name, "--", "true"]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(reason.as_str()), "{arguments:?}, {name}: {reason}\n{said}");
        }
    }
}

#[test]
fn a_summary_says_of_a_collector_what_the_doctor_shows() {
    needs_root!();
    let here = Surroundings::new("confine", &["user"]);
    let output = here.weigh(&["run", "--json", "-", "-q", "--", "true"]);
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let of_run = summary["collectors"].as_array().expect("collectors");
    let found = here.collectors_not_here();
    assert!(!found.is_empty(), "an ordinary user has no control group");
    for (name, reason) in found {
        let row = of_run.iter().find(|row| row["name"] == name.as_str());
        let said = row.map(|row| row["reason"].as_str().expect("a reason"));
        // What no run starts is asked apart.
        assert!(said.is_none_or(|said| said == reason), "{name}: {reason}\n{said:?}");
    }
}

/// No run starts them: the doctor tries them, and says what the verbs say.
#[test]
fn the_errors_of_calls_and_trace_say_what_the_doctor_shows() {
    needs_root!();
    let here = Surroundings::new("confine", &["user"]);
    let found = here.collectors_not_here();
    let event = "sched:sched_process_exec";
    for (name, arguments) in [
        ("syscalls", &["calls", "--", "touch", "touched"][..]),
        ("syscalls", &["run", "--calls", "--", "touch", "touched"]),
        ("trace", &["trace", "-e", event, "--", "touch", "touched"]),
    ] {
        let (_, reason) = found.iter().find(|(found, _)| found == name).expect("a row");
        assert!(reason.contains("CAP_BPF and CAP_PERFMON missing"), "{name}: {reason}");
        let output = here.weigh(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
        assert!(said.contains(reason.as_str()), "{arguments:?}: {reason}\n{said}");
        assert!(!here.scratch.path("work/touched").exists(), "{arguments:?}");
    }
}

#[test]
fn with_rights_the_doctor_shows_that_calls_and_trace_work() {
    needs_root!();
    let here = Surroundings::new("launch", &["--"]);
    let output = here.weigh(&["doctor", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = said["collectors"].as_array().expect("rows");
    for name in ["syscalls", "trace"] {
        let row = rows.iter().find(|row| row["name"] == name).expect("a row");
        assert_eq!(row["status"], "active", "{row}");
    }
}

/// A device that may not be opened: the doctor knows of it what the verb says.
#[test]
fn the_error_of_a_mount_says_what_the_doctor_shows() {
    needs_root!();
    if !std::path::Path::new("/dev/fuse").exists() {
        return;
    }
    let script =
        "mount --bind /dev/fuse /dev/fuse && mount -o remount,bind,nodev /dev/fuse && exec \"$@\"";
    let made_by = ["unshare", "-m", "sh", "-c", script, "sh"].map(String::from).to_vec();
    let here = Surroundings { made_by, scratch: Scratch::new() };
    let found = here.collectors_not_here();
    let (_, reason) = found.iter().find(|(name, _)| name == "mount").expect("no mount");
    assert!(reason.starts_with("/dev/fuse cannot be opened: "), "{reason}");
    let [source, target] = ["source", "target"].map(|name| {
        let folder = here.scratch.path(name);
        std::fs::create_dir(&folder).expect("a folder");
        folder.display().to_string()
    });
    let output = here.weigh(&["io", "mount", &source, &target]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(reason.as_str()), "{reason}\n{said}");
}
