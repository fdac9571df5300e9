//! I/O by calls, against the return values that the programs added up: to the byte and to the call.
//!
//! What the kernel and the loader read to start a program is the same each time: it is taken away
//! by a run that moves 0 bytes.

use std::collections::BTreeMap;

use crate::support::measured::{Measured, is_exact_but_for_uncounted, truths};
use crate::support::run::{Scratch, Weigh};
use weigh_schema::Quality;
use weigh_schema::recording::ProcessRow;

/// The metrics, and the truths they are held against.
const METRICS: [(&str, &str); 4] = [
    ("io_read_bytes_total", "io_read_bytes"),
    ("io_written_bytes_total", "io_written_bytes"),
    ("io_read_calls_total", "io_read_calls"),
    ("io_write_calls_total", "io_write_calls"),
];

/// Sizes, each with an odd chunk.
const SIZES: [(u64, u64); 3] = [(1_000_003, 1021), (33_554_467, 4099), (1 << 30, 65_537)];

/// One use of `io`.
struct Use {
    program: &'static str,
    kind: &'static str,
    bytes: u64,
    chunk: u64,
    paths: String,
}

impl Use {
    fn command(&self, bytes: u64) -> String {
        let Use { program, kind, chunk, paths, .. } = self;
        let program = crate::support::workload(program);
        format!("{program} {kind} {bytes} {chunk} {paths}").trim_end().to_string()
    }
}

/// Uses of `io` in one job, each of them also with 0 bytes.
struct Moved {
    uses: Vec<Use>,
    run: Measured,
    rows: BTreeMap<String, ProcessRow>,
}

impl Moved {
    #[track_caller]
    fn new(uses: Vec<Use>) -> Moved {
        let mut script = String::new();
        for (i, one) in uses.iter().enumerate() {
            for (bytes, truth) in [(0, "nothing"), (one.bytes, "moved")] {
                let command = one.command(bytes);
                script += &format!("TRUTH_FILE=../{truth}-{i} {command} || exit 1\n");
            }
        }
        let run = Weigh::bash(&script).measure();
        let rows = run.processes().into_iter().map(|row| (row.command.clone(), row)).collect();
        Moved { uses, run, rows }
    }

    /// What is off: the use, the metric, what was counted beyond the run of 0 bytes, and what
    /// should have been.
    #[track_caller]
    fn errors(&self) -> Vec<(&Use, &'static str, f64, f64)> {
        let mut errors = Vec::new();
        for (i, one) in self.uses.iter().enumerate() {
            let row = |bytes| {
                let command = one.command(bytes);
                let row = self.rows.get(&command);
                row.unwrap_or_else(|| panic!("no row of {command}\n{}", self.run.everything()))
            };
            let [nothing, moved] = ["nothing", "moved"]
                .map(|name| truths(&self.run.scratch.text(&format!("{name}-{i}"))));
            for (metric, truth) in METRICS {
                let [before, after] =
                    [row(0), row(one.bytes)].map(|row| row.metrics[metric].as_f64());
                let counted = after - before;
                let expected = moved[truth] as f64 - nothing[truth] as f64;
                if counted != expected {
                    errors.push((one, metric, counted, expected));
                }
            }
        }
        errors
    }

    /// Nothing is off.
    #[track_caller]
    fn is_exact(&self) {
        let errors = self.errors();
        let line = |(one, metric, counted, expected): &(&Use, &str, f64, f64)| {
            format!("{} {}: {metric} {counted}, expected {expected}\n", one.program, one.kind)
        };
        self.run.check(errors.is_empty(), || {
            let lines: String = errors.iter().map(line).collect();
            format!("beyond a run of 0 bytes:\n{lines}")
        });
    }
}

/// The most used kinds, from `/dev/zero` and to `/dev/null`.
#[test]
fn six_kinds_in_three_sizes() {
    needs_root!();
    let mut uses = Vec::new();
    for kind in ["read", "pread", "readv", "write", "pwrite", "writev"] {
        for program in ["io", "io-static"] {
            for (bytes, chunk) in SIZES {
                uses.push(Use { program, kind, bytes, chunk, paths: String::new() });
            }
        }
    }
    Moved::new(uses).is_exact();
}

/// The job as a whole, where it is one process.
#[test]
fn a_job_of_one_process() {
    needs_root!();
    let mut cases = vec![("io", "read"), ("io-static", "write")];
    if !crate::support::is_slow() {
        cases.extend([("io-static", "read"), ("io", "write")]);
    }
    for (program, kind) in cases {
        let run = |bytes| Weigh::workload(&format!("{program} {kind} {bytes} 65537")).measure();
        let (nothing, moved) = (run(0), run(1 << 30));
        for (metric, truth) in METRICS {
            let counted = moved.number(metric) - nothing.number(metric);
            let expected = moved.truth(truth) as f64 - nothing.truth(truth) as f64;
            moved.check(counted == expected, || {
                format!("{program} {kind}: {metric} {counted}, expected {expected}")
            });
            let value = moved.value(metric);
            moved.check(is_exact_but_for_uncounted(value), || format!("{metric} is {value:?}"));
        }
    }
}

