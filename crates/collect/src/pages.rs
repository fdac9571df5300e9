//! The memory that several processes hold together, each page counted once.
//!
//! Reads the page frame numbers behind every mapping of the processes (`/proc/PID/pagemap`, the
//! places that hold anything found by the PAGEMAP_SCAN ioctl where the kernel has it) and counts
//! the different ones in a bitmap. Emits the union and, from the same look, the sum of resident
//! sizes. Frame numbers need CAP_SYS_ADMIN; without it the sum of the processes' proportional
//! shares (`smaps_rollup`) takes their place, which is the union only if nobody outside shares.
//!
//! Processes of one address space are looked at once. They run on meanwhile unless the caller has
//! stopped them: the look is as instant as its duration is short. Left out, as in the kernel's resident size: the zero page, huge pages of
//! hugetlbfs, memory of devices. Processes that vanish meanwhile are normal and count as nothing.

mod bitmap;
mod scan;
mod zero;

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use crate::procfs::{self, MapEntry, ProcError};
use crate::spaces;
use bitmap::FrameSet;
use zero::ZeroFrames;
pub use zero::frame_of;

/// How the union was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Page by page.
    Frames,
    /// Sum of proportional shares: too low if processes outside share the pages.
    Proportional,
}

/// One look at the pages of some processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCount {
    /// Bytes held, each page counted once.
    pub union_bytes: u64,
    /// So much of that is certain, where address spaces could not be told apart; none: all.
    pub certain_bytes: Option<u64>,
    /// Sum of resident sizes.
    pub rss_sum_bytes: u64,
    /// How they were found.
    pub method: Method,
    /// Why not page by page, if it was not.
    pub reason: Option<String>,
    /// Processes looked at.
    pub processes: usize,
    /// Address spaces that they have.
    pub spaces: usize,
    /// Processes that had ended.
    pub vanished: usize,
    /// How long it took.
    pub took: Duration,
}

/// Why the pages could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// A file of a process could not be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// The kernel hides frame numbers.
    #[error("frame numbers in /proc/{0}/pagemap need CAP_SYS_ADMIN")]
    Hidden(u32),
    /// An address space is too large to be read page by page on this kernel.
    #[error("process {0} maps {1} pages: too many to read without PAGEMAP_SCAN (Linux 6.7)")]
    TooLarge(u32, u64),
}

/// Counts pages; keeps its memory from one look to the next.
pub struct PageCounter {
    frames: FrameSet,
    /// Looked for by the first look: most runs make none, and a huge zero page may have to be cleared for it.
    zero: OnceCell<ZeroFrames>,
    buffer: Vec<u8>,
}

/// Entries read at once.
const BATCH_PAGES: usize = 32 * 1024;
/// What is read at most per process without PAGEMAP_SCAN: 256 GiB of addresses, about 0.3 s.
const PAGES_WITHOUT_SCAN: u64 = 1 << 26;

impl Default for PageCounter {
    fn default() -> Self {
        PageCounter::new()
    }
}

impl PageCounter {
    /// Nothing was looked at yet.
    pub fn new() -> PageCounter {
        PageCounter { frames: FrameSet::default(), zero: OnceCell::new(), buffer: Vec::new() }
    }

    /// Looks at the pages of `pids` now.
    pub fn count(&mut self, pids: &[u32]) -> Result<PageCount, PagesError> {
        let begun = Instant::now();
        let spaces = Spaces::of(pids);
        let (read, method, reason) = match self.count_frames(&spaces) {
            Ok(read) => (read, Method::Frames, None),
            Err(error) => {
                let reason = format!("sum of proportional shares (Pss): {error}");
                (proportional(&spaces)?, Method::Proportional, Some(reason))
            }
        };
        // Frames are counted once whatever they belong to.
        let is_uncertain = method == Method::Proportional
            && read.spaces > 1
            && spaces::why_not_compared().is_some();
        Ok(PageCount {
            union_bytes: read.union_bytes,
            certain_bytes: is_uncertain.then_some(read.largest_bytes),
            rss_sum_bytes: read.rss_sum_bytes,
            method,
            reason,
            processes: pids.len() - read.vanished,
            spaces: read.spaces,
            vanished: read.vanished,
            took: begun.elapsed(),
        })
    }

