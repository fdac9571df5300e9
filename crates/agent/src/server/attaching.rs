//! What programs want of the kernel: attached by a thread of its own, while others are served.
//!
//! A program that has asked gets its answer once what it wants is attached, or cannot be. Until then nothing else of
//! it is looked at. Also what programs leave that have ended by the time they are heard: their profiles.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use weigh_collect::calls::KernelCalls;
use weigh_schema::library::Reason;
use weigh_wire::peer_of;

use super::{LOOKS_AT_ONCE, Server};
use crate::client::{Attached, Client};
use crate::served::pass_profile;

impl Server {
    /// Answers a program as soon as what it wants is attached: now, if it is.
    pub(super) fn answer_once_attached(
        &mut self,
        key: u64,
        with: Attached,
        calls: &mut KernelCalls,
    ) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
        client.waits_for = Some(with);
        hear(&self.epoll, client.connection(), key * 2, epoll::EventFlags::empty())?;
        self.attach_wanted(calls);
        Ok(())
    }

    /// Whether this is a program that has no answer yet, or its process.
    pub(super) fn waits(&self, key: u64) -> bool {
        self.clients.get(&(key / 2)).is_some_and(|client| client.waits_for.is_some())
    }

    /// Has attached what anybody wants now, and tells all what is attached.
    pub(super) fn attach_wanted(&mut self, calls: &mut KernelCalls) {
        let wanted = self.wanted();
        let some_linger = self.clients.values().any(Client::lingers);
        let parts = self.wants.want(wanted, some_linger);
        if let Some(parts) = parts.filter(|_| self.attaching.is_none()) {
            self.begin_attach(parts, calls);
        }
        self.tell_of_parts(calls.available_parts(), calls.attached_parts());
        self.answer_attached(None, calls);
    }

    /// Lets go of what nobody wants any more; those who are served know before.
    pub(super) fn let_go(&mut self, calls: &mut KernelCalls) {
        let lingering = self.clients.values_mut().filter(|client| client.lingers());
        lingering.take(LOOKS_AT_ONCE).for_each(Client::look_at_lingering);
        if self.attaching.is_some() {
            return self.wants.look_again(true);
        }
        let wanted = self.wanted();
        let some_linger = self.clients.values().any(Client::lingers);
        let parts = self.wants.look(wanted, some_linger);
        self.tell_of_parts(
            calls.available_parts(),
            calls.attached_parts() & (parts | calls.held()),
        );
        self.begin_attach(parts, calls);
    }

    /// The kernel side has seen that other programs are needed for packets, or fewer.
    pub(super) fn adapt(&mut self, calls: &mut KernelCalls) {
        if calls.look_at_packets() {
            self.is_to_adapt = true;
            self.attach_anew(calls);
        }
    }

    /// What was attached is, or is not.
    pub(super) fn end_attach(&mut self, calls: &mut KernelCalls) {
        let Some(ended) = calls.end_attach() else { return };
        let parts = self.attaching.take().unwrap_or_default();
        // Where it failed all stays as it was.
        let attached = if ended.is_ok() { parts } else { calls.attached_parts() };
        self.wants.are_attached(attached);
        self.wants.let_go_of_all_but(self.wanted());
        self.tell_of_parts(calls.available_parts(), calls.attached_parts());
        self.answer_attached(ended.is_err().then_some(parts), calls);
        if self.clients.values().any(|client| client.waits_for.is_some()) {
            self.attach_wanted(calls);
        }
        self.attach_anew(calls);
    }

    fn attach_anew(&mut self, calls: &mut KernelCalls) {
        if self.is_to_adapt && self.attaching.is_none() {
            self.begin_attach(self.wants.attached(), calls);
        }
    }

    fn begin_attach(&mut self, parts: u64, calls: &mut KernelCalls) {
        self.is_to_adapt = false;
        self.attaching = Some(parts);
        // What is about to go is nobody's any more.
        self.wants.are_attached(self.wants.attached() & parts);
        calls.begin_attach(parts);
        // There may have been nothing to do.
        self.end_attach(calls);
    }

    /// Answers those whose parts are attached, and those who wait for some that cannot be.
    fn answer_attached(&mut self, failed: Option<u64>, calls: &mut KernelCalls) {
        let attached = self.wants.attached();
        let is_among = |client: &Client, parts: u64| client.wanted() & !parts == 0;
        let mut told = Vec::new();
        for (key, client) in &self.clients {
            let Some(with) = client.waits_for else { continue };
            let answered = match with {
                _ if failed.is_some_and(|parts| is_among(client, parts)) => {
                    client.answer(Reason::Kernel, 0, 0, None)
                }
                _ if !is_among(client, attached) => continue,
                Attached::Page => self.give_page(client, calls),
                Attached::Parts => client.answer(Reason::Measured, 0, 0, None),
            };
            told.push((*key, answered.is_ok()));
        }
        for (key, is_there) in told {
            let Some(client) = self.clients.get_mut(&key) else { continue };
            client.waits_for = None;
            let heard = hear(&self.epoll, client.connection(), key * 2, epoll::EventFlags::IN);
            if !is_there || heard.is_err() {
                self.drop_client(key, calls);
            }
        }
    }

    fn wanted(&self) -> u64 {
        self.clients.values().map(Client::wanted).fold(0, |all, parts| all | parts)
    }

    fn tell_of_parts(&self, available: u64, attached: u64) {
        for (page, _) in self.clients.values().filter_map(|client| client.page.as_ref()) {
            page.set_parts(available, attached);
        }
    }

    /// A profile is there before its program is known.
    pub(super) fn pass_left_profile(
        &mut self,
        file: OwnedFd,
        connection: &OwnedFd,
        calls: &mut KernelCalls,
    ) {
        let Ok(peer) = peer_of(connection) else { return };
        let found = calls.credentials_of(connection.as_fd(), peer.pid, None).ok().flatten();
        let user = found.filter(|found| found.has_connected).map_or(peer.uid, |found| found.behind);
        pass_profile(file, (peer, user), self.door.as_ref(), &mut self.pace);
    }

    /// A process has ended: what it has said last may be its profile.
    pub(super) fn end_process(&mut self, key: u64, calls: &mut KernelCalls) {
        if let Some(client) = self.clients.get(&key)
            && let Some(file) = client.take_profile()
        {
            let from = (client.peer, client.user);
            pass_profile(file, from, self.door.as_ref(), &mut self.pace);
        }
        self.drop_client(key, calls);
    }
}

/// From now on it is told of these events of a program's, and of its end.
fn hear(
    epoll: &OwnedFd,
    connection: BorrowedFd<'_>,
    key: u64,
    events: epoll::EventFlags,
) -> io::Result<()> {
    Ok(epoll::modify(epoll, connection, epoll::EventData::new_u64(key), events)?)
}

#[cfg(test)]
mod tests;
