//! What it costs that pages are charged to who writes them: 64 KiB written again and again to the same
//! place, as fast as that goes.
//!
//! The program's CPU time, by its own clock, between its first write and its last; refuses a run in which
//! weigh did not see the bytes that it wrote.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::page::{Page, Table};
use crate::runs::{Bench, told};
use crate::spread::Spread;

const STEP: u64 = 65536;
/// How many times as long a write may take whose pages are charged.
const TARGET: f64 = 1.3;
const ROUNDS: usize = 31;
const PARTS: &str = "pagecache,writeback,block";

struct Way {
    name: &'static str,
    /// `weigh calls`' mechanism and parts.
    by: Option<(&'static str, &'static str)>,
    target: bool,
}

const WAYS: [Way; 5] = [
    Way { name: "not watched", by: None, target: false },
    Way { name: "`preload`, the call alone", by: Some(("preload", "sched")), target: false },
    Way { name: "`preload`, pages charged", by: Some(("preload", PARTS)), target: true },
    Way { name: "`bpf`, the call alone", by: Some(("bpf", "sched")), target: false },
    Way { name: "`bpf`, pages charged", by: Some(("bpf", PARTS)), target: true },
];

/// Nanoseconds of a write.
fn one(bench: &Bench, way: &Way, writes: u64) -> Result<f64> {
    let json = bench.path("calls.json");
    let mut words = Vec::new();
    if let Some((mechanism, parts)) = way.by {
        words.extend([bench.weigh_path(), "calls".into(), "-q".into()]);
        words.extend(["--mechanism", mechanism, "-s", parts, "--json"].map(String::from));
        words.extend([json.display().to_string(), "--".into()]);
    }
    words.extend(bench.workload(&format!("writers small . {writes}")));
    let status = bench.command(&words)?.status().with_context(|| words.join(" "))?;
    bench.succeeded(&words, status)?;
    let truth = fs::read_to_string(bench.path("truth")).context("what the program did")?;
    fs::remove_file(bench.path("truth")).context("what the program did")?;
    let cpu_ns = told(&truth, "cpu_ns").context("the program does not say cpu_ns")?;
    if way.by.is_some() {
        let report = fs::read(&json).context("what weigh says")?;
        let report: serde_json::Value =
            serde_json::from_slice(&report).context("what weigh says")?;
        let kinds = report["calls"].as_array().context("no calls")?;
        let seen = kinds.iter().filter(|kind| kind["call"] == "pwrite64");
        let seen: u64 = seen.filter_map(|kind| kind["bytes_total"].as_u64()).sum();
        ensure!(seen == (writes + 1) * STEP, "weigh saw {seen} bytes of {writes} writes");
    }
    Ok(cpu_ns.parse::<f64>().context("cpu_ns")? / writes as f64)
}

/// Takes the figures, and writes them.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    eprintln!("rewrite");
    let writes = if bench.quick { 500 } else { 20_000 };
    let mut samples: [Vec<f64>; WAYS.len()] = Default::default();
    for number in 0..bench.times(ROUNDS) {
        for offset in 0..WAYS.len() {
            let which = (number + offset) % WAYS.len();
            samples[which].push(one(bench, &WAYS[which], writes)?);
        }
    }
    page.heading(2, "Pages charged to who wrote them");
    page.paragraph(&format!(
        "64 KiB written {writes} times to the same place of a file (`tests/workloads/writers.c`, `small`): CPU \
         time of a write by the program's clock, {} rounds, each with one run each way. “The call alone” \
         is `weigh calls` that asks for no part but the scheduler; “pages charged” asks for {PARTS}: every \
         page that becomes dirty is its writer's until it is on the device. The ratio is the median of \
         those to the round's unwatched run, with its 95 % interval; “least” is that of the least of all \
         rounds.",
        samples[0].len()
    ));
    page.table(&table(&samples));
    Ok(())
}

fn table(samples: &[Vec<f64>; WAYS.len()]) -> Table {
    let mut table = Table::new(["", "a write", "times as long", "least", "target", "verdict"]);
    let bare = Spread::of(samples[0].iter().copied());
    for (way, own) in WAYS.iter().zip(samples) {
        let spread = Spread::of(own.iter().copied());
        let ratios = Spread::of(own.iter().zip(&samples[0]).map(|(own, bare)| own / bare));
        let is_bare = way.by.is_none();
        let interval = ratios.interval.map(|(low, high)| format!(" ({low:.2} … {high:.2})"));
        let ratio = format!("{:.2}{}", ratios.median, interval.unwrap_or_default());
        table.row([
            way.name.to_string(),
            format!("{:.0} ns", spread.median),
            if is_bare { "–".into() } else { ratio },
            if is_bare { "–".into() } else { format!("{:.2}", spread.least / bare.least) },
            if way.target { format!("≤ {TARGET}") } else { "–".into() },
            if way.target { ratios.against(TARGET).to_string() } else { "–".into() },
        ]);
    }
    table
}
