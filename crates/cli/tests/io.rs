//! I/O by calls, against the return values that the programs added up: to the byte and to the call.
//!
//! What the kernel and the loader read to start a program is the same each time: it is taken away
//! by a run that moves 0 bytes.

mod support;

use std::collections::BTreeMap;

use support::run::{Measured, Weigh};

/// The metrics, and the truths they are held against.
const METRICS: [(&str, &str); 4] = [
    ("io_read_bytes_total", "io_read_bytes"),
    ("io_written_bytes_total", "io_written_bytes"),
    ("io_read_calls_total", "io_read_calls"),
    ("io_write_calls_total", "io_write_calls"),
];

/// Sizes of the kinds of calls that are most used, each with an odd chunk.
const SIZES: [(u64, u64); 3] = [(1_000_003, 1021), (33_554_467, 4099), (1 << 30, 65_537)];

/// A run of `io`, and what it did beyond a run of 0 bytes.
struct Moved {
    run: Measured,
    baseline: Measured,
}

impl Moved {
    /// `PROGRAM KIND BYTES CHUNK PATHS…`
    #[track_caller]
    fn new(program: &str, kind: &str, bytes: u64, chunk: u64, paths: &str) -> Moved {
        let run = |bytes| Weigh::workload(&format!("{program} {kind} {bytes} {chunk} {paths}"));
        Moved { run: run(bytes).measure(), baseline: run(0).measure() }
    }

    /// Beyond the baseline: what weigh counted, and what the program did.
    #[track_caller]
    fn counted_and_true(&self, metric: &str, truth: &str) -> (i64, i64) {
        let counted = self.run.number(metric) - self.baseline.number(metric);
        let truth = self.run.truth(truth) as i64 - self.baseline.truth(truth) as i64;
        (counted as i64, truth)
    }

    /// What is off, by metric.
    #[track_caller]
    fn errors(&self) -> BTreeMap<&'static str, (i64, i64)> {
        METRICS
            .iter()
            .map(|(metric, truth)| (*metric, self.counted_and_true(metric, truth)))
            .filter(|(_, (counted, truth))| counted != truth)
            .collect()
    }

    #[track_caller]
    fn is_exact(&self) {
        let errors = self.errors();
        self.run.check(errors.is_empty(), || {
            format!("beyond a run of 0 bytes (counted, expected): {errors:?}")
        });
        for (metric, _) in METRICS {
            let quality = self.run.value(metric).quality.to_string();
            self.run.check(["exact", "estimated"].contains(&quality.as_str()), || {
                format!("{metric} is {quality}")
            });
        }
    }
}

#[track_caller]
fn a_common_kind_is_exact(kind: &str) {
    for (bytes, chunk) in SIZES {
        for program in ["io", "io-static"] {
            Moved::new(program, kind, bytes, chunk, "").is_exact();
        }
    }
}

#[test]
fn read() {
    needs_root!();
    a_common_kind_is_exact("read");
}

#[test]
fn pread() {
    needs_root!();
    a_common_kind_is_exact("pread");
}

#[test]
fn readv() {
    needs_root!();
    a_common_kind_is_exact("readv");
}

#[test]
fn write() {
    needs_root!();
    a_common_kind_is_exact("write");
}

#[test]
fn pwrite() {
    needs_root!();
    a_common_kind_is_exact("pwrite");
}

#[test]
fn writev() {
    needs_root!();
    a_common_kind_is_exact("writev");
}