    fn count_frames(&mut self, spaces: &Spaces) -> Result<Read, PagesError> {
        let page = rustix::param::page_size() as u64;
        self.frames.clear();
        self.buffer.resize(BATCH_PAGES * 8, 0);
        let mut read = spaces.read(|tid| Ok(self.process(tid, page)?.map(|n| (n * page, 0))))?;
        read.union_bytes = self.frames.len() * page;
        Ok(read)
    }

    /// Adds the frames of one process; returns how many pages it has resident, none if it has no memory any more.
    fn process(&mut self, pid: u32, page: u64) -> Result<Option<u64>, PagesError> {
        let path = format!("/proc/{pid}/pagemap");
        let failed = |source| ProcError::Read { path: path.clone().into(), source };
        let maps = procfs::parse_maps(&procfs::read_of(pid, "maps")?);
        if maps.is_empty() {
            return Ok(None);
        }
        let pagemap = File::open(&path).map_err(failed)?;
        let mut resident = 0;
        let mut budget = PAGES_WITHOUT_SCAN;
        for map in maps.iter().filter(|m| is_counted(m)) {
            if let Some(ranges) = scan::present_ranges(&pagemap, map.start, map.end) {
                for (start, end) in ranges.map_err(failed)? {
                    resident += self.range(pid, &pagemap, start / page, end / page)?;
                }
                continue;
            }
            let pages = (map.end - map.start) / page;
            budget = budget.checked_sub(pages).ok_or(PagesError::TooLarge(pid, pages))?;
            resident += self.range(pid, &pagemap, map.start / page, map.end / page)?;
        }
        Ok(Some(resident))
    }

    fn range(&mut self, pid: u32, file: &File, first: u64, end: u64) -> Result<u64, PagesError> {
        let zero = self.zero.get_or_init(ZeroFrames::find);
        let mut resident = 0;
        let mut at = first;
        while at < end {
            let wanted = ((end - at) as usize).min(BATCH_PAGES) * 8;
            let length = match file.read_at(&mut self.buffer[..wanted], at * 8) {
                // The address space is gone: the process has ended.
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    let path = format!("/proc/{pid}/pagemap").into();
                    return Err(ProcError::Read { path, source }.into());
                }
            };
            for entry in self.buffer[..length].chunks_exact(8) {
                let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of eight"));
                let Some(frame) = frame_of(entry) else { continue };
                if frame == 0 {
                    return Err(PagesError::Hidden(pid));
                }
                if !zero.contains(frame) {
                    self.frames.insert(frame);
                    resident += 1;
                }
            }
            at += (length / 8) as u64;
        }
        Ok(resident)
    }
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "pages",
    "memory that processes share counted once, page by page, at a new peak",
    Some("CAP_SYS_ADMIN, which shows page frames; without it shares (Pss) are added up"),
)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "CAP_SYS_ADMIN; without it shares are estimated",
    scope: "job",
    intrusiveness: Intrusiveness::None,
    cost: "a look at each page of the job when it reaches a new peak",
});

/// How the collector fares, judged by its last look.
pub fn status(last: Option<&Result<PageCount, PagesError>>) -> CollectorStatus {
    let (status, reason) = match last {
        None | Some(Ok(PageCount { method: Method::Frames, .. })) => (CollectorState::Active, None),
        Some(Ok(count)) => (CollectorState::Degraded, count.reason.clone()),
        Some(Err(error)) => (CollectorState::Unavailable, Some(error.to_string())),
    };
    CollectorStatus::new(INFO.name, Mechanism::Proc, status, reason)
}

