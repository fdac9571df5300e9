//! PAGEMAP_SCAN: which addresses hold a page, without reading an entry for each that does not.
//! Programs reserve terabytes of addresses and use little of them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGE_IS_PRESENT: u64 = 1 << 3;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = 3 << 30 | (size_of::<ScanArguments>() as u64) << 16 | 0x66 << 8 | 16;
const REGIONS: usize = 256;

/// The ranges of addresses between `start` and `end` that hold pages; `None` if the kernel has no
/// such call (before 6.7).
pub fn present_ranges(pagemap: &File, start: u64, end: u64) -> Option<io::Result<Vec<(u64, u64)>>> {
    let mut ranges = Vec::new();
    let mut regions = [Region::default(); REGIONS];
    let mut at = start;
    while at < end {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start: at,
            end,
            regions: regions.as_mut_ptr() as u64,
            regions_length: REGIONS as u64,
            category_mask: PAGE_IS_PRESENT,
            return_mask: PAGE_IS_PRESENT,
            ..ScanArguments::default()
        };
        // SAFETY: the arguments have the size they name and point to `regions`, whose length they
        // give; both live through the call.
        let found = unsafe {
            libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as libc::Ioctl, &raw mut arguments)
        };
        if found < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOTTY | libc::EINVAL) => None,
                Some(libc::EINTR) => continue,
                _ => Some(Err(error)),
            };
        }
        ranges.extend(regions[..found as usize].iter().map(|r| (r.start, r.end)));
        if arguments.walk_end <= at {
            break;
        }
        at = arguments.walk_end;
    }
    Some(Ok(ranges))
}
