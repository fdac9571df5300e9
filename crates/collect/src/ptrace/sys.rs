//! The calls that the tracer is made of: ptrace(2), waitid(2), wait4(2).
//!
//! Emits what a thread did; refuses with the kernel's own error.

use std::io;
use std::ptr::{null, null_mut};

use libc::{c_int, c_long, c_void, pid_t};

use crate::{last_resort, signals};

/// What is asked of each thread: to stop at births, execs and ends. Never that the job is killed
/// when weigh is. Stops at other system calls are told from signals, where they are asked for.
const OPTIONS: c_int = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESYSGOOD;

/// A child or a traced thread that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The thread.
    pub tid: u32,
    /// What became of it.
    pub what: What,
}

/// What became of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It has ended and is still there to be looked at.
    Ended,
    /// It waits for the tracer because of a signal that it is to get.
    Signal(c_int),
    /// It waits for the tracer at an event; for a stop of its group, the signal.
    Event(c_int, c_int),
    /// It waits for the tracer where it enters or leaves a system call.
    Call,
    /// It was stopped, and is not traced.
    Stopped,
}

fn checked(result: c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Begins to trace a process, without stopping it; if it `is_filtered`, to stop where a filter of
/// system calls says so, too.
pub fn seize(pid: u32, is_filtered: bool) -> io::Result<()> {
    let more = if is_filtered { libc::PTRACE_O_TRACESECCOMP } else { 0 };
    let options = c_long::from(OPTIONS | more);
    // SAFETY: this request reads no memory of ours.
    checked(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid as pid_t, 0, options) })
}

/// Lets a stopped thread go on, with a signal or none. One that was killed meanwhile is on its way
/// to its end, and will be heard of there.
pub fn resume(tid: u32, signal: c_int) {
    // SAFETY: this request reads no memory of ours.
    let _ = unsafe { libc::ptrace(libc::PTRACE_CONT, tid as pid_t, 0, signal as c_long) };
}

/// The same, until it enters or leaves its next system call.
pub fn resume_to_call(tid: u32, signal: c_int) {
    // SAFETY: this request reads no memory of ours.
    let _ = unsafe { libc::ptrace(libc::PTRACE_SYSCALL, tid as pid_t, 0, signal as c_long) };
}

/// How a signal came that a thread waits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// `si_code`.
    pub code: c_int,
    /// The process that sent it, and its user, as the thread's PID namespace has it.
    pub pid: u32,
    /// The user.
    pub uid: u32,
}

/// The same of a thread that waits for the tracer with one.
pub fn sent(tid: u32) -> Option<Sent> {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel fills the structure, which lives through the call.
    let result =
        unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid as pid_t, 0, info.as_mut_ptr()) };
    checked(result).ok()?;
    // SAFETY: all of it was set to 0, and any bytes are valid integers.
    let info = unsafe { info.assume_init() };
    // SAFETY: as above; of signals that no process sent these are other numbers, which the code says.
    let (pid, uid) = unsafe { (info.si_pid(), info.si_uid()) };
    Some(Sent { code: info.si_code, pid: pid.cast_unsigned(), uid })
}

/// A system call that a thread is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Whose numbers these are (`AUDIT_ARCH_…`).
    pub audit_arch: u32,
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Which side of a system call a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCall {
    /// It is about to make it.
    Enters(Call),
    /// It has made it: what came of it, or the number of the error.
    Leaves(Result<u64, c_int>),
}

/// What a thread that waits at a system call is doing.
pub fn at_call(tid: u32) -> Option<AtCall> {
    // SAFETY: the request writes no more than the given size, into plain data; which part of the
    // union is filled is said by `op`.
    unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let size = size_of_val(&info);
        let request = libc::PTRACE_GET_SYSCALL_INFO;
        let address = &raw mut info;
        if libc::ptrace(request as _, tid as pid_t, size as *mut c_void, address) <= 0 {
            return None;
        }
        let audit_arch = info.arch;
        let enters = |number, arguments| AtCall::Enters(Call { audit_arch, number, arguments });
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => Some(enters(info.u.entry.nr, info.u.entry.args)),
            libc::PTRACE_SYSCALL_INFO_SECCOMP => {
                Some(enters(info.u.seccomp.nr, info.u.seccomp.args))
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                let value = info.u.exit.sval;
                let is_error = info.u.exit.is_error != 0;
                Some(AtCall::Leaves(if is_error { Err(-value as c_int) } else { Ok(value as u64) }))
            }
            _ => None,
        }
    }
}

/// What became of the call in which a thread was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCall {
    /// It was not made, or would have been made again.
    NotMade,
    /// It was made: what came of it, or the number of the error.
    Made(Result<u64, c_int>),
}

/// The same of a thread that is stopped at its end; none if its registers cannot be read.
pub fn last_call(tid: u32) -> Option<LastCall> {
    const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
    let not_begun = -i64::from(libc::ENOSYS);
    Some(match register_of_result(tid)? {
        value if value == not_begun || RESTARTS.contains(&value) => LastCall::NotMade,
        error @ -4095..0 => LastCall::Made(Err(-error as c_int)),
        value => LastCall::Made(Ok(value.cast_unsigned())),
    })
}

