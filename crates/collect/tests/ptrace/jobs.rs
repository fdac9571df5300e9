//! Following real process trees by ptrace(2), held to what they say they did.

use crate::traced::{trace, workload};
use weigh_schema::Counter;

const FILLED: &str = "257000001";

#[test]
fn the_peak_of_a_process_is_known_however_it_ends() {
    let _alone = crate::traced::alone();
    for name in ["fill", "fill-static"] {
        for how in ["exit", "_exit", "kill", "free"] {
            let run = trace(&[&workload(name), FILLED, how]);
            run.check();
            let truth = run.truth("peak_rss_bytes") as f64;
            let memory = &run.reading.memory;
            for measured in [
                memory.process_peak,
                memory.rss_sum_peak,
                memory.floor_peak,
                run.rows[0].rss_peak_bytes,
            ] {
                let off = (measured as f64 - truth).abs() / truth;
                assert!(off <= 0.005, "{name} {how}: {measured} for {truth}");
            }
            assert_eq!(run.statuses[0].reason, None, "{name} {how}");
        }
    }
}

#[test]
#[ignore = "for people: what tracing costs"]
fn cost() {
    let _alone = crate::traced::alone();
    let script = "i=0; while [ $i -lt 500 ]; do /bin/true; i=$((i+1)); done";
    let children = || {
        let usage = weigh_collect::rusage::waited().counters;
        usage.get(Counter::Runtime)
    };
    for _ in 0..5 {
        let (begun, cpu) = (std::time::Instant::now(), children());
        std::process::Command::new("sh").args(["-c", script]).status().unwrap();
        let (bare, bare_cpu) = (begun.elapsed(), children() - cpu);
        let (begun, cpu) = (std::time::Instant::now(), children());
        let own = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let before = own();
        let run = trace(&["sh", "-c", script]);
        println!(
            "bare {bare:?} cpu {} ms; traced {:?} job {} ms, weigh {} ms, measured {} ms",
            bare_cpu / 1_000_000,
            begun.elapsed(),
            (children() - cpu) / 1_000_000,
            (own() - before) / 1_000_000,
            run.count(Counter::Runtime) / 1_000_000,
        );
    }
}

#[test]
fn memory_that_an_exec_gives_up_counts() {
    let _alone = crate::traced::alone();
    const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *p = malloc(77000000);
    memset(p, 1, 77000000);
    if (argc > 1) { if (vfork() == 0) execl("/bin/true", "true", (char *)0); wait(0); }
    execl("/bin/true", argv[0], (char *)0);
    return p[5];
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile(folder.path(), "gives_up", PROGRAM, &[]).display().to_string();
    for arguments in [vec![program.as_str()], vec![program.as_str(), "vfork"]] {
        let run = trace(&arguments);
        run.check();
        let peak = run.reading.memory.process_peak;
        assert!((77_000_000..80_000_000).contains(&peak), "{arguments:?}: {peak}");
        let upper = run.reading.memory.rss_sum_peak;
        assert!((77_000_000..82_000_000).contains(&upper), "{arguments:?}: {upper}");
    }
}

#[test]
fn bounds_of_several_processes_hold_the_truth() {
    let _alone = crate::traced::alone();
    let run = trace(&[&workload("children"), "3", "50000003", "together", "200"]);
    run.check();
    let (sum, filled) = (run.truth("rss_sum_peak_bytes"), run.truth("filled_peak_bytes"));
    let memory = &run.reading.memory;
    assert!(memory.rss_sum_peak as f64 >= sum as f64 * 0.995, "{memory:?} for {sum}");
    assert!(memory.rss_sum_peak as f64 <= sum as f64 * 1.10, "{memory:?} for {sum}");
    assert!(memory.floor_peak as f64 >= filled as f64 * 0.98, "{memory:?} for {filled}");
    assert!(memory.floor_peak <= sum, "{memory:?} for {sum}");

    let run = trace(&[&workload("children"), "4", "50000003", "turn"]);
    run.check();
    let (sum, memory) = (run.truth("rss_sum_peak_bytes"), &run.reading.memory);
    assert!(memory.rss_sum_peak as f64 >= sum as f64 * 0.995, "{memory:?} for {sum}");
    assert!(memory.rss_sum_peak < 60_000_000, "one after the other: {memory:?}");
}

#[test]
fn bytes_are_counted_to_the_last_one() {
    let _alone = crate::traced::alone();
    for program in ["io", "io-static"] {
        let run = |kind: &str, bytes: &str| {
            let run = trace(&[&workload(program), kind, bytes, "4099"]);
            run.check();
            run
        };
        let nothing = run("write", "0");
        for kind in ["read", "write", "readv", "pwritev"] {
            let run = run(kind, "10000019");
            for (counter, key) in [
                (Counter::ReadChars, "io_read_bytes"),
                (Counter::ReadCalls, "io_read_calls"),
                (Counter::WriteChars, "io_written_bytes"),
                (Counter::WriteCalls, "io_write_calls"),
            ] {
                let more = run.truth(key) - nothing.truth(key);
                let counted = run.count(counter) - nothing.count(counter);
                assert_eq!(counted, more, "{program} {kind} {key}");
            }
            assert_eq!(run.count(Counter::WriteChars), run.truth("io_written_bytes"));
        }
    }
}

