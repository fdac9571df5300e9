//! `weigh calls --config`: parts of the kernel that a configuration bounds by functions, against what
//! programs know themselves. Where functions cannot be probed: what is said of that.

use std::process::Output;

use crate::support::run::{Scratch, weigh};
use crate::support::{
    NO_FUNCTION_PROBES, functions_can_be_probed, leave_out, leave_to_guest, workload,
};
use serde_json::Value;

macro_rules! needs_function_probes {
    () => {
        needs_root!();
        if !functions_can_be_probed() {
            return leave_to_guest(NO_FUNCTION_PROBES);
        }
    };
}

/// Follows a command by a configuration; what it said, and the report.
#[track_caller]
fn calls(scratch: &Scratch, configuration: &str, command: &[&str]) -> (Output, Value) {
    let file = scratch.path("parts.toml").display().to_string();
    std::fs::write(&file, configuration).expect("a file");
    let json = scratch.path("calls.json").display().to_string();
    let options = ["calls", "--all", "--config", &file, "--json", &json, "--"];
    let output = weigh(scratch, &[&options[..], command].concat());
    let report = serde_json::from_str(&scratch.text("calls.json"));
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    (output.clone(), report.unwrap_or_else(|error| panic!("{error}: {}", said())))
}

/// A number of a part, or of `later`, of all calls of a kind together.
fn sum(report: &Value, call: &str, path: &[&str]) -> f64 {
    let rows = report["calls"].as_array().expect("rows").iter().filter(|row| row["call"] == call);
    let number = |row: &Value| path.iter().fold(row, |value, key| &value[key]).as_f64();
    rows.filter_map(number).sum()
}

#[track_caller]
fn truth(text: &str, key: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {key} in {text}")).parse().expect("a number")
}

/// Each part has no more than the whole, and all of them have the whole.
#[track_caller]
fn parts_add_up(report: &Value) {
    for row in report["calls"].as_array().expect("rows") {
        let time = row["time_seconds"].as_f64().expect("seconds");
        let parts = row["parts"].as_object().expect("parts");
        let mut all = 0.0;
        for (name, part) in parts {
            for key in ["time_seconds", "waiting_seconds", "run_queue_seconds"] {
                let seconds = part[key].as_f64().unwrap_or_default();
                assert!(seconds >= 0.0 && seconds <= time + 1e-9, "{name} {key}: {row}");
                all += seconds;
            }
        }
        assert!((all - time).abs() < 1e-6 + time * 1e-6, "{all} of {time}: {row}");
    }
    assert_eq!(report["lost_total"], 0);
    assert_eq!(report["missed_returns_total"].as_u64().unwrap_or_default(), 0);
}

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/link-layer.toml");
const LINK_LAYER: &str = include_str!("../../../../examples/link-layer.toml");

/// What comes before the payload of a datagram at a device: Ethernet, IP, UDP.
const HEADERS: f64 = 14.0 + 20.0 + 8.0;

#[test]
fn the_link_layer_sees_each_datagram_and_its_bytes() {
    needs_function_probes!();
    let scratch = Scratch::new();
    let (output, report) = calls(&scratch, LINK_LAYER, &[&workload("net"), "1009000", "7", "udp"]);
    let said = scratch.text("truth");
    let datagrams = truth(&said, "datagrams");
    assert!(datagrams > 1000.0 && output.status.success(), "{output:?}");
    let of = |key: &str| sum(&report, "sendto", &["parts", "link_layer", key]);
    assert_eq!(of("entries_total"), datagrams);
    assert_eq!(of("bytes_total"), truth(&said, "net_sent_bytes") + HEADERS * datagrams);
    assert!(of("time_seconds") > 0.0);
    assert_eq!(sum(&report, "recvfrom", &["parts", "link_layer", "entries_total"]), 0.0);
    // What the example leaves out is not there.
    let names: Vec<&str> = report["subsystems"]
        .as_array()
        .expect("parts")
        .iter()
        .filter_map(|part| part["name"].as_str())
        .collect();
    assert!(!names.contains(&"memory") && names.contains(&"link_layer"), "{names:?}");
    assert_eq!(sum(&report, "sendto", &["parts", "memory", "allocations_total"]), 0.0);
    parts_add_up(&report);
}

#[test]
fn what_a_later_function_does_is_charged_to_who_caused_it() {
    needs_function_probes!();
    let scratch = Scratch::new();
    // Over loopback a packet is taken in by a softirq, which finds the very same packet.
    let configuration = "[subsystem.taken_in]\n\
         later = { start = \"__dev_queue_xmit\", end = \"ip_rcv\", match = \"skb\" }\n";
    let (_, report) = calls(&scratch, configuration, &[&workload("net"), "1009000", "7", "udp"]);
    let datagrams = truth(&scratch.text("truth"), "datagrams");
    assert_eq!(sum(&report, "sendto", &["later", "taken_in_total"]), datagrams, "{report}");
    assert!(sum(&report, "sendto", &["later", "taken_in_seconds"]) > 0.0);
    // All of it has come to its end.
    assert_eq!(sum(&report, "sendto", &["later", "pending_total"]), 0.0);
    parts_add_up(&report);
}

