//! `weigh trace read`: recordings read back say what was said while they were made.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{counted, lines, succeeds};
use crate::support::workload;
use serde_json::Value;

const SENT: u64 = 1003;
const ODD: u64 = 23;
const EVENTS: [&str; 4] = [
    "-e",
    "net:net_dev_queue{len=skb->len, dev=skb->dev->name, comm, stack(4), bytes(skb->data, 9), skb}",
    "-e",
    "net:netif_rx{len=skb->len, skb}",
];

/// Makes a recording of as many datagrams; what weigh said.
#[track_caller]
fn record(scratch: &Scratch, options: &[&str], sent: u64) -> (String, String) {
    let file = scratch.path("events.parquet").display().to_string();
    let (program, numbers) = (workload("datagrams"), [sent, 1400, ODD.min(sent / 2)]);
    let numbers = numbers.map(|number| number.to_string());
    let command = [&program, &numbers[0], &numbers[1], &numbers[2]].map(String::as_str);
    let arguments = [&["trace", "-o", &file][..], options, &["--"], &command].concat();
    let said = succeeds(&weigh(scratch, &arguments));
    (file, said)
}

#[track_caller]
fn json(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_str(&scratch.text(name)).expect("JSON")
}

#[test]
fn what_several_events_say_together_is_the_same_to_the_last_digit() {
    needs_root!();
    for sent in [ODD, SENT] {
        let scratch = Scratch::new();
        let asks = [
            "--latency",
            "net_dev_queue -> netif_rx by skb within 10s",
            "--top",
            "3 by event, comm",
            "--rate",
            "by cpu",
            "--histogram",
            "len of net_dev_queue by dev",
        ];
        let (live, again) = (scratch.path("live.json"), scratch.path("again.json"));
        let (live, again) = (live.display().to_string(), again.display().to_string());
        // A ring for each CPU: the order of time has to be made, again too.
        let asks = &asks[..];
        // The name of the thread is asked of both.
        let more = ["-e", EVENTS[1], "-e", "net:netif_rx{len=skb->len, comm}", "--per-cpu"];
        let options = [&more[..], &["--json", &live], asks].concat();
        let (file, said) = record(&scratch, &options, sent);
        assert_eq!(counted(&said), (2 * sent, 0), "{said}");
        let arguments = [&["trace", "read", &file, "--json", &again][..], asks].concat();
        let output = weigh(&scratch, &arguments);
        succeeds(&output);
        let (live, again) = (json(&scratch, "live.json"), json(&scratch, "again.json"));
        assert_eq!(live["found"][0]["pairs_total"], sent, "{live}");
        assert_eq!(live["late_total"], 0, "{live}");
        assert_eq!(live, again);
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains(" pairs, of"), "{told}");
    }
}

#[test]
fn rows_are_those_that_another_stream_saw() {
    needs_root!();
    let scratch = Scratch::new();
    let (file, other) = (scratch.path("events.parquet"), scratch.path("other.jsonl"));
    let (file, other) = (file.display().to_string(), other.display().to_string());
    // One stream follows the other, and what that one follows.
    let binary = crate::support::weigh_binary().display().to_string();
    let only = ["-f", "comm == \"datagrams\""];
    let (program, numbers) = (workload("datagrams"), [SENT, 1400, ODD].map(|n| n.to_string()));
    let command = [&program, &numbers[0], &numbers[1], &numbers[2]].map(String::as_str);
    let inner = [&[&binary, "trace", "-o", &other][..], &EVENTS, &only, &["--"], &command].concat();
    let outer = [&["trace", "-o", &file][..], &EVENTS, &only, &["--"], &inner].concat();
    succeeds(&weigh(&scratch, &outer));
    let again = scratch.path("again.jsonl").display().to_string();
    let said = succeeds(&weigh(&scratch, &["trace", "read", &file, "-o", &again]));
    assert_eq!(counted(&said), (2 * SENT, 0), "{said}");
    let (live, read) = (lines(&scratch, "other.jsonl"), lines(&scratch, "again.jsonl"));
    assert_eq!((live.len(), read.len()), (2 * SENT as usize, 2 * SENT as usize));
    let mut last = 0;
    for (one, two) in live.iter().zip(&read) {
        for part in ["event", "cpu", "tgid", "tid", "id"] {
            assert_eq!(one[part], two[part], "{one} {two}");
        }
        for (name, value) in one["fields"].as_object().expect("an object") {
            let stack = |value: &Value| value.as_array().map(|frames| frames[2..].to_vec());
            // Who asks for a stack is on it.
            match name.starts_with("stack") {
                true => assert_eq!(stack(value), stack(&two["fields"][name])),
                false => assert_eq!(*value, two["fields"][name], "{name}"),
            }
        }
        let time = two["time_ns"].as_u64().expect("a time");
        // Two programs that read the clock one after the other.
        assert!(time.abs_diff(one["time_ns"].as_u64().expect("a time")) < 1_000_000_000);
        assert!(time >= last, "one CPU at a time");
        last = time;
    }
    let odd = read.iter().filter(|event| event["fields"]["len"] == 1443).count() as u64;
    assert_eq!(odd, ODD);
}

