//! One program that is served: its connection, its page, and who it is.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{RecvFlags, SendFlags, recv};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_collect::calls::clients::{Copy, Page, Serial};
use weigh_collect::calls::{ANYTHING, KernelCalls};
use weigh_schema::library::Reason;
use weigh_wire::datagram::{Datagram, MOST_BYTES, is_profile, parse};
use weigh_wire::library::reply;
use weigh_wire::{Peer, peer_of, receive_parts, send_parts};

/// A program that is served.
pub struct Client {
    connection: OwnedFd,
    process: OwnedFd,
    /// Who it is.
    pub peer: Peer,
    /// The user who is behind it, to whom its place is counted.
    pub user: u32,
    /// What it shares with the kernel side, once it has asked for it.
    pub page: Option<(Page, Serial)>,
    /// The parts of the kernel that it wants, and those that it does not want any more and has something
    /// under way in, perhaps.
    wants: u64,
    lingers: u64,
    /// Its accounts, for those who read them, and how often each of them has asked.
    copy: Option<Copy>,
    readers: BTreeMap<u64, u32>,
    /// Tells it that something has settled, once it has asked for that.
    told_by: Option<OwnedFd>,
    /// What it is told once what it wants is attached.
    pub waits_for: Option<Attached>,
}

/// What a program asked for that has to be attached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// Its page.
    Page,
    /// Nothing but the parts.
    Parts,
}

/// What came of looking for a message.
pub enum Received {
    /// There is none now.
    Nothing,
    /// The program has gone.
    End,
    /// A message, or why it is none.
    Message(Result<Datagram, Reason>),
    /// The profile of its regions.
    Profile(OwnedFd),
}

impl Client {
    /// The process that has connected. None if it has ended.
    pub fn new(connection: OwnedFd, calls: &mut KernelCalls) -> io::Result<Client> {
        let peer = peer_of(&connection)?;
        let pid = Pid::from_raw(peer.pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        // Without this the connection, which children inherit, would outlive the process.
        let process = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|error| {
            // Else it would take the agent for gone.
            if *error != rustix::io::Errno::SRCH {
                turn_away(&connection, Reason::TooMany);
            }
        })?;
        let found = calls.credentials_of(connection.as_fd(), peer.pid, None).ok().flatten();
        // Now that it is held: its number may be another process's by now.
        let found = found.filter(|found| found.has_connected).ok_or(io::ErrorKind::NotFound)?;
        Ok(Client {
            connection,
            process,
            peer,
            user: found.behind,
            page: None,
            wants: 0,
            lingers: 0,
            copy: None,
            readers: BTreeMap::new(),
            told_by: None,
            waits_for: None,
        })
    }

    /// Readable when there is a message, or an end.
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// Readable when the process has ended.
    pub fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// The next message. Descriptors that come with it are closed, but for that of a profile.
    pub fn receive(&self) -> Received {
        receive(&self.connection)
    }

    /// Its profile, if that is the next message.
    pub fn take_profile(&self) -> Option<OwnedFd> {
        take_profile(&self.connection)
    }

    /// Answers. A program that does not take its answers is one that has gone.
    pub fn answer(
        &self,
        reason: Reason,
        value: u64,
        flags: u64,
        with: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        send(&self.connection, &reply(reason, value, flags), with.as_slice())
    }

    /// Answers, with descriptors.
    pub fn answer_with(&self, value: u64, with: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(&self.connection, &reply(Reason::Measured, value, 0), with)
    }

    /// It wants these parts of the kernel from now on.
    pub fn want(&mut self, parts: u64) {
        self.lingers = (self.lingers | self.wants) & !parts;
        self.wants = parts;
    }

    /// The parts that are to be attached for it: what is under way comes to its end.
    pub fn wanted(&self) -> u64 {
        let parts = ANYTHING | self.wants | self.lingers;
        if self.page.is_some() { parts } else { 0 }
    }

    /// Looks whether anything is under way still for which it keeps parts attached: at all of its accounts.
    pub fn look_at_lingering(&mut self) {
        if self.page.as_ref().is_none_or(|(page, _)| !page.has_pending()) {
            self.lingers = 0;
        }
    }

    /// Whether its accounts are read by others, or it watches some of them.
    pub fn is_looked_at(&self) -> bool {
        self.copy.is_some() || self.told_by.is_some()
    }

