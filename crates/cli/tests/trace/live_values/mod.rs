//! A stream that changes itself, runs commands, and gives its values to programs while it runs; held to what the followed
//! program has done.

mod commands;
mod reports;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::library::{Agent, NOBODY, packaged_python_module};
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{lines, succeeds};
use crate::support::{wait_until, weigh_binary, weigh_for_everybody, workload};

const QUEUE: &str = "net:net_dev_queue{len=skb->len}";
/// The same once more, by another name of its field.
const AGAIN: &str = "net:net_dev_queue{size=skb->len}";
/// Datagrams that are sent at once.
const BURST: u64 = 97;

/// A stream that follows a job which sends bursts until it is told to stop, and ends when it is told that.
struct Stream {
    weigh: Mortal,
    scratch: Scratch,
}

impl Stream {
    fn start(options: &[&str]) -> Stream {
        Stream::start_by(Command::new(weigh_binary()), Scratch::new(), options)
    }

    fn start_by(mut weigh: Command, scratch: Scratch, options: &[&str]) -> Stream {
        let job = format!(
            "n=0; until test -e stop; do '{}' {BURST} 100 0; n=$((n+{BURST})); sleep 0.05; done; \
             echo $n >sent; until test -e end; do sleep 0.05; done",
            workload("datagrams")
        );
        weigh.arg("trace").args(options).args(["--", "sh", "-c", &job]);
        let said = std::fs::File::create(scratch.path("said")).expect("a file");
        weigh.current_dir(scratch.path("work")).stdout(Stdio::null()).stderr(said);
        Stream { weigh: Mortal::of(weigh.spawn()), scratch }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path("work").join(name)
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.file(name), "").expect("a file");
    }

    fn text(&self, name: &str) -> String {
        self.scratch.text(&format!("work/{name}"))
    }

    fn register(&self) -> Option<Value> {
        let pid = self.weigh.id().to_string();
        let said = weigh(&self.scratch, &["trace", "ctl", "--stream", &pid, "list", "--json"]);
        serde_json::from_slice(&said.stdout).ok()
    }

    /// The same of a stream that an ordinary user has, at the agent's place for its sockets.
    fn register_as_user(&self, agent: &Agent) -> Option<Value> {
        let mut ask = Command::new("setpriv");
        ask.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .arg(weigh_for_everybody());
        ask.args(["trace", "ctl", "list", "--json"]).env("XDG_RUNTIME_DIR", agent.folder.path());
        serde_json::from_slice(&ask.output().ok()?.stdout).ok()
    }

    /// Whether the change of its first condition is in force.
    fn is_on(&self) -> bool {
        self.register().is_some_and(|register| register["rules"][0]["is_on"] == true)
    }

    /// Sends until the change is in force, then nothing until it is not; then ends. What weigh said.
    fn goes_on_and_off(self) -> (Scratch, u64, String) {
        wait_until("the change is in force", 60.0, || self.is_on());
        // Some more of it.
        let before = self.events();
        wait_until("more is sent", 60.0, || self.events() >= before + 5 * BURST);
        self.touch("stop");
        wait_until("the change is not in force any more", 60.0, || !self.is_on());
        self.touch("end");
        self.end()
    }

    /// What its first probe has met.
    fn events(&self) -> u64 {
        let register = self.register().unwrap_or_default();
        register["probes"][0]["sent"].as_u64().unwrap_or(0)
    }

    /// Something has been sent, and nothing more will be: how much.
    fn stop_sending(&self) -> u64 {
        wait_until("events come", 60.0, || self.events() > BURST);
        self.touch("stop");
        wait_until("all is sent", 60.0, || self.text("sent").ends_with('\n'));
        self.text("sent").trim().parse().expect("a number")
    }

    /// What commands of weigh's write they write to the same place, perhaps later.
    fn end(self) -> (Scratch, u64, String) {
        let Stream { mut weigh, scratch } = self;
        let status = weigh.wait().expect("it ends");
        let said = scratch.text("said");
        assert!(status.success(), "{status}: {said}");
        let sent = scratch.text("work/sent").trim().parse().expect("a number");
        (scratch, sent, said)
    }
}

