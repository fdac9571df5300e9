//! A stream that changes itself, runs commands, and gives its values to programs while it runs; held to what the followed
//! program has done.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::library::{Agent, NOBODY, must, packaged_python_module};
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{lines, succeeds};
use crate::support::{patience, wait_until, weigh_binary, weigh_for_everybody, workload};

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
fn commands_are_told_of_every_event_and_run_no_more_often_than_they_may() {
    needs_root!();
    let command = "sh -c 'cat >>orders; echo $WEIGH_EVENTS $WEIGH_EVENT >>counts' at most 2/s";
    let began = Instant::now();
    let stream = Stream::start(&["-e", QUEUE, "-o", "events.jsonl", "--on-event", command]);
    let counts = |stream: &Stream| -> Vec<u64> {
        let text = stream.text("counts");
        let numbers = text.lines().map(|line| line.split_once(' ').expect("two words"));
        numbers
            .map(|(count, event)| {
                assert_eq!(event, "net:net_dev_queue");
                count.parse().expect("a number")
            })
            .collect()
    };
    wait_until("it ran three times", 60.0, || counts(&stream).len() >= 3);
    let sent = stream.stop_sending();
    stream.touch("end");
    // The last ones are told when weigh is at its end.
    let (scratch, ..) = stream.end();
    let all = || -> Vec<u64> {
        let text = scratch.text("work/counts");
        text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
    };
    wait_until("all are told", 60.0, || all().iter().sum::<u64>() == sent);
    let orders = lines(&scratch, "work/orders");
    assert_eq!(orders.len(), all().len());
    for (order, count) in orders.iter().zip(all()) {
        assert_eq!(order["schema"], "weigh.trigger/1");
        assert_eq!(order["events_total"], count);
        assert_eq!(order["event"]["fields"]["len"], 142, "{order}");
    }
    // At most two in a second, and the last one.
    let most = 2.0 * began.elapsed().as_secs_f64() + 2.0;
    assert!(orders.len() as f64 <= most, "{} in {:?}", orders.len(), began.elapsed());
}

#[test]
fn a_command_that_does_not_end_delays_nothing() {
    needs_root!();
    let command = "sh -c 'until test -e gate; do sleep 0.05; done; echo $WEIGH_EVENTS >>counts'";
    let stream = Stream::start(&["-e", QUEUE, "-o", "events.jsonl", "--on-event", command]);
    wait_until("events come", 60.0, || stream.events() > 3 * BURST);
    let sent = stream.stop_sending();
    stream.touch("end");
    // weigh and its command have ended while the first of its commands runs on.
    let (scratch, _, said) = stream.end();
    assert_eq!(scratch.text("work/counts"), "");
    assert!(said.contains(&format!("weigh: {sent} events")), "{said}");
    std::fs::write(scratch.path("work/gate"), "").expect("a file");
    let all = || -> u64 {
        scratch.text("work/counts").lines().filter_map(|line| line.parse::<u64>().ok()).sum()
    };
    wait_until("all are told", 60.0, || all() == sent);
}

#[test]
fn no_shell_sees_the_command_and_its_failure_is_said() {
    needs_root!();
    let scratch = Scratch::new();
    let words = [
        "trace",
        "-q",
        "-e",
        QUEUE,
        "-o",
        "events.jsonl",
        "--on-event",
        "touch '$(id); a file'",
        "--on-event",
        "false",
        "--on-event",
        "of net_dev_queue: /nonexistent/program",
        "--",
    ];
    let program = workload("datagrams");
    let command = [program.as_str(), "3", "100", "0"];
    let output = weigh(&scratch, &[&words[..], &command].concat());
    // What the helpers say comes before the end of standard error, which they have.
    let said = succeeds(&output);
    wait_until("the command has run", 60.0, || scratch.path("work/$(id); a file").exists());
    assert!(said.contains("the command of --on-event, false: it ended with status 1"), "{said}");
    assert!(said.contains("/nonexistent/program: No such file"), "{said}");
}

