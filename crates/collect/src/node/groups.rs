//! Reads files of control groups that are jobs of Slurm, containers, or units of systemd; emits `node_group_*` of each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weigh_schema::Metric;

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer};
use super::group_info::NodeGroup;
use super::group_source::{GroupSource, METRICS_OF_GROUP, VERSION_1, VERSION_2};
use super::group_tree::{GroupScan, GroupTree, Hierarchy, hierarchies};
use super::reader::NodeReader;

/// Groups whose files stay open: descriptors are few.
const GROUPS_OPEN: usize = 48;

/// A source, and the hierarchy in which this machine has it.
struct MountedSource {
    source: &'static GroupSource,
    hierarchy: usize,
    /// Metrics that no other source has already.
    wanted: [bool; 2],
}

struct GroupFile {
    path: PathBuf,
    /// None where too many are open.
    file: Option<KernelFile>,
}

struct GroupRow {
    group: NodeGroup,
    /// By mounted source; none where the group has no such file.
    files: Vec<Option<GroupFile>>,
    /// Whether a file could not be read any more.
    has_failed: bool,
}

struct Groups {
    hierarchies: Vec<Hierarchy>,
    sources: Vec<MountedSource>,
    /// Metrics that no hierarchy has, and why.
    missing: Vec<(&'static Metric, String)>,
    tree: GroupTree,
    rows: Vec<GroupRow>,
    left_out: u64,
}

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    let hierarchies = hierarchies(roots)?;
    let (sources, missing) = mounted_sources(&hierarchies);
    let (tree, rows) = (GroupTree::new(), Vec::new());
    Ok(Box::new(Groups { hierarchies, sources, missing, tree, rows, left_out: 0 }))
}

/// A controller is in one hierarchy: where version 1 has it, version 2 has it not.
fn mounted_sources(
    hierarchies: &[Hierarchy],
) -> (Vec<MountedSource>, Vec<(&'static Metric, String)>) {
    let mut sources: Vec<MountedSource> = Vec::new();
    for source in &VERSION_1 {
        let hierarchy = hierarchies.iter().position(|known| known.has(source.controller));
        sources.extend(hierarchy.map(|hierarchy| MountedSource {
            source,
            hierarchy,
            wanted: [true; 2],
        }));
    }
    let version_2 = hierarchies.iter().position(|known| known.is_version_2);
    let mut missing = Vec::new();
    for source in &VERSION_2 {
        let is_wanted = |metric: &Option<&'static Metric>| {
            metric.is_some_and(|metric| !sources.iter().any(|known| known.emits(metric)))
        };
        let wanted = [is_wanted(&source.metrics[0]), is_wanted(&source.metrics[1])];
        if wanted == [false; 2] {
            continue;
        }
        match version_2 {
            Some(hierarchy) => sources.push(MountedSource { source, hierarchy, wanted }),
            None => missing.extend(source.metrics.iter().zip(wanted).filter_map(
                |(metric, is_wanted)| Some((metric.filter(|_| is_wanted)?, not_mounted(source))),
            )),
        }
    }
    (sources, missing)
}

fn not_mounted(source: &GroupSource) -> String {
    match source.controller {
        "" => "control groups of version 2 are not mounted".to_string(),
        controller => format!("no hierarchy with the controller {controller} is mounted"),
    }
}

impl MountedSource {
    fn emits(&self, metric: &'static Metric) -> bool {
        self.source
            .metrics
            .iter()
            .zip(self.wanted)
            .any(|(own, is_wanted)| is_wanted && own.is_some_and(|own| std::ptr::eq(own, metric)))
    }

