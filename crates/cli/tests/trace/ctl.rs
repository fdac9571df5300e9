//! `weigh trace ctl`: streams that are changed while they run, against a program that knows how much it
//! sent.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh, weigh_as};
use crate::support::workload;
use serde_json::Value;

/// A stream of `weigh trace`.
struct Stream(Mortal);

impl Stream {
    fn start(options: &[&str], command: &[&str]) -> Stream {
        let mut weigh = Command::new(crate::support::weigh_binary());
        weigh.arg("trace").args(options);
        if !command.is_empty() {
            weigh.arg("--").args(command);
        }
        Stream(Mortal::of(weigh.stderr(Stdio::piped()).spawn()))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// What it answers, or why it does not do it.
    fn ask(&self, scratch: &Scratch, words: &[&str]) -> Result<String, String> {
        let pid = self.pid();
        let said = weigh(scratch, &[&["trace", "ctl", "--stream", &pid][..], words].concat());
        match said.status.success() {
            true => Ok(String::from_utf8(said.stdout).expect("UTF-8")),
            false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
        }
    }

    fn register(&self, scratch: &Scratch) -> Value {
        let said = self.ask(scratch, &["list", "--json"]).expect("a register");
        serde_json::from_str(&said).expect("JSON")
    }

    /// It answers from now on.
    fn is_there(&self, scratch: &Scratch) {
        let late = Instant::now() + crate::support::patience(30.0);
        while self.ask(scratch, &["list"]).is_err() {
            assert!(Instant::now() < late, "nobody answers");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(self) -> String {
        let output = self.0.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    }
}

#[test]
fn no_event_is_lost_and_none_is_doubled_while_probes_change() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    let program = workload("datagrams");
    let sent = crate::support::amount(250_003).to_string();
    // All of them are let through, whatever is changed; the ring has room for all of them.
    let options = [
        "--buffer",
        "256MiB",
        "-o",
        &file,
        "-e",
        "net:net_dev_queue{len=skb->len}",
        "-e",
        "net:net_dev_start_xmit{len=skb->len} if skb->len > 3",
    ];
    let stream = Stream::start(&options, &[&program, &sent, "100", "0"]);
    stream.is_there(&scratch);
    let changes: [&[&str]; 7] = [
        &["filter", "1", "skb->len > 4"],
        &["filter", "1", "skb->len != 7 && cpu < 100000"],
        &["filter", "1", "skb->len != 8 && cpu < 200000"],
        &["sample", "1", "sample 1/1"],
        &["filter", "1"],
        &["sample", "1"],
        &["filter", "1", "skb->len > 3"],
    ];
    let mut made = 0;
    for change in changes.iter().cycle() {
        // It ends when all has been sent.
        if stream.ask(&scratch, change).is_err() {
            break;
        }
        made += 1;
        if made == 3 {
            let added = stream.ask(&scratch, &["add", "net:netif_rx{len=skb->len}"]);
            assert!(added.is_ok_and(|said| said.starts_with("probe 2: in force")));
        }
        if made == 5 {
            let _ = stream.ask(&scratch, &["remove", "2"]);
        }
    }
    let said = stream.end();
    assert!(made >= 3, "{made} changes: {said}");
    let counted = |event: &str| -> u64 {
        let line = said.lines().find(|line| line.contains(event));
        let words = line.unwrap_or_else(|| panic!("{said}")).split_whitespace().next();
        words.and_then(|number| number.parse().ok()).expect("a number")
    };
    assert!(said.contains(", 0 lost"), "{said}");
    assert_eq!(counted("net_dev_queue").to_string(), sent, "untouched: {said}");
    assert_eq!(counted("net_dev_start_xmit").to_string(), sent, "after {made} changes: {said}");
    let text = scratch.text("events.jsonl");
    for event in ["net:net_dev_queue", "net:net_dev_start_xmit", "net:netif_rx"] {
        let lines = text.lines().filter(|line| line.contains(&format!("\"{event}\"")));
        assert_eq!(lines.count() as u64, counted(event), "{event}: {said}");
    }
}

#[test]
fn the_register_says_what_is_followed() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.parquet").display().to_string();
    let options = [
        "--buffer",
        "1MiB",
        "-o",
        &file,
        "-e",
        "sched:sched_process_exec{code=p->exit_code} sample 1/2",
        "-f",
        "tgid != 1",
        "--for",
        "60s",
    ];
    let stream = Stream::start(&options, &[]);
    stream.is_there(&scratch);
    let first = stream.register(&scratch);
    assert_eq!(first["ring_bytes"], 1 << 20);
    assert_eq!(first["wake_bytes"], (1 << 20) / 8);
    assert_eq!(first["pid"].to_string(), stream.pid());
    let probe = &first["probes"][0];
    assert_eq!(probe["event"], "sched:sched_process_exec");
    assert_eq!(probe["filter"], "tgid != 1");
    assert_eq!(probe["sampling"], "sample 1/2");
    assert_eq!(probe["fields"], serde_json::json!(["code"]));

    // A file of columns has those that it began with.
    let why = stream.ask(&scratch, &["add", "sched:sched_process_fork{other=child->pid}"]);
    assert!(why.is_err_and(|why| why.contains("columns") && why.contains("other")));
    let added = stream.ask(&scratch, &["add", "sched:sched_process_exit{code=p->exit_code}"]);
    assert!(added.is_ok_and(|said| said.starts_with("probe 2")), "1 was refused");
    for (words, reason) in [
        (&["remove", "7"][..], "no probe 7"),
        (&["remove", "1"], "was removed"),
        (&["filter", "0", "p->pidd == 1"], "pid"),
        (&["sample", "0", "sample 2/3"], "1/N"),
        (&["add", "sched:sched_process_exot"], "sched_process_exit"),
    ] {
        let why = stream.ask(&scratch, words).expect_err("it is wrong");
        assert!(why.contains(reason), "{words:?}: {why}");
    }
    for words in [
        &["wake", "4KiB"][..],
        &["filter", "0", "tgid == 77"],
        &["sample", "0", "every 10ms"],
        &["remove", "2"],
    ] {
        stream.ask(&scratch, words).unwrap_or_else(|why| panic!("{words:?}: {why}"));
    }
    let then = stream.register(&scratch);
    assert_eq!(then["wake_bytes"], 4096);
    assert_eq!(then["probes"][0]["filter"], "tgid == 77");
    assert_eq!(then["probes"][0]["sampling"], "every 10ms");
    assert_eq!(then["probes"][2]["is_removed"], true);

    // Others may not: root's socket is root's.
    let pid = stream.pid();
    let others = weigh_as(Some(65534), &scratch, &["trace", "ctl", "--stream", &pid, "list"]);
    assert!(!others.status.success());

    stream.interrupt();
    let said = stream.end();
    assert!(!std::path::Path::new(&format!("/run/weigh/trace-{pid}.sock")).exists());
    assert!(weigh_keep::count_rows(scratch.path("events.parquet").as_path()).is_ok(), "{said}");
}

#[test]
fn nothing_is_left_of_a_probe_that_was_removed() {
    needs_root!();
    let scratch = Scratch::new();
    let options = ["-e", "sched:sched_process_exec", "-o", "-", "--for", "60s", "-q"];
    let mut weigh = Command::new(crate::support::weigh_binary());
    let weigh = weigh.arg("trace").args(options).stdout(Stdio::null()).stderr(Stdio::piped());
    let stream = Stream(Mortal::of(weigh.spawn()));
    stream.is_there(&scratch);
    // Programs, and what attaches them, that the stream holds.
    let held = || {
        let folder = format!("/proc/{}/fd", stream.pid());
        let names = std::fs::read_dir(folder).expect("a process").flatten();
        let links = names.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|to| to.to_string_lossy().contains("bpf-")).count()
    };
    let before = held();
    stream.ask(&scratch, &["add", "sched:sched_process_exit"]).expect("it is added");
    assert!(held() > before);
    stream.ask(&scratch, &["remove", "1"]).expect("it is removed");
    assert_eq!(held(), before);
    stream.interrupt();
    stream.end();
}

