//! Signals as something to read, and what weigh does to itself and to others by signals.
//!
//! Reads a signalfd; emits what arrived, and from whom. Refuses nothing but what the kernel does.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A signal that was sent to weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it by itself, as a terminal does to all of its foreground processes.
    pub by_kernel: bool,
    /// Who sent it, if it was a process.
    pub sender: u32,
}

/// Blocked signals, as a descriptor.
pub struct SignalReader(File);

impl SignalReader {
    /// Reads these; the caller has blocked them.
    pub fn new(signals: &[i32]) -> io::Result<SignalReader> {
        // SAFETY: the set is plain data filled by the calls; signalfd returns a new descriptor,
        // which the `File` then owns alone.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in signals {
                libc::sigaddset(&mut set, *signal);
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(SignalReader(File::from_raw_fd(fd)))
        }
    }

    /// The next signal, if one is waiting.
    pub fn receive(&mut self) -> Option<Received> {
        const SIZE: usize = std::mem::size_of::<libc::signalfd_siginfo>();
        let mut record = [0u8; SIZE];
        if self.0.read(&mut record).ok()? != SIZE {
            return None;
        }
        // SAFETY: the record has the size of the structure, which is plain data without padding
        // requirements beyond what read_unaligned takes care of.
        let info: libc::signalfd_siginfo =
            unsafe { std::ptr::read_unaligned(record.as_ptr().cast()) };
        Some(Received {
            signal: info.ssi_signo as i32,
            by_kernel: info.ssi_code > 0,
            sender: info.ssi_pid,
        })
    }
}

impl AsFd for SignalReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn signal_of(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}

/// Does something with all signals blocked, as starting a thread that is to take none: it inherits the mask.
pub fn with_all_blocked<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are plain data, filled by the calls; the mask is this thread's.
    let before = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        (libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before) == 0).then_some(before)
    };
    let started = start();
    if let Some(before) = before {
        // SAFETY: the set was filled by the call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    }
    started
}

/// Whether weigh is the leader of its session.
pub fn leads_session() -> bool {
    rustix::process::getsid(None).is_ok_and(|leader| leader == rustix::process::getpid())
}

/// Sends a signal to a process that a descriptor stands for.
pub fn send(process: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let signal = signal_of(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_send_signal(process, signal)?)
}

/// Sends signals to a process that can not be reaped meanwhile; whether any of them reached it.
pub fn send_in_turn(pid: u32, list: &[i32]) -> bool {
    let pidfd = Pid::from_raw(pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    pidfd.is_some_and(|pidfd| {
        list.iter().filter(|signal| send(pidfd.as_fd(), **signal).is_ok()).count() > 0
    })
}

/// Sends signals to processes; returns how many were reached.
pub fn send_to_all(pids: &[u32], signals: &[i32]) -> usize {
    pids.iter().filter(|pid| send_in_turn(**pid, signals)).count()
}

/// Whether these make a process stop or end, so that it must not get away by a fork.
pub fn put_an_end(signals: &[i32]) -> bool {
    let has = |signal| signals.contains(&signal);
    has(libc::SIGSTOP) || has(libc::SIGKILL) || has(libc::SIGTERM) && has(libc::SIGCONT)
}

/// Stops weigh itself, as its command was stopped, so that the shell notices.
pub fn stop_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

/// Ends weigh by the signal that ended its command, so that who waits for it sees the same. No
/// core of weigh itself is left. Returns only if the signal does not end a process.
pub fn die_by(signal: i32) {
    crate::message::finish();
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit and the set are plain data that live through the calls.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::raise(signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}
