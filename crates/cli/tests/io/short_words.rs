//! Programs of 32 bits, and those that call as such do (`int $0x80`), under a tracer and by the
//! kernel side: counted to the byte, by the same rules as others, and equal with what the kernel itself has counted.
#![cfg(target_arch = "x86_64")]

use std::process::Command;

use crate::support::io_report::{BYTES, is_whole, moved, number, row, rows, source, text};
use crate::support::run::{Scratch, is_stored, weigh_as};
use crate::support::{is_root, is_slow, workload};
use serde_json::Value;

const NOBODY: u32 = 65534;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;
const WORKLOADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/workloads");

/// By a tracer: with a filter in the job, without one, and beside a library that cannot be in such programs.
const WAYS: [&[&str]; 3] = [
    &["--mechanism", "ptrace"],
    &["--mechanism", "ptrace", "--seccomp"],
    &["--mechanism", "preload+ptrace"],
];

/// By the kernel side, which takes root.
const KERNEL: &[&str] = &["--mechanism", "bpf"];

/// All that can be had here, and who is to be measured by each; on a slow machine the kernel side, if it can be had.
fn ways() -> impl Iterator<Item = (&'static [&'static str], Option<u32>)> {
    let kernel = is_root().then_some((KERNEL, None));
    let others = if is_slow() && is_root() { &[][..] } else { &WAYS[..] };
    others.iter().map(|way| (*way, Some(NOBODY))).chain(kernel)
}

#[track_caller]
fn io(user: Option<u32>, scratch: &Scratch, way: &[&str], command: &[&str]) -> Value {
    let json = text(&scratch.path("io.json"));
    let arguments = [&["io", "-q", "--json", &json], way, &["--"], command].concat();
    let output = weigh_as(user, scratch, &arguments);
    assert!(output.status.success(), "{way:?} {command:?}: {output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    if way[1] == "preload+ptrace" {
        is_whole(&report);
    }
    for key in ["notes", "quality", "rest"] {
        assert!(report.get(key).is_none(), "{way:?} {command:?}: {}", report[key]);
    }
    report
}

/// Builds a program; none where there is no compiler, or no C library, for that.
fn built(scratch: &Scratch, name: &str, flags: &[&str], sources: &[String]) -> Option<String> {
    let path = text(&scratch.path(&format!("work/{name}")));
    let done = Command::new("cc").args(flags).args(["-o", &path]).args(sources).output();
    let runs = || Command::new(&path).current_dir(scratch.path("work")).output().is_ok();
    let is_there = done.is_ok_and(|done| done.status.success()) && runs();
    if !is_there {
        crate::support::leave_out(&format!("no {name} here: {flags:?}"));
    }
    is_there.then_some(path)
}

/// The workload that calls the kernel by the numbers of 32-bit programs, as one of 32 bits.
fn built_by_number(scratch: &Scratch) -> Option<String> {
    // As tests/workloads/Makefile has them.
    let flags = ["-m32", "-nostdlib", "-static", "-fno-stack-protector", "-fno-pic", "-no-pie"];
    built(scratch, "by-number-32", &flags, &[format!("{WORKLOADS}/alone/by-number.c")])
}

#[test]
fn calls_by_their_own_numbers_are_counted_to_the_byte() {
    const HIGH: u64 = 1 << 32;
    let scratch = Scratch::new();
    let (from, far) = (source(&scratch), text(&scratch.path("work/far")));
    let programs = [Some(workload("by-number")), built_by_number(&scratch)];
    for program in programs.into_iter().flatten() {
        for (way, user) in ways() {
            let _ = std::fs::remove_file(&far);
            let report = io(user, &scratch, way, &[&program]);
            let read = row(&report, &from);
            assert_eq!(moved(read, "plain"), [BYTES, CALLS, 0, 0], "{program} {way:?}");
            assert_eq!(moved(read, "copied"), [4099, 1, 0, 0], "{program} {way:?}");
            assert_eq!([number(read, "opens_total"), number(read, "maps_total")], [1, 1]);
            assert_eq!(number(read, "placed_total"), CALLS + 1);
            assert_eq!(number(read, "reread_bytes"), 4099, "from 100 on, again");
            let written = row(&report, &far);
            assert_eq!(moved(written, "positioned"), [0, 0, 1021, 1], "{program} {way:?}");
            assert_eq!(moved(written, "vectored"), [0, 0, 403, 1], "{program} {way:?}");
            assert_eq!(moved(written, "copied"), [0, 0, 4099, 1], "{program} {way:?}");
            let of = |key: &str| number(written, key);
            assert_eq!([of("highest_bytes"), of("lowest_bytes")], [HIGH + 2403, 5], "{program}");
            let once = ["seeks_total", "opens_total", "closes_total", "truncates_total"];
            assert_eq!(once.map(of), [1; 4], "{program} {way:?}");
            let files = report["files"].as_array().expect("files").iter();
            let messages: Vec<[u64; 4]> = files.map(|row| moved(row, "message")).collect();
            let sum = |at: usize| messages.iter().map(|moved| moved[at]).sum::<u64>();
            assert_eq!([sum(0), sum(1), sum(2), sum(3)], [911, 1, 911, 1], "{program} {way:?}");
        }
    }
}

