//! A call as a row: with the names of what it is about.

use weigh_schema::call_row::Returned;
use weigh_schema::io::{Called, Deed, IoCall};

use super::file_use::seconds;
use super::usage_table::IoBook;

/// What is told of one call. `epoch_ns` is when the following began, `call` names a call by its number.
pub fn io_call(
    book: &IoBook,
    called: &Called,
    epoch_ns: i64,
    call: &dyn Fn(u64) -> String,
) -> IoCall {
    let file = called.file.unwrap_or_default();
    let began_ns = called.ended_ns.saturating_sub(called.time_ns);
    IoCall {
        time_ns: epoch_ns.saturating_add_unsigned(began_ns),
        pid: called.pid,
        tid: called.tid,
        call: call(called.number),
        deed: called.deed.name().to_string(),
        kind: called.deed.transfer().map(|transfer| transfer.name().to_string()),
        path: called.file.map(|file| book.name_of(file)),
        path_base64: called.file.and_then(|file| book.name_base64(file)),
        device: file.device,
        inode: file.inode,
        offset_bytes: called.from,
        asked_bytes: called.asked,
        // What others return is no number of bytes: an address, a descriptor, a place.
        bytes: match called.deed {
            Deed::Read(_) | Deed::Write(_) | Deed::Fill => called.bytes,
            _ => 0,
        },
        calls_total: match called.deed {
            Deed::Read(_) | Deed::Write(_) => called.calls.into(),
            _ => 1,
        },
        error: Returned(called.error.into()),
        time_seconds: seconds(called.time_ns),
    }
}
