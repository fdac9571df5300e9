//! A whole recording, of which files are damaged: all that is read of it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use weigh_account::regions::{FlatRegions, RegionTreeSum};
use weigh_keep::{KeepError, Recording, RecordingWriter};
use weigh_schema::recording::files;
use weigh_schema::sink::Sink as _;
use weigh_schema::summary::Summary;
use weigh_schema::update::Update;
use weigh_show::regions::RegionLine;
use weigh_show::report::{self, FileColumns, JobSeries, RegionsBuilder};
use weigh_show::table::{self, Style};

/// A recording's files, whole.
struct Whole {
    folder: PathBuf,
    files: Vec<(&'static str, Vec<u8>)>,
}

/// What is begun with: as `seeds/journal_line` and `seeds/summary` have it, several times.
const ENTRIES: [&str; 4] = [
    include_str!("../seeds/journal_line/started"),
    include_str!("../seeds/journal_line/process"),
    include_str!("../seeds/journal_line/samples"),
    include_str!("../seeds/journal_line/file"),
];
const SUMMARY: &str = include_str!("../seeds/summary/limit");
const TIMES: usize = 3;

fn whole() -> Whole {
    let folder = std::env::temp_dir().join(format!("weigh-fuzz-recording-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let mut writer = RecordingWriter::create(&folder).unwrap();
    let entries = ENTRIES.map(|text| serde_json::from_str::<Update>(text).unwrap());
    writer.append(&entries[0]);
    (0..TIMES).for_each(|_| entries[1..].iter().for_each(|entry| writer.append(entry)));
    writer.flush();
    let journal = std::fs::read(folder.join(files::JOURNAL)).unwrap();
    let summary: Summary = serde_json::from_str(SUMMARY).unwrap();
    writer.finish(&summary);
    writer.close().unwrap();
    let names = [files::SUMMARY, files::SERIES, files::PROCESSES, files::FILES];
    let read = |name| (name, std::fs::read(folder.join(name)).unwrap());
    let mut all: Vec<_> = names.into_iter().map(read).collect();
    all.push((files::JOURNAL, journal));
    Whole { folder, files: all }
}

/// The first byte says which file is damaged, and how: all of it is what follows, or each four bytes put one somewhere.
pub fn recording(data: &[u8]) {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    let whole = WHOLE.get_or_init(whole);
    let Some((how, rest)) = data.split_first() else { return };
    let (name, bytes) = &whole.files[usize::from(how & 0x7f) % whole.files.len()];
    let damaged = if how & 0x80 == 0 { changed(bytes.clone(), rest) } else { rest.to_vec() };
    // A journal is read where there is no summary.
    let summary = whole.folder.join(files::SUMMARY);
    if *name == files::JOURNAL {
        let _ = std::fs::remove_file(&summary);
    }
    let path = whole.folder.join(name);
    std::fs::write(&path, damaged).unwrap();
    read(&whole.folder);
    let _ = std::fs::remove_file(whole.folder.join(files::JOURNAL));
    for (name, bytes) in &whole.files[..whole.files.len() - 1] {
        if *name == path.file_name().unwrap() || *name == files::SUMMARY {
            std::fs::write(whole.folder.join(name), bytes).unwrap();
        }
    }
}

fn changed(mut bytes: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    for &[low, high, byte, cut] in edits.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len().max(1);
        if cut == 0xff {
            bytes.truncate(at);
        } else if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
    }
    bytes
}

fn is_told(error: KeepError) {
    assert!(!error.to_string().contains(char::is_control), "{error:?}");
}

fn read(folder: &Path) {
    let recording = match Recording::open(folder) {
        Ok(recording) => recording,
        Err(error) => return is_told(error),
    };
    let style = Style {
        color: false,
        width: 80,
        complete: recording.is_complete(),
        is_running: recording.is_running(),
        recording: None,
        is_terminal: false,
    };
    let text = table::render(recording.summary(), style);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    let mut columns = FileColumns::default();
    let shown = recording.first_files(100, |row| columns.push(&row));
    let start_ns = recording.summary().job.started.as_nanosecond() as i64;
    let (mut series, mut regions) = (JobSeries::new(start_ns), RegionsBuilder::new(start_ns));
    let samples = recording.each_sample(|row| {
        series.push(&row);
        regions.sample(&row);
    });
    let (mut tree, mut flat) = (RegionTreeSum::new(false), FlatRegions::default());
    let each_region = recording.each_region(|row| {
        tree.add(&row);
        flat.add(&row);
    });
    each_region.map(drop).unwrap_or_else(is_told);
    recording.each_phase(|row| regions.phase(&row)).map(drop).unwrap_or_else(is_told);
    let processes = recording.processes(Some(100)).map(|rows| (rows.rows, rows.total));
    recording.each_io_moment(drop).map(drop).unwrap_or_else(is_told);
    recording.each_io_place(drop).map(drop).unwrap_or_else(is_told);
    recording.each_io_call(drop).map(drop).unwrap_or_else(is_told);
    match (shown, samples, processes) {
        (Ok(files), Ok(_), Ok((processes, total))) => {
            let (summary, files) = (recording.summary(), columns.finish(files));
            let lines = tree.finish();
            let lines: Vec<RegionLine<'_>> = lines
                .iter()
                .map(|of| RegionLine { depth: of.depth, row: &of.row, threads: of.threads })
                .collect();
            let mut page = report::page(summary, series, &processes, files, total);
            page.regions = regions.finish(summary.regions.as_deref(), &lines, flat.finish());
            assert!(!page.html().is_empty());
        }
        (files, samples, processes) => {
            let errors = [files.err(), samples.err(), processes.err()];
            errors.into_iter().flatten().for_each(is_told);
        }
    }
}