/// Whether the kernel counts the pages of a mapping as resident.
fn is_counted(map: &MapEntry) -> bool {
    let name = map.name.as_slice();
    let is_special = name.starts_with(b"[vvar") || name == b"[vsyscall]";
    let is_hugetlb = name.starts_with(b"/anon_hugepage") || name.starts_with(b"/dev/hugepages/");
    let is_device = name.starts_with(b"/dev/")
        && !name.starts_with(b"/dev/shm/")
        && !name.starts_with(b"/dev/zero");
    !is_special && !is_hugetlb && !is_device
}

fn proportional(spaces: &Spaces) -> Result<Read, PagesError> {
    // A process without an address space any more has an empty file.
    spaces.read(|tid| Ok(procfs::parse_smaps_rollup(&procfs::read_of(tid, "smaps_rollup")?)))
}

/// The address spaces of some processes. Frames would be counted once anyway; proportional shares and resident sizes
/// would not.
struct Spaces {
    /// By the numbers of the threads by which they can be looked at, one list for each.
    each: Vec<Vec<u32>>,
}

/// What was found of them, in bytes.
#[derive(Default)]
struct Read {
    union_bytes: u64,
    /// The largest share of one.
    largest_bytes: u64,
    rss_sum_bytes: u64,
    spaces: usize,
    /// Processes that had ended.
    vanished: usize,
}

impl Spaces {
    fn of(pids: &[u32]) -> Spaces {
        let tids: Vec<u32> = pids.iter().map(|pid| spaces::thread_with_memory(*pid)).collect();
        let mut each = vec![Vec::new(); tids.len()];
        for (tid, first) in tids.iter().zip(spaces::first_of_each(&tids)) {
            each[first].push(*tid);
        }
        each.retain(|tids| !tids.is_empty());
        Spaces { each }
    }

    /// Adds up resident size and proportional share of each, read of the first of its processes that is still there.
    fn read(
        &self,
        mut of: impl FnMut(u32) -> Result<Option<(u64, u64)>, PagesError>,
    ) -> Result<Read, PagesError> {
        let mut read = Read::default();
        for tids in &self.each {
            for tid in tids {
                match of(*tid) {
                    Ok(Some((rss, share))) => {
                        read.rss_sum_bytes += rss;
                        read.union_bytes += share;
                        read.largest_bytes = read.largest_bytes.max(share);
                        read.spaces += 1;
                        break;
                    }
                    Ok(None) => read.vanished += 1,
                    Err(PagesError::Proc(error)) if error.is_gone() => read.vanished += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(name: &[u8]) -> MapEntry {
        MapEntry {
            start: 0,
            end: 4096,
            permissions: *b"rw-p",
            offset: 0,
            inode: 0,
            name: name.to_vec(),
        }
    }

    #[test]
    fn only_present_pages_have_frames() {
        assert_eq!(frame_of(0), None);
        assert_eq!(frame_of(1 << 62 | 77), None, "swapped out");
        assert_eq!(frame_of(1 << 63 | 1 << 61 | 1 << 55 | 77), Some(77));
        assert_eq!(frame_of(1 << 63), Some(0), "hidden");
    }

    #[test]
    fn mappings_outside_the_resident_size_are_left_out() {
        for name in [&b"[vvar]"[..], b"[vvar_vclock]", b"[vsyscall]", b"/dev/nvidia0", b"/dev/mem"]
        {
            assert!(!is_counted(&map(name)));
        }
        for name in [&b""[..], b"[heap]", b"[vdso]", b"/dev/shm/x", b"/dev/zero (deleted)", b"/a"] {
            assert!(is_counted(&map(name)));
        }
    }

    #[test]
    fn a_vanished_process_counts_as_nothing() {
        let count = PageCounter::new().count(&[u32::MAX - 1]).unwrap();
        assert_eq!((count.union_bytes, count.processes, count.vanished), (0, 0, 1));
        let read = proportional(&Spaces::of(&[u32::MAX - 1])).unwrap();
        assert_eq!((read.union_bytes, read.spaces, read.vanished), (0, 0, 1));
    }
}
