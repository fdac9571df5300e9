use super::*;

fn sample(i: i64) -> Update {
    Update::Samples {
        time_ns: i,
        scope: weigh_schema::update::Scope::Job,
        values: [("cpu_seconds".to_string(), 1.0)].into(),
    }
}

#[test]
fn what_a_full_device_refuses_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let mut writer = RecordingWriter::on(dir.path(), full);
    (0..3).for_each(|i| writer.append(&sample(i)));
    assert!(writer.error().is_none());
    writer.flush();
    assert_eq!(writer.error().unwrap().raw_os_error(), Some(28), "ENOSPC");
    assert_eq!(writer.lost(), 3);
    writer.append(&sample(3));
    writer.flush();
    assert_eq!(writer.lost(), 4);
}

#[test]
fn the_kernel_gets_entries_before_they_take_much_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    (0..10_000).for_each(|i| writer.append(&sample(i)));
    assert!(writer.buffer.len() < BUFFER_BYTES);
    assert!(dir.path().join(files::JOURNAL).metadata().unwrap().len() > 10 * BUFFER_BYTES as u64);
}

#[test]
fn an_entry_that_cannot_be_written_is_lost_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&sample(0));
    writer.append(&Update::Unknown);
    writer.append(&sample(1));
    assert_eq!(writer.lost(), 1);
    assert!(writer.error().is_none());
    writer.flush();
    let journal = std::fs::read(dir.path().join(files::JOURNAL)).unwrap();
    assert_eq!(journal.iter().filter(|byte| **byte == b'\n').count(), 2);
}
