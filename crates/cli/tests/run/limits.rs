//! Limits: the job is ended in time, all of it and nothing else, and the recording says why.
//!
//! What the job had taken when it was ended is told by the job itself, through a file that outlives
//! it (`GROW_PROGRESS`), or read from `/proc` while it is stopped: not by weigh.

mod at_calls;
mod of_several;

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::measured::Measured;
use crate::support::run::{Scratch, Weigh};
use crate::support::{patience, processes, workload, worth_the_time};
use weigh_schema::summary::{ExitKind, LimitOutcome};

const LIMIT: u64 = 100_000_000;

/// What may be held, at most, when a limit of 100 MB ends a job of so many processes that grow. No
/// one can stop them inside a page, and where the kernel gives huge pages unasked, that is 2 MiB.
fn ended_at(processes: u64) -> u64 {
    let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let page = if policy.is_ok_and(|text| text.contains("[always]")) { 2 << 20 } else { 0 };
    100_500_000 + processes * page
}

/// What each process of `grow` had touched.
fn progress(scratch: &Scratch) -> Vec<u64> {
    let bytes = std::fs::read(scratch.path("progress")).expect("grow tells how far it is");
    bytes.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number)).collect()
}

/// What they had touched in all.
fn touched(scratch: &Scratch) -> u64 {
    progress(scratch).iter().sum()
}

/// A run of `grow` (after a word of options) with one limit, to its end.
#[track_caller]
fn grows_into(limit: &str, options: &str, grow: &str) -> Measured {
    let run = Weigh::workload(grow).options(&format!("--limit {limit} {options}"));
    let progress = run.scratch().path("progress");
    run.env("GROW_PROGRESS", progress).end()
}

/// The one limit's outcome, which must be that it was crossed.
#[track_caller]
fn crossed<'a>(measured: &'a Measured, metric: &str) -> &'a LimitOutcome {
    let outcome = &measured.summary().limits[0];
    measured.check(outcome.metric == metric && outcome.exceeded, || {
        format!("the limit on {metric} was not crossed")
    });
    let at = outcome.at_seconds;
    let wall = measured.number("wall_seconds");
    measured.check(at.is_some_and(|at| at > 0.0 && at <= wall), || format!("crossed at {at:?}"));
    outcome
}

/// weigh ended the job for that limit, said so, and left nothing of it.
#[track_caller]
fn ended_by(measured: &Measured, metric: &str) {
    measured.check(measured.status.code() == Some(124), || "the status is not 124".to_string());
    crossed(measured, metric);
    let exit = measured.summary().exit.clone().expect("the job has ended");
    measured.check(exit.kind == ExitKind::Limit && exit.limit.as_deref() == Some(metric), || {
        format!("exit: {exit:?}")
    });
    measured.said(&format!("{metric} has passed its limit"));
    let left = measured.scratch.survivors();
    measured.check(left.is_empty(), || format!("alive: {left:?}"));
    measured.check(measured.recording().is_complete(), || "the recording is cut".to_string());
    let alive = measured.processes().iter().filter(|row| row.ended_ns.is_none()).count();
    measured.check(alive == 0, || format!("{alive} rows have no end"));
}

/// The offender is `grow`, looked at when it held what the limit allows.
#[track_caller]
fn names_the_offender(measured: &Measured) {
    names_an_offender_with(measured, |rss_bytes| rss_bytes > 10_000_000);
}

/// The offender is `grow`, with a mapping of such a size.
#[track_caller]
fn names_an_offender_with(measured: &Measured, is_size: impl Fn(u64) -> bool) {
    let offender = measured.summary().limits[0].offender.as_ref();
    let offender = offender.unwrap_or_else(|| panic!("no offender\n{}", measured.everything()));
    let rows = measured.processes();
    let row = rows.iter().find(|row| row.pid == offender.pid);
    measured.check(row.is_some_and(|row| row.name.starts_with("grow")), || {
        format!("PID {} is not of grow: {row:?}", offender.pid)
    });
    measured.check(offender.command.first().is_some_and(|c| c.contains("/grow")), || {
        format!("its command is {:?}", offender.command)
    });
    measured.said(&format!("(PID {})", offender.pid));
    measured.check(offender.mappings.iter().any(|m| is_size(m.rss_bytes)), || {
        format!("its mappings are {:?}", offender.mappings)
    });
    measured.check(offender.open_files.iter().any(|file| file.contains("/stderr")), || {
        format!("its open files are {:?}", offender.open_files)
    });
}

