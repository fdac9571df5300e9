//! The ways in which bytes are moved between a process and a file.

use crate::named::named;

named! {
    /// A kind of transfer.
    #[derive(PartialOrd, Ord)]
    pub enum Transfer {
        /// At the file's own position.
        Plain = "plain",
        /// At an offset that the call names.
        Positioned = "positioned",
        /// Several pieces of memory in one call, at the position or at an offset.
        Vectored = "vectored",
        /// Inside the kernel, from one descriptor to another.
        Copied = "copied",
        /// Messages of sockets.
        Message = "message",
        /// Linux native AIO.
        Aio = "aio",
        /// io_uring.
        Uring = "uring",
        /// By memory that is mapped to the file: whole pages that came into the page cache, or became dirty.
        Mapped = "mapped",
    }
}

impl Transfer {
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
