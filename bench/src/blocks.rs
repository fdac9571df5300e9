//! What it costs to follow files: the figures "Overhead [1/4]" to "[4/4]" of the published system (seed 004),
//! which read and write a file, by calls and by mapped memory, in blocks of six sizes: not watched, the
//! application watched, a mount watched, both.
//!
//! The wall time by the program's own clock; refuses a run in which weigh did not see what the program did.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::page::{Page, Table};
use crate::plot::{self, Bar, Panel};
use crate::runs::{Bench, told};
use crate::spread::Spread;

const FILE: &str = "blocks";
const SIZE: u64 = 64 << 20;
const ROUNDS: usize = 15;
const SECONDS_FOR_EACH: u64 = 12;

/// How the program moves its bytes.
struct Access {
    word: &'static str,
    title: &'static str,
    /// The key of weigh's report with the bytes that the calls moved; absent where no call moves them.
    moved: Option<&'static str>,
}

const ACCESSES: [Access; 4] = [
    Access { word: "write", title: "writing a file", moved: Some("written_bytes") },
    Access { word: "store", title: "writing mapped memory", moved: None },
    Access { word: "read", title: "reading a file", moved: Some("read_bytes") },
    Access { word: "load", title: "reading mapped memory", moved: None },
];

const BLOCKS: [(&str, u64); 6] = [
    ("1 KiB", 1 << 10),
    ("100 KiB", 100 << 10),
    ("128 KiB", 128 << 10),
    ("1000 KiB", 1000 << 10),
    ("1 MiB", 1 << 20),
    ("16 MiB", 16 << 20),
];

/// Who watches.
struct Way {
    name: &'static str,
    /// The mechanism of `weigh io`, if it watches the application.
    application: Option<&'static str>,
    mount: Option<Mount>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mount {
    Passthrough,
    Plain,
    Exact,
}

impl Mount {
    /// Of `weigh io mount`.
    fn option(self) -> Option<&'static str> {
        match self {
            Mount::Passthrough => None,
            Mount::Plain => Some("--no-passthrough"),
            Mount::Exact => Some("--exact"),
        }
    }
}

const WAYS: [Way; 7] = [
    Way { name: "not watched", application: None, mount: None },
    Way { name: "preload", application: Some("preload"), mount: None },
    Way { name: "bpf", application: Some("bpf"), mount: None },
    Way { name: "mount", application: None, mount: Some(Mount::Passthrough) },
    Way { name: "plain mount", application: None, mount: Some(Mount::Plain) },
    Way { name: "exact mount", application: None, mount: Some(Mount::Exact) },
    Way { name: "preload + mount", application: Some("preload"), mount: Some(Mount::Passthrough) },
];

/// How many times as long it may take.
fn target(way: &Way, access: &Access, block: u64) -> Option<f64> {
    let small = block < 100 << 10;
    match (way.application, way.mount, access.moved) {
        (Some(_), None, None) => Some(1.05),
        (Some("preload"), None, _) => Some(if small { 1.10 } else { 1.02 }),
        (Some(_), None, _) => Some(if small { 1.8 } else { 1.10 }),
        (None, Some(Mount::Passthrough), Some(_)) if !small => Some(1.05),
        (None, Some(Mount::Passthrough), Some("read_bytes")) => Some(1.25),
        (None, Some(Mount::Passthrough), Some(_)) => Some(1.40),
        _ => None,
    }
}

/// Seconds of the program, by its own clock.
fn one(bench: &Bench, way: &Way, access: &Access, block: u64, times: u64) -> Result<f64> {
    let (source, mounted) = (bench.path("source"), bench.path("mounted"));
    let mut reports = Vec::new();
    let mut words = Vec::new();
    if let Some(mount) = way.mount {
        let json = bench.path("mount.json").display().to_string();
        words.extend([bench.weigh_path(), "io".into(), "mount".into(), "-q".into()]);
        words.extend(mount.option().map(String::from));
        words.extend(["--json".into(), json.clone()]);
        words.extend([&source, &mounted].map(|folder| folder.display().to_string()));
        words.push("--".into());
        // Of mapped memory it has pages, however often they are used.
        reports.push((json, access.moved.filter(|_| mount == Mount::Exact)));
    }
    if let Some(mechanism) = way.application {
        let json = bench.path("application.json").display().to_string();
        words.extend([bench.weigh_path(), "io".into(), "-q".into()]);
        words.extend(["--mechanism", mechanism, "--json", &json, "--"].map(String::from));
        reports.push((json, access.moved));
    }
    let folder = if way.mount.is_some() { &mounted } else { &source };
    let file = folder.join(FILE).display().to_string();
    words.extend(bench.workload(&format!("blocks {} {file} {SIZE} {block} {times}", access.word)));
    let status = bench.command(&words)?.status().with_context(|| words.join(" "))?;
    bench.succeeded(&words, status)?;
    let truth = fs::read_to_string(bench.path("truth")).context("what the program did")?;
    fs::remove_file(bench.path("truth")).context("what the program did")?;
    let number = |key: &str| -> Result<u64> {
        told(&truth, key)
            .with_context(|| format!("the program does not say {key}"))?
            .parse()
            .context("a number")
    };
    for (report, moved) in reports {
        saw(Path::new(&report), moved, number("bytes")?).with_context(|| words.join(" "))?;
    }
    Ok(number("wall_ns")? as f64 / 1e9)
}

