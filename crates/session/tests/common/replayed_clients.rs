//! Who takes part in a replay: readers, a client that publishes, programs with regions, and a server that takes metrics.

#[path = "../../../agent/tests/common/profile.rs"]
mod profile;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use weigh_agent::{ProfileServer, StreamDoor, StreamServer};
use weigh_schema::stream::{ProgramState, PushedSample, RecordBody, StreamRead, StreamRecords};
use weigh_wire::{Answer, Peer, StreamRequest, decode, receive, send};

use profile::profile;

const USER: u32 = 4_000_001;

fn connect(door: &StreamDoor) -> UnixStream {
    let peer = Peer { pid: 7, uid: USER, gid: 7 };
    door.pass(peer, peer.uid).expect("it is let in").into()
}

/// A client that reads a stream, and what it has had.
pub struct Reader {
    stream: UnixStream,
    name: &'static str,
    pub next: u64,
    pub records: u64,
    pub lost: u64,
    pub latest: Option<RecordBody>,
    /// Records of programs that are their last.
    pub ends: u64,
}

impl Reader {
    pub fn connect(door: &StreamDoor, name: &'static str) -> Reader {
        let stream = connect(door);
        Reader { stream, name, next: 1, records: 0, lost: 0, latest: None, ends: 0 }
    }

    /// One that goes on where another has been: what that has had and lost counts as had.
    pub fn connect_from(door: &StreamDoor, name: &'static str, next: u64) -> Reader {
        Reader { next, records: next - 1, ..Reader::connect(door, name) }
    }

    /// Of another agent, which goes on.
    pub fn connect_again(&mut self, door: &StreamDoor) {
        self.stream = connect(door);
    }

    /// All that is there.
    pub fn read(&mut self, server: &mut StreamServer) {
        loop {
            let read = StreamRead {
                stream: self.name.to_string(),
                from_sequence: self.next,
                at_most_bytes: 1 << 18,
                newest: false,
                wait: false,
                interval_ms: None,
            };
            send(&self.stream, &StreamRequest::Read(read), &[]).expect("sends");
            let found = self.answer(server);
            assert_eq!(found.next_sequence - self.next, found.records.len() as u64 + found.lost);
            assert_eq!(found.hidden, 0);
            self.next = found.next_sequence;
            self.lost += found.lost;
            self.records += found.records.len() as u64;
            self.ends += found.records.iter().filter(|record| is_end(&record.body)).count() as u64;
            let Some(last) = found.records.into_iter().next_back() else { return };
            self.latest = Some(last.body);
        }
    }

    fn answer(&self, server: &mut StreamServer) -> StreamRecords {
        let (mut bytes, end) = (Vec::new(), Instant::now() + Duration::from_secs(30));
        loop {
            server.handle(Instant::now(), &Vec::new).expect("events");
            let mut part = [0; 1 << 16];
            if let Ok((length, _)) = recv(&self.stream, &mut part, RecvFlags::DONTWAIT) {
                bytes.extend_from_slice(&part[..length]);
            }
            match decode(&bytes, 0).expect("a frame") {
                Some((Answer::Stream(records), _)) => return *records,
                Some(other) => panic!("{other:?}"),
                None => assert!(Instant::now() < end, "no answer"),
            }
        }
    }
}

fn is_end(body: &RecordBody) -> bool {
    matches!(body, RecordBody::Profile(profile) if profile.state != ProgramState::Running)
}

/// A client that publishes, as often as it is let.
pub struct Publisher {
    stream: UnixStream,
    pub taken: u64,
    pub refused: u64,
}

impl Publisher {
    pub fn connect(door: &StreamDoor) -> Publisher {
        Publisher { stream: connect(door), taken: 0, refused: 0 }
    }

    /// Of another agent, which goes on.
    pub fn connect_again(&mut self, door: &StreamDoor) {
        self.stream = connect(door);
    }

    pub fn push(&mut self, server: &mut StreamServer, tick: u64) {
        let sample = PushedSample {
            scope: "node".to_string().into(),
            metric: format!("metric_{}", tick % 17),
            value: tick as f64,
            unit: None,
            query: None,
        };
        send(&self.stream, &StreamRequest::Push(vec![sample]), &[]).expect("sends");
        let nobody: &dyn Fn() -> Vec<_> = &Vec::new;
        (0..3).for_each(|_| server.handle(Instant::now(), nobody).expect("events"));
        match receive(&self.stream).expect("an answer").expect("an answer").0 {
            Answer::Done => self.taken += 1,
            Answer::Refused(_) => self.refused += 1,
            other => panic!("{other:?}"),
        }
    }
}

/// Programs with regions, each after the one before in one process.
pub struct Programs {
    process: Child,
    pub handed_over: u64,
}

impl Programs {
    pub fn start() -> Programs {
        let mut cat = Command::new("cat");
        let process = cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
        Programs { process, handed_over: 0 }
    }

    /// The next one has published so often, and ends the one before.
    pub fn hand_over(&mut self, door: &StreamDoor, reader: &mut ProfileServer, publishes: u64) {
        let peer = Peer { pid: self.process.id(), uid: USER, gid: USER };
        let door = door.profiles().expect("profiles are read");
        door.pass(profile(publishes), peer, USER);
        reader.handle().expect("events");
        self.handed_over += 1;
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server that takes metrics, unless it is broken.
pub struct Receiver {
    port: u16,
    state: Arc<ReceiverState>,
}

#[derive(Default)]
struct ReceiverState {
    is_broken: AtomicBool,
    accepted: AtomicU64,
}

impl Receiver {
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(ReceiverState::default());
        let answers = state.clone();
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| answer_all(&stream, &answers));
        });
        Receiver { port, state }
    }

    pub fn target(&self) -> String {
        format!("prometheus=http://127.0.0.1:{}", self.port)
    }

    pub fn set_broken(&self, is_broken: bool) {
        self.state.is_broken.store(is_broken, Ordering::Relaxed);
    }

    /// Requests that were taken.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::Relaxed)
    }
}

fn answer_all(stream: &TcpStream, state: &ReceiverState) {
    let mut reader = BufReader::new(stream);
    while let Some(bytes) = body_bytes(&mut reader) {
        let mut body = vec![0; bytes];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let status = match state.is_broken.load(Ordering::Relaxed) {
            true => "503 Service Unavailable\r\nRetry-After: 0",
            false => "204 No Content\r\nX-Prometheus-Remote-Write-Samples-Written: 1000000",
        };
        state.accepted.fetch_add(u64::from(status.starts_with("204")), Ordering::Relaxed);
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let mut to = stream;
        if to.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The end of a request's head, and how long its body is.
fn body_bytes(reader: &mut BufReader<&TcpStream>) -> Option<usize> {
    let mut bytes = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            return Some(bytes);
        }
        if let Some(length) = line.strip_prefix("content-length:") {
            bytes = length.trim().parse().ok()?;
        }
    }
}
