//! Names of numbers that system calls take and return: errors, signals, flags.
//!
//! Declared here and in [`weigh_schema::number_names`], for the kernel's types do not have them: they are macros of its
//! headers. Values differ between architectures where that is said.

use weigh_schema::number_names;

/// What a number's names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// System calls by their numbers.
    Syscalls,
    /// Errors, as system calls return them: below 0.
    Results,
    /// A descriptor of a folder, or the working directory.
    Directory,
    /// Signals.
    Signals,
    /// `lseek`.
    Whence,
    /// `socket`.
    Families,
    /// `open`: a set of bits, as are those that follow.
    Open,
    /// `openat2` and others: how a path is followed.
    At,
    /// `access`.
    Access,
    /// `mmap`: what memory may be used for.
    Protection,
    /// `mmap`.
    Map,
    /// `clone`.
    Clone,
    /// `send` and `recv`.
    Message,
    /// `mount`.
    Mount,
    /// What Ethernet carries.
    EtherTypes,
    /// What IP carries.
    Protocols,
    /// Flags of TCP: a set of bits.
    TcpFlags,
}

type Names = &'static [(&'static str, i64)];

impl Vocabulary {
    /// Names and numbers; none of system calls, which [`crate::syscall`] has.
    pub fn names(self) -> Names {
        match self {
            Vocabulary::Syscalls => &[],
            Vocabulary::Results => number_names::errors(),
            Vocabulary::Directory => &[("AT_FDCWD", -100)],
            Vocabulary::Signals => number_names::signals(),
            Vocabulary::Whence => WHENCE,
            Vocabulary::Families => FAMILIES,
            Vocabulary::Open => OPEN,
            Vocabulary::At => AT,
            Vocabulary::Access => ACCESS,
            Vocabulary::Protection => PROTECTION,
            Vocabulary::Map => MAP,
            Vocabulary::Clone => CLONE,
            Vocabulary::Message => MESSAGE,
            Vocabulary::Mount => MOUNT,
            Vocabulary::EtherTypes => ETHER_TYPES,
            Vocabulary::Protocols => PROTOCOLS,
            Vocabulary::TcpFlags => TCP_FLAGS,
        }
    }

    /// The number of a name.
    pub fn value(self, name: &str) -> Option<i64> {
        match self {
            Vocabulary::Syscalls => crate::syscall::number_of(name).map(i64::from),
            // Kernel and programs write -ENOENT, and mean the error ENOENT.
            Vocabulary::Results => error(name.trim_start_matches('-')).map(|number| -number),
            _ => find(self.names(), name),
        }
    }

    /// Names by their numbers, as readers of records take them.
    pub fn constants(self) -> Vec<(i64, String)> {
        match self {
            Vocabulary::Syscalls => crate::syscall::all()
                .map(|(number, name)| (number.into(), name.to_string()))
                .collect(),
            Vocabulary::Results => {
                let errors = number_names::errors().iter();
                errors.map(|(name, number)| (-number, format!("-{name}"))).collect()
            }
            _ => self.names().iter().map(|(name, value)| (*value, (*name).to_string())).collect(),
        }
    }
}

const FLAGS: [Vocabulary; 8] = [
    Vocabulary::Open,
    Vocabulary::At,
    Vocabulary::Access,
    Vocabulary::Protection,
    Vocabulary::Map,
    Vocabulary::Clone,
    Vocabulary::Message,
    Vocabulary::Mount,
];
const OTHERS: [Vocabulary; 4] =
    [Vocabulary::Directory, Vocabulary::Signals, Vocabulary::Whence, Vocabulary::Families];

/// The number of an error: `ENOENT` is 2.
pub fn error(name: &str) -> Option<i64> {
    find(number_names::errors(), name)
}

/// Names of errors.
pub fn errors() -> impl Iterator<Item = &'static str> {
    number_names::errors().iter().map(|(name, _)| *name)
}

/// The number of a name that one of the vocabularies has; each has its own beginning, so none has two.
pub fn value(name: &str) -> Option<i64> {
    FLAGS.iter().chain(&OTHERS).find_map(|names| find(names.names(), name))
}

/// The number of a flag of TCP. Such names are short: they are known only where flags stand together, and beside TCP's.
pub fn tcp_flag(name: &str) -> Option<i64> {
    find(TCP_FLAGS, name)
}

fn find(names: &[(&str, i64)], name: &str) -> Option<i64> {
    names.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
}

