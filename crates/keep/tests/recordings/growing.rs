//! A recording that is read on from where it was last read is the one that is read whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::support::{ended, process, running, samples, started};
use proptest::prelude::*;
use rustix::fs::FlockOperation;
use serde_json::json;
use weigh_keep::{GrowingRecording, Recording};
use weigh_schema::call::{CallsReport, REPORT};
use weigh_schema::io::{FileUse, IoCall, IoFound, Moment, PlaceMoment, Totals};
use weigh_schema::recording::files;
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::update::Update;
use weigh_schema::{Mechanism, Quality};

/// A journal whose writer lives.
fn journal(dir: &Path) -> File {
    let file = File::create(dir.join(files::JOURNAL)).unwrap();
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

fn line(entry: &Update) -> Vec<u8> {
    serde_json::to_vec(entry).unwrap().into_iter().chain([b'\n']).collect()
}

fn file(pid: u32, path: u8, opened_total: u64) -> Box<FileUse> {
    let path = format!("/{path}");
    Box::new(FileUse::opened(pid, &path, opened_total, Quality::Exact))
}

fn region(thread: u32, calls: u64) -> Box<RegionRow> {
    Box::new(RegionRow {
        process: 7,
        thread,
        path: vec!["a".into()],
        calls,
        ..RegionRow::default()
    })
}

fn io(uses_total: u64) -> IoFound {
    IoFound {
        wall_seconds: 1.5,
        mechanism: Mechanism::Bpf,
        quality: Quality::Exact,
        witness: None,
        price: None,
        totals: Totals::default(),
        uses_total,
        flows: Vec::new(),
        advice: Vec::new(),
        rest: None,
        untold: None,
        qualities: BTreeMap::new(),
        notes: Vec::new(),
    }
}

fn calls(calls_total: u64) -> CallsReport {
    serde_json::from_value(json!({
        "schema": REPORT, "command": ["a"], "wall_seconds": 0.5, "grouping": "call", "mechanism": "bpf", "subsystems": [],
        "calls_total": calls_total, "threads_total": 1, "lost_total": 0, "untold_total": 0, "calls": [],
    }))
    .unwrap()
}

/// Of every kind that rows or the summary are made of.
fn entry() -> impl Strategy<Value = Update> {
    (0..13u8, 0..4u8, 1..1000u64).prop_map(|(kind, which, number)| {
        let time_ns = i64::try_from(number).unwrap() * 1_000_000;
        match kind {
            0 | 1 => samples(time_ns, &[("cpu_seconds", number as f64)]),
            2 => Update::Process(process(which.into())),
            3 => Update::FileUse(file(which.into(), which, number)),
            4 => Update::FileUseSoFar(file(which.into(), 0, number)),
            5 => Update::Region(region(which.into(), number)),
            6 => Update::RegionSoFar(region(which.into(), number)),
            7 => Update::Phase(Box::new(PhaseRow { ended_ns: time_ns, ..PhaseRow::default() })),
            8 => Update::IoInterval(Moment { time_ns, ..Moment::default() }),
            9 => Update::OffsetHistogram(PlaceMoment { time_ns, ..PlaceMoment::default() }),
            10 => Update::Syscall(Box::new(IoCall { time_ns, ..IoCall::default() })),
            11 => Update::IoTotals(Box::new(io(number))),
            _ if which == 0 => Update::Summary(Box::new(running())),
            _ => Update::SyscallTotals(Box::new(calls(number))),
        }
    })
}

/// What is written at once: lines, some of them no entries, the last one perhaps not to its end.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let damaged =
        prop_oneof![Just(&b"\xff{\n"[..]), Just(&b"\n"[..]), Just(&b"{\"entry\":\"sun\"}\n"[..])];
    let any = prop_oneof![9 => entry().prop_map(|entry| line(&entry)), 1 => damaged.prop_map(<[u8]>::to_vec)];
    proptest::collection::vec(any, 0..20).prop_map(|lines| lines.concat())
}

