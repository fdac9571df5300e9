//! Who sent the signal that ended a job.

use crate::support::measured::Measured;
use crate::support::processes;
use crate::support::run::{Running, Weigh};
use weigh_schema::Quality;
use weigh_schema::summary::{ExitKind, Sender, SenderKind};

const MECHANISMS: [&str; 2] = ["bpf", "ptrace"];

fn by(mechanism: &str, script: &str) -> Weigh {
    Weigh::bash(script).options(&format!("--mechanism {mechanism}"))
}

/// The sender of the signal that ended it.
#[track_caller]
fn sender(measured: &Measured, signal: i32) -> Sender {
    let exit = measured.summary().exit.clone().expect("an end");
    measured.check((exit.kind, exit.signal) == (ExitKind::Signaled, Some(signal)), || {
        format!("{exit:?}")
    });
    let sender = exit.sender.clone();
    measured.check(sender.is_some(), || "the sender is not told".to_string());
    let sender = sender.expect("checked");
    measured.check(sender.quality == Quality::Exact, || format!("{sender:?}"));
    sender
}

fn this_name() -> String {
    std::fs::read_to_string("/proc/self/comm").expect("our name").trim_end().to_string()
}

#[track_caller]
fn is_this_process(measured: &Measured, sender: &Sender) {
    let uid = rustix::process::getuid().as_raw();
    let expected = (SenderKind::Other, Some(std::process::id()), Some(this_name()), Some(uid));
    let found = (sender.kind, sender.pid, sender.name.clone(), sender.uid);
    measured.check(found == expected, || format!("{found:?}, expected {expected:?}"));
}

/// Starts `sleep`, and tells who it is when it has begun.
fn sleeping(mechanism: &str) -> (Running, u32) {
    let mut running = by(mechanism, "exec sleep 600").start();
    let pid = running.process("sleep 600");
    (running, pid)
}

#[test]
fn another_process_is_named() {
    needs_root!();
    for mechanism in MECHANISMS {
        let (running, pid) = sleeping(mechanism);
        assert!(processes::signal(pid, 15));
        let measured = running.end();
        is_this_process(&measured, &sender(&measured, 15));
        measured.said(&format!("SIGTERM (15) from {} (PID {}", this_name(), std::process::id()));
    }
}

/// Nothing stops at SIGKILL: the kernel alone knows.
#[test]
fn who_kills_is_known_to_the_kernel() {
    needs_root!();
    let (running, pid) = sleeping("bpf");
    assert!(processes::signal(pid, 9));
    let measured = running.end();
    is_this_process(&measured, &sender(&measured, 9));
    let (running, pid) = sleeping("ptrace");
    assert!(processes::signal(pid, 9));
    let measured = running.end();
    let exit = measured.summary().exit.clone().expect("an end");
    measured.check(exit.signal == Some(9) && exit.sender.is_none(), || format!("{exit:?}"));
}

/// Weigh has only passed it on.
#[test]
fn a_signal_to_weigh_is_from_where_weigh_has_it() {
    needs_root!();
    for mechanism in MECHANISMS {
        let (running, _) = sleeping(mechanism);
        assert!(processes::signal(running.pid(), 15));
        let measured = running.end();
        is_this_process(&measured, &sender(&measured, 15));
    }
}

#[test]
fn a_child_of_the_job_is_told_as_such() {
    needs_root!();
    for mechanism in MECHANISMS {
        // It is there until it is killed: it opens what nobody writes to.
        let script = "mkfifo never; bash -c 'echo $$ > new; mv new child; kill -USR1 $PPID; read < never'; true";
        let mut running = by(mechanism, script).start();
        let path = running.scratch.path("work/child");
        running.wait_until("the child has told its PID", 20.0, || path.exists());
        let shell: u32 = std::fs::read_to_string(path).expect("a PID").trim().parse().expect("it");
        let mark = running.scratch.mark().to_path_buf();
        running.wait_until("the command is gone", 20.0, || processes::marked(&mark) == [shell]);
        processes::signal(shell, 9);
        let measured = running.end();
        let sender = sender(&measured, 10);
        let found = (sender.kind, sender.pid, sender.name.as_deref(), sender.uid);
        measured.check(found == (SenderKind::Job, Some(shell), Some("bash"), Some(0)), || {
            format!("{found:?}, expected {shell}")
        });
    }
}

#[test]
fn what_the_job_does_to_itself_and_what_the_kernel_does_are_told_apart() {
    needs_root!();
    for mechanism in MECHANISMS {
        let measured = by(mechanism, "kill -TERM $$").end();
        assert_eq!(sender(&measured, 15).kind, SenderKind::Itself, "{mechanism}");
        measured.said("SIGTERM (15) from itself");
        let measured = by(mechanism, "exec python3 -c 'import ctypes; ctypes.string_at(0)'").end();
        let fault = sender(&measured, 11);
        assert_eq!((fault.kind, fault.pid), (SenderKind::Kernel, None), "{mechanism}");
        measured.said("SIGSEGV (11) from the kernel");
        // One that is caught and sent again is of the job itself; one that is ignored ends nothing.
        let script = "trap '' USR2; kill -USR2 $$; trap 'trap - TERM; kill -TERM $$' TERM; \
                      bash -c 'kill -TERM $PPID'; sleep 600";
        let measured = by(mechanism, script).end();
        assert_eq!(sender(&measured, 15).kind, SenderKind::Itself, "{mechanism}");
    }
}
