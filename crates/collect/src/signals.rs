//! Signals as something to read, and what weigh does to itself and to others by signals.
//!
//! Reads a signalfd; emits what arrived, and from whom. Refuses nothing but what the kernel does.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use weigh_schema::summary::{Sender, SenderKind};
use weigh_schema::{Mechanism, Quality, byte_text};

use crate::host;
use crate::inherited::{self, LAST_SIGNAL};
use crate::shared_map;

/// Signals by which a shell's job control stops, and such that nobody can take.
const NOT_TAKEN: [i32; 5] =
    [libc::SIGKILL, libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
/// Of interval timers that weigh was started with: what the kernel sends by them is meant for the command.
const TIMERS: [i32; 3] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF];
/// What ends weigh when there is no command that could be asked to end.
const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
/// `si_code` of what kill(2) sent and another thread of weigh has handed on.
const HANDED_ON: i32 = -1000;
/// `si_code` of a signal by a timer of weigh's own: an exec leaves none.
const BY_OWN_TIMER: i32 = -2;

/// The signals that weigh takes for itself while a command runs: all that can be. Two that the C library keeps for
/// itself cannot be named to it, and are left out there. So is SIGBUS where it has a handler, which keeps what
/// processes send for [`SignalReader::receive`]: a fault that is blocked ends weigh.
pub fn taken(hears_of_children: bool) -> Vec<i32> {
    let is_left = |signal: &i32| match *signal {
        libc::SIGCHLD => !hears_of_children,
        libc::SIGBUS => shared_map::has_handler(),
        signal => NOT_TAKEN.contains(&signal),
    };
    (1..=LAST_SIGNAL).filter(|signal| !is_left(signal)).collect()
}

/// Ends the wait of a thread that traces.
pub(crate) fn interrupting_signal() -> i32 {
    libc::SIGRTMAX() - 1
}

/// A signal that was sent to weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// How it came: `si_code`.
    code: i32,
    /// Who sent it, if it was a process, and for which user.
    sender: u32,
    user: u32,
    /// What came with it, as by sigqueue(3).
    value: u64,
}

/// The kernel's `siginfo_t` of a signal that comes with a value.
#[repr(C)]
struct QueuedInfo {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    sender: u32,
    user: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<QueuedInfo>() == size_of::<libc::siginfo_t>());

impl Received {
    /// Whether a command that runs beneath weigh is to have it, too: whatever a process has sent to weigh itself.
    /// Not the ends of children; not what the terminal sends to the whole group; not what weigh brought upon itself:
    /// faults, limits, and a pipe that nobody reads, which the kernel tells as if weigh had sent it. `is_of_job` says
    /// whether a process is the job's: what it sends to its own group has reached the command. So has what continues
    /// both, as a shell does: it is passed on where the command is stopped still.
    pub fn is_for_command(&self, command: u32, is_of_job: impl FnOnce(u32) -> bool) -> bool {
        match self.signal {
            libc::SIGCHLD => false,
            libc::SIGCONT if !host::is_stopped(command) => false,
            // That it is gone, a terminal tells the leader of the session alone: without weigh that
            // would be the command.
            libc::SIGHUP if self.is_by_kernel() => leads_session(),
            signal if self.is_by_kernel() => TIMERS.contains(&signal),
            _ => !self.is_by_itself() && !is_of_job(self.sender),
        }
    }

    /// Whether it asks weigh to end where there is no command: not if weigh was started with it ignored.
    pub fn is_ending(&self) -> bool {
        let ends = ENDING.contains(&self.signal) || TIMERS.contains(&self.signal);
        ends && !inherited::is_ignored(self.signal)
    }

    /// Whether it says that weigh's own CPU time is nearly used up.
    pub fn is_cpu_notice(&self) -> bool {
        self.signal == libc::SIGXCPU && self.code == BY_OWN_TIMER
    }

    fn is_by_kernel(&self) -> bool {
        self.code > 0
    }

    fn is_by_itself(&self) -> bool {
        self.code == BY_OWN_TIMER || self.sender == std::process::id()
    }

