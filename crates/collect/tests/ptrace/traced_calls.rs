//! Calls of real programs as their tracer sees them, held to what the programs did; and that a job
//! whose calls are looked at keeps what is its own.

use std::os::unix::process::ExitStatusExt as _;

use crate::traced::{Run, trace_calls};
use weigh_collect::follow::{Attachment as _, JobDetail};
use weigh_collect::ptrace::{Stops, TracedJob};
use weigh_collect::spawn::{SignalMask, With, spawn_with};
use weigh_schema::Counter;

const BOTH: [Stops; 2] = [Stops::All, Stops::Filtered];

fn build(name: &str, source: &str, arguments: &[&str]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile(folder.path(), name, source, arguments).display().to_string();
    (folder, program)
}

#[track_caller]
fn ends_well(run: &Run) {
    assert_eq!(run.status.into_raw(), 0);
    run.check_population();
}

/// Four threads make connections without waiting for them; descriptors are copied and shared, and
/// signals interrupt the other side again and again.
const CONNECTS: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static int port;
static void *work(void *number) {
    for (long i = 0; i < 25; i++) {
        int file = open("/dev/null", O_WRONLY);
        write(file, "not sent", 8);
        close(file);
        open("/proc/self/no such file", O_RDONLY);
        close(open("/", O_PATH));
        int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        struct sockaddr_in to = { AF_INET, htons(port), { htonl(INADDR_LOOPBACK) } };
        if (connect(s, (void *)&to, sizeof to) && errno == EINPROGRESS) {
            struct pollfd p = { s, POLLOUT };
            poll(&p, 1, 5000);
            int e; socklen_t l = sizeof e;
            if (i % 3 == 0) getsockopt(s, SOL_SOCKET, SO_ERROR, &e, &l);
            if (i % 3 == 1 && connect(s, (void *)&to, sizeof to)) return "again";
        }
        if (i % 2) { int d = dup(s); close(s); s = d; }
        if (i % 5 && write(s, "hello", i % 5) < 0) return "write";
        close(s);
    }
    return 0;
}
static void on(int s) { (void)s; }
int main(int argc, char **argv) {
    if (argc > 1) return 0;
    struct sigaction action = { .sa_handler = on, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, 0);
    int l = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { AF_INET, 0, { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    if (bind(l, (void *)&at, size) || listen(l, 128) || getsockname(l, (void *)&at, &size)) return 1;
    port = ntohs(at.sin_port);
    if (!fork()) {
        ualarm(700, 700);
        for (int i = 0; i < 100; i++) {
            char b[9];
            int s = accept(l, 0, 0);
            recv(s, b, sizeof b, MSG_PEEK);
            while (recv(s, b, sizeof b, 0) > 0);
            close(s);
        }
        _exit(0);
    }
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, 0);
    for (int i = 0; i < 4; i++) { void *bad; pthread_join(t[i], &bad); if (bad) return 2; }
    wait(0);
    return 0;
}
"#;

#[test]
fn connections_that_nobody_waits_for() {
    let _alone = crate::traced::alone();
    for linked in [&["-pthread"][..], &["-pthread", "-static"]] {
        let (_folder, program) = build("connects", CONNECTS, linked);
        for stops in BOTH {
            let run = trace_calls(&[&program], stops);
            ends_well(&run);
            assert_eq!(run.count(Counter::NetConnections), 200, "{stops:?}");
            // Of 25 rounds, five each send 0, 1, 2, 3, 4 bytes.
            let bytes = 4 * 5 * (1 + 2 + 3 + 4);
            assert_eq!(run.count(Counter::NetSent), bytes, "{stops:?}");
            assert_eq!(run.count(Counter::NetReceived), bytes, "{stops:?}");
            let nothing = trace_calls(&[&program, "nothing"], stops).count(Counter::FilesOpened);
            assert_eq!(run.count(Counter::FilesOpened), nothing + 100, "{stops:?}");
        }
    }
}

/// Raw 32-bit calls: open("/dev/null"), socketcall(socketpair), send 5 bytes by it, exit.
#[cfg(target_arch = "x86_64")]
const SHORT_WORDS: &str = r#"
static int call(int n, void *a, void *b, void *c) {
    int r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory");
    return r;
}
void _start(void) {
    int pair[2];
    void *make[] = { (void *)1, (void *)1, 0, pair };
    int bad = call(5, "/dev/null", 0, 0) < 0;
    bad |= call(102, (void *)8, make, 0) < 0;
    void *send[] = { (void *)pair[0], "hello", (void *)5, 0 };
    bad |= call(102, (void *)9, send, 0) != 5;
    bad |= call(372, (void *)-1, 0, 0) >= 0;
    call(1, (void *)bad, 0, 0);
}
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn a_32_bit_program_s_calls_have_other_numbers() {
    let _alone = crate::traced::alone();
    let flags = ["-m32", "-nostdlib", "-static", "-fno-stack-protector", "-fno-pic", "-no-pie"];
    let (_folder, program) = build("short", SHORT_WORDS, &flags);
    if std::process::Command::new(&program).status().is_err() {
        crate::common::left_out::leave_out("no 32-bit programs here");
        return;
    }
    for stops in BOTH {
        let run = trace_calls(&[&program], stops);
        ends_well(&run);
        let row = run.named("short")[0];
        let count = |counter| row.counters.get(counter);
        let sent = (count(Counter::SocketWriteChars), count(Counter::SocketWriteCalls));
        assert_eq!(sent, (5, 1), "{stops:?}");
        assert_eq!(count(Counter::NetSent), 0, "a socket pair is no network");
        // By `env`, which was in its place before, and the program and /dev/null.
        let env = trace_calls(&["/proc/self/no such file"], stops).count(Counter::FilesOpened);
        assert_eq!(count(Counter::FilesOpened), env + 2, "{stops:?}");
    }
}

#[test]
fn a_script_is_opened_and_so_is_what_interprets_it() {
    let _alone = crate::traced::alone();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.display().to_string();
    let by_kernel = trace_calls(&[&script], Stops::All).count(Counter::FilesOpened);
    let by_shell = trace_calls(&["/bin/sh", &script], Stops::All).count(Counter::FilesOpened);
    // The kernel opens it to find out what it is, the shell to read it.
    assert_eq!(by_kernel, by_shell + 1);
}

/// Waits until nobody traces it any more, then makes a folder that says what an open gives.
const ORPHAN: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char name[4096];
    pid_t parent = getppid();
    sprintf(name, "%s.runs", argv[1]);
    mkdir(name, 0777);
    while (getppid() == parent) usleep(10000);
    int opened = open("/dev/null", O_RDONLY);
    sprintf(name, "%s.%d", argv[1], opened < 0 ? errno : 0);
    mkdir(name, 0777);
    return 0;
}
"#;

