//! Reads `/proc/loadavg`, `/proc/sys/fs/file-nr` and the number of links of `/proc`; emits `node_load_*`, `node_threads`,
//! `node_uptime_seconds`, `node_files_open`, `node_processes`.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use weigh_parse::node::{load_averages, open_files as parse_open_files};
use weigh_schema::node_metric::*;
use weigh_schema::{Number, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer, names_in};
use super::reader::NodeReader;
use crate::clock::Moment;
use crate::procfs::ProcError;

struct Load(KernelFile);

pub(super) fn open_load(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    Ok(Box::new(Load(KernelFile::open(roots.proc.join("loadavg"), FileShape::OneRecord)?)))
}

impl NodeReader for Load {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let load = load_averages(self.0.read(buffer)?).ok_or_else(|| self.0.holds_no("load"))?;
        out.node();
        let metrics = [&node_load_1m_threads, &node_load_5m_threads, &node_load_15m_threads];
        for (metric, average) in metrics.into_iter().zip(load.averages) {
            out.put(metric, Quality::Sampled, Some(Number::Real(average)));
        }
        out.count(&node_threads, Quality::Exact, Some(load.threads));
        let uptime = Moment::now().ns() as f64 * 1e-9;
        out.put(&node_uptime_seconds, Quality::Exact, Some(Number::Real(uptime)));
        Ok(())
    }
}

struct Files(KernelFile);

pub(super) fn open_files(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    Ok(Box::new(Files(KernelFile::open(roots.proc.join("sys/fs/file-nr"), FileShape::Small)?)))
}

impl NodeReader for Files {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let (open, limit) =
            parse_open_files(self.0.read(buffer)?).ok_or_else(|| self.0.holds_no("open files"))?;
        out.node();
        out.count(&node_files_open, Quality::Estimated, Some(open));
        out.count(&node_files_open_limit, Quality::Exact, Some(limit));
        Ok(())
    }
}

/// `/proc` has a link for each process, beside those for its other folders.
struct Processes {
    folder: File,
    path: PathBuf,
    other_links: u64,
}

pub(super) fn open_processes(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let path = roots.proc.clone();
    let is_other = |name: &String| {
        !name.bytes().all(|byte| byte.is_ascii_digit())
            && std::fs::symlink_metadata(path.join(name)).is_ok_and(|about| about.is_dir())
    };
    // Its own name, and its entry for itself.
    let other_links = 2 + names_in(&path).iter().filter(|name| is_other(name)).count() as u64;
    match File::open(&path) {
        Ok(folder) => Ok(Box::new(Processes { folder, path, other_links })),
        Err(source) => Err(ProcError::Read { path, source }.into()),
    }
}

impl NodeReader for Processes {
    fn read(&mut self, _: &mut ReadBuffer, out: &mut BlockWriter<'_>) -> Result<(), NodeError> {
        let about = self.folder.metadata();
        let about = about.map_err(|source| ProcError::Read { path: self.path.clone(), source })?;
        out.node();
        out.count(&node_processes, Quality::Exact, about.nlink().checked_sub(self.other_links));
        Ok(())
    }
}
