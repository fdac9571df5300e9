//! A slot of the shared file is another's as soon as weigh has given it back. A process that knows the
//! earlier one (that made it, waited for it, or has its number in the environment) may be held up for
//! any time before it reports: it must not report of another process.

use std::path::Path;
use std::process::Command;

use crate::preloaded::{Job, run};
use weigh_collect::preload::Level::{self, Files, Processes};

/// Stands between weigh's library and the C library, and holds a thread up where it is told to.
const HOLD: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))
__thread int hold_when_made, hold_at_clock;
/* Until this one is not 0. */
__thread int hold_until = 1;
void (*before_fork)(void);
/* How many are held, and whether they may go on: children see it, too. */
_Atomic int *held;
__attribute__((constructor)) static void begin(void) {
    held = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
static void hold(int *when) {
    if (!*when) return;
    *when = 0;
    for (held[0]++; !held[hold_until];) usleep(1000);
}
pid_t fork(void) {
    void (*before)(void) = before_fork;
    before_fork = 0;
    if (before) before();
    pid_t pid = REAL(fork)();
    if (pid) hold(&hold_when_made);
    return pid;
}
pid_t _Fork(void) { pid_t pid = REAL(_Fork)(); if (pid) hold(&hold_when_made); return pid; }
long syscall(long n, ...) {
    __builtin_va_list l;
    long a[6];
    __builtin_va_start(l, n);
    for (int i = 0; i < 6; i++) a[i] = __builtin_va_arg(l, long);
    __builtin_va_end(l);
    long result = REAL(syscall)(n, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result) hold(&hold_when_made);
    return result;
}
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *f,
                const posix_spawnattr_t *a, char *const argv[], char *const envp[]) {
    int error = REAL(posix_spawn)(pid, path, f, a, argv, envp);
    hold(&hold_when_made);
    return error;
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = REAL(clock_gettime)(clock, at);
    hold(&hold_at_clock);
    return result;
}
"#;

