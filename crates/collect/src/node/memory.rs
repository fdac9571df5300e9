//! Reads `/proc/meminfo` and `/proc/vmstat`; emits `node_memory_*`, `node_swap_*`, page faults, reclaim, kills for lack of
//! memory.

use weigh_parse::node::each_pair;
use weigh_schema::node_metric::*;
use weigh_schema::{Metric, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer};
use super::reader::NodeReader;

/// A name in the file, and its metric.
type Pair = (&'static [u8], &'static Metric);

static MEMINFO: [Pair; 28] = [
    (b"MemTotal", &node_memory_total_bytes),
    (b"MemFree", &node_memory_free_bytes),
    (b"MemAvailable", &node_memory_available_bytes),
    (b"Buffers", &node_memory_buffers_bytes),
    (b"Cached", &node_memory_cached_bytes),
    (b"SwapCached", &node_swap_cached_bytes),
    (b"Active", &node_memory_active_bytes),
    (b"Inactive", &node_memory_inactive_bytes),
    (b"Unevictable", &node_memory_unevictable_bytes),
    (b"Mlocked", &node_memory_locked_bytes),
    (b"SwapTotal", &node_swap_total_bytes),
    (b"SwapFree", &node_swap_free_bytes),
    (b"Dirty", &node_memory_dirty_bytes),
    (b"Writeback", &node_memory_writeback_bytes),
    (b"AnonPages", &node_memory_anonymous_bytes),
    (b"Mapped", &node_memory_mapped_bytes),
    (b"Shmem", &node_memory_shared_bytes),
    (b"Slab", &node_memory_slab_bytes),
    (b"SReclaimable", &node_memory_slab_reclaimable_bytes),
    (b"SUnreclaim", &node_memory_slab_unreclaimable_bytes),
    (b"KernelStack", &node_memory_kernel_stack_bytes),
    (b"PageTables", &node_memory_page_tables_bytes),
    (b"CommitLimit", &node_memory_commit_limit_bytes),
    (b"Committed_AS", &node_memory_committed_bytes),
    (b"Percpu", &node_memory_percpu_bytes),
    (b"HardwareCorrupted", &node_memory_corrupted_bytes),
    (b"AnonHugePages", &node_memory_huge_anonymous_bytes),
    (b"Hugetlb", &node_memory_hugetlb_bytes),
];

static VMSTAT: [Pair; 9] = [
    (b"pswpin", &node_swap_in_pages_total),
    (b"pswpout", &node_swap_out_pages_total),
    (b"pgfault", &node_page_faults_total),
    (b"pgmajfault", &node_page_faults_major_total),
    (b"pgscan_direct", &node_memory_reclaim_scans_direct_total),
    (b"pgscan_kswapd", &node_memory_reclaim_scans_background_total),
    (b"pgsteal_direct", &node_memory_reclaimed_pages_direct_total),
    (b"pgsteal_kswapd", &node_memory_reclaimed_pages_background_total),
    (b"oom_kill", &node_oom_kills_total),
];

pub(super) fn open_meminfo(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let file = KernelFile::open(roots.proc.join("meminfo"), FileShape::OneRecord)?;
    Ok(Box::new(Pairs::new(file, &MEMINFO, 1024)))
}

pub(super) fn open_vmstat(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let file = KernelFile::open(roots.proc.join("vmstat"), FileShape::ShortRecords)?;
    Ok(Box::new(Pairs::new(file, &VMSTAT, 1)))
}

/// A file of names and numbers.
struct Pairs {
    file: KernelFile,
    pairs: &'static [Pair],
    factor: u64,
    /// By the number of the line: which pair stands there. The lines of a running kernel stay.
    lines: Vec<Option<usize>>,
    /// What stands behind the last line that is mapped need not be read.
    end_bytes: usize,
    values: Vec<Option<u64>>,
}

/// Behind a name: blanks, a number of 64 bits, a unit, and room for other numbers to grow.
const VALUE_BYTES: usize = 64;

impl Pairs {
    fn new(file: KernelFile, pairs: &'static [Pair], factor: u64) -> Pairs {
        let (lines, values) = (Vec::new(), vec![None; pairs.len()]);
        Pairs { file, pairs, factor, lines, end_bytes: usize::MAX, values }
    }

    fn value_of(&self, metric: &Metric) -> Option<u64> {
        let at = self.pairs.iter().position(|(_, known)| std::ptr::eq(*known, metric))?;
        self.values[at]
    }

    /// Finds out which pair stands in which line.
    fn map_lines(&mut self, text: &[u8]) {
        self.lines.clear();
        each_pair(
            text,
            |_| true,
            |at, name, _| {
                self.lines.resize(at, None);
                self.lines.push(self.pairs.iter().position(|(known, _)| *known == name));
            },
        );
        while self.lines.last() == Some(&None) {
            self.lines.pop();
        }
    }

    /// Whether each line is still what it was.
    fn take(&mut self, text: &[u8]) -> bool {
        let (mut found, mut end_bytes) = (0, 0);
        let is_mapped = |at: usize| self.lines.get(at).copied().flatten().is_some();
        each_pair(text, is_mapped, |at, name, value| {
            if let Some(pair) =
                self.lines.get(at).copied().flatten().filter(|pair| self.pairs[*pair].0 == name)
            {
                self.values[pair] = value.checked_mul(self.factor);
                found += 1;
                let offset = name.as_ptr().addr() - text.as_ptr().addr();
                end_bytes = offset + name.len() + VALUE_BYTES;
            }
        });
        self.end_bytes = end_bytes;
        found > 0 && found == self.lines.iter().flatten().count()
    }
}

impl NodeReader for Pairs {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let text = self.file.read_first(buffer, self.end_bytes)?;
        if !self.take(text) {
            let text = self.file.read(buffer)?;
            self.values.fill(None);
            self.map_lines(text);
            if !self.take(text) {
                return Err(self.file.holds_no("name that is known"));
            }
        }
        out.node();
        for ((_, metric), value) in self.pairs.iter().zip(&self.values) {
            let is_exact = !std::ptr::eq(*metric, &node_memory_available_bytes);
            out.count(metric, if is_exact { Quality::Exact } else { Quality::Estimated }, *value);
        }
        if let Some(total) = self.value_of(&node_memory_total_bytes) {
            let available = self.value_of(&node_memory_available_bytes);
            let used = available.and_then(|available| total.checked_sub(available));
            out.count(&node_memory_used_bytes, Quality::Estimated, used);
        }
        Ok(())
    }
}
