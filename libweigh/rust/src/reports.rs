//! Reports of a `weigh trace` that runs: what several events say together.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use crate::{Reason, raw};

/// A reader of reports, each a JSON object of `weigh.synthesis/1`. See `weigh.h`.
pub struct Reports {
    handle: NonNull<raw::ReportsHandle>,
}

// SAFETY: libweigh keeps nothing of a reader in the thread that opened it; it is one thread's at a time, which `&mut`
// and not being `Sync` see to.
unsafe impl Send for Reports {}

impl Reports {
    /// Reports of the stream of that process, so often.
    pub fn open(pid: u32, every: Duration) -> Result<Reports, Reason> {
        let pid = i32::try_from(pid).map_err(|_| Reason::NoStream)?;
        Reports::begin(every, |every, reason| {
            // SAFETY: the other outlives the call.
            unsafe { raw::weigh_reports_open(pid, every, reason) }
        })
    }

    /// Of the stream that listens at that socket.
    pub fn open_at(path: &Path, every: Duration) -> Result<Reports, Reason> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Reason::NoStream)?;
        Reports::begin(every, |every, reason| {
            // SAFETY: both outlive the call.
            unsafe { raw::weigh_reports_open_at(path.as_ptr(), every, reason) }
        })
    }

    fn begin(
        every: Duration,
        open: impl FnOnce(u64, *mut u32) -> *mut raw::ReportsHandle,
    ) -> Result<Reports, Reason> {
        let mut reason = Reason::Measured as u32;
        let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        let handle = open(every, &raw mut reason);
        Reason::check(reason)?;
        NonNull::new(handle).map(|handle| Reports { handle }).ok_or(Reason::NoMemory)
    }

    /// The next report, good until the next call. None if there is none within that time (none: it waits until there is
    /// one), or the stream has ended: [`Reports::has_ended`].
    pub fn next(&mut self, timeout: Option<Duration>) -> Option<&str> {
        let left = timeout.map_or(-1, |time| i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
        // SAFETY: the reader is open, and this thread's alone for now.
        let found = unsafe { raw::weigh_reports_next(self.handle.as_ptr(), left) };
        if found.is_null() {
            return None;
        }
        // SAFETY: a text that ends, and stays until the next call, which `&mut` keeps apart.
        unsafe { CStr::from_ptr(found) }.to_str().ok()
    }

    /// Whether the stream has ended, and all was read.
    pub fn has_ended(&self) -> bool {
        // SAFETY: the reader is open.
        unsafe { raw::weigh_reports_why(self.handle.as_ptr()) == Reason::Gone as u32 }
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is the reader's, which outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(raw::weigh_reports_fd(self.handle.as_ptr())) }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and nothing uses it after this.
        unsafe { raw::weigh_reports_close(self.handle.as_ptr()) }
    }
}
