//! A busy node, replayed into an agent's streams and rules: 2,000 ticks, or 72 h (`WEIGH_REPLAY_TICKS=259200`), with jobs and
//! disks that come and go, and readers that are slow, that come again and that read all. Memory stays flat, and each record
//! is had or counted as lost.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::net::{RecvFlags, recv};
use weigh_account::rules::{RuleMoment, RuleSet, RuleState, job_inputs};
use weigh_agent::{StreamDoor, StreamServer, StreamSettings, Visibility};
use weigh_collect::allocation_count::{CountingAllocator, live_bytes};
use weigh_schema::node_metric::*;
use weigh_schema::rule::{RuleChange, RuleStanding};
use weigh_schema::sample::{Sample, SampleTable};
use weigh_schema::stream::{EVENTS, NODE, RecordBody, StreamRead, StreamRecords};
use weigh_schema::top::{TopJob, TopReport};
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Number, Quality};
use weigh_session::products::top::{ListedProcesses, TopSettings, TopSource};
use weigh_wire::{Answer, Peer, StreamRequest, decode, send};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const TICKS: u64 = 2000;
/// Ticks after which the buffers are full and the machine was in each of its states.
const WARM_UP: u64 = 900;

/// A report of this machine, as the agent records it.
fn recorded() -> TopReport {
    let settings =
        TopSettings { interval: Duration::from_millis(50), listed: ListedProcesses::Everybody };
    let mut top = TopSource::new(settings, None);
    (0..2).for_each(|_| while !top.tick_if_due() {});
    let mut report = top.take_report().expect("a report");
    report.processes.truncate(20);
    report
}

/// What the collectors say at a tick: disks come and go, memory is short now and then.
struct Table {
    layout: u64,
    samples: Vec<(Scope, &'static Metric, f64)>,
}

impl Table {
    fn at(tick: u64) -> Table {
        let available = if tick % 500 < 60 { 3.0 } else { 60.0 };
        let mut samples = vec![
            (Scope::Core(0), &node_cpu_idle_seconds_total, tick as f64),
            (Scope::Node, &node_memory_available_bytes, available + (tick % 7) as f64 / 10.0),
            (Scope::Node, &node_memory_total_bytes, 100.0),
        ];
        let disks = tick / 50 % 4;
        samples.extend((0..disks).map(|disk| {
            let scope = Scope::Disk(format!("sd{}_{disk}", tick / 50));
            (scope, &node_disk_busy_seconds_total, tick as f64)
        }));
        Table { layout: tick / 50, samples }
    }
}

impl SampleTable for Table {
    fn layout(&self) -> u64 {
        self.layout
    }

    fn is_fresh(&self) -> bool {
        true
    }

    fn places(&self) -> usize {
        self.samples.len()
    }

    fn sample(&self, place: usize) -> Sample<'_> {
        let (scope, metric, value) = &self.samples[place];
        Sample { scope, metric, value: Some(Number::Real(*value)), quality: Quality::Exact }
    }
}

/// Each lasts for 400 ticks, and uses one of the four CPUs that it asked for.
fn jobs(tick: u64) -> Vec<TopJob> {
    let job = |number: u64| TopJob {
        pid: 1000 + number as u32,
        cpu_cores: Some(1.0),
        cpus_requested: Some(4.0),
        ..TopJob::default()
    };
    (tick.saturating_sub(399)..=tick).filter(|begin| begin % 133 == 0).map(job).collect()
}

/// A client that reads a stream, and what it has had.
struct Reader {
    stream: UnixStream,
    name: &'static str,
    next: u64,
    records: u64,
    lost: u64,
    latest: Option<RecordBody>,
}

impl Reader {
    fn connect(door: &StreamDoor, name: &'static str) -> Reader {
        let peer = Peer { pid: 7, uid: 4_000_001, gid: 7 };
        let stream: UnixStream = door.pass(peer, peer.uid).expect("it is let in").into();
        Reader { stream, name, next: 1, records: 0, lost: 0, latest: None }
    }

