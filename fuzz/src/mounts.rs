//! Requests of the kernel to `weigh io mount`, whose answers are held to what the kernel takes.

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use weigh_account::io::{IoBook, Run, found, report};
use weigh_schema::io::{ReportBasis, Tally};

/// Of the kernel's numbers for requests.
const FORGET: u32 = 2;
const SETATTR: u32 = 4;
const MKNOD: u32 = 8;
const RENAME: u32 = 12;
const LINK: u32 = 13;
const READ: u32 = 15;
const WRITE: u32 = 16;
const SETXATTR: u32 = 21;
const INIT: u32 = 26;
const READDIR: u32 = 28;
const CREATE: u32 = 35;
const DESTROY: u32 = 38;
const IOCTL: u32 = 39;
const NOTIFY_REPLY: u32 = 41;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;
const READDIRPLUS: u32 = 44;
const RENAME2: u32 = 45;
/// Those that are answered with a file: lookup, mknod, mkdir, symlink, link, create.
const WITH_ENTRY: [u32; 6] = [1, MKNOD, 9, 6, LINK, CREATE];

const HEADER: usize = 40;
const ROOT: u64 = 1;
const MOST_REQUESTS: usize = 64;
const MOST_ANSWER: usize = 1 << 18;
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// The first byte says how it is served; then come requests: what is asked for, of which file, by whom, the length
/// of the rest, and the rest.
pub fn mount_requests(data: &[u8]) {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(weigh_fuzz_mount::prepare);
    let Some((how, mut rest)) = data.split_first() else { return };
    let folder = Folder::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&folder.0, flags, Mode::empty()).unwrap();
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (own, served) = pair.unwrap();
    let is_exact = how & 1 == 1;
    let serving = std::thread::spawn(move || weigh_fuzz_mount::serve(root, served, is_exact));
    let mut kernel =
        Kernel { socket: own, nodes: vec![ROOT], unique: 0, buffer: vec![0; MOST_ANSWER] };
    kernel.begin();
    for _ in 0..MOST_REQUESTS {
        let [operation, node, by, low, high, behind @ ..] = rest else { break };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (body, behind) = behind.split_at(length);
        let goes_on = kernel.ask(u32::from(*operation), *node, *by, body.to_vec());
        rest = behind;
        if !goes_on {
            break;
        }
    }
    drop(kernel);
    let events = serving.join().unwrap();
    let mut book = IoBook::default();
    events.into_iter().for_each(|event| book.add(event));
    let run = Run {
        command: Vec::new(),
        command_base64: Vec::new(),
        pid: None,
        mount: None,
        wall_seconds: 1.0,
        tally: Tally::default(),
        grounds: ReportBasis::default(),
    };
    let name = |number: u64| number.to_string();
    found(&book, &run);
    serde_json::to_vec(&report(&book, &run, &name)).unwrap();
}

/// What is served: a file, a folder with one, a symbolic link.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weigh-fuzz-mount-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(folder.join("d")).unwrap();
        std::fs::write(folder.join("f"), "text").unwrap();
        std::fs::write(folder.join("d/g"), "more").unwrap();
        std::os::unix::fs::symlink("f", folder.join("s")).unwrap();
        for path in ["", "d", "f", "d/g"] {
            give_away(&folder.join(path));
        }
        Folder(folder)
    }
}

/// It is served by nobody, where root tries this.
fn give_away(path: &Path) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What others may not enter stays, unless it is root who tries this.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Kernel {
    socket: OwnedFd,
    /// What it was told of.
    nodes: Vec<u64>,
    unique: u64,
    buffer: Vec<u8>,
}

impl Kernel {
    fn begin(&mut self) {
        let words = [7_u32, 45, 1 << 17, u32::MAX, 0xff];
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.resize(64, 0);
        assert!(self.send(INIT, ROOT, 0, &body) && self.answer().is_some());
    }

