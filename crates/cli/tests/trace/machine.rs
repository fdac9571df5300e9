//! What `weigh trace` takes from the machine that it runs on: counters of its CPUs, modules of its kernel.

use std::path::PathBuf;
use std::process::Command;

use crate::support::run::{Scratch, weigh};
use crate::support::trace::{are_refused, counted, lines, succeeds};
use crate::support::workload;
use serde_json::Value;

const FAULTS: u64 = 23;
const TIMES: u64 = 11;
/// The numbers of getrusage(2) and sched_setaffinity(2).
const X86: bool = cfg!(target_arch = "x86_64");
const GETRUSAGE: u32 = if X86 { 98 } else { 165 };
const SETAFFINITY: u32 = if X86 { 203 } else { 122 };

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// What the first of all that is asked for finds.
#[track_caller]
fn finds(scratch: &Scratch, options: &[&str], command: &[&str]) -> Value {
    let file = scratch.path("found.json").display().to_string();
    let arguments = [&["trace", "--json", &file][..], options, &["--"], command].concat();
    succeeds(&weigh(scratch, &arguments));
    let report: Value = serde_json::from_str(&scratch.text("found.json")).expect("JSON");
    report["found"][0].clone()
}

/// Entries and exits of a call, each with a counter.
fn call(number: u32, counter: &str) -> [String; 2] {
    [
        format!("raw_syscalls:sys_enter{{counter({counter})}} if arg1 == {number}"),
        format!("raw_syscalls:sys_exit{{counter({counter})}} if regs->orig_ax == {number}"),
    ]
}

#[test]
fn a_counter_has_counted_what_happened_between_two_events() {
    needs_root!();
    let scratch = Scratch::new();
    // From one question to the next a program meets so many page faults, and it stays where it is. Others may
    // come between them, but not every time.
    let [enter, exit] = call(GETRUSAGE, "page-faults");
    let program = workload("faults");
    let script = format!("for n in $(seq {TIMES}); do {program} {FAULTS}; done");
    let found = finds(
        &scratch,
        &["-e", &exit, "-e", &enter, "--latency", "sys_exit -> sys_enter by tid within 10s"],
        &["taskset", "-c", "0", "sh", "-c", &script],
    );
    assert_eq!(number(&found["pairs_total"]), TIMES, "{found}");
    let counter = &found["counters"][0];
    assert_eq!(counter["counter"], "counter(page-faults)");
    let totals = ["pairs_total", "other_cpu_total", "absent_total"];
    assert_eq!(totals.map(|name| number(&counter[name])), [TIMES, 0, 0], "{found}");
    assert_eq!(counter["values"]["min"].as_f64(), Some(FAULTS as f64), "{found}");
    assert!(number(&counter["sum"]) >= TIMES * FAULTS, "{found}");
}

#[test]
fn a_pair_on_two_cpus_has_no_count_and_is_told() {
    needs_root!();
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let scratch = Scratch::new();
    // Each goes to the CPU where it is not; of the first nobody knows.
    let moves = ["taskset", "-c", "0", "taskset", "-c", "1"].repeat(3);
    let [enter, exit] = call(SETAFFINITY, "cpu-clock");
    let pairs = "sys_enter -> sys_exit by tid";
    let options = ["-e", &enter, "-e", &exit, "--latency", pairs];
    let found = finds(&scratch, &options, &[&moves[..], &["true"]].concat());
    let counter = &found["counters"][0];
    let [known, other] = ["pairs_total", "other_cpu_total"].map(|name| number(&counter[name]));
    assert_eq!((number(&found["pairs_total"]), known + other), (6, 6), "{found}");
    assert!((5..=6).contains(&other), "{found}");
}

#[test]
fn a_counter_that_is_not_here_is_refused_before_anything_starts() {
    needs_root!();
    let scratch = Scratch::new();
    let listed = weigh(&scratch, &["trace", "list", "counter"]);
    let here = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.status.success() && here.contains("counter(page-faults)  page faults"),
        "{here}"
    );
    are_refused(
        &scratch,
        &[
            (&["-e", "sched_switch{counter(cylces)}"], &["no counter 'cylces'", "near it: cycles"]),
            (&["-e", "sched_switch if counter(cs) > 1"], &["no part of a filter", "^^^^^^^"]),
            (
                &["-e", "sched_switch{counter(rffffffffffffffff)}"],
                &["cannot be had", "page-faults"],
            ),
        ],
    );
    if !here.contains("counter(cycles)") {
        let words = ["the counter 'cycles' cannot be had", "no such counter", "cpu-clock"];
        return are_refused(&scratch, &[(&["-e", "sched_switch{counter(cycles)}"], &words)]);
    }
    let [enter, exit] = call(GETRUSAGE, "cycles");
    let pairs = "sys_exit -> sys_enter by tid";
    let options = ["-e", &exit, "-e", &enter, "--latency", pairs];
    let found = finds(&scratch, &options, &["taskset", "-c", "0", &workload("faults"), "10007"]);
    let mean = |of: &Value| of["mean"].as_f64().expect("a number");
    let hertz = mean(&found["counters"][0]["values"]) / mean(&found["seconds"]);
    assert!((1e7..1e10).contains(&hertz), "{found}");
}