#[test]
fn reads_and_writes_by_what_the_function_returns() {
    needs_function_probes!();
    let scratch = Scratch::new();
    let file = scratch.path("work/file").display().to_string();
    let configuration = "only = [\"vfs_io\"]\n[subsystem.vfs_io.boundary]\n\
         vfs_read = { bytes = \"return\", asked_bytes = \"count\" }\n\
         vfs_write = { bytes = \"return\", asked_bytes = \"count\" }\n";
    let (output, report) = calls(&scratch, configuration, &[&workload("calls"), &file]);
    let said = scratch.text("truth");
    let of = |call: &str, key: &str| sum(&report, call, &["parts", "vfs_io", key]);
    // Beside those of the program there are the loader's and those of its output.
    assert_eq!(of("pwrite64", "entries_total"), truth(&said, "pwrite64"));
    assert_eq!(of("read", "bytes_total"), sum(&report, "read", &["bytes_total"]));
    assert!(of("read", "bytes_total") >= truth(&said, "read_bytes"));
    assert!(of("read", "asked_bytes_total") >= of("read", "bytes_total"));
    assert_eq!(of("write", "bytes_total"), sum(&report, "write", &["bytes_total"]));
    assert!(of("write", "bytes_total") >= truth(&said, "write_bytes"));
    // A descriptor that is none does not get as far as the function.
    let failed = sum(&report, "read", &["errors_total"]);
    let reads = sum(&report, "read", &["calls_total"]);
    assert_eq!(failed, truth(&said, "read_errors"));
    assert_eq!(of("read", "entries_total"), reads - failed);
    parts_add_up(&report);
    // Nothing but this and what is always there was looked into.
    let table = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(table.contains("vfs_io") && !table.contains("unavailable"), "{table}");
}

#[test]
fn functions_within_functions_and_within_themselves() {
    needs_function_probes!();
    let scratch = Scratch::new();
    let file = scratch.path("work/file").display().to_string();
    let nested = "[subsystem.outer]\nboundary = [\"ksys_read\", \"ksys_write\"]\n\
         [subsystem.inner]\nboundary = [\"vfs_read\", \"vfs_write\"]\n";
    let (_, report) = calls(&scratch, nested, &[&workload("calls"), &file]);
    let of = |part: &str, key: &str| sum(&report, "read", &["parts", part, key]);
    let reads = sum(&report, "read", &["calls_total"]);
    assert_eq!(of("outer", "entries_total"), reads);
    assert_eq!(of("inner", "entries_total"), reads - 3.0);
    assert!(of("outer", "time_seconds") > 0.0 && of("inner", "time_seconds") > 0.0);
    parts_add_up(&report);
    // In the same part the inner function changes nothing but the count.
    let same = "[subsystem.both]\n\
         boundary = [\"ksys_read\", \"vfs_read\", \"ksys_write\", \"vfs_write\"]\n";
    let (_, report) = calls(&scratch, same, &[&workload("calls"), &file]);
    let reads = sum(&report, "read", &["calls_total"]);
    let entries = sum(&report, "read", &["parts", "both", "entries_total"]);
    assert_eq!(entries, 2.0 * reads - 3.0);
    parts_add_up(&report);
}

/// Follows a command with the functions at borders; the report.
#[track_caller]
fn with_functions(scratch: &Scratch, options: &[&str], command: &[&str]) -> Value {
    let json = scratch.path("calls.json").display().to_string();
    let first = ["calls", "-q", "--functions", "--json", &json];
    let output = weigh(scratch, &[&first[..], options, &["--"], command].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(&scratch.text("calls.json")).expect("JSON")
}

/// What is said of a part's functions.
#[track_caller]
fn functions<'a>(report: &'a Value, part: &str) -> &'a Value {
    let parts = report["subsystems"].as_array().expect("parts");
    let found = parts.iter().find(|state| state["name"] == part);
    &found.unwrap_or_else(|| panic!("no {part}: {report}"))["functions"]
}

/// Whether there is an image to analyse: in the virtual machine there has to be.
fn has_image() -> bool {
    let is_so = std::env::var_os("WEIGH_TEST_KERNEL_IMAGE").is_some();
    if !is_so {
        leave_to_guest("the kernel's image is not promised here");
    }
    is_so
}

