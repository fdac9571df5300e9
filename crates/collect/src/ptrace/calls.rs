//! What threads do by system calls: sockets, connections, opened files (level 3).
//!
//! Each thread stops where it enters a call and where it leaves it; there the tracer asks what the
//! call is, what its descriptors refer to, and what came of it. Emits counters of the thread and
//! the files that were opened. What the kernel counts by itself is not counted again. What passes
//! by unseen is named: requests that the kernel serves by itself (io_uring, AIO), programs whose
//! calls have unknown numbers, and those that the kernel hides from weigh.

pub mod descriptor;
pub mod entered;
pub mod executed;
mod filter;
pub mod findings;
mod opens;
pub mod stops;
pub mod table;

use std::collections::HashMap;

use weigh_schema::{Counter, CounterValues};

use super::job::Job;
use super::sys;
use crate::follow::JobDetail;
use descriptor::{Connection, Protocol, Referred, connection, referred};
pub use entered::Entered;
pub use filter::{Stopping, filter};
pub use findings::Findings;
pub use stops::Stops;
use table::CallAction;

/// More connections that do not stand yet than this are not kept in mind.
const MOST_PENDING: usize = 65_536;

/// What is to be done with a thread that enters a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its result is of no interest.
    Pass,
    /// It is to be looked at again when it leaves.
    Result,
    /// It wants to be traced by its parent.
    BeTraced,
    /// It wants to trace another.
    Trace(u32),
}

/// Follows the calls.
pub struct Calls {
    detail: JobDetail,
    stops: Stops,
    /// TCP sockets whose connection does not stand yet: process and descriptor.
    pending: HashMap<u64, (u32, i32)>,
}

impl Calls {
    /// Of none so far.
    pub fn new(detail: JobDetail, stops: Stops) -> Calls {
        Calls { detail, stops, pending: HashMap::new() }
    }

    /// Whether a thread that goes on is to stop again where it next enters or leaves a call.
    pub fn is_next_wanted(&self, job: &Job, tid: u32) -> bool {
        let is_inside = || job.threads.get(&tid).is_some_and(|thread| thread.call.is_some());
        self.stops == Stops::All || is_inside()
    }

    /// A thread enters a call.
    pub fn enters(&mut self, job: &mut Job, tid: u32, call: &sys::Call) -> Next {
        let Some(thread) = job.threads.get_mut(&tid) else { return Next::Pass };
        thread.call = None;
        let found = match table::kind(call.audit_arch, call.number) {
            Ok(Some(found)) => found,
            Ok(None) => return Next::Pass,
            Err(table::UnknownAbi) => {
                let program = job.program_of(tid);
                job.calls.unknown.insert(program);
                return Next::Pass;
            }
        };
        let (abi, kind) = found;
        let mut entered = Entered {
            kind,
            arguments: call.arguments,
            is_32_bit: abi.is_32_bit,
            subject: Referred::Nothing,
            is_connected: false,
            writes: false,
        };
        if kind == CallAction::Multiplexed && !entered.demultiplex(tid) {
            return Next::Pass;
        }
        let next = self.looks(job, tid, &mut entered);
        if next == Next::Result
            && let Some(thread) = job.threads.get_mut(&tid)
        {
            thread.call = Some(entered);
        }
        next
    }

    fn looks(&mut self, job: &mut Job, tid: u32, call: &mut Entered) -> Next {
        let first = call.descriptor(0);
        match call.kind {
            CallAction::Open(flags) => {
                let is_place = |at: usize| call.arguments[at] & libc::O_PATH as u64 != 0;
                let is_wanted = self.detail.files && !flags.is_some_and(is_place);
                return if is_wanted { Next::Result } else { Next::Pass };
            }
            CallAction::Trace => return wish(&call.arguments),
            CallAction::Uring | CallAction::Aio | CallAction::Tee => return Next::Result,
            CallAction::VmSplice => {
                call.writes = descriptor::modes(tid, first).1;
                return Next::Result;
            }
            CallAction::Multiplexed => return Next::Pass,
            _ if !self.detail.network => return Next::Pass,
            CallAction::Accept => return Next::Result,
            CallAction::Settle if self.pending.is_empty() => return Next::Pass,
            _ => {}
        }
        call.subject = referred(tid, first);
        if call.subject == Referred::Hidden {
            let program = job.program_of(tid);
            job.calls.hidden.insert(program);
        }
        if let Referred::Socket { inode, protocol: Protocol::Tcp } = call.subject {
            call.is_connected = self.settle(job, tid, inode, first);
        }
        let is_result_wanted = match (call.kind, call.subject) {
            (CallAction::Settle, _) => false,
            (CallAction::Splice, _) => {
                let to = call.descriptor(2);
                let is_pipe = match referred(tid, to) {
                    Referred::Pipe => true,
                    Referred::Other => descriptor::is_named_pipe(tid, to),
                    _ => false,
                };
                call.writes = !is_pipe;
                true
            }
            (CallAction::Connect, Referred::Socket { protocol: Protocol::Tcp, .. }) => {
                // To no address: gives up a connection.
                let family = sys::read_memory::<2>(tid, call.arguments[1]);
                family.is_none_or(|family| family != [0; 2])
            }
            (CallAction::Connect, _) => false,
            (
                CallAction::Read | CallAction::Write | CallAction::SendFile,
                Referred::Socket { protocol, .. },
            ) => protocol != Protocol::Local,
            (_, subject) => matches!(subject, Referred::Socket { .. }),
        };
        if is_result_wanted { Next::Result } else { Next::Pass }
    }