    /// Whether there is more to come.
    fn ask(&mut self, operation: u32, node: u8, by: u8, mut body: Vec<u8>) -> bool {
        // One is for the beginning, and what is no request is not answered.
        if matches!(operation, INIT | NOTIFY_REPLY) {
            return true;
        }
        let nodes = &self.nodes;
        let named = |which: u8| nodes[usize::from(which) % nodes.len()];
        let node = named(node);
        if matches!(operation, RENAME | RENAME2 | LINK)
            && let Some((first, _)) = body.split_first_chunk_mut::<8>()
        {
            *first = named(first[0]).to_ne_bytes();
        }
        as_the_kernel_has_it(operation, &mut body);
        if !self.send(operation, node, by, &body) {
            return false;
        }
        if matches!(operation, FORGET | BATCH_FORGET) {
            // One that is too short is no such request.
            return body.len() >= 8;
        }
        let Some((error, answer)) = self.answer() else { return operation != DESTROY };
        if matches!(operation, READ | READDIR | READDIRPLUS) && error == 0 {
            let asked = u32::from_ne_bytes(body[16..20].try_into().unwrap());
            assert!(answer.len() <= asked as usize, "{operation}: {} of {asked}", answer.len());
        }
        if WITH_ENTRY.contains(&operation) && error == 0 {
            let node = u64::from_ne_bytes(answer[..8].try_into().unwrap());
            assert!(node != 0);
            if !self.nodes.contains(&node) {
                self.nodes.push(node);
            }
        }
        operation != DESTROY
    }

    fn send(&mut self, operation: u32, node: u64, by: u8, body: &[u8]) -> bool {
        self.unique += 2;
        let owner = if by & 1 == 1 { 0_u32 } else { 65_534 };
        let pid = if by & 2 == 2 { 0 } else { std::process::id() };
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(operation.to_ne_bytes());
        message.extend(self.unique.to_ne_bytes());
        message.extend(node.to_ne_bytes());
        for word in [owner, owner, pid, 0] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(body);
        retry_on_intr(|| send(&self.socket, &message, SendFlags::NOSIGNAL)).is_ok()
    }

    /// The error, 0 if there is none, and what comes with it. The caller waits for it.
    fn answer(&mut self) -> Option<(i32, Vec<u8>)> {
        let mut ready = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        let answered = retry_on_intr(|| poll(&mut ready, Some(&PATIENCE)));
        assert!(answered.unwrap() > 0, "no answer");
        let length = match recv(&self.socket, &mut self.buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return None,
            Ok((length, _)) => length,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        };
        let answer = &self.buffer[..length];
        let told = u32::from_ne_bytes(answer[..4].try_into().unwrap());
        assert_eq!(told as usize, length);
        let error = i32::from_ne_bytes(answer[4..8].try_into().unwrap());
        assert!((-4095..=0).contains(&error), "{error}");
        assert_eq!(answer[8..16], self.unique.to_ne_bytes());
        Some((error, answer[16..].to_vec()))
    }
}

/// What the kernel promises, and what is relied on below weigh (`fuser`): names have no slash, times are times, and
/// lengths are those of what comes. And what the disk can bear.
fn as_the_kernel_has_it(operation: u32, body: &mut [u8]) {
    body.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'_');
    for at in 1..body.len() {
        if body[at - 1..=at] == *b".." {
            body[at] = b'_';
        }
    }
    let length = body.len();
    let value = body.iter().skip(8).position(|byte| *byte == 0).map_or(0, |zero| length - 9 - zero);
    match operation {
        SETATTR => {
            // The least second of all is turned round in fuser, which overflows.
            [32, 40, 48]
                .into_iter()
                .for_each(|at| fit::<8>(body, at, |time| if time == 1 << 63 { 0 } else { time }));
            [56, 60, 64].into_iter().for_each(|at| fit::<4>(body, at, |ns| ns % 1_000_000_000));
        }
        READDIR | READDIRPLUS => fit::<4>(body, 16, |bytes| bytes % (1 << 17)),
        FALLOCATE => [8, 16].into_iter().for_each(|at| fit::<8>(body, at, |at| at % (1 << 17))),
        IOCTL => fit::<4>(body, 24, |_| length.saturating_sub(32) as u64),
        WRITE => fit::<4>(body, 16, |_| length.saturating_sub(40) as u64),
        SETXATTR => fit::<4>(body, 0, |_| value as u64),
        BATCH_FORGET => fit::<4>(body, 0, |_| (length.saturating_sub(8) / 16) as u64),
        _ => {}
    }
}

/// Changes a number of so many bytes, if there is one.
fn fit<const BYTES: usize>(body: &mut [u8], at: usize, to: impl Fn(u64) -> u64) {
    if let Some(field) = body.get_mut(at..at + BYTES) {
        let mut word = [0; 8];
        word[..BYTES].copy_from_slice(field);
        field.copy_from_slice(&to(u64::from_ne_bytes(word)).to_ne_bytes()[..BYTES]);
    }
}
