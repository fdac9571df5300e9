//! A traced job keeps what is its own: signals, job control, tracers of its own, its life.

use std::ffi::OsString;

use crate::traced::trace;
use weigh_collect::follow::{
    Attachment as _, Children as _, JobMechanism as _, JobReader as _, Members as _,
};
use weigh_collect::ptrace::TracedJob;
use weigh_collect::spawn::{SignalMask, Waiting, spawn};

/// A command that waits to be executed, and its PID.
fn waiting(command: &[&str]) -> (Waiting, u32) {
    let mask = SignalMask::block(&[]).unwrap();
    let arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
    let waiting = spawn(&arguments, &mask).unwrap();
    let pid = waiting.pid.as_raw_nonzero().get() as u32;
    (waiting, pid)
}

#[test]
fn a_stopped_command_is_told_of_and_goes_on() {
    let _alone = crate::traced::alone();
    let mut told = 0;
    let script = "kill -STOP $$; kill -TSTP $$; exit 5";
    let run = crate::traced::trace_with(&["sh", "-c", script], &mut |_, pid| {
        let is_stopped = matches!(crate::common::state(pid), Some('t' | 'T'));
        told += u32::from(is_stopped);
        // Let it lie for a while first: nobody but SIGCONT may end the stop.
        if is_stopped && told.is_multiple_of(5) {
            crate::common::resume(pid);
        }
    });
    run.check();
    assert_eq!(run.stops, [libc::SIGSTOP, libc::SIGTSTP]);
    assert_eq!(run.status.code(), Some(5));
    assert!(told >= 10, "{told}");
}

#[test]
fn a_shell_s_job_control_works() {
    let _alone = crate::traced::alone();
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said").display().to_string();
    let gate = format!("{said}.gate");
    let script = format!(
        "set -m; mkfifo {gate}; cat {gate} & exec >{said}; kill -STOP %1; \
         until [[ $(jobs -s) ]]; do sleep 0.02; done; jobs -s | wc -l; \
         kill -CONT %1; until [[ $(jobs -r) ]]; do sleep 0.02; done; jobs -r | wc -l; \
         : >{gate}; wait %1; echo $?; \
         (trap 'echo usr1' USR1; kill -USR1 $BASHPID; kill -9 $BASHPID); echo $?"
    );
    let run = trace(&["bash", "-c", &script]);
    run.check();
    assert_eq!(std::fs::read_to_string(said).unwrap(), "1\n1\n0\nusr1\n137\n");
}

#[test]
fn ends_by_signals_are_the_command_s_own() {
    let _alone = crate::traced::alone();
    for (signal, name) in
        [(libc::SIGKILL, "KILL"), (libc::SIGTERM, "TERM"), (libc::SIGSEGV, "SEGV")]
    {
        let run = trace(&["sh", "-c", &format!("kill -{name} $$")]);
        run.check();
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(run.status.signal(), Some(signal));
        assert_eq!(run.rows[0].wait_status.map(|status| status & 0x7f), Some(signal as u32));
    }
}

#[test]
fn programs_that_trace_still_work() {
    let _alone = crate::traced::alone();
    let folder = tempfile::tempdir().unwrap();
    let leak = crate::common::compile(
        folder.path(),
        "leak",
        "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(77); p[3] = 1; p = 0; return 0; }",
        &["-fsanitize=address"],
    );
    let tracer = crate::common::compile(folder.path(), "tracer", TRACER, &[]);
    let output = folder.path().join("said").display().to_string();
    let script = |command: &str| format!("exec 2>{output}; {command}; echo $? >&2");
    let mut tries = vec![
        (format!("{} /bin/true", tracer.display()), vec!["traced 1\n0"]),
        (leak.display().to_string(), vec!["detected memory leaks", "77 byte(s) leaked", "\n1"]),
    ];
    if std::path::Path::new("/usr/bin/strace").exists() {
        tries.push(("strace -f sh -c '/bin/true; exit 7'".into(), vec!["exit_group(7)", "\n7"]));
    }
    for (command, said) in tries {
        let run = trace(&["sh", "-c", &script(&command)]);
        assert_eq!(run.status.code(), Some(0), "{command}");
        let text = std::fs::read_to_string(&output).unwrap();
        for words in said {
            assert!(text.contains(words), "{command}: {text}");
        }
        let status = &run.statuses[0];
        let reason = status.reason.as_deref().unwrap_or_default();
        assert!(reason.contains("not traced"), "{command}: {reason}");
        let note = run.notes.iter().find(|note| note.metric == "processes_total").unwrap();
        assert!(note.reason.contains("not traced"), "{}", note.reason);
        assert!(run.reading.population.processes_total >= 2, "{command}");
        run.check_population();
        assert!(!run.named("sh").is_empty());
    }
}

/// Traces the program it is given as a debugger does, and counts its execs.
const TRACER: &str = r#"
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int execs = 0, status;
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(9);
        execv(argv[argc - 1], argv + 1);
        _exit(8);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        execs++;
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    fprintf(stderr, "traced %d\n", execs);
    return WEXITSTATUS(status);
}
"#;

#[test]
fn a_child_that_the_kernel_does_not_tell_of_is_found() {
    let _alone = crate::traced::alone();
    const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    long child = syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) { usleep(1500000); _exit(0); }
    return wait(0) != child;
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile(folder.path(), "escapes", PROGRAM, &[]).display().to_string();
    let run = trace(&[&program]);
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(run.reading.population.processes_total, 2);
    let reason = run.statuses[0].reason.as_deref().unwrap();
    assert!(reason.contains("CLONE_UNTRACED"), "{reason}");
}