    /// A thread leaves a call.
    pub fn leaves(&mut self, job: &mut Job, tid: u32, result: Result<u64, i32>) {
        let Some(call) = job.threads.get_mut(&tid).and_then(|thread| thread.call.take()) else {
            return;
        };
        let bytes = result.unwrap_or_default();
        match call.kind {
            CallAction::Open(flags) => {
                if let Ok(fd) = result {
                    self.opened(job, tid, fd as i32, flags.is_none());
                }
            }
            CallAction::Uring | CallAction::Aio if result.is_ok() => {
                let program = job.program_of(tid);
                job.calls.by_kernel.insert(program);
            }
            CallAction::Read => self.over_net(job, tid, &call, Counter::NetReceived, bytes),
            CallAction::Write | CallAction::SendFile => {
                self.over_net(job, tid, &call, Counter::NetSent, bytes);
            }
            CallAction::Send(flags) => {
                self.moved(job, tid, &call, bytes, call.arguments[flags]);
                if call.arguments[flags] & libc::MSG_FASTOPEN as u64 != 0 {
                    self.is_pending(job, tid, &call);
                }
            }
            CallAction::Receive(flags) => self.moved(job, tid, &call, bytes, call.arguments[flags]),
            // Each message counts as a call.
            CallAction::SendMany | CallAction::ReceiveMany => {
                for number in 0..bytes {
                    let bytes = call.message_bytes(tid, number).unwrap_or_default();
                    self.moved(job, tid, &call, bytes, call.arguments[3]);
                }
            }
            CallAction::Splice | CallAction::Tee | CallAction::VmSplice if result.is_ok() => {
                self.spliced(job, tid, &call, bytes);
            }
            CallAction::Connect => match result {
                Ok(_) if !call.is_connected => count(job, tid, Counter::NetConnections, 1),
                Ok(_) => {}
                Err(error) if is_under_way(error) => self.is_pending(job, tid, &call),
                Err(_) => {}
            },
            CallAction::Accept => {
                let accepted = result.map(|fd| referred(tid, fd as i32));
                if let Ok(Referred::Socket { protocol: Protocol::Tcp, .. }) = accepted {
                    count(job, tid, Counter::NetConnections, 1);
                }
            }
            _ => {}
        }
    }

    /// A process executes a program: that opens it.
    pub fn executes(&mut self, job: &mut Job, tid: u32) {
        if let Some(thread) = job.threads.get_mut(&tid) {
            thread.call = None;
        }
        if !self.detail.files {
            return;
        }
        for path in executed::files(tid) {
            count(job, tid, Counter::FilesOpened, 1);
            job.file_opened(tid, path.as_deref());
        }
    }

    /// The last thread of a process is about to end; its descriptors are still there.
    pub fn ends(&mut self, job: &mut Job, pid: u32, tid: u32) {
        if self.pending.is_empty() {
            return;
        }
        let of_it: Vec<(u64, i32)> = self
            .pending
            .iter()
            .filter(|(_, (process, _))| *process == pid)
            .map(|(inode, (_, fd))| (*inode, *fd))
            .collect();
        for (inode, fd) in of_it {
            let now = referred(tid, fd);
            if matches!(now, Referred::Socket { inode: now, .. } if now == inode) {
                self.settle(job, tid, inode, fd);
            }
        }
    }

    fn opened(&mut self, job: &mut Job, tid: u32, fd: i32, may_be_place: bool) {
        if may_be_place && descriptor::modes(tid, fd) == (false, false) {
            return;
        }
        count(job, tid, Counter::FilesOpened, 1);
        job.file_opened(tid, descriptor::path(tid, fd).as_deref());
    }

    fn over_net(&self, job: &mut Job, tid: u32, call: &Entered, counter: Counter, bytes: u64) {
        if let Referred::Socket { protocol: Protocol::Tcp | Protocol::OtherInternet, .. } =
            call.subject
        {
            count(job, tid, counter, bytes);
        }
    }

