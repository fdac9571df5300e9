//! Which file a descriptor of a stopped thread refers to, by what it is kept apart and called.
//!
//! Asks the kernel at each call, as `../calls/descriptor.rs` does, and no file system: nothing is
//! synchronised, for a process of the job may serve it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, getpeername, getsockname, sockopt,
};
use weigh_schema::byte_text;
use weigh_schema::io::{FileId, Object};

use crate::io::last_look::birth;
use crate::ptrace::calls::descriptor::{self, Name};
use crate::socket_name;

/// How the kernel marks a path that leads nowhere any more.
const DELETED: &str = " (deleted)";

/// What is called so has a path, and the kernel does not say it in one piece.
const TOO_LONG: &str = "(its path is longer than 4095 bytes)";

/// What a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Referred {
    /// Which one.
    pub file: FileId,
    /// What it is.
    pub object: Object,
    /// Whether it has no name any more.
    pub is_deleted: bool,
}

impl Referred {
    /// Reads and writes of it are at an offset.
    pub fn has_offsets(&self) -> bool {
        matches!(self.object, Object::Regular | Object::Disk)
    }
}

/// Why it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// There is no such descriptor.
    Nothing,
    /// The kernel does not say.
    Hidden,
}

/// What a thread's descriptor refers to.
pub fn referred(tid: u32, fd: i32) -> Result<Referred, Unknown> {
    if fd < 0 {
        return Err(Unknown::Nothing);
    }
    let name = Name::of("fd", tid, fd);
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let stat = rustix::fs::statx(CWD, name.text(), flags, WANTED).map_err(|error| match error {
        rustix::io::Errno::NOENT => Unknown::Nothing,
        _ => Unknown::Hidden,
    })?;
    Ok(of_stat(&stat))
}

const WANTED: StatxFlags =
    StatxFlags::TYPE.union(StatxFlags::INO).union(StatxFlags::NLINK).union(StatxFlags::BTIME);

fn of_stat(stat: &Statx) -> Referred {
    let number = |major: u32, minor: u32| major << 20 | minor;
    let object =
        Object::of_mode(stat.stx_mode.into(), number(stat.stx_rdev_major, stat.stx_rdev_minor));
    Referred {
        file: FileId {
            device: number(stat.stx_dev_major, stat.stx_dev_minor),
            // Numbers of inodes are given again, perhaps within the tick that times are kept by: see `Counts::kept_apart`.
            generation: birth(stat),
            inode: stat.stx_ino,
        },
        object,
        is_deleted: object == Object::Regular && stat.stx_nlink == 0,
    }
}

/// What is behind a descriptor of weigh's own, and how many names it has.
pub fn about(file: &OwnedFd) -> Option<(Referred, u32)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(file, c"", flags, WANTED).ok()?;
    Some((of_stat(&stat), stat.stx_nlink))
}

/// How long a regular file is.
pub fn size(tid: u32, fd: i32) -> Option<u64> {
    let name = Name::of("fd", tid, fd);
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE;
    let stat = rustix::fs::statx(CWD, name.text(), flags, wanted).ok()?;
    (Object::of_mode(stat.stx_mode.into(), 0) == Object::Regular).then_some(stat.stx_size)
}

/// Whether nothing has changed a file since it was made, by the ticks that times are kept by.
pub fn is_as_made(tid: u32, fd: i32) -> bool {
    let name = Name::of("fd", tid, fd);
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let wanted = StatxFlags::BTIME | StatxFlags::CTIME;
    let stat = rustix::fs::statx(CWD, name.text(), flags, wanted);
    stat.is_ok_and(|stat| {
        let times = [stat.stx_btime, stat.stx_ctime].map(|time| (time.tv_sec, time.tv_nsec));
        stat.stx_mask & wanted.bits() == wanted.bits() && times[0] == times[1]
    })
}

/// Where a descriptor's position is, and the flags that it was opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The position.
    pub position: Option<u64>,
    /// The flags.
    pub flags: u32,
}

