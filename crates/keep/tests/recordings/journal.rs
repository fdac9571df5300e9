//! A journal is read as far as it goes, however it ends and whatever is in it.

use std::path::Path;

use crate::support::{START_NS, ended, process, running, samples, started};
use proptest::prelude::*;
use weigh_keep::journal::parse_line;
use weigh_keep::{KeepError, Recording, RecordingWriter};
use weigh_schema::io::FileUse;
use weigh_schema::recording::files;
use weigh_schema::update::Update;
use weigh_schema::{Mechanism, Number, Quality};

fn entries() -> Vec<Update> {
    let mut small = process(5);
    small.metrics.retain(|name, _| name.starts_with("cpu"));
    vec![
        started(),
        samples(1_000_000_000, &[("cpu_seconds", 0.7), ("memory_bytes", 4096.0)]),
        Update::Process(small),
        Update::FileUse(Box::new(FileUse::opened(5, "/ü\n", 2, Quality::Exact))),
        samples(2_000_000_000, &[("cpu_seconds", 1.7), ("memory_bytes", 1024.0)]),
    ]
}

/// The journal of these entries, as a killed weigh leaves it.
fn journal_of(entries: &[Update]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    entries.iter().for_each(|entry| writer.append(entry));
    drop(writer);
    std::fs::read(dir.path().join(files::JOURNAL)).unwrap()
}

fn open(dir: &Path, journal: &[u8]) -> Result<Recording, KeepError> {
    std::fs::write(dir.join(files::JOURNAL), journal).unwrap();
    Recording::open(dir)
}

/// How many rows each table has.
fn row_counts(recording: &Recording) -> (u64, u64, u64) {
    (
        recording.samples(None).unwrap().total,
        recording.processes(None).unwrap().total,
        recording.files(None).unwrap().total,
    )
}

#[test]
fn every_entry_is_read_as_it_was_written() {
    let mut all = entries();
    all.push(Update::Summary(Box::new(ended())));
    let journal = journal_of(&all);
    let lines: Vec<&[u8]> = journal.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), all.len());
    for (line, entry) in lines.iter().zip(&all) {
        assert_eq!(&parse_line(line).unwrap(), entry);
    }
}

