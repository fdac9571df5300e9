//! What an epoll instance has to tell now.

use std::os::fd::OwnedFd;

use rustix::event::Timespec;
use rustix::event::epoll;

/// The keys of at most so many descriptors that are ready.
pub(super) fn woken(epoll: &OwnedFd, most: usize) -> Vec<u64> {
    let mut events = Vec::with_capacity(most);
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let buffer = rustix::buffer::spare_capacity(&mut events);
    match epoll::wait(epoll, buffer, Some(&now)) {
        Ok(_) => events.iter().map(|event: &epoll::Event| event.data.u64()).collect(),
        Err(_) => Vec::new(),
    }
}
