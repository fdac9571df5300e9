//! Each mechanism that needs no rights, as an ordinary user: what it promises is exact, what it cannot
//!  know is said not to be known.

use std::os::unix::process::ExitStatusExt as _;

use crate::support::measured::Measured;
use crate::support::run::Weigh;
use crate::support::{amount, is_slow, patience, processes, worth_the_time};
use weigh_schema::Quality;
use weigh_schema::io::FileUse;
use weigh_schema::summary::ExitKind;

const NOBODY: u32 = 65534;

/// Those that are told of every process.
const TOLD: [&str; 4] =
    ["ptrace", "preload", "ptrace --level 3", "ptrace --io --io-mechanism preload+ptrace"];

fn told() -> &'static [&'static str] {
    worth_the_time(&TOLD, 2)
}

/// Ways to make processes that need no rights.
const WAYS: [&str; 16] = [
    "vfork",
    "thread-exec",
    "fastexit",
    "clone_parent",
    "nephew",
    "doublefork",
    "killed",
    "posix_spawn",
    "together",
    "fork",
    "clone3",
    "exec",
    "reexec",
    "thread-fork",
    "setsid",
    "chain",
];

fn followed(by: &str, line: &str) -> Weigh {
    Weigh::workload(line).run_by(NOBODY).options(&format!("--mechanism {by}"))
}

fn script(by: &str, script: &str) -> Weigh {
    Weigh::bash(script).run_by(NOBODY).options(&format!("--mechanism {by}"))
}

#[track_caller]
fn is_exact(measured: &Measured, metric: &str) {
    let value = measured.value(metric);
    measured.check(value.quality == Quality::Exact, || format!("{metric}: {value:?}"));
}

#[test]
fn without_rights_the_best_that_works_is_taken() {
    let measured = Weigh::workload("procs 23 fork").run_by(NOBODY).measure();
    measured.said("by ptrace instead");
    measured.is("processes_total", measured.truth("processes_total"));
    is_exact(&measured, "processes_total");
}

#[test]
fn the_memory_of_a_process() {
    for by in told() {
        for line in worth_the_time(
            &["exit", "_exit", "kill", "free"].map(|how| format!("fill 257000000 {how}")),
            2,
        ) {
            for line in [line.clone(), line.replace("fill", "fill-static")] {
                let measured = followed(by, &line).end();
                let truth = measured.truth("peak_rss_bytes");
                measured.is_near("memory_peak_process_rss_bytes", truth, 0.005);
                measured.is_near("memory_peak_bytes", truth, 0.005);
            }
        }
    }
}

/// The first process of a PID namespace takes all others with it, one that has not begun, too: only who made it knows of it.
#[test]
fn a_process_that_ends_with_its_namespace_before_it_begins_is_told() {
    needs_root!();
    let script =
        "exec unshare --pid --fork bash -c 'for i in 1 2 3 4 5 6 7; do /bin/sleep 9 & done'";
    let measured = Weigh::bash(script).options("--mechanism preload").end();
    // The first becomes unshare, and makes one that makes seven.
    let total = measured.value("processes_total");
    let is_right = total.quality != Quality::Exact || total.number() == Some(9.0);
    measured.check(is_right, || format!("{total:?}"));
}

/// A killed process cannot say what it held at last, and so no sum with another's is certain.
#[test]
fn a_sum_with_what_a_killed_process_held_is_not_exact() {
    let fill = crate::support::workload("fill");
    let measured = script("preload", &format!("{fill} 57000000 kill; true")).end();
    for metric in ["memory_peak_bytes", "memory_peak_rss_sum_bytes"] {
        let value = measured.value(metric);
        measured.check(value.quality == Quality::Sampled, || format!("{metric}: {value:?}"));
    }
}

#[test]
fn a_concurrent_peak_lies_within_its_bounds() {
    for by in told() {
        let measured = followed(by, "children 3 60000000 together 300").measure();
        let truth = measured.truth("pss_sum_peak_bytes");
        // It is looked at now and then, more seldom on an emulated machine.
        measured.is_near("memory_peak_bytes", truth, if is_slow() { 0.06 } else { 0.03 });
        measured.is("processes_total", 4);
        measured.is("processes_peak", 4);
    }
}

