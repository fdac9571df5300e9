//! The socket, and what is done for those who connect to it.

mod attaching;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::fs::unlink;
use weigh_collect::calls::KernelCalls;
use weigh_collect::calls::clients::Page;
use weigh_collect::memory_reserve;
use weigh_schema::library::{CONFIGURED, FOLLOWS_CALLS, Followed, Reason};
use weigh_schema::subsystem::Account;

use crate::access::{self, may_look};
use crate::backoff::Backoff;
use crate::client::{Attached, Client, Received, take_profile};
use crate::configured::{self, ConfiguredFile, LeftOut};
use crate::follow::Sessions;
use crate::listener::{ServerError, accept, listen_at, spare};
use crate::quota::{COPIES, PROGRAMS, SlotQuota};
use crate::rate_limit::RateLimit;
use crate::rounds::Rounds;
use crate::served::{pass_profile, pass_to_streams, served};
use crate::streams::StreamDoor;
use crate::subscriptions::Subscriptions;
use weigh_wire::AgentRequest;
use weigh_wire::datagram::Datagram;
use weigh_wire::library::Request;

/// Whom a server serves, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many programs there may be.
    pub programs: SlotQuota,
    /// How many of them may be read by others.
    pub copies: SlotQuota,
    /// Whether the accounts of programs are added up, for the server's host.
    pub adds_up: bool,
    /// Whether it follows users' jobs as well: it starts this very program for that.
    pub follows: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { programs: PROGRAMS, copies: COPIES, adds_up: false, follows: false }
    }
}

/// Serves programs with libweigh at a socket.
pub struct Server {
    listener: OwnedFd,
    /// What is to be taken away in the end.
    path: Option<PathBuf>,
    epoll: OwnedFd,
    looks: Backoff,
    wants: Subscriptions,
    /// The parts of the change that is under way.
    attaching: Option<u64>,
    /// Whether what is attached for packets is to change.
    is_to_adapt: bool,
    spare: Option<OwnedFd>,
    clients: BTreeMap<u64, Client>,
    rounds: Rounds,
    /// Clients that are to be looked at in this look, and how many of those before wait for something still.
    to_look_at: VecDeque<u64>,
    waiting: u32,
    /// Of these, limits that are not passed.
    limits: u32,
    /// When it began.
    look_began: Instant,
    last_key: u64,
    last_ticket: u64,
    settings: Settings,
    pace: RateLimit,
    /// Pages of programs that have left, and whose place they take as long as anybody keeps them.
    left: BTreeMap<u32, u32>,
    looked_at_left: Instant,
    /// The accounts of those who have left, by token.
    sums: BTreeMap<u64, Account>,
    sessions: Sessions,
    /// Whether it hears of what the kernel side notices.
    hears_kernel: bool,
    left_out: LeftOut,
    configured_file: ConfiguredFile,
    /// Where clients of streams go, and whether who is served has changed since they were told.
    door: Option<StreamDoor>,
    is_changed: bool,
}

/// What an event is about: these, and else a client, by its key, doubled; odd for its process.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const GRACE: u64 = u64::MAX - 2;
const KERNEL: u64 = u64::MAX - 3;
const ATTACHED: u64 = u64::MAX - 4;
/// More events do not wait at once: each client has two.
const MOST_EVENTS: usize = 2048;
/// It is looked no more often for pages that programs keep that have left.
const PAUSE_OF_LEFT: Duration = Duration::from_millis(20);
/// So many programs' accounts are looked through before others are served.
const LOOKS_AT_ONCE: usize = 4;
/// With this bit it is one who follows a job.
const SESSION: u64 = 1 << 62;

impl Server {
    /// Makes a socket at a path and listens there. Every process that can reach the socket is served.
    pub fn new(path: &Path, settings: Settings) -> Result<Server, ServerError> {
        let mut server = Server::at(listen_at(path)?, settings)?;
        server.path = Some(path.to_owned());
        Ok(server)
    }