/// A thread makes a process, or waits for one, and is held up there. That process is no more, weigh
/// has found that out, and its slot is another's when the thread goes on.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern __thread int hold_when_made, hold_at_clock, hold_until;
extern _Atomic int *held;
extern void (*before_fork)(void);
static const char *how;
static pid_t first;
static int is(const char *a) { return !strcmp(how, a); }
static void *makes(void *unused) {
    (void)unused;
    pid_t pid;
    if (is("reaped")) {
        pid = fork();
        if (!pid) { pause(); _exit(1); }
        kill(pid, SIGKILL);
        hold_at_clock = 1;
        waitpid(pid, 0, 0);
        return 0;
    }
    hold_when_made = 1;
    if (is("posix_spawn")) {
        posix_spawn(&pid, "/bin/true", 0, 0, (char *[]){ "true", 0 }, environ);
    } else {
        struct clone_args clone = { .exit_signal = SIGCHLD };
        pid = is("fork") ? fork() : is("_Fork") ? _Fork() : syscall(SYS_clone3, &clone, sizeof clone);
        if (!pid) _exit(0);
    }
    return 0;
}
static FILE *truth;
static void tell(const char *name, pid_t pid) { fprintf(truth, "%s=%d\n", name, pid); fflush(truth); }
static void *makes_held(void *unused) {
    (void)unused;
    /* The one that made it, and the child before it has said that it is there. */
    hold_until = 2;
    hold_when_made = hold_at_clock = 1;
    pid_t pid = fork();
    if (!pid) _exit(5);
    tell("held", pid);
    waitpid(pid, 0, 0);
    return 0;
}
/* A process with the environment of one that is no more, in whose slot another one is just being made. */
static int stale(void) {
    pthread_t thread;
    int status;
    pid_t pid = fork();
    if (!pid) _exit(0);
    tell("first", pid);
    waitpid(pid, 0, 0);
    usleep(500000);
    pthread_create(&thread, 0, makes_held, 0);
    while (held[0] < 2) usleep(1000);
    pid = fork();
    if (!pid) {
        char place[512], libraries[512];
        const char *given = getenv("WEIGH_PRELOAD");
        snprintf(place, sizeof place, "WEIGH_PRELOAD=%.*s:1.0", (int)(strrchr(given, ':') - given), given);
        snprintf(libraries, sizeof libraries, "LD_PRELOAD=%s", getenv("LD_PRELOAD"));
        int (*call)(const char *, char *const *, char *const *) =
            dlsym(dlopen("libc.so.6", RTLD_LAZY), "execve");
        call("/proc/self/exe", (char *[]){ "stale", "stale", "7", 0 }, (char *[]){ place, libraries, 0 });
        _exit(92);
    }
    tell("second", pid);
    int ended = waitpid(pid, &status, 0) == pid && status == 7 << 8;
    held[2] = 1;
    pthread_join(thread, 0);
    return ended ? 0 : 94;
}
/* The next process in the slot is not there yet. */
static int early(void) {
    pthread_t threads[2];
    int status;
    how = "fork";
    pthread_create(threads, 0, makes, 0);
    while (!held[0]) usleep(1000);
    tell("first", syscall(SYS_wait4, -1, &status, 0, 0));
    usleep(500000);
    pthread_create(threads + 1, 0, makes_held, 0);
    while (held[0] < 3) usleep(1000);
    held[1] = 1;
    pthread_join(threads[0], 0);
    usleep(500000);
    held[2] = 1;
    pthread_join(threads[1], 0);
    return 0;
}
/* While a child is being made another one is, which then makes that child, too. */
static pid_t inner;
static void forks(void) { inner = fork(); }
static int nested(void) {
    int status;
    before_fork = forks;
    pid_t pid = fork();
    if (inner && !pid) _exit(7);
    if (!inner && !pid) _exit(8);
    if (!inner) _exit(waitpid(pid, &status, 0) == pid && status == 8 << 8 ? 9 : 95);
    waitpid(inner, &status, 0);
    if (status != 9 << 8) return 96;
    return waitpid(pid, &status, 0) == pid && status == 7 << 8 ? 0 : 97;
}
int main(int argc, char **argv) {
    pthread_t thread;
    int status, go[2];
    how = argv[1];
    if (argc > 2) return atoi(argv[2]);
    truth = fopen(getenv("TRUTH_FILE"), "a");
    if (is("stale")) return stale();
    if (is("nested")) return nested();
    if (is("early")) return early();
    if (pipe(go) || pthread_create(&thread, 0, makes, 0)) return 90;
    while (!held[0]) usleep(1000);
    /* Not by a function that the library sees. */
    if (!is("reaped")) first = syscall(SYS_wait4, -1, &status, 0, 0);
    /* Weigh looks twenty times a second. */
    usleep(500000);
    pid_t pid = fork();
    if (!pid) {
        char byte;
        if (read(go[0], &byte, 1) != 1) _exit(91);
        if (is("reaped")) _exit(7);
        execl("/proc/self/exe", "second", how, "7", (char *)0);
        _exit(92);
    }
    /* The child has its slot when it reads. */
    usleep(100000);
    held[1] = 1;
    pthread_join(thread, 0);
    usleep(500000);
    if (write(go[1], "", 1) != 1) return 93;
    tell("second", pid);
    tell("first", first);
    return waitpid(pid, &status, 0) == pid && status == 7 << 8 ? 0 : 94;
}
"#;

fn program(folder: &Path) -> String {
    let built = |name: &str, source: &str, more: &[&str]| {
        let (input, output) = (folder.join(format!("{name}.c")), folder.join(name));
        std::fs::write(&input, source).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-o"]).args([&output, &input]).args(more);
        assert!(cc.status().unwrap().success());
        output.display().to_string()
    };
    let hold = built("libhold.so", HOLD, &["-shared", "-fPIC"]);
    built("slots", PROGRAM, &[&hold])
}