/// For each event that the first probe has, in the order of time, whether the second one has it, too.
fn partners(scratch: &Scratch) -> Vec<bool> {
    let mut records = lines(scratch, "work/events.jsonl");
    records.sort_by_key(|record| record["time_ns"].as_i64());
    let is_first = |record: &Value| record["fields"]["len"].is_u64();
    let mut found = Vec::new();
    for (at, record) in records.iter().enumerate().filter(|(_, record)| is_first(record)) {
        let next = records.get(at + 1).filter(|next| next["tid"] == record["tid"]);
        found.push(next.is_some_and(|next| next["fields"]["size"].is_u64()));
    }
    found
}

#[test]
fn sampling_is_on_while_the_rate_is_high_and_exact_while_it_is_on() {
    needs_root!();
    let rule = "rate of 0 > 20 for 300ms: sample 1/10 of 1";
    let (scratch, sent, said) = Stream::start(&[
        "-e",
        QUEUE,
        "-e",
        AGAIN,
        "-o",
        "events.jsonl",
        "--when",
        rule,
        "--rate",
        "by event",
        "--json",
        "found.json",
    ])
    .goes_on_and_off();
    let has = partners(&scratch);
    assert_eq!(has.len() as u64, sent, "{said}");
    // From the first that is passed over to the last each tenth is taken.
    let (first, last) = (has.iter().position(|has| !has), has.iter().rposition(|has| !has));
    let (first, last) =
        first.zip(last).unwrap_or_else(|| panic!("nothing was passed over: {said}"));
    let passed_over: Vec<usize> = has[first..=last].split(|has| *has).map(<[bool]>::len).collect();
    let (rest, whole) = passed_over.split_last().expect("some");
    assert!(whole.iter().all(|length| *length == 9) && *rest <= 9, "{passed_over:?}");
    assert!(whole.len() >= 2, "{passed_over:?}");
    assert!(said.contains("on: sample 1/10") && said.contains("off: sample 1/10"), "{said}");
    let report: Value = serde_json::from_str(&scratch.text("work/found.json")).expect("JSON");
    let switches: Vec<bool> = report["switches"]
        .as_array()
        .expect("switches")
        .iter()
        .map(|switch| switch["is_on"].as_bool().expect("a bool"))
        .collect();
    assert_eq!(switches[..2], [true, false], "{report}");
    assert_eq!(report["switches_total"], switches.len());
    // What was sampled for a while says so to the end.
    let sampled = report["found"][0]["sampled"].to_string();
    assert!(sampled.contains("sample 1/10 while rate of 0 > 20 for 300ms"), "{report}");
}

#[test]
fn an_event_is_followed_only_while_the_condition_holds() {
    needs_root!();
    let rule =
        "rate of net_dev_queue > 20 for 300ms: add net:net_dev_start_xmit{size=skb->len, stack(4)}";
    let (scratch, sent, said) =
        Stream::start(&["-e", QUEUE, "-o", "events.jsonl", "--when", rule]).goes_on_and_off();
    let has = partners(&scratch);
    assert_eq!(has.len() as u64, sent, "{said}");
    // It is off, on, and off: then nothing is sent any more.
    let (first, last) = (has.iter().position(|has| *has), has.iter().rposition(|has| *has));
    let (first, last) = first.zip(last).unwrap_or_else(|| panic!("it was never on: {said}"));
    assert!(first > 0, "it was on from the beginning: {said}");
    assert!(
        has[first..=last].iter().all(|has| *has) && last - first >= 4 * BURST as usize,
        "{said}"
    );
}