    /// By a call that the kernel's own accounting leaves out.
    fn moved(&self, job: &mut Job, tid: u32, call: &Entered, bytes: u64, flags: u64) {
        let is_send = matches!(call.kind, CallAction::Send(_) | CallAction::SendMany);
        let (chars, calls) = match is_send {
            true => (Counter::SocketWriteChars, Counter::SocketWriteCalls),
            false => (Counter::SocketReadChars, Counter::SocketReadCalls),
        };
        count(job, tid, chars, bytes);
        count(job, tid, calls, 1);
        if is_send {
            self.over_net(job, tid, call, Counter::NetSent, bytes);
        } else if flags & libc::MSG_PEEK as u64 == 0 {
            self.over_net(job, tid, call, Counter::NetReceived, bytes);
        }
    }

    fn spliced(&self, job: &mut Job, tid: u32, call: &Entered, bytes: u64) {
        let (chars, calls) = match call.writes {
            true => (Counter::OtherWriteChars, Counter::OtherWriteCalls),
            false => (Counter::OtherReadChars, Counter::OtherReadCalls),
        };
        count(job, tid, chars, bytes);
        count(job, tid, calls, 1);
        if call.kind != CallAction::Splice || bytes == 0 {
            return;
        }
        if matches!(call.subject, Referred::Socket { .. }) {
            self.over_net(job, tid, call, Counter::NetReceived, bytes);
        } else {
            let to = Entered { subject: referred(tid, call.descriptor(2)), ..*call };
            self.over_net(job, tid, &to, Counter::NetSent, bytes);
        }
    }

    fn is_pending(&mut self, job: &mut Job, tid: u32, call: &Entered) {
        let Referred::Socket { inode, protocol: Protocol::Tcp } = call.subject else { return };
        let Some(thread) = job.threads.get(&tid) else { return };
        if self.pending.len() < MOST_PENDING {
            self.pending.insert(inode, (thread.process, call.descriptor(0)));
        }
    }

    /// Whether a connection that was under way stands by now; it is counted then.
    fn settle(&mut self, job: &mut Job, tid: u32, inode: u64, fd: i32) -> bool {
        if !self.pending.contains_key(&inode) {
            return false;
        }
        let Some(pid) = job.threads.get(&tid).map(|thread| thread.process) else { return false };
        match connection(pid, fd) {
            Ok(Connection::Pending) | Err(_) => false,
            Ok(Connection::None) => {
                self.pending.remove(&inode);
                false
            }
            Ok(Connection::Stands) => {
                self.pending.remove(&inode);
                count(job, tid, Counter::NetConnections, 1);
                true
            }
        }
    }
}

impl Entered {
    fn descriptor(&self, argument: usize) -> i32 {
        self.arguments[argument] as u32 as i32
    }

    /// Finds the call behind a socketcall(2); false if it is of no interest.
    fn demultiplex(&mut self, tid: u32) -> bool {
        let Some(kind) = table::multiplexed(self.arguments[0]) else { return false };
        let Some(bytes) = sys::read_memory::<24>(tid, self.arguments[1]) else { return false };
        for (argument, bytes) in self.arguments.iter_mut().zip(bytes.chunks_exact(4)) {
            *argument = executed::number(bytes);
        }
        self.kind = kind;
        true
    }

    /// How many bytes one of several messages had (`msg_len` of a `struct mmsghdr`).
    fn message_bytes(&self, tid: u32, number: u64) -> Option<u64> {
        let (size, offset) = if self.is_32_bit { (32, 28) } else { (64, 56) };
        let address = self.arguments[1].checked_add(number * size + offset)?;
        sys::read_memory::<4>(tid, address).map(|bytes| u64::from(u32::from_ne_bytes(bytes)))
    }
}

/// What a call of ptrace(2) is about to do.
fn wish(arguments: &[u64; 6]) -> Next {
    match arguments[0] as u32 {
        libc::PTRACE_TRACEME => Next::BeTraced,
        libc::PTRACE_ATTACH | libc::PTRACE_SEIZE => Next::Trace(arguments[1] as u32),
        _ => Next::Pass,
    }
}

/// Whether a connection may come to stand after the call has given up waiting for it.
fn is_under_way(error: i32) -> bool {
    // The last ones: a signal came; the call may be made again, by the kernel itself.
    const RESTARTS: std::ops::RangeInclusive<i32> = 512..=516;
    error == libc::EINPROGRESS
        || error == libc::EALREADY
        || error == libc::EINTR
        || RESTARTS.contains(&error)
}

fn count(job: &mut Job, tid: u32, counter: Counter, more: u64) {
    if let Some(thread) = job.threads.get_mut(&tid) {
        add(&mut thread.seen, counter, more);
    }
}

fn add(values: &mut CounterValues, counter: Counter, more: u64) {
    values.set(counter, values.get(counter) + more);
}