#[test]
fn recordings_are_filtered_shown_and_written_in_other_forms() {
    needs_root!();
    let scratch = Scratch::new();
    let (file, _) = record(&scratch, &EVENTS, SENT);
    let read = |options: &[&str]| {
        let output = weigh(&scratch, &[&["trace", "read", &file][..], options].concat());
        (String::from_utf8_lossy(&output.stdout).into_owned(), succeeds(&output))
    };
    let (shown, said) = read(&["-f", "len == 1443 && event == \"net:net_dev_queue\""]);
    assert!(said.contains(&format!("{ODD} of {} events", 2 * SENT)), "{said}");
    assert_eq!(shown.lines().count() as u64, ODD + 1, "{shown}");
    assert!(shown.lines().skip(1).all(|line| line.contains("len=1443 dev=\"lo\"")), "{shown}");
    // A recording of a recording is the same.
    let (again, all) = (scratch.path("again.parquet"), scratch.path("all.jsonl"));
    let (again, all) = (again.display().to_string(), all.display().to_string());
    let all_again = scratch.path("all-again.jsonl").display().to_string();
    read(&["-o", &again]);
    read(&["-o", &all]);
    succeeds(&weigh(&scratch, &["trace", "read", &again, "-o", &all_again]));
    assert_eq!(scratch.text("all.jsonl"), scratch.text("all-again.jsonl"));
    let trace = scratch.path("again.perfetto-trace").display().to_string();
    read(&["-o", &trace]);
    let bytes = std::fs::read(&trace).expect("a file");
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    // Its thread has ended, but the recording has its name.
    assert!(holds(b"datagrams") && holds(b"__dev_queue_xmit"));
    let pairs = "net_dev_queue followed by netif_rx by skb within 10s";
    let (shown, _) = read(&["--sequence", pairs]);
    assert_eq!(shown.matches("after_ns=").count() as u64, SENT);
    let shown = weigh(&scratch, &["show", &file]);
    let plain = read(&[]).0;
    assert_eq!(String::from_utf8_lossy(&shown.stdout), plain);
}

/// Texts of JSON that are found below a key of each.
fn at<'v>(all: &'v [Value], key: &str) -> Vec<&'v Value> {
    all.iter().map(|one| &one[key]).collect()
}