/// Runs it; each of the three processes is there once, with its own end.
fn each_is_itself(level: Level, program: &str, how: &str) -> Job {
    let job = run(level, &[program, how]);
    let rows = |pid: u64| -> Vec<_> {
        job.rows.iter().filter(|row| row["pid"] == pid.to_string()).collect()
    };
    assert_eq!(job.rows.len(), 3, "{how}: {job:?}");
    assert_eq!(job.value("processes_total"), 3, "{how}: {job:?}");
    assert_eq!(job.value("processes_peak"), 2, "{how}: {job:?}");
    let second = rows(job.truth("second"));
    assert_eq!(second.len(), 1, "{how}: {job:?}");
    assert_eq!(second[0]["status"], (7 << 8).to_string(), "{how}: {job:?}");
    let executes = how != "reaped";
    assert_eq!(second[0]["command"].starts_with("second"), executes, "{how}: {job:?}");
    // It lived from before the thread went on until long after that.
    let wall_ns: u64 = second[0]["wall_ns"].parse().unwrap();
    assert!(wall_ns > 590_000_000, "{how}: {wall_ns}: {job:?}");
    if executes {
        let first = rows(job.truth("first"));
        assert_eq!(first.len(), 1, "{how}: {job:?}");
        assert_eq!(first[0]["status"], "0", "{how}: {job:?}");
        let wall_ns: u64 = first[0]["wall_ns"].parse().unwrap();
        assert!(wall_ns < 450_000_000, "{how}: {wall_ns}: {job:?}");
    }
    assert!(job.statuses.contains("lost: 0"), "{how}: {}", job.statuses);
    job
}

#[test]
fn who_made_a_process_says_nothing_of_the_next_one_in_its_slot() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    for how in ["fork", "_Fork", "posix_spawn", "clone3"] {
        each_is_itself(Processes, &program, how);
    }
    each_is_itself(Files, &program, "fork");
}

#[test]
fn who_made_a_process_does_not_bring_the_next_one_to_life() {
    let folder = tempfile::tempdir().unwrap();
    let job = run(Processes, &[&program(folder.path()), "early"]);
    assert_eq!((job.rows.len(), job.value("processes_total")), (3, 3), "{job:?}");
    is_there_once(&job, "first", 0);
    is_there_once(&job, "held", 5 << 8);
}

#[test]
fn who_waited_for_a_process_says_nothing_of_the_next_one_in_its_slot() {
    let folder = tempfile::tempdir().unwrap();
    each_is_itself(Processes, &program(folder.path()), "reaped");
}

#[test]
fn whoever_has_an_old_environment_takes_nobodys_slot() {
    let folder = tempfile::tempdir().unwrap();
    let job = run(Processes, &[&program(folder.path()), "stale"]);
    assert_eq!((job.rows.len(), job.value("processes_total")), (4, 4), "{job:?}");
    for (name, status) in [("first", 0), ("held", 5 << 8), ("second", 7 << 8)] {
        is_there_once(&job, name, status);
    }
}

fn is_there_once(job: &Job, name: &str, status: u32) {
    let pid = job.truth(name).to_string();
    let of_it: Vec<_> = job.rows.iter().filter(|row| row["pid"] == pid).collect();
    assert_eq!(of_it.len(), 1, "{name}: {job:?}");
    assert_eq!(of_it[0]["status"], status.to_string(), "{name}: {job:?}");
}

#[test]
fn a_child_that_is_made_while_another_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let job = run(Processes, &[&program(folder.path()), "nested"]);
    assert_eq!((job.rows.len(), job.value("processes_total")), (4, 4), "{job:?}");
    let mut ends: Vec<&str> = job.rows.iter().map(|row| row["status"].as_str()).collect();
    ends.sort_unstable();
    assert_eq!(ends, ["0", "1792", "2048", "2304"], "{job:?}");
    assert!(job.statuses.contains("lost: 0"), "{}", job.statuses);
}