/// What a call brings into the page cache is its own, and no mapped memory's.
#[test]
fn a_cold_file_is_read_by_calls() {
    // What is in memory alone is never cold.
    if !is_root() || !is_stored() {
        return;
    }
    let scratch = Scratch::new();
    let from = source(&scratch);
    let file = std::fs::File::open(&from).expect("a file");
    file.sync_all().expect("it is on its device");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it leaves");
    let report = io(None, &scratch, KERNEL, &[&workload("by-number")]);
    let read = row(&report, &from);
    assert_eq!(moved(read, "mapped"), [0; 4], "{report}");
    assert_eq!(number(read, "filled_bytes"), BYTES.next_multiple_of(4096), "{report}");
    let process = &report["processes"][0];
    assert_eq!(process["read_bytes"], BYTES + 4099 + 911, "{process}");
    assert!(process.get("moved_quality").is_none(), "{process}");
}

/// What of a report is the same whatever numbers a program calls by.
fn comparable(report: &Value, paths: &[&str]) -> Vec<Value> {
    const KEYS: [&str; 10] = [
        "opens_total",
        "closes_total",
        "placed_total",
        "lowest_bytes",
        "highest_bytes",
        "consecutive_reads_total",
        "consecutive_writes_total",
        "truncates_total",
        "seeks_total",
        "failed_total",
    ];
    let of_row = |row: &Value| {
        let numbers = KEYS.map(|key| number(row, key));
        let kinds =
            ["plain", "positioned", "vectored", "copied", "aio"].map(|kind| moved(row, kind));
        serde_json::json!([row["name"], numbers, kinds])
    };
    let named = paths.iter().flat_map(|path| rows(report, path)).map(of_row);
    let files = report["files"].as_array().expect("files").iter();
    let others = ["pipe", "socket"].map(|object| {
        let own = files.clone().filter(|row| row["object"] == object);
        let all = own.flat_map(|row| ["plain", "copied", "message"].map(|kind| moved(row, kind)));
        let sum = |sum: [u64; 4], more: [u64; 4]| std::array::from_fn(|at| sum[at] + more[at]);
        serde_json::json!(all.fold([0u64; 4], sum))
    });
    named.chain(others).collect()
}

/// The workload of all kinds of calls, with a C library of 32 bits.
fn built_io(scratch: &Scratch, name: &str, more: &[&str]) -> Option<String> {
    let sources = ["io.c", "common.c"].map(|name| format!("{WORKLOADS}/{name}"));
    // The headers of the kernel are there for programs of 64 bits alone, and are the same.
    let kernels = ["-idirafter", "/usr/include/x86_64-linux-gnu"];
    let flags = ["-m32", "-O1", "-std=gnu17", "-D_GNU_SOURCE", "-pthread"];
    built(scratch, name, &[&flags[..], &kernels, more].concat(), &sources)
}

/// With a C library of 32 bits, by every kind of call: the same as a program of 64 bits does.
#[test]
fn a_program_of_32_bits_is_counted_as_one_of_64_is() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let to = text(&scratch.path("work/to"));
    let programs = [
        built_io(&scratch, "io-32", &[]),
        built_io(&scratch, "io-32-static", &["-static"]),
        built_io(&scratch, "io-32-long", &["-static", "-D_FILE_OFFSET_BITS=64"]),
    ];
    let own = workload("io-static");
    let kinds: [(&str, bool, bool); 17] = [
        ("read", true, false),
        ("pread", true, false),
        ("readv", true, false),
        ("preadv", true, false),
        ("preadv2", true, false),
        ("write", false, true),
        ("pwrite", false, true),
        ("writev", false, true),
        ("pwritev", false, true),
        ("pwritev2", false, true),
        ("sendfile", true, true),
        ("splice", true, true),
        ("copy_file_range", true, true),
        ("send", false, false),
        ("sendto", false, false),
        ("sendmsg", false, false),
        ("sendmmsg", false, false),
    ];
    for (place, (kind, is_read, is_write)) in kinds.into_iter().enumerate() {
        let (bytes, chunk) = (BYTES.to_string(), CHUNK.to_string());
        let mut words = vec![kind, &bytes, &chunk];
        words.extend(is_read.then_some(from.as_str()));
        words.extend(is_write.then_some(to.as_str()));
        let of = |user: Option<u32>, program: &str, way: &[&str]| {
            let _ = std::fs::remove_file(&to);
            let report = io(user, &scratch, way, &[&[program], &words[..]].concat());
            comparable(&report, &[&from, &to])
        };
        let expected = of(Some(NOBODY), &own, WAYS[0]);
        // Each program in each way, by some of the kinds; one as root.
        for (which, program) in programs.iter().enumerate() {
            let Some(program) = program else { continue };
            let way = WAYS[(place + which) % WAYS.len()];
            let user = (which > 0 || !is_root()).then_some(NOBODY);
            assert_eq!(of(user, program, way), expected, "{kind} {program} {way:?} {user:?}");
        }
        // And by the kernel side, which is slower to begin.
        let program = programs[place % programs.len()].as_ref().filter(|_| is_root());
        if let Some(program) = program {
            assert_eq!(of(None, program, KERNEL), expected, "{kind} {program}");
        }
    }
}

/// Requests, and the vectors that they lie in, are as short.
#[test]
fn aio_of_a_program_of_32_bits_is_counted_by_the_kernel_side() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let from = source(&scratch);
    let to = text(&scratch.path("work/to"));
    let Some(program) = built_io(&scratch, "io-32-static", &["-static"]) else { return };
    for (kind, path) in [("aio-read", &from), ("aio-write", &to)] {
        let of = |program: &str| {
            let _ = std::fs::remove_file(&to);
            let words = [program, kind, &BYTES.to_string(), &CHUNK.to_string(), path];
            comparable(&io(None, &scratch, KERNEL, &words), &[&from, &to])
        };
        let (expected, found) = (of(&workload("io-static")), of(&program));
        assert!(expected.iter().any(|row| row.to_string().contains(&BYTES.to_string())), "{kind}");
        assert_eq!(found, expected, "{kind}");
    }
}