#[test]
fn a_tracepoint_by_its_name_alone_hands_over_numbers() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let typed = "net:net_dev_queue{skb}";
    let options = ["trace", "-o", &file, "-e", "raw:net_dev_queue", "-e", typed, "--"];
    let command = [&workload("datagrams"), "1003", "700", "0"];
    let said = succeeds(&weigh(&scratch, &[&options[..], &command].concat()));
    assert_eq!(counted(&said), (2006, 0), "{said}");
    let (mut raw, mut addresses) = (Vec::new(), Vec::new());
    for event in lines(&scratch, "events.jsonl") {
        let fields = &event["fields"];
        raw.extend(fields["arg0"].as_u64().map(|number| format!("{number:#x}")));
        addresses.extend(fields["skb"].as_str().map(str::to_string));
    }
    assert_eq!(raw.len(), 1003);
    assert_eq!(raw, addresses, "each is the same packet");
    are_refused(
        &scratch,
        &[
            (&["-e", "raw:net_dev_queue{arg1}"], &["no argument 'arg1'", "arg0"]),
            (&["-e", "raw:net_dev_qeue"], &["no tracepoint 'net_dev_qeue'", "net_dev_queue"]),
            (&["-e", "fn:nothing:vfs_read"], &["no function 'nothing:vfs_read'"]),
        ],
    );
}

/// A module, as long as this lives.
struct Module;

impl Module {
    #[track_caller]
    fn load(path: PathBuf) -> Module {
        let status = Command::new("insmod").arg(&path).status().expect("insmod starts");
        assert!(status.success(), "{}", path.display());
        Module
    }

    /// Whether it could be unloaded.
    fn unload() -> bool {
        Command::new("rmmod").arg("sunrpc").status().is_ok_and(|status| status.success())
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        Module::unload();
    }
}

#[test]
fn a_module_is_followed_as_the_kernel_is_and_stays_as_long() {
    needs_root!();
    // Only a machine that may come to harm has one to load.
    let Some(folder) = std::env::var_os("WEIGH_TEST_MODULES").map(PathBuf::from) else { return };
    if !folder.join("sunrpc.ko").exists() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let event = "sunrpc:cache_entry_update";
    let raw = "raw:cache_entry_update";
    // As many entries of a cache of the module's, and an attempt to unload it.
    let script = "for n in $(seq 23); do echo \"nfsd 10.0.0.$n 2147483647 host\" \
                  >/proc/net/rpc/auth.unix.ip/channel; done; ! rmmod sunrpc 2>/dev/null";
    let follows = |events: &[&str]| {
        let events: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
        let command = ["-o", &file, "--", "sh", "-c", script];
        let said = succeeds(&weigh(&scratch, &[&["trace"], &events[..], &command].concat()));
        assert_eq!(counted(&said), (23 * events.len() as u64 / 2, 0), "{said}");
    };
    are_refused(&scratch, &[(&["-e", event], &["no tracepoint 'cache_entry_update'"])]);
    let module = Module::load(folder.join("sunrpc.ko"));
    for (pattern, line) in [
        ("cache_entry_update", "sunrpc:cache_entry_update(cd: struct cache_detail *, h:"),
        ("fn:ip_map_parse", "fn:sunrpc:ip_map_parse(cd: struct cache_detail *,"),
    ] {
        let listed = weigh(&scratch, &["trace", "list", pattern]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains(line), "{listed}");
    }
    let fields = "{name=str(cd->name), h->flags} if cd->hash_size > 0";
    follows(&[&format!("{event}{fields}"), "fn:sunrpc:ip_map_parse{mlen}", raw]);
    for event in lines(&scratch, "events.jsonl") {
        if event["event"] == "sunrpc:cache_entry_update" {
            assert_eq!(event["fields"]["name"], "auth.unix.ip", "{event}");
        }
    }
    assert!(Module::unload(), "nobody holds it any more");
    std::mem::forget(module);
    let _module = Module::load(folder.join("sunrpc-bare.ko"));
    are_refused(
        &scratch,
        &[
            (&["-e", event], &["no type information", raw]),
            (&["-e", "fn:ip_map_parse"], &["of the module sunrpc", "no type information"]),
        ],
    );
    follows(&[raw]);
}