/// The register in which a stopped thread's call leaves what it returns.
#[cfg(target_arch = "x86_64")]
fn register_of_result(tid: u32) -> Option<i64> {
    // SAFETY: the kernel writes registers of this machine, those of a 32-bit program too; all of their bits are numbers.
    unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        let request = libc::PTRACE_GETREGS;
        let got = libc::ptrace(request, tid as pid_t, 0, &raw mut registers);
        (got >= 0).then_some(registers.rax.cast_signed())
    }
}

/// The same; of a 32-bit program the registers are fewer, and others.
#[cfg(not(target_arch = "x86_64"))]
fn register_of_result(tid: u32) -> Option<i64> {
    const NT_PRSTATUS: usize = 1;
    // SAFETY: the kernel writes no more than the given length, into plain data; all of its bits are numbers.
    unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        let length = size_of_val(&registers);
        let mut part = libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: length };
        let request = libc::PTRACE_GETREGSET;
        let got = libc::ptrace(request, tid as pid_t, NT_PRSTATUS, &raw mut part);
        (got >= 0 && part.iov_len == length).then_some(registers.regs[0].cast_signed())
    }
}

/// Some bytes of a stopped thread's memory.
pub fn read_memory<const N: usize>(tid: u32, address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (read_up_to(tid, address, &mut bytes) == N).then_some(bytes)
}

/// A text that ends with a NUL byte, in a stopped thread's memory; one that is longer than a path
/// can be is cut.
pub fn read_text(tid: u32, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    let length = read_up_to(tid, address, &mut bytes);
    bytes.truncate(length);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

/// How many bytes could be read.
fn read_up_to(tid: u32, address: u64, to: &mut [u8]) -> usize {
    let page = rustix::param::page_size();
    let mut done = 0;
    // Page by page: what lies behind the last one that is there does not matter.
    while done < to.len() {
        let from = address.wrapping_add(done as u64) as usize;
        let length = (page - from % page).min(to.len() - done);
        // SAFETY: the local part is a buffer of the given length; the other one is of another
        // process, and only read.
        let read = unsafe {
            let own = libc::iovec { iov_base: to[done..].as_mut_ptr().cast(), iov_len: length };
            let other = libc::iovec { iov_base: from as *mut c_void, iov_len: length };
            libc::process_vm_readv(tid as pid_t, &own, 1, &other, 1, 0)
        };
        match usize::try_from(read) {
            Ok(read) if read > 0 => done += read,
            _ => break,
        }
    }
    done
}

/// Leaves a thread in the stop of its group, until SIGCONT; false if it is in no such stop.
pub fn leave_stopped(tid: u32) -> bool {
    // SAFETY: this request reads no memory of ours.
    unsafe { libc::ptrace(libc::PTRACE_LISTEN, tid as pid_t, 0, 0) == 0 }
}

/// Lets go of a stopped thread for good, with a signal or none.
pub fn detach(tid: u32, signal: c_int) {
    // SAFETY: this request reads no memory of ours.
    let _ = unsafe { libc::ptrace(libc::PTRACE_DETACH, tid as pid_t, 0, signal as c_long) };
}

/// Makes a traced thread stop soon.
pub fn stop(tid: u32) {
    // SAFETY: this request reads no memory of ours.
    let _ = unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid as pid_t, 0, 0) };
}

/// The number that goes with an event: the new thread at a birth, the former one at an exec.
pub fn message(tid: u32) -> Option<u32> {
    let mut value: libc::c_ulong = 0;
    // SAFETY: the request writes one unsigned long to the address it is given.
    let result = unsafe {
        libc::ptrace(libc::PTRACE_GETEVENTMSG, tid as pid_t, 0, &mut value as *mut libc::c_ulong)
    };
    (result == 0).then_some(value as u32)
}

/// The number of the system call that a stopped thread is in, and its first argument; none of 32-bit programs.
fn call_under_way(tid: u32) -> Option<(c_long, u64)> {
    const NT_PRSTATUS: usize = 1;
    // SAFETY: the structure is plain data; the request writes no more than the given length into it, and says how much.
    let (registers, length) = unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        let size = size_of_val(&registers);
        let mut to = libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size };
        let request = libc::PTRACE_GETREGSET;
        if libc::ptrace(request as _, tid as pid_t, NT_PRSTATUS as *mut c_void, &raw mut to) != 0 {
            return None;
        }
        (registers, to.iov_len)
    };
    if length != size_of_val(&registers) {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    return Some((registers.orig_rax as c_long, registers.rdi));
    #[cfg(target_arch = "aarch64")]
    return Some((registers.regs[8] as c_long, registers.regs[0]));
}

