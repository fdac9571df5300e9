//! Calls that have not returned when they are not followed any more.
//!
//! Reads the threads of the job that the kernel side knows; emits the call that each is in, and how long it has been
//! there at least. A call that a thread was in before it was followed has no entry that was seen: the kernel says
//! which it is (`/proc/PID/task/TID/syscall`), and it has lasted since the thread was taken in. Refuses to guess how
//! long where nobody has seen the entry, and where processes have other numbers than the kernel's.

use std::mem::{offset_of, size_of};

use weigh_schema::byte_text;
use weigh_schema::call::UnderWay;

use super::kernel_calls::KernelCalls;
use super::layout::skeleton::types;
use super::names::name;
use crate::job::{JobError, bpf};
use crate::join;
use crate::procfs;

/// Added to the numbers of 32-bit programs.
const COMPATIBLE: u64 = 1 << 16;

/// A thread that may be in a call.
struct Thread {
    number: u64,
    since_ns: u64,
    pid: u32,
    tid: u32,
    is_compatible: bool,
    command: String,
}

impl KernelCalls {
    /// Which calls are under way; `now_ns` is when they were followed last, by the kernel's CLOCK_MONOTONIC.
    pub fn under_way(&self, now_ns: u64) -> Result<Vec<UnderWay>, JobError> {
        let said = join::read_all(&self.skeleton.progs.member__under_way)
            .map_err(|error| bpf("reading calls under way")(error.into()))?;
        let rows = said.chunks_exact(size_of::<types::under_way>()).filter_map(thread);
        let mut calls: Vec<UnderWay> =
            rows.filter_map(|thread| thread.call(now_ns, self.joined_ns)).collect();
        calls.sort_by(|a, b| {
            let seconds = |call: &UnderWay| call.time_seconds.unwrap_or(0.0);
            seconds(b).total_cmp(&seconds(a)).then(a.tid.cmp(&b.tid))
        });
        Ok(calls)
    }
}

impl Thread {
    fn call(self, now_ns: u64, joined_ns: Option<u64>) -> Option<UnderWay> {
        let (number, since_ns) = match self.number {
            u64::MAX => (self.number_now()?, joined_ns.filter(|joined| self.since_ns < *joined)),
            number => (number, Some(self.since_ns)),
        };
        Some(UnderWay {
            call: name(number),
            pid: self.pid,
            tid: self.tid,
            command: byte_text::shown(&self.command),
            command_base64: byte_text::base64(&self.command),
            time_seconds: since_ns.map(|since| now_ns.saturating_sub(since) as f64 / 1e9),
        })
    }

    /// The call that it waits in; none if it is in none, or runs.
    fn number_now(&self) -> Option<u64> {
        if !procfs::is_initial_pid_namespace() {
            return None;
        }
        let text = procfs::read(format!("/proc/{}/task/{}/syscall", self.pid, self.tid)).ok()?;
        let number: u64 =
            std::str::from_utf8(&text).ok()?.split_whitespace().next()?.parse().ok()?;
        Some(if self.is_compatible { number | COMPATIBLE } else { number })
    }
}

fn thread(row: &[u8]) -> Option<Thread> {
    let u64_at = |at: usize| Some(u64::from_ne_bytes(row.get(at..at + 8)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_ne_bytes(row.get(at..at + 4)?.try_into().ok()?));
    let command = row.get(offset_of!(types::under_way, command)..)?;
    let end = command.iter().position(|byte| *byte == 0).unwrap_or(command.len());
    Some(Thread {
        number: u64_at(offset_of!(types::under_way, number))?,
        since_ns: u64_at(offset_of!(types::under_way, since))?,
        pid: u32_at(offset_of!(types::under_way, tgid))?,
        tid: u32_at(offset_of!(types::under_way, tid))?,
        is_compatible: u32_at(offset_of!(types::under_way, compatible))? != 0,
        command: byte_text::keep(&command[..end]),
    })
}
