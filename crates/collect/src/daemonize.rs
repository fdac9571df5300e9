//! Starts a program that is no child of weigh's.
//!
//! Without BPF weigh waits for all of its children, takes orphans for the job's, and reads what
//! all that it has waited for have used: a helper must not be among them. It gets a process group
//! of its own, so that what the terminal sends to the job's is not for it, weigh's standard error, and what else
//! weigh was started with. Refuses what the kernel refuses; that the program cannot be executed shows by its ends
//! of the pipes being closed.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use crate::inherited;

/// This very program.
const ITSELF: &std::ffi::CStr = c"/proc/self/exe";

/// Starts weigh again, with these arguments, standard input and standard output.
pub fn start_itself(arguments: &[OsString], input: &OwnedFd, output: &OwnedFd) -> io::Result<()> {
    let words: Vec<CString> = std::iter::once(Ok(CString::from(c"weigh")))
        .chain(arguments.iter().map(|word| CString::new(word.as_bytes())))
        .collect::<Result<_, _>>()?;
    let words: Vec<*const libc::c_char> =
        words.iter().map(|w| w.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: after a fork only functions are called that may be; `words` ends with a null pointer and outlives them.
    unsafe {
        let between = libc::fork();
        if between == 0 {
            libc::setpgid(0, 0);
            if libc::fork() == 0 {
                inherited::restore();
                inherited::restore_mask();
                if libc::dup2(input.as_raw_fd(), 0) == 0 && libc::dup2(output.as_raw_fd(), 1) == 1 {
                    libc::execv(ITSELF.as_ptr(), words.as_ptr());
                }
                libc::_exit(127);
            }
            libc::_exit(0);
        }
        if between < 0 {
            return Err(io::Error::last_os_error());
        }
        // The ends of children stay heard of meanwhile: the command may be the next of them.
        while libc::waitpid(between, std::ptr::null_mut(), 0) == -1
            && *libc::__errno_location() == libc::EINTR
        {}
        Ok(())
    }
}