#[test]
fn a_program_that_grows_by_a_megabyte_a_millisecond() {
    needs_root!();
    for program in worth_the_time(&["grow", "grow-static"], 1) {
        let grow = format!("{program} step 1000000 1000 2000000000");
        let measured = grows_into("memory_peak_bytes=100MB", "", &grow);
        ended_by(&measured, "memory_peak_bytes");
        let touched = touched(&measured.scratch);
        measured.check((95_000_000..=ended_at(1)).contains(&touched), || {
            format!("ended when it had touched {touched} bytes")
        });
        for metric in ["memory_peak_bytes", "memory_peak_process_rss_bytes"] {
            measured.is_between(metric, LIMIT as f64, ended_at(1) as f64);
        }
        names_the_offender(&measured);
    }
}

#[test]
fn a_program_that_takes_two_gigabytes_at_once() {
    needs_root!();
    let metrics =
        ["memory_peak_bytes", "memory_peak_rss_sum_bytes", "memory_peak_process_rss_bytes"];
    for metric in worth_the_time(&metrics, 1) {
        let measured = grows_into(&format!("{metric}=100MB"), "", "grow once 2000000000");
        ended_by(&measured, metric);
        assert_eq!(touched(&measured.scratch), 0, "it was let come to the end");
        measured.is_between("memory_peak_process_rss_bytes", LIMIT as f64, ended_at(1) as f64);
        names_the_offender(&measured);
    }
}

/// While it is stopped at the very point, the kernel's page tables can be read.
#[test]
fn a_stopped_offender_holds_what_is_allowed() {
    needs_root!();
    let run = Weigh::workload("grow once 2000000000")
        .options("--limit memory_peak_bytes=100MB --on-limit stop");
    let mut running = run.start();
    running.wait_for("has passed its limit");
    let grow = running.process("grow once");
    running.wait_until("the program is stopped", 5.0, || processes::state(grow) == Some('T'));
    let held = processes::mapped_bytes(grow, "Rss:");
    assert!((99_000_000..=ended_at(1)).contains(&held), "it holds {held} bytes");
    // It is the user's now: let go on, it ends as the user wants.
    processes::signal(grow, 15);
    processes::signal(grow, 18);
    let measured = running.end();
    crossed(&measured, "memory_peak_bytes");
    names_the_offender(&measured);
    let exit = measured.summary().exit.clone().expect("the job has ended");
    assert_eq!((exit.kind, exit.signal), (ExitKind::Signaled, Some(15)));
}

#[test]
fn nothing_but_the_job_is_ended() {
    needs_root!();
    // Grows past the limit at once, and lives for 10 s a step.
    let mut bystander = Command::new(workload("grow"));
    bystander.args(["step", "150000000", "10000000", "1000000000"]);
    let mut bystander = bystander.spawn().expect("a bystander");
    let measured =
        grows_into("memory_peak_bytes=100MB", "", "grow children 4 1000000 1000 1000000000");
    ended_by(&measured, "memory_peak_bytes");
    let alive = bystander.try_wait().expect("our child").is_none();
    let state = processes::state(bystander.id());
    let _ = bystander.kill();
    let _ = bystander.wait();
    assert!(alive && state != Some('T'), "the bystander was touched: {state:?}");
}