const ENABLED: &str = "/sys/kernel/tracing/enabled_functions";

/// Reads a file piece by piece, and writes as often to a socket.
const READS_AND_SENDS: &str = "dd if=/dev/zero of=$0 bs=64 count=1009 2>/dev/null; \
     dd if=$0 of=/dev/null bs=64 count=1009 2>/dev/null; \
     exec 3>/dev/udp/127.0.0.1/9; for i in {1..1009}; do printf x >&3; done 2>/dev/null; true";

#[test]
fn every_read_enters_the_vfs_and_every_send_the_socket_layer_once() {
    needs_function_probes!();
    if !has_image() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("work/file").display().to_string();
    let before = std::fs::read_to_string(ENABLED).expect("tracefs");
    let command = ["bash", "-c", READS_AND_SENDS, &file];
    let report = with_functions(&scratch, &["--by", "file"], &command);
    assert_eq!(std::fs::read_to_string(ENABLED).expect("tracefs"), before, "all are let go of");
    for part in ["vfs", "socket"] {
        let said = functions(&report, part);
        assert_eq!(said["chosen_by"], "analysis", "{said}");
        assert!(said["chosen"].as_u64() > Some(50) && said["probed"].as_u64() > Some(50), "{said}");
    }
    let said = &report["functions"];
    assert!(said["attach_seconds"].as_f64() > Some(0.0), "{said}");
    assert!(said["cost"]["followed_seconds"].as_f64() > Some(0.0), "{said}");
    assert!(said["cost"]["others_seconds"].as_f64() > Some(0.0), "{said}");
    // Of the file alone, by its path; the socket is what else is written to.
    let rows = report["calls"].as_array().expect("rows");
    let row = |call: &str, of: &str| {
        let is_it = |row: &&Value| {
            row["call"] == call && row["of"].as_str().is_some_and(|path| path.contains(of))
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("no {call} of {of}: {report}"))
    };
    let read = row("read", "work/file");
    assert_eq!(read["calls_total"], 1009);
    assert_eq!(read["parts"]["vfs"]["entries_total"], 1009);
    let sends: Vec<&Value> =
        rows.iter().filter(|row| row["parts"]["socket"]["entries_total"] == 1009).collect();
    assert_eq!(sends.len(), 1, "{report}");
    assert_eq!((&sends[0]["call"], &sends[0]["calls_total"]), (&"write".into(), &1009.into()));
    assert_eq!(sends[0]["parts"]["vfs"]["entries_total"], 1009);
    // What was a remainder is somebody's.
    for row in [read, sends[0]] {
        let time = |part: &str| row["parts"][part]["time_seconds"].as_f64().unwrap_or_default();
        assert!(time("kernel") < 0.01 * time("vfs"), "{row}");
    }
    parts_add_up(&report);
}

#[test]
fn without_an_image_a_short_list_has_to_do_and_says_so() {
    needs_function_probes!();
    let scratch = Scratch::new();
    let json = scratch.path("calls.json").display().to_string();
    let file = scratch.path("work/file").display().to_string();
    // Where no image is, and no analysis is kept.
    let hidden = "mkdir -p /var/cache && for place in /boot /lib/modules /usr/lib/debug /var/cache; do \
                  [ ! -d $place ] || mount -t tmpfs none $place || exit 99; done; exec \"$@\"";
    let follow = |command: &[&str]| -> Value {
        let weigh = crate::support::weigh_binary().display().to_string();
        let mut hiding = std::process::Command::new("unshare");
        hiding.args(["-m", "sh", "-c", hidden, "sh", &weigh, "calls", "-q", "--functions"]);
        hiding.args(["--json", &json, "--"]).args(command);
        let output = hiding.output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_str(&scratch.text("calls.json")).expect("JSON")
    };
    let report = follow(&[&workload("calls"), &file]);
    assert_eq!(functions(&report, "vfs")["chosen_by"], "list");
    let why = report["functions"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("there is no image of the running kernel"), "{report}");
    for call in ["read", "write", "pwrite64"] {
        // A descriptor that is none does not get that far.
        let calls = sum(&report, call, &["calls_total"]) - sum(&report, call, &["errors_total"]);
        assert_eq!(sum(&report, call, &["parts", "vfs", "entries_total"]), calls, "{call}");
        assert!(sum(&report, call, &["parts", "vfs", "time_seconds"]) > 0.0, "{call}");
    }
    parts_add_up(&report);
    let report = follow(&[&workload("net"), "1009000", "7", "udp"]);
    for call in ["sendto", "recvfrom"] {
        let calls = sum(&report, call, &["calls_total"]);
        assert_eq!(sum(&report, call, &["parts", "socket", "entries_total"]), calls, "{call}");
        let time = |part: &str| sum(&report, call, &["parts", part, "time_seconds"]);
        assert!(time("socket") > time("kernel"), "{call}: {} {}", time("socket"), time("kernel"));
    }
    parts_add_up(&report);
}

