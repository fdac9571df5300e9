//! `weigh run --io --io-mechanism preload+ptrace` and `ptrace`: the tracer that follows the job counts by file, too, in
//! static programs or in all, and the recording has what `weigh io` tells. As the user who runs the tests, and as nobody.

use std::os::unix::process::ExitStatusExt as _;

use crate::support::io_report::{BYTES, moved, source, text};
use crate::support::measured::{Measured, is_exact_but_for_uncounted};
use crate::support::run::{Scratch, Weigh, weigh_as};
use crate::support::workload;
use serde_json::Value;
use weigh_schema::io::FileUse;
use weigh_schema::{Mechanism, Quality};

const NOBODY: u32 = 65534;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;
const BOTH: &str = "--io --io-mechanism preload+ptrace --interval 50ms";

fn everybody() -> [Option<u32>; 2] {
    [None, Some(NOBODY)]
}

fn run(user: Option<u32>, options: &str, script: &str) -> Weigh {
    let run = Weigh::bash(script).options(options);
    match user {
        Some(user) => run.run_by(user),
        None => run,
    }
}

/// What the recording has of a file: who has counted, and what was moved in that way.
fn rows(measured: &Measured, path: &str, kind: &str) -> Vec<(Vec<String>, [u64; 4])> {
    let uses = measured.files().into_iter().filter(FileUse::is_followed);
    let uses = uses.filter(|used| used.name == path);
    let told = uses.map(|used| serde_json::to_value(used).expect("words"));
    let mut rows: Vec<_> = told
        .map(|row: Value| {
            // It is said where several count.
            let by = row["sources"].as_array().into_iter().flatten();
            let by: Vec<String> = by.flat_map(Value::as_str).map(str::to_string).collect();
            (by, moved(&row, kind))
        })
        .filter(|(_, moved)| moved.iter().any(|number| *number > 0))
        .collect();
    rows.sort();
    rows
}

/// Equal to the byte, and to the call, with what the kernel has counted; so are the run's own metrics.
#[track_caller]
fn is_whole(measured: &Measured) {
    let found = measured.summary().io.as_deref().expect("it was told by file");
    assert_eq!(found.mechanism, Mechanism::PreloadPtrace);
    // The shell is dynamic: past the library it could send what nobody counts.
    assert!(matches!(&found.notes[..], [note] if note.contains("past the C library")), "{found:?}");
    assert_eq!(found.quality, Quality::Estimated);
    let witness = found.witness.expect("a witness");
    assert_eq!(witness.unseen(), Default::default(), "{witness:?}");
    let kernel = witness.kernel;
    assert!(kernel.read_bytes > 0, "{witness:?}");
    for (metric, expected) in [
        ("io_read_bytes_total", kernel.read_bytes),
        ("io_read_calls_total", kernel.read_calls),
        ("io_written_bytes_total", kernel.written_bytes),
        ("io_write_calls_total", kernel.write_calls),
    ] {
        let value = measured.value(metric);
        let is_exact = is_exact_but_for_uncounted(value);
        assert_eq!((value.source, is_exact), (Mechanism::Ptrace, true), "{metric}");
        measured.is(metric, expected);
    }
}

#[test]
fn a_recording_has_the_files_of_dynamic_and_static_programs() {
    let outside = Scratch::new();
    let from = source(&outside);
    let (dynamic, fixed) = (workload("io"), workload("io-static"));
    for user in everybody() {
        let script = format!(
            "{dynamic} read {BYTES} {CHUNK} {from}; {fixed} pread {BYTES} {CHUNK} {from}; \
             {dynamic} write {BYTES} {CHUNK} a; {fixed} writev {BYTES} {CHUNK} b; \
             {fixed} sendfile {BYTES} {CHUNK} {from} c; exit 7"
        );
        let measured = run(user, BOTH, &script).end();
        assert_eq!(measured.status.code(), Some(7), "{}", measured.everything());
        is_whole(&measured);
        let (reads, writes) = ([BYTES, CALLS, 0, 0], [0, 0, BYTES, CALLS]);
        let one = |by: &str, moved: [u64; 4]| vec![(vec![by.to_string()], moved)];
        let to = |name: &str| text(&measured.scratch.path(&format!("work/{name}")));
        assert_eq!(rows(&measured, &from, "plain"), one("preload", reads));
        assert_eq!(rows(&measured, &from, "positioned"), one("ptrace", reads));
        assert_eq!(rows(&measured, &from, "copied"), one("ptrace", reads));
        assert_eq!(rows(&measured, &to("a"), "plain"), one("preload", writes));
        assert_eq!(rows(&measured, &to("b"), "vectored"), one("ptrace", writes));
        assert_eq!(rows(&measured, &to("c"), "copied"), one("ptrace", writes));
        measured.is("processes_total", 6);
        let price = measured.summary().io.as_deref().and_then(|found| found.price);
        let stops = price.expect("a price").stops_total;
        let of_static = 3 * 2 * CALLS;
        assert!((of_static..of_static + 2 * CALLS).contains(&stops), "{stops}");
        let collectors = &measured.summary().collectors;
        let own = collectors.iter().find(|collector| collector.name == "io").expect("a collector");
        assert_eq!((own.mechanism, own.lost), (Mechanism::PreloadPtrace, 0), "{own:?}");
    }
}

