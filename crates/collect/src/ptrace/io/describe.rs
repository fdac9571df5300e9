//! What a call has done, from its arguments and what it returned, and with which descriptors: as
//! `collect/bpf/io/describe.h` has it.

use libc::c_int;
use weigh_schema::io::{Deed, Transfer};

use super::files;
use super::short::{LONG, Words};
use crate::io::layout::skeleton::types::io_call as CallKind;
use crate::ptrace::sys::{Call, read_memory};

/// The kernel takes no more pieces of a vector, and no more messages.
const MOST_PIECES: u64 = 1024;

/// Where in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOffset {
    /// In none.
    Nowhere,
    /// From there on.
    At(u64),
    /// At the file's own position, which lies behind it when it is done.
    BeforePosition,
    /// At the file's end, which was here, if the file has grown by what was written and no more.
    AtEnd(u64),
}

/// What was done with one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The descriptor; none where a path says what it is about.
    pub fd: Option<c_int>,
    /// What was done.
    pub deed: Deed,
    /// Calls that it counts for.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Where.
    pub place: FileOffset,
    /// Of an open: whether it makes the file empty.
    pub truncates: bool,
    /// Whether the call's time is this end's.
    pub is_timed: bool,
    /// Bytes asked for, where that is known.
    pub asked: Option<u64>,
}

/// Whether a call copies a descriptor: of fcntl(2) most do not.
pub fn is_copy(number: u64, second: u64) -> bool {
    let copies = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];
    number != libc::SYS_fcntl.cast_unsigned() || copies.contains(&(second as c_int))
}

/// The flags by which a write at an offset goes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Appending {
    /// The open file's decide.
    AsOpened,
    /// Those of the call say so.
    Always,
    /// Those of the call say that it does not.
    Never,
}

/// RWF_APPEND, and RWF_NOAPPEND of Linux 6.9.
const APPEND: u64 = 0x10;
const NO_APPEND: u64 = 0x20;

fn appending(call: &Call, words: Words) -> Appending {
    if call.number != libc::SYS_pwritev2.cast_unsigned() {
        return Appending::AsOpened;
    }
    // Of a 32-bit program the offset's halves are one argument.
    let flags = call.arguments[if words == LONG { 5 } else { 4 }];
    match (flags & APPEND != 0, flags & NO_APPEND != 0) {
        (true, _) => Appending::Always,
        (false, true) => Appending::Never,
        (false, false) => Appending::AsOpened,
    }
}

/// Where the file ends that a call is about to append to: one that names an offset, where O_APPEND or flags of its own
/// have the kernel put it there.
pub fn end_before(tid: u32, kind: CallKind, call: &Call, words: Words) -> Option<u64> {
    let is_at_offset = match kind {
        CallKind::CALL_PWRITE => true,
        CallKind::CALL_PWRITEV => call.arguments[3].cast_signed() >= 0,
        _ => false,
    };
    if !is_at_offset {
        return None;
    }
    let fd = call.arguments[0] as c_int;
    let is_appended = match appending(call, words) {
        Appending::Never => false,
        Appending::Always => true,
        Appending::AsOpened => files::opened(tid, fd).flags & libc::O_APPEND as u32 != 0,
    };
    if is_appended { files::size(tid, fd) } else { None }
}

/// All that was done: with one descriptor, or from one to another. Where the file ended before, if that is where it
/// was written.
pub fn ends(
    tid: u32,
    kind: CallKind,
    (arguments, words): (&[u64; 6], Words),
    end: Option<u64>,
    result: Result<u64, i32>,
) -> Vec<End> {
    let call = Described { tid, kind, arguments, words, end, result };
    match kind {
        CallKind::CALL_SENDFILE => call.copied((1, 2), (0, usize::MAX)),
        CallKind::CALL_SPLICE | CallKind::CALL_COPY_RANGE => call.copied((0, 1), (2, 3)),
        CallKind::CALL_TEE => call.copied((0, usize::MAX), (1, usize::MAX)),
        CallKind::CALL_OPEN
        | CallKind::CALL_OPENAT
        | CallKind::CALL_OPENAT2
        | CallKind::CALL_CREAT => vec![call.opened()],
        CallKind::CALL_SEEK
        | CallKind::CALL_SYNC
        | CallKind::CALL_TRUNCATE
        | CallKind::CALL_METADATA
        | CallKind::CALL_STATAT
        | CallKind::CALL_PATH
        | CallKind::CALL_MMAP => vec![call.other()],
        CallKind::CALL_FREE => Vec::new(),
        _ => vec![call.moved()],
    }
}

