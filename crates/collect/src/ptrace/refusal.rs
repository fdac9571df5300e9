//! Why a job cannot be traced.
//!
//! Reads what the kernel tells of its own rules; emits an error that says what to do.

use std::io;

use crate::follow::MechanismError;
use crate::procfs;

/// Why a job cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Tracing is forbidden.
    #[error("cannot trace {process}: {error}; {why}")]
    Refused {
        /// The process.
        process: String,
        /// What the kernel said.
        error: io::Error,
        /// By whom, and what to do.
        why: String,
    },
    /// A call failed that has nothing to do with tracing.
    #[error("cannot {call}: {error}")]
    Call {
        /// The call.
        call: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl From<TraceError> for MechanismError {
    fn from(error: TraceError) -> MechanismError {
        MechanismError::new("ptrace", error)
    }
}

/// Finds out who forbids it, of a process that runs already.
pub fn why_not_join(pid: u32, error: io::Error) -> TraceError {
    let status = procfs::read_of(pid, "status").map(|text| procfs::parse_status(&text));
    let status = status.ok();
    let owner = status.as_ref().and_then(|status| status.uid);
    let has_memory = status.is_none_or(|status| status.rss_bytes.is_some());
    let own = rustix::process::getuid();
    let why = match (error.raw_os_error(), owner, scope()) {
        (Some(libc::ESRCH), ..) => "there is none".to_owned(),
        (Some(libc::EPERM), Some(owner), _) if !own.is_root() && owner != own.as_raw() => {
            format!("it is user {owner}'s: as root, --mechanism bpf follows everybody's")
        }
        (Some(libc::EPERM), ..) if pid == std::process::id() => "it is weigh itself".to_owned(),
        (Some(libc::EPERM), ..) if !has_memory => {
            format!(
                "it is the kernel's own, or its first thread has ended: Linux lets nobody trace \
                 such a process; {TO_JOIN} needs no tracing"
            )
        }
        (Some(libc::EPERM), _, Some(1)) if !own.is_root() => {
            "kernel.yama.ptrace_scope is 1, which lets only who started a process trace it: start it by \
             weigh (--mechanism ptrace -- COMMAND), follow it as root, or \
             `sysctl kernel.yama.ptrace_scope=0`"
                .to_owned()
        }
        _ => return refused(Some(pid), error, TO_JOIN),
    };
    TraceError::Refused { process: format!("process {pid}"), error, why }
}

fn scope() -> Option<u32> {
    scope_below("/proc")
}

/// What Yama allows, by a `/proc`; none where the kernel has no Yama.
fn scope_below(proc: &str) -> Option<u32> {
    let scope = procfs::read(format!("{proc}/sys/kernel/yama/ptrace_scope")).ok();
    scope.and_then(|text| String::from_utf8_lossy(&text).trim().parse::<u32>().ok())
}

/// Finds out who forbids it.
pub fn why(pid: Option<u32>, error: io::Error) -> TraceError {
    refused(pid, error, TO_START)
}

fn refused(pid: Option<u32>, error: io::Error, instead: &str) -> TraceError {
    // What traces weigh with all that it starts traces the command, too.
    let traced_by = tracer_of(pid.unwrap_or(std::process::id()));
    let own = procfs::read("/proc/self/status").unwrap_or_default();
    let why =
        reason(traced_by, scope(), String::from_utf8_lossy(&own).contains("Seccomp:\t2"), instead);
    let process = pid.map_or("a process".to_owned(), |pid| format!("process {pid}"));
    TraceError::Refused { process, error, why }
}

fn tracer_of(pid: u32) -> Option<u32> {
    let status = procfs::parse_status(&procfs::read_of(pid, "status").ok()?);
    status.tracer.filter(|tracer| *tracer != 0)
}

/// What needs no tracing, to follow what is started; and a process that runs, which has no library.
const TO_START: &str = "--mechanism poll (of weigh io, preload)";
const TO_JOIN: &str = "--mechanism bpf as root";

fn reason(traced_by: Option<u32>, scope: Option<u32>, has_filter: bool, instead: &str) -> String {
    match (traced_by, scope, has_filter) {
        (Some(tracer), ..) => format!(
            "process {tracer} traces it already, and there can be but one tracer: leave that one \
             out, or use {instead}"
        ),
        (_, Some(scope @ 2..), _) => format!(
            "kernel.yama.ptrace_scope is {scope}, which forbids tracing{}; {instead} needs no tracing",
            if scope == 2 {
                " without CAP_SYS_PTRACE: `sysctl kernel.yama.ptrace_scope=1` allows it for a \
                 process's own descendants"
            } else {
                " to everybody until the next boot"
            }
        ),
        (.., true) => format!(
            "a seccomp filter is in force, as in some containers, and may forbid ptrace(2): allow it there \
             (docker run --cap-add SYS_PTRACE), or use {instead}"
        ),
        _ => format!("a security module may forbid it; {instead} needs no tracing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_who_forbids_it_is_named() {
        assert!(reason(Some(7), Some(3), true, TO_START).contains("process 7"));
        assert!(reason(None, Some(2), true, TO_START).contains("ptrace_scope=1"));
        assert!(reason(None, Some(3), false, TO_START).contains("next boot"));
        assert!(reason(None, Some(1), true, TO_START).contains("seccomp"));
        assert!(reason(None, None, false, TO_START).contains("--mechanism poll"));
    }

    /// A machine's switch, as its `/proc` has it, and what is said of it.
    #[test]
    fn the_switch_of_a_machine_decides_what_is_said() {
        let proc = tempfile::tempdir().unwrap();
        let below = proc.path().to_str().unwrap();
        assert_eq!(scope_below(below), None, "a kernel without Yama");
        let folder = proc.path().join("sys/kernel/yama");
        std::fs::create_dir_all(&folder).unwrap();
        for (text, words) in [
            ("0\n", "a security module"),
            ("1\n", "a security module"),
            ("2\n", "kernel.yama.ptrace_scope is 2, which forbids tracing without CAP_SYS_PTRACE"),
            ("3\n", "kernel.yama.ptrace_scope is 3, which forbids tracing to everybody"),
            ("much\n", "a security module"),
        ] {
            std::fs::write(folder.join("ptrace_scope"), text).unwrap();
            let said = reason(None, scope_below(below), false, TO_START);
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn who_runs_already_is_told_of_what_follows_such() {
        let process = 1;
        let forbidden = || io::Error::from_raw_os_error(libc::EACCES);
        let said = why_not_join(process, forbidden()).to_string();
        assert!(said.contains("--mechanism bpf") && !said.contains("preload"), "{said}");
        assert!(why(Some(process), forbidden()).to_string().contains("preload"));
    }

    #[test]
    fn whom_nobody_can_trace_is_told_apart() {
        let forbidden = || io::Error::from_raw_os_error(libc::EPERM);
        let said = why_not_join(std::process::id(), forbidden()).to_string();
        assert!(said.contains("it is weigh itself"), "{said}");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while !crate::host::has_ended(child.id()) {
            std::thread::yield_now();
        }
        let said = why_not_join(child.id(), forbidden()).to_string();
        assert!(said.contains("its first thread has ended"), "{said}");
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_not_there_can_not_be_traced() {
        let error = super::super::sys::seize(u32::MAX >> 1, false).unwrap_err();
        let error = why(Some(u32::MAX >> 1), error).to_string();
        assert!(error.contains("cannot trace process 2147483647"), "{error}");
    }
}