    /// Serves those who come to a socket that somebody else has made.
    pub fn at(listener: OwnedFd, settings: Settings) -> Result<Server, ServerError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let (looks, wants) = (Backoff::new()?, Subscriptions::new()?);
        watch(&epoll, listener.as_fd(), LISTENER)?;
        watch(&epoll, looks.descriptor(), TIMER)?;
        watch(&epoll, wants.descriptor(), GRACE)?;
        Ok(Server {
            listener,
            path: None,
            epoll,
            looks,
            wants,
            attaching: None,
            is_to_adapt: false,
            spare: spare(),
            clients: BTreeMap::new(),
            rounds: Rounds::default(),
            to_look_at: VecDeque::new(),
            waiting: 0,
            limits: 0,
            look_began: Instant::now(),
            last_key: 0,
            last_ticket: 0,
            settings,
            pace: RateLimit::default(),
            left: BTreeMap::new(),
            looked_at_left: Instant::now(),
            sums: BTreeMap::new(),
            sessions: Sessions::default(),
            hears_kernel: false,
            left_out: LeftOut::default(),
            configured_file: ConfiguredFile::default(),
            door: None,
            is_changed: false,
        })
    }

    /// Programs are told why these parts are not measured.
    pub fn leave_out(&mut self, parts: LeftOut) {
        self.left_out = parts;
    }

    /// Clients come to these streams from now on.
    pub fn set_door(&mut self, door: StreamDoor) {
        self.door = Some(door);
    }

    /// Readable when there is something to handle.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// How many programs are served.
    pub fn clients(&self) -> usize {
        self.clients.values().filter(|client| client.page.is_some()).count()
    }

    /// The sums of the accounts of all programs, by token, if they are added up.
    pub fn sums(&self) -> BTreeMap<u64, Account> {
        let mut sums = self.sums.clone();
        let pages = self.clients.values().filter_map(|client| client.page.as_ref());
        pages.filter(|_| self.settings.adds_up).for_each(|(page, _)| add_up(&mut sums, page));
        sums
    }

    /// Does what there is to do now, and no more than some of it: it never waits, and of each user it serves one
    /// request at most.
    pub fn handle(&mut self, calls: &mut KernelCalls) -> Result<(), ServerError> {
        if !self.hears_kernel {
            watch(&self.epoll, calls.attention_fd(), KERNEL)?;
            watch(&self.epoll, calls.attached_fd(), ATTACHED)?;
            self.hears_kernel = true;
        }
        let mut events = Vec::with_capacity(MOST_EVENTS);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut requests = Vec::new();
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept(calls),
                TIMER => self.look(),
                GRACE => self.let_go(calls),
                KERNEL => self.adapt(calls),
                ATTACHED => self.end_attach(calls),
                key if key & SESSION != 0 => {
                    self.sessions.end(key & !SESSION);
                    self.is_changed = true;
                }
                // Nothing else is heard of a program that waits for its answer.
                key if self.waits(key) => self.drop_client(key / 2, calls),
                key => {
                    let client = self.clients.get(&(key / 2));
                    requests.extend(client.map(|client| (client.user, key)));
                }
            }
        }
        for key in self.rounds.choose(&requests) {
            match key % 2 {
                1 => self.end_process(key / 2, calls),
                _ => self.serve(key / 2, calls),
            }
        }
        if let Some(door) = self.door.as_ref().filter(|_| std::mem::take(&mut self.is_changed)) {
            door.post(served(self.clients.values(), self.sessions.users()));
        }
        Ok(())
    }

    fn accept(&mut self, calls: &mut KernelCalls) {
        if let Some(connection) = accept(&self.listener, &mut self.spare) {
            self.take_in(connection, calls);
        }
    }

    fn take_in(&mut self, connection: OwnedFd, calls: &mut KernelCalls) {
        // It may have ended since.
        if let Some(file) = take_profile(&connection) {
            return self.pass_left_profile(file, &connection, calls);
        }
        let client = match Client::new(connection, calls) {
            Ok(client) => client,
            // It has ended.
            Err(_) => return,
        };
        // Clients that are served already go on to be.
        if memory_reserve::is_short() {
            let _ = client.answer(Reason::NoMemory, 0, 0, None);
            return;
        }
        if !self.has_room(client.user, calls) {
            let _ = client.answer(Reason::TooMany, 0, 0, None);
            return;
        }
        self.last_key += 1;
        let key = self.last_key;
        let watched = watch(&self.epoll, client.connection(), key * 2)
            .and_then(|()| watch(&self.epoll, client.process(), key * 2 + 1));
        if watched.is_ok() {
            self.clients.insert(key, client);
        }
    }

    /// Whether there is a place for one more program of a user's.
    fn has_room(&mut self, user: u32, calls: &KernelCalls) -> bool {
        let has_room = |server: &Server| {
            let holders = server.clients.values().map(|client| client.user);
            server.settings.programs.has_room(user, holders.chain(server.left.values().copied()))
        };
        if has_room(self) || self.left.is_empty() || self.looked_at_left.elapsed() < PAUSE_OF_LEFT {
            return has_room(self);
        }
        if let Ok(living) = calls.living_pages() {
            self.left.retain(|page, _| living.contains(page));
        }
        self.looked_at_left = Instant::now();
        has_room(self)
    }

    fn drop_client(&mut self, key: u64, calls: &mut KernelCalls) {
        let Some(client) = self.clients.remove(&key) else { return };
        self.is_changed |= client.page.is_some();
        for other in self.clients.values_mut() {
            other.left_by(key, true);
        }
        if let Some((page, serial)) = &client.page {
            calls.expel(*serial);
            self.left.extend(page.number().map(|number| (number, client.user)));
            if self.settings.adds_up {
                add_up(&mut self.sums, page);
            }
            // What only it wanted is let go of after a while.
            self.attach_wanted(calls);
        }
    }

    fn serve(&mut self, key: u64, calls: &mut KernelCalls) {
        let Some(client) = self.clients.get(&key) else { return };
        let answered = match client.receive() {
            Received::Nothing => return,
            Received::End => return self.drop_client(key, calls),
            Received::Profile(file) => {
                let from = (client.peer, client.user);
                pass_profile(file, from, self.door.as_ref(), &mut self.pace);
                Ok(())
            }
            Received::Message(Err(reason)) => client.answer(reason, 0, 0, None),
            Received::Message(Ok(Datagram::Library(request))) => {
                self.serve_library(key, request, calls)
            }
            Received::Message(Ok(Datagram::Agent(AgentRequest::Follow(what)))) => {
                self.follow(key, what)
            }
            Received::Message(Ok(Datagram::Agent(AgentRequest::Watch))) => {
                pass_to_streams(client, self.door.as_ref(), &mut self.pace)
            }
        };
        if answered.is_err() {
            self.drop_client(key, calls);
        }
    }

    fn serve_library(
        &mut self,
        key: u64,
        request: Request,
        calls: &mut KernelCalls,
    ) -> io::Result<()> {
        match request {
            Request::Enter { parts } => self.enter(key, parts, calls),
            Request::Want { parts } => self.want(key, parts, calls),
            Request::Join { tid, slot } => self.join(key, tid, slot, calls),
            Request::Count { tid, counters } => self.count(key, tid, counters, calls),
            Request::Peer { pid } => self.peer(key, pid, calls),
            Request::Leave { pid } => self.leave(key, pid),
            Request::Watch => self.watch(key),
            Request::Configured => self.configured(key, calls),
        }
    }

    fn enter(&mut self, key: u64, parts: u64, calls: &mut KernelCalls) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
        if client.page.is_none() {
            let user = client.user;
            if user != 0 && !self.pace.allows(user, Instant::now()) {
                return client.answer(Reason::TooMany, 0, 0, None);
            }
            let Ok(page) = Page::new() else {
                return client.answer(Reason::NoMemory, 0, 0, None);
            };
            match calls.admit(&page) {
                Ok(Some(serial)) => {
                    client.page = Some((page, serial));
                    self.is_changed = true;
                }
                Ok(None) => return client.answer(Reason::TooMany, 0, 0, None),
                Err(_) => return client.answer(Reason::Kernel, 0, 0, None),
            }
        }
        client.want(parts);
        self.answer_once_attached(key, Attached::Page, calls)
    }

    /// Gives a program its page: what it wants is attached.
    fn give_page(&self, client: &Client, calls: &KernelCalls) -> io::Result<()> {
        let Some((page, _)) = &client.page else {
            return client.answer(Reason::Kernel, 0, 0, None);
        };
        page.set_served(true);
        let follows = if calls.follows_calls() { FOLLOWS_CALLS } else { 0 };
        let is_configured = configured::is_any(calls, &self.left_out);
        let flags = follows | if is_configured { CONFIGURED } else { 0 };
        client.answer(Reason::Measured, 0, flags, Some(page.descriptor()))
    }

    fn want(&mut self, key: u64, parts: u64, calls: &mut KernelCalls) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
        if client.page.is_none() {
            return client.answer(Reason::NotUnderstood, 0, 0, None);
        }
        client.want(parts);
        self.answer_once_attached(key, Attached::Parts, calls)
    }

    /// Tells what the configuration has made of the parts of the kernel.
    fn configured(&mut self, key: u64, calls: &KernelCalls) -> io::Result<()> {
        let Some(client) = self.clients.get(&key) else { return Ok(()) };
        if client.page.is_none() {
            return client.answer(Reason::NotUnderstood, 0, 0, None);
        }
        match self.configured_file.open(calls, &self.left_out) {
            Ok(file) => client.answer(Reason::Measured, 0, 0, Some(file.as_fd())),
            Err(_) => client.answer(Reason::NoMemory, 0, 0, None),
        }
    }

    fn join(&mut self, key: u64, tid: u32, slot: u32, calls: &mut KernelCalls) -> io::Result<()> {
        let Some(client) = self.clients.get(&key) else { return Ok(()) };
        let Some((_, serial)) = &client.page else {
            return client.answer(Reason::NotUnderstood, 0, 0, None);
        };
        let here = match own_thread(client, tid, calls) {
            Ok(here) => here,
            Err(reason) => return client.answer(reason, 0, 0, None),
        };
        self.last_ticket += 1;
        match calls.join_thread(*serial, here, slot, self.last_ticket) {
            // It may have executed another program meanwhile: then nothing of it is accounted, nor told.
            Ok(()) if own_thread(client, tid, calls).is_err() => Err(gone()),
            Ok(()) => client.answer(Reason::Measured, self.last_ticket, 0, None),
            Err(_) => client.answer(Reason::Kernel, 0, 0, None),
        }
    }

    /// Counters of a thread are its program's to read: nothing of them stays here.
    fn count(&self, key: u64, tid: u32, counters: u64, calls: &mut KernelCalls) -> io::Result<()> {
        let Some(client) = self.clients.get(&key) else { return Ok(()) };
        if client.page.is_none() {
            return client.answer(Reason::NotUnderstood, 0, 0, None);
        }
        let here = match own_thread(client, tid, calls) {
            Ok(here) => here,
            Err(reason) => return client.answer(reason, 0, 0, None),
        };
        match calls.counters_of_thread(here, counters) {
            Ok(_) if own_thread(client, tid, calls).is_err() => Err(gone()),
            Ok((0, _)) => client.answer(Reason::NoCounter, 0, 0, None),
            Ok((found, group)) => {
                let group: Vec<BorrowedFd<'_>> = group.iter().map(|event| event.as_fd()).collect();
                client.answer_with(found, &group)
            }
            Err(_) => client.answer(Reason::Kernel, 0, 0, None),
        }
    }

    fn peer(&mut self, key: u64, pid: u32, calls: &mut KernelCalls) -> io::Result<()> {
        let Some(reader) = self.clients.get(&key) else { return Ok(()) };
        let user = reader.user;
        let target = match self.target(reader, pid, calls) {
            Ok(target) => target,
            Err(reason) => return reader.answer(reason, 0, 0, None),
        };
        let read = self.clients.values().filter(|client| client.is_read());
        if self.clients.get(&target).is_none_or(|target| !target.is_read())
            && !self.settings.copies.has_room(user, read.map(|client| client.user))
        {
            return reader.answer(Reason::TooMany, 0, 0, None);
        }
        let Some(target) = self.clients.get_mut(&target) else { return Ok(()) };
        let copy = target.read_by(key).and_then(|copy| copy.try_clone_to_owned());
        let Some(reader) = self.clients.get(&key) else { return Ok(()) };
        match copy {
            Ok(copy) => reader.answer(Reason::Measured, 0, 0, Some(copy.as_fd()))?,
            Err(_) => reader.answer(Reason::NoMemory, 0, 0, None)?,
        }
        self.looks.soon();
        Ok(())
    }

    /// The program that another one may read: as it is now, and as it was when it connected.
    fn target(&self, reader: &Client, pid: u32, calls: &mut KernelCalls) -> Result<u64, Reason> {
        let mut look = |pid: u32| {
            let found = calls.credentials_of(reader.connection(), pid, None);
            found.map_err(|_| Reason::Kernel)
        };
        if look(reader.peer.pid)?.ok_or(Reason::NoThread)?.level > 0 {
            return Err(Reason::NoThread);
        }
        let mut found = self.clients.iter().filter(|(_, c)| c.peer.pid == pid && c.page.is_some());
        let (key, target) = found.next().ok_or(Reason::NoProcess)?;
        let found = look(pid)?.filter(|_| target.is_alive()).ok_or(Reason::NoProcess)?;
        let (caller, process) = access::sides(&found);
        let was_own = (caller.uid, caller.gid) == (target.peer.uid, target.peer.gid);
        let may = may_look(&caller, &process) && (was_own || found.may_trace);
        if may { Ok(*key) } else { Err(Reason::NotPermitted) }
    }

    fn leave(&mut self, key: u64, pid: u32) -> io::Result<()> {
        for target in self.clients.values_mut().filter(|client| client.peer.pid == pid) {
            target.left_by(key, false);
        }
        let Some(reader) = self.clients.get(&key) else { return Ok(()) };
        reader.answer(Reason::Measured, 0, 0, None)
    }

    fn watch(&mut self, key: u64) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
        if client.page.is_none() {
            return client.answer(Reason::NotUnderstood, 0, 0, None);
        }
        let told_by = client.told_by()?.try_clone_to_owned()?;
        client.answer(Reason::Measured, 0, 0, Some(told_by.as_fd()))?;
        self.looks.often();
        // It finds at once that it is looked.
        client.settle(self.looks.every());
        self.looks.soon();
        Ok(())
    }

    /// Starts one who follows a job, and puts the two through to each other.
    fn follow(&mut self, key: u64, what: Followed) -> io::Result<()> {
        let Some(client) = self.clients.get(&key) else { return Ok(()) };
        let user = client.user;
        if !self.settings.follows {
            return client.answer(Reason::NotPermitted, 0, 0, None);
        }
        let has_room = self.sessions.has_room(user, what) || self.sessions.make_room(user, what);
        if !has_room || !self.pace.allows(user, Instant::now()) {
            return client.answer(Reason::TooMany, 0, 0, None);
        }
        match self.sessions.start(client.peer, user, what, client.process()) {
            Ok((session, pidfd, stream)) => {
                if let Err(error) = watch(&self.epoll, pidfd, session | SESSION) {
                    // Its end would not be heard of, and its place never be free.
                    self.sessions.end(session);
                    return Err(error);
                }
                self.is_changed = true;
                client.answer(Reason::Measured, 0, 0, Some(stream.as_fd()))
            }
            Err(_) => client.answer(Reason::NoMemory, 0, 0, None),
        }
    }

    /// Looks for what has settled, renews what is read by others, and decides when to look again; at some of the
    /// programs only, for others wait meanwhile.
    fn look(&mut self) {
        if self.to_look_at.is_empty() {
            let looked_at = self.clients.iter().filter(|(_, client)| client.is_looked_at());
            self.to_look_at = looked_at.map(|(key, _)| *key).collect();
            (self.waiting, self.limits, self.look_began) = (0, 0, Instant::now());
        }
        let every = self.looks.every();
        for key in self.to_look_at.drain(..LOOKS_AT_ONCE.min(self.to_look_at.len())) {
            let Some(client) = self.clients.get(&key) else { continue };
            if client.renew_copy() {
                self.looks.often();
                self.waiting += 1;
            }
            let watched = client.settle(every);
            self.waiting += watched.all();
            self.limits += watched.limits;
        }
        match self.to_look_at.is_empty() {
            true => self.end_look(),
            false => self.looks.at_once(),
        }
    }

    fn end_look(&mut self) {
        self.looks.has_limits(self.limits > 0);
        if self.waiting > 0 {
            return self.looks.again(self.look_began.elapsed());
        }
        // Programs are told before the last look that nothing looks any more: one that watches something
        // from then on says so.
        let left: u32 = self.clients.values().map(|client| client.settle(0).all()).sum();
        if left > 0 { self.looks.again(self.look_began.elapsed()) } else { self.looks.stop() }
    }
}

/// The number that a client's own thread has here, if the client may have it accounted.
fn own_thread(client: &Client, tid: u32, calls: &mut KernelCalls) -> Result<u32, Reason> {
    let found = calls.credentials_of(client.connection(), client.peer.pid, Some(tid));
    let found = found.map_err(|_| Reason::Kernel)?.ok_or(Reason::NoThread)?;
    if found.tgid != client.peer.pid || !client.is_alive() {
        return Err(Reason::NoThread);
    }
    let (caller, thread) = access::sides(&found);
    if may_look(&caller, &thread) { Ok(found.tid) } else { Err(Reason::NotPermitted) }
}

/// For a program that has executed another one in the middle of a request.
fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = unlink(path);
        }
    }
}

fn add_up(sums: &mut BTreeMap<u64, Account>, page: &Page) {
    for account in page.accounts() {
        sums.entry(account.token()).or_default().add(&account);
    }
}

fn watch(epoll: &OwnedFd, what: BorrowedFd<'_>, key: u64) -> io::Result<()> {
    let data = epoll::EventData::new_u64(key);
    Ok(epoll::add(epoll, what, data, epoll::EventFlags::IN)?)
}
