//! A filter of system calls that a process puts into force for itself and all its descendants.
//!
//! Emits nothing; a call that the filter picks out stops for the tracer, all others pass. It
//! cannot be taken back: without a tracer that asks for these stops such a call fails with ENOSYS.

use std::io;

use libc::{c_int, c_ulong};

/// A program for seccomp(2).
#[derive(Clone)]
pub struct CallFilter(Vec<libc::sock_filter>);

impl CallFilter {
    /// Of these instructions.
    pub fn new(program: Vec<libc::sock_filter>) -> CallFilter {
        CallFilter(program)
    }

    /// Its instructions.
    #[cfg(test)]
    pub fn program(&self) -> Vec<libc::sock_filter> {
        self.0.clone()
    }

    /// Puts it into force for this process; gives the error's number. May be called after a fork.
    ///
    /// Without CAP_SYS_ADMIN the kernel wants the process to give up the rights of set-user-ID
    /// programs first; traced by an ordinary user, it would not get them anyway.
    pub fn put_in_force(&self) -> Result<(), c_int> {
        let program =
            libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // SAFETY: the program lives as long as the calls, and has the length that is given.
        unsafe {
            let set = || {
                let mode = c_ulong::from(libc::SECCOMP_SET_MODE_FILTER);
                libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program)
            };
            if set() == 0 {
                return Ok(());
            }
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && set() == 0 {
                return Ok(());
            }
        }
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
    }

    /// Whether it can be put into force here, tried with a process that ends at once.
    pub fn try_out(&self) -> io::Result<()> {
        // SAFETY: the child calls only functions that are safe after a fork, and is waited for.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(self.put_in_force().err().unwrap_or(0));
            }
            if child < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut status = 0;
            while libc::waitpid(child, &mut status, 0) < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            match libc::WEXITSTATUS(status) {
                0 if libc::WIFEXITED(status) => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}
