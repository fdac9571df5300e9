//! Starts the command so that it can be armed before its first instruction.
//!
//! The child waits between fork and exec until it is told to go. It gets the signal dispositions,
//! mask, descriptors, limits, timers, terminal and environment that weigh itself was started with. Where weigh lacks
//! what it needs for that, the command is executed in weigh's place (`last_resort`). Refuses
//! commands that cannot be executed, with the error that exec gave.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::call_filter::CallFilter;
use crate::inherited::{self, Timers};
use crate::mount_over::MountOver;
use crate::secure_start::stripped;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid,
};

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// An argument holds a NUL byte.
    #[error("argument {0:?} holds a NUL byte, which no argument can")]
    NulByte(OsString),
    /// The command does not exist, or may not be executed, or …
    #[error("cannot execute '{command}': {error}")]
    Exec {
        /// The command as given.
        command: String,
        /// What exec said.
        error: io::Error,
    },
    /// No process could be made.
    #[error("cannot create a process for the command ({call}): {error}")]
    Create {
        /// The call that failed.
        call: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl SpawnError {
    /// The exit status that `env`, `nohup` and shells use for it.
    pub fn exit_status(&self) -> u8 {
        match self {
            SpawnError::Exec { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            SpawnError::Exec { .. } => 126,
            _ => 125,
        }
    }
}

/// A child between fork and exec.
pub struct Waiting {
    /// The child.
    pub pid: Pid,
    pidfd: OwnedFd,
    go: OwnedFd,
    failure: OwnedFd,
    /// Whether it was born in the control group that was asked for.
    pub is_in_group: bool,
    command: String,
}

/// The signals that weigh takes for itself while it runs: the child gets the mask from before.
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Blocks the given signals in this thread, and remembers the mask it had.
    pub fn block(signals: &[libc::c_int]) -> io::Result<SignalMask> {
        // SAFETY: both sets are plain data, filled by the calls that are given them.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in signals {
                libc::sigaddset(&mut set, *signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) {
                0 => Ok(SignalMask(before)),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

/// Makes the child. It executes nothing until [`Waiting::go`].
pub fn spawn(command: &[OsString], mask: &SignalMask) -> Result<Waiting, SpawnError> {
    spawn_with(command, mask, &With::default())
}

/// What a command gets that weigh itself has not.
#[derive(Default)]
pub struct With<'a> {
    /// Variables besides weigh's environment, or instead of those of the same name there.
    pub variables: &'a [(OsString, OsString)],
    /// A filter of system calls.
    pub filter: Option<&'a CallFilter>,
    /// The directory of a control group of version 2, where it is born if the kernel allows that:
    /// nobody waits for it to be moved, and all its memory is charged there.
    pub group: Option<BorrowedFd<'a>>,
    /// A folder that it sees covered by a mount.
    pub mount_over: Option<&'a MountOver>,
}

/// The same, with what it gets besides.
pub fn spawn_with(
    command: &[OsString],
    mask: &SignalMask,
    with: &With<'_>,
) -> Result<Waiting, SpawnError> {
    let With { variables, filter, group, mount_over } = with;
    let arguments = texts(command.iter().cloned())?;
    let pointers = with_null(&arguments);
    let environment = environment(variables)?;
    let environment = with_null(&environment);

    let pipes = || {
        pipe_with(PipeFlags::CLOEXEC)
            .map_err(|error| SpawnError::Create { call: "pipe", error: error.into() })
    };
    let (go_read, go_write) = pipes()?;
    let (failure_read, failure_write) = pipes()?;
    let timers = Timers::take();

    // SAFETY: the child calls only functions that are safe after a fork, until it calls exec.
    let born_in_group = group.and_then(|group| unsafe { fork_into(group) });
    let is_in_group = born_in_group.is_some();
    // SAFETY: as above.
    let pid = born_in_group.unwrap_or_else(|| unsafe { libc::fork() });
    match pid {
        -1 => Err(SpawnError::Create { call: "fork", error: io::Error::last_os_error() }),
        0 => {
            drop(go_write);
            let (environment, timers) = (&environment[..], &timers);
            let (filter, mount_over) = (*filter, *mount_over);
            let start =
                Start { arguments: &pointers, environment, mask, timers, filter, mount_over };
            become_command(&start, go_read.as_fd(), failure_write.as_fd())
        }
        pid => {
            WAITING.store(pid, Ordering::Release);
            let pid = Pid::from_raw(pid).expect("fork gives a positive PID to the parent");
            let pidfd = pidfd_open(pid, PidfdFlags::empty())
                .map_err(|error| SpawnError::Create { call: "pidfd_open", error: error.into() })?;
            Ok(Waiting {
                pid,
                pidfd,
                go: go_write,
                failure: failure_read,
                is_in_group,
                command: command[0].to_string_lossy().into_owned(),
            })
        }
    }
}

/// The process that was made for the command and has not been told to go; 0 is none.
static WAITING: AtomicI32 = AtomicI32::new(0);

/// The one that was told to go.
static BEGUN: AtomicI32 = AtomicI32::new(0);

/// The command's process once it may have executed something; 0 before.
pub(crate) fn begun() -> libc::pid_t {
    BEGUN.load(Ordering::Acquire)
}

/// Ends it: it would be a child that the command did not make. It has executed nothing. Safe in a handler.
pub(crate) fn end_waiting() {
    let Some(pid) = Pid::from_raw(WAITING.swap(0, Ordering::AcqRel)) else { return };
    let _ = kill_process(pid, Signal::KILL);
    let is_left = |waited| match waited {
        Ok(Some((_, status))) => WaitStatus::stopped(status),
        Err(error) => error == Errno::INTR,
        Ok(None) => false,
    };
    while is_left(waitpid(Some(pid), WaitOptions::empty())) {}
}

/// weigh's environment as it is, and what the loader took from it, with these variables besides or instead.
pub(crate) fn environment(variables: &[(OsString, OsString)]) -> Result<Vec<CString>, SpawnError> {
    let is_replaced = |entry: &CStr| {
        let name = entry.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
        variables.iter().any(|(replaced, _)| replaced.as_bytes() == name)
    };
    let entry = |(mut entry, value): (OsString, OsString)| {
        entry.push("=");
        entry.push(value);
        entry
    };
    let mut environment = own_environment();
    environment.extend(texts(stripped().into_iter().map(entry))?);
    environment.retain(|entry| !is_replaced(entry));
    environment.extend(texts(variables.iter().cloned().map(entry))?);
    Ok(environment)
}

/// Entries that are no variables, too: the standard library leaves these out.
fn own_environment() -> Vec<CString> {
    let mut entries = Vec::new();
    // SAFETY: the list ends with a null pointer, its entries are texts, and nothing in weigh changes it.
    unsafe {
        let mut at = environ.cast_const();
        while !at.is_null() && !(*at).is_null() {
            entries.push(CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    entries
}

unsafe extern "C" {
    static environ: *mut *const libc::c_char;
}

/// `CLONE_INTO_CGROUP` of `<linux/sched.h>`, which libc declares in too narrow a type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into a control group of version 2; none if that cannot be done, and nothing has happened.
///
/// # Safety
///
/// As of fork(2): in the child, which is told by 0, only what is safe after a fork may be called.
unsafe fn fork_into(group: BorrowedFd<'_>) -> Option<libc::pid_t> {
    // SAFETY: the structure is plain data; without a stack of its own the child has a copy of this
    // one, as after a fork.
    let pid = unsafe {
        let mut wish: libc::clone_args = std::mem::zeroed();
        wish.flags = CLONE_INTO_CGROUP;
        wish.exit_signal = libc::SIGCHLD as u64;
        wish.cgroup = group.as_raw_fd() as u64;
        libc::syscall(libc::SYS_clone3, &wish, size_of::<libc::clone_args>())
    };
    (pid >= 0).then_some(pid as libc::pid_t)
}

pub(crate) fn texts(words: impl Iterator<Item = OsString>) -> Result<Vec<CString>, SpawnError> {
    words.map(|w| CString::new(w.as_bytes()).map_err(|_| SpawnError::NulByte(w.clone()))).collect()
}

pub(crate) fn with_null(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|t| t.as_ptr()).chain([std::ptr::null()]).collect()
}

/// So much the child says where its folder could not be covered: more than where exec fails.
const NOT_COVERED_BYTES: usize = 8;

/// What the child needs to become the command.
struct Start<'a> {
    arguments: &'a [*const libc::c_char],
    environment: &'a [*const libc::c_char],
    mask: &'a SignalMask,
    timers: &'a Timers,
    filter: Option<&'a CallFilter>,
    mount_over: Option<&'a MountOver>,
}

fn become_command(start: &Start<'_>, go: BorrowedFd<'_>, failure: BorrowedFd<'_>) -> ! {
    let Start { arguments, environment, mask, timers, filter, mount_over } = start;
    // Before the wait: from its end on the calls that this takes would be the command's.
    inherited::restore();
    inherited::restore_attributes();
    // Not read: what the command is charged with begins before this wait ends.
    let told = loop {
        let mut fds = [rustix::event::PollFd::new(&go, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => break fds[0].revents().contains(rustix::event::PollFlags::IN),
            Err(Errno::INTR) => continue,
            Err(_) => break false,
        }
    };
    // SAFETY: after fork in the child: setitimer, pthread_sigmask, execvpe and _exit may be
    // called; `arguments` and `environment` end with a null pointer and outlive the call.
    unsafe {
        if !told {
            libc::_exit(125); // weigh is gone
        }
        if let Some(Err(error)) = mount_over.map(MountOver::put_in_force) {
            let error = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
            let mut said = [0; NOT_COVERED_BYTES];
            said[..error.len()].copy_from_slice(&error);
            let _ = rustix::io::write(failure, &said);
            libc::_exit(125);
        }
        timers.start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask.0, std::ptr::null_mut());
        if let Some(Err(error)) = filter.map(CallFilter::put_in_force) {
            let _ = rustix::io::write(failure, &error.to_ne_bytes());
            libc::_exit(125);
        }
        libc::execvpe(arguments[0], arguments.as_ptr(), environment.as_ptr());
        let error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        let _ = rustix::io::write(failure, &error.to_ne_bytes());
        libc::_exit(127)
    }
}

/// Makes a child that holds all of weigh's descriptors but the standard ones until the kernel has
/// closed them: closing them in weigh itself then costs nothing.
pub(crate) fn leave_descriptors_to_child() {
    // SAFETY: the child calls only functions that are safe after a fork. It is never waited for:
    // weigh ends next, and the process that adopts it reaps it.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            for standard in 0..=2 {
                libc::close(standard);
            }
            libc::_exit(0);
        }
    }
}

impl Waiting {
    /// A descriptor for the child.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The child.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets the child execute the command; returns once it has, or could not.
    pub fn go(self) -> Result<(Pid, OwnedFd), SpawnError> {
        BEGUN.store(self.pid.as_raw_nonzero().get(), Ordering::Release);
        WAITING.store(0, Ordering::Release);
        let _ = rustix::io::write(&self.go, b"g");
        let mut said = [0u8; NOT_COVERED_BYTES];
        let length = loop {
            match rustix::io::read(&self.failure, &mut said) {
                Err(Errno::INTR) => continue,
                other => break other.unwrap_or(0),
            }
        };
        let [a, b, c, d, ..] = said;
        let error = io::Error::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]));
        match length {
            4 => {
                self.reap();
                Err(SpawnError::Exec { command: self.command, error })
            }
            NOT_COVERED_BYTES => {
                self.reap();
                Err(SpawnError::Create { call: "mount in a namespace of its own", error })
            }
            _ => Ok((self.pid, self.pidfd)),
        }
    }

    /// Waits for the child's end by its descriptor: waitpid would take the stops of a child that
    /// is traced away from its tracer, which may reap it too.
    fn reap(&self) {
        let mut fds = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
        while rustix::event::poll(&mut fds, None) == Err(Errno::INTR) {}
        let _ = waitpid(Some(self.pid), WaitOptions::NOHANG);
    }
}
