//! Which system calls are looked at, by their numbers.
//!
//! The numbers differ between architectures, and between a 64-bit and a 32-bit program on the same
//! machine. One that is not known here is said to be so, never guessed.

use libc::c_long;

/// What a call does that is of interest; the numbers are those of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Opens a file; where its flags are, if they are an argument.
    Open(Option<usize>),
    /// Takes bytes from descriptor 0; the kernel counts that itself, but for where they came from.
    Read,
    /// The same for writing.
    Write,
    /// Moves bytes from a file to descriptor 0; counted by the kernel, too.
    SendFile,
    /// Sends by descriptor 0; where its flags are.
    Send(usize),
    /// Receives by descriptor 0; where its flags are.
    Receive(usize),
    /// Sends several messages: descriptor, array, number, flags.
    SendMany,
    /// Receives several messages.
    ReceiveMany,
    /// Moves bytes between a pipe and something else: descriptors 0 and 2.
    Splice,
    /// Copies bytes from pipe to pipe.
    Tee,
    /// Moves memory into or out of a pipe, descriptor 0.
    VmSplice,
    /// Connects descriptor 0.
    Connect,
    /// Accepts a connection, which gets a descriptor.
    Accept,
    /// May tell the program that a connection stands, or is the last that is heard of it.
    Settle,
    /// One of the calls above, by number and address of its arguments.
    Multiplexed,
    /// Makes a process traced by another: what, and whom.
    Trace,
    /// Lets the kernel read and write by itself, unseen.
    Uring,
    /// The same in an older way.
    Aio,
}

/// The calls of one kind of program.
#[derive(Debug, PartialEq, Eq)]
pub struct Abi {
    /// What the kernel calls it (`AUDIT_ARCH_…`).
    pub audit_arch: u32,
    /// Whether addresses are 4 bytes long.
    pub is_32_bit: bool,
    /// The calls of interest.
    pub calls: &'static [(c_long, Kind)],
}

/// Numbers from here on are those of x32 programs, which are not known here.
pub const X32: u64 = 0x4000_0000;

/// The calls that have the same arguments everywhere, under this architecture's own numbers.
macro_rules! native {
    ($($more:expr,)*) => {
        &[
            (libc::SYS_openat, Kind::Open(Some(2))),
            (libc::SYS_openat2, Kind::Open(None)),
            (libc::SYS_open_by_handle_at, Kind::Open(Some(2))),
            (libc::SYS_mq_open, Kind::Open(Some(1))),
            (libc::SYS_read, Kind::Read),
            (libc::SYS_readv, Kind::Read),
            (libc::SYS_preadv2, Kind::Read),
            (libc::SYS_write, Kind::Write),
            (libc::SYS_writev, Kind::Write),
            (libc::SYS_pwritev2, Kind::Write),
            (libc::SYS_sendfile, Kind::SendFile),
            (libc::SYS_sendto, Kind::Send(3)),
            (libc::SYS_sendmsg, Kind::Send(2)),
            (libc::SYS_recvfrom, Kind::Receive(3)),
            (libc::SYS_recvmsg, Kind::Receive(2)),
            (libc::SYS_sendmmsg, Kind::SendMany),
            (libc::SYS_recvmmsg, Kind::ReceiveMany),
            (libc::SYS_splice, Kind::Splice),
            (libc::SYS_tee, Kind::Tee),
            (libc::SYS_vmsplice, Kind::VmSplice),
            (libc::SYS_connect, Kind::Connect),
            (libc::SYS_accept, Kind::Accept),
            (libc::SYS_accept4, Kind::Accept),
            (libc::SYS_getsockopt, Kind::Settle),
            (libc::SYS_close, Kind::Settle),
            (libc::SYS_ptrace, Kind::Trace),
            (libc::SYS_io_uring_setup, Kind::Uring),
            (libc::SYS_io_setup, Kind::Aio),
            $($more,)*
        ]
    };
}

/// 32-bit programs: x86 and ARM have these numbers in common.
macro_rules! compat {
    ($($more:expr,)*) => {
        &[
            (3, Kind::Read),
            (4, Kind::Write),
            (5, Kind::Open(Some(1))),
            (6, Kind::Settle),
            (8, Kind::Open(None)), // creat
            (26, Kind::Trace),
            (102, Kind::Multiplexed), // socketcall
            (145, Kind::Read),        // readv
            (146, Kind::Write),       // writev
            (187, Kind::SendFile),
            (239, Kind::SendFile), // sendfile64
            (425, Kind::Uring),
            (437, Kind::Open(None)), // openat2
            (417, Kind::ReceiveMany), // recvmmsg_time64
            $($more,)*
        ]
    };
}

