//! Limits on what calls move: held where the call ends by mechanisms that follow calls; elsewhere it is said by
//! how much they can have been passed.

use std::process::Command;

use super::{crossed, ended_by};
use crate::support::measured::Measured;
use crate::support::processes;
use crate::support::run::Weigh;

/// What cat(1) moves by one call.
const CALL: f64 = 131_072.0;

/// As many as write as fast as they can, and how many that are.
const WRITERS: [(&str, u32); 2] =
    [("exec cat /dev/zero", 1), ("cat /dev/zero & cat /dev/zero & cat /dev/zero", 3)];

/// At the end of each call it is looked at, and the thread goes no further.
#[track_caller]
fn is_passed_by_one_call_of_each(measured: &Measured, writers: u32, by: &str) {
    ended_by(measured, "io_written_bytes_total");
    let most = 10e6 + f64::from(writers) * CALL;
    measured.is_between("io_written_bytes_total", 10e6, most + f64::from(writers) * CALL);
    let outcome = &measured.summary().limits[0];
    measured.check(outcome.enforced_by == by, || format!("{outcome:?}"));
    let observed = outcome.observed.map_or(0.0, |n| n.as_f64());
    measured.check(observed <= most, || format!("seen at {observed}"));
    let words = outcome.overshoot.as_deref().unwrap_or_default();
    measured.check(words.contains("one call of each thread"), || words.to_string());
    let name = outcome.offender.as_ref().map(|offender| offender.name.as_str());
    measured.check(name == Some("cat"), || format!("the offender is {name:?}"));
}

#[test]
fn a_limit_on_bytes_written_is_passed_by_one_call_of_each_thread() {
    needs_root!();
    for (script, writers) in WRITERS {
        let measured = Weigh::bash(&format!("exec > /dev/null; {script}"))
            .options("--limit io_written_bytes_total=10MB")
            .end();
        is_passed_by_one_call_of_each(&measured, writers, "bpf");
        measured.said("each system call of every process");
    }
}

/// A tracer, too, whatever else it follows, as root and as an ordinary user.
#[test]
fn a_tracer_holds_it_at_the_call_as_well() {
    for user in [0, 65_534] {
        for options in ["", "--level 3", "--io"] {
            let (script, writers) = WRITERS[1];
            let measured = Weigh::bash(&format!("exec > /dev/null; {script}"))
                .run_by(user)
                .options("--mechanism ptrace --limit io_written_bytes_total=10MB")
                .options(options)
                .end();
            is_passed_by_one_call_of_each(&measured, writers, "ptrace");
            measured.said("each system call of the job takes");
        }
    }
}

/// Calls count at their end, whatever became of them; and what a limit holds can be let go on.
#[test]
fn a_traced_job_that_is_stopped_at_a_call_is_its_user_s() {
    let run = Weigh::run(["dd", "if=/dev/zero", "of=/dev/null", "bs=1000", "count=1000000"])
        .options("--mechanism ptrace --limit io_write_calls_total=100 --on-limit stop");
    let mut running = run.start();
    running.wait_for("the job is stopped");
    let dd = running.process("dd if");
    // Both are shown of one who is traced: stopped by a signal, or held by its tracer.
    running.wait_until("it is", 5.0, || matches!(processes::state(dd), Some('T' | 't')));
    processes::signal(dd, 18);
    let measured = running.end();
    assert!(measured.status.success(), "{}", measured.everything());
    let observed = crossed(&measured, "io_write_calls_total").observed.map(|n| n.as_f64());
    assert_eq!(observed, Some(101.0), "{}", measured.everything());
    // What dd(1) says in the end comes on top.
    measured.is_between("io_written_bytes_total", 1e9, 1e9 + 1e3);
}

/// Where nobody stops at calls the greatest overshoot is told, and holds what happened.
#[test]
fn by_looks_it_is_said_by_how_much_it_can_have_been_passed() {
    for by in ["preload", "poll"] {
        let measured = Weigh::bash("exec cat /dev/zero > /dev/null")
            .options(&format!("--mechanism {by} --limit io_written_bytes_total=10MB"))
            .end();
        ended_by(&measured, "io_written_bytes_total");
        let outcome = &measured.summary().limits[0];
        measured.check(outcome.enforced_by == "interval", || format!("{outcome:?}"));
        let [observed, at_most] = [outcome.observed, outcome.overshoot_at_most]
            .map(|number| number.map_or(f64::NAN, |number| number.as_f64()));
        measured.check(observed > 10e6 && observed - 10e6 <= at_most, || format!("{outcome:?}"));
        let words = outcome.overshoot.as_deref().unwrap_or_default();
        measured.check(words.contains("at most in this run") && words.contains("iB"), || {
            words.to_string()
        });
    }
}

/// A plain run, and one with other limits, pays nothing at system calls; nor does one that only warns.
#[test]
fn without_a_limit_on_io_nothing_is_attached_to_calls() {
    needs_root!();
    let links = |options: &str| {
        let mut running = Weigh::bash("touch begun; read -r line").options(options);
        let fifo = running.scratch().path("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
        let _writer = std::fs::File::options().read(true).write(true).open(&fifo).expect("a FIFO");
        let begun = running.scratch().path("work/begun");
        running = running.stdin(&fifo);
        let mut running = running.start();
        running.wait_until("the job has begun", 20.0, || begun.exists());
        // A look at a process has a link of its own for a moment.
        let [mut held, again] = [(); 2].map(|()| processes::bpf_identifiers(running.pid()));
        held.retain(|one| again.contains(one));
        processes::signal(running.process("bash"), 9);
        let measured = running.end();
        let told = measured.stderr.contains("each system call of every process");
        (held.iter().filter(|(kind, _)| kind == "link_id").count(), told)
    };
    let (plain, told) = links("");
    assert!(plain > 0 && !told, "{plain} links");
    assert_eq!(links("--limit memory_peak_bytes=1GB --limit cpu_seconds=60s"), (plain, false));
    assert_eq!(links("--limit io_written_bytes_total=1GB --on-limit warn"), (plain, false));
    assert_eq!(links("--limit io_written_bytes_total=1GB"), (plain + 1, true));
}
