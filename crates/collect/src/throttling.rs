//! How long others kept the CPUs from a job: its control groups by a quota, the host of a virtual machine by taking them.
//!
//! Reads `cpu.stat` of the groups that a process is in, up to the highest that can be seen, and the machine's `steal`.
//! Emits by how much they have grown. Refuses to say which thread waited.

use std::path::{Path, PathBuf};

use crate::procfs;

/// What the kernel has counted so far.
#[derive(Clone, Debug, Default)]
pub struct Throttling {
    /// Files that tell, with the nanoseconds that stood in them.
    groups: Vec<(PathBuf, u64)>,
    is_known: bool,
}

impl Throttling {
    /// Of the groups that a process is in.
    pub fn begin(pid: u32) -> Throttling {
        let files = files_of(pid);
        let is_known = !files.is_empty();
        let counts = files.into_iter().filter_map(|path| {
            let before = throttled_ns(&path)?;
            Some((path, before))
        });
        Throttling { groups: counts.collect(), is_known }
    }

    /// Whether the groups are known. One that counts nothing has no quota.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Nanoseconds that the group that was throttled most was kept from CPUs since, added up over the CPUs.
    pub fn since_ns(&self) -> u64 {
        let grown = |(path, before): &(PathBuf, u64)| throttled_ns(path)?.checked_sub(*before);
        self.groups.iter().filter_map(grown).max().unwrap_or_default()
    }
}

fn throttled_ns(path: &Path) -> Option<u64> {
    let text = procfs::read(path).ok()?;
    let microseconds = procfs::number_after(&text, b"throttled_usec ");
    microseconds.map(|us| us * 1000).or_else(|| procfs::number_after(&text, b"throttled_time "))
}

/// `cpu.stat` of the groups that a process is in, the nearest first.
fn files_of(pid: u32) -> Vec<PathBuf> {
    let own = procfs::read_of(pid, "cgroup").unwrap_or_default();
    let (lines, mounts) = (procfs::parse_cgroup(&own), procfs::group_mounts());
    let has_cpu =
        |m: &&procfs::Mount| m.kind == "cgroup" && m.options.split(',').any(|o| o == "cpu");
    let version_1 = mounts.iter().find(has_cpu);
    let line = match version_1 {
        Some(_) => lines.iter().find(|line| line.controllers.iter().any(|c| c == "cpu")),
        None => lines.iter().find(|line| line.hierarchy == 0),
    };
    let mount = version_1.or_else(|| mounts.iter().find(|mount| mount.kind == "cgroup2"));
    let (Some(mount), Some(line)) = (mount, line) else { return Vec::new() };
    // In a container the mount shows only a part of the hierarchy.
    let Ok(below) = PathBuf::from(&line.path).strip_prefix(&mount.root).map(PathBuf::from) else {
        return Vec::new();
    };
    let group = mount.point.join(below);
    let above = group.ancestors().take_while(|path| path.starts_with(&mount.point));
    above.map(|path| path.join("cpu.stat")).collect()
}

/// Seconds that the host of this virtual machine kept its CPUs from it since it was started.
pub fn stolen_seconds() -> Option<f64> {
    let text = procfs::read("/proc/stat").ok()?;
    let ticks = steal_ticks(&text)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

fn steal_ticks(text: &[u8]) -> Option<u64> {
    let line = text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"cpu "))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_tells_in_its_version_s_unit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.stat");
        std::fs::write(&path, "nr_periods 3\nnr_throttled 2\nthrottled_time 1500\n").unwrap();
        assert_eq!(throttled_ns(&path), Some(1500));
        let throttling = Throttling { groups: vec![(path.clone(), 1500)], is_known: true };
        assert_eq!(throttling.since_ns(), 0);
        std::fs::write(&path, "usage_usec 9\nthrottled_usec 7\n").unwrap();
        assert_eq!(throttled_ns(&path), Some(7000));
        assert_eq!(throttling.since_ns(), 5500);
    }

    #[test]
    fn steal_is_the_eighth_number() {
        assert_eq!(steal_ticks(b"cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1\n"), Some(88));
        assert_eq!(steal_ticks(b"cpu  1 2\n"), None);
    }
}
