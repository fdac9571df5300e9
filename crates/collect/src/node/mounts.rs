//! Reads `/proc/self/mountstats` (NFS) and `llite/*/stats` (Lustre); emits `node_mount_*` of each mount and of each kind of
//! operation that was ever done on it. Not run on a real one.

use std::path::Path;

use weigh_parse::node::{LustreLine, LustreUnit, NfsLine, each_lustre_line, each_nfs_line};
use weigh_parse::procfs::unescape_octal;
use weigh_schema::byte_text;
use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer, names_in};
use super::reader::NodeReader;

struct Nfs(KernelFile);

fn no_nfs() -> NodeError {
    NodeError::Absent("no NFS is mounted".to_string())
}

pub(super) fn open_nfs(
    roots: &NodeRoots,
    buffer: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let file = KernelFile::open(roots.proc.join("self/mountstats"), FileShape::AnyRecords)?;
    let mut is_there = false;
    each_nfs_line(file.read(buffer)?, |_| is_there = true);
    if is_there { Ok(Box::new(Nfs(file))) } else { Err(no_nfs()) }
}

impl NodeReader for Nfs {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let mut mount: &[u8] = b"";
        each_nfs_line(self.0.read(buffer)?, |line| match line {
            NfsLine::Mount(point) => mount = point,
            NfsLine::Bytes(read, written) => {
                out.instance([b"", mount], || Scope::Mount(text(mount)));
                out.count(&node_mount_read_bytes_total, Quality::Exact, read);
                out.count(&node_mount_written_bytes_total, Quality::Exact, written);
            }
            NfsLine::Operation(name, fields) => put_nfs_operation(mount, name, &fields, out),
        });
        if mount.is_empty() { Err(no_nfs()) } else { Ok(()) }
    }
}

fn text(point: &[u8]) -> String {
    byte_text::keep(&unescape_octal(point))
}

fn put_nfs_operation(
    mount: &[u8],
    name: &[u8],
    fields: &[Option<u64>; 9],
    out: &mut BlockWriter<'_>,
) {
    let [operations, transmissions, timeouts, _, _, queue, server, all, errors] = *fields;
    if operations.unwrap_or_default() == 0 {
        return;
    }
    operation(mount, name, out);
    // Kernels have been seen to write times below 0, as numbers without a sign.
    let [queue, server, all] = [queue, server, all].map(|ms| ms.filter(|ms| ms >> 63 == 0));
    let again =
        transmissions.zip(operations).map(|(sent, operations)| sent.saturating_sub(operations));
    put_counts(
        &[
            (&node_mount_operations_total, operations),
            (&node_mount_operation_retransmits_total, again),
            (&node_mount_operation_timeouts_total, timeouts),
        ],
        out,
    );
    out.parts(&node_mount_operation_seconds_total, Quality::Exact, all, 1e3);
    out.parts(&node_mount_operation_queue_seconds_total, Quality::Exact, queue, 1e3);
    out.parts(&node_mount_operation_server_seconds_total, Quality::Exact, server, 1e3);
    put_counts(&[(&node_mount_operation_errors_total, errors)], out);
}

fn put_counts(counts: &[(&'static Metric, Option<u64>)], out: &mut BlockWriter<'_>) {
    for (metric, count) in counts {
        out.count(metric, Quality::Exact, *count);
    }
}

fn operation(mount: &[u8], name: &[u8], out: &mut BlockWriter<'_>) {
    let scope = || Scope::Operation { name: byte_text::keep(name), mount: text(mount) };
    out.instance([name, mount], scope);
}

struct LustreMount {
    file: KernelFile,
    name: String,
}

struct Lustre(Vec<LustreMount>);

/// Where versions of Lustre keep them.
const LUSTRE: [&str; 2] = ["fs/lustre/llite", "kernel/debug/lustre/llite"];

pub(super) fn open_lustre(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let folders = [roots.proc.join(LUSTRE[0]), roots.sys.join(LUSTRE[1])];
    let mounts: Vec<LustreMount> =
        folders.iter().flat_map(|folder| lustre_mounts(folder)).collect();
    match mounts.is_empty() {
        true => Err(NodeError::Absent("no Lustre is mounted".to_string())),
        false => Ok(Box::new(Lustre(mounts))),
    }
}

/// `scratch-ffff88003fd2a800`: the file system and one mount of it.
fn lustre_mounts(folder: &Path) -> Vec<LustreMount> {
    let open = |name: String| {
        let file =
            KernelFile::open(folder.join(&name).join("stats"), FileShape::AnyRecords).ok()?;
        Some(LustreMount { file, name })
    };
    names_in(folder).into_iter().filter_map(open).collect()
}

impl NodeReader for Lustre {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        for mount in &self.0 {
            let name = mount.name.as_bytes();
            let file = mount.file.read(buffer)?;
            each_lustre_line(file, |line| put_lustre_line(name, &line, out));
        }
        Ok(())
    }
}

fn put_lustre_line(mount: &[u8], line: &LustreLine<'_>, out: &mut BlockWriter<'_>) {
    let bytes = match line.name {
        b"read_bytes" => Some(&node_mount_read_bytes_total),
        b"write_bytes" => Some(&node_mount_written_bytes_total),
        _ => None,
    };
    if let Some(metric) = bytes.filter(|_| line.unit == LustreUnit::Bytes) {
        out.instance([line.name, mount], || Scope::Mount(byte_text::keep(mount)));
        return out.count(metric, Quality::Exact, line.sum);
    }
    operation(mount, line.name, out);
    out.count(&node_mount_operations_total, Quality::Exact, Some(line.count));
    if line.unit == LustreUnit::Microseconds {
        out.parts(&node_mount_operation_seconds_total, Quality::Exact, line.sum, 1e6);
    }
}
