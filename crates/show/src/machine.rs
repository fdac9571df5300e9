//! What of the machine's own state people should know beside a job's values: only what may have made them worse.

use std::collections::BTreeMap;

use weigh_schema::amount::{show_count, show_number_of, show_size};
use weigh_schema::node_metric::*;
use weigh_schema::summary::{FileSystemRoom, Host, Summary};
use weigh_schema::{Metric, Value};

use crate::text::harmless;

/// Less available memory than this part of all is told.
const LITTLE_MEMORY: f64 = 0.1;
/// Less free space, or inodes, than this part of all is told.
const LITTLE_ROOM: f64 = 0.05;

/// Notes in a line each; none of a machine that was idle and had room.
pub(crate) fn words(summary: &Summary) -> Vec<String> {
    let host = &summary.host;
    let begin = [load(host), memory(host)].into_iter().flatten().collect::<Vec<_>>();
    let begin = (!begin.is_empty()).then(|| format!("when the job began: {}", begin.join("; ")));
    begin.into_iter().chain(summary.file_systems.iter().filter_map(little_room)).collect()
}

/// A file system that was nearly full at one time.
fn little_room(system: &FileSystemRoom) -> Option<String> {
    let number = |values: &BTreeMap<String, Value>, metric: &Metric| {
        values.get(metric.name).and_then(Value::number)
    };
    let part_left = |total: &Metric, free: &Metric| {
        let (total, free) = (number(&system.at_start, total)?, number(&system.least, free)?);
        (free < total * LITTLE_ROOM).then_some((free, total))
    };
    let bytes = part_left(&node_filesystem_total_bytes, &node_filesystem_available_bytes)
        .map(|(free, total)| format!("{} of {}", show_size(free), show_size(total)));
    let inodes = part_left(&node_filesystem_inodes, &node_filesystem_inodes_available)
        .map(|(free, total)| format!("{} of {} inodes", show_count(free), show_count(total)));
    let left = bytes.into_iter().chain(inodes).collect::<Vec<_>>().join(" and ");
    let FileSystemRoom { mount, kind, .. } = system;
    (!left.is_empty()).then(|| format!("{} ({kind}) had {left} free at least", harmless(mount)))
}

fn at_start(host: &Host, name: &str) -> Option<f64> {
    host.at_start.get(name).and_then(Value::number)
}

/// Others wanted more CPUs than there are.
fn load(host: &Host) -> Option<String> {
    let load = at_start(host, node_load_1m_threads.name)?;
    let cpus = show_number_of(host.cpus.into(), "CPU", "CPUs");
    (load > f64::from(host.cpus)).then(|| format!("a load of {load:.1} on {cpus}"))
}

fn memory(host: &Host) -> Option<String> {
    let available = at_start(host, node_memory_available_bytes.name)?;
    let total = at_start(host, node_memory_total_bytes.name)?;
    (available < total * LITTLE_MEMORY)
        .then(|| format!("{} of {} of memory available", show_size(available), show_size(total)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::Mechanism;

    fn values(values: &[(&Metric, f64)]) -> BTreeMap<String, Value> {
        let value = |(metric, number): &(&Metric, f64)| {
            let value = Value::exact(metric.unit, *number, Mechanism::Proc);
            (metric.name.to_string(), value)
        };
        values.iter().map(value).collect()
    }

    fn host(at_start: &[(&Metric, f64)]) -> Host {
        Host {
            node: "n1".into(),
            kernel: "6.18.0".into(),
            cpus: 2,
            memory_bytes: 1 << 34,
            cgroup_version: "v2".into(),
            virtualisation: None,
            weigh: "0.1.0".into(),
            at_start: values(at_start),
            at_end: BTreeMap::new(),
        }
    }

    #[test]
    fn a_file_system_that_was_nearly_full_is_told() {
        let room = |free, free_inodes| FileSystemRoom {
            mount: "/data".to_string(),
            mount_base64: None,
            kind: "ext4".to_string(),
            device: 1,
            used_for: Vec::new(),
            at_start: values(&[
                (&node_filesystem_total_bytes, 100.0 * 1024.0),
                (&node_filesystem_inodes, 1000.0),
            ]),
            least: values(&[
                (&node_filesystem_available_bytes, free),
                (&node_filesystem_inodes_available, free_inodes),
            ]),
            at_end: BTreeMap::new(),
        };
        assert_eq!(little_room(&room(5.0 * 1024.0, 50.0)), None);
        assert_eq!(
            little_room(&room(4.0 * 1024.0, 7.0)).as_deref(),
            Some(
                "/data (ext4) had 4.0 KiB of 100.0 KiB and 7 of 1\u{202f}000 inodes free at least"
            )
        );
    }

    #[test]
    fn what_may_have_made_the_job_slower_is_told() {
        let total = (&node_memory_total_bytes, 16.0 * (1u64 << 30) as f64);
        let idle =
            host(&[(&node_load_1m_threads, 2.0), (&node_memory_available_bytes, 1e10), total]);
        assert_eq!((load(&idle), memory(&idle)), (None, None));
        let busy = host(&[
            (&node_load_1m_threads, 7.91),
            (&node_memory_available_bytes, 512.0 * (1u64 << 20) as f64),
            total,
        ]);
        assert_eq!(load(&busy).as_deref(), Some("a load of 7.9 on 2 CPUs"));
        let memory_words = memory(&busy).expect("there is little");
        assert_eq!(memory_words, "512.0 MiB of 16.0 GiB of memory available");
        assert_eq!((load(&host(&[])), memory(&host(&[]))), (None, None), "older recordings");
    }
}
