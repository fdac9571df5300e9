//! What the kernel is answered, and how long it may believe that.

use std::time::Duration;

use fuser::{FileAttr, FileType, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};
use rustix::io::Errno;

use super::attributes::Noted;
use super::served::Served;

/// So long the kernel may believe what it was told of a file, without asking again: what is changed in the
/// folder below by others is seen that much later.
pub(super) const BELIEVED: Duration = Duration::from_secs(1);
/// Numbers are never given again while the kernel remembers them.
pub(super) const GENERATION: Generation = Generation(0);

/// What comes of a request.
pub(super) type Outcome<T> = Result<T, Errno>;

/// How long the kernel may believe this. It does not notice that a write takes the set-user-ID bit away, and
/// would for a while run what was written with the rights of another.
pub(super) fn believed(known: &FileAttr) -> Duration {
    let is_program = known.kind == FileType::RegularFile && known.perm & 0o6000 != 0;
    if is_program { Duration::ZERO } else { BELIEVED }
}

/// The same for fuser.
pub(super) fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

/// What may take long: another thread waits for requests meanwhile.
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