#[test]
fn no_process_is_missed_however_it_comes_to_be() {
    let _alone = crate::traced::alone();
    let waits = [
        ("fork", 500),
        ("vfork", 100),
        ("posix_spawn", 100),
        ("clone3", 100),
        ("exec", 500),
        ("reexec", 50),
        ("thread-exec", 100),
        ("thread-fork", 100),
        ("nephew", 50),
        ("doublefork", 50),
        ("setsid", 50),
        ("chain", 50),
        ("together", 100),
        ("killed", 100),
        ("fastexit", 500),
    ];
    for (how, n) in waits {
        let run = trace(&[&workload("procs"), &n.to_string(), how]);
        run.check();
        assert_eq!(run.status.code(), Some(0), "{how}");
        let population = &run.reading.population;
        assert_eq!(population.processes_total, run.truth("processes_total"), "{how}");
        if run.truth.contains("processes_peak") {
            assert_eq!(population.processes_peak, run.truth("processes_peak"), "{how}");
        }
        // The first exec is that of `env`.
        assert_eq!(run.execs as u64, run.truth("execs_total") + 1, "{how}");
        assert!(run.rows.iter().all(|row| row.wait_status.is_some() && !row.name.is_empty()));
        let reason = run.statuses[0].reason.as_deref().unwrap_or_default();
        assert!(!reason.contains("not traced"), "{how}: {reason}");
    }
}

#[test]
fn the_command_s_own_siblings_belong() {
    let _alone = crate::traced::alone();
    // Nobody but weigh itself can wait for these.
    let run = trace(&[&workload("procs"), "50", "clone_parent"]);
    run.check();
    assert_eq!(run.reading.population.processes_total, run.truth("processes_total"));
}

#[test]
fn threads_are_counted() {
    let _alone = crate::traced::alone();
    let run = trace(&[&workload("threads"), "200", "64000000"]);
    run.check();
    assert_eq!(run.reading.population.threads_peak, run.truth("threads_peak"));
    assert_eq!(run.reading.population.processes_total, 1);
    let (peak, truth) = (run.rows[0].rss_peak_bytes as f64, run.truth("peak_rss_bytes") as f64);
    assert!((peak - truth).abs() / truth <= 0.01, "{peak} for {truth}");
}

#[test]
fn a_daemon_that_outlives_its_parents_is_followed() {
    let _alone = crate::traced::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written").display().to_string();
    let run = trace(&[&workload("daemon"), "400", &path]);
    run.check();
    assert_eq!(run.reading.population.processes_total, run.truth("processes_total"));
    let daemon = run.rows.iter().max_by_key(|row| row.ended_ns).unwrap();
    assert_eq!(daemon.counters.get(Counter::WriteChars), run.truth("daemon_written_bytes"));
    assert_eq!(daemon.counters.get(Counter::WriteCalls), run.truth("daemon_write_calls"));
    let cpu = daemon.counters.get(Counter::Runtime);
    assert!(cpu >= run.truth("daemon_cpu_ns_at_least"), "{cpu}");
    assert!(run.readings.len() > 5, "it was waited for");
}

#[test]
fn cpu_time_is_that_of_the_kernel() {
    let _alone = crate::traced::alone();
    for script in [
        "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done".to_string(),
        format!("{} {FILLED}", workload("fill")),
        format!("{} 150 4", workload("spin")),
    ] {
        let run = trace(&["sh", "-c", &script]);
        run.check();
        let (before, after) = &run.waited;
        let kernel = (after.get(Counter::Runtime) - before.get(Counter::Runtime)) as f64;
        let counted = run.count(Counter::Runtime) as f64;
        // What the process did as a copy of this one, before it was armed, is not the job's.
        assert!(counted <= kernel * 1.001 && counted >= kernel - 3e6, "{counted} of {kernel}");
        for counter in [Counter::MinorFaults, Counter::MajorFaults] {
            let kernel = after.get(counter) - before.get(counter);
            let counted = run.count(counter);
            assert!(counted <= kernel && counted + 100 >= kernel, "{counter:?} {counted} {kernel}");
        }
    }
}

#[test]
fn switches_are_the_job_s_own() {
    let _alone = crate::traced::alone();
    let run = trace(&[&workload("switches"), "1000"]);
    run.check();
    let own = run.rows[0].counters.get(Counter::VoluntarySwitches);
    // 1000, the last one, and a few that loading a program may cost.
    assert!((1001..1030).contains(&own), "{own}");
}