/// All that are known here.
#[cfg(target_arch = "x86_64")]
pub const ABIS: &[Abi] = &[
    Abi {
        audit_arch: 0xc000_003e,
        is_32_bit: false,
        calls: native![(libc::SYS_open, Kind::Open(Some(1))), (libc::SYS_creat, Kind::Open(None)),],
    },
    Abi {
        audit_arch: 0x4000_0003,
        is_32_bit: true,
        calls: compat![
            (245, Kind::Aio),           // io_setup
            (277, Kind::Open(Some(1))), // mq_open
            (295, Kind::Open(Some(2))), // openat
            (313, Kind::Splice),
            (315, Kind::Tee),
            (316, Kind::VmSplice),
            (337, Kind::ReceiveMany),
            (342, Kind::Open(Some(2))), // open_by_handle_at
            (345, Kind::SendMany),
            (362, Kind::Connect),
            (364, Kind::Accept),     // accept4
            (365, Kind::Settle),     // getsockopt
            (369, Kind::Send(3)),    // sendto
            (370, Kind::Send(2)),    // sendmsg
            (371, Kind::Receive(3)), // recvfrom
            (372, Kind::Receive(2)), // recvmsg
            (378, Kind::Read),       // preadv2
            (379, Kind::Write),      // pwritev2
        ],
    },
];

/// All that are known here.
#[cfg(target_arch = "aarch64")]
pub const ABIS: &[Abi] = &[
    Abi { audit_arch: 0xc000_00b7, is_32_bit: false, calls: native![] },
    Abi {
        audit_arch: 0x4000_0028,
        is_32_bit: true,
        calls: compat![
            (243, Kind::Aio),           // io_setup
            (274, Kind::Open(Some(1))), // mq_open
            (283, Kind::Connect),
            (285, Kind::Accept),
            (289, Kind::Send(3)),       // send
            (290, Kind::Send(3)),       // sendto
            (291, Kind::Receive(3)),    // recv
            (292, Kind::Receive(3)),    // recvfrom
            (295, Kind::Settle),        // getsockopt
            (296, Kind::Send(2)),       // sendmsg
            (297, Kind::Receive(2)),    // recvmsg
            (322, Kind::Open(Some(2))), // openat
            (340, Kind::Splice),
            (342, Kind::Tee),
            (343, Kind::VmSplice),
            (365, Kind::ReceiveMany),
            (366, Kind::Accept),        // accept4
            (371, Kind::Open(Some(2))), // open_by_handle_at
            (374, Kind::SendMany),
            (392, Kind::Read),  // preadv2
            (393, Kind::Write), // pwritev2
        ],
    },
];

/// None is known here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const ABIS: &[Abi] = &[];

/// A call of interest, or none; an error if the numbers of such programs are not known here.
pub fn kind(audit_arch: u32, number: u64) -> Result<Option<(&'static Abi, Kind)>, UnknownAbi> {
    let abi = ABIS.iter().find(|abi| abi.audit_arch == audit_arch);
    let abi = abi.filter(|abi| abi.is_32_bit || number < X32).ok_or(UnknownAbi)?;
    let known = abi.calls.iter().find(|(known, _)| u64::try_from(*known) == Ok(number));
    Ok(known.map(|(_, kind)| (abi, *kind)))
}

/// Programs whose system calls have numbers that are not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAbi;

/// What one of the calls behind socketcall(2) does.
pub fn multiplexed(number: u64) -> Option<Kind> {
    Some(match number {
        3 => Kind::Connect,
        5 | 18 => Kind::Accept,
        9 | 11 => Kind::Send(3),
        10 | 12 => Kind::Receive(3),
        15 => Kind::Settle,
        16 => Kind::Send(2),
        17 => Kind::Receive(2),
        19 => Kind::ReceiveMany,
        20 => Kind::SendMany,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_means_two_things() {
        for abi in ABIS {
            for (index, (number, _)) in abi.calls.iter().enumerate() {
                let again = abi.calls[index + 1..].iter().any(|(other, _)| other == number);
                assert!(!again, "{number} of {:#x}", abi.audit_arch);
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn numbers_are_those_of_the_program_s_own_kind() {
        let of = |arch, number| kind(arch, number).map(|found| found.map(|(_, kind)| kind));
        assert_eq!(of(0xc000_003e, 1), Ok(Some(Kind::Write)));
        assert_eq!(of(0x4000_0003, 1), Ok(None), "exit");
        assert_eq!(of(0x4000_0003, 4), Ok(Some(Kind::Write)));
        assert_eq!(of(0xc000_003e, X32 + 1), Err(UnknownAbi));
        assert_eq!(of(0x8000_0016, 4), Err(UnknownAbi), "another machine's");
    }
}