    /// Who sent it to weigh; none where a process may pretend to be another.
    pub fn origin(&self) -> Option<Sender> {
        let is_process = !self.is_by_kernel();
        if self.code < 0 && self.code != libc::SI_TKILL {
            return None;
        }
        Some(match is_process {
            true => sender_of(SenderKind::Other, self.sender, self.user, Mechanism::Proc),
            false => sent_by_kernel(Mechanism::Proc),
        })
    }

    /// Sends it on to a process, with what came with it.
    pub fn pass_on(&self, process: BorrowedFd<'_>) -> io::Result<()> {
        let info = QueuedInfo {
            signal: self.signal,
            error: 0,
            code: self.code,
            padding: 0,
            sender: self.sender,
            user: self.user,
            value: self.value,
            rest: [0; 12],
        };
        // In the name of another the kernel lets nobody send what kill(2) and tgkill(2) send.
        let is_queued = self.code < 0 && self.code != libc::SI_TKILL;
        let info = if is_queued { &raw const info } else { std::ptr::null() };
        // SAFETY: the structure is the kernel's and lives through the call.
        let sent = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), self.signal, info, 0)
        };
        if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// A process that has sent a signal; `pid` 0 is one of another PID namespace. Its name is not known where it has ended.
pub(crate) fn sender_of(kind: SenderKind, pid: u32, uid: u32, source: Mechanism) -> Sender {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok();
    let name = name.map(|name| byte_text::keep(name.strip_suffix(b"\n").unwrap_or(&name)));
    Sender {
        kind,
        pid: (pid != 0).then_some(pid),
        name: name.as_deref().map(byte_text::shown),
        name_base64: name.as_deref().and_then(byte_text::base64),
        uid: Some(uid),
        source,
        quality: Quality::Exact,
    }
}

/// The same of the kernel.
pub(crate) fn sent_by_kernel(source: Mechanism) -> Sender {
    let (pid, name, name_base64, uid) = (None, None, None, None);
    let (kind, quality) = (SenderKind::Kernel, Quality::Exact);
    Sender { kind, pid, name, name_base64, uid, source, quality }
}

/// The thread that reads signals.
static READER: AtomicI32 = AtomicI32::new(0);

/// Hands a signal that met another thread of weigh to the one that reads them; in a signal's handler.
///
/// # Safety
/// `info` is what the kernel gave the handler, which reads it no more.
pub(crate) unsafe fn hand_to_reader(signal: i32, info: *mut libc::siginfo_t) {
    let (process, reader) = (std::process::id(), READER.load(Ordering::Acquire));
    // SAFETY: the call is safe in a handler, and only reads what the caller vouches for; the interrupted thread keeps its
    // error number.
    unsafe {
        let error = *libc::__errno_location();
        // To another thread the kernel lets nobody hand on what kill(2) sent.
        if (*info).si_code == libc::SI_USER {
            (*info).si_code = HANDED_ON;
        }
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, reader, signal, info);
        *libc::__errno_location() = error;
    }
}

/// A signal that a process has sent and that came to a handler. As of blocked ones, there is one at most.
struct PendingSignal {
    is_taken: AtomicBool,
    is_whole: AtomicBool,
    signal: AtomicI32,
    code: AtomicI32,
    sender: AtomicU32,
    user: AtomicU32,
    value: AtomicU64,
}

static HELD: PendingSignal = PendingSignal::new();

impl PendingSignal {
    const fn new() -> PendingSignal {
        PendingSignal {
            is_taken: AtomicBool::new(false),
            is_whole: AtomicBool::new(false),
            signal: AtomicI32::new(0),
            code: AtomicI32::new(0),
            sender: AtomicU32::new(0),
            user: AtomicU32::new(0),
            value: AtomicU64::new(0),
        }
    }

