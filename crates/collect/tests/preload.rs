//! Jobs with the library in their programs, held against what the workloads say they did and
//! against what the kernel counts for them without weigh. Also run as nobody.
#![allow(clippy::unwrap_used)]

mod preloaded;

use preloaded::{Run, run, witness, workload};
use weigh_collect::preload::Level::{Calls, Processes};

#[test]
#[ignore = "one job, run by the other tests"]
fn run_job() {
    preloaded::run_job();
}

fn near(value: u64, truth: u64, part: f64) -> bool {
    (value as f64 - truth as f64).abs() <= truth as f64 * part
}

#[test]
fn memory_of_one_process_is_exact() {
    for (how, status) in [("exit", "0"), ("_exit", "0"), ("free", "0"), ("kill", "9")] {
        for level in [Processes, Calls] {
            let job = run(level, &[&workload("fill"), "257000003", how]);
            let truth = job.truth("peak_rss_bytes");
            for value in ["process_peak", "sum_at_least", "sum_at_most"] {
                let value = job.value(value);
                assert!(near(value, truth, 0.005), "{how}: {value} for {truth}: {job:?}");
            }
            assert_eq!(job.rows.len(), 1, "{job:?}");
            assert_eq!(job.rows[0]["status"], status);
            if how == "kill" {
                assert!(job.notes["memory_peak_process_rss_bytes"].1.contains("waited for"));
            } else {
                let row: u64 = job.rows[0]["rss_peak"].parse().unwrap();
                assert!(near(row, truth, 0.005), "{how}: {row} for {truth}");
                assert!(!job.notes.contains_key("memory_peak_bytes"), "{job:?}");
            }
        }
    }
}

#[test]
fn a_static_program_is_named() {
    let program = workload("fill-static");
    let job = run(Calls, &[&program, "257000003"]);
    let truth = job.truth("peak_rss_bytes");
    assert!(near(job.value("process_peak"), truth, 0.005), "{job:?}");
    assert_eq!((job.value("processes_total"), job.rows.len()), (1, 1), "{job:?}");
    let said = &job.notes["io_read_bytes_total"];
    assert_eq!(said.0, "estimated");
    assert!(said.1.contains(&format!("{program} (it is a static program)")), "{said:?}");
    assert!(job.statuses.contains("Degraded"), "{}", job.statuses);
    // The kernel counts the calls of those that were waited for, whatever they are.
    let job = run(Calls, &[&workload("io-static"), "read", "1000003", "4096"]);
    let none = run(Calls, &[&workload("io-static"), "read", "0", "4096"]);
    let difference = job.value("READ_CHARS") - none.value("READ_CHARS");
    assert_eq!(difference, job.truth("kind_read_bytes"));
}

#[test]
fn every_process_is_there() {
    for (how, alone) in [
        ("fork", "procs"),
        ("vfork", "procs"),
        ("posix_spawn", "true"),
        ("exec", "true"),
        ("clone3", "procs"),
        ("thread-fork", "procs"),
        ("setsid", "procs"),
        ("doublefork", "procs"),
        ("killed", "procs"),
        ("together", "procs"),
        ("chain", "procs"),
        ("fastexit", "procs"),
        ("thread-exec", "true"),
        ("nephew", "procs"),
    ] {
        let job = run(Processes, &[&workload("procs"), "500", how]);
        assert_eq!(job.value("processes_total"), job.truth("processes_total"), "{how}");
        assert_eq!(job.rows.len() as u64, job.truth("processes_total"), "{how}");
        if let Some(peak) = job.truth.get("processes_peak") {
            assert_eq!(job.value("processes_peak"), *peak, "{how}");
        }
        assert!(job.named(alone).len() >= 500, "{how}");
        let status = if how == "killed" { "9" } else { "0" };
        let ended = job.rows.iter().filter(|row| row["status"] == status).count();
        assert!(ended >= 500, "{how}: {ended} {:?}", &job.rows[..3]);
        assert!(job.statuses.contains("lost: 0"), "{how}: {}", job.statuses);
    }
}