/// Runs each kind once, on files; fails with all that are off.
#[track_caller]
fn kinds_are_exact(kinds: &[&str]) {
    let folder = support::run::Scratch::new();
    let source = folder.path("source");
    std::fs::write(&source, vec![7; 3_000_017]).expect("a file to read");
    let target = folder.path("target");
    let mut wrong = Vec::new();
    for kind in kinds {
        let paths = if kind.contains("write") && *kind != "socket-write" {
            target.display().to_string()
        } else {
            format!("{} {}", source.display(), target.display())
        };
        for program in ["io", "io-static"] {
            let moved = Moved::new(program, kind, 3_000_017, 8191, &paths);
            let errors = moved.errors();
            if !errors.is_empty() {
                wrong.push(format!("{program} {kind} (counted, expected): {errors:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "beyond a run of 0 bytes:\n{}", wrong.join("\n"));
}

#[test]
fn vectors_at_an_offset() {
    needs_root!();
    kinds_are_exact(&["preadv", "preadv2", "pwritev", "pwritev2"]);
}

#[test]
fn copies_inside_the_kernel() {
    needs_root!();
    kinds_are_exact(&["sendfile", "copy_file_range"]);
}

#[test]
fn sockets() {
    needs_root!();
    kinds_are_exact(&["socket-write", "send", "sendto", "sendmsg", "sendmmsg"]);
}

#[test]
fn io_uring() {
    needs_root!();
    kinds_are_exact(&[
        "uring-read",
        "uring-readv",
        "uring-async-read",
        "uring-sqpoll-read",
        "uring-write",
        "uring-writev",
        "uring-send",
    ]);
}

/// Where function probes work these are exact; where not, the value says that they are not in it.
#[test]
fn pipes_and_asynchronous_io_are_exact_or_declared() {
    needs_root!();
    let folder = support::run::Scratch::new();
    let source = folder.path("source");
    std::fs::write(&source, vec![7; 3_000_017]).expect("a file to read");
    let words = "splice, tee, vmsplice and AIO";
    for kind in ["splice", "tee", "vmsplice", "aio-read", "aio-write"] {
        let path = match kind {
            "aio-write" => folder.path("target"),
            _ => source.clone(),
        };
        let moved = Moved::new("io", kind, 3_000_017, 8191, &path.display().to_string());
        for metric in moved.errors().keys() {
            let value = moved.run.value(metric);
            let reason = value.reason.clone().unwrap_or_default();
            moved.run.check(reason.contains(&format!("without {words}")), || {
                let (counted, expected) = moved.errors()[metric];
                format!("{metric}: {counted} of {expected} with {kind}, and it does not say so")
            });
        }
    }
}

/// The start of a program included: no more and no less than the kernel's own counters have.
#[test]
fn a_whole_process_agrees_with_the_kernel() {
    needs_root!();
    for program in ["io", "io-static"] {
        let command = format!("{} read 5000011 4099", support::workload(program));
        let words: Vec<&str> = command.split(' ').collect();
        let scratch = support::run::Scratch::new();
        let witness = support::workload("witness");
        let bare = support::run::bare(&scratch, &[&[witness.as_str()], words.as_slice()].concat());
        let kernel = support::run::truths(&String::from_utf8_lossy(&bare));
        // As a child of the command, so that all of its exec is in the job.
        let measured = Weigh::bash(&format!("{command}; true")).measure();
        let row = measured.process(&command);
        for (metric, field) in [
            ("io_read_bytes_total", "rchar"),
            ("io_written_bytes_total", "wchar"),
            ("io_read_calls_total", "syscr"),
            ("io_write_calls_total", "syscw"),
        ] {
            let counted = row.metrics[metric].as_f64();
            measured.check(counted == kernel[field] as f64, || {
                format!("{metric} of {command} is {counted}, the kernel says {}", kernel[field])
            });
        }
    }
}

#[test]
fn children_and_the_parent_add_up() {
    needs_root!();
    let io = support::workload("io");
    let script = format!(
        "{io} read 1000003 1021 & {io}-static write 2000003 4099 & ({io} pread 3000017 977 &) ; wait"
    );
    let measured = Weigh::bash(&script).measure();
    // To start a dynamic program takes a few kB, a static one less than one.
    let started = 1.0..10_000.0;
    for (command, metric, bytes) in [
        (format!("{io} read 1000003 1021"), "io_read_bytes_total", 1_000_003.0),
        (format!("{io} pread 3000017 977"), "io_read_bytes_total", 3_000_017.0),
        (format!("{io}-static write 2000003 4099"), "io_written_bytes_total", 2_000_003.0),
    ] {
        let beyond = measured.process(&command).metrics[metric].as_f64() - bytes;
        measured.check(started.contains(&beyond), || {
            format!("the row of {command} has {beyond:+} bytes beyond {bytes} in {metric}")
        });
    }
}