#[test]
fn those_that_hid_are_ended_too() {
    needs_root!();
    // Daemons in sessions of their own, one of another user, and one that ignores TERM.
    let sleeper = "trap '' TERM; while :; do sleep 0.1; done";
    let script = format!(
        "setsid bash -c \"{sleeper}\" & (setsid sleep 60 &) ; sleep 60 & sleep 0.3; exec {} step 1000000 1000 2000000000",
        workload("grow")
    );
    let begun = Instant::now();
    let measured =
        Weigh::bash(&script).options("--limit memory_peak_bytes=100MB --grace 300ms").end();
    ended_by(&measured, "memory_peak_bytes");
    assert!(begun.elapsed() < patience(15.0), "it took {:?}", begun.elapsed());
}

#[test]
fn the_status_can_be_preserved() {
    needs_root!();
    use std::os::unix::process::ExitStatusExt as _;
    let grow = "grow step 1000000 1000 2000000000";
    let measured = grows_into("memory_peak_bytes=100MB", "--preserve-status", grow);
    crossed(&measured, "memory_peak_bytes");
    let exit = measured.summary().exit.clone().expect("the job has ended");
    measured.check(exit.kind == ExitKind::Limit && exit.signal == Some(15), || {
        format!("exit: {exit:?}, expected by SIGTERM")
    });
    assert_eq!(measured.status.signal(), Some(15), "{}", measured.everything());
}

#[test]
fn a_program_that_ignores_term_is_killed_after_the_grace() {
    needs_root!();
    let begun = Instant::now();
    let grow = "grow trap-term 1000000 1000 2000000000";
    let measured = grows_into("memory_peak_bytes=100MB", "--grace 400ms", grow);
    ended_by(&measured, "memory_peak_bytes");
    let exit = measured.summary().exit.clone().expect("the job has ended");
    measured.check(exit.signal == Some(9), || format!("exit: {exit:?}, expected by SIGKILL"));
    assert!(begun.elapsed() < patience(20.0), "it took {:?}", begun.elapsed());
    // What it does with the grace must not be to grow.
    let touched = touched(&measured.scratch);
    measured.check(touched <= ended_at(1), || format!("it touched {touched} bytes"));
}

#[test]
fn the_grace_is_given() {
    needs_root!();
    // Cleans up for half a second after TERM.
    let script = format!(
        "trap 'sleep 0.5; echo clean > clean; exit 9' TERM; {} step 1000000 1000 2000000000 & wait",
        workload("grow")
    );
    let measured = Weigh::bash(&script)
        .options("--limit memory_peak_bytes=100MB --preserve-status --grace 20s")
        .end();
    crossed(&measured, "memory_peak_bytes");
    assert_eq!(measured.scratch.text("work/clean"), "clean\n", "{}", measured.everything());
    assert_eq!(measured.status.code(), Some(9), "{}", measured.everything());
}

#[test]
fn a_limit_can_warn() {
    needs_root!();
    let measured = Weigh::workload("fill 150000000")
        .options("--limit memory_peak_bytes=100MB --on-limit warn")
        .measure();
    crossed(&measured, "memory_peak_bytes");
    measured.said("memory_peak_bytes has passed its limit");
    measured.is_near("memory_peak_bytes", measured.truth("peak_rss_bytes"), 0.005);
    assert_eq!(measured.summary().exit.as_ref().map(|exit| exit.kind), Some(ExitKind::Exited));
}

#[test]
fn a_limit_can_stop() {
    needs_root!();
    let run = Weigh::workload("fill 150000000")
        .options("--limit memory_peak_bytes=100MB --on-limit stop");
    let mut running = run.start();
    running.wait_for("the job is stopped");
    let fill = running.process("fill");
    running.wait_until("it is", 5.0, || processes::state(fill) == Some('T'));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(processes::state(fill), Some('T'), "it did not stay so");
    processes::signal(fill, 18);
    let measured = running.end();
    assert!(measured.status.success(), "{}", measured.everything());
    crossed(&measured, "memory_peak_bytes");
    measured.is_near("memory_peak_bytes", measured.truth("peak_rss_bytes"), 0.005);
}