/// Run by the test below in a process of its own, which is killed meanwhile.
#[test]
#[ignore = "a part of when_weigh_is_killed_calls_go_on_unless_a_filter_holds_them"]
fn follow_until_killed() {
    let stops = if std::env::var("FILTERED").is_ok() { Stops::Filtered } else { Stops::All };
    let wanted = JobDetail { calls: true, network: true, files: true, ..JobDetail::default() };
    let mut job = TracedJob::that_sees(wanted, stops).unwrap();
    let mask = SignalMask::block(&[]).unwrap();
    let command = std::env::var("JOB").unwrap();
    let command: Vec<_> = command.split(' ').map(Into::into).collect();
    let waiting = spawn_with(
        &command,
        &mask,
        &With { filter: job.command_setup().filter, ..With::default() },
    )
    .unwrap();
    job.arm(waiting.pid.as_raw_nonzero().get() as u32, waiting.pidfd()).unwrap();
    waiting.go().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// The reason why the filter has to be asked for.
#[test]
fn when_weigh_is_killed_calls_go_on_unless_a_filter_holds_them() {
    let _alone = crate::traced::alone();
    let (folder, program) = build("orphan", ORPHAN, &[]);
    for (stops, error) in [(Stops::All, 0), (Stops::Filtered, libc::ENOSYS)] {
        let said = folder.path().join(format!("{stops:?}")).display().to_string();
        let mut weigh = std::process::Command::new(std::env::current_exe().unwrap());
        weigh.args(["--ignored", "--exact", "traced_calls::follow_until_killed"]);
        weigh.env("JOB", format!("{program} {said}"));
        if stops == Stops::Filtered {
            weigh.env("FILTERED", "yes");
        }
        let null = std::process::Stdio::null;
        let mut weigh = weigh.stdout(null()).stderr(null()).spawn().unwrap();
        let is_there = |what: String| std::path::Path::new(&format!("{said}.{what}")).exists();
        crate::common::wait_until("the job runs", || is_there("runs".into()));
        weigh.kill().unwrap();
        weigh.wait().unwrap();
        crate::common::wait_until("the job goes on", || is_there(error.to_string()));
    }
}

/// Traces the program it is given, by the child's own wish or by its own. That it calls ptrace is not to
/// be seen in its code: the call's number comes out of memory.
const TRACER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long number = SYS_ptrace;
#define ptrace(request, pid, address, data) syscall(number, (long)(request), (long)(pid), 0L, 0L)
int main(int argc, char **argv) {
    int stops = 0, status, seizes = !strcmp(argv[1], "seize");
    pid_t child = fork();
    if (child == 0) {
        if (!seizes && ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(9);
        raise(SIGSTOP);
        execv(argv[2], argv + 2);
        _exit(8);
    }
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) return 7;
    if (seizes) {
        if (ptrace(PTRACE_SEIZE, child, 0, 0)) return 6;
        kill(child, SIGCONT);
    } else {
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        stops++;
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    return WIFEXITED(status) && stops ? WEXITSTATUS(status) : 5;
}
"#;

#[test]
fn a_static_program_without_names_can_trace() {
    let _alone = crate::traced::alone();
    let (_folder, program) = build("tracer", TRACER, &["-static", "-s"]);
    for how in ["traceme", "seize"] {
        let run = trace_calls(&[&program, how, "/bin/true"], Stops::All);
        ends_well(&run);
        let reason = run.statuses[0].reason.as_deref().unwrap_or_default();
        assert!(reason.contains("was traced by another process"), "{how}: {reason}");
        let note = run.notes.iter().find(|note| note.metric == "files_opened_total").unwrap();
        assert!(note.reason.contains("was traced by another"), "{how}: {}", note.reason);
    }
    // With the filter it cannot be let go: its calls would fail. It is told no, and that is said.
    let run = trace_calls(&[&program, "traceme", "/bin/true"], Stops::Filtered);
    assert_eq!(run.status.code(), Some(7), "the child could not be traced");
    let reason = run.statuses[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("--seccomp"), "{reason}");
}
