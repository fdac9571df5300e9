//! Files that are mapped, and shared with the job's programs.
//!
//! A page that is touched must be in the file. [`SharedMap::make_room`] has the file system set room aside for
//! it. Where a program has cut the file all the same, the touch is a SIGBUS: weigh gets a page of zeros there
//! instead, goes on, and knows of it ([`SharedMap::is_cut`]).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::signals::hold_for_reader;

/// `MADV_POPULATE_WRITE`, Linux 5.14: fails where a touch would be a SIGBUS.
const POPULATE_WRITE: i32 = 23;

/// The largest page of the machines that weigh runs on.
const PAGE: usize = 65_536;

/// Maps that there can be at one time.
const MAPS: usize = 16;

/// Where a map lies. The signal's handler reads it: nothing but atomics.
struct Span {
    from: AtomicUsize,
    to: AtomicUsize,
    is_cut: AtomicBool,
}

static SPANS: [Span; MAPS] = [const {
    Span { from: AtomicUsize::new(0), to: AtomicUsize::new(0), is_cut: AtomicBool::new(false) }
}; MAPS];

/// What was done with the signal before; none if nothing was changed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// A file that is mapped whole.
pub struct SharedMap {
    file: File,
    at: NonNull<u8>,
    bytes: usize,
    span: &'static Span,
}

impl SharedMap {
    /// Maps a file of that many bytes.
    pub fn new(file: File, bytes: usize) -> io::Result<SharedMap> {
        has_handler();
        let free = |span: &&Span| {
            span.from.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let span = SPANS.iter().find(free).ok_or(Errno::NFILE)?;
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, where the kernel likes; the file is only ever mapped.
        let map = unsafe { mmap(std::ptr::null_mut(), bytes, rights, flags, &file, 0) };
        let at = map.map_err(io::Error::from).and_then(|map| {
            NonNull::new(map.cast::<u8>()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
        });
        let at = at.inspect_err(|_| span.from.store(0, Ordering::Release))?;
        span.is_cut.store(false, Ordering::Relaxed);
        span.to.store(at.as_ptr() as usize + bytes, Ordering::Release);
        span.from.store(at.as_ptr() as usize, Ordering::Release);
        Ok(SharedMap { file, at, bytes, span })
    }

    /// Where it lies: aligned to a page, and so long as was asked for.
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }

    /// Whether a page that was touched was no longer in the file.
    pub fn is_cut(&self) -> bool {
        self.span.is_cut.load(Ordering::Relaxed)
    }

    /// Has room set aside for these bytes.
    pub fn make_room(&self, part: Range<usize>) -> io::Result<()> {
        let end = part.end.min(self.bytes);
        let start = part.start.min(end);
        allocate(&self.file, start as u64..end as u64).or_else(|error| match error {
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL => self.populate(start..end),
            error => Err(error.into()),
        })
    }

    /// The same, by filling in the pages.
    fn populate(&self, part: Range<usize>) -> io::Result<()> {
        let start = part.start / PAGE * PAGE;
        // SAFETY: within the mapping; what stands there stays as it is.
        let done = unsafe {
            libc::madvise(self.at.as_ptr().add(start).cast(), part.end - start, POPULATE_WRITE)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether programs can make room themselves as they need it.
    pub fn can_grow(&self) -> bool {
        self.populate(0..1).is_ok()
    }
}

/// Has the file system set room aside for a part of a file that is as long.
fn allocate(file: &File, part: Range<u64>) -> Result<(), Errno> {
    if part.is_empty() {
        return Ok(());
    }
    fallocate(file, FallocateFlags::KEEP_SIZE, part.start, part.end - part.start)
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        self.span.to.store(0, Ordering::Release);
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
        self.span.from.store(0, Ordering::Release);
    }
}

/// Whether the signal has a handler: from the first call on, unless weigh was started with it ignored.
pub(crate) fn has_handler() -> bool {
    BEFORE.get_or_init(catch_faults).is_some()
}

/// Takes the signal, unless it is ignored: the job is to have that from weigh as weigh had it.
fn catch_faults() -> Option<libc::sigaction> {
    // SAFETY: zeros are a valid `sigaction`; both calls get pointers to live structures, and the handler calls
    // nothing but what a handler may call.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut before) != 0
            || before.sa_sigaction == libc::SIG_IGN
        {
            return None;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        (libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) == 0).then_some(before)
    }
}

extern "C" fn on_fault(signal: i32, about: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid structure; of a fault it has the address.
    let (code, at) = unsafe { ((*about).si_code, (*about).si_addr() as usize) };
    if code == libc::BUS_ADRERR && put_zeros(at) {
        return;
    }
    // SAFETY: what the kernel gave, and it is read no more if it is kept.
    if code <= 0 && unsafe { hold_for_reader(signal, about) } {
        return;
    }
    match BEFORE.get().and_then(Option::as_ref) {
        Some(before) if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with that flag it is such a function, which was installed for this signal.
            let handler = unsafe {
                std::mem::transmute::<
                    usize,
                    extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void),
                >(before.sa_sigaction)
            };
            handler(signal, about, context);
        }
        // SAFETY: may be called in a handler. What was at fault is done again, and ends weigh.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

/// A page of zeros where the file has none. Whether it lies in a file that is shared.
fn put_zeros(at: usize) -> bool {
    let is_in = |span: &&Span| {
        let from = span.from.load(Ordering::Acquire);
        from > 1 && (from..span.to.load(Ordering::Acquire)).contains(&at)
    };
    let Some(span) = SPANS.iter().find(is_in) else { return false };
    // SAFETY: may be called in a handler; the page lies within a mapping of weigh's own, which nobody reads as
    // anything but atomics, for which zeros are valid.
    let map = unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        libc::mmap(
            (at & !(page - 1)) as *mut libc::c_void,
            page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    span.is_cut.store(true, Ordering::Relaxed);
    map != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_file_that_was_cut_reads_as_zeros_and_is_known_to_be() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * PAGE as u64).unwrap();
        let map = SharedMap::new(file.try_clone().unwrap(), 4 * PAGE).unwrap();
        let word = |at: usize| {
            // SAFETY: within the mapping, aligned.
            unsafe { map.start().add(at).cast::<AtomicU64>().as_ref() }
        };
        word(3 * PAGE).store(7, Ordering::Relaxed);
        word(0).store(8, Ordering::Relaxed);
        assert!(!map.is_cut());
        file.set_len(PAGE as u64).unwrap();
        assert_eq!(word(3 * PAGE).load(Ordering::Relaxed), 0);
        assert!(map.is_cut());
        word(3 * PAGE).store(9, Ordering::Relaxed);
        let read = [0, 3 * PAGE].map(|at| word(at).load(Ordering::Relaxed));
        assert_eq!(read, [8, 9]);
        // More than can be watched are refused.
        let map = || SharedMap::new(file.try_clone().unwrap(), PAGE);
        let maps: Vec<_> = (0..=MAPS).map_while(|_| map().ok()).collect();
        assert!(maps.len() <= MAPS);
        drop(maps);
        assert!(map().is_ok());
    }
}