#[test]
fn bytes_and_calls() {
    for by in told() {
        for program in ["io", "io-static"] {
            for kind in worth_the_time(&["read", "pwrite", "readv"], 1) {
                let moved =
                    |bytes: u64| followed(by, &format!("{program} {kind} {bytes} 4099")).measure();
                let (nothing, some) = (moved(0), moved(10_000_019));
                for (metric, key) in [
                    ("io_read_bytes_total", "io_read_bytes"),
                    ("io_written_bytes_total", "io_written_bytes"),
                    ("io_read_calls_total", "io_read_calls"),
                    ("io_write_calls_total", "io_write_calls"),
                ] {
                    let told = some.truth(key) as f64 - nothing.truth(key) as f64;
                    let found = some.number(metric) - nothing.number(metric);
                    some.check(told == found, || {
                        format!("{by}, {program} {kind}: {metric} is {found}, expected {told}")
                    });
                }
            }
        }
    }
}

#[test]
fn no_process_is_missed() {
    for by in told() {
        let children = amount(500);
        let all = children + 1;
        let lines = format!("i=0; while [ $i -lt {children} ]; do /bin/true; i=$((i+1)); done");
        let measured = script(by, &lines).measure();
        measured.is("processes_total", all);
        let rows = measured.processes();
        measured.check(rows.len() as u64 == all, || format!("{} rows, not {all}", rows.len()));
        let ended = rows.iter().filter(|row| row.exit_code == Some(0)).count() as u64;
        measured.check(ended == all, || format!("{ended} rows with exit code 0, not {all}"));
    }
}

#[test]
fn every_way_to_make_a_process() {
    for by in told() {
        for how in worth_the_time(&WAYS, 5) {
            let measured = followed(by, &format!("procs 7 {how}")).measure();
            let value = measured.number("processes_total");
            let truth = measured.truth("processes_total") as f64;
            measured.check(value == truth, || format!("{by}, {how}: {value}, expected {truth}"));
            is_exact(&measured, "processes_total");
        }
    }
}

#[test]
fn cpu_time() {
    for by in told() {
        let measured = followed(by, "spin 130 3").measure();
        let truth = measured.truth("cpu_ns") as f64 * 1e-9;
        let slack = 0.02 * f64::from(crate::support::slowness());
        measured.is_between("cpu_seconds", truth - slack, truth + slack);
        measured.is("threads_peak", measured.truth("threads_total"));
    }
}

#[test]
fn a_daemon_is_waited_for() {
    for by in told() {
        let measured = followed(by, "daemon 700 daemon-output").measure();
        measured.is_between("wall_seconds", 0.7, 0.7 + patience(2.0).as_secs_f64());
        measured.is("processes_total", measured.truth("processes_total"));
        let size = measured.scratch.path("work/daemon-output").metadata().expect("a file").len();
        assert_eq!(size, 1_000_003, "weigh ended before the daemon");
    }
}

#[test]
fn the_job_is_its_own() {
    for by in told() {
        let measured = script(by, "echo out; echo err >&2; exit 7").end();
        measured.check(measured.status.code() == Some(7), || "expected 7".to_string());
        assert_eq!(measured.stdout, b"out\n");
        measured.said("err\n");
        let killed = script(by, "kill -USR1 $$").end();
        killed.check(killed.status.signal() == Some(10), || "expected signal 10".to_string());
        let absent =
            Weigh::run(["/no/such/command"]).run_by(NOBODY).options(&format!("--mechanism {by}"));
        let absent = absent.end();
        absent.check(absent.status.code() == Some(127), || "expected 127".to_string());
        // It stops itself, and is let go on by another of the job.
        let stopped = script(by, "(sleep 0.3; kill -CONT $$) & kill -STOP $$; wait; exit 5").end();
        stopped.check(stopped.status.code() == Some(5), || "expected 5".to_string());
    }
}

