//! Regions that programs publish to `weigh agent`: exact odd numbers of calls as the program counts them, killed programs, what
//! other users see of it, what does not belong there, and spans of OpenTelemetry.

use std::collections::BTreeMap;
use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with,
};
use weigh_schema::Quality;
use weigh_schema::profile::layout;
use weigh_schema::stream::{
    PROFILES, ProgramProfile, ProgramState, RecordBody, RecordClient, StreamRead, StreamRecord,
};
use weigh_schema::top::TopReport;

use super::agent_node::NodeAgent;
use crate::support::agent::NOBODY;
use crate::support::library::program;
use crate::support::{is_root, wait_until};

/// Another user than the agent's, whose programs these are.
const SOMEBODY: u32 = 61_234;
const OTHER: u32 = 61_235;

/// A program of that user that finds this agent, with this said of regions.
fn run(agent: &NodeAgent, regions: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = Command::new(program("regions_run"));
    command.args(arguments).env("WEIGH_SOCKET", agent.scratch.path("socket"));
    command.env_remove("WEIGH_REGIONS");
    command.envs(regions.map(|value| ("WEIGH_REGIONS", value)));
    if is_root() {
        command.uid(SOMEBODY).gid(SOMEBODY);
    }
    command.output().expect("it starts")
}

fn records(agent: &NodeAgent) -> Vec<StreamRecord> {
    let (client, mut from, mut found) = (agent.client(), 1, Vec::new());
    loop {
        let read = StreamRead {
            stream: PROFILES.to_string(),
            from_sequence: from,
            at_most_bytes: 1 << 20,
            newest: false,
            wait: false,
            interval_ms: None,
        };
        let mut part = client.read(read).expect("records");
        assert_eq!(part.lost, 0);
        from = part.next_sequence;
        if part.records.is_empty() && part.hidden == 0 {
            return found;
        }
        found.append(&mut part.records);
    }
}

/// The last record of the only program, once it has this state.
#[track_caller]
fn last(agent: &NodeAgent, state: ProgramState) -> (StreamRecord, ProgramProfile) {
    let mut found = None;
    wait_until("the program's end is told", 20.0, || {
        found = records(agent).into_iter().next_back();
        found.as_ref().is_some_and(|record| profile(record).state == state)
    });
    let record = found.expect("a record");
    let profile = profile(&record).clone();
    (record, profile)
}

fn profile(record: &StreamRecord) -> &ProgramProfile {
    match &record.body {
        RecordBody::Profile(profile) => profile,
        other => panic!("{other:?}"),
    }
}

/// What `regions_run count` does.
#[track_caller]
fn has_counted(profile: &ProgramProfile) {
    let found = &profile.regions;
    let calls: BTreeMap<&str, u64> =
        found.top.iter().map(|region| (region.name.as_str(), region.calls)).collect();
    let expected =
        [("around", 1), ("iteration", 17), ("left open", 1), ("solve", 3), ("step", 3 * 41)];
    assert_eq!(calls, expected.into());
    assert_eq!(found.calls_total, 1 + 17 + 1 + 3 + 123);
    assert!(found.top.iter().all(|region| region.quality == Quality::Exact), "{found:?}");
    let step = found.top.iter().find(|region| region.name == "step").expect("a region");
    assert!(step.inclusive_seconds >= 123.0 * 20e-6, "{step:?}");
    let counters: BTreeMap<&str, (f64, u64)> =
        found.counters.iter().map(|c| (c.name.as_str(), (c.value, c.samples))).collect();
    let cells = f64::from(17 * 4096 + (0..17).sum::<i32>());
    assert_eq!((counters["cells"], counters["faces"]), ((cells, 17), (cells, 17)));
    assert_eq!((counters["residual"], counters["restart"]), ((1.0 / 17.0, 17), (2.5, 1)));
    assert_eq!(found.metadata["input"], "case-7.nml");
    assert_eq!((found.publishes_total, found.unbalanced_calls_total), (17, 1));
    assert_eq!((found.processes_total, found.cut_short_total), (1, 0));
    assert!(found.lost.is_empty() && found.refused.is_empty(), "{found:?}");
}