/// Refuses a report without the file, or with other bytes.
fn saw(report: &Path, moved: Option<&str>, bytes: u64) -> Result<()> {
    let text = fs::read(report).context("what weigh says")?;
    let report: serde_json::Value = serde_json::from_slice(&text).context("what weigh says")?;
    let files = report["files"].as_array().context("no files")?;
    let is_it = |file: &&serde_json::Value| {
        file["name"].as_str().is_some_and(|name| Path::new(name).file_name() == Some(FILE.as_ref()))
            && file["object"] == "regular"
    };
    let rows: Vec<_> = files.iter().filter(is_it).collect();
    ensure!(!rows.is_empty(), "weigh did not see the file");
    let Some(moved) = moved else { return Ok(()) };
    let seen: u64 = rows.iter().filter_map(|row| row[moved].as_u64()).sum();
    ensure!(seen == bytes, "weigh saw {seen} {moved} of {bytes}");
    Ok(())
}

/// How often the program goes through its file.
fn times(bench: &Bench, block: u64) -> u64 {
    match (bench.quick, block) {
        (true, _) => 1,
        (_, 1024) => 2,
        _ => 6,
    }
}

/// By way, the seconds of each round.
fn rounds(
    bench: &Bench,
    access: &Access,
    (block, times): (u64, u64),
) -> Result<[Vec<f64>; WAYS.len()]> {
    let mut samples: [Vec<f64>; WAYS.len()] = Default::default();
    let began = Instant::now();
    for number in 0..bench.times(ROUNDS) {
        if number >= 6 && began.elapsed() > Duration::from_secs(SECONDS_FOR_EACH) {
            break;
        }
        for offset in 0..WAYS.len() {
            let which = (number + offset) % WAYS.len();
            samples[which].push(one(bench, &WAYS[which], access, block, times)?);
        }
    }
    Ok(samples)
}

/// Takes the figures, writes them; the picture.
pub fn write(bench: &Bench, page: &mut Page) -> Result<String> {
    for folder in ["source", "mounted"] {
        fs::create_dir_all(bench.path(folder)).context("a folder")?;
    }
    fs::write(bench.path("source").join(FILE), vec![1; SIZE as usize]).context("the file")?;
    page.heading(2, "Files followed");
    page.paragraph(METHOD);
    let mut panels = Vec::new();
    for access in &ACCESSES {
        let mut table = Table::new([
            "block",
            "",
            "GB/s",
            "times as long",
            "95 % interval",
            "rounds",
            "target",
            "verdict",
        ]);
        let mut bars = Vec::new();
        for (name, block) in BLOCKS {
            eprintln!("blocks: {} by {name}", access.title);
            let times = times(bench, block);
            let samples = rounds(bench, access, (block, times))?;
            let bytes = (SIZE * times) as f64;
            add(&mut table, &mut bars, access, (name, block, bytes), &samples);
        }
        page.heading(3, access.title);
        page.table(&table);
        panels.push(Panel { title: access.title.to_string(), bars });
    }
    page.picture("Times as long, by block and way", "images/blocks.svg");
    plot::overhead(
        &panels,
        "Wall time of the program, percent more than not watched: median, and its 95 % interval",
    )
}

fn add(
    table: &mut Table,
    bars: &mut Vec<Bar>,
    access: &Access,
    (name, block, bytes): (&str, u64, f64),
    samples: &[Vec<f64>; WAYS.len()],
) {
    for (way, own) in WAYS.iter().zip(samples) {
        let is_bare = way.application.is_none() && way.mount.is_none();
        let rate = bytes / 1e9 / Spread::of(own.iter().copied()).median;
        let ratios = Spread::of(own.iter().zip(&samples[0]).map(|(own, bare)| own / bare));
        let (low, high) = ratios.interval.unwrap_or((ratios.least, ratios.greatest));
        let target = target(way, access, block);
        let unless_bare = |text: String| if is_bare { "–".to_string() } else { text };
        table.row([
            name.to_string(),
            way.name.to_string(),
            format!("{rate:.2}"),
            unless_bare(format!("{:.2}", ratios.median)),
            unless_bare(format!("{low:.2} … {high:.2}")),
            ratios.count.to_string(),
            target.map_or("–".into(), |target| format!("≤ {target:.2}")),
            target.map_or("–".into(), |target| ratios.against(target).to_string()),
        ]);
        if !is_bare {
            let percent = |ratio: f64| (ratio - 1.0) * 100.0;
            let name = format!("{name}, {}", way.name);
            bars.push(Bar {
                name,
                median: percent(ratios.median),
                low: percent(low),
                high: percent(high),
                is_weigh: true,
            });
        }
    }
}

const METHOD: &str = "\
A file of 64 MiB that is in the page cache, gone through by blocks again and again by one process \
(`tests/workloads/blocks.c`): by read(2) and write(2), or copied from and to mapped memory. Its own wall time, by \
its own clock, between opening and closing: “times as long” is the median, over rounds with one run each way, of \
the ratio to the round's run that nobody watched. `preload` and `bpf` are `weigh io` by that mechanism; `mount` is \
`weigh io mount` with passthrough, `plain mount` the same without, `exact mount` with --exact; `preload + mount` is both at once. In each run \
weigh has to name the file, and, of calls, to have counted its bytes exactly.";