#[test]
fn when_weigh_is_killed_the_job_goes_on() {
    for by in told() {
        let mut running = script(by, "echo $$ > pid; sleep 1; echo done > done").start();
        let scratch = running.scratch.path("work/pid");
        running.wait_until("the job runs", 5.0, || {
            std::fs::read_to_string(&scratch).is_ok_and(|text| text.ends_with('\n'))
        });
        let pid: u32 =
            std::fs::read_to_string(&scratch).expect("a PID").trim().parse().expect("a number");
        processes::signal(running.pid(), 9);
        let measured = running.end();
        crate::support::wait_until("the job has ended", 5.0, || !processes::is_alive(pid));
        assert_eq!(measured.scratch.text("work/done"), "done\n", "{by}: the job was harmed");
    }
}

/// The library stays for as long as a program may be executed that would miss it, and no longer.
#[test]
fn what_a_killed_weigh_leaves_is_removed_after_its_job() {
    let script_text = "echo $$ $WEIGH_PRELOAD > place; while ! [ -e go ]; do sleep 0.05; done
                       /bin/true 2> complaints; echo done > done; sleep 0.2";
    let mut running = script("preload", script_text).start();
    let place = running.scratch.path("work/place");
    let read = || std::fs::read_to_string(&place).unwrap_or_default();
    running.wait_until("the job runs", 5.0, || read().ends_with('\n'));
    let text = read();
    let (pid, file) = text.trim().split_once(' ').expect("two words");
    let pid: u32 = pid.parse().expect("a number");
    let folder = std::path::Path::new(file).parent().expect("a folder");
    processes::signal(running.pid(), 9);
    let measured = running.end();
    followed("preload", "fill 1").measure();
    assert!(folder.exists(), "the job needs it");
    std::fs::write(measured.scratch.path("work/go"), "").expect("a file");
    crate::support::wait_until("the job has ended", 5.0, || !processes::is_alive(pid));
    assert_eq!(measured.scratch.text("work/done"), "done\n");
    assert_eq!(measured.scratch.text("work/complaints"), "");
    // The next weigh removes it, once the kernel has let the last process go.
    crate::support::wait_until("it is removed", 10.0, || {
        followed("preload", "fill 1").measure();
        !folder.exists()
    });
}

#[test]
fn a_job_that_traces_still_works() {
    // A shell that a debugger would start: it must be able to trace.
    let strace = std::path::Path::new("/usr/bin/strace");
    if !strace.exists() {
        crate::support::leave_out("no strace here");
        return;
    }
    for by in told() {
        let measured = script(by, "strace -f -o trace sh -c '/bin/true; exit 3'").end();
        measured.check(measured.status.code() == Some(3), || "expected 3".to_string());
        let trace = measured.scratch.text("work/trace");
        measured.check(trace.contains("execve"), || format!("the trace: {trace}"));
    }
}

/// At that moment the library may just be waking up in a program; it is not missing there for good.
#[test]
fn a_snapshot_while_programs_begin_takes_nothing_from_the_end() {
    let line = "for i in {1..100}; do echo line >>log; /bin/true; done";
    let measured = script("preload", line).options("--snapshot line=log:^line").measure();
    measured.check(measured.summary().snapshots.len() > 1, || "expected snapshots".to_string());
    is_exact(&measured, "processes_total");
    measured.is("processes_total", 101);
}

/// Without its table of sections a program has no names of functions either.
#[test]
fn a_static_tracer_without_names_still_works() {
    use std::os::unix::fs::PermissionsExt as _;
    for by in told() {
        let mut program =
            std::fs::read(crate::support::workload("trace-static")).expect("a program");
        assert_eq!(&program[..5], b"\x7fELF\x02", "of 64 bits");
        // Where the table is, how long it is, and which section has its names.
        for field in [0x28..0x30, 0x3c..0x40] {
            program[field].fill(0);
        }
        let run = script(by, "./stripped");
        let path = run.scratch().path("work/stripped");
        std::fs::write(&path, &program).expect("written");
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, everybody).expect("permissions");
        let measured = run.measure();
        let total = measured.value("processes_total");
        if by.starts_with("ptrace") {
            let reason = total.reason.as_deref().unwrap_or_default();
            measured.check(reason.contains("stripped traces other"), || format!("{total:?}"));
        }
    }
}