/// A command that waits until it may go on.
struct Gate(String);

impl Gate {
    fn new(scratch: &Scratch) -> Gate {
        let path = scratch.path("gate").display().to_string();
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo starts");
        assert!(made.success());
        Gate(path)
    }

    fn open(&self) {
        std::fs::write(&self.0, "go\n").expect("somebody waits for it");
    }
}

fn found(scratch: &Scratch) -> Vec<Value> {
    let report: Value = serde_json::from_str(&scratch.text("found.json")).expect("JSON");
    report["found"].as_array().expect("a list").clone()
}

#[test]
fn an_event_that_is_added_is_counted_with_the_others() {
    needs_root!();
    let scratch = Scratch::new();
    let gate = Gate::new(&scratch);
    let json = scratch.path("found.json").display().to_string();
    let script = r#"read -r go <"$0"; exec "$1" 1003 1400 23"#;
    let command = ["sh", "-c", script, &gate.0, &workload("datagrams")].map(str::to_string);
    let tables = ["--top", "9 by event, comm", "--histogram", "len by event, tid"];
    let options = ["-e", "net:net_dev_start_xmit{len=skb->len}", "--json", &json, "-q"];
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let stream = Stream::start(&[&options[..], &tables].concat(), &command);
    stream.is_there(&scratch);
    let refused = stream.ask(&scratch, &["add", "sched:sched_process_exit"]).expect_err("no len");
    assert!(refused.contains("--histogram: ") && refused.contains("'len'"), "{refused}");
    stream.ask(&scratch, &["add", "net:net_dev_queue{len=skb->len}"]).expect("it is added");
    let fields = &stream.register(&scratch)["probes"][1]["fields"];
    assert_eq!(fields.to_string(), r#"["len","comm"]"#, "what is needed comes with it");
    gate.open();
    stream.end();
    for (one, key) in found(&scratch).iter().zip(["datagrams", ""]) {
        for event in ["net:net_dev_start_xmit", "net:net_dev_queue"] {
            let rows = one["rows"].as_array().expect("a list").iter();
            let of = rows.filter(|row| row["key"][0] == event);
            let of = of.filter(|row| key.is_empty() || row["key"][1] == key);
            let events: u64 = of.filter_map(|row| row["events_total"].as_u64()).sum();
            assert_eq!(events, 1003, "{event}: {one}");
        }
    }
}

#[test]
fn nobody_waits_for_an_event_that_was_removed() {
    needs_root!();
    let scratch = Scratch::new();
    let gate = Gate::new(&scratch);
    let json = scratch.path("found.json").display().to_string();
    let script = r#"for n in $(seq 23); do sleep 60 & all="$all $!"; done; read -r go <"$0"; kill $all; wait"#;
    let pairs = "sched:sched_process_fork -> sched:sched_process_exit by child->pid == p->pid";
    let options = ["--json", &json, "-q", "--latency", pairs];
    let stream = Stream::start(&options, &["sh", "-c", script, &gate.0]);
    stream.is_there(&scratch);
    // That of seq, and those that sleep.
    let late = Instant::now() + crate::support::patience(30.0);
    let sent = |probe: usize| stream.register(&scratch)["probes"][probe]["sent"].as_u64();
    while sent(0) < Some(24) || sent(1) < Some(1) {
        assert!(Instant::now() < late, "they do not begin: {}", stream.register(&scratch));
        std::thread::sleep(Duration::from_millis(10));
    }
    stream.ask(&scratch, &["remove", "1"]).expect("it is removed");
    let ended = sent(1);
    gate.open();
    stream.end();
    let one = &found(&scratch)[0];
    let [first, pairs, unanswered, waiting] =
        ["first_total", "pairs_total", "unanswered_total", "waiting_total"]
            .map(|name| one[name].as_u64().expect("a number"));
    assert_eq!((Some(pairs), waiting), (ended, 0), "{one}");
    assert!(unanswered >= 23 && unanswered == first - pairs, "{one}");
}

#[test]
fn counters_are_counted_as_long_as_an_event_has_them() {
    needs_root!();
    let scratch = Scratch::new();
    let options = ["-e", "sched:sched_process_exec{counter(cs)}", "-o", "-", "--for", "60s", "-q"];
    let mut weigh = Command::new(crate::support::weigh_binary());
    let weigh = weigh.arg("trace").args(options).stdout(Stdio::null()).stderr(Stdio::piped());
    let stream = Stream(Mortal::of(weigh.spawn()));
    stream.is_there(&scratch);
    let held = || {
        let names = std::fs::read_dir(format!("/proc/{}/fd", stream.pid())).expect("a process");
        let links = names.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|to| to.to_string_lossy().contains("[perf_event]")).count()
    };
    let before = held();
    assert!(before > 0);
    let more = "sched:sched_process_exit{counter(cs), counter(faults)}";
    stream.ask(&scratch, &["add", more]).expect("it is added");
    assert_eq!(held(), 2 * before, "what both have is counted once");
    stream.ask(&scratch, &["remove", "0"]).expect("it is removed");
    assert_eq!(held(), 2 * before);
    stream.ask(&scratch, &["remove", "1"]).expect("it is removed");
    assert_eq!(held(), 0);
    stream.interrupt();
    stream.end();
}