/// Uses of each kind, on files, by a dynamic and a static program.
fn on_files(folder: &Scratch, kinds: &[&'static str]) -> Vec<Use> {
    const BYTES: u64 = 3_000_017;
    let source = folder.path("source");
    std::fs::write(&source, vec![7; BYTES as usize]).expect("a file to read");
    let (source, target) = (source.display(), folder.path("target"));
    let mut uses = Vec::new();
    for kind in kinds {
        let paths = if kind.contains("write") && *kind != "socket-write" {
            target.display().to_string()
        } else {
            format!("{source} {}", target.display())
        };
        for program in ["io", "io-static"] {
            uses.push(Use { program, kind, bytes: BYTES, chunk: 8191, paths: paths.clone() });
        }
    }
    uses
}

#[track_caller]
fn kinds_are_exact(kinds: &[&'static str]) {
    let folder = Scratch::new();
    Moved::new(on_files(&folder, kinds)).is_exact();
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
        "uring-late",
        "uring-again",
    ]);
}

/// The kernel tells of no request that is to succeed without a word: then nothing counts as exact.
#[test]
fn what_io_uring_hides_is_declared() {
    needs_root!();
    let folder = Scratch::new();
    let moved = Moved::new(on_files(&folder, &["uring-hidden-write"]));
    assert!(!moved.errors().is_empty(), "this kernel tells of them, and so could weigh");
    for (metric, _) in METRICS {
        let value = moved.run.value(metric);
        let reason = value.reason.clone().unwrap_or_default();
        moved.run.check(value.quality == Quality::Estimated && reason.contains("io_uring"), || {
            format!("{metric} is {:?}: {reason}", value.quality)
        });
    }
}

/// Where function probes work these are exact; where not, the value says that they are not in it.
#[test]
fn pipes_and_asynchronous_io_are_exact_or_declared() {
    needs_root!();
    let folder = Scratch::new();
    let kinds = ["splice", "tee", "vmsplice", "aio-read", "aio-write"];
    let moved = Moved::new(on_files(&folder, &kinds));
    for (one, metric, counted, expected) in moved.errors() {
        let value = moved.run.value(metric);
        let reason = value.reason.clone().unwrap_or_default();
        let is_told = reason.contains("without splice, tee, vmsplice and AIO");
        moved.run.check(is_told && value.quality == Quality::Estimated, || {
            format!("{metric} by {}: {counted} of {expected}, and it does not say so", one.kind)
        });
    }
}

/// Where functions cannot be probed, who looks at each call knows whether there were any of these.
#[test]
fn calls_that_nobody_counts_are_told_where_each_call_is_seen() {
    needs_root!();
    let folder = Scratch::new();
    let source = folder.path("source");
    std::fs::write(&source, vec![7; 100_003]).expect("a file to read");
    for options in ["--io", "--limit io_read_calls_total=1e9"] {
        // Two splices a chunk.
        for (kind, calls) in [("read", 0), ("splice", 50), ("aio-read", 25)] {
            let line = format!("io {kind} 100003 4099 {}", source.display());
            let run = Weigh::workload(&line).options(options).measure();
            for (metric, _) in METRICS {
                let value = run.value(metric);
                let reason = value.reason.clone().unwrap_or_default();
                let is_told = reason.contains(&format!("of which there were {calls} calls"));
                // Where they can be, they are counted.
                let is_counted = reason.is_empty() && value.quality == Quality::Exact;
                let is_right =
                    is_counted || calls > 0 && is_told && value.quality == Quality::Estimated;
                run.check(is_right, || format!("{kind}, {options}: {metric}: {value:?}"));
            }
        }
    }
}

/// The start of a program included: no more and no less than the kernel's own counters have.
#[test]
fn a_whole_process_agrees_with_the_kernel() {
    needs_root!();
    for program in ["io", "io-static"] {
        let command = format!("{} read 5000011 4099", crate::support::workload(program));
        let words: Vec<&str> = command.split(' ').collect();
        let scratch = Scratch::new();
        let witness = crate::support::workload("witness");
        let bare =
            crate::support::run::bare(&scratch, &[&[witness.as_str()], words.as_slice()].concat());
        let kernel = truths(&String::from_utf8_lossy(&bare));
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
    let io = crate::support::workload("io");
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
