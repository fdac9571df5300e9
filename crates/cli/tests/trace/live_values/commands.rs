//! Commands that a stream runs for its events.

use std::process::Command;
use std::time::Instant;

use super::{BURST, QUEUE, Stream};
use crate::support::library::{Agent, NOBODY, must};
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{lines, succeeds};
use crate::support::{wait_until, weigh_for_everybody, workload};

#[test]
fn commands_are_told_of_every_event_and_run_no_more_often_than_they_may() {
    needs_root!();
    let command = "sh -c 'cat >>orders; echo $WEIGH_EVENTS $WEIGH_EVENT >>counts' at most 2/s";
    let began = Instant::now();
    let stream = Stream::start(&["-e", QUEUE, "-o", "events.jsonl", "--on-event", command]);
    let counts = |stream: &Stream| -> Vec<u64> {
        let text = stream.text("counts");
        let numbers = text.lines().map(|line| line.split_once(' ').expect("two words"));
        numbers
            .map(|(count, event)| {
                assert_eq!(event, "net:net_dev_queue");
                count.parse().expect("a number")
            })
            .collect()
    };
    wait_until("it ran three times", 60.0, || counts(&stream).len() >= 3);
    let sent = stream.stop_sending();
    stream.touch("end");
    // The last ones are told when weigh is at its end.
    let (scratch, ..) = stream.end();
    let all = || -> Vec<u64> {
        let text = scratch.text("work/counts");
        text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
    };
    wait_until("all are told", 60.0, || all().iter().sum::<u64>() == sent);
    let orders = lines(&scratch, "work/orders");
    assert_eq!(orders.len(), all().len());
    for (order, count) in orders.iter().zip(all()) {
        assert_eq!(order["schema"], "weigh.trigger/1");
        assert_eq!(order["events_total"], count);
        assert_eq!(order["event"]["fields"]["len"], 142, "{order}");
    }
    // At most two in a second, and the last one.
    let most = 2.0 * began.elapsed().as_secs_f64() + 2.0;
    assert!(orders.len() as f64 <= most, "{} in {:?}", orders.len(), began.elapsed());
}

#[test]
fn a_command_that_does_not_end_delays_nothing() {
    needs_root!();
    let command = "sh -c 'until test -e gate; do sleep 0.05; done; echo $WEIGH_EVENTS >>counts'";
    let stream = Stream::start(&["-e", QUEUE, "-o", "events.jsonl", "--on-event", command]);
    wait_until("events come", 60.0, || stream.events() > 3 * BURST);
    let sent = stream.stop_sending();
    stream.touch("end");
    // weigh and its command have ended while the first of its commands runs on.
    let (scratch, _, said) = stream.end();
    assert_eq!(scratch.text("work/counts"), "");
    assert!(said.contains(&format!("weigh: {sent} events")), "{said}");
    std::fs::write(scratch.path("work/gate"), "").expect("a file");
    let all = || -> u64 {
        scratch.text("work/counts").lines().filter_map(|line| line.parse::<u64>().ok()).sum()
    };
    wait_until("all are told", 60.0, || all() == sent);
}

#[test]
fn no_shell_sees_the_command_and_its_failure_is_said() {
    needs_root!();
    let scratch = Scratch::new();
    let words = [
        "trace",
        "-q",
        "-e",
        QUEUE,
        "-o",
        "events.jsonl",
        "--on-event",
        "touch '$(id); a file'",
        "--on-event",
        "false",
        "--on-event",
        "of net_dev_queue: /nonexistent/program",
        "--",
    ];
    let program = workload("datagrams");
    let command = [program.as_str(), "3", "100", "0"];
    let output = weigh(&scratch, &[&words[..], &command].concat());
    // What the helpers say comes before the end of standard error, which they have.
    let said = succeeds(&output);
    wait_until("the command has run", 60.0, || scratch.path("work/$(id); a file").exists());
    assert!(said.contains("the command of --on-event, false: it ended with status 1"), "{said}");
    assert!(said.contains("/nonexistent/program: No such file"), "{said}");
}

#[test]
fn a_command_has_the_rights_of_who_has_typed_it() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let mut weigh = Command::new("setpriv");
    weigh.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    weigh.arg(weigh_for_everybody());
    weigh.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    weigh.env("XDG_RUNTIME_DIR", agent.folder.path()).current_dir(scratch.path("work"));
    let command = "sh -c 'grep -E \"^(Uid|Cap(Eff|Prm|Amb))\" /proc/self/status >rights'";
    weigh.args(["trace", "-q", "-e", "raw_syscalls:sys_enter{id}", "-o", "events.jsonl"]);
    weigh.args(["--on-event", command, "--", "true"]);
    must(&mut weigh);
    wait_until("it has run", 60.0, || scratch.text("work/rights").matches('\n').count() == 4);
    let rights = scratch.text("work/rights");
    let none = "0000000000000000";
    assert!(
        rights.starts_with(&format!("Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n")),
        "{rights}"
    );
    assert_eq!(rights.matches(none).count(), 3, "{rights}");
}
