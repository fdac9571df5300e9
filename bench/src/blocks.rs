//! What it costs to follow files: the figures "Overhead [1/4]" to "[4/4]" of the published system (seed 004),
//! which read and write a file, by calls and by mapped memory, in blocks of six sizes: not watched, the
//! application watched, a mount watched, both. By a program of our own that does nothing else; `fio` has its part.
//!
//! The wall time by the program's own clock; refuses a run in which weigh did not see what the program did.

use std::fs;

use anyhow::{Context, Result};

use crate::bars::{self, Panel};
use crate::page::{Page, Table};
use crate::runs::{Bench, told};
use crate::spread::Spread;
use crate::watched::{self, Length, Mount, SIZE, Told, Way};

const ROUNDS: Length = Length { least: 6, most: 15, seconds: 12 };

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

const WAYS: [Way; 8] = [
    Way { name: "not watched", application: None, mount: None },
    Way { name: "preload", application: Some("preload"), mount: None },
    Way { name: "bpf", application: Some("bpf"), mount: None },
    Way { name: "mount", application: None, mount: Some(Mount::Passthrough) },
    Way { name: "preload + mount", application: Some("preload"), mount: Some(Mount::Passthrough) },
    Way { name: "plain mount", application: None, mount: Some(Mount::Plain) },
    Way { name: "exact mount", application: None, mount: Some(Mount::Exact) },
    Way { name: "hollow mount", application: None, mount: Some(Mount::Hollow) },
];

/// How many times as long as the hollow mount the exact one may take.
const OVER_HOLLOW: f64 = 1.3;

fn one(bench: &Bench, way: &Way, access: &Access, block: u64, times: u64) -> Result<Told> {
    let program = |file: &str| {
        bench.workload(&format!("blocks {} {file} {SIZE} {block} {times}", access.word))
    };
    watched::run(bench, way, access.moved, program, || said(bench))
}

/// What the program did, by its own clock.
fn said(bench: &Bench) -> Result<Told> {
    let truth = fs::read_to_string(bench.path("truth")).context("what the program did")?;
    fs::remove_file(bench.path("truth")).context("what the program did")?;
    let number = |key: &str| -> Result<u64> {
        told(&truth, key)
            .with_context(|| format!("the program does not say {key}"))?
            .parse()
            .context("a number")
    };
    Ok(Told { bytes: number("bytes")?, seconds: number("wall_ns")? as f64 / 1e9 })
}

/// How often the program goes through its file.
fn times(bench: &Bench, block: u64) -> u64 {
    match (bench.quick, block) {
        (true, _) => 1,
        (_, 1024) => 2,
        _ => 6,
    }
}

fn over_hollow(access: &Access, block: &str, ratio: &Spread) -> Vec<String> {
    let interval = ratio.interval.unwrap_or((ratio.least, ratio.greatest));
    vec![
        access.title.to_string(),
        block.to_string(),
        format!("{:.2}", ratio.median),
        format!("{:.2} … {:.2}", interval.0, interval.1),
        format!("≤ {OVER_HOLLOW}"),
        ratio.against(OVER_HOLLOW).to_string(),
    ]
}

/// Takes the figures, writes them; the picture.
pub fn write(bench: &Bench, page: &mut Page) -> Result<String> {
    watched::prepare(bench)?;
    page.heading(2, "Files followed");
    page.paragraph(METHOD);
    let mut panels = Vec::new();
    let mut over =
        Table::new(["", "block", "exact ÷ hollow", "95 % interval", "target", "verdict"]);
    for access in &ACCESSES {
        let (mut table, mut groups) = (watched::table(), Vec::new());
        for (name, block) in watched::blocks(bench) {
            eprintln!("blocks: {} by {name}", access.title);
            let times = times(bench, block);
            let samples =
                watched::rounds(bench, &WAYS, ROUNDS, |way| one(bench, way, access, block, times))?;
            let ratio = watched::ratio(&WAYS, &samples, Mount::Exact, Mount::Hollow);
            if let Some(ratio) = ratio {
                over.row(over_hollow(access, name, &ratio));
            }
            groups.push(watched::add(&mut table, &WAYS, access.moved, (name, block), &samples));
        }
        page.heading(3, access.title);
        page.table(&table);
        panels.push(Panel { title: access.title.to_string(), groups });
    }
    page.heading(3, "The exact mount over what it costs at least");
    page.table(&over);
    page.picture("Times as long, by block and way", "images/blocks.svg");
    bars::picture(&watched::series(&WAYS), &panels, watched::NOTE)
}

const METHOD: &str = "\
A file of 64 MiB that is in the page cache, gone through by blocks again and again by one process \
(`tests/workloads/blocks.c`): by read(2) and write(2), or copied from and to mapped memory. Its own wall time, by \
its own clock, between opening and closing: “times as long” is the median, over rounds with one run each way, of \
the ratio to the round's run that nobody watched. `preload` and `bpf` are `weigh io` by that mechanism; `mount` is \
`weigh io mount` with passthrough, `plain mount` the same without, `exact mount` with --exact; `preload + mount` is both at once. \
`hollow mount` is not weigh: a program that does nothing for each call that comes to it (`tests/workloads/hollow.c`). In each run \
weigh has to name the file, and, of calls, to have counted its bytes exactly.";
