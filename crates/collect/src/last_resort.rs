//! What is left to do for a command where weigh cannot measure it, or is aborted, for want of memory above all: it runs,
//! and its status is weigh's.
//!
//! Reads SIGABRT that this process has raised itself. Before the command has begun it is executed in weigh's place; after
//! that weigh gives up all descriptors, passes signals on, and ends as the command does. By then no memory is asked for,
//! and no lock. A tracer's thread ends first: that lets the programs go. Where a filter of system calls (`--seccomp`) makes
//! the tracer indispensable weigh is aborted all the same.

use std::cell::UnsafeCell;
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use crate::inherited::{self, Timers};
use crate::signals::{end_by, interrupting_signal};
use crate::spawn::{SpawnError, begun, end_waiting, environment, texts, with_null};

/// A command as an exec takes it; kept for good.
struct Prepared {
    texts: [Vec<CString>; 2],
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
}

// SAFETY: the pointers are to the texts beside them, which nobody changes.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

static PREPARED: OnceLock<Prepared> = OnceLock::new();
/// How it ended, as wait(2) tells it.
static ENDED: AtomicI64 = AtomicI64::new(NOT_ENDED);
const NOT_ENDED: i64 = -1;
/// The thread that traces, while one does.
static TRACER: AtomicI32 = AtomicI32::new(NO_TRACER);
const NO_TRACER: c_int = 0;
/// One without which the job's calls fail.
const INDISPENSABLE: c_int = -1;
static IS_ABORTED: AtomicBool = AtomicBool::new(false);

const IN_PLACE: &[u8] =
    b"weigh: nothing is measured: weigh was aborted; the command runs as without weigh\n";
const WAITS: &[u8] = b"weigh: measuring stopped: weigh was aborted; the command goes on\n";
const PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// From now on this command runs, and has its status, even if weigh is aborted.
pub fn prepare(command: &[OsString]) -> Result<(), SpawnError> {
    let texts = [texts(command.iter().cloned())?, environment(&[])?];
    let [arguments, environment] = [with_null(&texts[0]), with_null(&texts[1])];
    if PREPARED.set(Prepared { texts, arguments, environment }).is_ok() {
        // SAFETY: the structure is plain data; the handler calls only what is safe in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = aborted;
            (action.sa_sigaction, action.sa_flags) = (handler as usize, libc::SA_SIGINFO);
            libc::sigaction(libc::SIGABRT, &action, std::ptr::null_mut());
        }
    }
    Ok(())
}

/// The command has ended.
pub fn has_ended(status: ExitStatus) {
    ENDED.store(status.into_raw().into(), Ordering::Release);
}

/// This thread traces it from now on: what it traces goes on by itself when the thread ends, unless it `is_indispensable`.
pub(crate) fn traces(is_indispensable: bool) {
    // SAFETY: the call reads no memory.
    let own = unsafe { libc::gettid() };
    TRACER.store(if is_indispensable { INDISPENSABLE } else { own }, Ordering::Release);
}

/// Nobody traces it any more.
pub(crate) fn traces_no_more() {
    TRACER.store(NO_TRACER, Ordering::Release);
}

/// Ends this thread, which traces, if another one was aborted; in a signal's handler.
pub(crate) fn end_if_aborted() {
    if IS_ABORTED.load(Ordering::Acquire) {
        end_thread();
    }
}

/// Whether a command was prepared, and has not begun.
pub fn may_execute_in_place() -> bool {
    PREPARED.get().is_some() && begun() == 0
}

/// Executes what was prepared in the place of weigh: as weigh was started, with the same PID. Returns only where that
/// fails: why; none if it may not.
pub fn execute_in_place() -> Option<SpawnError> {
    let prepared = PREPARED.get().filter(|_| may_execute_in_place())?;
    execute(prepared);
    let error = io::Error::last_os_error();
    let command = prepared.texts[0].first().map(|word| word.to_string_lossy().into_owned());
    Some(SpawnError::Exec { command: command.unwrap_or_default(), error })
}

/// Returns only where that fails.
fn execute(prepared: &Prepared) {
    end_waiting();
    inherited::restore();
    inherited::restore_attributes();
    Timers::restore_taken();
    inherited::restore_mask();
    let Prepared { arguments, environment, .. } = prepared;
    // SAFETY: both lists end with a null pointer and are kept; an exec has an argument at least.
    unsafe { libc::execvpe(arguments[0], arguments.as_ptr(), environment.as_ptr()) };
}