    /// Whether anybody reads its accounts.
    pub fn is_read(&self) -> bool {
        self.copy.is_some()
    }

    /// Whether the process that connected is there still.
    pub fn is_alive(&self) -> bool {
        let mut ended = [PollFd::new(&self.process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ended, Some(&now)).is_ok_and(|ended| ended == 0)
    }

    /// Whether it keeps parts attached that it does not want any more.
    pub fn lingers(&self) -> bool {
        self.lingers != 0
    }

    /// Its accounts, for another program, by that one's key.
    pub fn read_by(&mut self, reader: u64) -> io::Result<BorrowedFd<'_>> {
        if self.copy.is_none() {
            self.copy = Some(Copy::new()?);
        }
        let times = self.readers.entry(reader).or_default();
        *times = times.saturating_add(1);
        self.renew_copy();
        self.copy.as_ref().map(Copy::descriptor).ok_or(io::ErrorKind::NotFound.into())
    }

    /// A reader has taken leave once; or for good.
    pub fn left_by(&mut self, reader: u64, for_good: bool) {
        if let Some(times) = self.readers.get_mut(&reader) {
            *times -= 1;
            if for_good || *times == 0 {
                self.readers.remove(&reader);
            }
        }
        if self.readers.is_empty() {
            self.copy = None;
        }
    }

    /// Brings what others read up to date. Whether there is anybody.
    pub fn renew_copy(&self) -> bool {
        if let (Some((page, _)), Some(copy)) = (&self.page, &self.copy) {
            copy.renew(page);
        }
        self.copy.is_some()
    }

    /// The descriptor by which it is told that something has settled.
    pub fn told_by(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.told_by.is_none() {
            self.told_by = Some(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        }
        self.told_by.as_ref().map(OwnedFd::as_fd).ok_or(io::ErrorKind::NotFound.into())
    }

    /// Looks for what has settled, and for limits that are passed, and tells.
    pub fn settle(&self, every_ms: u64) -> Watched {
        let (Some((page, _)), Some(told_by)) = (&self.page, &self.told_by) else {
            return Watched::default();
        };
        let (settled, accounts) = page.settle(every_ms);
        let (passed, limits) = page.pass_limits();
        if settled + passed > 0 {
            // Full only if nobody has looked for 2^64 times.
            let _ = rustix::io::write(told_by, &u64::from(settled + passed).to_ne_bytes());
        }
        Watched { accounts, limits }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.renew_copy();
        if let Some((page, _)) = &self.page {
            page.set_served(false);
        }
    }
}

/// What a program waits for still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Accounts that have not settled.
    pub accounts: u32,
    /// Limits that are not passed.
    pub limits: u32,
}

impl Watched {
    /// All of it.
    pub fn all(self) -> u32 {
        self.accounts + self.limits
    }
}

/// The profile that a program has sent, if that is the next message.
pub fn take_profile(connection: &OwnedFd) -> Option<OwnedFd> {
    let mut bytes = [0; MOST_BYTES + 1];
    let (length, _) = recv(connection, &mut bytes, RecvFlags::DONTWAIT | RecvFlags::PEEK).ok()?;
    match is_profile(&bytes[..length]).then(|| receive(connection))? {
        Received::Profile(file) => Some(file),
        _ => None,
    }
}

/// The next message of a connection.
pub fn receive(connection: &OwnedFd) -> Received {
    // One byte more than a message has, to see that it is too long.
    let mut bytes = [0; MOST_BYTES + 1];
    match receive_parts(connection, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Received::End,
        Ok((length, files)) => message(&bytes[..length], files),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Received::Nothing,
            // More descriptors than any message has.
            io::ErrorKind::InvalidData => Received::Message(Err(Reason::NotUnderstood)),
            _ => Received::End,
        },
    }
}

fn message(bytes: &[u8], mut files: Vec<OwnedFd>) -> Received {
    match files.pop().filter(|_| is_profile(bytes) && files.is_empty()) {
        Some(file) => Received::Profile(file),
        None => Received::Message(parse(bytes)),
    }
}

/// Says why to one who is not served.
pub fn turn_away(connection: &OwnedFd, reason: Reason) {
    let _ = send(connection, &reply(reason, 0, 0), &[]);
}

/// Never waits: a client that takes no answers is none.
pub fn send(to: &OwnedFd, bytes: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_parts(to, bytes, with, SendFlags::DONTWAIT).map(drop)
}