/// A set of bits as it is told: their names, then what has none. A name of 0 stands for the two lowest bits (the
/// access mode of `open`).
pub fn bits(value: u64, constants: &[(i64, String)]) -> String {
    let mut left = value;
    let mut told: Vec<String> = Vec::new();
    for (bits, name) in constants {
        let bits = bits.cast_unsigned();
        let is_set = if bits == 0 { left & 3 == 0 } else { left & bits == bits };
        if is_set {
            left &= !bits;
            told.push(name.clone());
        }
    }
    if left != 0 || told.is_empty() {
        told.push(if left > 9 { format!("{left:#x}") } else { left.to_string() });
    }
    told.join("|")
}

const ETHER_TYPES: Names = &[
    ("ip", 0x0800),
    ("ip6", 0x86dd),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("vlan", 0x8100),
    ("mpls", 0x8847),
    ("pppoe", 0x8864),
    ("lldp", 0x88cc),
];

const PROTOCOLS: Names = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

/// Of what has two names the first is told.
const TCP_FLAGS: Names = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("push", 8),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

const WHENCE: Names =
    &[("SEEK_SET", 0), ("SEEK_CUR", 1), ("SEEK_END", 2), ("SEEK_DATA", 3), ("SEEK_HOLE", 4)];

const FAMILIES: Names = &[
    ("AF_UNSPEC", 0),
    ("AF_UNIX", 1),
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("AF_NETLINK", 16),
    ("AF_PACKET", 17),
    ("AF_ALG", 38),
    ("AF_VSOCK", 40),
];

/// `O_DIRECTORY`, `O_NOFOLLOW`, `O_DIRECT` and `O_LARGEFILE`: ARM has changed places.
#[cfg(target_arch = "aarch64")]
const PLACES: [i64; 4] = [0o40000, 0o100_000, 0o200_000, 0o400_000];
#[cfg(not(target_arch = "aarch64"))]
const PLACES: [i64; 4] = [0o200_000, 0o400_000, 0o40000, 0o100_000];

/// Those of several bits before those whose bits they hold.
const OPEN: Names = &[
    ("O_RDONLY", 0),
    ("O_WRONLY", 1),
    ("O_RDWR", 2),
    ("O_CREAT", 0o100),
    ("O_EXCL", 0o200),
    ("O_NOCTTY", 0o400),
    ("O_TRUNC", 0o1000),
    ("O_APPEND", 0o2000),
    ("O_NONBLOCK", 0o4000),
    ("O_SYNC", 0o4_010_000),
    ("O_DSYNC", 0o10000),
    ("FASYNC", 0o20000),
    ("O_TMPFILE", 0o20_000_000 | PLACES[0]),
    ("O_DIRECTORY", PLACES[0]),
    ("O_NOFOLLOW", PLACES[1]),
    ("O_DIRECT", PLACES[2]),
    ("O_LARGEFILE", PLACES[3]),
    ("O_NOATIME", 0o1_000_000),
    ("O_CLOEXEC", 0o2_000_000),
    ("O_PATH", 0o10_000_000),
];

const AT: Names = &[
    ("AT_SYMLINK_NOFOLLOW", 0x100),
    ("AT_REMOVEDIR", 0x200),
    ("AT_SYMLINK_FOLLOW", 0x400),
    ("AT_NO_AUTOMOUNT", 0x800),
    ("AT_EMPTY_PATH", 0x1000),
    ("AT_STATX_FORCE_SYNC", 0x2000),
    ("AT_STATX_DONT_SYNC", 0x4000),
];

const ACCESS: Names = &[("X_OK", 1), ("W_OK", 2), ("R_OK", 4)];

const PROTECTION: Names = &[("PROT_READ", 1), ("PROT_WRITE", 2), ("PROT_EXEC", 4)];

const MAP: Names = &[
    ("MAP_SHARED_VALIDATE", 3),
    ("MAP_SHARED", 1),
    ("MAP_PRIVATE", 2),
    ("MAP_FIXED", 0x10),
    ("MAP_ANONYMOUS", 0x20),
    ("MAP_32BIT", 0x40),
    ("MAP_GROWSDOWN", 0x100),
    ("MAP_DENYWRITE", 0x800),
    ("MAP_LOCKED", 0x2000),
    ("MAP_NORESERVE", 0x4000),
    ("MAP_POPULATE", 0x8000),
    ("MAP_NONBLOCK", 0x10000),
    ("MAP_STACK", 0x20000),
    ("MAP_HUGETLB", 0x40000),
    ("MAP_SYNC", 0x80000),
    ("MAP_FIXED_NOREPLACE", 0x10_0000),
];

