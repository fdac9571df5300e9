//! `weigh agent` without the rights to load programs into the kernel: the node, its streams, and what clients publish.
//! Each test has an agent of its own, at a socket of its own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use weigh_agent::{RemoteJob, StreamClient};
use weigh_collect::follow::JobDetail;
use weigh_schema::Unit;
use weigh_schema::event::CollectorState;
use weigh_schema::rule::Severity;
use weigh_schema::stream::{
    AGENT_STATUS, AgentStatus, EVENTS, NODE, PUSHED, RecordBody, RecordClient, StreamPolicy,
    StreamRead, StreamRecords, StreamStatus,
};
use weigh_schema::top::{TOP, TopReport};

use crate::support::agent::{Agent, NOBODY};
use crate::support::run::Scratch;
use crate::support::{patience, wait_until, weigh_for_everybody};

/// An agent without privileges.
pub struct NodeAgent {
    pub process: Child,
    pub scratch: Scratch,
    pub said: String,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What an agent says until it serves the node.
fn start(mut command: Command, scratch: &Scratch, options: &[&str]) -> (Child, String) {
    command.args(["agent", "--socket"]).arg(scratch.path("socket")).args(options);
    let mut process = command.stderr(Stdio::piped()).spawn().expect("weigh starts");
    let mut lines = BufReader::new(process.stderr.take().expect("standard error"));
    let mut said = String::new();
    while !said.contains("serves the node alone") {
        assert_ne!(lines.read_line(&mut said).expect("text"), 0, "{said}");
    }
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::stderr()));
    assert!(said.contains("serves at"), "{said}");
    (process, said)
}