struct Described<'a> {
    tid: u32,
    kind: CallKind,
    arguments: &'a [u64; 6],
    words: Words,
    end: Option<u64>,
    result: Result<u64, i32>,
}

impl Described<'_> {
    fn fd(&self, argument: usize) -> Option<c_int> {
        Some(self.arguments[argument] as c_int)
    }

    /// One that failed has moved nothing: it is counted with those.
    fn end(&self, fd: Option<c_int>, deed: Deed) -> End {
        End {
            fd,
            deed,
            calls: u64::from(self.result.is_ok()),
            bytes: 0,
            place: FileOffset::Nowhere,
            truncates: false,
            is_timed: true,
            asked: None,
        }
    }

    /// A number of so many bytes.
    fn number_at(&self, address: u64, bytes: u64) -> Option<u64> {
        match bytes {
            4 => read_memory::<4>(self.tid, address).map(|bytes| u32::from_ne_bytes(bytes).into()),
            _ => read_memory::<8>(self.tid, address).map(u64::from_ne_bytes),
        }
    }

    /// From one descriptor to another, each given by its argument and that of where its offset lies.
    fn copied(&self, read: (usize, usize), written: (usize, usize)) -> Vec<End> {
        let bytes = self.result.unwrap_or(0);
        let asked = match self.kind {
            CallKind::CALL_SENDFILE => self.arguments[3],
            CallKind::CALL_TEE => self.arguments[2],
            _ => self.arguments[4],
        };
        let end = |(fd, at): (usize, usize), deed| {
            let variable = self.arguments.get(at).copied().filter(|at| *at != 0);
            // It has been moved on by the call.
            let moved_on = |at| self.number_at(at, self.words.offset_bytes);
            let from = variable.map(|at| moved_on(at).and_then(|to| to.checked_sub(bytes)));
            let place = match from {
                None => FileOffset::BeforePosition,
                Some(from) => from.map_or(FileOffset::Nowhere, FileOffset::At),
            };
            End { bytes, place, asked: Some(asked), ..self.end(self.fd(fd), deed) }
        };
        let written = end(written, Deed::Write(Transfer::Copied));
        // The time is one call's.
        vec![end(read, Deed::Read(Transfer::Copied)), End { is_timed: false, ..written }]
    }

    fn moved(&self) -> End {
        use CallKind as Call;
        let transfer = match self.kind {
            Call::CALL_READ | Call::CALL_WRITE => Transfer::Plain,
            Call::CALL_PREAD | Call::CALL_PWRITE => Transfer::Positioned,
            Call::CALL_READV | Call::CALL_WRITEV | Call::CALL_PREADV | Call::CALL_PWRITEV => {
                Transfer::Vectored
            }
            Call::CALL_VMSPLICE => Transfer::Copied,
            _ => Transfer::Message,
        };
        let wrote = matches!(
            self.kind,
            Call::CALL_WRITE
                | Call::CALL_PWRITE
                | Call::CALL_WRITEV
                | Call::CALL_PWRITEV
                | Call::CALL_SEND
                | Call::CALL_SEND_MANY
                | Call::CALL_VMSPLICE
        );
        let deed = if wrote { Deed::Write(transfer) } else { Deed::Read(transfer) };
        let mut end = self.end(self.fd(0), deed);
        end.bytes = self.result.unwrap_or(0);
        end.asked = self.asked();
        if matches!(self.kind, Call::CALL_SEND_MANY | Call::CALL_RECEIVE_MANY) {
            // Each message is a call.
            end.calls = self.result.unwrap_or(0);
            // A header of seven words, and the length of what was moved.
            let word = self.words.bytes;
            let length = |at| self.number_at(at, 4);
            end.bytes = self.pieces(self.arguments[1], end.calls, (8 * word, 7 * word), length);
        }
        end.place = match self.kind {
            _ if self.end.is_some() => self.end.map_or(FileOffset::Nowhere, FileOffset::AtEnd),
            Call::CALL_PREAD | Call::CALL_PWRITE => FileOffset::At(self.arguments[3]),
            // preadv2 and its like: -1 is the file's own position.
            Call::CALL_PREADV | Call::CALL_PWRITEV if self.arguments[3].cast_signed() >= 0 => {
                FileOffset::At(self.arguments[3])
            }
            _ => FileOffset::BeforePosition,
        };
        end
    }

    /// How much a call asked for; messages in vectors are left out.
    fn asked(&self) -> Option<u64> {
        use CallKind as Call;
        match self.kind {
            Call::CALL_READ | Call::CALL_WRITE | Call::CALL_PREAD | Call::CALL_PWRITE => {
                Some(self.arguments[2])
            }
            Call::CALL_READV
            | Call::CALL_WRITEV
            | Call::CALL_PREADV
            | Call::CALL_PWRITEV
            | Call::CALL_VMSPLICE => {
                let [_, vector, pieces, ..] = *self.arguments;
                let word = self.words.bytes;
                let length = |at| self.number_at(at, word);
                Some(self.pieces(vector, pieces, (2 * word, word), length))
            }
            _ => None,
        }
    }

    /// Adds up what stands in each element of an array: of so many bytes, at such a distance from its beginning.
    fn pieces(
        &self,
        address: u64,
        number: u64,
        (size, offset): (u64, u64),
        read: impl Fn(u64) -> Option<u64>,
    ) -> u64 {
        let at = |element: u64| address.wrapping_add(element * size + offset);
        (0..number.min(MOST_PIECES)).map_while(|element| read(at(element))).sum()
    }

    fn opened(&self) -> End {
        let Ok(fd) = self.result else { return self.end(None, Deed::Open) };
        let flags = match self.kind {
            CallKind::CALL_OPEN => self.arguments[1],
            CallKind::CALL_OPENAT => self.arguments[2],
            CallKind::CALL_CREAT => libc::O_TRUNC as u64,
            _ => self.number_at(self.arguments[2], 8).unwrap_or(0),
        };
        let truncates = flags & libc::O_TRUNC as u64 != 0;
        End { truncates, ..self.end(Some(fd as c_int), Deed::Open) }
    }

    /// A call that says what it is about by a path, unless that is empty.
    fn is_by_path(&self) -> bool {
        let [folder, path, ..] = *self.arguments;
        match self.kind {
            CallKind::CALL_PATH => true,
            CallKind::CALL_STATAT if folder as c_int == libc::AT_FDCWD => true,
            CallKind::CALL_STATAT => {
                path != 0 && read_memory::<1>(self.tid, path).is_some_and(|first| first != [0])
            }
            _ => false,
        }
    }

    fn other(&self) -> End {
        if self.is_by_path() {
            return self.end(None, Deed::Path);
        }
        let deed = match self.kind {
            CallKind::CALL_SEEK => Deed::Seek,
            CallKind::CALL_SYNC => Deed::Sync,
            CallKind::CALL_TRUNCATE => Deed::Truncate,
            CallKind::CALL_MMAP => Deed::Map,
            _ => Deed::Metadata,
        };
        let fd = if deed == Deed::Map { self.fd(4) } else { self.fd(0) };
        self.end(fd, deed)
    }
}