    /// The group's file, or why it has none.
    fn find(&self, hierarchies: &[Hierarchy], group: &NodeGroup) -> Result<PathBuf, String> {
        let hierarchy = &hierarchies[self.hierarchy];
        let Some(folder) = hierarchy.folder(&group.path) else {
            return Err("the group lies outside of what is mounted".to_string());
        };
        let paths = self.source.files.iter().map(|name| folder.join(name));
        paths.into_iter().find(|path| path.exists()).ok_or_else(|| {
            let why = match (folder.is_dir(), self.source.controller) {
                (false, "") => "the group is not in the hierarchy of version 2".to_string(),
                (false, controller) => format!("the group is not in the hierarchy of {controller}"),
                (true, "") => format!("the kernel has no {}", self.source.files[0]),
                (true, controller) => {
                    format!("the controller {controller} is not on for the group")
                }
            };
            weigh_schema::printable::in_words(why)
        })
    }
}

impl Groups {
    fn take(&mut self, scan: GroupScan, buffer: &mut ReadBuffer) {
        self.left_out = scan.left_out;
        // Groups that stay keep their open files; what has failed may be another group of the same name.
        let stays = |row: &GroupRow| scan.is_of_change && !row.has_failed;
        let mut rows: BTreeMap<Vec<u8>, GroupRow> = std::mem::take(&mut self.rows)
            .into_iter()
            .filter(stays)
            .map(|row| (row.group.path.clone(), row))
            .collect();
        for (at, (path, group)) in scan.groups.into_iter().enumerate() {
            let row = rows.remove(&path);
            let row = row.unwrap_or_else(|| self.row(group, at < GROUPS_OPEN, buffer));
            self.rows.push(row);
        }
    }

    fn row(&self, mut group: NodeGroup, stays_open: bool, buffer: &mut ReadBuffer) -> GroupRow {
        group.missing.clone_from(&self.missing);
        let mut files = Vec::with_capacity(self.sources.len());
        for mounted in &self.sources {
            let found = mounted.find(&self.hierarchies, &group);
            let found = found.and_then(|path| GroupFile::open(path, stays_open, buffer));
            if let Err(why) = &found {
                let metrics = mounted.source.metrics.iter().flatten();
                let own = metrics.filter(|metric| mounted.emits(metric));
                group.missing.extend(own.map(|metric| (*metric, why.clone())));
            }
            files.push(found.ok());
        }
        GroupRow { group, files, has_failed: false }
    }
}

impl GroupFile {
    /// Reads it once, to see that it can be.
    fn open(path: PathBuf, stays_open: bool, buffer: &mut ReadBuffer) -> Result<GroupFile, String> {
        let file = KernelFile::open(path.clone(), FileShape::OneRecord);
        let file = file.and_then(|file| file.read(buffer).map(|_| ()).map(|()| file));
        let file = file.map_err(|error| weigh_schema::printable::in_words(error.to_string()))?;
        Ok(GroupFile { path, file: stays_open.then_some(file) })
    }

    /// None where it cannot be read: the group has gone meanwhile, as a rule.
    fn read<'b>(&self, buffer: &'b mut ReadBuffer) -> Option<&'b [u8]> {
        match &self.file {
            Some(file) => file.read(buffer).ok(),
            None => {
                KernelFile::open(self.path.clone(), FileShape::OneRecord).ok()?.read(buffer).ok()
            }
        }
    }
}

impl NodeReader for Groups {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        if let Some(scan) = self.tree.scan_if_changed(&self.hierarchies) {
            self.take(scan, buffer);
        }
        let mut has_failed = false;
        for row in &mut self.rows {
            out.instance([b"group", &row.group.path], || row.group.scope.clone());
            for (mounted, file) in self.sources.iter().zip(&row.files) {
                let text = match file {
                    Some(file) => file.read(buffer),
                    None => None,
                };
                row.has_failed |= file.is_some() && text.is_none();
                mounted.source.put(text, mounted.wanted, out);
            }
            has_failed |= row.has_failed;
        }
        if has_failed {
            self.tree.distrust();
        }
        out.leave_out(self.left_out * METRICS_OF_GROUP);
        Ok(())
    }

    fn groups(&self) -> Box<dyn Iterator<Item = &NodeGroup> + '_> {
        Box::new(self.rows.iter().map(|row| &row.group))
    }
}