#[test]
fn browsers_are_given_each_event_and_pair_at_its_time() {
    needs_root!();
    let scratch = Scratch::new();
    let (file, _) = record(&scratch, &EVENTS, SENT);
    let path = |name: &str| scratch.path(name).display().to_string();
    let (lines_file, chrome, firefox) =
        (path("a.jsonl"), path("a.chrome.json"), path("a.firefox.json"));
    let pairs = ["--latency", "net_dev_queue -> netif_rx by skb"];
    for to in [&lines_file, &chrome, &firefox] {
        succeeds(&weigh(&scratch, &[&["trace", "read", &file, "-o", to][..], &pairs].concat()));
    }
    let records = lines(&scratch, "a.jsonl");
    let chrome = json(&scratch, "a.chrome.json");
    let began: u64 =
        chrome["otherData"]["began_unix_ns"].as_str().expect("a text").parse().expect("ns");
    let since = |record: &Value| record["time_ns"].as_u64().expect("a time") - began;
    let events = chrome["traceEvents"].as_array().expect("a list");
    let of = |kind: &str| -> Vec<Value> {
        events.iter().filter(|event| event["ph"] == kind).cloned().collect()
    };
    let instants = of("i");
    assert_eq!(instants.len(), records.len());
    for (instant, record) in instants.iter().zip(&records) {
        assert_eq!(instant["ts"].to_string(), micros(since(record)));
        for (one, other) in [("name", "event"), ("pid", "tgid"), ("tid", "tid")] {
            assert_eq!(instant[one], record[other]);
        }
        assert_eq!(instant["args"]["len"], record["fields"]["len"]);
        assert_eq!(instant["args"]["stack(4)"], record["fields"]["stack(4)"]);
    }
    let named = of("M");
    assert!(named.iter().any(|name| name["args"]["name"] == "datagrams"), "{named:?}");
    // One thread does both, one after the other.
    let slices = of("X");
    assert_eq!((slices.len() as u64, of("b").len()), (SENT, 0));
    let times = |event: &str| -> Vec<u64> {
        records.iter().filter(|record| record["event"] == event).map(since).collect()
    };
    let (begins, ends) = (times("net:net_dev_queue"), times("net:netif_rx"));
    for (slice, (begin, end)) in slices.iter().zip(begins.iter().zip(ends)) {
        assert_eq!(slice["name"], "net:net_dev_queue -> net:netif_rx");
        let found = ["ts", "dur"].map(|name| slice[name].to_string());
        assert_eq!(found, [micros(*begin), micros(end - begin)]);
    }

    let firefox = json(&scratch, "a.firefox.json");
    let threads = firefox["threads"].as_array().expect("a list");
    let thread = threads.iter().find(|thread| thread["name"] == "datagrams").expect("its thread");
    let markers = &thread["markers"];
    assert_eq!(markers["length"], 3 * SENT);
    let starts = markers["startTime"].as_array().expect("a list");
    let of_phase = |phase: u64| {
        let phases = markers["phase"].as_array().expect("a list").iter().zip(starts);
        phases
            .filter(move |(one, _)| **one == phase)
            .map(|(_, start)| start.clone())
            .collect::<Vec<_>>()
    };
    let (instants, intervals) = (of_phase(0), of_phase(1));
    assert_eq!((instants.len(), intervals.len() as u64), (records.len(), SENT));
    for (start, record) in instants.iter().zip(&records) {
        assert_eq!(start.as_f64(), Some(since(record) as f64 / 1e6));
    }
    let samples = thread["samples"]["length"].as_u64().expect("a number");
    let weights = thread["samples"]["weight"].as_array().expect("a list").iter();
    let weight: u64 = weights.map(|weight| weight.as_u64().expect("a number")).sum();
    assert!(samples > 0 && weight == SENT, "each stack counts once: {weight}");
}

/// Nanoseconds as microseconds, in JSON.
fn micros(ns: u64) -> String {
    serde_json::to_string(&(ns as f64 / 1e3)).expect("JSON")
}

/// The data that a page carries.
#[track_caller]
fn page_data(page: &str) -> Value {
    let mark = "id=\"weigh-data\">";
    let begin = page.find(mark).expect("it carries data") + mark.len();
    let end = begin + page[begin..].find("</script>").expect("an end");
    serde_json::from_str(&page[begin..end]).expect("JSON")
}

#[test]
fn a_page_has_each_event_and_pair() {
    needs_root!();
    let scratch = Scratch::new();
    let (file, _) = record(&scratch, &EVENTS, SENT);
    let page = scratch.path("page.html").display().to_string();
    let pairs = ["--latency", "net_dev_queue -> netif_rx by skb"];
    succeeds(&weigh(
        &scratch,
        &[&["trace", "read", &file, "-o", &page, "-q"][..], &pairs].concat(),
    ));
    let data = page_data(&scratch.text("page.html"));
    let of_events = data["events"].as_array().expect("a list");
    assert_eq!(at(of_events, "total"), [SENT, SENT]);
    assert_eq!(data["marks"]["at"].as_array().map(Vec::len), Some(2 * SENT as usize));
    assert_eq!(data["spans"]["from"].as_array().map(Vec::len), Some(SENT as usize));
    assert_eq!(data["pairs"][0]["total"], SENT);
    let label = data["lanes"][0]["label"].as_str().expect("a text");
    assert!(label.starts_with("datagrams "), "{label}");
    let output = weigh(&scratch, &["report", &file]);
    succeeds(&output);
    let place = file.replace(".parquet", ".html");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), place);
    let data = page_data(&std::fs::read_to_string(&place).expect("a page"));
    assert_eq!(data["pairs"].as_array().map(Vec::len), Some(0), "none is usual here");
    let refused = weigh(&scratch, &["report", &file, "-o", "page.txt"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("ends in .html"));
}