#[test]
fn a_program_publishes_where_it_was_asked_to_and_its_numbers_are_those_it_counted() {
    let agent = NodeAgent::start(&[]);
    assert!(run(&agent, None, &["count"]).status.success());
    assert!(run(&agent, Some("agents"), &["count"]).status.success());
    assert!(run(&agent, Some("agent"), &["count"]).status.success());
    let (record, profile) = last(&agent, ProgramState::Ended);
    has_counted(&profile);
    let uid = if is_root() { SOMEBODY } else { rustix::process::geteuid().as_raw() };
    assert_eq!((record.source.uid, record.source.client), (Some(uid), RecordClient::Socket));
    let pids: std::collections::BTreeSet<_> =
        records(&agent).iter().map(|record| record.source.pid).collect();
    assert_eq!(pids, [record.source.pid].into(), "nobody else has published anything");
    let status = agent.stream(PROFILES);
    assert_eq!((status.refused_total, status.next_sequence), (0, record.sequence + 1));
}

#[test]
fn a_program_that_is_killed_leaves_what_it_had_done() {
    let agent = NodeAgent::start(&[]);
    assert!(!run(&agent, Some("agent"), &["killed"]).status.success());
    let (_, profile) = last(&agent, ProgramState::CutShort);
    let found = &profile.regions;
    assert_eq!((found.calls_total, found.open_calls_total, found.cut_short_total), (7, 1, 1));
    let open = found.top.iter().find(|region| region.name == "open").expect("a region");
    assert_eq!((open.calls, open.open_calls), (0, 1));
}

#[test]
fn only_its_user_and_root_see_what_a_program_publishes() {
    needs_root!();
    let agent = NodeAgent::start(&[]);
    run(&agent, Some("agent"), &["count"]);
    last(&agent, ProgramState::Ended);
    let seen = |uid: u32| {
        let lines = agent.done(uid, &["agent", "read", PROFILES]).lines().count() as u64;
        let top = agent.done(uid, &["top", "--once", "--json"]);
        let report: TopReport = serde_json::from_str(&top).expect("a report");
        let text = agent.done(uid, &["top", "--once"]);
        let calls = report.profiles.iter().map(|program| program.calls_total).sum::<u64>();
        (lines, calls, text.contains("regions_run") && text.contains("  step"))
    };
    let all = agent.stream(PROFILES).next_sequence - 1;
    assert!(all > 0);
    assert_eq!(seen(SOMEBODY), (all, 145, true));
    assert_eq!(seen(0), (all, 145, true));
    assert_eq!(seen(OTHER), (0, 0, false));
    // The agent's own user is one who may see all.
    assert_eq!(seen(NOBODY), (all, 145, true));
    let said = |uid| {
        let output = agent.weigh(uid, &["agent", "read", PROFILES]);
        String::from_utf8(output.stderr).expect("text")
    };
    let are = if all == 1 {
        "1 record is another user's".into()
    } else {
        format!("{all} records are other users'")
    };
    assert_eq!(said(OTHER), format!("weigh: {are}: root and the agent's own user see all\n"));
    assert_eq!((said(SOMEBODY), said(0)), (String::new(), String::new()));
}