    fn put(&self, received: Received) {
        if self.is_taken.swap(true, Ordering::AcqRel) {
            return;
        }
        self.signal.store(received.signal, Ordering::Relaxed);
        self.code.store(received.code, Ordering::Relaxed);
        self.sender.store(received.sender, Ordering::Relaxed);
        self.user.store(received.user, Ordering::Relaxed);
        self.value.store(received.value, Ordering::Relaxed);
        self.is_whole.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Received> {
        if !self.is_whole.swap(false, Ordering::AcqRel) {
            return None;
        }
        let received = Received {
            signal: self.signal.load(Ordering::Relaxed),
            code: self.code.load(Ordering::Relaxed),
            sender: self.sender.load(Ordering::Relaxed),
            user: self.user.load(Ordering::Relaxed),
            value: self.value.load(Ordering::Relaxed),
        };
        self.is_taken.store(false, Ordering::Release);
        Some(received)
    }
}

/// Keeps a signal that a process has sent for the reader, whose wait it ends; in a signal's handler. Whether there is
/// a reader.
///
/// # Safety
/// `info` is what the kernel gave the handler, which reads it no more.
pub(crate) unsafe fn hold_for_reader(signal: i32, info: *mut libc::siginfo_t) -> bool {
    let reader = READER.load(Ordering::Acquire);
    // SAFETY: the caller vouches for it; gettid may be called in a handler.
    unsafe {
        if reader != libc::gettid() {
            if reader != 0 {
                hand_to_reader(signal, info);
            }
            return reader != 0;
        }
        let info = &*info.cast::<QueuedInfo>();
        let code = if info.code == HANDED_ON { libc::SI_USER } else { info.code };
        let (sender, user) = (info.sender, info.user);
        HELD.put(Received { signal, code, sender, user, value: info.value });
    }
    true
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
            READER.store(libc::gettid(), Ordering::Release);
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
        if self.0.read(&mut record).ok() != Some(SIZE) {
            return HELD.take();
        }
        // SAFETY: the record has the size of the structure, which is plain data without padding
        // requirements beyond what read_unaligned takes care of.
        let info: libc::signalfd_siginfo =
            unsafe { std::ptr::read_unaligned(record.as_ptr().cast()) };
        Some(Received {
            signal: info.ssi_signo as i32,
            code: if info.ssi_code == HANDED_ON { libc::SI_USER } else { info.ssi_code },
            sender: info.ssi_pid,
            user: info.ssi_uid,
            value: info.ssi_ptr,
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

/// Sends signals to a process that cannot be reaped meanwhile; whether any of them reached it.
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
    end_by(signal);
}

/// The same at once, whatever is left to say. Safe in a handler.
pub(crate) fn end_by(signal: i32) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn received(signal: i32, code: i32, sender: u32) -> Received {
        Received { signal, code, sender, user: 0, value: 0 }
    }

    #[test]
    fn what_a_handler_holds_is_received_once_and_the_first_counts() {
        let held = PendingSignal::new();
        assert_eq!(held.take(), None);
        held.put(received(libc::SIGBUS, -1, 4711));
        held.put(received(libc::SIGBUS, 0, 4712));
        assert_eq!(held.take(), Some(received(libc::SIGBUS, -1, 4711)));
        assert_eq!(held.take(), None);
        held.put(received(libc::SIGBUS, 0, 4712));
        assert_eq!(held.take(), Some(received(libc::SIGBUS, 0, 4712)));
    }

    #[test]
    fn what_processes_send_is_for_the_command() {
        let is_for = |signal, code, sender| {
            let command = std::process::id();
            received(signal, code, sender).is_for_command(command, |process| process == 77)
        };
        let taken = taken(true);
        // SIGBUS has a handler.
        assert!(!taken.contains(&libc::SIGBUS));
        assert_eq!(taken.len(), 64 - NOT_TAKEN.len() - 1);
        for signal in taken {
            // Nobody here is stopped who could be continued.
            let has_it = ![libc::SIGCHLD, libc::SIGCONT].contains(&signal);
            for code in [0, -1, -6] {
                assert_eq!(is_for(signal, code, 4711), has_it, "{signal}, {code}");
                assert!(!is_for(signal, code, 77), "{signal}, {code}");
                assert!(!is_for(signal, code, std::process::id()), "{signal}, {code}");
            }
            let by_kernel = is_for(signal, 128, 0);
            assert!(signal == libc::SIGHUP || by_kernel == TIMERS.contains(&signal), "{signal}");
        }
        let notice = received(libc::SIGXCPU, BY_OWN_TIMER, 4711);
        assert!(notice.is_cpu_notice() && !notice.is_for_command(0, |_| false));
        assert!(!received(libc::SIGXCPU, 0, 4711).is_cpu_notice());
    }
}