/// The recording with another text in the place of one as long.
fn with(bytes: &[u8], text: &str, other: &str) -> Vec<u8> {
    assert_eq!(text.len(), other.len());
    let mut bytes = bytes.to_vec();
    let places = bytes.windows(text.len()).enumerate();
    let places = places.filter(|(_, part)| *part == text.as_bytes()).map(|(place, _)| place);
    for place in places.collect::<Vec<_>>() {
        bytes[place..place + text.len()].copy_from_slice(other.as_bytes());
    }
    bytes
}

#[test]
fn what_can_not_be_read_back_is_refused_with_why() {
    needs_root!();
    let scratch = Scratch::new();
    let (file, _) = record(&scratch, &EVENTS, ODD);
    let refused = |file: &str, options: &[&str], words: &[&str]| {
        let output = weigh(&scratch, &[&["trace", "read", file][..], options].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{options:?} {words:?}: {said}");
    };
    refused(&file, &["-f", "lenn == 3"], &["'lenn'", "near it: len", "^"]);
    refused(&file, &["--top", "3 by commm"], &["commm", "near it: comm"]);
    refused(&file, &["--latency", "net_dev_queue -> netif_rxx by id"], &["netif_rxx", "netif_rx"]);
    refused(&file, &["-o", &file], &["the recording itself"]);
    refused(&file, &["-o", "x.pcapng"], &["weigh trace packets"]);
    refused(&file, &["--live", "--rate", "by cpu"], &["--live"]);
    refused("there-is-none.parquet", &[], &["there-is-none.parquet", "No such file"]);
    let whole = std::fs::read(&file).expect("it is there");
    let other = scratch.path("other.parquet");
    let name = other.display().to_string();
    let changes: [(Vec<u8>, &[&str]); 5] = [
        (b"{\"time_ns\":1}\n".to_vec(), &["no recording", "only .parquet"]),
        (whole[..whole.len() - 100].to_vec(), &["has no end", "damaged"]),
        (with(&whole, "weigh.trace/1", "weigh.trace/2"), &["weigh.trace/2", "weigh.trace/1"]),
        (with(&whole, "\"bytes\":16", "\"bytes\":99"), &[]),
        (with(&whole, "\"kind\":\"pointer\"", "\"kind\":\"painter\""), &["damaged", "painter"]),
    ];
    for (bytes, words) in changes {
        std::fs::write(&other, bytes).expect("written");
        match words {
            // A text may have any length.
            [] => drop(succeeds(&weigh(&scratch, &["trace", "read", &name]))),
            _ => refused(&name, &[], words),
        }
    }
}

#[test]
fn what_a_killed_weigh_leaves_is_refused_as_that() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.parquet");
    let program = workload("datagrams");
    let weigh_child = Command::new(crate::support::weigh_binary())
        .args(["trace", "-e", "net:net_dev_queue", "-o"])
        .arg(&file)
        .args(["--", &program, "400000", "100", "5"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut weigh_child = Mortal::of(weigh_child);
    let left = PathBuf::from(format!("{}.{}-0.tmp", file.display(), weigh_child.id()));
    let late = Instant::now() + crate::support::patience(30.0);
    // Some rows are in it.
    while std::fs::metadata(&left).map_or(0, |facts| facts.len()) < 1000 {
        assert!(Instant::now() < late && weigh_child.try_wait().expect("asked").is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    weigh_child.kill().expect("killed");
    weigh_child.wait().expect("it is gone");
    assert!(!file.exists());
    let left = left.display().to_string();
    let output = weigh(&scratch, &["trace", "read", &left]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("weigh was killed before"), "{said}");
}
