//! Which system calls are looked at, by their numbers.
//!
//! The numbers differ between architectures, and between a 64-bit and a 32-bit program on the same
//! machine. One that is not known here is said to be so, never guessed.

use libc::c_long;

/// What a call does that is of interest; the numbers are those of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallAction {
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
    pub calls: &'static [(c_long, CallAction)],
}

/// Numbers from here on are those of x32 programs, which are not known here.
pub const X32: u64 = 0x4000_0000;

/// The calls that have the same arguments everywhere, under this architecture's own numbers.
macro_rules! native {
    ($($more:expr,)*) => {
        &[
            (libc::SYS_openat, CallAction::Open(Some(2))),
            (libc::SYS_openat2, CallAction::Open(None)),
            (libc::SYS_open_by_handle_at, CallAction::Open(Some(2))),
            (libc::SYS_mq_open, CallAction::Open(Some(1))),
            (libc::SYS_read, CallAction::Read),
            (libc::SYS_readv, CallAction::Read),
            (libc::SYS_preadv2, CallAction::Read),
            (libc::SYS_write, CallAction::Write),
            (libc::SYS_writev, CallAction::Write),
            (libc::SYS_pwritev2, CallAction::Write),
            (libc::SYS_sendfile, CallAction::SendFile),
            (libc::SYS_sendto, CallAction::Send(3)),
            (libc::SYS_sendmsg, CallAction::Send(2)),
            (libc::SYS_recvfrom, CallAction::Receive(3)),
            (libc::SYS_recvmsg, CallAction::Receive(2)),
            (libc::SYS_sendmmsg, CallAction::SendMany),
            (libc::SYS_recvmmsg, CallAction::ReceiveMany),
            (libc::SYS_splice, CallAction::Splice),
            (libc::SYS_tee, CallAction::Tee),
            (libc::SYS_vmsplice, CallAction::VmSplice),
            (libc::SYS_connect, CallAction::Connect),
            (libc::SYS_accept, CallAction::Accept),
            (libc::SYS_accept4, CallAction::Accept),
            (libc::SYS_getsockopt, CallAction::Settle),
            (libc::SYS_close, CallAction::Settle),
            (libc::SYS_ptrace, CallAction::Trace),
            (libc::SYS_io_uring_setup, CallAction::Uring),
            (libc::SYS_io_setup, CallAction::Aio),
            $($more,)*
        ]
    };
}

/// 32-bit programs: x86 and ARM have these numbers in common.
macro_rules! compat {
    ($($more:expr,)*) => {
        &[
            (3, CallAction::Read),
            (4, CallAction::Write),
            (5, CallAction::Open(Some(1))),
            (6, CallAction::Settle),
            (8, CallAction::Open(None)), // creat
            (26, CallAction::Trace),
            (102, CallAction::Multiplexed), // socketcall
            (145, CallAction::Read),        // readv
            (146, CallAction::Write),       // writev
            (187, CallAction::SendFile),
            (239, CallAction::SendFile), // sendfile64
            (425, CallAction::Uring),
            (437, CallAction::Open(None)), // openat2
            (417, CallAction::ReceiveMany), // recvmmsg_time64
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
        calls: native![
            (libc::SYS_open, CallAction::Open(Some(1))),
            (libc::SYS_creat, CallAction::Open(None)),
        ],
    },
    Abi {
        audit_arch: 0x4000_0003,
        is_32_bit: true,
        calls: compat![
            (245, CallAction::Aio),           // io_setup
            (277, CallAction::Open(Some(1))), // mq_open
            (295, CallAction::Open(Some(2))), // openat
            (313, CallAction::Splice),
            (315, CallAction::Tee),
            (316, CallAction::VmSplice),
            (337, CallAction::ReceiveMany),
            (342, CallAction::Open(Some(2))), // open_by_handle_at
            (345, CallAction::SendMany),
            (362, CallAction::Connect),
            (364, CallAction::Accept),     // accept4
            (365, CallAction::Settle),     // getsockopt
            (369, CallAction::Send(3)),    // sendto
            (370, CallAction::Send(2)),    // sendmsg
            (371, CallAction::Receive(3)), // recvfrom
            (372, CallAction::Receive(2)), // recvmsg
            (378, CallAction::Read),       // preadv2
            (379, CallAction::Write),      // pwritev2
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
            (243, CallAction::Aio),           // io_setup
            (274, CallAction::Open(Some(1))), // mq_open
            (283, CallAction::Connect),
            (285, CallAction::Accept),
            (289, CallAction::Send(3)),       // send
            (290, CallAction::Send(3)),       // sendto
            (291, CallAction::Receive(3)),    // recv
            (292, CallAction::Receive(3)),    // recvfrom
            (295, CallAction::Settle),        // getsockopt
            (296, CallAction::Send(2)),       // sendmsg
            (297, CallAction::Receive(2)),    // recvmsg
            (322, CallAction::Open(Some(2))), // openat
            (340, CallAction::Splice),
            (342, CallAction::Tee),
            (343, CallAction::VmSplice),
            (365, CallAction::ReceiveMany),
            (366, CallAction::Accept),        // accept4
            (371, CallAction::Open(Some(2))), // open_by_handle_at
            (374, CallAction::SendMany),
            (392, CallAction::Read),  // preadv2
            (393, CallAction::Write), // pwritev2
        ],
    },
];

/// None is known here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const ABIS: &[Abi] = &[];

/// A call of interest, or none; an error if the numbers of such programs are not known here.
pub fn kind(
    audit_arch: u32,
    number: u64,
) -> Result<Option<(&'static Abi, CallAction)>, UnknownAbi> {
    let abi = ABIS.iter().find(|abi| abi.audit_arch == audit_arch);
    let abi = abi.filter(|abi| abi.is_32_bit || number < X32).ok_or(UnknownAbi)?;
    let known = abi.calls.iter().find(|(known, _)| u64::try_from(*known) == Ok(number));
    Ok(known.map(|(_, kind)| (abi, *kind)))
}

/// Programs whose system calls have numbers that are not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAbi;

/// What one of the calls behind socketcall(2) does.
pub fn multiplexed(number: u64) -> Option<CallAction> {
    Some(match number {
        3 => CallAction::Connect,
        5 | 18 => CallAction::Accept,
        9 | 11 => CallAction::Send(3),
        10 | 12 => CallAction::Receive(3),
        15 => CallAction::Settle,
        16 => CallAction::Send(2),
        17 => CallAction::Receive(2),
        19 => CallAction::ReceiveMany,
        20 => CallAction::SendMany,
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
        assert_eq!(of(0xc000_003e, 1), Ok(Some(CallAction::Write)));
        assert_eq!(of(0x4000_0003, 1), Ok(None), "exit");
        assert_eq!(of(0x4000_0003, 4), Ok(Some(CallAction::Write)));
        assert_eq!(of(0xc000_003e, X32 + 1), Err(UnknownAbi));
        assert_eq!(of(0x8000_0016, 4), Err(UnknownAbi), "another machine's");
    }
}
