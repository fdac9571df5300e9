//! What is written is what is read, from the journal as from the finished tables.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{START_NS, ended, process, samples, started};
use weigh_keep::{Recording, RecordingWriter};
use weigh_schema::io::FileUse;
use weigh_schema::recording::{ProcessRow, SampleRow, files};
use weigh_schema::update::{Scope, Update};
use weigh_schema::{METRICS, Number, Quality};

/// Rows with values that are easily spoilt on the way.
fn odd_processes() -> Vec<ProcessRow> {
    let nothing = ProcessRow { pid: 1, ..ProcessRow::default() };
    let extreme = ProcessRow {
        pid: u32::MAX,
        parent: u32::MAX,
        name: "\"quoted\"\n\tname\u{0}".into(),
        command: "printf '%s\\n' \"ü 語 🦀\" \u{7f}\u{2028}".into(),
        name_base64: Some("/w==".into()),
        command_base64: Some("/wA=".into()),
        uid: u32::MAX,
        started_ns: i64::MIN,
        ended_ns: Some(i64::MAX),
        exit_code: Some(u32::MAX),
        exit_signal: Some(0),
        metrics: ProcessRow::metric_columns()
            .map(|metric| match metric.unit.is_whole() {
                true => (metric.name.to_string(), Number::Whole(u64::MAX)),
                false => (metric.name.to_string(), Number::Real(f64::MIN_POSITIVE / 3.0)),
            })
            .collect(),
    };
    let one_metric = ProcessRow {
        pid: 3,
        metrics: BTreeMap::from([("cpu_seconds".to_string(), Number::Real(0.1 + 0.2))]),
        ..ProcessRow::default()
    };
    vec![nothing, extreme, one_metric, process(4)]
}

fn odd_files() -> Vec<FileUse> {
    let row = |path: &str, opened_total, quality| FileUse {
        name_base64: Some("//8=".into()).filter(|_| opened_total > 1),
        ..FileUse::opened(1, path, opened_total, quality)
    };
    vec![
        row("", 0, Quality::Unavailable),
        row("/tmp/new\nline", u64::MAX, Quality::Exact),
        row("/tmp/ü\"\\'", i64::MAX as u64 + 1, Quality::Sampled),
        row(&"/long".repeat(100_000), 1, Quality::Estimated),
    ]
}

fn odd_samples() -> Vec<Update> {
    vec![
        samples(0, &[]),
        samples(-START_NS, &[("cpu_seconds", 0.1 + 0.2), ("memory_bytes", 0.0)]),
        Update::Samples {
            time_ns: i64::MAX,
            scope: Scope::Process(u32::MAX),
            values: BTreeMap::from([
                (String::new(), -0.0),
                ("a \"new\"\nseries".to_string(), f64::MAX),
                ("io_read_bytes_total".to_string(), 9_007_199_254_740_993.0),
            ]),
        },
    ]
}

fn rows_of(entries: &[Update]) -> Vec<SampleRow> {
    let mut rows = Vec::new();
    for entry in entries {
        let Update::Samples { time_ns, scope, values } = entry else { continue };
        for (metric, value) in values {
            let (scope, metric) = (scope.to_string(), metric.clone());
            rows.push(SampleRow { time_ns: *time_ns, scope, metric, value: *value });
        }
    }
    rows
}

fn record_odd_rows(dir: &Path) -> RecordingWriter {
    let mut writer = RecordingWriter::create(dir).unwrap();
    writer.append(&started());
    odd_samples().iter().for_each(|entry| writer.append(entry));
    odd_processes().into_iter().for_each(|row| writer.append(&Update::Process(row)));
    odd_files().into_iter().for_each(|row| writer.append(&Update::FileUse(Box::new(row))));
    writer.flush();
    assert!(writer.error().is_none());
    writer
}

fn check_odd_rows(recording: &Recording) {
    assert_eq!(recording.samples(None).unwrap().rows, rows_of(&odd_samples()));
    assert_eq!(recording.processes(None).unwrap().rows, odd_processes());
    assert_eq!(recording.files(None).unwrap().rows, odd_files());
}