#[test]
fn whole_lines_survive_a_cut_at_any_byte() {
    let journal = journal_of(&entries());
    let dir = tempfile::tempdir().unwrap();
    let kept_by_lines = [None, Some((0, 0, 0)), Some((2, 0, 0)), Some((2, 1, 0)), Some((2, 1, 1))];
    for cut in 0..=journal.len() {
        let kept = &journal[..cut];
        // A line that lacks nothing but its newline is whole.
        let at_newline = journal.get(cut) == Some(&b'\n');
        let whole = kept.iter().filter(|byte| **byte == b'\n').count() + usize::from(at_newline);
        let expected = if whole == 5 { Some((4, 1, 1)) } else { kept_by_lines[whole] };
        match (open(dir.path(), kept), expected) {
            (Ok(recording), Some(expected)) => {
                assert_eq!(row_counts(&recording), expected, "cut at {cut}");
                let cut_off = !at_newline && !kept.ends_with(b"\n");
                let because = recording.incomplete_because().unwrap();
                assert_eq!(because.contains("cut off"), cut_off, "cut at {cut}: {because}");
                assert!(!because.contains("damaged"), "cut at {cut}: {because}");
            }
            (Err(KeepError::NoBeginning { .. }), None) => {}
            (found, expected) => panic!("cut at {cut}: {found:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn damaged_and_unknown_lines_are_passed_over_and_the_damaged_counted() {
    let mut journal = journal_of(&entries()[..1]);
    journal.extend_from_slice(b"{\"entry\":\"weather\",\"rain\":{\"mm\":3}}\n");
    journal.extend_from_slice(b"{\"entry\":\"samples\",\"time_ns\":\n");
    journal.extend_from_slice(b"\xff\xfe\x00\n\n");
    journal.extend_from_slice(&journal_of(&entries()[1..]));
    let later = b"{\"entry\":\"file\",\"pid\":1,\"path\":\"/\",\"opened_total\":1,\
        \"quality\":\"exact\",\"colour\":[1,2]}\n";
    journal.extend_from_slice(later);
    let dir = tempfile::tempdir().unwrap();
    let recording = open(dir.path(), &journal).unwrap();
    assert_eq!(row_counts(&recording), (4, 1, 2));
    let because = recording.incomplete_because().unwrap();
    assert!(because.contains("damaged lines passed over: 3 (first: line 3,"), "{because}");
}

#[test]
fn a_line_without_end_is_passed_over() {
    let mut journal = journal_of(&entries()[..1]);
    journal.extend(std::iter::repeat_n(b'x', 70 << 20));
    journal.push(b'\n');
    journal.extend_from_slice(&journal_of(&entries()[1..]));
    let dir = tempfile::tempdir().unwrap();
    let recording = open(dir.path(), &journal).unwrap();
    assert_eq!(row_counts(&recording), (4, 1, 1));
    assert!(
        recording
            .incomplete_because()
            .unwrap()
            .contains("passed over: 1 (first: line 2, the line is too long)")
    );
}

#[test]
fn the_summary_of_a_cut_recording_goes_up_to_its_last_sample() {
    let dir = tempfile::tempdir().unwrap();
    let recording = open(dir.path(), &journal_of(&entries())).unwrap();
    assert!(!recording.is_running());
    let summary = recording.summary();
    assert_eq!((&summary.exit, &summary.job), (&None, &running().job));

    let cpu = &summary.metrics["cpu_seconds"];
    assert_eq!(cpu.value, Some(Number::Real(1.7)));
    assert_eq!((cpu.quality, cpu.source), (Quality::Sampled, Mechanism::Bpf));
    let peak = &summary.metrics["memory_peak_bytes"];
    assert_eq!(peak.value, Some(Number::Whole(4096)));
    let wall = summary.metrics["wall_seconds"].number().unwrap();
    assert!((wall - 2.0).abs() < 1e-9, "{wall}");
    assert_eq!(summary.metrics["gpu_memory_peak_bytes"].value, None);
    let because = recording.incomplete_because().unwrap();
    assert!(because.contains("up to 2026-11-21T20:39:02.000Z"), "{because}");
}

#[test]
fn samples_before_a_provisional_summary_do_not_change_it() {
    let mut all = entries();
    let mut provisional = running();
    provisional.metrics.get_mut("cpu_seconds").unwrap().value = Some(Number::Real(5.0));
    all.push(Update::Summary(Box::new(provisional)));
    all.push(samples(2_100_000_000, &[("cpu_seconds", 4.0)]));
    let dir = tempfile::tempdir().unwrap();
    let recording = open(dir.path(), &journal_of(&all)).unwrap();
    let cpu = &recording.summary().metrics["cpu_seconds"];
    assert_eq!((cpu.value, cpu.quality), (Some(Number::Real(5.0)), Quality::Exact));
    assert!(!recording.summary().metrics.contains_key("memory_peak_bytes"));
}

#[test]
fn a_journal_with_the_final_summary_gives_it_back_unchanged() {
    let mut all = entries();
    all.push(Update::Summary(Box::new(ended())));
    let dir = tempfile::tempdir().unwrap();
    let recording = open(dir.path(), &journal_of(&all)).unwrap();
    assert_eq!(recording.summary(), &ended());
    assert!(recording.incomplete_because().unwrap().contains("the job had ended"));
}

#[test]
fn a_journal_of_another_version_is_refused_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let mut later = running();
    later.schema = "weigh.summary/2".into();
    let journals = [
        journal_of(&[Update::Started(Box::new(later))]),
        b"{\"entry\":\"started\",\"schema\":\"weigh.summary/2\",\"new\":true}\n".to_vec(),
    ];
    for journal in journals {
        let refused = open(dir.path(), &journal);
        assert!(
            matches!(&refused, Err(KeepError::UnknownSchema { found, .. }) if found == "weigh.summary/2"),
            "{refused:?}"
        );
    }
}

/// Bytes that are often almost a journal: whole lines, spoilt lines, anything.
fn almost_a_journal() -> impl Strategy<Value = Vec<u8>> {
    let journal = journal_of(&entries());
    let whole: Vec<Vec<u8>> = journal.split_inclusive(|b| *b == b'\n').map(Vec::from).collect();
    let spoilt = (prop::sample::select(whole.clone()), any::<prop::sample::Index>(), any::<u8>())
        .prop_map(|(mut line, at, byte)| {
            let at = at.index(line.len());
            line[at] = byte;
            line
        });
    let piece = prop_oneof![
        prop::sample::select(whole),
        spoilt,
        prop::collection::vec(any::<u8>(), 0..40),
        Just(b"{\"entry\":\"samples\",\"time_ns\":9223372036854775807,\"scope\":\"job\",\"values\":{\"cpu_seconds\":1e308}}\n".to_vec()),
        Just(b"{\"entry\":\"samples\",\"time_ns\":-9223372036854775808,\"scope\":\"job\",\"values\":{\"memory_bytes\":-1e308}}\n".to_vec()),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(journal in almost_a_journal()) {
        let dir = tempfile::tempdir().unwrap();
        match open(dir.path(), &journal) {
            Ok(recording) => {
                prop_assert!(recording.incomplete_because().is_some());
                row_counts(&recording);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_line_is_parsed_or_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_line(&line);
    }

    #[test]
    fn any_finite_value_keeps_its_bits(value in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
        let entry = samples(START_NS / 2, &[("cpu_seconds", value)]);
        let journal = journal_of(std::slice::from_ref(&entry));
        let Update::Samples { values, .. } = parse_line(&journal).unwrap() else { panic!() };
        prop_assert_eq!(values["cpu_seconds"].to_bits(), value.to_bits());
    }
}

#[test]
fn of_a_file_that_is_in_use_the_last_word_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let row = |path: &str, opened_total| {
        let mut used = Box::new(FileUse { name: path.into(), pid: 5, ..blank_use() });
        used.totals.by_calls.read_bytes = opened_total * 100;
        used.totals.read_sizes.insert(64, opened_total);
        used.set_opens(opened_total);
        used
    };
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    let entries = [
        started(),
        Update::FileUseSoFar(row("/a", 1)),
        Update::FileUseSoFar(row("/b", 1)),
        Update::FileUseSoFar(row("/a", 2)),
        Update::FileUse(row("/b", 3)),
        // Used again after it had left: its rows add up.
        Update::FileUseSoFar(row("/b", 1)),
    ];
    entries.iter().for_each(|entry| writer.append(entry));
    writer.flush();
    let read = Recording::open(dir.path()).unwrap().files(None).unwrap();
    assert_eq!(read.rows, [row("/a", 2), row("/b", 3), row("/b", 1)].map(|row| *row));
    assert_eq!(read.total, 3);
}

fn blank_use() -> FileUse {
    serde_json::from_value(serde_json::json!({
        "name": "", "object": "regular", "pid": 0, "process": "p", "device": 3, "inode": 7,
        "read_bytes": 0, "read_calls": 0, "written_bytes": 0, "write_calls": 0, "by_kind": {},
        "numbers": {}, "again_quality": "exact",
    }))
    .unwrap()
}
