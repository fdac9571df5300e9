//! Other processes' accounts.

use std::ptr::NonNull;

use crate::{Account, Reason, Thread, is_of_this_layout, raw};

/// The accounts of another process, to be read only: a copy that the agent renews every 20 ms.
pub struct Peer(NonNull<raw::PeerHandle>);

impl Peer {
    /// Of the same user and group, or of any with CAP_SYS_PTRACE.
    pub fn open(thread: &Thread, pid: u32) -> Result<Peer, Reason> {
        let mut reason = Reason::Measured as u32;
        let pid = i32::try_from(pid).map_err(|_| Reason::NoProcess)?;
        // SAFETY: the handle is this thread's, and the number outlives the call.
        let peer = unsafe { raw::weigh_peer_open(thread.raw(), pid, &raw mut reason) };
        if !is_of_this_layout() {
            return Err(Reason::OtherVersion);
        }
        Reason::check(reason)?;
        NonNull::new(peer).map(Peer).ok_or(Reason::NoMemory)
    }

    /// The account of one of its tokens.
    pub fn read(&self, token: u64) -> Option<&Account> {
        // SAFETY: the accounts are mapped for as long as this value lives; atomic numbers all over.
        unsafe { raw::weigh_peer_read(self.0.as_ptr(), token).as_ref() }
    }

    /// One account after the other.
    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        let mut position = 0;
        std::iter::from_fn(move || {
            // SAFETY: as above; the position outlives the call.
            unsafe { raw::weigh_peer_next(self.0.as_ptr(), &raw mut position).as_ref() }
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and nothing borrows its accounts any more.
        unsafe { raw::weigh_peer_close(self.0.as_ptr()) }
    }
}