    /// All that is there.
    fn read(&mut self, server: &mut StreamServer) {
        loop {
            let read = StreamRead {
                stream: self.name.to_string(),
                from_sequence: self.next,
                at_most_bytes: 1 << 18,
                newest: false,
                wait: false,
                interval_ms: None,
            };
            send(&self.stream, &StreamRequest::Read(read), &[]).expect("sends");
            let found = self.answer(server);
            assert_eq!(found.next_sequence - self.next, found.records.len() as u64 + found.lost);
            self.next = found.next_sequence;
            self.lost += found.lost;
            self.records += found.records.len() as u64;
            let Some(last) = found.records.into_iter().next_back() else { return };
            self.latest = Some(last.body);
        }
    }

    fn answer(&self, server: &mut StreamServer) -> StreamRecords {
        let (mut bytes, end) = (Vec::new(), Instant::now() + Duration::from_secs(30));
        loop {
            server.handle(Instant::now(), &Vec::new).expect("events");
            let mut part = [0; 1 << 16];
            if let Ok((length, _)) = recv(&self.stream, &mut part, RecvFlags::DONTWAIT) {
                bytes.extend_from_slice(&part[..length]);
            }
            match decode(&bytes, 0).expect("a frame") {
                Some((Answer::Stream(records), _)) => return *records,
                Some(other) => panic!("{other:?}"),
                None => assert!(Instant::now() < end, "no answer"),
            }
        }
    }
}

#[test]
fn memory_is_flat_and_each_record_is_had_or_counted() {
    let ticks = std::env::var("WEIGH_REPLAY_TICKS").ok().and_then(|text| text.parse().ok());
    let ticks = ticks.unwrap_or(TICKS);
    let interval = Duration::from_secs(1);
    let settings = StreamSettings { interval, why_no_jobs: None, statsd: None, otlp: None };
    let (mut server, door) = StreamServer::new(settings).expect("descriptors");
    let mut rules = RuleState::new(RuleSet::shipped());
    let mut report = recorded();
    let (mut all, mut slow) = (Reader::connect(&door, NODE), Reader::connect(&door, NODE));
    let mut events = Reader::connect(&door, EVENTS);
    let (mut began, mut ended, mut live, mut missed) = (0, 0, 0, 0);
    for tick in 1..=ticks {
        let time = Timestamp::from_second(1_700_000_000 + tick as i64).expect("a time");
        let moment = RuleMoment { ns: tick * 1_000_000_000, time };
        (report.time, report.jobs) = (time, jobs(tick));
        let (table, mut values) = (Table::at(tick), job_inputs(&report.jobs));
        for event in rules.take_tick(moment, std::iter::once(&table), &mut values) {
            match event.state {
                RuleChange::Began => began += 1,
                RuleChange::Ended => ended += 1,
            }
            server.write_event(event);
        }
        report.rules = rules.statuses();
        server.write_node(report.clone(), &Visibility::Everybody);
        all.read(&mut server);
        let Some(RecordBody::Node(latest)) = &all.latest else { panic!("{:?}", all.latest) };
        assert_eq!((latest.time, &latest.jobs), (time, &report.jobs));
        // Of a minute's records a reader that comes each 97 ticks finds 60 at most.
        if tick % 97 == 0 {
            slow.read(&mut server);
            assert_eq!(slow.records + slow.lost, tick);
        }
        if tick % 1009 == 0 {
            events.read(&mut server);
            // It goes without a word, and comes again.
            missed += slow.lost;
            slow = Reader { next: slow.next, ..Reader::connect(&door, NODE) };
            (slow.records, slow.lost) = (slow.next - 1, 0);
        }
        if tick == WARM_UP {
            live = live_bytes();
        }
    }
    let grown = live_bytes() - live;
    assert!(grown.abs() < 1 << 20, "{grown} bytes more than after {WARM_UP} ticks");
    assert_eq!((all.records, all.lost), (ticks, 0));
    assert!(missed + slow.lost >= ticks / 97 * 36, "{missed} {}", slow.lost);
    events.read(&mut server);
    assert_eq!(events.records + events.lost, began + ended);
    let statuses = rules.statuses();
    let holds = statuses.iter().filter(|status| status.state == RuleStanding::Holds).count();
    assert_eq!(began - ended, holds as u64);
    // Memory is short each 500 ticks; a job is found to be idle after five minutes.
    assert!(began >= ticks / 500 + ticks / 133 - 4, "{began}");
}
