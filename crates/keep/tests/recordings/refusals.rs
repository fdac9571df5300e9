//! Places that hold no recording, or cannot hold one, are refused in words that help.

#[path = "../../../../tests/left_out.rs"]
mod left_out;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::{end, ended, process, started};
use weigh_keep::{KeepError, Recording, RecordingWriter, TraceRecording, remove_recording};
use weigh_schema::recording::files;
use weigh_schema::update::Update;

fn said(result: Result<impl std::fmt::Debug, KeepError>) -> String {
    result.unwrap_err().to_string()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_directory_is_made_with_its_parents() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("a/b/c");
    let writer = RecordingWriter::create(&dir).unwrap();
    assert_eq!(writer.directory(), dir);
    assert!(dir.join(files::JOURNAL).is_file());
}

#[test]
fn a_directory_that_holds_a_recording_is_refused() {
    for name in [files::SUMMARY, files::JOURNAL, files::PROCESSES] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), "kept").unwrap();
        let refused = said(RecordingWriter::create(dir.path()));
        assert!(refused.contains("already holds a recording"), "{refused}");
        assert!(refused.contains(name), "{refused}");
        assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), "kept");
    }
}

#[test]
fn a_recording_is_replaced_unless_it_is_still_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(path.join("notes.txt"), "mine").unwrap();
    let first = RecordingWriter::create(path).unwrap();
    let refused = said(remove_recording(path));
    assert!(refused.contains("still being written"), "{refused}");
    assert!(path.join(files::JOURNAL).is_file());
    end(first, &ended()).unwrap();
    std::fs::write(path.join(files::REPORT), "of the first").unwrap();
    remove_recording(path).unwrap();
    let left: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    end(RecordingWriter::create(path).unwrap(), &ended()).unwrap();
    remove_recording(&path.join("none")).unwrap();
    remove_recording(&path.join("notes.txt")).unwrap();
    assert!(path.join("notes.txt").is_file());
}

#[test]
fn files_that_are_no_recording_are_not_replaced() {
    for (name, text) in [
        (files::SUMMARY, r#"{"accuracy": 0.97}"#),
        (files::JOURNAL, "{\"step\": 1}\n{\"step\": 2}\n"),
        (files::CALLS, "{}"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let made = remove_recording(dir.path()).and_then(|()| RecordingWriter::create(dir.path()));
        assert!(said(made).contains(name));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(files::JOURNAL), "").unwrap();
    remove_recording(dir.path()).unwrap();
    assert!(!dir.path().join(files::JOURNAL).exists(), "weigh was killed at once");
}

#[test]
fn other_files_in_the_directory_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    end(RecordingWriter::create(dir.path()).unwrap(), &ended()).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("notes.txt")).unwrap(), "mine");
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(said(RecordingWriter::create(&file)).contains("is not a directory"));
    assert!(said(RecordingWriter::create(&file.join("below"))).contains("Not a directory"));
    assert!(said(Recording::open(&file)).contains("is not a directory"));
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    // Root may write anywhere but to the kernel's own file systems.
    let refused = said(RecordingWriter::create(Path::new("/proc/self/weigh")));
    assert!(refused.starts_with("cannot write /proc/self/weigh"), "{refused}");
    if !is_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).unwrap();
        let refused = said(RecordingWriter::create(dir.path()));
        assert!(refused.contains("Permission denied"), "{refused}");
    }
}

#[test]
fn what_is_not_a_recording_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = said(Recording::open(dir.path()));
    assert!(refused.contains("is not a recording: it holds neither summary.json"), "{refused}");
    let refused = said(Recording::open(&dir.path().join("none")));
    assert!(refused.starts_with("there is no directory"), "{refused}");

    std::fs::write(dir.path().join(files::SUMMARY), "{}").unwrap();
    assert!(matches!(Recording::open(dir.path()), Err(KeepError::Damaged { .. })));
    std::fs::write(dir.path().join(files::SUMMARY), "{\"schema\":\"weigh.summary/9\"}").unwrap();
    let refused = said(Recording::open(dir.path()));
    assert!(refused.contains("'weigh.summary/9'; this weigh reads 'weigh.summary/1'"), "{refused}");
}

#[test]
fn what_is_no_file_of_calls_is_not_called_damaged_and_how_one_is_made_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    for other in ["", "PAR", "root:x:0:0:root:/root:/bin/bash\n"] {
        std::fs::write(&file, other).unwrap();
        let refused = said(weigh_keep::calls_note(&file));
        assert!(refused.contains("holds no calls: it is no Parquet file"), "{refused}");
        assert!(refused.contains("weigh calls --per-call FILE"), "{refused}");
    }
    std::fs::write(&file, "PAR1 and no more").unwrap();
    assert!(said(weigh_keep::calls_note(&file)).contains("is damaged"));
    let refused = said(weigh_keep::calls_note(dir.path()));
    assert!(refused.contains("holds no calls: it is a directory"), "{refused}");
}

