//! Makes recordings that the live page is measured with.
//!
//! ```text
//! page_sizes FOLDER ended SAMPLES          one recording with so many samples of each series; one sample of `cpu_seconds`,
//!                                          after a third of the time, is 1e12
//! page_sizes FOLDER long SAMPLES SECONDS   the same, of a job that runs for so long still
//! page_sizes FOLDER jobs JOBS SECONDS      jobs that run, each with a session of two processes
//! page_sizes FOLDER read-on SAMPLES        prints how long it takes to read one that runs whole, and to read it on
//! ```
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime};

use weigh_keep::{GrowingRecording, KeepError, Recording, RecordingWriter};
use weigh_schema::METRICS;
use weigh_schema::sink::Sink as _;
use weigh_schema::summary::{SCHEMA, Summary};
use weigh_schema::update::{Scope, Update};

type Failure = Box<dyn std::error::Error>;

const TICK_NS: i64 = 100_000_000;
const FILES: u64 = 20;
/// The series with a spike, and how high it is.
const SPIKE: (&str, f64) = ("cpu_seconds", 1e12);

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [_, folder, "ended", samples] => {
            let (mut writer, start_ns) =
                write_samples(Path::new(folder), "ended", samples.parse()?)?;
            writer.finish(&summary("ended", start_ns)?);
            writer.close()?;
            Ok(())
        }
        [_, folder, "long", samples, seconds] => {
            let (mut writer, _) = write_samples(Path::new(folder), "long", samples.parse()?)?;
            writer.flush();
            go_on(vec![writer], seconds.parse()?);
            Ok(())
        }
        [_, folder, "jobs", jobs, seconds] => {
            run_jobs(Path::new(folder), jobs.parse()?, seconds.parse()?)
        }
        [_, folder, "read-on", samples] => {
            let (mut writer, _) = write_samples(Path::new(folder), "long", samples.parse()?)?;
            writer.flush();
            time_reading(Path::new(folder))
        }
        // What the node takes for a session of weigh: with one process below it.
        ["weigh", "run", seconds] => Ok(Command::new("sleep").arg(seconds).status().map(drop)?),
        _ => {
            Err("usage: page_sizes FOLDER ended SAMPLES | long SAMPLES SECONDS | jobs JOBS SECONDS | read-on SAMPLES"
                .into())
        }
    }
}

fn time_reading(folder: &Path) -> Result<(), Failure> {
    let mut growing = GrowingRecording::open_found(folder)?.ok_or("no journal that grows")?;
    for _ in 0..3 {
        let began = Instant::now();
        count_rows(&Recording::open_found(folder)?)?;
        println!("whole: {:?}", began.elapsed());
        let began = Instant::now();
        count_rows(&growing.read_on(folder)?.ok_or("it has ended")?)?;
        println!("read on: {:?}", began.elapsed());
    }
    Ok(())
}

/// All rows of its page but samples.
fn count_rows(recording: &Recording) -> Result<u64, KeepError> {
    Ok(recording.each_process(|_| ())?
        + recording.each_file(|_| ())?
        + recording.each_region(|_| ())?
        + recording.each_phase(|_| ())?
        + recording.each_io_call(|_| ())?)
}

fn run_jobs(folder: &Path, jobs: usize, seconds: u64) -> Result<(), Failure> {
    let mut writers = Vec::new();
    let mut sessions: Vec<Child> = Vec::new();
    for job in 0..jobs {
        let name = format!("job-{job}");
        writers.push(begin(&folder.join(&name), &name, now_ns())?);
        let mut session = Command::new("/proc/self/exe");
        sessions.push(session.arg0("weigh").args(["run", &seconds.to_string()]).spawn()?);
    }
    go_on(writers, seconds);
    sessions.iter_mut().try_for_each(|session| session.wait().map(drop))?;
    Ok(())
}

/// Once a second samples and files.
fn go_on(mut writers: Vec<RecordingWriter>, seconds: u64) {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tick = 0;
    while Instant::now() < end {
        for writer in &mut writers {
            writer.append(&samples(now_ns(), tick));
            (0..FILES).for_each(|file| writer.append(&file_use(file, tick)));
            writer.flush();
        }
        tick += 1;
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn begin(folder: &Path, id: &str, start_ns: i64) -> Result<RecordingWriter, Failure> {
    let mut writer = RecordingWriter::create(folder)?;
    writer.append(&Update::Started(Box::new(summary(id, start_ns)?)));
    Ok(writer)
}

/// A recording up to now, and when it began.
fn write_samples(folder: &Path, id: &str, number: u64) -> Result<(RecordingWriter, i64), Failure> {
    let start_ns = now_ns() - number as i64 * TICK_NS;
    let mut writer = begin(folder, id, start_ns)?;
    for tick in 0..number {
        let mut update = samples(start_ns + tick as i64 * TICK_NS, tick);
        if let (true, Update::Samples { values, .. }) = (tick == number / 3, &mut update) {
            values.insert(SPIKE.0.to_string(), SPIKE.1);
        }
        writer.append(&update);
    }
    Ok((writer, start_ns))
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// All series of a job; the values are such that no compression helps.
fn samples(time_ns: i64, tick: u64) -> Update {
    let value = |(number, series): (u64, &'static str)| {
        let mixed = (tick * 64 + number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        (
            series.to_string(),
            tick as f64 + mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64 / u64::MAX as f64,
        )
    };
    let series = METRICS.iter().filter_map(|metric| metric.series);
    let values: BTreeMap<String, f64> = (0..).zip(series).map(value).collect();
    Update::Samples { time_ns, scope: Scope::Job, values }
}

fn file_use(file: u64, tick: u64) -> Update {
    let name = format!("/data/part-{file:04}.h5");
    let row = serde_json::json!({
        "entry": "file_so_far", "name": name, "object": "regular", "pid": 1000, "process": "sim", "device": 1, "inode": file,
        "read_bytes": tick * 4096 * (file + 1), "read_calls": tick, "written_bytes": 0, "write_calls": 0,
        "by_kind": {}, "numbers": {"read_seconds": (tick * (file + 1)) as f64 * 1e-4, "opens_total": 1}, "again_quality": "exact",
    });
    serde_json::from_value(row).unwrap_or(Update::Unknown)
}

fn summary(id: &str, start_ns: i64) -> Result<Summary, Failure> {
    let started = jiff::Timestamp::from_nanosecond(start_ns.into())?.to_string();
    let host = serde_json::json!({"node": "n1", "kernel": "6.1", "cpus": 2, "memory_bytes": 1, "cgroup_version": "v2", "virtualisation": null, "weigh": "0"});
    Ok(serde_json::from_value(serde_json::json!({
        "schema": SCHEMA, "exit": null, "limits": [], "snapshots": [], "collectors": [], "host": host,
        "job": {"id": id, "command": ["./sim", id], "cwd": "/", "category": "sizes", "labels": {}, "user": "ada", "node": "n1", "started": started, "ended": null},
        "metrics": {"cpu_seconds": {"value": 0.25, "unit": "seconds", "source": "bpf", "quality": "exact"}},
    }))?)
}
