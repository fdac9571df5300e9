//! Text of the kernel about the whole machine, and about control groups, whose names anybody may choose.

use weigh_parse::node;

/// `/proc/stat`, `meminfo`, `diskstats`, `net/dev`, pressure, mounts, GPUs, files of control groups.
pub fn node_files(data: &[u8]) {
    let is_in = |part: &[u8]| data.as_ptr_range().contains(&part.as_ptr()) || part.is_empty();
    let mut lines = 0;
    node::each_stat_line(data, |line| {
        lines += 1;
        if let node::StatLine::Total(name, _) = line {
            assert!(is_in(name) && !name.is_empty());
        }
    });
    node::each_pair(
        data,
        |_| true,
        |at, name, _| {
            assert!(at < data.len() && !name.contains(&b'\n'));
            lines += 1;
        },
    );
    node::each_disk(data, |disk| {
        assert!(!disk.name.is_empty() && no_gap(&disk.fields));
        lines += 1;
    });
    node::each_interface(data, |interface| {
        assert!(is_in(interface.name) && no_gap(&interface.fields));
        lines += 1;
    });
    node::each_nfs_line(data, |_| lines += 1);
    node::each_lustre_line(data, |line| {
        assert!(line.sum.is_none() || line.unit != node::LustreUnit::None);
        lines += 1;
    });
    node::each_drm_line(data, |_| lines += 1);
    assert!(lines <= 7 * data.iter().filter(|byte| **byte == b'\n').count());
    if let Some(load) = node::load_averages(data) {
        assert!(load.averages.iter().all(|load| load.is_finite() && *load >= 0.0));
    }
    let _ = (node::open_files(data), node::pressure_totals(data), node::attribute(data));
    let _ = (node::first_number(data), node::io_bytes(data));
}

/// Values of a line end where the first is that is none.
fn no_gap(fields: &[Option<u64>]) -> bool {
    fields.is_sorted_by_key(Option::is_none)
}

/// Paths of control groups.
pub fn control_groups(data: &[u8]) {
    for path in data.split(|byte| *byte == b'\n') {
        let Some(group) = node::control_group(path) else { continue };
        assert!(path.starts_with(group.path) && !group.name.is_empty());
        assert!(!group.name.contains(&b'/'), "a name is a part of a path");
        assert_eq!(node::control_group(group.path), Some(group));
        if group.kind != node::GroupKind::Unit {
            let below = [group.path, b"/a.service"].concat();
            let deeper = node::control_group(&below).expect("the same");
            assert_eq!((deeper.kind, deeper.path), (group.kind, group.path));
        }
    }
}