#[test]
fn limits() {
    for by in told() {
        let measured = followed(by, "grow step 1000000 1000 2000000000")
            .options("--limit memory_peak_bytes=100MB --grace 500ms")
            .end();
        measured.check(measured.status.code() == Some(124), || "expected 124".to_string());
        let exit = measured.summary().exit.clone().expect("it has ended");
        assert_eq!(exit.kind, ExitKind::Limit, "{}", measured.everything());
        // Beside other tests it may be a while before somebody gets to look, on an emulated machine
        // more than that; left alone it would take 2 GB.
        let most = if crate::support::is_slow() { 1e9 } else { 200e6 };
        measured.is_between("memory_peak_bytes", 100e6, most);
        let left = measured.scratch.survivors();
        measured.check(left.is_empty(), || format!("alive: {left:?}"));
    }
}

/// Weigh's own part of the file is cut with it: weigh goes on, and so do its limits.
#[test]
fn a_job_that_cuts_the_shared_file_is_held_to_its_limits() {
    let line = "exec python3 -c 'import os, time
os.truncate(os.environ[\"WEIGH_PRELOAD\"].rsplit(\":\", 1)[0], 0)
held = []
while True: held.append(bytearray(1000000)); time.sleep(.002)'";
    let measured =
        script("preload", line).options("--limit memory_peak_bytes=100MB --grace 500ms").end();
    measured.check(measured.status.code() == Some(124), || "expected 124".to_string());
    let outcome = &measured.summary().limits[0];
    measured.check(outcome.exceeded, || format!("{outcome:?}"));
    let total = measured.value("processes_total");
    let reason = total.reason.as_deref().unwrap_or_default();
    measured.check(reason.contains("cut the shared file short"), || format!("{total:?}"));
    let peak = measured.value("memory_peak_bytes");
    measured.check(peak.quality == Quality::Sampled, || format!("{peak:?}"));
    let left = measured.scratch.survivors();
    measured.check(left.is_empty(), || format!("alive: {left:?}"));
}

#[test]
fn what_is_not_known_is_not_zero() {
    for by in ["ptrace", "preload --level 2", "poll"] {
        let measured = followed(by, "net 1000003 2 tcp").measure();
        for metric in ["net_sent_bytes_total", "net_connections_total", "files_opened_total"] {
            let value = measured.value(metric);
            measured.check(value.value.is_none() && value.reason.is_some(), || {
                format!("{metric}: {value:?}")
            });
        }
    }
}

/// Those that see calls, and the programs in which they do.
const SEE_CALLS: [(&str, &[&str]); 3] = [
    ("preload --level 3", &[""]),
    ("ptrace --level 3", &["", "-static"]),
    ("ptrace --level 3 --seccomp", &["", "-static"]),
];

/// Unless it is named, a tracer that stops at every call is the last choice.
#[test]
fn calls_are_seen_by_what_costs_least() {
    let measured = Weigh::workload("net 1003 1 tcp").run_by(NOBODY).options("--level 3").measure();
    measured.said("by preload instead");
    measured.is("net_sent_bytes_total", measured.truth("net_sent_bytes"));
}

#[test]
fn a_filter_is_put_into_a_job_only_where_it_is_of_use() {
    for options in ["--seccomp", "--seccomp --level 3", "--seccomp --mechanism ptrace"] {
        let refused = Weigh::workload("open 1 opened").run_by(NOBODY).options(options).end();
        refused.check(refused.status.code() == Some(125), || "expected 125".to_string());
        refused.said("--seccomp is for --mechanism ptrace, with --level 3 or --io, only");
    }
}

#[test]
fn bytes_over_the_network() {
    for (by, programs) in SEE_CALLS {
        for program in programs {
            for kind in ["tcp", "udp", "tcp6"] {
                let measured = followed(by, &format!("net{program} 1000003 5 {kind}")).measure();
                measured.is("net_sent_bytes_total", measured.truth("net_sent_bytes"));
                measured.is("net_received_bytes_total", measured.truth("net_received_bytes"));
                let connections = measured.truth("tcp_connects") + measured.truth("tcp_accepts");
                measured.is("net_connections_total", connections);
            }
        }
    }
}

#[test]
fn opened_files() {
    for (by, programs) in SEE_CALLS {
        for program in programs {
            let measured = followed(by, &format!("open{program} 23 opened")).measure();
            let rows = measured.files();
            for number in [0, 22] {
                let ours = rows.iter().filter(|row| row.name.ends_with(&format!("opened{number}")));
                let count: u64 = ours.map(FileUse::opens).sum();
                measured.check(count == 1, || format!("{by}, opened{number}: {count} in {rows:?}"));
            }
        }
    }
}

/// The kernel opens the program and its loader, and the loader what it needs; each is told of.
#[test]
fn a_tracer_counts_every_open() {
    for program in ["open", "open-static"] {
        let run =
            |count| followed("ptrace --level 3", &format!("{program} {count} opened")).measure();
        let (nothing, some) = (run(0), run(23));
        let value = some.number("files_opened_total");
        let more = value - nothing.number("files_opened_total");
        some.check(more == 23.0, || format!("{program}: {more} more, expected 23"));
        is_exact(&some, "files_opened_total");
        let told: u64 = some.files().iter().map(FileUse::opens).sum();
        some.check(told as f64 == value, || format!("{program}: {told} in rows, {value} in all"));
        let own = some.files().iter().any(|row| row.name.ends_with(&format!("/{program}")));
        some.check(own, || format!("{program} itself: {:?}", some.files()));
    }
}

/// What the kernel's own accounting of reading and writing leaves out.
#[test]
fn a_tracer_sees_every_kind_of_transfer() {
    let kinds = ["send", "sendmsg", "sendmmsg", "socket-write", "splice", "tee", "vmsplice"];
    for kind in worth_the_time(&kinds, 3) {
        let moved = |bytes: u64| {
            // Before Linux 6.5 a splice needs a file that has pages.
            let source = if *kind == "splice" { "source" } else { "" };
            let line = format!("io {kind} {bytes} 4099 {source}");
            let run = followed("ptrace --level 3", line.trim_end());
            std::fs::write(run.scratch().path("work/source"), vec![7; 100_003]).expect("a file");
            run.measure()
        };
        let (nothing, some) = (moved(0), moved(100_003));
        for (metric, key) in [
            ("io_read_bytes_total", "io_read_bytes"),
            ("io_written_bytes_total", "io_written_bytes"),
            ("io_read_calls_total", "io_read_calls"),
            ("io_write_calls_total", "io_write_calls"),
        ] {
            let told = some.truth(key) as f64 - nothing.truth(key) as f64;
            let found = some.number(metric) - nothing.number(metric);
            some.check(told == found, || format!("{kind}: {metric} is {found}, expected {told}"));
            is_exact(&some, metric);
        }
    }
}

#[test]
fn what_the_kernel_does_by_itself_is_said_to_be_missing() {
    let measured = followed("ptrace --level 3", "io uring-read 1000003 4099").end();
    if measured.status.code() != Some(0) {
        crate::support::leave_out("no io_uring here");
        return;
    }
    let value = measured.value("io_read_bytes_total");
    measured.check(value.quality == Quality::Estimated, || format!("{value:?}"));
    measured.check(value.reason.as_ref().is_some_and(|r| r.contains("io_uring")), || {
        format!("{value:?}")
    });
}

#[test]
fn a_static_program_is_a_blind_spot_that_is_named() {
    let measured = followed("preload", "fill-static 50000000").measure();
    let status = measured.summary().collectors.iter().find(|c| c.name == "preload");
    let reason = status.and_then(|status| status.reason.clone()).unwrap_or_default();
    measured.check(reason.contains("fill-static"), || format!("not named in '{reason}'"));
}

/// The two bounds that a reason states, if it does.
fn bounds(reason: &str) -> Option<(f64, f64)> {
    let part = reason.split_once("between ").or(reason.split_once("at least "))?.1;
    let mut numbers = part.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Children of clone(2) with CLONE_VM are processes without memory of their own.
#[test]
fn processes_of_one_address_space_hold_it_once() {
    let hold = patience(1.0).as_millis();
    for by in ["ptrace", "preload", "poll"] {
        let line = format!("shared 6 120000000 vm {hold}");
        let measured = followed(by, &line).options("--limit memory_peak_bytes=300MB").end();
        measured.check(measured.status.code() == Some(0), || {
            format!("{by}: ended for a limit that it did not pass")
        });
        let truth = measured.truth("own_rss_bytes");
        for metric in ["memory_peak_bytes", "memory_peak_rss_sum_bytes"] {
            measured.is_near(metric, truth, 0.01);
            let reason = measured.value(metric).reason.clone().unwrap_or_default();
            if let Some((low, high)) = bounds(&reason) {
                let truth = truth as f64;
                measured.check(low <= truth * 1.005 && truth * 0.995 <= high, || {
                    format!("{by}: {metric} is {reason}")
                });
            }
        }
        if by == "ptrace" {
            is_exact(&measured, "memory_peak_bytes");
        }
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_has_memory() {
    let hold = patience(1.0).as_millis();
    for by in ["poll", "ptrace", "preload"] {
        let measured = followed(by, &format!("fill 90000000 leader {hold}")).end();
        let truth = measured.truth("peak_rss_bytes");
        for metric in ["memory_peak_process_rss_bytes", "memory_peak_bytes"] {
            measured.is_near(metric, truth, 0.01);
        }
        let row = &measured.processes()[0];
        let of_row = row.metrics.get("memory_peak_process_rss_bytes").map(|size| size.as_f64());
        measured.check(of_row.is_some_and(|size| size >= 90e6), || format!("{by}: {of_row:?}"));
    }
}

/// The copy of weigh that a process was before its exec is no memory of its own.
#[test]
fn a_small_process_whose_first_thread_has_ended_has_no_more_than_it_held() {
    for by in ["poll", "ptrace", "preload"] {
        let measured = followed(by, "fill 4096 leader 200").end();
        for metric in ["memory_peak_process_rss_bytes", "memory_peak_bytes"] {
            let size = measured.number(metric);
            measured.check(size > 1e5 && size < 4e6, || format!("{by}: {metric}: {size}"));
        }
    }
}

/// One that was only seen as a zombie had memory, but nobody knows how much.
#[test]
fn no_row_has_a_memory_of_0() {
    let line = "for i in {1..40}; do /bin/true; done";
    for by in ["poll", "ptrace", "preload"] {
        for row in script(by, line).measure().processes() {
            let size = row.metrics.get("memory_peak_process_rss_bytes").map(|size| size.as_f64());
            assert!(size.is_none_or(|size| size > 0.0), "{by}: {row:?}");
        }
    }
}

/// One that was only seen as a zombie has lived.
#[test]
fn no_peak_of_what_was_seen_is_0() {
    let measured = script("poll", "exit 0").measure();
    for metric in ["processes_peak", "threads_peak"] {
        let value = measured.value(metric).number();
        measured.check(value.is_none_or(|n| n >= 1.0), || format!("{metric}: {value:?}"));
    }
}

/// The kernel's own count says so for the whole machine.
#[test]
fn where_nobody_was_killed_for_want_of_memory_no_process_of_the_job_was() {
    for by in ["ptrace", "preload", "poll"] {
        let measured = followed(by, "fill 1000000").measure();
        let value = measured.value("oom_kills_total");
        let is_known = value.quality == Quality::Exact && value.number() == Some(0.0);
        // Others may be killed meanwhile.
        let is_told = value.quality == Quality::Unavailable && value.reason.is_some();
        measured.check(is_known || is_told, || format!("{by}: {value:?}"));
    }
}

/// What a big program starts has memory of its own, as little as it needs.
#[test]
fn what_a_big_program_starts_is_as_small_as_it_is() {
    // Seen between its fork and its exec only, a process is the copy that it was: not by looks.
    for (by, how) in [("preload", "forkexec"), ("preload", "spawn"), ("poll", "spawn")] {
        let measured = followed(by, &format!("shared 7 200000000 {how}")).measure();
        let sizes = |name: &str| -> Vec<f64> {
            let rows = measured.processes();
            let sizes = rows.iter().filter_map(|row| row.metrics.get(name));
            sizes.map(|size| size.as_f64()).filter(|size| *size >= 1e8).collect()
        };
        for metric in ["memory_peak_process_rss_bytes", "memory_peak_virtual_bytes"] {
            let large = sizes(metric);
            // Looks may come too late for the big program itself.
            let is_right = large.len() == 1 || by == "poll" && large.is_empty();
            measured.check(is_right, || format!("{by}, {how}: {metric} {large:?}"));
        }
    }
}