#[test]
fn a_job_that_is_let_go_goes_on() {
    let _alone = crate::traced::alone();
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said").display().to_string();
    let script = format!("(sleep 0.3; echo late >{said}) & exit 3");
    {
        let (waiting, pid) = waiting(&["sh", "-c", &script]);
        let mut job = TracedJob::new().unwrap();
        job.arm(pid, waiting.pidfd()).unwrap();
        waiting.go().unwrap();
        let mut status = None;
        crate::common::wait_until("the command ends", || {
            status = status.or(job.next_child().unwrap());
            status.is_some()
        });
        assert_eq!(status.unwrap().1.code(), Some(3));
        let living = job.living();
        assert!(!living.is_empty());
        Box::new(job).close();
        for process in living {
            let state = crate::common::state(process.pid);
            assert!(!matches!(state, Some('t' | 'T')), "{}: {state:?}", process.name);
        }
        crate::common::wait_until("what was left has ended", || {
            std::fs::read_to_string(&said).is_ok_and(|text| text == "late\n")
        });
    }
}

#[test]
fn a_command_that_can_not_be_executed_leaves_nobody() {
    let _alone = crate::traced::alone();
    let (waiting, pid) = waiting(&["/proc/self/no such command"]);
    let mut job = TracedJob::new().unwrap();
    job.arm(pid, waiting.pidfd()).unwrap();
    assert!(waiting.go().is_err());
    crate::common::wait_until("nobody is left", || job.glance().population.processes == 0);
    Box::new(job).close();
}

#[test]
fn who_is_traced_already_is_refused_with_a_reason() {
    let _alone = crate::traced::alone();
    let (waiting, pid) = waiting(&["true"]);
    let mut first = TracedJob::new().unwrap();
    first.arm(pid, waiting.pidfd()).unwrap();
    let mut second = TracedJob::new().unwrap();
    let error = second.arm(pid, waiting.pidfd()).unwrap_err().to_string();
    assert!(error.contains("traces it already"), "{error}");
    waiting.go().unwrap();
    crate::common::wait_until("nobody is left", || first.glance().population.processes == 0);
}

/// Run by the test below in a process of its own, which is killed meanwhile.
#[test]
#[ignore = "a part of weigh_may_be_killed_at_any_moment"]
fn follow_until_killed() {
    let script = std::env::var("JOB").unwrap();
    let (waiting, pid) = waiting(&["sh", "-c", &script]);
    let mut job = TracedJob::new().unwrap();
    job.arm(pid, waiting.pidfd()).unwrap();
    waiting.go().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn weigh_may_be_killed_at_any_moment() {
    let _alone = crate::traced::alone();
    let folder = tempfile::tempdir().unwrap();
    // Threads and processes come and go all the time, one is stopped, and all must get to the end.
    let procs = crate::traced::workload("procs");
    for (round, kill_after_ms) in [30u64, 47, 61, 88, 120].into_iter().enumerate() {
        let said = folder.path().join(format!("said{round}")).display().to_string();
        let script = format!(
            "sleep 100 & sleeper=$!; kill -STOP $sleeper; echo $sleeper >{said}.stopped; \
             {procs} 300 fork; {procs} 100 thread-exec; {procs} 100 thread-fork; \
             kill -KILL $sleeper; wait; echo end >{said}"
        );
        let mut weigh = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "isolation::follow_until_killed"])
            .env("JOB", &script)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut stopped = 0;
        crate::common::wait_until("one is stopped", || {
            let text = std::fs::read_to_string(format!("{said}.stopped")).unwrap_or_default();
            stopped = text.trim().parse().unwrap_or_default();
            stopped != 0
        });
        std::thread::sleep(std::time::Duration::from_millis(kill_after_ms));
        weigh.kill().unwrap();
        weigh.wait().unwrap();
        assert!(!std::path::Path::new(&said).exists(), "it was killed too late");
        crate::common::wait_until("it is stopped by nobody's tracer", || {
            crate::common::state(stopped) == Some('T')
        });
        crate::common::wait_until("the job has ended by itself", || {
            std::fs::read_to_string(&said).is_ok_and(|text| text == "end\n")
        });
    }
}

#[test]
fn a_program_that_does_not_get_its_rights_is_named() {
    let _alone = crate::traced::alone();
    let Some(program) =
        ["/usr/bin/passwd", "/usr/bin/su", "/usr/bin/mount", "/bin/su"].into_iter().find(|path| {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(path).is_ok_and(|facts| facts.mode() & libc::S_ISUID != 0)
        })
    else {
        return; // there is none here to try it with
    };
    let run = trace(&[program, "--help"]);
    let reason = run.statuses[0].reason.as_deref().unwrap_or_default();
    if rustix::process::geteuid().is_root() {
        assert_eq!(reason, "", "root may give rights to whom it traces");
    } else {
        assert!(reason.contains(program) && reason.contains("--mechanism poll"), "{reason}");
    }
}

#[test]
fn a_trial_says_whether_tracing_is_allowed_and_leaves_nobody() {
    let _alone = crate::traced::alone();
    TracedJob::check().unwrap();
    let left = rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG);
    assert!(matches!(left, Err(rustix::io::Errno::CHILD)), "{left:?}");
}
