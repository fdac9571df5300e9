//! What kernels of other machines have written: `recorded/README.md` names who has recorded it.

use super::*;

fn collected(path: &str, text: &str) -> NodeCollectors {
    let (_folder, roots) = tree(&[(path, text)]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    collectors
}

/// A value, where there is one.
fn known(collectors: &NodeCollectors, scope: &str, metric: &str) -> Option<f64> {
    let is_it =
        |sample: &Sample<'_>| sample.metric.name == metric && sample.scope.to_string() == scope;
    collectors.samples().find(is_it)?.value.map(Number::as_f64)
}

#[test]
fn nfs_as_a_cluster_has_written_it() {
    let collectors = collected("proc/self/mountstats", include_str!("recorded/mountstats.txt"));
    let pod = "/var/lib/kubelet/pods/1c2215a7-0d92-4df5-83ce-a807bcc2f8c8/volumes/kubernetes.io~nfs/home-automation--node-red-data--pv0001";
    let test = "/mnt/nfs/test";
    let bytes = |mount: &str, metric| known(&collectors, &format!("mount:{mount}"), metric);
    assert_eq!(bytes(pod, "node_mount_read_bytes_total"), Some(1_788_561_151.0));
    assert_eq!(bytes(pod, "node_mount_written_bytes_total"), Some(39_087_991_255.0));
    assert_eq!(bytes(test, "node_mount_read_bytes_total"), Some(1_210_214_218.0));
    let of = |operation: &str, mount: &str, metric: &str| {
        let metric = format!("node_mount_operation{metric}");
        known(&collectors, &format!("operation:{operation}:{mount}"), &metric)
    };
    for (operation, count, all, queue, server, errors) in [
        ("READ", 34_096.0, 467.945, 2.272, 464.84, 0.0),
        ("WRITE", 322_308.0, 411_864.389, 401_718.334, 10_139.998, 0.0),
        ("OPEN", 12_637.0, 58.251, 0.871, 57.185, 394.0),
        ("FREE_STATEID", 10_413.0, 3.871, 0.147, 3.518, 10_413.0),
    ] {
        assert_eq!(of(operation, pod, "s_total"), Some(count), "{operation}");
        assert_eq!(of(operation, pod, "_seconds_total"), Some(all), "{operation}");
        assert_eq!(of(operation, pod, "_queue_seconds_total"), Some(queue), "{operation}");
        assert_eq!(of(operation, pod, "_server_seconds_total"), Some(server), "{operation}");
        assert_eq!(of(operation, pod, "_errors_total"), Some(errors), "{operation}");
    }
    // An older kernel: no errors, and time in the queue that has fallen below 0.
    assert_eq!(of("ACCESS", test, "s_total"), Some(2_927_395_007.0));
    assert_eq!(of("ACCESS", test, "_seconds_total"), Some(1_953_587.717));
    assert_eq!(of("ACCESS", test, "_retransmits_total"), Some(0.0), "fewer were sent than ended");
    assert_eq!(of("ACCESS", test, "_errors_total"), None);
    assert_eq!(of("ACCESS", test, "_queue_seconds_total"), None, "no time is below 0");
}

#[test]
fn lustre_as_two_versions_have_written_it() {
    let lustre = |text: &str| collected("proc/fs/lustre/llite/fs-ffff9440f1003000/stats", text);
    let of = |collectors: &NodeCollectors, operation: &str, metric: &str| {
        let metric = format!("node_mount_operation{metric}");
        known(collectors, &format!("operation:{operation}:fs-ffff9440f1003000"), &metric)
    };
    let old = lustre(include_str!("recorded/lustre-2.14.txt"));
    assert_eq!(of(&old, "mkdir", "s_total"), Some(7_906_554.0));
    assert_eq!(of(&old, "mkdir", "_seconds_total"), Some(20_996.782_592));
    assert_eq!(of(&old, "ioctl", "s_total"), Some(2.0));
    assert_eq!(of(&old, "ioctl", "_seconds_total"), None, "it is not timed");
    let new = lustre(include_str!("recorded/lustre-2.16.txt"));
    assert_eq!(of(&new, "read", "s_total"), Some(57_406_355.0));
    assert_eq!(of(&new, "read", "_seconds_total"), Some(7_034.832_815));
    assert_eq!(of(&new, "openclosetime", "_seconds_total"), Some(549_421_294.037_909));
    assert_eq!(of(&new, "opencount", "_seconds_total"), None);
    let bytes = |metric| known(&new, "mount:fs-ffff9440f1003000", metric);
    assert_eq!(bytes("node_mount_read_bytes_total"), Some(1_496_254_921_055.0));
    assert_eq!(bytes("node_mount_written_bytes_total"), Some(1_184_274_862_535.0));
}
