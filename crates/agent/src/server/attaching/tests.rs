//! What requests cost the thread that serves, by that thread's own clock: other load makes none of it longer.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::time::{ClockId, clock_gettime};
use weigh_collect::calls::clients::Page;
use weigh_collect::calls::{CallsRequest, Counters, Functions, KernelCalls, Telling};
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::library::{Followed, Reason, Request, layout};
use weigh_schema::subsystem::SUBSYSTEMS;
use weigh_wire::AgentRequest;

use crate::server::{Server, Settings};

/// The least of so many times is taken of each kind: what met a cold cache is not the request's.
const ROUNDS: usize = 7;
const MOST: Duration = Duration::from_millis(1);
/// Slow machines take longer for all of it: at most so many times as long as for a page's memory alone. Without a
/// thread that attaches it was thirty times.
const PAGES: u32 = 4;

/// What this machine takes for a page's memory.
fn of_a_page() -> Duration {
    let made = || {
        let before = cpu();
        drop(Page::new().unwrap());
        cpu() - before
    };
    (0..ROUNDS).map(|_| made()).min().unwrap()
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

struct Served {
    folder: tempfile::TempDir,
    server: Server,
    calls: KernelCalls,
    /// What each kind of request took at least.
    took: BTreeMap<&'static str, Duration>,
}

fn served() -> Served {
    let wanted = CallsRequest {
        subsystems: SUBSYSTEMS.iter().collect(),
        grouping: Grouping::Call,
        sharing: Sharing::Bytes,
        every_call: false,
        counters: Counters::default(),
        by_part: false,
    };
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { follows: true, ..Settings::default() };
    Served {
        server: Server::new(&folder.path().join("socket"), settings).unwrap(),
        calls: KernelCalls::load(&wanted, Telling::PLAIN, &Functions::default()).unwrap(),
        took: BTreeMap::new(),
        folder,
    }
}

fn all_parts() -> u64 {
    SUBSYSTEMS.iter().fold(0, |all, part| all | part.bit())
}

impl Served {
    fn connect(&self) -> OwnedFd {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        let path = self.folder.path().join("socket");
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        socket
    }

    /// Waits until there is something to do, and does it. The time of the CPU that this thread took for it.
    fn handle(&mut self) -> Duration {
        let socket = self.server.descriptor();
        let mut ready = [PollFd::new(&socket, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap();
        let before = cpu();
        self.server.handle(&mut self.calls).unwrap();
        cpu() - before
    }

    fn note(&mut self, kind: &'static str, took: Duration) {
        let least = self.took.entry(kind).or_insert(took);
        *least = took.min(*least);
    }

    fn send(&self, from: &OwnedFd, request: [u64; 3]) {
        let numbers = [layout(), request[0], request[1], request[2]];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        send(from, &bytes, SendFlags::empty()).unwrap();
    }

    /// The answer; descriptors that come with it are closed.
    fn answer(&mut self, kind: &'static str, to: &OwnedFd) -> Reason {
        let (mut took, mut bytes) = (Duration::ZERO, [0; weigh_wire::HEAD_BYTES]);
        loop {
            took += self.handle();
            if let Ok((length, _)) = recv(to, &mut bytes, RecvFlags::DONTWAIT) {
                assert_eq!(length, weigh_wire::HEAD_BYTES, "{kind}");
                break;
            }
        }
        self.note(kind, took);
        let number = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
        Reason::numbered(number).unwrap()
    }

    fn ask(&mut self, kind: &'static str, by: &OwnedFd, request: [u64; 3]) -> Reason {
        self.send(by, request);
        self.answer(kind, by)
    }

    /// Nobody has wanted anything for a while.
    fn let_go(&mut self) {
        for _ in 0..2 {
            let before = cpu();
            self.server.let_go(&mut self.calls);
            let mut took = cpu() - before;
            while self.server.attaching.is_some() {
                took += self.handle();
            }
            self.note("letting go", took);
        }
        assert_eq!(self.calls.attached_parts(), 0);
    }

    fn round(&mut self) {
        let pid = u64::from(std::process::id());
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let of = |kind: Request| kind as u64;
        let program = self.connect();
        assert_eq!(self.ask("enter", &program, [of(Request::Enter), 0, 0]), Reason::Measured);
        let all = all_parts();
        assert_eq!(self.ask("want", &program, [of(Request::Want), 0, all]), Reason::Measured);
        assert_eq!(self.calls.attached_parts(), self.calls.available_parts());
        for (kind, request) in [
            ("join", [of(Request::Join), tid, 0]),
            ("watch", [of(Request::Watch), 0, 0]),
            ("peer", [of(Request::Peer), pid, 0]),
            ("leave", [of(Request::Leave), pid, 0]),
            ("configured", [of(Request::Configured), 0, 0]),
            ("want what is attached", [of(Request::Want), 0, all]),
        ] {
            assert_eq!(self.ask(kind, &program, request), Reason::Measured, "{kind}");
        }
        self.ask("count", &program, [of(Request::Count), tid, u64::MAX]);
        self.ask("nonsense", &program, [99, 0, 0]);
        drop(program);
        let took = self.handle();
        assert_eq!(self.server.clients(), 0);
        self.note("going", took);
        self.let_go();
    }
}

#[test]
fn no_request_takes_a_millisecond_of_the_thread_that_serves() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut served = served();
    for _ in 0..ROUNDS {
        served.round();
    }
    let follow = weigh_wire::encode(&AgentRequest::Follow(Followed::Job), 0).unwrap();
    for _ in 0..3 {
        let user = served.connect();
        send(&user, &follow, SendFlags::empty()).unwrap();
        assert_eq!(served.answer("follow", &user), Reason::Measured);
    }
    let most = MOST.max(PAGES * of_a_page());
    println!("at most {most:?}: {:?}", served.took);
    let slow = served.took.iter().filter(|(_, took)| **took >= most);
    assert_eq!(slow.collect::<Vec<_>>(), []);
}

#[test]
fn who_asks_is_told_when_it_is_attached_and_others_before() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut served = served();
    let [slow, other] = [served.connect(), served.connect()];
    assert_eq!(served.ask("enter", &other, [Request::Enter as u64, 0, 0]), Reason::Measured);
    served.send(&slow, [Request::Enter as u64, 0, all_parts()]);
    while served.server.attaching.is_none() {
        served.handle();
    }
    // It is under way: the thread's end is not looked for before the other one has its answer.
    let (mut bytes, now) = ([0; weigh_wire::HEAD_BYTES], RecvFlags::DONTWAIT);
    assert!(recv(&slow, &mut bytes, now).is_err(), "told too early");
    assert_eq!(served.calls.attached_parts().count_ones(), 1, "what is always there");
    // A client that sends something while it waits goes on waiting; one that leaves has gone.
    served.send(&slow, [Request::Watch as u64, 0, 0]);
    let going = served.connect();
    served.send(&going, [Request::Enter as u64, 0, all_parts()]);
    served.send(&other, [Request::Watch as u64, 0, 0]);
    assert_eq!(served.answer("watch", &other), Reason::Measured);
    drop(going);
    assert_eq!(served.answer("enter", &slow), Reason::Measured);
    assert_eq!(served.calls.attached_parts(), served.calls.available_parts());
    assert_eq!(served.answer("watch", &slow), Reason::Measured);
    while served.server.clients() > 2 {
        served.handle();
    }
}

/// Each thread switch and packet of the machine would pay for it, until the next program comes and goes.
#[test]
fn what_was_attached_for_a_program_that_left_before_is_let_go_of() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut served = served();
    let program = served.connect();
    served.send(&program, [Request::Enter as u64, 0, all_parts()]);
    while served.server.attaching.is_none() {
        served.handle();
    }
    drop(program);
    while served.server.clients() > 0 || served.server.attaching.is_some() {
        served.handle();
    }
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while served.server.wants.attached() != 0 && std::time::Instant::now() < until {
        served.handle();
    }
    assert_eq!((served.server.wants.attached(), served.calls.attached_parts()), (0, 0));
}