/// As an ordinary user.
pub fn by_nobody() -> Command {
    let mut command = Command::new(weigh_for_everybody());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

impl NodeAgent {
    /// An ordinary user's, with these options.
    pub fn start(options: &[&str]) -> NodeAgent {
        NodeAgent::serve(by_nobody(), options)
    }

    /// Root's, without capabilities.
    fn of_root() -> NodeAgent {
        NodeAgent::of_root_with(&["--bounding-set=-all"], &[])
    }

    /// Root's, with these options of setpriv and these of its own.
    pub fn of_root_with(rights: &[&str], options: &[&str]) -> NodeAgent {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-all", "--no-new-privs"]).args(rights);
        command.arg(weigh_for_everybody());
        NodeAgent::serve(command, options)
    }

    fn serve(command: Command, options: &[&str]) -> NodeAgent {
        let scratch = Scratch::new();
        let (process, said) = start(command, &scratch, options);
        NodeAgent { process, scratch, said }
    }

    /// Root's, without capabilities, in the place of one that has ended.
    pub fn of_root_in(mut before: NodeAgent, options: &[&str]) -> NodeAgent {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]);
        command.arg(weigh_for_everybody());
        (before.process, before.said) = start(command, &before.scratch, options);
        before
    }

    /// Another one in its place, which has ended.
    pub fn start_again(&mut self, options: &[&str]) {
        (self.process, self.said) = start(by_nobody(), &self.scratch, options);
    }

    pub fn client(&self) -> StreamClient {
        let (socket, mut client) = (self.scratch.path("socket"), None);
        // Those who come too often are turned away for a while.
        wait_until("the agent takes a client", 30.0, || {
            client = StreamClient::connect(&socket).ok();
            client.is_some()
        });
        client.expect("it was taken")
    }

    pub fn stream(&self, name: &str) -> StreamStatus {
        let status = self.client().status().expect("a status");
        status.streams.into_iter().find(|stream| stream.name == name).expect("the stream")
    }

    /// Another weigh, of root or of an ordinary user, that asks this agent.
    pub fn weigh(&self, uid: u32, arguments: &[&str]) -> Output {
        let mut command = Command::new(weigh_for_everybody());
        if is_root() {
            command.uid(uid).gid(uid);
        }
        command.args(arguments).env("WEIGH_SOCKET", self.scratch.path("socket"));
        command.stdin(Stdio::null()).output().expect("weigh")
    }

    #[track_caller]
    pub fn done(&self, uid: u32, arguments: &[&str]) -> String {
        let output = self.weigh(uid, arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    #[track_caller]
    pub fn refused(&self, uid: u32, arguments: &[&str]) -> String {
        let output = self.weigh(uid, arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    }
}

impl NodeAgent {
    /// It ends by itself when it is told to.
    pub fn end(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.process.id() as i32).expect("a PID");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
        let mut status = None;
        wait_until("it ends", 10.0, || {
            status = self.process.try_wait().expect("a child");
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

impl Drop for NodeAgent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn read(stream: &str, from_sequence: u64) -> StreamRead {
    StreamRead {
        stream: stream.to_string(),
        from_sequence,
        at_most_bytes: 1 << 20,
        newest: false,
        wait: false,
        interval_ms: None,
    }
}

/// The next records of the node, at 10 Hz.
fn next(client: &StreamClient, from_sequence: u64) -> StreamRecords {
    let next = StreamRead { wait: true, interval_ms: Some(100), ..read(NODE, from_sequence) };
    client.read(next).expect("records")
}

fn report(records: &StreamRecords) -> &TopReport {
    match &records.records.last().expect("a record").body {
        RecordBody::Node(report) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_rights_it_serves_the_node_and_says_why_nothing_else() {
    let agent = NodeAgent::start(&[]);
    assert!(agent.said.contains("serves the node alone"), "{}", agent.said);
    let status: AgentStatus =
        serde_json::from_str(&agent.done(NOBODY, &["agent", "status", "--json"])).expect("JSON");
    assert_eq!((status.schema.as_str(), status.follows_jobs), (AGENT_STATUS, false));
    assert!(status.reason.as_ref().is_some_and(|why| why.contains("rights")), "{status:?}");
    assert_eq!(status.pid, agent.process.id());
    assert!(status.collectors.iter().any(|one| one.status == CollectorState::Active));
    let refused = RemoteJob::open(&agent.scratch.path("socket"), JobDetail::default());
    let why = refused.err().expect("nobody follows it").to_string();
    assert!(why.contains("serves the node alone") && why.contains("rights"), "{why}");
    // It is there after that.
    let text = agent.done(NOBODY, &["agent", "status"]);
    assert!(text.contains("are not served") && text.contains("fill(60)-read"), "{text}");
}

#[test]
fn a_reader_has_each_tick_of_the_node_and_its_processes() {
    let agent = NodeAgent::start(&["--interval", "1h"]);
    let client = agent.client();
    let mut records = next(&client, 0);
    let (begin, mut ticks) = (Instant::now(), 0);
    while ticks < 8 {
        let from = records.next_sequence;
        records = next(&client, from);
        assert_eq!((records.lost, records.first_sequence), (0, from));
        ticks += records.records.len();
    }
    // Ten a second because the reader wants it, not one an hour; and no more.
    let took = begin.elapsed();
    assert!((Duration::from_millis(650)..patience(5.0)).contains(&took), "{took:?}");
    let report = report(&records);
    assert_eq!(report.schema, TOP);
    assert!(
        report.interval_seconds.is_some_and(|s| (0.05..patience(1.0).as_secs_f64()).contains(&s))
    );
    let own = report.processes.iter().find(|process| process.pid == std::process::id());
    assert!(own.is_some_and(|own| own.threads > 1), "{own:?}");
    let status = agent.client().status().expect("a status");
    assert_eq!((status.interval_seconds, status.current_interval_seconds), (3600.0, 0.1));
    let stream = agent.stream(NODE);
    assert!(stream.is_active && stream.readers == 1 && stream.lost_total == 0, "{stream:?}");
    drop(client);
    wait_until("the reader is gone", 5.0, || agent.stream(NODE).readers == 0);
    assert_eq!(agent.client().status().expect("a status").current_interval_seconds, 3600.0);
}

#[test]
fn a_reader_that_stops_finds_what_the_policy_keeps_and_knows_what_it_has_missed() {
    let agent = NodeAgent::start(&["--interval", "0.1s"]);
    let user = if is_root() { NOBODY } else { 0 };
    for (policy, room) in [("fill(3)-read", 3), ("replace-read", 1), ("replace-drain", 1)] {
        agent.done(user, &["agent", "set", "--stream", NODE, "--policy", policy]);
        let (slow, quick) = (agent.client(), agent.client());
        let begin = next(&slow, 0).next_sequence;
        let mut at = begin;
        // The other one has them all, meanwhile.
        while at < begin + 8 {
            let records = next(&quick, at);
            assert_eq!(records.lost, 0, "{policy}");
            at = records.next_sequence;
        }
        let records = slow.read(read(NODE, begin)).expect("records");
        assert_eq!(records.records.len(), room, "{policy}");
        let missed = records.next_sequence - begin - room as u64;
        assert_eq!((records.lost, missed >= 5), (missed, true), "{policy}");
        assert!(agent.stream(NODE).lost_total >= missed, "{policy}");
    }
    assert_eq!(agent.stream(NODE).policy, StreamPolicy::ReplaceDrain);
}

#[test]
fn scripts_publish_values_and_hostile_names_are_refused() {
    let agent = NodeAgent::start(&[]);
    agent.done(
        NOBODY,
        &["push", "--scope", "job:17", "--unit", "bytes", "cache_bytes=1.5e9", "n=-0.25"],
    );
    let records = agent.client().read(read(PUSHED, 1)).expect("records");
    let found: Vec<String> = records
        .records
        .iter()
        .map(|record| match &record.body {
            RecordBody::Sample(sample) => {
                assert_eq!(record.source.uid.is_some_and(|uid| uid == NOBODY), is_root());
                format!("{} {} {}", sample.scope, sample.metric, sample.value)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, ["job:17 cache_bytes 1500000000", "job:17 n -0.25"]);
    let long = "a".repeat(70_000) + "=1";
    for hostile in ["<b>=1", "a b=1", "../x=1", "=1", "\u{1b}[2J=1", "a\"=1", &long, "7=1"] {
        let said = agent.refused(NOBODY, &["push", hostile]);
        assert!(said.contains("a name has letters") && said.len() < 400, "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
    for wrong in ["a", "a=", "a=x", "a=nan", "a=inf"] {
        assert!(agent.refused(NOBODY, &["push", wrong]).contains("expected"), "{wrong}");
    }
    assert!(agent.refused(NOBODY, &["push", "--scope", "a b", "a=1"]).contains("a scope has"));
    assert_eq!(agent.stream(PUSHED).next_sequence, 3, "of those none was taken");
}

#[test]
fn what_is_published_is_in_records_of_the_node_and_in_top() {
    let agent = NodeAgent::start(&[]);
    let depth = |report: &TopReport| {
        let found = report.published.iter().find(|value| value.metric == "depth");
        found.map(|value| (value.scope.to_string(), value.value, value.unit, value.pid.is_some()))
    };
    let expected = Some(("queue".to_string(), 17.5, Some(Unit::Bytes), true));
    let push = ["push", "--scope", "queue", "--unit", "bytes", "depth=3"];
    agent.done(NOBODY, &push);
    agent.done(NOBODY, &["push", "--scope", "queue", "--unit", "bytes", "depth=17.5"]);
    let client = agent.client();
    assert_eq!(depth(report(&next(&client, 0))), expected);
    let once = ["top", "--once", "--interval", "100ms"];
    let json = agent.done(NOBODY, &[&once[..], &["--json"]].concat());
    assert_eq!(depth(&serde_json::from_str(&json).expect("a report")), expected);
    let text = agent.done(NOBODY, &once);
    let line = text.lines().find(|line| line.starts_with("depth ")).expect("a line");
    assert!(line.contains(" 18 B ") && line.contains(" queue"), "{line}");
}

#[test]
fn others_than_root_and_the_agents_user_change_nothing() {
    needs_root!();
    let agent = NodeAgent::of_root();
    let policy = ["agent", "set", "--stream", PUSHED, "--policy", "fill-drain"];
    for change in [
        &policy[..],
        &["agent", "set", "--interval", "2s"],
        &["agent", "set", "--collector", "load=off"],
    ] {
        let said = agent.refused(NOBODY, change);
        assert!(said.contains("only root and the agent's own user"), "{said}");
        agent.done(0, change);
    }
    let status = agent.client().status().expect("a status");
    assert_eq!(status.interval_seconds, 2.0);
    let state = |status: &AgentStatus, name: &str| {
        let found = status.collectors.iter().find(|one| one.name == name);
        found.map(|one| one.status)
    };
    assert_eq!(state(&status, "load"), Some(CollectorState::Disabled));
    assert_eq!(state(&status, "cpu"), Some(CollectorState::Active));
    assert_eq!(agent.stream(PUSHED).policy, StreamPolicy::FillDrain);
    assert!(agent.refused(0, &["agent", "set", "--collector", "x=off"]).contains("expected cpu"));
    assert!(
        agent
            .refused(0, &["agent", "set", "--stream", "x", "--policy", "fill-drain"])
            .contains("expected events, node")
    );
    assert!(
        agent
            .refused(0, &["agent", "set", "--stream", NODE, "--policy", "x"])
            .contains("replace-read")
    );
}

/// One with the rights of the unit serves streams beside jobs.
#[test]
fn an_agent_with_rights_serves_streams_too() {
    needs_root!();
    let agent = Agent::start();
    let client = StreamClient::connect(&agent.scratch.path("socket")).expect("streams");
    let records = next(&client, 0);
    assert!(report(&records).processes.iter().any(|process| process.pid == agent.process.id()));
    let output = agent.weigh(&agent.scratch, &["agent", "status", "--json"]);
    let status: AgentStatus = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(status.follows_jobs && status.reason.is_none(), "{status:?}");
    // To an ordinary user itself alone, to root all: this test's reader, too.
    assert_eq!(status.served.iter().map(|one| one.uid).collect::<Vec<_>>(), [NOBODY]);
    let status = client.status().expect("a status");
    assert_eq!((status.served[0].uid, status.served[0].readers), (0, 1), "{status:?}");
}

#[test]
fn it_ends_when_it_is_told_to_and_takes_its_socket_away() {
    let mut agent = NodeAgent::start(&[]);
    let client = agent.client();
    agent.end();
    assert!(!agent.scratch.path("socket").exists());
    assert!(client.status().is_err());
}

#[test]
fn datagrams_of_statsd_are_added_up() {
    use std::net::UdpSocket;
    let free = || UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free().expect("a port");
    let agent = NodeAgent::start(&["--statsd", &address.to_string()]);
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for datagram in ["hits:3|c", "hits:4|c", "depth:17|g\n<b>:1|c"] {
        sender.send_to(datagram.as_bytes(), address).expect("sends");
    }
    let wait = StreamRead { wait: true, ..read(PUSHED, 1) };
    let records = agent.client().read(wait).expect("records");
    let found = records.records.iter().map(|record| match &record.body {
        RecordBody::Sample(sample) => (sample.metric.clone(), sample.value),
        other => panic!("{other:?}"),
    });
    let expected = [("depth".to_string(), 17.0), ("hits_total".to_string(), 7.0)];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(agent.stream(PUSHED).refused_total, 1);
}

/// The message has a gauge, growth of a counter, a histogram and a summary; it is sent twice.
#[test]
fn metrics_of_opentelemetry_are_taken_and_growth_is_added_up() {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    let message = include_bytes!("../../../../fuzz/seeds/otlp_metrics/kinds");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.expect("a port");
    let agent = NodeAgent::start(&["--otlp", &address.to_string()]);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let mut send_message = |kind: &str, message: &[u8]| {
        let head = format!(
            "POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            message.len()
        );
        stream.write_all(&[head.as_bytes(), message].concat()).expect("sends");
        let mut answer = [0; 512];
        let length = stream.read(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer[..length]).lines().next().unwrap_or_default().to_string()
    };
    assert_eq!(send_message("application/x-protobuf", message), "HTTP/1.1 200 OK");
    assert_eq!(send_message("application/x-protobuf", message), "HTTP/1.1 200 OK");
    let json = r#"{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
        "scopeMetrics":[{"metrics":[
            {"name":"sold","unit":"1","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{"asInt":"3"}]}},
            {"name":"odd","gauge":{"dataPoints":[{"asDouble":"NaN"}]}},
            {"name":"<b>","gauge":{"dataPoints":[{"asDouble":1}]}}]}]}]}"#;
    assert_eq!(send_message("application/json", json.as_bytes()), "HTTP/1.1 200 OK");
    assert_eq!(send_message("application/json", message), "HTTP/1.1 400 Bad Request");
    let deep = [b'['; 100_000];
    assert_eq!(send_message("application/json", &deep), "HTTP/1.1 400 Bad Request");
    let other = send_message("application/grpc", message);
    assert_eq!(other, "HTTP/1.1 415 Unsupported Media Type");
    let records = agent.client().read(read(PUSHED, 1)).expect("records");
    let uid = rustix::process::geteuid().as_raw();
    let found = records.records.iter().map(|record| match &record.body {
        RecordBody::Sample(sample) => {
            assert_eq!((record.source.uid, record.source.client), (Some(uid), RecordClient::Otlp));
            (sample.scope.to_string(), sample.metric.clone(), sample.value)
        }
        other => panic!("{other:?}"),
    });
    let row = |scope: &str, metric: &str, value| (scope.to_string(), metric.to_string(), value);
    let once = |sold| {
        [
            row("service:shop:route:/cart", "queue_length", 1.5),
            row("service:shop", "sold_total", sold),
            row("service:shop", "took_seconds_total", 2.5),
            row("service:shop", "took_samples_total", 4.0),
        ]
    };
    // What comes in JSON is the same sum.
    let in_json = [row("service:shop", "sold_total", 17.0), row("service:shop", "_b_", 1.0)];
    assert_eq!(found.collect::<Vec<_>>(), [&once(7.0)[..], &once(14.0), &in_json[..]].concat());
    // A summary each time; no number in JSON; two messages that make no sense, and a form that is not taken.
    assert_eq!(agent.stream(PUSHED).refused_total, 2 + 1 + 3);
}

#[test]
fn an_event_that_a_client_publishes_is_there_as_its_own_and_no_rules() {
    let agent = NodeAgent::start(&[]);
    let text = "deployed=version 3 \u{1b}[31mis out";
    agent.done(NOBODY, &["push", "--scope", "job:7", "--severity", "warning", "--event", text]);
    let records = agent.client().read(read(PUSHED, 1)).expect("records").records;
    let RecordBody::PublishedEvent(event) = &records[0].body else { panic!("{records:?}") };
    assert_eq!((event.name.as_str(), event.severity), ("deployed", Severity::Warning));
    assert_eq!(
        (event.text.as_str(), event.scope.to_string()),
        ("version 3 \\u{1b}[31mis out", "job:7".into())
    );
    assert_eq!(agent.stream(EVENTS).next_sequence, 1, "no rule has said anything");
    for (wrong, expected) in [("<b>=x", "letters"), ("a=", "1 to 1024 bytes"), ("a", "NAME=TEXT")] {
        let output = agent.weigh(NOBODY, &["push", "--event", wrong]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{wrong}: {said}");
    }
}

#[test]
fn a_stream_is_read_from_a_shell_with_what_was_lost() {
    let agent = NodeAgent::start(&[]);
    let policy = ["agent", "set", "--stream", "pushed", "--policy", "fill(3)-read"];
    agent.done(NOBODY, &policy);
    for value in 1..=5 {
        agent.done(NOBODY, &["push", &format!("a={value}")]);
    }
    let lines = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let output = agent.weigh(NOBODY, &[&["agent", "read", "pushed"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let sequences = |lines: &[serde_json::Value]| -> Vec<u64> {
        lines.iter().filter_map(|line| line["sequence"].as_u64()).collect()
    };
    let all = lines(&["--from", "1"]);
    assert_eq!(all[0], serde_json::json!({"lost": 2, "next_sequence": 3}));
    assert_eq!((all.len(), sequences(&all)), (4, vec![3, 4, 5]));
    assert_eq!(all[3]["body"]["sample"]["value"], 5.0);
    assert_eq!(sequences(&lines(&["--newest"])), [5]);
    assert_eq!(sequences(&lines(&["--from", "4", "--count", "1"])), [4]);
    assert_eq!(sequences(&lines(&["--from", "5", "--follow", "--count", "1"])), [5]);
    let unknown = agent.weigh(NOBODY, &["agent", "read", "weather"]);
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(125), 0));
}

/// What was published before a restart is there after it, with its numbers.
#[test]
fn streams_survive_a_restart() {
    let scratch = Scratch::new();
    let state = scratch.path("work/state");
    let options = ["--state", state.to_str().expect("text")];
    let mut agent = NodeAgent::start(&options);
    agent.done(NOBODY, &["push", "a=1", "b=2", "c=3"]);
    let before = agent.client().read(read(PUSHED, 1)).expect("records");
    agent.end();
    let mode = std::os::unix::fs::MetadataExt::mode(&state.metadata().expect("a file"));
    assert_eq!(mode & 0o777, 0o600);
    let agent = NodeAgent::start(&options);
    assert!(!state.exists(), "its numbers go on");
    agent.done(NOBODY, &["push", "d=4"]);
    let after = agent.client().read(read(PUSHED, 1)).expect("records");
    assert_eq!((&after.records[..3], after.lost), (&before.records[..], 0));
    assert_eq!((after.records[3].sequence, after.next_sequence), (4, 5));
    assert_eq!(after.numbering_ns, before.numbering_ns);
}