fn assert_same(found: &Recording, whole: &Recording) {
    assert_eq!(found.summary(), whole.summary());
    assert_eq!(found.incomplete_because(), whole.incomplete_because());
    assert_eq!((found.is_running(), found.is_complete()), (true, false));
    assert_eq!(found.processes(None).unwrap(), whole.processes(None).unwrap());
    assert_eq!(found.processes(Some(1)).unwrap(), whole.processes(Some(1)).unwrap());
    assert_eq!(found.files(None).unwrap(), whole.files(None).unwrap());
    assert_eq!(found.samples(None).unwrap(), whole.samples(None).unwrap());
    assert_eq!(found.calls().unwrap(), whole.calls().unwrap());
    assert_eq!(other_rows(found), other_rows(whole));
}

/// Regions, phases, intervals, places, calls.
type OtherRows = (Vec<RegionRow>, Vec<PhaseRow>, Vec<Moment>, Vec<PlaceMoment>, Vec<IoCall>);

fn other_rows(recording: &Recording) -> OtherRows {
    let mut rows = OtherRows::default();
    recording.each_region(|row| rows.0.push(row)).unwrap();
    recording.each_phase(|row| rows.1.push(row)).unwrap();
    recording.each_io_moment(|row| rows.2.push(row)).unwrap();
    recording.each_io_place(|row| rows.3.push(row)).unwrap();
    recording.each_io_call(|row| rows.4.push(row)).unwrap();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn read_on_is_read_whole(steps in proptest::collection::vec((step(), 0..60usize), 1..12)) {
        let dir = tempfile::tempdir().unwrap();
        let mut file = journal(dir.path());
        file.write_all(&line(&started())).unwrap();
        let mut growing = GrowingRecording::open_found(dir.path()).unwrap().unwrap();
        let mut rest = Vec::new();
        for (text, held_back) in steps {
            rest.extend(text);
            // A line that lacks its newline alone is whole for who reads all.
            let mut cut = rest.len() - held_back.min(rest.len());
            while cut > 0 && rest.get(cut) == Some(&b'\n') { cut -= 1; }
            file.write_all(&rest[..cut]).unwrap();
            rest.drain(..cut);
            let found = growing.read_on(dir.path()).unwrap().unwrap();
            assert_same(&found, &Recording::open_found(dir.path()).unwrap());
        }
    }
}

#[test]
fn rows_that_are_superseded_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = journal(dir.path());
    file.write_all(&line(&started())).unwrap();
    let mut growing = GrowingRecording::open_found(dir.path()).unwrap().unwrap();
    for round in 0..8 {
        let lines = (0..1000).map(|at| line(&Update::RegionSoFar(region(at % 100, round + 1))));
        file.write_all(&lines.flatten().collect::<Vec<u8>>()).unwrap();
        let found = growing.read_on(dir.path()).unwrap().unwrap();
        assert_same(&found, &Recording::open_found(dir.path()).unwrap());
        assert!(growing.bytes() < 2 << 20, "{} bytes", growing.bytes());
    }
}

#[test]
fn with_too_many_rows_and_when_it_ends_it_is_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = journal(dir.path());
    file.write_all(&line(&started())).unwrap();
    let mut growing = GrowingRecording::open_found(dir.path()).unwrap().unwrap();
    assert!(growing.read_on(dir.path()).unwrap().is_some());
    // Another journal takes its place.
    let other = tempfile::tempdir_in(dir.path()).unwrap();
    drop(journal(other.path()));
    assert!(growing.read_on(other.path()).unwrap().is_none());
    assert!(growing.read_on(dir.path()).unwrap().is_some());
    let lines = (0..20_000).map(|pid| line(&Update::Process(process(pid))));
    file.write_all(&lines.flatten().collect::<Vec<u8>>()).unwrap();
    assert!(growing.read_on(dir.path()).unwrap().is_none());
    assert!(growing.is_too_large() && growing.bytes() == 0);

    let mut growing = GrowingRecording::open_found(dir.path()).unwrap().unwrap();
    file.write_all(&line(&Update::Summary(Box::new(ended())))).unwrap();
    drop(file);
    assert!(growing.read_on(dir.path()).unwrap().is_none(), "its writer is gone");
    assert!(!growing.is_too_large());
}
