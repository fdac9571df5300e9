//! The ways in which bytes are moved between a process and a file.

use serde::{Deserialize, Serialize};

/// A kind of transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// At the file's own position.
    Plain,
    /// At an offset that the call names.
    Positioned,
    /// Several pieces of memory in one call, at the position or at an offset.
    Vectored,
    /// Inside the kernel, from one descriptor to another.
    Copied,
    /// Messages of sockets.
    Message,
    /// Linux native AIO.
    Aio,
    /// io_uring.
    Uring,
    /// By memory that is mapped to the file: whole pages that came into the page cache, or became dirty.
    Mapped,
}

impl Transfer {
    /// All of them, in the order in which they are kept.
    pub const ALL: [Transfer; 8] = [
        Transfer::Plain,
        Transfer::Positioned,
        Transfer::Vectored,
        Transfer::Copied,
        Transfer::Message,
        Transfer::Aio,
        Transfer::Uring,
        Transfer::Mapped,
    ];

    /// Its name in keys.
    pub const fn name(self) -> &'static str {
        match self {
            Transfer::Plain => "plain",
            Transfer::Positioned => "positioned",
            Transfer::Vectored => "vectored",
            Transfer::Copied => "copied",
            Transfer::Message => "message",
            Transfer::Aio => "aio",
            Transfer::Uring => "uring",
            Transfer::Mapped => "mapped",
        }
    }

    /// What is one.
    pub const fn help(self) -> &'static str {
        match self {
            Transfer::Plain => "read, write: at the file's own position",
            Transfer::Positioned => "pread64, pwrite64: at an offset that the call names",
            Transfer::Vectored => {
                "readv, writev, preadv, pwritev, preadv2, pwritev2: several pieces of memory in one call"
            }
            Transfer::Copied => {
                "sendfile, splice, tee, vmsplice, copy_file_range: inside the kernel; read of one \
                 file, written to the other"
            }
            Transfer::Message => {
                "send, sendto, sendmsg, sendmmsg and their receiving partners; of sendmmsg and \
                 recvmmsg each message is a call"
            }
            Transfer::Aio => "Linux native AIO: each request is a call",
            Transfer::Uring => "io_uring: each request is a call",
            Transfer::Mapped => {
                "memory mapped to the file: whole pages that came into the page cache, or became \
                 dirty, by no call on this file; each folio is a call"
            }
        }
    }
}
