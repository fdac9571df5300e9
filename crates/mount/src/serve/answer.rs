//! What the kernel is answered, and how long it may believe that.

use std::time::Duration;

use fuser::{FileAttr, FileType, Generation};
use rustix::io::Errno;

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
