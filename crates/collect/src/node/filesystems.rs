//! Reads `/proc/self/mountinfo`, now and then, and statvfs(2) of each file system that lies on a device here; emits
//! `node_filesystem_*`. File systems of other machines and of programs are left out: asking them may wait for ever.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use weigh_parse::procfs::{Mount, parse_mountinfo};
use weigh_schema::Quality;
use weigh_schema::byte_text;
use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer};
use super::reader::NodeReader;

/// Reads after which mounts are looked for again.
const READS_OF_MOUNTS: u32 = 4;
/// Nothing can be written to these: they are always full.
const FIXED: [&str; 5] = ["squashfs", "iso9660", "erofs", "udf", "cramfs"];
/// These lie on devices here that have no number of their own.
const WITHOUT_DEVICE: [&str; 4] = ["btrfs", "zfs", "bcachefs", "overlay"];

struct Filesystems {
    mountinfo: KernelFile,
    points: Vec<PathBuf>,
    reads: u32,
}

pub(super) fn open(
    roots: &NodeRoots,
    buffer: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let path = roots.proc.join("self/mountinfo");
    let mountinfo = KernelFile::open(path, FileShape::AnyRecords)?;
    let points = points(mountinfo.read(buffer)?);
    Ok(Box::new(Filesystems { mountinfo, points, reads: 0 }))
}

/// One mount of each file system.
fn points(text: &[u8]) -> Vec<PathBuf> {
    let is_shown = |mount: &Mount| {
        let kind = mount.kind.as_str();
        let is_local = mount.device.0 != 0 || WITHOUT_DEVICE.contains(&kind);
        // Files are mounted, too, into containers.
        is_local && !kind.starts_with("fuse") && !FIXED.contains(&kind) && mount.point.is_dir()
    };
    let mut devices = BTreeSet::new();
    let mounts = parse_mountinfo(text).into_iter().filter(is_shown);
    mounts.filter(|mount| devices.insert(mount.device)).map(|mount| mount.point).collect()
}

impl NodeReader for Filesystems {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        self.reads += 1;
        if self.reads.is_multiple_of(READS_OF_MOUNTS) {
            self.points = points(self.mountinfo.read(buffer)?);
        }
        if self.points.is_empty() {
            return Err(NodeError::Absent("no file system lies on a device here".to_string()));
        }
        self.points.iter().for_each(|point| put(point, out));
        Ok(())
    }
}

/// One that cannot be asked, as it has just been unmounted, has no values.
fn put(point: &Path, out: &mut BlockWriter<'_>) {
    let key = point.as_os_str().as_bytes();
    out.instance([b"filesystem", key], || Scope::Mount(byte_text::keep(key)));
    let found = statvfs(point).ok();
    let bytes = |blocks: u64| found.as_ref()?.f_frsize.checked_mul(blocks);
    let all = found.as_ref().map(|found| (found.f_blocks, found.f_bavail));
    out.count(&node_filesystem_total_bytes, Quality::Exact, all.and_then(|(all, _)| bytes(all)));
    out.count(
        &node_filesystem_available_bytes,
        Quality::Exact,
        all.and_then(|(_, available)| bytes(available)),
    );
    // Some make inodes as they are needed.
    let inodes = found.as_ref().filter(|found| found.f_files > 0);
    out.count(&node_filesystem_inodes, Quality::Exact, inodes.map(|found| found.f_files));
    out.count(
        &node_filesystem_inodes_available,
        Quality::Exact,
        inodes.map(|found| found.f_favail),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_devices_here_are_shown_once() {
        let text =
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:1 /home /proc rw - ext4 /dev/sda1 rw\n\
            3 1 0:5 / /sys rw - nfs4 server:/ rw\n4 1 7:1 / /dev rw - squashfs /dev/loop1 ro\n\
            5 1 0:33 / /tmp rw - btrfs /dev/sdb rw\n6 1 8:9 / /var rw - fuseblk /dev/sdc rw\n\
            7 1 8:10 / /no/such/folder rw - ext4 /dev/sdd rw\n";
        assert_eq!(points(text), [PathBuf::from("/"), PathBuf::from("/tmp")]);
    }
}
