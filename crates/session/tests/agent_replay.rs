//! A busy node, replayed into an agent's streams, rules and an exporter: 2,000 ticks, or 72 h (`WEIGH_REPLAY_TICKS=259200`), with
//! jobs, disks and programs with regions that come and go, a client that publishes, readers that are slow, that come again and
//! that read all, a server that is broken now and then, and restarts of the agent. Memory stays flat, and each record and value is
//! had or counted.

mod common {
    pub mod replayed_clients;
}

use std::io::Write as _;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weigh_account::rules::{RuleMoment, RuleSet, RuleState, job_inputs};
use weigh_agent::{ProfileServer, StreamDoor, StreamServer, StreamSettings, Visibility};
use weigh_collect::allocation_count::{CountingAllocator, live_bytes};
use weigh_export::metrics::exporter;
use weigh_schema::node_metric::*;
use weigh_schema::rule::{RuleChange, RuleStanding};
use weigh_schema::sample::{Sample, SampleTable};
use weigh_schema::stream::{EVENTS, NODE, PROFILES, PUSHED, RecordBody, StreamCheckpoint};
use weigh_schema::top::{TopJob, TopReport};
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Number, Quality};
use weigh_session::products::top::{ListedProcesses, TopSettings, TopSource};
use weigh_wire::Payload as _;

use common::replayed_clients::{Programs, Publisher, Reader, Receiver};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const TICKS: u64 = 2000;
/// Ticks after which the machine was in each of its states; of a long replay a third, when all buffers are full, too.
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

/// A server of streams, and who reads profiles for it.
fn serve() -> (StreamServer, StreamDoor, ProfileServer) {
    let interval = Duration::from_secs(1);
    let settings = StreamSettings { interval, why_no_jobs: None, statsd: None, otlp: None };
    let (mut server, mut door) = StreamServer::new(settings).expect("descriptors");
    let profiles = server.profile_server(&mut door).expect("descriptors");
    (server, door, profiles)
}

/// All that reads the streams.
struct Readers {
    all: Reader,
    slow: Reader,
    events: Reader,
    pushed: Reader,
    profiles: Reader,
}

impl Readers {
    fn connect(door: &StreamDoor) -> Readers {
        let [all, slow, events, pushed, profiles] =
            [NODE, NODE, EVENTS, PUSHED, PROFILES].map(|name| Reader::connect(door, name));
        Readers { all, slow, events, pushed, profiles }
    }

    fn each(&mut self) -> [&mut Reader; 5] {
        let Readers { all, slow, events, pushed, profiles } = self;
        [all, slow, events, pushed, profiles]
    }
}

/// The heads of streams in a state, with how many records follow each.
fn heads(state: &[u8]) -> Vec<(StreamCheckpoint, usize)> {
    let mut heads: Vec<(StreamCheckpoint, usize)> = Vec::new();
    for line in state.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match (StreamCheckpoint::read(line), heads.last_mut()) {
            (Some(head), _) => heads.push((head, 0)),
            (None, Some((_, records))) => *records += 1,
            (None, None) => panic!("a record without a stream"),
        }
    }
    heads
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

