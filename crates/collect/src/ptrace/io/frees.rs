//! Which calls may free space of a file system: as `collect/bpf/io/frees.h` has it.

use libc::{c_int, c_long};

use super::files;
use crate::io::calls::may_free;
use crate::io::layout::skeleton::types::io_call as CallKind;
use crate::ptrace::sys::Call;

/// The types of requests to files in ioctl(2): FICLONE, XFS_IOC_UNRESVSP, and ext4's own.
const REQUESTS: [u8; 3] = [0x94, b'X', b'f'];

/// Whether a call that begins may, as far as its arguments say.
pub fn by_arguments(tid: u32, kind: CallKind, call: &Call) -> bool {
    let [first, second, ..] = call.arguments;
    match c_long::try_from(call.number) {
        // Preallocated space beyond the end is given back where the length stays.
        _ if kind == CallKind::CALL_TRUNCATE => {
            files::size(tid, first as c_int).is_none_or(|size| second <= size)
        }
        Ok(libc::SYS_fallocate) => second & !(libc::FALLOC_FL_KEEP_SIZE as u64) != 0,
        Ok(libc::SYS_ioctl) => REQUESTS.contains(&((second >> 8) as u8)),
        _ => may_free(call.number),
    }
}

/// Whether a file that was opened to be emptied may have held anything: not if the open has made it.
pub fn by_open(tid: u32, fd: i32, is_known: bool) -> bool {
    is_known || !files::is_as_made(tid, fd)
}

/// Whether a map may lose pages of its file by madvise(2), which is not looked at.
pub fn by_map(tid: u32, fd: i32, flags: u64) -> bool {
    let is_shared = flags & libc::MAP_SHARED as u64 != 0;
    is_shared && files::opened(tid, fd).flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32
}