#[test]
fn a_filter_holds_besides_the_others_only_while_the_condition_does() {
    needs_root!();
    let again = format!("{AGAIN} if skb->len > 3");
    let rule = "rate of 0 > 20 for 300ms: filter of 1 if skb->len > 100000";
    let (scratch, sent, said) =
        Stream::start(&["-e", QUEUE, "-e", &again, "-o", "events.jsonl", "--when", rule])
            .goes_on_and_off();
    let has = partners(&scratch);
    assert_eq!(has.len() as u64, sent, "{said}");
    let first =
        has.iter().position(|has| !has).unwrap_or_else(|| panic!("it was never on: {said}"));
    let after = has[first..].iter().filter(|has| **has).count();
    assert!(first > 0 && has.len() - first - after >= 4 * BURST as usize, "{said}");
}

#[test]
fn what_was_changed_by_hand_meanwhile_is_changed_from_there() {
    needs_root!();
    let rule = "rate of 0 > 20 for 300ms: sample 1/10 of 1";
    let stream = Stream::start(&["-e", QUEUE, "-e", AGAIN, "-o", "events.jsonl", "--when", rule]);
    wait_until("the change is in force", 60.0, || stream.is_on());
    let pid = stream.weigh.id().to_string();
    let change = ["trace", "ctl", "--stream", &pid, "filter", "1", "skb->len > 4"];
    succeeds(&weigh(&stream.scratch, &change));
    stream.touch("stop");
    wait_until("the change is not in force any more", 60.0, || !stream.is_on());
    let register = stream.register().expect("a register");
    assert_eq!(register["probes"][1]["filter"], "skb->len > 4", "{register}");
    assert!(register["probes"][1]["sampling"].is_null(), "{register}");
    assert!(register["rules"][0]["error"].is_null(), "{register}");
    stream.touch("end");
    stream.end();
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_attached() {
    needs_root!();
    let scratch = Scratch::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&["-e", QUEUE, "--when", "rate of netif_rx > 5: sample 1/2"], &["--when", "netif_rx"]),
        (&["-e", QUEUE, "--when", "rate > 5: add net:net_dev_queu"], &["--when", "net_dev_queue"]),
        (&["-e", QUEUE, "--when", "rate > x: sample 1/2"], &["--when", "a number", "^"]),
        (
            &["-e", QUEUE, "--when", "rate of 0 > 5: filter of 0 if skb->len > 5"],
            &["follow the event twice"],
        ),
        (
            &["-e", QUEUE, "-e", AGAIN, "--when", "rate of 0 > 5: filter of 1 if nonsense"],
            &["--when", "nonsense"],
        ),
        (
            &["-e", QUEUE, "--when", "rate > 5: sample 1/2", "--when", "rate > 9: sample 1/3"],
            &["two conditions change net:net_dev_queue"],
        ),
        (&["-e", QUEUE, "--on-event", "at most 1/s"], &["--on-event", "a command"]),
        (&["-e", QUEUE, "--on-event", "of netif_rx: true"], &["netif_rx", "net:net_dev_queue"]),
        (&["-e", QUEUE, "--metrics", "./m"], &["--metrics", "--rate"]),
        (&["-e", QUEUE, "--rate", "by cpu", "--metrics", "0.0.0.0:1"], &["127.0.0.1:PORT"]),
        (&["-e", QUEUE, "--rate", "by cpu", "--metrics", "127.0.0.1:0"], &["--token-file"]),
    ];
    for (options, words) in cases {
        let output = weigh(&scratch, &[&["trace"][..], options, &["--", "touch", "ran"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options:?}: {said}");
        for word in *words {
            assert!(said.contains(word), "{options:?} lacks {word:?}: {said}");
        }
        assert!(!scratch.path("work/ran").exists(), "{options:?} started the command");
    }
}

#[test]
fn an_ordinary_user_s_stream_changes_itself_by_the_agent() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let mut weigh = Command::new("setpriv");
    weigh.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    weigh.arg(weigh_for_everybody());
    weigh.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    weigh.env("XDG_RUNTIME_DIR", agent.folder.path());
    let rule = "rate > 20 for 300ms: sample 1/10";
    let add = "rate > 20 for 300ms: add raw_syscalls:sys_exit{ret}";
    let options = [
        "-e",
        "raw_syscalls:sys_enter{id}",
        "--rate",
        "by event",
        "--json",
        "found.json",
        "--when",
        rule,
        "--when",
        add,
    ];
    let stream = Stream::start_by(weigh, scratch, &options);
    // Calls of the job are many as long as it sends.
    wait_until("both are on", 60.0, || {
        let rules = stream.register_as_user(&agent).unwrap_or_default()["rules"].clone();
        [0, 1].iter().all(|rule| rules[*rule]["is_on"] == true)
    });
    stream.touch("stop");
    stream.touch("end");
    let (scratch, _, said) = stream.end();
    let report: Value = serde_json::from_str(&scratch.text("work/found.json")).expect("JSON");
    let sampled = report["found"][0]["sampled"].to_string();
    assert!(sampled.contains("sample 1/10 while rate > 20"), "{report}: {said}");
    assert!(sampled.contains("raw_syscalls:sys_exit only while rate > 20"), "{report}: {said}");
    let events = report["found"][0]["rows"].as_array().map_or(0, Vec::len);
    assert_eq!(events, 2, "{report}");
}