#[test]
fn near_a_limit_weigh_warns() {
    needs_root!();
    let measured =
        Weigh::workload("fill 90000000").options("--limit memory_peak_bytes=100MB").measure();
    measured.said("warning: memory_peak_bytes is");
    measured.said("more than 80 % of its limit");
    let outcome = &measured.summary().limits[0];
    measured.check(!outcome.exceeded && outcome.offender.is_none(), || format!("{outcome:?}"));
    measured.check(
        outcome.observed.map(|n| n.as_f64()) == Some(measured.number("memory_peak_bytes")),
        || format!("{outcome:?}"),
    );

    let quiet =
        Weigh::workload("fill 70000000").options("--limit memory_peak_bytes=100MB").measure();
    quiet.check(!quiet.stderr.contains("warning"), || "it warned at 70 %".to_string());
}

#[test]
fn a_limit_on_time() {
    needs_root!();
    let measured = Weigh::run(["sleep", "60"]).options("--limit wall_seconds=500ms").end();
    ended_by(&measured, "wall_seconds");
    let observed = measured.summary().limits[0].observed.map(|n| n.as_f64());
    let most = 0.5 + patience(0.5).as_secs_f64();
    measured.check(observed.is_some_and(|s| (0.5..most).contains(&s)), || {
        format!("it was seen at {observed:?}")
    });
}

#[test]
fn a_limit_on_cpu_time() {
    needs_root!();
    let measured = Weigh::workload("spin 60000 3").options("--limit cpu_seconds=500ms").end();
    ended_by(&measured, "cpu_seconds");
    measured.is_between("cpu_seconds", 0.5, 0.5 + patience(0.5).as_secs_f64());
}

#[test]
fn a_limit_on_processes() {
    needs_root!();
    let measured =
        Weigh::workload("procs 1000000 fork").options("--limit processes_total=50").end();
    ended_by(&measured, "processes_total");
    measured.is_between("processes_total", 51.0, 52.0);

    let measured = Weigh::workload("procs 300 together").options("--limit processes_peak=50").end();
    ended_by(&measured, "processes_peak");
    measured.is_between("processes_peak", 51.0, 52.0);
}

#[test]
fn a_limit_on_bytes_read() {
    needs_root!();
    // 400 GB: more than can be read before somebody looks.
    let measured = Weigh::workload("io read 400000000000 1000000")
        .options("--limit io_read_bytes_total=1GB")
        .end();
    ended_by(&measured, "io_read_bytes_total");
    measured.is_between("io_read_bytes_total", 1e9, 100e9);
}

/// What is known only at the end is held against its limit then.
#[test]
fn a_value_past_its_limit_is_never_within_it() {
    needs_root!();
    let spin =
        || Weigh::workload("spin 400 1").options("--interval 50ms --limit cpu_cores_peak=0.1");
    let measured = spin().end();
    measured.check(measured.status.code() == Some(124), || "the status is not 124".to_string());
    let outcome = crossed(&measured, "cpu_cores_peak");
    measured.check(outcome.enforced_by == "interval", || format!("{outcome:?}"));
    let exit = measured.summary().exit.clone().expect("the job has ended");
    measured.check(exit.kind == ExitKind::Limit && exit.code == Some(0), || format!("{exit:?}"));
    measured.said("cpu_cores_peak has passed its limit");

    let measured = spin().options("--on-limit warn").end();
    crossed(&measured, "cpu_cores_peak");
    let exit = measured.summary().exit.clone().expect("the job has ended");
    measured
        .check(exit.kind == ExitKind::Exited && measured.status.success(), || format!("{exit:?}"));

    // However short the job.
    for _ in 0..5 {
        let measured = Weigh::bash("head -c 5000000 /dev/zero > f")
            .options("--limit disk_footprint_peak_bytes=1MB")
            .end();
        ended_by(&measured, "disk_footprint_peak_bytes");
    }
}