/// A program that is static, executes one that is not, and so on: in children, and in its own place.
#[test]
fn who_counts_is_settled_at_each_exec() {
    let outside = Scratch::new();
    let from = source(&outside);
    let link = |kind: &str, how: &str| {
        format!("{} {from} {BYTES} {CHUNK} {how}", workload(&format!("chain{kind}")))
    };
    for user in everybody() {
        let line = [link("", "exec"), link("-static", "vfork"), link("", "end")].join(" ");
        let measured = run(user, BOTH, &format!("exec {line}")).end();
        assert!(measured.status.success(), "{}", measured.everything());
        is_whole(&measured);
        let found = rows(&measured, &from, "plain");
        let sum = |at: usize| found.iter().map(|(_, moved)| moved[at]).sum::<u64>();
        assert_eq!([sum(0), sum(1)], [3 * BYTES, 3 * CALLS], "{found:?}");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|(by, _)| *by == ["preload", "ptrace"]), "{found:?}");
    }
}

#[test]
fn the_end_is_the_programs_own_and_limits_hold() {
    for user in everybody() {
        let measured = run(user, BOTH, "kill -TERM $$").end();
        assert_eq!(measured.status.signal(), Some(15), "{}", measured.everything());
        for program in ["grow", "grow-static"] {
            let line = format!("exec {} step 1000000 1000 2000000000", workload(program));
            let limit = format!("{BOTH} --limit memory_peak_bytes=100MB --grace 1s");
            let measured = run(user, &limit, &line).end();
            assert_eq!(measured.status.code(), Some(124), "{}", measured.everything());
            measured.is_between("memory_peak_process_rss_bytes", 1e8, 4e8);
        }
        let fork = format!("exec {} 300 together", workload("procs"));
        let measured = run(user, &format!("{BOTH} --limit processes_peak=20 --grace 1s"), &fork);
        assert_eq!(measured.end().status.code(), Some(124));
    }
}

/// All of them, and whatever takes a tracer that sees all.
#[test]
fn a_tracer_alone_counts_in_all_programs() {
    let outside = Scratch::new();
    let from = source(&outside);
    let (dynamic, fixed) = (workload("io"), workload("io-static"));
    let script = format!(
        "{dynamic} read {BYTES} {CHUNK} {from}; {fixed} pread {BYTES} {CHUNK} {from} && exit 9"
    );
    for user in everybody() {
        for more in ["", " --seccomp", " --io-by thread", " --level 3"] {
            let options = format!("--io --io-mechanism ptrace{more}");
            let measured = run(user, &options, &script).end();
            assert_eq!(measured.status.code(), Some(9), "{}", measured.everything());
            let found = measured.summary().io.as_deref().expect("it was told by file");
            assert_eq!((found.mechanism, found.quality), (Mechanism::Ptrace, Quality::Exact));
            let calls = |kind: &str| {
                let rows = rows(&measured, &from, kind).into_iter();
                rows.map(|(_, moved)| moved).collect::<Vec<_>>()
            };
            assert_eq!(calls("plain"), [[BYTES, CALLS, 0, 0]], "{options}");
            assert_eq!(calls("positioned"), [[BYTES, CALLS, 0, 0]], "{options}");
        }
    }
}

#[test]
fn what_can_not_be_had_together_is_refused_and_the_way_out_is_named() {
    let refused = [
        ("preload+ptrace", "--mechanism bpf", "leave --mechanism bpf out"),
        ("preload+ptrace", "--mechanism preload", "leave --mechanism preload out"),
        ("ptrace", "--mechanism poll", "leave --mechanism poll out"),
        ("preload+ptrace", "--seccomp", "--io-mechanism ptrace takes it"),
        ("preload+ptrace", "--io-calls", "only --mechanism bpf and ptrace tell of each call"),
        ("preload+ptrace", "--io-by thread", "only --mechanism bpf and ptrace tell threads apart"),
        ("ptrace", "--level 1", "--mechanism ptrace has no level 1"),
    ];
    for (mechanism, more, why) in refused {
        let options = format!("--io --io-mechanism {mechanism} {more}");
        let measured = run(Some(NOBODY), &options, "touch done").end();
        assert_eq!(measured.status.code(), Some(125), "{options}: {}", measured.everything());
        measured.said(why);
        assert!(!measured.scratch.path("work/done").exists(), "{options}: nothing was begun");
    }
}

/// Unasked it is the library alone, and what that leaves out is said, with what sees it.
#[test]
fn unasked_the_library_counts_alone() {
    let scratch = Scratch::new();
    let recording = text(&scratch.path("recording"));
    let (program, bytes) = (workload("io-static"), BYTES.to_string());
    let own = ["run", "--io", "--without", "bpf", "-o", &recording, "--"];
    let command = [&own[..], &[&program, "read", &bytes, "1021"]].concat();
    let output = weigh_as(Some(NOBODY), &scratch, &command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the library cannot be in"), "{said}");
    assert!(said.contains("--io-mechanism preload+ptrace sees such programs"), "{said}");
    let recording = weigh_keep::Recording::open(&scratch.path("recording")).expect("a recording");
    let found = recording.summary().io.as_deref().expect("it was told by file");
    assert_eq!((found.mechanism, found.quality), (Mechanism::Preload, Quality::Estimated));
    let note = found.notes.iter().find(|note| note.contains("io-static")).expect("a note");
    assert!(note.contains("weigh run --io --io-mechanism preload+ptrace"), "{note}");
}
