//! Streams by their socket: what each reader gets, and what nobody may.

use std::os::unix::net::UnixStream;

use weigh_schema::stream::{
    CollectorSwitch, PROFILES, PUSHED, PageViewer, PolicyChange, ProgramProfile, PushedSample,
    RecordBody, RecordClient, RecordSource, StreamPolicy, StreamRead, StreamRecords,
};
use weigh_wire::{Answer, Peer, StreamRequest, receive, send};

use super::server::{StreamServer, StreamSettings};
use super::{NodeControl, PageAccess, StreamDoor, Visibility};
use std::time::{Duration, Instant};

const STRANGER: u32 = 4_000_001;

fn server() -> (StreamServer, StreamDoor) {
    let settings = StreamSettings {
        interval: Duration::from_secs(1),
        why_no_jobs: Some("a test".into()),
        statsd: None,
        otlp: None,
    };
    StreamServer::new(settings).unwrap()
}

fn connect(door: &StreamDoor, uid: u32) -> UnixStream {
    let stream: UnixStream = door.pass(Peer { pid: 7, uid, gid: uid }, uid).unwrap().into();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn ask(server: &mut StreamServer, stream: &UnixStream, request: StreamRequest) -> Answer {
    send(stream, &request, &[]).unwrap();
    (0..3).for_each(|_| server.handle(Instant::now(), &Vec::new).unwrap());
    receive(stream).unwrap().unwrap().0
}

fn refused(answer: Answer) -> String {
    match answer {
        Answer::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

fn samples(count: u32, value: f64) -> StreamRequest {
    let sample = |number: u32| PushedSample {
        scope: "node".to_string().into(),
        metric: format!("metric_{number}"),
        value,
        unit: None,
        query: None,
    };
    StreamRequest::Push((0..count).map(sample).collect())
}

fn read(from_sequence: u64) -> StreamRead {
    StreamRead {
        stream: PUSHED.into(),
        from_sequence,
        at_most_bytes: 1 << 20,
        newest: false,
        wait: false,
        interval_ms: None,
    }
}

fn records(server: &mut StreamServer, stream: &UnixStream, from: u64) -> StreamRecords {
    match ask(server, stream, StreamRequest::Read(read(from))) {
        Answer::Stream(records) => *records,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_one_publishes_others_read_with_its_source() {
    let (mut server, door) = server();
    let (one, other) = (connect(&door, STRANGER), connect(&door, STRANGER + 1));
    assert_eq!(ask(&mut server, &one, samples(3, 1.5)), Answer::Done);
    let found = records(&mut server, &other, 2);
    assert_eq!((found.first_sequence, found.next_sequence, found.lost), (2, 4, 0));
    let source = RecordSource { uid: Some(STRANGER), pid: Some(7), client: RecordClient::Socket };
    assert_eq!(found.records[1].source, source);
    let RecordBody::Sample(sample) = &found.records[1].body else { panic!("{found:?}") };
    assert_eq!((sample.metric.as_str(), sample.value), ("metric_2", 1.5));
}

#[test]
fn a_reader_that_waits_has_the_record_when_it_comes() {
    let (mut server, door) = server();
    let (one, other) = (connect(&door, STRANGER), connect(&door, STRANGER));
    send(&other, &StreamRequest::Read(StreamRead { wait: true, ..read(1) }), &[]).unwrap();
    (0..3).for_each(|_| server.handle(Instant::now(), &Vec::new).unwrap());
    assert!(server.deadline().is_some());
    assert_eq!(ask(&mut server, &one, samples(1, 0.0)), Answer::Done);
    let (answer, _) = receive::<Answer>(&other).unwrap().unwrap();
    assert!(matches!(answer, Answer::Stream(found) if found.records.len() == 1));
    assert!(server.deadline().is_none());
    // One that goes while it waits leaves nothing.
    send(&other, &StreamRequest::Read(StreamRead { wait: true, ..read(2) }), &[]).unwrap();
    (0..3).for_each(|_| server.handle(Instant::now(), &Vec::new).unwrap());
    drop(other);
    (0..3).for_each(|_| server.handle(Instant::now(), &Vec::new).unwrap());
    assert_eq!((server.connections.len(), server.deadline()), (1, None));
}

#[test]
fn one_that_publishes_without_end_is_stopped_and_no_other() {
    let (mut server, door) = server();
    let flood = connect(&door, STRANGER);
    let mut taken = 0;
    let why = loop {
        match ask(&mut server, &flood, samples(50, 0.0)) {
            Answer::Done => taken += 50,
            answer => break refused(answer),
        }
    };
    assert!((1000..1500).contains(&taken), "{taken}");
    assert!(why.contains("as many values"), "{why}");
    // More clients of the same user get what is left to the user.
    let second = connect(&door, STRANGER);
    while ask(&mut server, &second, samples(50, 0.0)) == Answer::Done {
        taken += 50;
    }
    let third = connect(&door, STRANGER);
    while ask(&mut server, &third, samples(50, 0.0)) == Answer::Done {
        taken += 50;
    }
    assert!((2000..2600).contains(&taken), "{taken}");
    let other = connect(&door, STRANGER + 1);
    assert_eq!(ask(&mut server, &other, samples(64, 0.0)), Answer::Done);
    let found = records(&mut server, &other, 1);
    assert_eq!(found.lost, 0, "all that was taken is there");
    assert!(server.streams[PUSHED].refused >= 3 * 50);
}

#[test]
fn only_root_and_the_agents_user_change_anything() {
    let (mut server, door) = server();
    let changes = || {
        let policy = StreamPolicy::FillDrain;
        [
            StreamRequest::SetPolicy(PolicyChange { stream: PUSHED.into(), policy }),
            StreamRequest::SetInterval(500),
            StreamRequest::SetCollector(CollectorSwitch { collector: "cpu".into(), is_on: false }),
        ]
    };
    let stranger = connect(&door, STRANGER);
    for change in changes() {
        assert!(refused(ask(&mut server, &stranger, change)).contains("only root"));
    }
    assert_eq!(server.interval(), Duration::from_secs(1));
    let own = connect(&door, rustix::process::geteuid().as_raw());
    let [policy, interval, collector] = changes();
    assert_eq!(ask(&mut server, &own, policy), Answer::Done);
    assert_eq!(ask(&mut server, &own, interval), Answer::Done);
    assert!(refused(ask(&mut server, &own, collector)).contains("no such collector"));
    assert_eq!(server.interval(), Duration::from_millis(500));
    assert_eq!(server.take_controls(), [NodeControl::Interval(Duration::from_millis(500))]);
    assert_eq!(server.streams[PUSHED].buffer.policy(), StreamPolicy::FillDrain);
}

#[test]
fn a_reader_has_the_node_read_more_often_as_long_as_it_is_there() {
    let (mut server, door) = server();
    assert!(!server.wants_node());
    let reader = connect(&door, STRANGER);
    let node = StreamRead { stream: "node".into(), interval_ms: Some(1), ..read(0) };
    ask(&mut server, &reader, StreamRequest::Read(node));
    assert_eq!((server.interval(), server.wants_node()), (Duration::from_millis(100), true));
    drop(reader);
    (0..3).for_each(|_| server.handle(Instant::now(), &Vec::new).unwrap());
    assert_eq!(server.interval(), Duration::from_secs(1));
    assert!(server.wants_node(), "it may come back");
}

#[test]
fn a_token_shows_what_its_holder_may_see_and_changes_nothing() {
    let (mut server, door) = server();
    let stranger = connect(&door, STRANGER);
    assert!(refused(ask(&mut server, &stranger, StreamRequest::PageUrl)).contains("no page"));
    let page = PageAccess::new(None);
    server.set_page(page.clone());
    assert!(refused(ask(&mut server, &stranger, StreamRequest::PageUrl)).contains("not served"));
    page.set_started(8);
    page.set_served("127.0.0.1:4000".parse().unwrap(), "http://127.0.0.1:4000");
    let token = |server: &mut StreamServer, uid: u32| {
        let stream = connect(&door, uid);
        let Answer::PageUrl(url) = ask(server, &stream, StreamRequest::PageUrl) else { panic!() };
        url.rsplit_once('=').unwrap().1.to_string()
    };
    let (of_root, of_stranger) = (token(&mut server, 0), token(&mut server, STRANGER));
    // One who is behind a namespace's root is not root.
    let inside = door.pass(Peer { pid: 7, uid: 0, gid: 0 }, STRANGER).unwrap();
    let inside: UnixStream = inside.into();
    assert!(refused(ask(&mut server, &inside, StreamRequest::PageUrl)).contains("namespace"));
    // The page's process, which is of the agent's own user.
    let own = rustix::process::geteuid().as_raw();
    let shown: UnixStream = door.pass(Peer { pid: 8, uid: own, gid: own }, own).unwrap().into();
    let change = || StreamRequest::SetInterval(500);
    assert!(refused(ask(&mut server, &shown, change())).contains("only reads"));
    let login = |token: &str| StreamRequest::Login(token.to_string());
    assert_eq!(ask(&mut server, &shown, login(&"0".repeat(64))), Answer::Is(false));
    for (token, uid) in [(&of_stranger, STRANGER), (&of_root, 0)] {
        let viewer = PageViewer { uid: Some(uid) };
        assert_eq!(ask(&mut server, &shown, login(token)), Answer::Viewer(viewer));
        let connection = server.connections.values().next_back().unwrap();
        assert_eq!((connection.viewer.uid, connection.user), (uid, uid));
        assert_eq!(connection.viewer.is_trusted, uid == 0);
        assert!(refused(ask(&mut server, &shown, change())).contains("only reads"));
        assert!(refused(ask(&mut server, &shown, StreamRequest::PageUrl)).contains("only reads"));
    }
    assert_eq!(token(&mut server, STRANGER), of_stranger, "it stays the same");
}

#[test]
fn a_user_has_so_many_clients_and_leaves_some_to_others() {
    let (mut server, door) = server();
    let mut held = Vec::new();
    let why = loop {
        let stream = connect(&door, STRANGER);
        match ask(&mut server, &stream, StreamRequest::Status) {
            Answer::Status(status) => assert_eq!(status.served.len(), 1),
            answer => break refused(answer),
        }
        held.push(stream);
    };
    assert_eq!(held.len(), crate::quota::READERS.of_a_user);
    assert!(why.contains("as many clients"), "{why}");
    let other = connect(&door, STRANGER + 1);
    assert!(matches!(ask(&mut server, &other, StreamRequest::Status), Answer::Status(_)));
    held.pop();
    (0..20).for_each(|_| server.handle(Instant::now(), &Vec::new).unwrap());
    let again = connect(&door, STRANGER);
    assert!(matches!(ask(&mut server, &again, StreamRequest::Status), Answer::Status(_)));
}

#[test]
fn what_is_no_request_ends_its_client_alone() {
    use std::io::Write as _;
    let (mut server, door) = server();
    let other = connect(&door, STRANGER);
    for wrong in [vec![b'x'; 32], vec![0xff; 4096], b"{}".repeat(40)] {
        let mut stream = connect(&door, STRANGER);
        stream.write_all(&wrong).unwrap();
        (0..3).for_each(|_| server.handle(Instant::now(), &Vec::new).unwrap());
        refused(receive(&stream).unwrap().unwrap().0);
    }
    refused(ask(
        &mut server,
        &other,
        StreamRequest::Read(StreamRead { stream: "\x1b".into(), ..read(0) }),
    ));
    assert_eq!(ask(&mut server, &other, samples(1, 0.0)), Answer::Done);
}

fn write_profile(server: &mut StreamServer, uid: u32, calls: u64) {
    let mut profile = ProgramProfile { name: "solver".into(), ..ProgramProfile::default() };
    profile.regions.calls_total = calls;
    let source = RecordSource { uid: Some(uid), pid: Some(7), client: RecordClient::Socket };
    server.write_profile(source, profile, false);
}

#[test]
fn regions_are_shown_to_their_user_and_root_and_counted_for_others() {
    let (mut server, door) = server();
    let own = rustix::process::geteuid().as_raw();
    for calls in 0..7 {
        write_profile(&mut server, STRANGER + u32::from(calls % 2 == 1), calls);
    }
    let read = || StreamRequest::Read(StreamRead { stream: PROFILES.into(), ..read(1) });
    let seen = |server: &mut StreamServer, uid| {
        let stream = connect(&door, uid);
        let Answer::Stream(found) = ask(server, &stream, read()) else { panic!() };
        let calls = found.records.iter().map(|record| match &record.body {
            RecordBody::Profile(profile) => profile.regions.calls_total,
            other => panic!("{other:?}"),
        });
        (calls.collect::<Vec<u64>>(), found.hidden, found.lost, found.next_sequence)
    };
    assert_eq!(seen(&mut server, STRANGER), (vec![0, 2, 4, 6], 3, 0, 8));
    assert_eq!(seen(&mut server, STRANGER + 1), (vec![1, 3, 5], 4, 0, 8));
    assert_eq!(seen(&mut server, STRANGER + 2), (vec![], 7, 0, 8));
    assert_eq!(seen(&mut server, own), ((0..7).collect(), 0, 0, 8));
    // They survive a restart, and stay hidden.
    let state = server.checkpoint();
    let (mut second, door) = super::tests::server();
    assert_eq!(second.restore(&state, &Visibility::Everybody), (7, 0));
    assert_eq!(second.checkpoint(), state, "count in, count out");
    let stream = connect(&door, STRANGER + 2);
    let Answer::Stream(found) = ask(&mut second, &stream, read()) else { panic!() };
    assert_eq!((found.records.len(), found.hidden), (0, 7));
    let rows: Vec<u64> = server.profiles().iter().map(|row| row.calls_total).collect();
    assert_eq!(rows, [6, 5], "the latest of each program");
}

#[test]
fn streams_go_on_after_a_restart_and_each_record_is_there_or_counted() {
    let (mut first, door) = server();
    let one = connect(&door, rustix::process::geteuid().as_raw());
    let policy = StreamPolicy::FillRead(12);
    ask(&mut first, &one, StreamRequest::SetPolicy(PolicyChange { stream: PUSHED.into(), policy }));
    assert_eq!(ask(&mut first, &one, samples(17, 2.5)), Answer::Done);
    assert_eq!(records(&mut first, &one, 1).lost, 5);
    let state = first.checkpoint();
    let (mut second, door) = server();
    assert_eq!(second.restore(&state, &Visibility::Everybody), (12, 0));
    assert_eq!(second.checkpoint(), state, "count in, count out");
    let other = connect(&door, STRANGER);
    let found = records(&mut second, &other, 9);
    assert_eq!((found.records.len(), found.lost, found.next_sequence), (9, 0, 18));
    assert_eq!(found.numbering_ns, first.streams[PUSHED].numbering_ns);
    assert_eq!(ask(&mut second, &other, samples(1, 0.0)), Answer::Done);
    assert_eq!(records(&mut second, &other, 18).records[0].sequence, 18);
    // Altered files make nobody fail, and give no number twice.
    for end in 0..state.len() {
        let (mut third, _) = server();
        let (restored, missing) = third.restore(&state[..end], &Visibility::Everybody);
        assert!(restored + missing == 12 || third.streams[PUSHED].buffer.is_empty());
        let mut altered = state.clone();
        altered[end] ^= 0x11;
        let _ = server().0.restore(&altered, &Visibility::Everybody);
    }
}