#[test]
fn all_that_one_execs_is_one_process() {
    let job = run(Processes, &[&workload("procs"), "50", "reexec"]);
    assert_eq!((job.value("processes_total"), job.rows.len()), (1, 1), "{job:?}");
}

#[test]
fn io_is_what_the_kernel_counts_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["read", "pread", "readv", "preadv2", "write", "pwritev", "pwritev2"] {
        let command = [workload("io"), kind.into(), "1000003".into(), "4096".into()];
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        for level in [Processes, Calls] {
            let job = run(level, &command);
            let kernel = witness(&command, &folder.path().join(kind));
            for (counter, name) in [
                ("READ_CHARS", "rchar"),
                ("WRITE_CHARS", "wchar"),
                ("READ_CALLS", "syscr"),
                ("WRITE_CALLS", "syscw"),
            ] {
                assert_eq!(job.value(counter), kernel[name], "{kind} {counter}");
                assert_eq!(job.rows[0][counter], kernel[name].to_string(), "{kind} {counter}");
            }
        }
    }
}

#[test]
fn cpu_time_is_what_was_burnt() {
    let job = run(Processes, &[&workload("spin"), "300", "2"]);
    let truth = job.truth("cpu_ns");
    let value = job.value("RUNTIME");
    assert!(near(value, truth, 0.05) && value + 2_000_000 >= truth, "{value} for {truth}");
    assert_eq!(job.notes["cpu_seconds"].0, "exact");
    assert!(job.value("threads_peak") == 3, "{job:?}");
}

#[test]
fn a_daemon_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let path = folder.path().join("out");
    let job = run(Processes, &[&workload("daemon"), "300", path.to_str().unwrap()]);
    assert_eq!(job.value("processes_total"), 3, "{job:?}");
    let daemon = job.truth("daemon_pid").to_string();
    let row = job.rows.iter().find(|row| row["pid"] == daemon).unwrap();
    assert_eq!(row["WRITE_CHARS"], job.truth("daemon_written_bytes").to_string());
    assert!(row["wall_ns"].parse::<u64>().unwrap() > 250_000_000);
    assert!(job.value("WRITE_CHARS") > job.truth("daemon_written_bytes"));
}

#[test]
fn a_cleared_environment_does_not_lose_the_job() {
    let procs = workload("procs");
    let job = run(Processes, &["env", "-i", "sh", "-c", &format!("{procs} 7 posix_spawn; exit 3")]);
    // env becomes sh, sh forks one that becomes procs, which starts seven.
    assert_eq!(job.value("processes_total"), 9, "{job:?}");
    assert_eq!(job.named("true").len(), 7);
    assert_eq!(job.named("sh")[0]["status"], (3 << 8).to_string());
}

#[test]
fn the_concurrent_peak_lies_within_its_bounds() {
    for how in ["together", "turn"] {
        let job = run(Processes, &[&workload("children"), "5", "20000003", how, "200"]);
        let truth = job.truth("rss_sum_peak_bytes");
        let (lower, upper) = (job.value("sum_at_least"), job.value("sum_at_most"));
        assert!(
            lower <= truth + truth / 40 && truth <= upper + upper / 100,
            "{lower} {truth} {upper}"
        );
        assert!(upper < truth + truth / 4, "{how}: {upper} for {truth}");
    }
}

#[test]
fn nobody_can_do_it_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let fill = workload("fill");
    let job = Run {
        level: Calls,
        command: vec![&fill, "30000003"],
        variables: Vec::new(),
        as_nobody: true,
    }
    .run();
    assert!(near(job.value("process_peak"), job.truth("peak_rss_bytes"), 0.01), "{job:?}");
    assert_eq!(job.rows[0]["uid"], "65534");
}
