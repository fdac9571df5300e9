//! Bits of a thread that a program asks for before anything else.
//!
//! Reads the kernel's types; emits where the bits lie in `struct task_struct`.

use crate::btf::Btf;
use crate::cursor::Cursor;
use crate::path::Path;
use crate::path_resolve::{End, Walker};
use crate::signature::of_tracepoint;

/// Some bits of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBits {
    /// Where the word lies that has them.
    pub(crate) at: i32,
    /// Bytes of it.
    pub(crate) bytes: u32,
    /// Which of them.
    pub(crate) mask: i32,
}

/// A tracepoint of every kernel that hands over a thread.
const OF_THREAD: &str = "sched_process_exit";

/// `TS_COMPAT` of x86, `TIF_32BIT` of ARM.
#[cfg(not(target_arch = "aarch64"))]
const COMPATIBLE: (&str, i32) = ("arg0->thread_info.status", 2);
#[cfg(target_arch = "aarch64")]
const COMPATIBLE: (&str, i32) = ("arg0->thread_info.flags", 1 << 22);

impl ThreadBits {
    /// Those that say that the system call under way is one of a 32-bit program, whose numbers are others. None where
    /// the kernel has no such calls.
    pub fn compatible(btf: &Btf) -> Option<ThreadBits> {
        let (text, mask) = COMPATIBLE;
        let path = Path::parse(&mut Cursor::new(text).ok()?).ok()??;
        let signature = of_tracepoint(btf, OF_THREAD).ok()?;
        let arguments = &signature.arguments;
        let walker = Walker { btf, arguments, event: OF_THREAD, text, is_in_program: false };
        let place = walker.follow(&path).ok()?;
        let End::Loaded { hop, bits: None } = place.end else { return None };
        let is_in_thread = place.hops.is_empty();
        is_in_thread.then_some(ThreadBits {
            at: hop.offset.cast_signed(),
            bytes: place.bytes,
            mask,
        })
    }
}
