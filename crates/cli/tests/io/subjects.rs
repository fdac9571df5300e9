//! Where `weigh io` writes, whom it follows and for how long: what cannot be is refused before the job begins, and
//! a command that was started is waited for.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;

use crate::support::run::{Scratch, weigh};
use serde_json::Value;

/// What weigh says to these options, of a job that must not have begun.
#[track_caller]
fn refused(scratch: &Scratch, options: &[&str]) -> String {
    let mark = scratch.path("job-has-run");
    let job = ["--", "touch", mark.to_str().expect("a name")];
    let output = weigh(scratch, &[options, &job].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
    assert!(!mark.exists(), "{options:?}: the job has run; {said}");
    said
}

#[test]
fn what_is_no_file_is_refused_and_stays() {
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("a FIFO");
    let fifo = fifo.to_str().expect("a name");
    for options in [["io", "--parquet"], ["io", "--calls"], ["calls", "--per-call"]] {
        let said = refused(&scratch, &[options[0], options[1], fifo]);
        assert!(said.contains(options[1]) && said.contains(fifo), "{said}");
        assert!(Path::new(fifo).metadata().expect("it is there").file_type().is_fifo());
        for stream in ["-", "fd:1"] {
            let said = refused(&scratch, &[options[0], options[1], stream]);
            let named = format!("{} {stream}: a Parquet file is no stream", options[1]);
            assert!(said.contains(&named), "{said}");
        }
        let nowhere = scratch.path("nowhere/rows").display().to_string();
        let said = refused(&scratch, &[options[0], options[1], &nowhere]);
        let named = format!("{}: cannot write {nowhere}: ", options[1]);
        assert!(said.contains(&named), "{said}");
    }
}

#[test]
fn one_file_is_not_two() {
    let scratch = Scratch::new();
    let file = scratch.path("rows.parquet").display().to_string();
    std::fs::write(&file, "a user's").expect("a file");
    symlink(&file, scratch.path("link")).expect("a link");
    let link = scratch.path("link").display().to_string();
    for (other, again) in [("--calls", &file), ("--calls", &link), ("--json", &file)] {
        let said = refused(&scratch, &["io", "--parquet", &file, other, again]);
        assert!(
            said.contains(&format!("{other} {again}: that is the file of --parquet")),
            "{said}"
        );
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "a user's");
    }
}

#[test]
fn a_link_leads_to_the_file_of_rows() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("rows.parquet");
    std::fs::write(&file, "old").expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("its rights");
    symlink("rows.parquet", scratch.path("link")).expect("a link");
    let link = scratch.path("link");
    let output =
        weigh(&scratch, &["io", "-q", "--parquet", link.to_str().expect("a name"), "--", "true"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(link.is_symlink());
    assert!(weigh_keep::count_rows(&file).expect("a whole file") > 0);
    assert_eq!(file.metadata().expect("it is there").mode() & 0o7777, 0o640);
}

#[test]
fn there_is_no_process_0() {
    let scratch = Scratch::new();
    for options in [&["io"][..], &["calls"], &["trace", "-e", "sched:sched_switch"]] {
        let output = weigh(&scratch, &[options, &["--pid", "0", "--for", "1s"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
        assert!(
            said.contains("--pid") && said.contains("number of a process"),
            "{options:?}: {said}"
        );
    }
}

/// The command ends by itself, in its own time, and with its own status; it is measured until then only, and what was
/// measured is told at that time.
#[test]
fn a_command_is_waited_for_when_the_time_is_over() {
    needs_root!();
    let scratch = Scratch::new();
    let json = scratch.path("io.json").display().to_string();
    let (ended, told) = (scratch.path("ended"), scratch.path("told"));
    // Its end is a line of its own.
    let script = format!(
        "exec 3>>log; echo one >&3; sleep 1.5; echo three >&3; \
         until test \"$0\" = trace || grep -q '^}}' {json}; do sleep 0.1; done; \
         cp {json} {}; touch {}; exit 7",
        told.display(),
        ended.display()
    );
    let to_json = ["-q", "--json", &json];
    let ways: [(&str, &[&str]); 6] = [
        ("io", &["--mechanism", "bpf"]),
        ("io", &["--mechanism", "preload"]),
        ("io", &["--mechanism", "ptrace"]),
        ("calls", &[]),
        ("calls", &["--mechanism", "preload"]),
        ("trace", &["-e", "sched:sched_process_exec", "-q", "-o", "-"]),
    ];
    for (verb, options) in ways {
        for file in [&ended, &told, &scratch.path("io.json")] {
            let _ = std::fs::remove_file(file);
        }
        let rest: &[&str] = if verb == "trace" { &[] } else { &to_json };
        let command = ["--for", "500ms", "--", "bash", "-c", &script, verb];
        let began = Instant::now();
        let output = weigh(&scratch, &[&[verb], options, rest, &command].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{verb} {options:?}: {said}");
        assert!(ended.exists(), "{verb} {options:?}: the command was left behind; {said}");
        assert!(began.elapsed().as_secs_f64() >= 1.5, "{verb} {options:?}: {said}");
        if verb == "trace" {
            continue;
        }
        let report: Value = serde_json::from_str(&scratch.text("told")).expect("a report");
        let seconds = report["wall_seconds"].as_f64().expect("a time");
        assert!((0.5..1.5).contains(&seconds), "{verb} {options:?}: {seconds}");
    }
}