#[test]
fn a_configuration_s_part_stands_beside_those_of_the_analysis() {
    needs_function_probes!();
    if !has_image() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("parts.toml").display().to_string();
    std::fs::write(&file, LINK_LAYER).expect("a file");
    let options = ["--config", &file, "--reached-by", "sendto,recvfrom,read,write"];
    let net = workload("net");
    let report = with_functions(&scratch, &options, &[&net, "1009000", "7", "udp"]);
    let datagrams = truth(&scratch.text("truth"), "datagrams");
    for part in ["link_layer", "socket"] {
        assert_eq!(sum(&report, "sendto", &["parts", part, "entries_total"]), datagrams, "{part}");
        assert!(sum(&report, "sendto", &["parts", part, "time_seconds"]) > 0.0, "{part}");
    }
    assert!(functions(&report, "link_layer").is_null() && functions(&report, "vfs").is_object());
    parts_add_up(&report);
    let wrong = ["calls", "--functions", "--reached-by", "raed", "--", "touch", "has-run"];
    let output = weigh(&scratch, &wrong);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("this kernel has no system call \"raed\""), "{said}");
    assert!(!scratch.path("work/has-run").exists(), "the command ran");
}

#[test]
fn without_function_probes_it_is_said_once_and_the_rest_goes_on() {
    needs_root!();
    if functions_can_be_probed() {
        return leave_out("functions can be probed here");
    }
    let scratch = Scratch::new();
    let two = "[subsystem.one]\nboundary = [\"vfs_read\"]\n\
               [subsystem.two]\nboundary = [\"vfs_write\"]\n";
    let (output, report) = calls(&scratch, two, &["sh", "-c", "exit 3"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(said.matches("lets no function be probed").count(), 1, "{said}");
    assert!(said.contains("one, two unavailable"), "{said}");
    assert!(sum(&report, "exit_group", &["calls_total"]) == 1.0);
    // Nothing would be left to look into.
    let file = scratch.path("parts.toml").display().to_string();
    std::fs::write(&file, format!("only = [\"two\"]\n{two}")).expect("a file");
    let output = weigh(&scratch, &["calls", "--config", &file, "--", "touch", "has-run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("lets no function be probed"), "{said}");
    assert!(said.contains("nothing else is asked for"), "{said}");
    assert!(!scratch.path("work/has-run").exists(), "the command ran");
}

#[test]
fn a_wrong_configuration_names_line_key_and_what_there_is() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("parts.toml").display().to_string();
    for (text, place, expected) in [
        ("[subsystem.x]\nboundary = [\"vfs_raed\"]\n", ":2: subsystem.x.boundary: ", "vfs_read"),
        (
            "[subsystem.x.boundary]\n\nvfs_read = { n = \"cuont\" }\n",
            ":3: subsystem.x.boundary.vfs_read.n: ",
            "there is file, buf, count, pos, return",
        ),
        (
            "[subsystem.x.boundary]\n__dev_queue_xmit = { n = \"skb->dev->mtuu\" }\n",
            ":2: subsystem.x.boundary.__dev_queue_xmit.n: ",
            "there is mtu",
        ),
        ("remove = [\"timr\"]\n", ":1: remove: ", "there is no part 'timr'"),
        ("remove = [", ":1: ", "not TOML"),
    ] {
        std::fs::write(&file, text).expect("a file");
        let output = weigh(&scratch, &["calls", "--config", &file, "--", "true"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{text}: {said}");
        assert!(said.contains(&format!("{file}{place}")), "no {place} in {said}");
        assert!(said.contains(expected), "no {expected} in {said}");
    }
    let output = weigh(&scratch, &["calls", "--config", "/no/such.toml", "--", "true"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such.toml"), "{output:?}");
}

#[test]
fn a_part_of_the_configuration_can_be_chosen_by_name() {
    needs_root!();
    let scratch = Scratch::new();
    let json = scratch.path("calls.json").display().to_string();
    let options =
        ["calls", "-q", "--config", EXAMPLE, "-s", "block,link_layer", "--json", &json, "--"];
    if !std::path::Path::new(EXAMPLE).exists() {
        return leave_out("the sources are not on this machine");
    }
    let output = weigh(&scratch, &[&options[..], &["true"]].concat());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("calls.json")).expect("JSON");
    let names: Vec<&str> = report["subsystems"]
        .as_array()
        .expect("parts")
        .iter()
        .filter_map(|part| part["name"].as_str())
        .collect();
    assert_eq!(names, ["sched", "irq", "block", "link_layer"]);
}