#[test]
fn the_last_numbers_survive_a_restart_of_the_agent() {
    let scratch = crate::support::run::Scratch::new();
    let state = scratch.path("state").display().to_string();
    std::fs::set_permissions(
        scratch.path("."),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .expect("permissions");
    let mut agent = NodeAgent::start(&["--state", &state]);
    run(&agent, Some("agent"), &["count"]);
    last(&agent, ProgramState::Ended);
    // One that runs on: what it had done is the last that is known of it.
    let mut deaf = Command::new(program("regions_run"));
    deaf.arg("deaf").env("WEIGH_REGIONS", "agent");
    deaf.env("WEIGH_SOCKET", agent.scratch.path("socket"));
    let deaf = crate::support::mortal::Mortal::of(deaf.spawn());
    wait_until("it is known", 20.0, || {
        records(&agent).iter().any(|record| record.source.pid == Some(deaf.id()))
    });
    let before = records(&agent);
    let pid = rustix::process::Pid::from_child(&agent.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert!(agent.process.wait().expect("its end").success());
    agent.start_again(&["--state", &state]);
    let after = records(&agent);
    let counts = |records: &[StreamRecord]| {
        let of = |record: &StreamRecord| {
            let found = profile(record).regions.clone();
            (record.sequence, record.source, found.calls_total, found.publishes_total)
        };
        records.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(counts(&after[..before.len()]), counts(&before));
    let end = profile(after.last().expect("a record"));
    assert_eq!((end.state, end.regions.open_calls_total), (ProgramState::Left, 1));
    assert_eq!(after.len(), before.len() + 1);
}

fn send(agent: &NodeAgent, words: &[u64], files: &[&OwnedFd]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("a socket");
    let path = agent.scratch.path("socket");
    connect(&socket, &SocketAddrUnix::new(&path).expect("an address")).expect("it listens");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).expect("sends");
}

fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("profile", MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, bytes).expect("its size");
    fcntl_add_seals(&file, seals).expect("its seals");
    file
}

#[test]
fn what_is_no_profile_is_refused_and_counted_and_holds_nothing_up() {
    let agent = NodeAgent::start(&[]);
    let hello = [layout(), 0, 0, 1];
    let sealed = SealFlags::SHRINK | SealFlags::FUTURE_WRITE;
    let wrong = [
        std::fs::File::open("/dev/null").expect("a file").into(),
        memory(8 << 10, SealFlags::SHRINK),
        memory(8 << 10, SealFlags::FUTURE_WRITE),
        memory(8 << 10, sealed),
        memory((64 << 20) + 8, sealed),
        memory(64, sealed),
    ];
    wrong.iter().for_each(|file| send(&agent, &hello, &[file]));
    wait_until("all are refused", 20.0, || {
        agent.stream(PROFILES).refused_total == wrong.len() as u64
    });
    // These are no messages with a profile at all.
    send(&agent, &hello, &[]);
    send(&agent, &hello, &[&wrong[3], &wrong[3]]);
    send(&agent, &[layout() ^ 1, 0, 0, 1], &[&wrong[3]]);
    send(&agent, &[layout(), 0, 0, 1, 0], &[&wrong[3]]);
    run(&agent, Some("agent"), &["count"]);
    has_counted(&last(&agent, ProgramState::Ended).1);
    assert_eq!(agent.stream(PROFILES).refused_total, wrong.len() as u64);
}

#[test]
fn spans_that_come_by_otlp_are_regions_of_their_user() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.expect("a port");
    let agent = NodeAgent::start(&["--otlp", &address.to_string()]);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let span = |id: u64, parent: u64, name: &str, from: u64, to: u64| {
        let parent = match parent {
            0 => String::new(),
            parent => format!("\"parentSpanId\":\"{parent:016x}\","),
        };
        format!(
            "{{\"traceId\":\"{:032x}\",\"spanId\":\"{id:016x}\",{parent}\"name\":\"{name}\",\
             \"startTimeUnixNano\":\"{from}\",\"endTimeUnixNano\":\"{to}\"}}",
            7
        )
    };
    let steps = (0..41).map(|n| span(n + 2, 1, "step", 1_000 + 10 * n, 1_007 + 10 * n));
    let spans: Vec<String> = steps.chain([span(1, 0, "solve <b>", 1_000, 2_000)]).collect();
    let body = format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"shop"}}}},
        {{"key":"process.pid","value":{{"intValue":"4711"}}}}]}},"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
        spans.join(",")
    );
    let mut post = |path: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("sends");
        let mut answer = [0; 512];
        let length = stream.read(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer[..length]).lines().next().unwrap_or_default().to_string()
    };
    assert_eq!(post("/v1/traces", &body), "HTTP/1.1 200 OK");
    assert_eq!(post("/v1/traces", "{\"resourceSpans\":7}"), "HTTP/1.1 400 Bad Request");
    wait_until("the spans are told", 20.0, || !records(&agent).is_empty());
    let found = records(&agent);
    let (source, profile) = (found[0].source, profile(&found[0]));
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!((source.uid, source.pid, source.client), (Some(uid), None, RecordClient::Otlp));
    assert_eq!((profile.name.as_str(), profile.told_pid), ("shop", Some(4711)));
    let rows: Vec<(&str, u64, u64)> = profile
        .regions
        .top
        .iter()
        .map(|region| {
            let ns = (region.exclusive_seconds * 1e9).round() as u64;
            (region.name.as_str(), region.calls, ns)
        })
        .collect();
    assert_eq!(rows, [("solve <b>", 1, 1_000 - 41 * 7), ("step", 41, 41 * 7)]);
    assert_eq!((profile.regions.calls_total, agent.stream(PROFILES).refused_total), (42, 0));
    assert_eq!(post("/v1/logs", "{}"), "HTTP/1.1 404 Not Found");
}
