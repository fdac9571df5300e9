//! The side of `weigh run` for `weigh control`: requests come in at an abstract socket, and go into the rings of programs.
//!
//! Answers who is root or weigh's own user, at once and without waiting: how far a program has come is asked again. A client
//! that does not take its answers, or asks without an end, is turned away; so is who asks what is not understood.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use weigh_schema::control::{
    ADDRESS_PREFIX, ControlAnswer, ControlAsk, ControlRequest, ControlTarget, ControlledProcess,
    MOST_BYTES, MOST_SECONDS,
};

use weigh_collect::profile::SharedProfile;

use super::listener::listen_at;
use super::woken::woken;

/// So many clients at one time: who came first goes when one more comes.
const CLIENTS: usize = 16;
/// So many messages of each.
const ASKS: u32 = 100_000;
/// So many requests in one message: no more have room in the ring.
const REQUESTS: usize = 64;

/// What woke, if it was no client.
const SOCKET: u64 = 0;

/// What a job is called by.
pub(super) struct JobIdentity {
    id: String,
    directory: PathBuf,
}

impl JobIdentity {
    pub fn new(id: &str, directory: &Path) -> JobIdentity {
        let known = directory.canonicalize();
        let directory = known.unwrap_or_else(|_| directory.to_path_buf());
        JobIdentity { id: id.to_string(), directory }
    }

    fn is_named(&self, target: &ControlTarget) -> bool {
        match target {
            ControlTarget::Pid(pid) => *pid == std::process::id(),
            ControlTarget::Job(id) => *id == self.id,
            ControlTarget::Directory(path) => self.directory.as_os_str() == path.as_str(),
        }
    }
}

/// Who has connected.
struct ControlClient {
    connection: OwnedFd,
    asks: u32,
}

/// Where requests come in.
pub(super) struct ControlServer {
    epoll: OwnedFd,
    socket: OwnedFd,
    job: JobIdentity,
    clients: BTreeMap<u64, ControlClient>,
    next_key: u64,
}

/// The processes that share profiles, by their PIDs.
pub(super) type Profiles<'a> = Vec<(u32, &'a mut SharedProfile)>;

impl ControlServer {
    pub fn new(job: JobIdentity) -> io::Result<ControlServer> {
        // Nobody else can have the address taken.
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let (pid, random) = (std::process::id(), u64::from_ne_bytes(random));
        let socket = listen_at(&format!("{ADDRESS_PREFIX}{pid}-{random:016x}"), CLIENTS as i32)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &socket, EventData::new_u64(SOCKET), EventFlags::IN)?;
        Ok(ControlServer { epoll, socket, job, clients: BTreeMap::new(), next_key: SOCKET + 1 })
    }

    /// Readable when there is something to attend to.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Takes in who has connected, and one message of each client.
    pub fn attend(&mut self, mut processes: Profiles<'_>) {
        for key in woken(&self.epoll, CLIENTS + 1) {
            match self.clients.remove(&key) {
                None => self.accept(),
                Some(client) => self.attend_client(key, client, &mut processes),
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..CLIENTS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.socket, flags) {
                Ok(connection) => self.take_in(ControlClient { connection, asks: 0 }),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // Without descriptors it would wake again and again: nothing more is taken from anybody.
                    let _ = epoll::delete(&self.epoll, &self.socket);
                    return;
                }
            }
        }
    }

    fn take_in(&mut self, client: ControlClient) {
        if !client.may_ask() {
            let why = "the job is another user's".to_string();
            let _ = client.answer(&ControlAnswer::Refused(why));
            return;
        }
        self.next_key += 1;
        let data = EventData::new_u64(self.next_key);
        if epoll::add(&self.epoll, &client.connection, data, EventFlags::IN).is_ok() {
            if self.clients.len() >= CLIENTS {
                self.clients.pop_first();
            }
            self.clients.insert(self.next_key, client);
        }
    }

    fn attend_client(&mut self, key: u64, mut client: ControlClient, processes: &mut Profiles<'_>) {
        let mut buffer = vec![0; MOST_BYTES];
        let goes_on = match client.receive(&mut buffer) {
            Ok(Some(length)) => {
                let answer = answer(&buffer[..length], &self.job, processes);
                client.answer(&answer).is_ok()
            }
            Ok(None) => true,
            Err(_) => false,
        };
        if goes_on {
            self.clients.insert(key, client);
        }
    }
}

impl ControlClient {
    /// The next message; none if there is none now.
    fn receive(&mut self, buffer: &mut [u8]) -> rustix::io::Result<Option<usize>> {
        self.asks += 1;
        match recv(&self.connection, buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, 0)) => Err(Errno::PIPE),
            Ok((_, length)) if length > MOST_BYTES || self.asks > ASKS => Err(Errno::MSGSIZE),
            Ok((_, length)) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One that does not take its answers is not waited for.
    fn answer(&self, answer: &ControlAnswer) -> rustix::io::Result<()> {
        let bytes = serde_json::to_vec(answer).unwrap_or_default();
        send(&self.connection, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop)
    }

    fn may_ask(&self) -> bool {
        let own = rustix::process::geteuid();
        let peer = socket_peercred(&self.connection);
        peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
    }
}

fn answer(bytes: &[u8], job: &JobIdentity, processes: &mut Profiles<'_>) -> ControlAnswer {
    let ask: ControlAsk = match serde_json::from_slice(bytes) {
        Ok(ask) => ask,
        Err(error) => return ControlAnswer::Refused(format!("not understood: {error}")),
    };
    if ask.requests.len() > REQUESTS || !ask.requests.iter().all(makes_sense) {
        return ControlAnswer::Refused("not understood: too many requests, or a time".to_string());
    }
    let is_whole_job = job.is_named(&ask.target);
    let is_meant = |pid: u32| is_whole_job || ask.target == ControlTarget::Pid(pid);
    let meant = processes.iter_mut().filter(|(pid, _)| is_meant(*pid));
    let states: Vec<_> =
        meant.map(|(pid, profile)| send_all(*pid, profile, &ask.requests)).collect();
    match states.is_empty() && !is_whole_job {
        true => ControlAnswer::NotHere,
        false => ControlAnswer::Processes(states),
    }
}

fn makes_sense(request: &ControlRequest) -> bool {
    match request {
        ControlRequest::PublishEvery { seconds } => (0.0..=MOST_SECONDS).contains(seconds),
        ControlRequest::Set { key, .. } => !key.is_empty(),
        _ => true,
    }
}

/// Up to the first that cannot be sent.
fn send_all(
    pid: u32,
    profile: &mut SharedProfile,
    requests: &[ControlRequest],
) -> ControlledProcess {
    let sent = requests.iter().try_for_each(|request| profile.send_control(request).map(drop));
    let refused = sent.err().map(|why| why.to_string());
    ControlledProcess { refused, ..profile.control_state(pid) }
}