#[test]
fn an_event_is_paused_and_resumed_under_its_number() {
    needs_root!();
    let stream = Stream::start(&["-q", "-e", QUEUE, "-e", AGAIN, "-o", "events.jsonl"]);
    wait_until("it answers", 60.0, || stream.events() > BURST);
    let pid = stream.weigh.id().to_string();
    let ask = |words: &[&str]| {
        succeeds(&weigh(
            &stream.scratch,
            &[&["trace", "ctl", "--stream", &pid][..], words].concat(),
        ))
    };
    ask(&["pause", "1"]);
    let sent = |id: usize| {
        stream.register().unwrap_or_default()["probes"][id]["sent"].as_u64().unwrap_or(0)
    };
    let (paused, first) = (sent(1), sent(0));
    wait_until("more is sent", 60.0, || sent(0) > first + 3 * BURST);
    assert_eq!(sent(1), paused);
    assert_eq!(stream.register().unwrap_or_default()["probes"][1]["is_paused"], true);
    ask(&["resume", "1"]);
    wait_until("it is followed again", 60.0, || sent(1) > paused);
    stream.touch("stop");
    stream.touch("end");
    stream.end();
}

#[test]
fn a_reader_adapts_as_the_example_does() {
    needs_root!();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/adapt.py");
    let stream = Stream::start(&["-q", "-e", QUEUE, "--rate", "by event", "-o", "events.jsonl"]);
    wait_until("it answers", 60.0, || stream.register().is_some());
    let mut reader = Command::new("python3");
    reader.args(["-B", example, &stream.weigh.id().to_string(), "20"]);
    reader.env("PYTHONPATH", packaged_python_module()).stdout(Stdio::piped());
    let mut reader = Mortal::of(reader.spawn());
    let mut said = BufReader::new(reader.stdout.take().expect("output"));
    let mut line = || {
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        line
    };
    assert!(line().contains(" s: sample 1/"), "it takes fewer of many");
    let rule =
        |stream: &Stream| stream.register().unwrap_or_default()["probes"][0]["sampling"].clone();
    assert!(rule(&stream).as_str().is_some_and(|rule| rule.starts_with("sample 1/")));
    stream.touch("stop");
    assert!(line().contains(" s: all"), "it takes all of few");
    assert!(rule(&stream).is_null());
    kill(Pid::from_raw(reader.id() as i32), Signal::SIGINT).expect("a signal");
    stream.touch("end");
    stream.end();
}
