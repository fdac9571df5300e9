//! Replies that several requests have: the request is done, and answered, while another thread waits for the next one.

use fuser::{FileAttr, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};
use rustix::io::Errno;

use super::answer::{BELIEVED, GENERATION, Outcome, believed};
use super::attributes::Noted;
use super::served::Served;

/// As fuser has it.
pub(super) fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

impl Served {
    pub(super) fn done(&self, reply: ReplyEmpty, work: impl FnOnce() -> Outcome<()>) {
        let _turn = self.readers.begin_slow();
        match work() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn entry(&self, reply: ReplyEntry, work: impl FnOnce() -> Outcome<FileAttr>) {
        let _turn = self.readers.begin_slow();
        match work() {
            Ok(known) => reply.entry_with_ttls(&believed(&known), &BELIEVED, &known, GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn attributes(&self, reply: ReplyAttr, work: impl FnOnce() -> Outcome<FileAttr>) {
        let _turn = self.readers.begin_slow();
        match work() {
            Ok(known) => reply.attr(&believed(&known), &known),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn extended_attribute(
        &self,
        reply: ReplyXattr,
        work: impl FnOnce() -> Outcome<Noted>,
    ) {
        let _turn = self.readers.begin_slow();
        match work() {
            Ok(Noted::Size(size)) => reply.size(size as u32),
            Ok(Noted::Data(data)) => reply.data(&data),
            Err(error) => reply.error(errno(error)),
        }
    }
}