/// The same of a thread's descriptor.
pub fn opened(tid: u32, fd: i32) -> Opened {
    let name = Name::of("fdinfo", tid, fd);
    let mut text = [0; 256];
    let mut read = || {
        let file = rustix::fs::open(name.text(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::read(file, &mut text)
    };
    let length = read().unwrap_or(0);
    parse(&text[..length])
}

fn parse(text: &[u8]) -> Opened {
    let field = |name: &[u8]| {
        let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        std::str::from_utf8(line.trim_ascii()).ok()
    };
    Opened {
        position: field(b"pos:").and_then(|number| number.parse().ok()),
        flags: field(b"flags:").and_then(|n| u32::from_str_radix(n, 8).ok()).unwrap_or_default(),
    }
}

/// What people call it.
pub fn name(pid: u32, tid: u32, fd: i32, referred: &Referred) -> String {
    let inode = referred.file.inode;
    match referred.object {
        Object::Socket => {
            let addresses = addresses(pid, fd).unwrap_or_else(|| "socket".to_string());
            format!("{addresses} [{inode}]")
        }
        Object::Anonymous => "anonymous inode".to_string(),
        object => {
            let too_long = || format!("{TOO_LONG} [{inode}]").into_bytes();
            let path = descriptor::path(tid, fd).unwrap_or_else(too_long);
            let path = byte_text::keep(&path);
            match object {
                Object::Regular => path.strip_suffix(DELETED).unwrap_or(&path).to_string(),
                _ => path,
            }
        }
    }
}

/// A Unix socket's name, if it has one.
fn unix_name(address: SocketAddrAny) -> Option<String> {
    let address = SocketAddrUnix::try_from(address).ok()?;
    let name = byte_text::keep;
    match address.abstract_name() {
        // It has none.
        Some([]) => None,
        Some(abstract_name) => Some(format!("@{}", name(abstract_name))),
        None => address.path().map(|path| name(path.to_bytes())),
    }
}

/// Both ends of a socket. For this the socket is weigh's too, for a moment; the thread is stopped
/// meanwhile.
fn addresses(pid: u32, fd: i32) -> Option<String> {
    let socket = descriptor::copy_of(pid, fd).ok()?;
    let protocol = match sockopt::socket_domain(&socket).ok()? {
        AddressFamily::UNIX => {
            let local = getsockname(&socket).ok().and_then(unix_name);
            let remote = getpeername(&socket).ok().flatten().and_then(unix_name);
            return Some(socket_name::of_unix(local, remote));
        }
        AddressFamily::INET | AddressFamily::INET6 => sockopt::socket_protocol(&socket).ok()??,
        _ => return None,
    };
    let address = |any: SocketAddrAny| SocketAddr::try_from(any).ok();
    let local = address(getsockname(&socket).ok()?)?;
    let remote = getpeername(&socket).ok().flatten().and_then(address);
    Some(socket_name::of_ends(protocol.as_raw().get(), local, remote))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn tid() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    #[test]
    fn a_file_is_the_same_by_every_descriptor_of_it_and_its_position_is_known() {
        let mut file = std::fs::File::open("/proc/self/exe").expect("it runs");
        let again = file.try_clone().expect("a copy");
        let of = |fd: i32| referred(tid(), fd).expect("it is open");
        let found = of(file.as_raw_fd());
        assert_eq!((found.object, found.is_deleted), (Object::Regular, false));
        assert_eq!(found, of(again.as_raw_fd()));
        let stat = rustix::fs::fstat(&file).expect("it is open");
        assert_eq!(found.file.inode, stat.st_ino);
        file.read_exact(&mut [0; 100]).expect("it is longer");
        assert_eq!(opened(tid(), again.as_raw_fd()).position, Some(100));
        file.rewind().expect("a file");
        assert_eq!(opened(tid(), again.as_raw_fd()).position, Some(0));
        assert_eq!(referred(tid(), 999_999), Err(Unknown::Nothing));
        let path = std::env::current_exe().expect("it runs");
        let called = name(std::process::id(), tid(), file.as_raw_fd(), &found);
        assert_eq!(called, path.display().to_string());
    }

    #[test]
    fn sockets_are_called_by_their_addresses() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let stream = std::net::TcpStream::connect(at).expect("it listens");
        let own = stream.local_addr().expect("bound");
        let called = |fd: i32| {
            let found = referred(tid(), fd).expect("open");
            (name(std::process::id(), tid(), fd, &found), found.file.inode)
        };
        let (name, inode) = called(stream.as_raw_fd());
        assert_eq!(name, format!("tcp {own} -> {at} [{inode}]"));
        let (name, inode) = called(listener.as_raw_fd());
        assert_eq!(name, format!("tcp {at} [{inode}]"));
    }

    #[test]
    fn flags_are_octal() {
        let parsed = parse(b"pos:\t1021\nflags:\t0140002\nmnt_id:\t29\n");
        assert_eq!(parsed, Opened { position: Some(1021), flags: 0o140_002 });
        assert_eq!(parse(b""), Opened::default());
    }
}
