//! Reads `/proc/diskstats`, and between, where few disks have done something, `/sys/block/DISK/stat` of each; emits
//! `node_disk_*` of each whole disk that has done something.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weigh_parse::node::{DiskFields, DiskLine, disk_fields, each_disk};
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

/// Between two readings of `diskstats` at least, while the disks' own files are read.
const LOOKS_FOR_DISKS: Duration = Duration::from_secs(5);
/// A file for each of so few disks takes the kernel less than the lines of all disks and partitions: 6 µs each, of 26.
const FEW: usize = 4;

struct Disks {
    file: KernelFile,
    /// `/sys/block` has whole disks alone.
    blocks: PathBuf,
    are_whole: NameCache,
    /// The disks that were shown last, in their order.
    shown: Vec<ShownDisk>,
    /// When disks are looked for again, whatever the files of those that are known say.
    next_look: Instant,
}

struct ShownDisk {
    name: Vec<u8>,
    /// None where it cannot be opened.
    stat: Option<KernelFile>,
}

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let file = KernelFile::open(roots.proc.join("diskstats"), FileShape::ShortRecords)?;
    let (blocks, are_whole) = (roots.sys.join("block"), NameCache::default());
    Ok(Box::new(Disks { file, blocks, are_whole, shown: Vec::new(), next_look: Instant::now() }))
}

impl NodeReader for Disks {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let now = Instant::now();
        if now < self.next_look && self.has_own_files() {
            if let Some(found) = self.counters_of_shown(buffer) {
                let shown = self.shown.iter().zip(&found);
                shown.for_each(|(disk, fields)| put(&disk.name, fields, out));
                return Ok(());
            }
            // Another disk may have the name of one that has gone.
            self.shown.clear();
        }
        self.next_look = now + LOOKS_FOR_DISKS;
        self.read_all(buffer, out)
    }
}

impl Disks {
    fn has_own_files(&self) -> bool {
        (1..=FEW).contains(&self.shown.len()) && self.shown.iter().all(|disk| disk.stat.is_some())
    }

    /// By each disk's own file; none where one has gone.
    fn counters_of_shown(&self, buffer: &mut ReadBuffer) -> Option<[DiskFields; FEW]> {
        let mut found = [[None; 17]; FEW];
        for (fields, disk) in found.iter_mut().zip(&self.shown) {
            *fields = disk_fields(disk.stat.as_ref()?.read(buffer).ok()?);
            fields[0]?;
        }
        Some(found)
    }

    fn read_all(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let Disks { file, blocks, are_whole, shown, .. } = self;
        let (mut line, mut count) = (0, 0);
        let text = file.read(buffer)?;
        each_disk(text, |disk| {
            // Each has its counters; else it is no disk.
            if disk.fields[0].is_none() {
                return;
            }
            let is_whole = || blocks.join(folder(disk.name)).is_dir();
            let is_shown = are_whole.get(line, disk.name, is_whole) && has_worked(&disk);
            line += 1;
            if is_shown {
                put(disk.name, &disk.fields, out);
                keep(shown, count, disk.name, blocks);
                count += 1;
            }
        });
        shown.truncate(count);
        match line > 0 || text.is_empty() {
            true => Ok(()),
            false => Err(file.holds_no("disk")),
        }
    }
}

/// Takes note of the disk that is shown at a place.
fn keep(shown: &mut Vec<ShownDisk>, at: usize, name: &[u8], blocks: &Path) {
    if shown.get(at).is_some_and(|known| known.name == name) {
        return;
    }
    shown.truncate(at);
    let path = blocks.join(folder(name)).join("stat");
    let is_read = at < FEW;
    let stat = is_read.then(|| KernelFile::open(path, FileShape::OneRecord).ok()).flatten();
    shown.push(ShownDisk { name: name.to_vec(), stat });
}

/// A slash in a disk's name is written so in `/sys`.
fn folder(name: &[u8]) -> PathBuf {
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'/' { b'!' } else { *byte }).collect();
    PathBuf::from(OsStr::from_bytes(&name))
}

fn has_worked(disk: &DiskLine<'_>) -> bool {
    [0, 4, 11, 15].iter().any(|field| disk.fields[*field].is_some_and(|count| count > 0))
}

fn put(name: &[u8], fields: &DiskFields, out: &mut BlockWriter<'_>) {
    out.instance([b"disk", name], || Scope::Disk(byte_text::keep(name)));
    for (field, what, metric, quality) in &FIELDS {
        let value = fields[*field];
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
