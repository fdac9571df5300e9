//! Jobs with the library in their programs, held against what the workloads say they did and
//! against what the kernel counts for them without weigh. Also run as nobody.

use crate::preloaded::{Run, run, witness, workload};
use weigh_collect::preload::Level::{Calls, Processes};

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
    assert!(!job.stderr.contains("ld.so"), "{}", job.stderr);
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
            // The witness can read an ended process's counts as root only.
            if kernel.is_empty() && !rustix::process::geteuid().is_root() {
                return;
            }
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

/// What is told of every job.
const UNSEEN: &str = "without what programs send, receive or splice by system calls of their own";

/// The difference to a run that moves nothing is what was moved.
#[test]
fn what_the_kernel_does_not_count_is_counted_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::write(&input, vec![7; 1_000_003]).unwrap();
    let (input, output) = (input.to_str().unwrap(), output.to_str().unwrap());
    let sum = |job: &crate::preloaded::Job, kinds: [&str; 4]| -> u64 {
        kinds.iter().map(|kind| job.value(kind)).sum()
    };
    let all = |job: &crate::preloaded::Job| {
        [("READ", "CHARS"), ("WRITE", "CHARS"), ("READ", "CALLS"), ("WRITE", "CALLS")].map(
            |(a, b)| {
                let name = format!("{a}_{b}");
                let others = ["SOCKET", "OTHER", "URING"].map(|of| format!("{of}_{name}"));
                sum(job, [&name, &others[0], &others[1], &others[2]])
            },
        )
    };
    for kind in [
        "sendfile",
        "copy_file_range",
        "splice",
        "tee",
        "vmsplice",
        "send",
        "sendto",
        "sendmsg",
        "sendmmsg",
        "socket-write",
    ] {
        let ends = match kind {
            "sendfile" | "copy_file_range" | "splice" => vec![input, output],
            _ => vec![],
        };
        let io = workload("io");
        let moved = run(Calls, &[&[&io, kind, "1000003", "4096"], &ends[..]].concat());
        let none = run(Calls, &[&[&io, kind, "0", "4096"], &ends[..]].concat());
        let (moved_all, none_all) = (all(&moved), all(&none));
        for (i, name) in ["io_read_bytes", "io_written_bytes", "io_read_calls", "io_write_calls"]
            .iter()
            .enumerate()
        {
            let truth = moved.truth(name) - none.truth(name);
            assert_eq!(moved_all[i] - none_all[i], truth, "{kind} {name}");
        }
        assert_eq!(moved.value("NET_SENT") + moved.value("NET_RECEIVED"), 0, "{kind}");
        let reason = moved.notes.get("io_read_bytes_total").map(|note| note.1.as_str());
        assert_eq!(reason, Some(UNSEEN), "{kind}");
    }
}

#[test]
fn requests_that_pass_by_unseen_are_told_of() {
    let job = run(Calls, &[&workload("io"), "aio-read", "100003", "4096"]);
    assert!(job.notes["io_read_bytes_total"].1.contains("native AIO"), "{:?}", job.notes);
}

#[test]
fn the_network_is_counted_to_the_byte() {
    for kind in ["tcp", "tcp6", "udp"] {
        let job = run(Calls, &[&workload("net"), "1000003", "7", kind]);
        assert_eq!(job.value("NET_SENT"), job.truth("net_sent_bytes"), "{kind}");
        assert_eq!(job.value("NET_RECEIVED"), job.truth("net_received_bytes"), "{kind}");
        let connections = job.truth("tcp_connects") + job.truth("tcp_accepts");
        assert_eq!(job.value("NET_CONNECTIONS"), connections, "{kind}");
    }
    let job = run(Processes, &[&workload("net"), "1000003", "7", "tcp"]);
    assert_eq!(job.notes["net_sent_bytes_total"].0, "unavailable");
}

#[test]
fn opened_files_have_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("f").display().to_string();
    let job = run(Calls, &[&workload("open"), "1003", &prefix]);
    assert_eq!(job.value("FILES_OPENED"), job.truth("opens_total"));
    let ours: Vec<_> = job.files.iter().filter(|(path, _)| path.starts_with(&prefix)).collect();
    assert_eq!(ours.len() as u64, job.truth("opened_files"));
    assert!(ours.iter().all(|(_, times)| *times == 1));
}

/// What a program does to itself must not show, neither to it nor to us.
#[test]
fn programs_that_make_it_hard() {
    const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char buffer[4096];
static int writes;
static void on_alarm(int s) { (void)s; int e = errno; (void)!write(writes, buffer, 10); errno = e; }
static void *work(void *x) {
    int null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 2000; i++) if (write(null, buffer, 3) != 3) exit(3);
    return x;
}
int main(int argc, char **argv) {
    for (int fd = 3; fd < 1024; fd++) close(fd);
    errno = 77;
    int fd = open("/dev/zero", O_RDONLY);
    if (fd != 3) { fprintf(stderr, "a descriptor was left open: %d", fd); return 4; }
    if (read(fd, buffer, 100) != 100 || errno != 77) { fprintf(stderr, "errno %d", errno); return 5; }
    if (read(-1, buffer, 1) != -1 || errno != EBADF) return 6;
    if (execl("/no/such/file", "x", (char *)0) != -1 || errno != ENOENT) return 7;
    writes = open("/dev/null", O_WRONLY);
    struct sigaction a = { .sa_handler = on_alarm };
    sigaction(SIGUSR1, &a, 0);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(t + i, 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    FILE *f = fopen("/dev/null", "w");
    for (int i = 0; i < 30011; i++) fputc('x', f);
    fclose(f);
    if (argc > 1) {
        clearenv();
        pid_t child = fork();
        if (child == 0) { execv(argv[0], (char *[]){ argv[0], 0 }); _exit(9); }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 8;
    }
    printf("%s%s", argc > 1 ? "parent" : "child", getenv("WEIGH_PRELOAD") ? " sees" : "");
    return argc > 1 ? 42 : 0;
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let program = crate::preloaded::compile(folder.path(), "hard", PROGRAM);
    for level in [Processes, Calls] {
        let job = run(level, &["sh", "-c", &format!("{program} fork > {program}.out")]);
        let out = std::fs::read_to_string(format!("{program}.out")).unwrap();
        assert_eq!(out, "child seesparent", "{job:?}");
        let rows = job.named("hard");
        assert_eq!(rows.len(), 2, "{job:?}");
        for row in rows {
            // The last buffer of standard output is written after the last word.
            let written: u64 = row["WRITE_CHARS"].parse().unwrap();
            // The child's is in its parent's count then: the kernel keeps both together for one
            // that has had threads.
            let last = if row["status"] == "0" { 0 } else { "child sees".len() as u64 };
            assert_eq!(written, 4 * 2000 * 3 + 100 * 10 + 30011 + last);
        }
        assert_eq!(job.named("hard").iter().filter(|r| r["status"] == "10752").count(), 1);
        let all = 2 * (4 * 2000 * 3 + 100 * 10 + 30011) + out.len() as u64;
        assert_eq!(job.value("WRITE_CHARS"), all);
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
