//! Snapshots and the command of `--on-event`: what they say is what was so at that moment, and
//! neither the job nor its numbers know of them.

use std::fs;

use crate::support::measured::Measured;
use crate::support::run::{Scratch, Weigh, weigh};
use crate::support::slowness;
use serde_json::Value;
use weigh_schema::event::CollectorState;
use weigh_schema::summary::{Cause, ExitKind, Snapshot};

const NOBODY: u32 = 65534;

const ALL: [&str; 4] = ["bpf", "ptrace", "preload", "poll"];

/// Each mechanism; without root there is no BPF.
fn mechanisms() -> impl Iterator<Item = &'static str> {
    let all = if crate::support::is_root() { &ALL } else { &ALL[1..] };
    crate::support::worth_the_time(all, 2).iter().copied()
}

fn followed(by: &str, script: &str) -> Weigh {
    let weigh = Weigh::bash(script).options(&format!("--mechanism {by}"));
    if by == "bpf" { weigh } else { weigh.run_by(NOBODY) }
}

#[track_caller]
fn number(snapshot: &Snapshot, metric: &str) -> f64 {
    snapshot.metrics[metric].number().unwrap_or_else(|| panic!("{:?}", snapshot.metrics[metric]))
}

fn labels(measured: &Measured) -> Vec<&str> {
    measured.summary().snapshots.iter().map(|s| s.label.as_str()).collect()
}

/// The objects that the command of `--on-event` was given, in their order.
fn told(measured: &Measured) -> Vec<Value> {
    let text = measured.scratch.text("work/told");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

#[test]
fn a_snapshot_holds_what_was_so_at_that_moment() {
    let events = r#"{"flag": {"delete-if-found": true, "events": [
        {"label": "half-way", "on-create": true}]}}"#;
    for by in mechanisms() {
        let weigh = followed(
            by,
            "head -c 1000003 /dev/zero > a; : > flag; while [ -e flag ]; do sleep 0.01; done
             head -c 23 /dev/zero > b",
        );
        fs::write(weigh.scratch().path("work/events.json"), events).expect("written");
        let measured = weigh.options("--snapshot-events events.json").measure();
        let snapshots = &measured.summary().snapshots;
        measured.check(snapshots.len() == 1, || format!("{by}: {snapshots:?}"));
        let half_way = &snapshots[0];
        assert_eq!((half_way.label.as_str(), half_way.cause), ("half-way", Cause::Created));
        assert_eq!(number(half_way, "io_written_bytes_total"), 1_000_003.0, "{by}");
        if by != "poll" {
            // What is written last nobody sees who only looks now and then.
            measured.is("io_written_bytes_total", 1_000_026);
        }
        let at = half_way.at_seconds;
        assert!(at > 0.0 && at < measured.number("wall_seconds"), "{by}: {at}");
        assert_eq!(number(half_way, "wall_seconds"), at);
        let names = |map: &std::collections::BTreeMap<String, _>| map.keys().cloned().collect();
        let (then, in_the_end): (Vec<String>, Vec<String>) =
            (names(&half_way.metrics), names(&measured.summary().metrics));
        assert_eq!(then, in_the_end, "no metric is left out");
    }
}

#[test]
fn lines_of_a_log_that_grows_is_rotated_and_ends_without_a_newline() {
    // Time for a look: what is gone before one was not seen by anybody.
    let pause = format!("sleep {:.1}", 0.2 * f64::from(slowness()));
    let script = format!(
        "echo 'epoch 1 begins' > log; echo 'epoch 1 ends' >> log; {pause}
         mv log log.1; echo 'epoch 2 ends' > log; {pause}
         : > log; {pause}; printf 'epoch 3 ends' >> log"
    );
    let measured = Weigh::bash(&script)
        .options("--snapshot new=log --snapshot")
        .option("done=log:^epoch [0-9]+ ends$")
        .measure();
    let found: Vec<_> = measured
        .summary()
        .snapshots
        .iter()
        .map(|s| (s.label.as_str(), s.cause, s.line.as_deref().unwrap_or("")))
        .collect();
    let line = |text| ("done", Cause::Line, text);
    let new = ("new", Cause::Created, "");
    let expected = [line("epoch 1 ends"), new, line("epoch 2 ends"), new, line("epoch 3 ends")];
    let mut sorted = found.clone();
    sorted.sort_by_key(|s| (s.0.to_string(), s.2.to_string()));
    let mut wanted = expected.to_vec();
    wanted.sort_by_key(|s| (s.0.to_string(), s.2.to_string()));
    assert_eq!(sorted, wanted, "{found:?}");
}

#[test]
fn so_many_as_were_asked_for_and_lines_at_once_share_one() {
    let events = r#"{"log": {"from-start": true, "events": [
        {"label": "all", "pattern": "^line"},
        {"label": "three", "on-pattern": "^line", "count": 3},
        {"label": "none", "pattern": "^nothing"}]}}"#;
    let weigh = Weigh::bash("for i in $(seq 1001); do echo line $i; done >> log");
    fs::write(weigh.scratch().path("work/events.json"), events).expect("written");
    fs::write(weigh.scratch().path("work/log"), "line 0\n").expect("written");
    let measured = weigh.options("--snapshot-events events.json").measure();
    let count = |label: &str| -> u64 {
        let of = measured.summary().snapshots.iter().filter(|s| s.label == label);
        of.map(|s| s.count).sum()
    };
    assert_eq!((count("all"), count("three"), count("none")), (1002, 3, 0));
    let fewer = labels(&measured).len() < 500;
    measured.check(fewer, || "a snapshot for each line".to_string());
}