/// A limit on what nobody knows is none, and its user is told.
#[test]
fn a_limit_that_cannot_be_held_is_named() {
    needs_root!();
    for (options, metric, at_once) in [
        ("--mechanism poll", "net_sent_bytes_total", true),
        ("--without footprint", "disk_growth_peak_bytes", true),
        ("", "mmap_read_bytes_total", false),
    ] {
        let run = Weigh::bash("read -r line").options(&format!("{options} --limit {metric}=10"));
        let fifo = run.scratch().path("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
        let writer = std::fs::File::options().read(true).write(true).open(&fifo).expect("a FIFO");
        let mut running = run.stdin(&fifo).start();
        let words = format!("the limit on {metric} is not held");
        if at_once {
            running.wait_for(&words);
        }
        std::io::Write::write_all(&mut &writer, b"go on\n").expect("written");
        let measured = running.end();
        measured.said(&words);
        measured.check(measured.stderr.matches(&words).count() == 1, || "it is said twice".into());
        let outcome = &measured.summary().limits[0];
        measured.check(!outcome.exceeded && outcome.observed.is_none(), || format!("{outcome:?}"));
    }
}

/// The process that has used most since the last look, by every mechanism.
#[test]
fn whoever_used_most_is_named() {
    needs_root!();
    let grow = workload("grow");
    let jobs = [
        ("cpu_seconds=300ms", format!("sleep 60 & exec {} 60000 1", workload("spin")), "spin"),
        ("io_written_bytes_total=20MB", "sleep 60 & exec cat /dev/zero > /dev/null".into(), "cat"),
        (
            "disk_growth_peak_bytes=20MB",
            "truncate -s 60000000 holes; mkfifo fifo; sleep 60 > fifo & exec cat holes fifo > filled".into(),
            "cat",
        ),
        (
            "memory_peak_bytes=100MB",
            format!("sleep 60 & exec {grow} step 1000000 1000 2000000000"),
            "grow",
        ),
    ];
    for mechanism in ["bpf", "ptrace", "preload", "poll"] {
        for (limit, script, name) in &jobs {
            let measured = Weigh::bash(script)
                .options(&format!("--mechanism {mechanism} --limit {limit} --grace 1s"))
                .end();
            assert_eq!(measured.status.code(), Some(124), "{mechanism}\n{}", measured.everything());
            let outcome = &measured.summary().limits[0];
            let said = outcome.overshoot.as_deref().unwrap_or_default();
            measured.check(!said.is_empty(), || format!("{mechanism}: no word of the overshoot"));
            let named = outcome.offender.as_ref().map(|offender| offender.name.as_str());
            measured.check(named.is_some_and(|n| n.starts_with(name)), || {
                format!("{mechanism}: {limit} is laid to {named:?}, not {name}")
            });
        }
    }
}

#[test]
fn limits_from_a_file() {
    needs_root!();
    let run = Weigh::workload("grow step 1000000 1000 2000000000");
    let file = run.scratch().path("limits.toml");
    let text =
        "memory_peak_bytes = \"100MB\"\nwall_seconds = 60\non_limit = \"kill\"\ngrace = \"1s\"\n";
    std::fs::write(&file, text).expect("a limits file");
    let measured = run.option("--limits").option(file).end();
    let limits = &measured.summary().limits;
    let metrics: Vec<_> = limits.iter().map(|limit| limit.metric.as_str()).collect();
    assert_eq!(metrics, ["memory_peak_bytes", "wall_seconds"]);
    ended_by(&measured, "memory_peak_bytes");

    // The command line's word counts.
    let run = Weigh::workload("fill 150000000");
    let file = run.scratch().path("limits.toml");
    std::fs::write(&file, text).expect("a limits file");
    let measured =
        run.option("--limits").option(file).options("--limit memory_peak_bytes=1GB").measure();
    let limit = measured.summary().limits.iter().find(|l| l.metric == "memory_peak_bytes");
    measured.check(limit.is_some_and(|l| !l.exceeded && l.limit.as_f64() == 1e9), || {
        format!("{limit:?}")
    });
}

#[test]
fn an_unlimited_job_is_not_ended() {
    needs_root!();
    let measured = Weigh::workload("children 4 30000000 together")
        .options(
            "--limit memory_peak_bytes=200MB --limit processes_total=5 --limit wall_seconds=60s",
        )
        .measure();
    measured.check(measured.summary().limits.iter().all(|limit| !limit.exceeded), || {
        "a limit counts as crossed".to_string()
    });
}

/// Each process that lives when the limit is reached may make one more, which never runs.
#[test]
fn a_fork_bomb_ends_where_its_limit_is() {
    needs_root!();
    let measured = Weigh::workload("bomb 5000").options("--limit processes_peak=50").end();
    assert_eq!(measured.status.code(), Some(124), "{}", measured.everything());
    measured.is_between("processes_peak", 51.0, 100.0);
    assert_eq!(measured.scratch.survivors(), Vec::<u32>::new());
}

/// Where the kernel does not follow the job a sentry does; it goes before the job, for weigh is root.
/// A build without optimisation is too slow for that at times: `scripts/test.sh` runs it with the users' build.
#[test]
fn a_fork_bomb_is_outrun_from_outside() {
    needs_root!();
    if crate::support::is_slow() {
        // Births cost an emulated machine little, and looks much: nobody outruns them there.
        crate::support::leave_out("not for an emulated machine");
        return;
    }
    for options in ["", "--on-limit kill --grace 300ms"] {
        // Who bears thousands of processes a second takes the CPUs from weigh too, beside other tests
        // now and then until all are born.
        let mut others = Vec::new();
        loop {
            let begun = Instant::now();
            let measured = Weigh::workload("bomb 20000")
                .options(&format!("--mechanism poll --limit processes_peak=200 {options}"))
                .end();
            assert_eq!(measured.scratch.survivors(), Vec::<u32>::new());
            let took = begun.elapsed();
            let born = measured.value("processes_total").number().expect("a number");
            let is_ended = measured.status.code() == Some(124);
            if is_ended && (201.0..=5_000.0).contains(&born) && took < patience(5.0) {
                measured.is_between("processes_peak", 201.0, 5_000.0);
                break;
            }
            others.push((born, took, measured.status.code()));
            assert!(others.len() < 3, "{options}: born, how long it took, status: {others:?}");
        }
    }
}

#[test]
fn four_processes_that_grow_are_seen_in_time() {
    needs_root!();
    let most = if crate::support::is_slow() { 1_000_000_000 } else { 125_000_000 };
    for by in ["poll", "preload --level 2"] {
        // Where others have the processors weigh gets to look late, by as much as they let it wait; but
        // who looks too seldom is late each time.
        let mut others = Vec::new();
        loop {
            let options = format!("--mechanism {by}");
            let grow = "grow children 4 1000000 1000 1000000000";
            let measured = grows_into("memory_peak_bytes=100MB", &options, grow);
            ended_by(&measured, "memory_peak_bytes");
            measured.is_between("memory_peak_bytes", LIMIT as f64, 1e9);
            let touched = self::touched(&measured.scratch);
            if touched <= most {
                break;
            }
            others.push(touched);
            assert!(others.len() < 20, "{by}: they had touched {others:?} bytes");
        }
    }
}

#[test]
fn who_is_told_to_end_does_not_go_on_growing() {
    needs_root!();
    let grow = "grow trap-term 1000000 1000 4000000000";
    let options = "--mechanism poll --grace 20s";
    let begun = Instant::now();
    let measured = grows_into("memory_peak_bytes=100MB", options, grow);
    ended_by(&measured, "memory_peak_bytes");
    assert!(begun.elapsed() < patience(5.0), "it was given {:?}", begun.elapsed());
    let touched = touched(&measured.scratch);
    let most = if crate::support::is_slow() { 2_000_000_000 } else { 300_000_000 };
    measured.check(touched <= most, || format!("it touched {touched} bytes"));
}
