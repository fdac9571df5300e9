//! A program that makes its calls in every way there is, and the mechanism of old that told them apart.

use crate::support::io_report::{moved, number, rows, text};
use crate::support::run::{Scratch, Weigh, weigh_as};
use crate::support::workload;
use serde_json::Value;
use weigh_schema::Mechanism;

const CHUNK: u64 = 1021;

/// Follows a script; the report, and standard error.
#[track_caller]
fn io(scratch: &Scratch, options: &[&str], script: &str) -> (Value, String) {
    let json = text(&scratch.path("io.json"));
    let options = [&["io", "--json", &json], options, &["--", "sh", "-c", script]].concat();
    let output = weigh_as(None, scratch, &options);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let report = serde_json::from_str(&scratch.text("io.json"));
    let report: Value = report.unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(report["mechanism"], "bpf", "{report}");
    for key in ["quality", "rest"] {
        assert!(report.get(key).is_none(), "{key}: {}", report[key]);
    }
    (report, said)
}

fn file(scratch: &Scratch) -> String {
    let path = scratch.path("work/read");
    std::fs::write(&path, vec![7; CHUNK as usize + 3]).expect("a file");
    text(&path)
}

fn told(truth: &str, key: &str) -> u64 {
    let numbers = truth.lines().filter_map(|line| line.strip_prefix(&format!("{key}=")));
    numbers.map(|number| number.parse::<u64>().expect("a number")).sum()
}

/// The same program, once dynamic and once static, that reads in turn by the C library, by number, and by an
/// instruction of its own, in threads, children of both kinds, and a signal's handler. It notes what it did.
fn mixed(scratch: &Scratch, path: &str) -> String {
    let script = ["mixed", "mixed-static"].map(|program| {
        let truth = text(&scratch.path(&format!("{program}.truth")));
        format!("TRUTH_FILE={truth} {} {path} {CHUNK}", workload(program))
    });
    script.join("; ")
}

#[test]
fn each_call_is_counted_once_however_it_is_made() {
    needs_root!();
    let scratch = Scratch::new();
    let path = file(&scratch);
    let (report, _) = io(&scratch, &["-q", "--mechanism", "bpf"], &mixed(&scratch, &path));
    for program in ["mixed", "mixed-static"] {
        let truth = scratch.text(&format!("{program}.truth"));
        let own = rows(&report, &path).into_iter().filter(|row| row["process"] == program);
        let own: Vec<&Value> = own.collect();
        let sum = |key: usize| own.iter().map(|row| moved(row, "positioned")[key]).sum::<u64>();
        assert!(told(&truth, "calls") > 1000, "{truth}");
        assert_eq!([sum(0), sum(1)], [told(&truth, "bytes"), told(&truth, "calls")], "{own:?}");
        for (key, of) in [("opens_total", "opens"), ("closes_total", "closes")] {
            let all: u64 = own.iter().map(|row| number(row, key)).sum();
            assert_eq!(all, told(&truth, of), "{program} {key}: {own:?}");
        }
    }
    // One read of a pipe waited while the handler read.
    let pipes = report["files"].as_array().expect("files").iter();
    let pipes: Vec<[u64; 4]> =
        pipes.filter(|row| row["object"] == "pipe").map(|row| moved(row, "plain")).collect();
    assert_eq!(pipes, [[7, 1, 7, 1]; 2], "{report}");
}

const INSTEAD: &str = "preload+bpf: measured by bpf alone";

/// What both together refused works, too.
#[test]
fn the_library_beside_the_kernel_side_is_the_kernel_side_alone() {
    needs_root!();
    let scratch = Scratch::new();
    let path = file(&scratch);
    let both = ["--mechanism", "preload+bpf"];
    for more in [&[][..], &["--by", "thread"]] {
        let options = [&both[..], more].concat();
        let (report, said) = io(&scratch, &options, &format!("cat {path}"));
        assert_eq!(said.matches(INSTEAD).count(), 1, "{said}");
        assert_eq!(number(rows(&report, &path)[0], "opens_total"), 1, "{report}");
    }
    let (_, said) = io(&scratch, &[&["-q"], &both[..]].concat(), "true");
    assert_eq!(said, "");
    let measured = Weigh::bash(&format!("cat {path}"))
        .option("--io")
        .option("--io-mechanism=preload+bpf")
        .measure();
    let found = measured.summary().io.as_deref().expect("a section of its own");
    assert_eq!(found.mechanism, Mechanism::Bpf);
}

/// A recording of before.
#[test]
fn a_value_of_both_is_read_as_the_kernel_side_s() {
    let old: Mechanism = serde_json::from_str("\"preload+bpf\"").expect("a mechanism");
    assert_eq!(old, Mechanism::Bpf);
}