#[test]
fn a_command_has_the_rights_of_who_has_typed_it() {
    needs_root!();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let mut weigh = Command::new("setpriv");
    weigh.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    weigh.arg(weigh_for_everybody());
    weigh.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    weigh.env("XDG_RUNTIME_DIR", agent.folder.path()).current_dir(scratch.path("work"));
    let command = "sh -c 'grep -E \"^(Uid|Cap(Eff|Prm|Amb))\" /proc/self/status >rights'";
    weigh.args(["trace", "-q", "-e", "raw_syscalls:sys_enter{id}", "-o", "events.jsonl"]);
    weigh.args(["--on-event", command, "--", "true"]);
    must(&mut weigh);
    wait_until("it has run", 60.0, || scratch.text("work/rights").matches('\n').count() == 4);
    let rights = scratch.text("work/rights");
    let none = "0000000000000000";
    assert!(
        rights.starts_with(&format!("Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n")),
        "{rights}"
    );
    assert_eq!(rights.matches(none).count(), 3, "{rights}");
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

/// What a socket answers to a request for the metrics.
fn scrape(mut stream: impl std::io::Read + std::io::Write, headers: &str) -> String {
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

/// A sample's value.
fn value_of(text: &str, name: &str, label: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name) && line.contains(label))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn metrics_have_what_was_sent_while_it_runs() {
    needs_root!();
    let stream = Stream::start(&[
        "-q",
        "-e",
        QUEUE,
        "--top",
        "3 by comm",
        "--histogram",
        "skb->len by cpu",
        "--metrics",
        "./metrics.sock",
    ]);
    let sent = stream.stop_sending() as f64;
    let accept = "Accept: application/openmetrics-text\r\n";
    let connect = || UnixStream::connect(stream.file("metrics.sock")).expect("it listens");
    // What came too late for its place is counted apart.
    let told = |text: &str| {
        let number = |name: &str, label: &str| value_of(text, name, label).unwrap_or(0.0);
        number("weigh_trace_key_events_total", "comm=\"datagrams\"")
            + number("weigh_trace_late_events_total", "")
            + number("weigh_trace_lost_events_total", "top")
    };
    let late = Instant::now() + patience(60.0);
    let mut text = scrape(connect(), accept);
    while told(&text) != sent {
        assert!(Instant::now() < late, "{sent} were sent: {text}");
        text = scrape(connect(), accept);
    }
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let of_rows = |name: &str| -> f64 {
        let rows = text.lines().filter(|line| line.starts_with(name) && line.contains("histogram"));
        rows.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let counted = of_rows("weigh_trace_key_values_count");
    assert!(counted > 0.0, "{text}");
    assert_eq!(of_rows("weigh_trace_key_values_sum"), 142.0 * counted, "{text}");
    let mode = std::fs::metadata(stream.file("metrics.sock")).expect("it is there");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    // Another user is turned away.
    let mut other = Command::new("setpriv");
    other.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "python3", "-c"]);
    other.arg("import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])");
    let refused = other.arg(stream.file("metrics.sock")).output().expect("it starts");
    assert!(!refused.status.success());
    stream.touch("end");
    let (scratch, ..) = stream.end();
    assert!(!scratch.path("work/metrics.sock").exists(), "the socket is left behind");
}

#[test]
fn metrics_on_a_port_are_for_who_has_the_token() {
    needs_root!();
    let stream = Stream::start(&[
        "-q",
        "-e",
        QUEUE,
        "--top",
        "3 by comm",
        "--metrics",
        "127.0.0.1:0",
        "--token-file",
        "token",
    ]);
    wait_until("it says where", 60.0, || stream.scratch.text("said").contains("/metrics\n"));
    let said = stream.scratch.text("said");
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{said}")).to_string();
    let connect = || TcpStream::connect(&address).expect("it listens");
    let token = stream.text("token");
    assert!(scrape(connect(), "").starts_with("HTTP/1.1 401"));
    let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
    assert!(scrape(connect(), &wrong).starts_with("HTTP/1.1 401"));
    let right = format!("Authorization: Bearer {}\r\n", token.trim());
    let sent = stream.stop_sending() as f64;
    wait_until("all is told", 60.0, || {
        let text = scrape(connect(), &right);
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        value_of(&text, "weigh_trace_events_total", "") == Some(sent)
    });
    stream.touch("end");
    stream.end();
}

/// The reports in lines of JSON.
fn reports_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn reports_come_to_who_attaches_until_the_last_which_is_whole() {
    needs_root!();
    let stream = Stream::start(&["-q", "-e", QUEUE, "--rate", "by comm"]);
    wait_until("it answers", 60.0, || stream.register().is_some());
    let pid = stream.weigh.id().to_string();
    let mut attach = Command::new(weigh_binary());
    attach.args(["trace", "attach", &pid, "--reports=100ms"]).stdout(Stdio::piped());
    let attach = Mortal::of(attach.spawn());
    let script = "import json, sys, weigh\n\
                  with weigh.reports(int(sys.argv[1]), every=0.1) as reports:\n\
                  \x20   for report in reports: print(json.dumps(report), flush=True)\n\
                  \x20   assert reports.ended\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script, &pid]).env("PYTHONPATH", packaged_python_module());
    let python = Mortal::of(python.stdout(Stdio::piped()).spawn());
    wait_until("both are there", 60.0, || {
        stream.register().is_some_and(|register| register["report_readers"] == 2)
    });
    let sent = stream.stop_sending();
    // Both have some more of them.
    std::thread::sleep(std::time::Duration::from_millis(500));
    stream.touch("end");
    stream.end();
    for reader in [attach, python] {
        let output = reader.wait_with_output().expect("it ends");
        succeeds(&output);
        let reports = reports_of(&String::from_utf8_lossy(&output.stdout));
        assert!(reports.iter().all(|report| report["schema"] == "weigh.synthesis/1"));
        let totals: Vec<u64> =
            reports.iter().filter_map(|report| report["events_total"].as_u64()).collect();
        assert!(totals.len() >= 3 && totals.is_sorted(), "{totals:?}");
        assert_eq!(totals.last(), Some(&sent), "{totals:?}");
    }
}

#[test]
fn a_stream_without_reports_says_so_and_so_does_a_wrong_time() {
    needs_root!();
    let stream = Stream::start(&["-q", "-e", QUEUE, "-o", "events.jsonl"]);
    wait_until("it answers", 60.0, || stream.register().is_some());
    let pid = stream.weigh.id().to_string();
    let output = weigh(&stream.scratch, &["trace", "attach", &pid, "--reports"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--latency"), "{said}");
    let script = "import sys, weigh\n\
                  for every in 1, 0.05:\n\
                  \x20   try: weigh.reports(int(sys.argv[1]), every=every)\n\
                  \x20   except OSError as error: print(error)\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script, &pid]).env("PYTHONPATH", packaged_python_module());
    let said = String::from_utf8_lossy(&must(&mut python).stdout).into_owned();
    assert_eq!(said.matches("the stream refuses what was asked for").count(), 2, "{said}");
    stream.touch("stop");
    stream.touch("end");
    stream.end();
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
