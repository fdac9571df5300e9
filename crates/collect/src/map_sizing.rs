//! How much room the tables of dirty pages get. They are made beforehand, because a folio becomes dirty with
//! interrupts off, where the kernel has no memory to give; so they should be no larger than they have to.
//!
//! Reads `vm.dirty_bytes`, `vm.dirty_ratio`, the machine's memory, and the limit of the control group that the
//! tables are charged to, of which they take a part only. What it cannot read it takes for the most that there
//! may be.

use libbpf_rs::OpenMapMut;

use crate::{cgroup, host, procfs};

/// Of the sixteen pages that an entry has room for, so many bytes are taken to be dirty at once: files that
/// are written in a row fill it, changes here and there do not.
const BYTES_OF_AN_ENTRY: u64 = 4 << 12;
/// On a machine that lets hardly anything be dirty: 32 of the largest folios of x86.
const LEAST: u64 = 1024;
/// A table is so small a part of what its control group may have.
const PART_OF_A_GROUP: u64 = 32;
/// What the kernel has of each entry besides key and value.
const ENTRY_HEAD: u64 = 64;

/// The room that a table needs on this machine; it says how much it may have at most.
pub(crate) fn fit(table: &OpenMapMut<'_>) -> u32 {
    let entry = u64::from(table.key_size() + table.value_size()) + ENTRY_HEAD;
    let may_be_dirty =
        most_dirty(setting("dirty_bytes"), setting("dirty_ratio"), host::memory_bytes().ok());
    room(may_be_dirty, cgroup::memory_limit(), entry, table.max_entries())
}

fn setting(name: &str) -> Option<u64> {
    let text = procfs::read(format!("/proc/sys/vm/{name}")).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

/// The kernel goes by the bytes if they are set, else by the ratio.
fn most_dirty(bytes: Option<u64>, percent: Option<u64>, memory: Option<u64>) -> u64 {
    let by_ratio = || Some((memory? / 100).saturating_mul(percent?));
    bytes.filter(|bytes| *bytes > 0).or_else(by_ratio).unwrap_or(u64::MAX)
}

fn room(may_be_dirty: u64, limit: Option<u64>, entry: u64, most: u32) -> u32 {
    let payable = limit.map_or(u64::MAX, |bytes| bytes / PART_OF_A_GROUP / entry);
    let entries = (may_be_dirty / BYTES_OF_AN_ENTRY).min(payable).max(LEAST);
    u32::try_from(entries).unwrap_or(most).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABYTE: u64 = 1 << 30;
    const MOST: u32 = 65536;

    #[test]
    fn what_may_be_dirty_is_what_the_kernel_goes_by() {
        assert_eq!(most_dirty(Some(0), Some(20), Some(GIGABYTE)), GIGABYTE / 100 * 20);
        assert_eq!(most_dirty(Some(100 << 20), Some(20), Some(GIGABYTE)), 100 << 20);
        assert_eq!(most_dirty(Some(100 << 20), None, None), 100 << 20);
        // What is not known is no reason for less.
        assert_eq!(most_dirty(None, None, Some(GIGABYTE)), u64::MAX);
        assert_eq!(most_dirty(Some(0), Some(20), None), u64::MAX);
    }

    #[test]
    fn a_table_has_room_for_that_within_bounds() {
        assert_eq!(room(200 << 20, None, 1048, MOST), 12800);
        assert_eq!(room(8192, None, 1048, MOST), 1024);
        assert_eq!(room(u64::MAX, None, 1048, MOST), MOST);
        assert_eq!(room(8192, None, 1048, 16), 16);
    }

    #[test]
    fn a_control_group_pays_a_part_of_its_limit() {
        assert_eq!(room(GIGABYTE, Some(256 << 20), 1048, MOST), 8004);
        assert_eq!(room(GIGABYTE, Some(256 << 20), 232, MOST), 36157);
        assert_eq!(room(100 << 20, Some(GIGABYTE), 1048, MOST), 6400);
        assert_eq!(room(GIGABYTE, Some(1), 1048, MOST), 1024);
    }
}
