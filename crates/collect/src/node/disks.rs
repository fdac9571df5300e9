//! Reads `/proc/diskstats`; emits `node_disk_*` of each whole disk that has done something.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use weigh_parse::node::{DiskLine, each_disk};
use weigh_schema::byte_text;
use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer};
use super::names::NameCache;
use super::reader::NodeReader;

const SECTOR_BYTES: u64 = 512;

/// What stands in which field, and what one of it is.
enum Field {
    Count,
    Sectors,
    Milliseconds,
}

static FIELDS: [(usize, Field, &Metric, Quality); 12] = [
    (0, Field::Count, &node_disk_reads_total, Quality::Exact),
    (2, Field::Sectors, &node_disk_read_bytes_total, Quality::Exact),
    (3, Field::Milliseconds, &node_disk_read_seconds_total, Quality::Exact),
    (4, Field::Count, &node_disk_writes_total, Quality::Exact),
    (6, Field::Sectors, &node_disk_written_bytes_total, Quality::Exact),
    (7, Field::Milliseconds, &node_disk_write_seconds_total, Quality::Exact),
    (8, Field::Count, &node_disk_requests_outstanding, Quality::Exact),
    (9, Field::Milliseconds, &node_disk_busy_seconds_total, Quality::Estimated),
    (10, Field::Milliseconds, &node_disk_queue_seconds_total, Quality::Estimated),
    (13, Field::Sectors, &node_disk_discarded_bytes_total, Quality::Exact),
    (15, Field::Count, &node_disk_flushes_total, Quality::Exact),
    (16, Field::Milliseconds, &node_disk_flush_seconds_total, Quality::Exact),
];

struct Disks {
    file: KernelFile,
    /// `/sys/block` has whole disks alone.
    blocks: PathBuf,
    are_whole: NameCache,
}

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let file = KernelFile::open(roots.proc.join("diskstats"), FileShape::ShortRecords)?;
    Ok(Box::new(Disks { file, blocks: roots.sys.join("block"), are_whole: NameCache::default() }))
}

impl NodeReader for Disks {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let mut line = 0;
        let text = self.file.read(buffer)?;
        each_disk(text, |disk| {
            // Each has its counters; else it is no disk.
            if disk.fields[0].is_none() {
                return;
            }
            let is_whole = || self.blocks.join(folder(disk.name)).is_dir();
            let is_shown = self.are_whole.get(line, disk.name, is_whole) && has_worked(&disk);
            line += 1;
            if is_shown {
                out.instance([b"disk", disk.name], || Scope::Disk(byte_text::keep(disk.name)));
                put_fields(&disk, out);
            }
        });
        match line > 0 || text.is_empty() {
            true => Ok(()),
            false => Err(self.file.holds_no("disk")),
        }
    }
}

/// A slash in a disk's name is written so in `/sys`.
fn folder(name: &[u8]) -> PathBuf {
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'/' { b'!' } else { *byte }).collect();
    PathBuf::from(OsStr::from_bytes(&name))
}

fn has_worked(disk: &DiskLine<'_>) -> bool {
    [0, 4, 11, 15].iter().any(|field| disk.fields[*field].is_some_and(|count| count > 0))
}

fn put_fields(disk: &DiskLine<'_>, out: &mut BlockWriter<'_>) {
    for (field, what, metric, quality) in &FIELDS {
        let value = disk.fields[*field];
        match what {
            Field::Count => out.count(metric, *quality, value),
            Field::Sectors => {
                let bytes = value.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
                out.count(metric, *quality, bytes);
            }
            Field::Milliseconds => out.parts(metric, *quality, value, 1e3),
        }
    }
}