#[test]
fn memory_is_flat_and_each_record_is_had_or_counted() {
    let ticks = std::env::var("WEIGH_REPLAY_TICKS").ok().and_then(|text| text.parse().ok());
    let ticks: u64 = ticks.unwrap_or(TICKS);
    let (begun, warm_up) = (Instant::now(), WARM_UP.max(ticks / 3));
    let (mut server, mut door, mut profiles) = serve();
    let mut rules = RuleState::new(RuleSet::shipped());
    let mut report = recorded();
    let mut readers = Readers::connect(&door);
    let (mut publisher, mut programs) = (Publisher::connect(&door), Programs::start());
    let receiver = Receiver::start();
    let mut exporter = exporter(&receiver.target()).expect("a target");
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
        publisher.push(&mut server, tick);
        if tick % 50 == 0 {
            programs.hand_over(&door, &mut profiles, tick);
        }
        report.published = server.published();
        report.profiles = server.profiles();
        server.write_node(report.clone(), &Visibility::Everybody);
        exporter.take(&report);
        // It is broken for two minutes of each five hours.
        receiver.set_broken(tick % 18_000 < 120);
        let _ = exporter.send();
        readers.all.read(&mut server);
        let Some(RecordBody::Node(latest)) = &readers.all.latest else { panic!("no record") };
        assert_eq!((latest.time, &latest.jobs), (time, &report.jobs));
        // Of a minute's records a reader that comes each 97 ticks finds 60 at most.
        if tick % 97 == 0 {
            let slow = &mut readers.slow;
            slow.read(&mut server);
            assert_eq!(slow.records + slow.lost, tick);
            readers.pushed.read(&mut server);
            readers.profiles.read(&mut server);
        }
        if tick % 1009 == 0 {
            readers.events.read(&mut server);
            // It goes without a word, and comes again.
            missed += readers.slow.lost;
            readers.slow = Reader::connect_from(&door, NODE, readers.slow.next);
        }
        if tick % (ticks / 4) == 0 {
            // Another agent goes on, and all come again.
            profiles.finish();
            let state = server.checkpoint();
            (server, door, profiles) = serve();
            let (_, missing) = server.restore(&state, &Visibility::Everybody);
            let again = server.checkpoint();
            assert_eq!((missing, heads(&again)), (0, heads(&state)), "count in, count out");
            readers.each().into_iter().for_each(|reader| reader.connect_again(&door));
            publisher.connect_again(&door);
        }
        if tick == warm_up {
            live = live_bytes();
        }
        if tick % (ticks / 12) == 0 {
            let (seconds, live, rss) = (begun.elapsed().as_secs(), live_bytes(), resident_bytes());
            let waiting = exporter.status().buffered_reports;
            let line = format!(
                "{seconds:>5} s {tick:>7} ticks {live:>9} bytes live {rss:>9} resident {waiting:>5} reports wait\n"
            );
            std::io::stderr().write_all(line.as_bytes()).expect("standard error");
        }
    }
    receiver.set_broken(false);
    while exporter.status().buffered_reports > 0 {
        std::thread::sleep(Duration::from_millis(10));
        let _ = exporter.send();
    }
    let grown = live_bytes() - live;
    assert!(grown.abs() < 1 << 20, "{grown} bytes more than after {warm_up} ticks");
    let status = exporter.status();
    assert_eq!((status.lost_values, status.sent_values > ticks), (0, true), "{status:?}");
    assert_eq!(receiver.accepted(), ticks, "each report, in spite of {} failures", status.retries);
    let Readers { all, mut slow, mut events, mut pushed, profiles: mut of_programs } = readers;
    assert_eq!((all.records, all.lost), (ticks, 0));
    slow.read(&mut server);
    assert!(missed + slow.lost >= ticks / 97 * 36, "{missed} {}", slow.lost);
    events.read(&mut server);
    assert_eq!(events.records + events.lost, began + ended);
    pushed.read(&mut server);
    assert_eq!(pushed.records + pushed.lost, publisher.taken);
    assert_eq!(publisher.taken + publisher.refused, ticks);
    profiles.finish();
    of_programs.read(&mut server);
    // Each program is told a last time, whether it was read before or not.
    assert_eq!((of_programs.ends, of_programs.lost), (programs.handed_over, 0));
    assert_eq!(programs.handed_over, ticks / 50);
    let statuses = rules.statuses();
    let holds = statuses.iter().filter(|status| status.state == RuleStanding::Holds).count();
    assert_eq!(began - ended, holds as u64);
    // Memory is short each 500 ticks; a job is found to be idle after five minutes.
    assert!(began >= ticks / 500 + ticks / 133 - 4, "{began}");
}
