//! What a descriptor of a stopped thread refers to.
//!
//! Asks the kernel each time (`/proc/TID/fd`): what is asked cannot be out of date,
//! however descriptors are copied, inherited, sent, or shared. Asks no file system: one that is
//! served by a process of the job would answer only when the tracer lets that go on.

use std::ffi::CStr;
use std::io;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, StatxFlags};

/// What a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referred {
    /// A socket.
    Socket {
        /// Its inode, which no other socket has.
        inode: u64,
        /// What it speaks.
        protocol: Protocol,
    },
    /// A pipe.
    Pipe,
    /// Something else.
    Other,
    /// There is no such descriptor.
    Nothing,
    /// The kernel does not say.
    Hidden,
}

/// What a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP, over either version of the internet protocol.
    Tcp,
    /// Something else over the internet protocol.
    OtherInternet,
    /// Something that does not leave the machine so: Unix, netlink, …
    Local,
}

/// A path under `/proc`, without allocating.
pub struct Name([u8; 64]);

impl Name {
    /// Of a descriptor, in one of the folders that have an entry for each.
    pub fn of(folder: &str, tid: u32, fd: i32) -> Name {
        let mut name = [0; 64];
        // Always fits: two numbers of ten digits at most, and a short word.
        let _ = write!(&mut name[..63], "/proc/{tid}/{folder}/{fd}");
        Name(name)
    }

    /// To be handed to the kernel.
    pub fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// What a thread's descriptor refers to.
pub fn referred(tid: u32, fd: i32) -> Referred {
    if fd < 0 {
        return Referred::Nothing;
    }
    let name = Name::of("fd", tid, fd);
    let mut target = [0; 64];
    let length = match link(name.text(), &mut target) {
        Ok(length) => length,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Referred::Nothing,
        Err(_) => return Referred::Hidden,
    };
    let target = &target[..length];
    if let Some(inode) = inode_of(target) {
        return match protocol(name.text()) {
            Ok(protocol) => Referred::Socket { inode, protocol },
            Err(_) => Referred::Hidden,
        };
    }
    if target.starts_with(b"pipe:[") { Referred::Pipe } else { Referred::Other }
}

fn inode_of(target: &[u8]) -> Option<u64> {
    let number = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Whether a descriptor that is of no nameless pipe is of one with a name.
pub fn is_named_pipe(tid: u32, fd: i32) -> bool {
    let name = Name::of("fd", tid, fd);
    // Not synchronised: so the file system is not asked.
    let stat =
        rustix::fs::statx(rustix::fs::CWD, name.text(), AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
    stat.is_ok_and(|stat| u32::from(stat.stx_mode) & libc::S_IFMT == libc::S_IFIFO)
}

/// Whether a descriptor may be read, and written; neither for one that was opened as a mere place
/// (`O_PATH`).
pub fn modes(tid: u32, fd: i32) -> (bool, bool) {
    let name = Name::of("fd", tid, fd);
    let stat = rustix::fs::lstat(name.text());
    let mode = stat.map(|stat| stat.st_mode).unwrap_or_default();
    (mode & libc::S_IRUSR != 0, mode & libc::S_IWUSR != 0)
}

/// The path behind a descriptor, as far as the kernel knows one.
pub fn path(tid: u32, fd: i32) -> Option<Vec<u8>> {
    let mut path = vec![0; libc::PATH_MAX as usize];
    let length = link(Name::of("fd", tid, fd).text(), &mut path).ok()?;
    path.truncate(length);
    Some(path)
}

fn link(name: &CStr, to: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the name ends with a NUL byte, and the buffer has the given length.
    let length = unsafe { libc::readlink(name.as_ptr(), to.as_mut_ptr().cast(), to.len()) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

/// The kernel's name for what a socket speaks, as `lsof` asks for it.
fn protocol(name: &CStr) -> io::Result<Protocol> {
    let mut value = [0u8; 32];
    let attribute = c"system.sockprotoname";
    // SAFETY: both names end with a NUL byte, and the buffer has the given length.
    let length = unsafe {
        libc::getxattr(name.as_ptr(), attribute.as_ptr(), value.as_mut_ptr().cast(), value.len())
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let name = value[..length].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(match name {
        b"TCP" | b"TCPv6" | b"MPTCP" | b"MPTCPv6" => Protocol::Tcp,
        b"UDP" | b"UDPv6" | b"UDP-Lite" | b"UDPLITEv6" | b"RAW" | b"RAWv6" | b"PING"
        | b"PINGv6" | b"SCTP" | b"SCTPv6" | b"DCCP" | b"DCCPv6" | b"L2TP/IP" | b"L2TP/IPv6" => {
            Protocol::OtherInternet
        }
        _ => Protocol::Local,
    })
}

/// How far a TCP connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It does not stand yet.
    Pending,
    /// It stands, or did.
    Stands,
    /// There is none.
    None,
}

/// How far the connection of a descriptor has come. For this the socket is weigh's too, for a
/// moment; the thread is stopped meanwhile.
pub fn connection(pid: u32, fd: i32) -> io::Result<Connection> {
    const ESTABLISHED: u8 = 1;
    const SYN_SENT: u8 = 2;
    const CLOSE: u8 = 7;
    const LISTEN: u8 = 10;
    let socket = copy_of(pid, fd)?;
    let mut state = 0u8;
    let mut length: libc::socklen_t = 1;
    // SAFETY: the value has the given length; the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut state).cast(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match state {
        SYN_SENT => Connection::Pending,
        0 | CLOSE | LISTEN => Connection::None,
        ESTABLISHED.. => Connection::Stands,
    })
}

/// A copy of a process's descriptor.
pub fn copy_of(pid: u32, fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: neither call reads memory of ours; what they return is owned here.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if process < 0 {
            return Err(io::Error::last_os_error());
        }
        let process = OwnedFd::from_raw_fd(process as i32);
        let copy = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0);
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(copy as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    fn own(fd: &impl std::os::fd::AsRawFd) -> Referred {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        referred(tid, fd.as_raw_fd())
    }

    #[test]
    fn what_it_is_is_told_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let speaks = |fd: Referred| match fd {
            Referred::Socket { protocol, .. } => Some(protocol),
            _ => None,
        };
        assert_eq!(speaks(own(&listener)), Some(Protocol::Tcp));
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(speaks(own(&udp)), Some(Protocol::OtherInternet));
        let (unix, _other) = UnixStream::pair().unwrap();
        assert_eq!(speaks(own(&unix)), Some(Protocol::Local));
        let (read, _write) = std::io::pipe().unwrap();
        assert_eq!(own(&read), Referred::Pipe);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(own(&file), Referred::Other);
        assert_eq!(referred(std::process::id(), 999_999), Referred::Nothing);
    }

    #[test]
    fn a_connection_stands_when_the_other_side_has_agreed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let of = |fd: &dyn std::os::fd::AsRawFd| connection(std::process::id(), fd.as_raw_fd());
        assert_eq!(of(&stream).unwrap(), Connection::Stands);
        assert_eq!(of(&listener).unwrap(), Connection::None);
    }
}
