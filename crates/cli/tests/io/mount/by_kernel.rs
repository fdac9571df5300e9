//! A mount whose reads and writes the kernel passes through, counted by BPF: what the programs say that they did.

use serde_json::Value;

use super::{can_mount, folders, is_kernel_from, served, text};
use crate::support::io_report::{moved, rows};
use crate::support::workload;

const BYTES: u64 = 1_000_003;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;

/// Writes a file and reads it, each by calls of a known amount.
fn script(at: &str) -> String {
    let io = workload("io");
    format!("{io} write {BYTES} {CHUNK} {at}/odd && {io} pread {BYTES} {CHUNK} {at}/odd")
}

/// Read bytes and calls, written bytes and calls of a file, of all processes and kinds.
fn sums(report: &Value, name: &str) -> [u64; 4] {
    let all = rows(report, name)
        .into_iter()
        .flat_map(|row| ["plain", "positioned", "vectored"].map(|kind| moved(row, kind)));
    all.fold([0; 4], |sum, row| std::array::from_fn(|i| sum[i] + row[i]))
}

#[test]
fn a_passthrough_mount_counts_by_bpf_unless_asked_otherwise() {
    if !can_mount() {
        return;
    }
    let ways: [&[&str]; 2] = [&[], &["--mechanism=bpf", "--exact"]];
    for way in ways {
        let scratch = folders();
        let at = text(scratch.path("at"));
        // Holes in a file elsewhere, mapped, are none of the mount's.
        let hole = text(scratch.path("bare/hole"));
        let hollow = std::fs::File::create(&hole).and_then(|file| file.set_len(1 << 20));
        hollow.expect("a file without storage");
        let line = format!("{} && {} map {hole}", script(&at), workload("access"));
        let (status, said, report) = served(&scratch, way, &["bash", "-c", &line]);
        assert_eq!(status, Some(0), "{way:?}: {said}");
        if way.is_empty() && !is_kernel_from(6, 9) {
            assert_eq!(report["mechanism"], "fuse", "nothing is passed through");
            continue;
        }
        assert_eq!(report["mechanism"], "bpf", "{way:?}: {said}");
        let name = format!("{at}/odd");
        assert_eq!(sums(&report, &name), [BYTES, CALLS, BYTES, CALLS], "{way:?}: {report:#}");
        for key in ["read_bytes", "written_bytes"] {
            assert!(report["qualities"].get(key).is_none(), "{way:?}: {}", report["qualities"]);
        }
        assert!(!said.contains("not seen") && !said.contains("unknown"), "{way:?}: {said}");
    }
}

/// It counts until its time is over, and not what others do with files elsewhere.
#[test]
fn a_recording_of_a_passthrough_mount_has_what_was_read_and_written() {
    if !can_mount() || !is_kernel_from(6, 9) {
        return;
    }
    let scratch = folders();
    let (at, bare) = (text(scratch.path("at")), text(scratch.path("bare")));
    let line = format!("{} && {}", script(&at), script(&bare));
    let output = super::options::recorded(&scratch, &["--interval=50ms"], &line);
    assert!(output.status.success(), "{output:?}");
    let recording = weigh_keep::Recording::open(&scratch.path("recording")).expect("it is read");
    let found = recording.summary().io.as_deref().expect("a section of its own");
    assert_eq!(found.mechanism, weigh_schema::Mechanism::Bpf);
    let by = found.totals.by_calls;
    assert_eq!(
        [by.read_bytes, by.read_calls, by.written_bytes, by.write_calls],
        [BYTES, CALLS, BYTES, CALLS]
    );
}