/// The flags of the call by which a thread makes another process, at the event that tells of it; none if they are not
/// known.
pub fn clone_flags(tid: u32) -> Option<u64> {
    let (number, first) = call_under_way(tid)?;
    match number {
        libc::SYS_clone => Some(first),
        libc::SYS_clone3 => read_memory::<8>(tid, first).map(u64::from_ne_bytes),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork => Some(0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork => Some((libc::CLONE_VM | libc::CLONE_VFORK) as u64),
        _ => None,
    }
}

/// Waits until a child or a traced thread changes, and leaves the change where it is: a stop is
/// gone once the thread goes on, and what has ended can be looked at before it is reaped.
pub fn wait() -> io::Result<Change> {
    // SAFETY: the structure is plain data, filled by the call.
    let (result, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        (libc::waitid(libc::P_ALL, 0, &mut info, options), info)
    };
    checked(result.into())?;
    // SAFETY: after a successful waitid these fields are the ones that are filled.
    let (tid, status) = unsafe { (info.si_pid() as u32, info.si_status()) };
    let what = match info.si_code {
        libc::CLD_TRAPPED if status == libc::SIGTRAP | 0x80 => What::Call,
        libc::CLD_TRAPPED if status >> 8 == 0 => What::Signal(status),
        libc::CLD_TRAPPED => What::Event(status >> 8, status & 0xff),
        libc::CLD_STOPPED => What::Stopped,
        _ => What::Ended,
    };
    Ok(Change { tid, what })
}

/// Whether there is something of a thread that was not taken note of.
pub fn has_news(tid: u32) -> bool {
    // SAFETY: the structure is plain data, filled by the call; without news it stays all zero.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        libc::waitid(libc::P_PID, tid, &mut info, options) == 0 && info.si_pid() != 0
    }
}

/// Takes note of a stop, so that it is not told of again. After an exec by a thread other than the
/// first, ptrace(2) denies that there is such a process until this was done.
pub fn take_stop(tid: u32) {
    // SAFETY: the structure is plain data, filled by the call.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WSTOPPED | libc::WNOHANG | libc::__WALL;
        libc::waitid(libc::P_PID, tid, &mut info, options);
    }
}

/// What the kernel keeps of a process that has ended, together with the children it has waited for.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its status word.
    pub status: c_int,
    /// The greatest resident size of any of them.
    pub rss_peak_bytes: u64,
    /// CPU time in the program and in the kernel, in nanoseconds: the exact sum, split by ticks.
    pub cpu_ns: (u64, u64),
    /// Page faults, without and with I/O.
    pub faults: (u64, u64),
    /// Context switches, voluntary and not.
    pub switches: (u64, u64),
}

/// Takes note of a change for good: reaps what has ended.
pub fn take(tid: u32) -> Option<Ended> {
    // SAFETY: status and usage are plain data, filled by the call.
    let (taken, status, usage) = unsafe {
        let mut status = 0;
        let mut usage: libc::rusage = std::mem::zeroed();
        let options = libc::__WALL | libc::WNOHANG | libc::WUNTRACED;
        (libc::wait4(tid as pid_t, &mut status, options, &mut usage), status, usage)
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (taken == tid as pid_t).then_some(Ended {
        status,
        rss_peak_bytes: usage.ru_maxrss as u64 * 1024,
        cpu_ns: (ns(usage.ru_utime), ns(usage.ru_stime)),
        faults: (usage.ru_minflt as u64, usage.ru_majflt as u64),
        switches: (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64),
    })
}

/// No SIGCHLD for children that merely stop: a traced job does so all the time, and weigh asks the
/// tracer. The job is not touched by it: an exec sets the handling of signals anew.
pub fn hear_of_ends_only() {
    // SAFETY: the structure is plain data; the handler that was there stays.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGCHLD, null(), &mut action) == 0 {
            action.sa_flags |= libc::SA_NOCLDSTOP;
            libc::sigaction(libc::SIGCHLD, &action, null_mut());
        }
    }
}

/// Lets this thread be woken from [`wait`] by [`interrupt`], and by no other signal of weigh's.
pub fn be_interruptible() -> libc::pthread_t {
    extern "C" fn interrupted(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel gives the handler a whole structure; hand_to_reader may be called in one.
        unsafe {
            let is_own = (*info).si_code == libc::SI_TKILL
                && (*info).si_pid().cast_unsigned() == std::process::id();
            match is_own {
                true => last_resort::end_if_aborted(),
                false => signals::hand_to_reader(signal, info),
            }
        }
    }
    // SAFETY: the structures are plain data; the handler may run at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = interrupted;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(signals::interrupting_signal(), &action, null_mut());
        let mut all_but_this: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all_but_this);
        libc::sigdelset(&mut all_but_this, signals::interrupting_signal());
        // Not blocked, and of no effect: the kernel throws it away at once. If it were blocked here,
        // each end of a process would wake another thread of weigh for nothing.
        libc::sigdelset(&mut all_but_this, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all_but_this, null_mut());
        libc::pthread_self()
    }
}

/// Waits until somebody calls [`interrupt`].
pub fn pause() {
    // SAFETY: the call reads and writes no memory.
    let _ = unsafe { libc::pause() };
}

/// Ends the wait of a thread that has called [`be_interruptible`].
///
/// # Safety
/// The thread has not been joined yet.
pub unsafe fn interrupt(thread: libc::pthread_t) {
    // SAFETY: the caller vouches for the thread; its handler does nothing.
    unsafe { libc::pthread_kill(thread, signals::interrupting_signal()) };
}