#[test]
fn a_table_of_something_else_is_no_file_of_calls_and_a_recordings_file_names_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&Update::Process(process(1)));
    end(writer, &ended()).unwrap();
    let table = dir.path().join(files::PROCESSES);
    let refused = said(weigh_keep::calls_note(&table));
    assert!(refused.contains("holds no calls: it is a table of something else"), "{refused}");
    let folder = dir.path().display().to_string();
    for name in [files::PROCESSES, files::SUMMARY] {
        let refused = TraceRecording::open(&dir.path().join(name)).err().unwrap().to_string();
        assert!(refused.ends_with(&format!("which is named by its folder: {folder}")), "{refused}");
    }
}

#[test]
fn a_table_that_is_no_parquet_or_lacks_a_column_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&Update::Process(process(1)));
    end(writer, &ended()).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    let series = dir.path().join(files::SERIES);

    std::fs::copy(dir.path().join(files::PROCESSES), &series).unwrap();
    assert!(said(recording.samples(None)).contains("it has no column time"));
    std::fs::write(&series, "PAR1 and no more").unwrap();
    assert!(matches!(recording.samples(None), Err(KeepError::Damaged { .. })));
    std::fs::remove_file(&series).unwrap();
    assert!(said(recording.samples(None)).starts_with("cannot read"));
    assert_eq!(recording.processes(None).unwrap().total, 1);
}

#[test]
fn a_table_with_any_damaged_byte_is_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&crate::support::samples(1, &[("cpu_seconds", 1.0), ("memory_bytes", 2.0)]));
    end(writer, &ended()).unwrap();
    let path = dir.path().join(files::SERIES);
    let sound = std::fs::read(&path).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    let mut refused = 0;
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&path, damaged).unwrap();
        refused += usize::from(recording.samples(None).is_err());
    }
    assert!(refused > 100, "{refused} of {} damages were noticed", sound.len());
}

#[test]
fn a_recording_that_is_discarded_leaves_nothing_of_its_own() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("rec");
    RecordingWriter::create(&dir).unwrap().discard();
    assert!(!dir.exists());

    std::fs::write(top.path().join("mine"), "").unwrap();
    let mut writer = RecordingWriter::create(top.path()).unwrap();
    writer.append(&started());
    writer.discard();
    assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 1);
}

/// A file system of a few kilobytes, unmounted at the end.
struct Tiny(tempfile::TempDir);

impl Tiny {
    fn mount(size: &str) -> Tiny {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "weigh-test"])
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(status.success(), "root can mount a tmpfs");
        Tiny(dir)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_costs_entries_but_no_panic() {
    if !is_root() {
        left_out::leave_out(
            "not root: no tmpfs can be mounted; the unit test with /dev/full covers a part",
        );
        return;
    }
    let disk = Tiny::mount("64k");
    let dir = disk.0.path().join("rec");
    let mut writer = RecordingWriter::create(&dir).unwrap();
    writer.append(&started());
    for pid in 0..500 {
        writer.append(&Update::Process(process(pid)));
        writer.flush();
    }
    assert_eq!(writer.error().unwrap().raw_os_error(), Some(28), "ENOSPC");
    let lost = writer.lost();

    let refused = said(end(writer, &ended()));
    assert!(refused.contains("No space left on device"), "{refused}");
    let left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [files::JOURNAL], "only the journal is left");
    let recording = Recording::open(&dir).unwrap();
    let kept = recording.processes(None).unwrap();
    assert_eq!(kept.total + lost, 500);
    assert_eq!(kept.rows[0], process(0));
    // Room was kept for the end: how the job ended, and what is missing.
    let summary = recording.summary();
    assert_eq!(summary.exit, ended().exit);
    let status = summary.collectors.last().unwrap();
    assert_eq!((status.name.as_str(), status.lost), ("recording", lost));
    assert!(!recording.incomplete_because().unwrap().contains("cut off"));
}

#[test]
fn a_disk_that_was_full_for_a_while_still_gets_its_recording() {
    if !is_root() {
        left_out::leave_out("not root: no tmpfs can be mounted");
        return;
    }
    let disk = Tiny::mount("512k");
    let ballast = disk.0.path().join("ballast");
    let dir = disk.0.path().join("rec");
    let mut writer = RecordingWriter::create(&dir).unwrap();
    writer.append(&started());
    writer.append(&Update::Process(process(1)));
    writer.flush();
    let full = std::fs::write(&ballast, vec![1; 1 << 20]);
    assert!(full.is_err(), "the disk is full");
    // More than was set aside ahead.
    for pid in 2..600 {
        writer.append(&Update::Process(process(pid)));
        writer.flush();
    }
    std::fs::remove_file(&ballast).unwrap();
    writer.append(&Update::Process(process(600)));

    let finished = end(writer, &ended()).unwrap();
    assert_eq!(finished.processes + finished.lost, 600);
    assert!(finished.lost >= 2 && finished.error.is_some());
    let recording = Recording::open(&dir).unwrap();
    assert!(recording.is_complete());
    let status = recording.summary().collectors.last().unwrap();
    assert_eq!((status.name.as_str(), status.lost), ("recording", finished.lost));
    assert!(status.reason.as_ref().unwrap().contains("No space left on device"));
}
