//! Memory that was freed and that the allocator keeps: given back to the kernel.

/// Gives back what is free now, at the cost of going through all of it.
pub fn release() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and touches nothing that is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_is_resident_no_more() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<i64>().unwrap()
        };
        // Many small ones, and one behind them that keeps the end of the heap.
        let blocks: Vec<Vec<u8>> = (0..4000).map(|_| vec![7; 4000]).collect();
        let last = vec![7_u8; 4000];
        let full = resident();
        drop(blocks);
        release();
        assert!(full - resident() > 12 << 10, "{} of {full} KiB", resident());
        assert_eq!(last.len(), 4000);
    }
}