const CLONE: Names = &[
    ("CLONE_VM", 0x100),
    ("CLONE_FS", 0x200),
    ("CLONE_FILES", 0x400),
    ("CLONE_SIGHAND", 0x800),
    ("CLONE_PIDFD", 0x1000),
    ("CLONE_PTRACE", 0x2000),
    ("CLONE_VFORK", 0x4000),
    ("CLONE_PARENT", 0x8000),
    ("CLONE_THREAD", 0x10000),
    ("CLONE_NEWNS", 0x20000),
    ("CLONE_SYSVSEM", 0x40000),
    ("CLONE_SETTLS", 0x80000),
    ("CLONE_PARENT_SETTID", 0x10_0000),
    ("CLONE_CHILD_CLEARTID", 0x20_0000),
    ("CLONE_UNTRACED", 0x80_0000),
    ("CLONE_CHILD_SETTID", 0x100_0000),
    ("CLONE_NEWCGROUP", 0x200_0000),
    ("CLONE_NEWUTS", 0x400_0000),
    ("CLONE_NEWIPC", 0x800_0000),
    ("CLONE_NEWUSER", 0x1000_0000),
    ("CLONE_NEWPID", 0x2000_0000),
    ("CLONE_NEWNET", 0x4000_0000),
    ("CLONE_IO", 0x8000_0000),
];

const MESSAGE: Names = &[
    ("MSG_OOB", 1),
    ("MSG_PEEK", 2),
    ("MSG_DONTROUTE", 4),
    ("MSG_CTRUNC", 8),
    ("MSG_TRUNC", 0x20),
    ("MSG_DONTWAIT", 0x40),
    ("MSG_EOR", 0x80),
    ("MSG_WAITALL", 0x100),
    ("MSG_CONFIRM", 0x800),
    ("MSG_ERRQUEUE", 0x2000),
    ("MSG_NOSIGNAL", 0x4000),
    ("MSG_MORE", 0x8000),
    ("MSG_WAITFORONE", 0x10000),
    ("MSG_ZEROCOPY", 0x400_0000),
    ("MSG_FASTOPEN", 0x2000_0000),
    ("MSG_CMSG_CLOEXEC", 0x4000_0000),
];

const MOUNT: Names = &[
    ("MS_RDONLY", 1),
    ("MS_NOSUID", 2),
    ("MS_NODEV", 4),
    ("MS_NOEXEC", 8),
    ("MS_SYNCHRONOUS", 16),
    ("MS_REMOUNT", 32),
    ("MS_NOATIME", 1024),
    ("MS_NODIRATIME", 2048),
    ("MS_BIND", 4096),
    ("MS_MOVE", 8192),
    ("MS_REC", 16384),
    ("MS_SILENT", 32768),
    ("MS_UNBINDABLE", 1 << 17),
    ("MS_PRIVATE", 1 << 18),
    ("MS_SLAVE", 1 << 19),
    ("MS_SHARED", 1 << 20),
    ("MS_RELATIME", 1 << 21),
    ("MS_STRICTATIME", 1 << 24),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_told_by_their_names() {
        let told = |value, of: Vocabulary| bits(value, &of.constants());
        assert_eq!(told(0o2_000_000, Vocabulary::Open), "O_RDONLY|O_CLOEXEC");
        assert_eq!(told(0o1102, Vocabulary::Open), "O_RDWR|O_CREAT|O_TRUNC");
        assert_eq!(told(0o4_010_001, Vocabulary::Open), "O_WRONLY|O_SYNC");
        assert_eq!(told(0, Vocabulary::Open), "O_RDONLY");
        assert_eq!(told(0, Vocabulary::Protection), "0");
        assert_eq!(told(0x22, Vocabulary::Map), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(told(1 << 40 | 0x100, Vocabulary::At), "AT_SYMLINK_NOFOLLOW|0x10000000000");
    }

    #[test]
    fn names_have_one_number_each() {
        let all: Vec<_> = FLAGS.iter().chain(&OTHERS).flat_map(|names| names.names()).collect();
        for (name, number) in all {
            assert_eq!(value(name), Some(*number), "{name}");
        }
        assert_eq!(Vocabulary::Results.value("ENOENT"), Some(-2));
        assert_eq!(Vocabulary::Results.value("-ENOENT"), Some(-2));
        assert_eq!(Vocabulary::Signals.value("SIGKILL"), Some(9));
        assert_eq!(value("nothing"), None);
    }
}