#[test]
fn what_can_not_be_watched_is_said() {
    let script = "mkfifo pipe; sleep 0.3; [ -p pipe ]";
    let measured = Weigh::bash(script).options("--snapshot x=pipe").measure();
    let collectors = &measured.summary().collectors;
    let snapshots = collectors.iter().find(|c| c.name == "snapshots").expect("a collector");
    assert_eq!(snapshots.status, CollectorState::Degraded);
    assert!(snapshots.reason.as_ref().is_some_and(|r| r.contains("no regular file")));
    assert!(measured.summary().snapshots.is_empty());
}

#[test]
fn a_command_is_told_of_everything_in_its_order() {
    for by in mechanisms() {
        let hook = "cat >> told; echo \"$WEIGH_EVENT $WEIGH_NAME\" >> names; \
                    [ -d \"$WEIGH_RECORDING\" ] && [ $WEIGH_EVENT != end -o -e \"$WEIGH_RECORDING/summary.json\" ]";
        let limit = 1.5 * f64::from(slowness());
        let script = format!("echo begun > log; sleep {:.1}; exit 7", limit * 1.3);
        let measured = followed(by, &script)
            .options(&format!("--limit wall_seconds={limit:.1} --on-limit warn"))
            .options("--snapshot begun=log:begun")
            .option("--on-event")
            .option(hook)
            .end();
        assert_eq!(measured.status.code(), Some(7), "{}", measured.everything());
        let names = measured.scratch.text("work/names");
        let expected =
            ["snapshot begun", "warning wall_seconds", "limit wall_seconds", "end exited"];
        assert_eq!(names.lines().collect::<Vec<_>>(), expected, "{}", measured.everything());
        assert!(!measured.remarks().contains("--on-event"), "{}", measured.everything());
        let told = told(&measured);
        assert_eq!(told[0]["schema"], "weigh.event/1");
        assert_eq!(told[0]["job"]["id"], measured.summary().job.id);
        assert_eq!(told[0]["snapshot"]["line"], "begun");
        assert_eq!(told[2]["limit"]["exceeded"], true);
        let end = serde_json::to_value(measured.summary()).expect("a summary");
        assert_eq!(told[3]["summary"], end);
        // bash and sleep: neither the helper nor what it runs is of the job.
        measured.is("processes_total", 2);
        let programs: Vec<_> = measured.processes().into_iter().map(|p| p.name).collect();
        assert!(programs.iter().all(|p| p == "bash" || p == "sleep"), "{by}: {programs:?}");
    }
}

#[test]
fn a_command_that_fails_is_named_and_changes_nothing() {
    let measured = Weigh::bash("exit 3").option("--on-event").option("kill -9 $$").end();
    assert_eq!(measured.status.code(), Some(3));
    measured.said("the command of --on-event, for end exited: signal 9 ended it");
    let measured = Weigh::bash("exit 3").option("--on-event").option("exit 5").end();
    assert_eq!(measured.status.code(), Some(3));
    measured.said("ended with status 5");
}

#[test]
fn the_job_does_not_wait_for_the_command() {
    let measured = Weigh::bash("for i in 1 2 3; do echo $i >> log; sleep 0.05; done")
        .options("--snapshot line=log:.")
        .option("--on-event")
        .option("sleep 0.5; echo $WEIGH_NAME >> names")
        .measure();
    let snapshots = measured.summary().snapshots.len();
    let told = measured.scratch.text("work/names").lines().count();
    assert_eq!(told, snapshots + 1, "weigh waits until all is told");
    let took = measured.number("wall_seconds");
    measured.check(took < 0.5 * told as f64, || format!("{took} s for {told} commands"));
}

#[test]
fn a_job_that_a_limit_ended_is_announced_as_such() {
    let measured = Weigh::workload("grow step 1000000 1000 1000000000")
        .options("--limit memory_peak_bytes=20MB")
        .option("--on-event")
        .option("cat >> told")
        .end();
    let told = told(&measured);
    let events: Vec<_> = told.iter().map(|t| t["event"].as_str().unwrap_or("")).collect();
    assert_eq!(events, ["warning", "limit", "end"]);
    assert_eq!(told[2]["summary"]["exit"]["kind"], ExitKind::Limit.to_string());
    assert_eq!(told[1]["limit"]["metric"], "memory_peak_bytes");
}

#[test]
fn snapshots_outlive_a_weigh_that_is_killed() {
    let mut running =
        Weigh::bash("echo one > log; sleep 60").option("--snapshot").option("mark=log:one").start();
    let journal = running.scratch.path("recording/journal.jsonl");
    running.wait_until("a snapshot in the journal", 20.0, || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"mark\""))
    });
    crate::support::processes::signal(running.pid(), 9);
    let measured = running.end();
    let recording = measured.scratch.path("recording");
    let shown = weigh(&measured.scratch, &["show", "--json", &recording.to_string_lossy()]);
    let summary: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(summary["snapshots"][0]["line"], "one");
}

#[test]
fn wrong_wishes_are_refused_before_anything_runs() {
    let scratch = Scratch::new();
    fs::write(scratch.path("work/events.json"), r#"{"log": {"event": []}}"#).expect("written");
    for (options, expected) in [
        (vec!["--snapshot", "log.txt"], "expected LABEL=FILE or LABEL=FILE:PATTERN"),
        (vec!["--snapshot", "a=log:("], "unclosed group"),
        (vec!["--snapshot-events", "missing.json"], "missing.json"),
        (vec!["--snapshot-events", "events.json"], "unknown field `event`"),
    ] {
        let all = [vec!["run"], options, vec!["--", "touch", "ran"]].concat();
        let output = weigh(&scratch, &all);
        assert_eq!(output.status.code(), Some(125));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{said}");
        assert!(!scratch.path("work/ran").exists());
    }
}
