//! What is counted, against what the programs themselves know.

use serde_json::Value;

use super::{Served, WAYS, can_mount, folders, is_kernel_from, rows, served, text};
use crate::support::terminal::Terminal;
use crate::support::{weigh_for_everybody, workload};

const BYTES: u64 = 1_000_003;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;
const PAGE: u64 = 4096;

/// Writes a file, copies it inside the kernel, and reads it, each by calls of a known amount.
fn script(at: &str) -> String {
    let io = workload("io");
    format!(
        "{io} write {BYTES} {CHUNK} {at}/odd && {io} pread {BYTES} {CHUNK} {at}/odd && \
         {io} copy_file_range {BYTES} {CHUNK} {at}/odd {at}/copy && cd {at} && \
         mv odd moved && : >> moved && rm copy"
    )
}

fn sum(report: &Value, name: &str, key: &str) -> Option<u64> {
    let rows = rows(report, name);
    assert!(!rows.is_empty(), "{name} in {report}");
    // Absent from one is absent from all.
    // Absent from one is absent from all: rows that moved nothing have no kinds.
    rows.iter()
        .map(|row| {
            row[key].as_u64().map(|_| row["by_kind"]["positioned"][key].as_u64().unwrap_or(0))
        })
        .sum()
}

#[test]
fn every_byte_is_counted_or_absent_with_its_reason() {
    if !can_mount() {
        return;
    }
    for way in WAYS {
        let scratch = folders();
        let at = text(scratch.path("at"));
        let (status, said, report) = served(&scratch, way, &["bash", "-c", &script(&at)]);
        assert_eq!(status, Some(0), "{way:?}: {said}");
        assert_eq!(report["mechanism"], "fuse");
        let of = |key: &str| report["qualities"][key]["quality"].as_str().map(str::to_string);
        let unavailable = Some("unavailable".to_string());
        let written = rows(&report, "/odd");
        let all: u64 = written
            .iter()
            .map(|row| row["numbers"]["opens_total"].as_u64())
            .sum::<Option<u64>>()
            .expect("opens");
        assert_eq!(all, 4, "write, read, copy, append: {written:#?}");
        match way.first() {
            // The kernel tells nothing: then weigh does not either.
            Some(&"--mechanism=fuse") if of("written_bytes") == unavailable => {
                assert_eq!(
                    (of("read_bytes"), of("written_bytes")),
                    (unavailable.clone(), unavailable)
                );
                for row in &written {
                    assert!(row.get("read_bytes").is_none() && row.get("written_bytes").is_none());
                }
                assert!(
                    said.contains("an unknown amount read, an unknown amount written"),
                    "{said}"
                );
                // The option that sees them, and its price, come first.
                assert!(said.starts_with("weigh  Reads and writes are not seen"), "{said}");
                assert!(said.contains("--exact counts each"), "{said}");
            }
            Some(&"--exact") => {
                let [read, reads, wrote, writes] =
                    ["read_bytes", "read_calls", "written_bytes", "write_calls"]
                        .map(|key| sum(&report, "/odd", key));
                // Of the programs' truth: the read that finds the end is none of theirs.
                assert_eq!((read, wrote), (Some(BYTES), Some(BYTES)), "{written:#?}");
                assert_eq!((reads, writes), (Some(CALLS), Some(CALLS)), "{written:#?}");
                assert_eq!((of("read_bytes"), of("written_bytes")), (None, None));
                let on = written
                    .iter()
                    .map(|row| row["numbers"]["consecutive_reads_total"].as_u64().unwrap_or(0));
                assert_eq!(
                    on.sum::<u64>(),
                    CALLS - 1 + CALLS - 1,
                    "reads and copies go on where they were"
                );
            }
            // As plain as on a kernel that cannot pass through.
            _ => {
                assert_eq!(of("read_bytes"), unavailable);
                assert_eq!(sum(&report, "/odd", "written_bytes"), Some(BYTES));
                assert!(written.iter().all(|row| row.get("read_bytes").is_none()));
            }
        }
        let copied = |name: &str, key: &str| {
            let of = |row: &&Value| row["by_kind"]["copied"][key].as_u64().unwrap_or(0);
            rows(&report, name).iter().map(of).sum::<u64>()
        };
        assert_eq!(
            (copied("/odd", "read_bytes"), copied("/copy", "written_bytes")),
            (BYTES, BYTES)
        );
        assert_eq!(std::fs::metadata(scratch.path("source/moved")).expect("moved").len(), BYTES);
    }
}

#[test]
fn who_asks_for_flags_has_opened_the_file_once() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    std::fs::write(scratch.path("source/flagged"), "x").expect("a file");
    std::fs::create_dir(scratch.path("source/folder")).expect("a folder");
    let served = Served::start(&scratch, WAYS[0]);
    for name in ["at/flagged", "at/folder"] {
        let open = std::fs::File::open(scratch.path(name)).expect("opens");
        // As lsattr does; a file system that keeps none says so.
        let _ = rustix::fs::ioctl_getflags(&open);
    }
    let (status, report) = served.interrupt();
    assert_eq!(status, Some(0));
    for name in ["/flagged", "/folder"] {
        let opens = rows(&report, name)[0]["numbers"]["opens_total"].as_u64();
        assert_eq!(opens, Some(1), "{report:#}");
    }
}

#[test]
fn the_table_is_on_the_terminal_while_it_is_mounted() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let [from, source, at] = ["at/from", "source", "at"].map(|name| text(scratch.path(name)));
    std::fs::write(scratch.path("source/from"), vec![7; BYTES as usize]).expect("a file");
    let (weigh, access) = (weigh_for_everybody(), workload("access"));
    let weigh = text(weigh.to_path_buf());
    let command =
        [&*weigh, "io", "mount", "--live", "--exact", &source, &at, "--", &access, "wait", &from];
    let terminal = Terminal::start(&scratch, 30, 120, &command);
    // The row of the file that is still open: ten reads.
    terminal.wait_for("/from", 3);
    let shown = terminal.shown();
    assert!(shown.contains("100 B       10"), "{shown}");
    for pid in scratch.survivors() {
        crate::support::processes::signal(pid, 15);
    }
    let (status, shown) = terminal.end();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{shown}");
    assert!(!super::is_mounted(&at));
}

#[test]
fn mapped_memory_is_counted_to_the_page() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let [read, stored] = ["at/read", "at/stored"].map(|name| text(scratch.path(name)));
    std::fs::write(scratch.path("source/read"), vec![7; BYTES as usize]).expect("a file");
    let access = workload("access");
    let line = format!("{access} map {read} && {access} store {stored} 300");
    let (status, said, report) = served(&scratch, &["--exact"], &["bash", "-c", &line]);
    if !is_kernel_from(6, 6) {
        // As docs/mount.md has it: the kernel does not map what it does not cache.
        assert!(status != Some(0) && said.contains("No such device"), "{said}");
        return;
    }
    assert_eq!(status, Some(0), "{said}");
    let mapped = |name: &str, key: &str| {
        let of = |row: &&Value| row["by_kind"]["mapped"][key].as_u64().unwrap_or(0);
        rows(&report, name).iter().map(of).sum::<u64>()
    };
    assert_eq!(mapped("/read", "read_bytes"), BYTES, "{report:#}");
    assert_eq!(sum(&report, "/read", "read_calls"), Some(0), "no call has read it");
    // Every third of 300 pages; where folios are large, all pages of each.
    let dirtied = mapped("/stored", "written_bytes");
    assert!((100 * PAGE..=300 * PAGE).contains(&dirtied), "{dirtied}");
}
