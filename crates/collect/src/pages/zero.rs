//! The frames of the kernel's zero page, small and huge: mapped wherever memory is read before it
//! is written, and part of nobody's resident size.
//!
//! Found by doing just that here and looking at our own pagemap.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The frames of the zero page.
#[derive(Debug, Default)]
pub struct ZeroFrames {
    small: Option<u64>,
    huge: Range<u64>,
}

const HUGE_BYTES: usize = 2 << 20;

impl ZeroFrames {
    /// Looks for them; those that are not found, or hidden, are taken not to exist.
    pub fn find() -> ZeroFrames {
        let page = rustix::param::page_size();
        let small = read_and_look(page, page, None).unwrap_or_default().first().copied();
        // A huge page needs an aligned place: there is one in twice the space.
        let frames = read_and_look(2 * HUGE_BYTES, HUGE_BYTES, Some(Advice::LinuxHugepage))
            .unwrap_or_default();
        let in_a_row = frames.windows(2).all(|w| w[1] == w[0] + 1);
        let huge = match (frames.first(), frames.last()) {
            (Some(first), Some(last)) if in_a_row && last > first => *first..last + 1,
            _ => 0..0,
        };
        ZeroFrames { small, huge }
    }

    /// Whether a frame is one of them.
    pub fn contains(&self, frame: u64) -> bool {
        self.small == Some(frame) || self.huge.contains(&frame)
    }
}

/// Maps `size` bytes, reads the first place in them that is aligned to `align`, and returns the
/// frames of the `align` bytes from there on.
fn read_and_look(size: usize, align: usize, advice: Option<Advice>) -> Option<Vec<u64>> {
    let page = rustix::param::page_size();
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
    let base = unsafe { mmap_anonymous(ptr::null_mut(), size, ProtFlags::READ, MapFlags::PRIVATE) }
        .ok()?;
    if let Some(advice) = advice {
        // SAFETY: the range is the mapping made above; the advice changes no content. Without
        // huge pages it fails, and then small ones are found below.
        let _ = unsafe { madvise(base, size, advice) };
    }
    let start = (base as usize).next_multiple_of(align);
    // SAFETY: the place lies in the mapping, which is readable and at least this long behind it.
    unsafe { ptr::with_exposed_provenance::<u8>(start).read_volatile() };
    let mut bytes = vec![0; align / page * 8];
    let look = File::open("/proc/self/pagemap")
        .and_then(|pagemap| pagemap.read_exact_at(&mut bytes, (start / page * 8) as u64));
    // SAFETY: nothing refers to the mapping any more.
    let _ = unsafe { munmap(base, size) };
    look.ok()?;
    let frames = bytes.chunks_exact(8).filter_map(|entry| {
        let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of eight"));
        frame_of(entry).filter(|frame| *frame != 0)
    });
    Some(frames.collect())
}

/// The frame of a pagemap entry whose page is present; 0 if the kernel hides it.
pub fn frame_of(entry: u64) -> Option<u64> {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    (entry & PRESENT != 0).then_some(entry & FRAME)
}