extern "C" fn aborted(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let begun = begun();
    // SAFETY: the kernel gives the handler a whole structure; the calls are safe in one.
    unsafe {
        let is_own = (*info).si_code == libc::SI_TKILL && (*info).si_pid() == libc::getpid();
        match PREPARED.get() {
            Some(prepared) if is_own && begun == 0 => {
                say(IN_PLACE);
                execute(prepared);
                libc::_exit(126);
            }
            Some(_) if is_own && TRACER.load(Ordering::Acquire) != INDISPENSABLE => {
                say(WAITS);
                IS_ABORTED.store(true, Ordering::Release);
                // Where that fails abort(3) ends weigh.
                if let_go_of_tracees() {
                    end_like(wait_for(begun));
                }
            }
            // abort(3) raises it again, and ends weigh.
            _ if is_own => {}
            _ if inherited::is_ignored(signal) => {}
            _ => end_by(signal),
        }
    }
}

fn say(text: &[u8]) {
    // SAFETY: the bytes live through the call, which is safe in a handler. Nothing can be done where it fails.
    let _ = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// The kernel lets go of what a thread has traced when that thread ends. If it is this one, another waits for the command.
/// False if there is none.
fn let_go_of_tracees() -> bool {
    // SAFETY: the calls are safe in a handler; the stack is the new thread's alone, for weigh is aborted once, and what
    // else of this thread it has, as its error number, nobody frees while weigh waits.
    unsafe {
        match TRACER.load(Ordering::Acquire) {
            NO_TRACER => true,
            tracer if tracer == libc::gettid() => {
                let flags = libc::CLONE_VM
                    | libc::CLONE_FS
                    | libc::CLONE_FILES
                    | libc::CLONE_SIGHAND
                    | libc::CLONE_THREAD
                    | libc::CLONE_SYSVSEM;
                let top = STACK.0.get().add(1).cast();
                if libc::clone(wait_and_end, top, flags, std::ptr::null_mut()) > 0 {
                    end_thread();
                }
                false
            }
            tracer => {
                libc::syscall(libc::SYS_tgkill, libc::getpid(), tracer, interrupting_signal());
                true
            }
        }
    }
}

/// For a thread that can be given no other.
#[repr(align(16))]
struct Stack(UnsafeCell<[u8; 1 << 16]>);

// SAFETY: one thread uses it, and no reference to it is made.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(UnsafeCell::new([0; 1 << 16]));

extern "C" fn wait_and_end(_: *mut c_void) -> c_int {
    end_like(wait_for(begun()))
}

/// Not the process.
fn end_thread() -> ! {
    loop {
        // SAFETY: the call reads no memory, and does not come back.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Passes signals on until the command has ended. Other threads may wait for it, too: it is left to them.
fn wait_for(pid: c_int) -> ExitStatus {
    // SAFETY: the structures are plain data, filled by the calls, which are safe in a handler.
    unsafe {
        // What served the job's programs is gone for them, as if weigh were.
        libc::syscall(libc::SYS_close_range, 3, c_int::MAX, 0);
        let mut taken: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut taken);
        libc::sigdelset(&mut taken, libc::SIGABRT);
        loop {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let known = libc::waitid(libc::P_PID, pid.cast_unsigned(), &mut info, options) == 0;
            if known && info.si_pid() == pid {
                return ended(info.si_code, info.si_status());
            }
            let ended = ENDED.load(Ordering::Acquire);
            if ended != NOT_ENDED {
                return ExitStatus::from_raw(ended as i32);
            }
            let signal = libc::sigtimedwait(&taken, &mut info, &PAUSE);
            if signal > 0 && signal != libc::SIGCHLD && info.si_code <= 0 {
                libc::kill(pid, signal);
            }
        }
    }
}

fn ended(code: c_int, status: c_int) -> ExitStatus {
    ExitStatus::from_raw(if code == libc::CLD_EXITED { status << 8 } else { status })
}

/// Ends weigh as the command ended; no more of it is done. Safe in a handler.
pub(crate) fn end_like(status: ExitStatus) -> ! {
    status.signal().into_iter().for_each(end_by);
    // SAFETY: the call is safe in a handler.
    unsafe { libc::_exit(status.code().unwrap_or(128)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ended_is_told_as_by_wait() {
        assert_eq!(ended(libc::CLD_EXITED, 7).code(), Some(7));
        assert_eq!(ended(libc::CLD_KILLED, libc::SIGTERM).signal(), Some(libc::SIGTERM));
        assert_eq!(ended(libc::CLD_DUMPED, libc::SIGSEGV).signal(), Some(libc::SIGSEGV));
    }

    #[test]
    fn nothing_is_executed_that_was_not_prepared() {
        assert!(execute_in_place().is_none());
        let with_nul = prepare(&["a\0b".into()]);
        assert!(matches!(with_nul, Err(SpawnError::NulByte(_))));
        assert!(execute_in_place().is_none());
    }
}
