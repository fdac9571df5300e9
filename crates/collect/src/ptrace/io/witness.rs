//! What the tracer has counted of that which the kernel counts by itself (`/proc/PID/io`): for a report that is held
//! against the kernel's own count.
//!
//! Takes each transfer, and the execs; knows no system call.

use std::collections::HashMap;

use weigh_schema::io::Transfer;

use super::counts::Done;
use crate::preload::Witnessed;

/// Bytes, and calls.
type Sum = (u64, u64);

/// What it is held against.
#[derive(Default)]
pub struct Witness {
    /// Of all.
    pub all: Witnessed,
    /// What each thread has read since it began, or since a library in it did.
    by_thread: HashMap<u32, Sum>,
}

fn add(to: &mut Sum, more: Sum) {
    *to = (to.0 + more.0, to.1 + more.1);
}

impl Witness {
    /// A thread has moved something, or tried to.
    pub fn did(&mut self, tid: u32, done: &Done) {
        let Some((_, direction)) = done.transfer().filter(|kind| is_counted(done, kind.0)) else {
            return;
        };
        let moved = (done.bytes, done.calls);
        let failed = u64::from(done.error != 0);
        if direction == 0 {
            add(&mut self.all.read, moved);
            add(self.by_thread.entry(tid).or_default(), moved);
            self.all.failed.0 += failed;
        } else {
            add(&mut self.all.written, moved);
            self.all.failed.1 += failed;
        }
    }

    /// A process has begun a program that a library is in. What that finds to have been read before is in part
    /// what was counted here.
    pub fn leaves_to_library(&mut self, tid: u32, former: u32) {
        let read = self.by_thread.remove(&former).unwrap_or_default();
        self.by_thread.remove(&tid);
        add(&mut self.all.start_again, read);
    }

    /// A process has begun a program that is traced, of which the kernel has read that much.
    pub fn program_begins(&mut self, tid: u32, former: u32, read: Sum) {
        let mut so_far = self.by_thread.remove(&former).unwrap_or_default();
        add(&mut so_far, read);
        self.by_thread.insert(tid, so_far);
        add(&mut self.all.start, read);
    }

    /// A thread is no more.
    pub fn thread_ends(&mut self, tid: u32) {
        self.by_thread.remove(&tid);
    }
}

/// Whether the kernel counts such a transfer: not where pipes are spliced, nor messages.
fn is_counted(done: &Done, transfer: Transfer) -> bool {
    const WITHOUT: [libc::c_long; 3] = [libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice];
    let kinds = [Transfer::Plain, Transfer::Positioned, Transfer::Vectored, Transfer::Copied];
    let is_without = WITHOUT.iter().any(|number| number.cast_unsigned() == done.span.number);
    kinds.contains(&transfer) && !is_without
}