#[test]
fn odd_values_survive_in_the_journal_and_in_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let writer = record_odd_rows(dir.path());

    let recording = Recording::open(dir.path()).unwrap();
    assert!(!recording.is_complete());
    assert!(recording.is_running());
    check_odd_rows(&recording);

    let finished = writer.finish(&ended()).unwrap();
    assert_eq!((finished.samples, finished.processes, finished.files), (5, 4, 4));
    assert_eq!((finished.lost, finished.not_finite), (0, 0));
    // The recording that was opened before it was finished can still be read.
    check_odd_rows(&recording);

    let recording = Recording::open(dir.path()).unwrap();
    assert!(recording.is_complete());
    assert_eq!(recording.incomplete_because(), None);
    assert_eq!(recording.summary(), &ended());
    check_odd_rows(&recording);
}

#[test]
fn a_finished_recording_holds_its_files_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    record_odd_rows(dir.path()).finish(&ended()).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [files::FILES, files::PROCESSES, files::SERIES, files::SUMMARY]);
}

#[test]
fn an_empty_job_has_three_empty_tables() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&started());
    let finished = writer.finish(&ended()).unwrap();
    assert_eq!((finished.samples, finished.processes, finished.files), (0, 0, 0));
    let recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.samples(None).unwrap().rows, []);
    assert_eq!(recording.processes(None).unwrap().rows, []);
    assert_eq!(recording.files(None).unwrap().total, 0);
}

#[test]
fn a_limit_gives_the_first_rows_and_says_how_many_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let writer = record_odd_rows(dir.path());
    let check = |recording: Recording| {
        for limit in 0..6 {
            let rows = recording.processes(Some(limit)).unwrap();
            assert_eq!(rows.rows, odd_processes()[..limit.min(4)]);
            assert_eq!(rows.total, 4);
        }
    };
    check(Recording::open(dir.path()).unwrap());
    writer.finish(&ended()).unwrap();
    check(Recording::open(dir.path()).unwrap());
}

#[test]
fn order_and_values_hold_across_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&started());
    let count: i64 = 70_000;
    for i in 0..count {
        writer.append(&samples(i, &[("cpu_seconds", i as f64), ("memory_bytes", -(i as f64))]));
    }
    writer.finish(&ended()).unwrap();
    let mut next = 0;
    let total = Recording::open(dir.path())
        .unwrap()
        .each_sample(|row| {
            let i = next / 2;
            let (metric, value) = match next % 2 {
                0 => ("cpu_seconds", i as f64),
                _ => ("memory_bytes", -(i as f64)),
            };
            assert_eq!(
                (row.time_ns, row.metric.as_str(), row.value),
                (START_NS + i, metric, value)
            );
            next += 1;
        })
        .unwrap();
    assert_eq!((total, next), (140_000, 140_000));
}

#[test]
fn numbers_that_are_not_finite_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&started());
    writer.append(&samples(1, &[("cpu_seconds", f64::NAN), ("memory_bytes", 2.0)]));
    let mut row = process(1);
    row.metrics.insert("cpu_seconds".into(), Number::Real(f64::INFINITY));
    writer.append(&Update::Process(row));
    let mut summary = ended();
    let name = METRICS[0].name;
    let mut value = summary.metrics["cpu_seconds"].clone();
    value.value = Some(Number::Real(f64::NEG_INFINITY));
    summary.metrics.insert(name.into(), value);
    summary.limits[0].at_seconds = Some(f64::NAN);

    let finished = writer.finish(&summary).unwrap();
    assert_eq!((finished.not_finite, finished.lost), (4, 0));
    let recording = Recording::open(dir.path()).unwrap();
    let samples = recording.samples(None).unwrap().rows;
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].metric, "memory_bytes");
    let row = recording.processes(None).unwrap().rows.remove(0);
    assert!(!row.metrics.contains_key("cpu_seconds"));
    assert_eq!(row.metrics.len(), process(1).metrics.len() - 1);
    let value = &recording.summary().metrics[name];
    assert_eq!((value.quality, value.value), (Quality::Unavailable, None));
    assert_eq!(recording.summary().limits[0].at_seconds, None);
    assert_eq!(recording.summary().limits[0].limit, Number::Whole(104_857_600));
    assert_eq!(recording.summary(), &finished.summary);
}
