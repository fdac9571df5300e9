//! How far a program gets beyond its limit, by each way in which weigh can follow it.

use anyhow::{Context, Result, ensure};

use crate::page::{Page, Table};
use crate::runs::{Bench, Measured};
use crate::spread::Verdict;
use crate::targets;
use crate::tools::Tools;
use crate::ways::Way;

const PROGRAMS: [(&str, &str); 3] = [
    ("1 MB every ms", "grow step 1000000 1000 2000000000"),
    ("2 GB at once", "grow once 2000000000"),
    ("four processes, each 1 MB every ms", "grow children 4 1000000 1000 1000000000"),
];

/// What came of the runs of one program under one way.
#[derive(Default)]
struct Worst {
    touched: u64,
    seen: f64,
    named: usize,
}

/// How far a program gets beyond its limit.
pub fn write(bench: &Bench, tools: &Tools, page: &mut Page) {
    let runs = bench.times(5);
    page.heading(2, "Limits");
    page.paragraph(&format!(
        "A limit of `memory_peak_bytes=100MB`: the most that the job held when it was ended, in \
         bytes, the worst of {runs} runs. “Touched” is what the programs themselves had counted, \
         step by step (the program that takes 2 GB at once counts only when it has all of it); \
         “weigh” includes the program and its libraries. The first program is promised of every \
         mechanism, the others of BPF, which checks limits in the kernel."
    ));
    let mut table =
        Table::new(["program", "by", "touched", "weigh", "offender", "target", "verdict"]);
    for (which, (name, line)) in PROGRAMS.iter().enumerate() {
        for way in tools.ways.iter().filter_map(|tool| tool.way()) {
            eprintln!("limits: {name}, {way}");
            let promised = which == 0 || way.following.name == "bpf";
            let target = promised.then(|| targets::limit(way)).flatten();
            let cells = match worst(bench, way, line, runs) {
                Ok(worst) => row(&worst, runs, target, way.following.name == "bpf"),
                Err(error) => {
                    let why = bench.without_paths(&format!("{error:#}"));
                    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
                    ["–".into(), "–".into(), "–".into(), "–".into(), format!("failed: {why}")]
                }
            };
            table.row([vec![name.to_string(), way.to_string()], cells.to_vec()].concat());
        }
    }
    page.table(&table);
}

fn worst(bench: &Bench, way: Way, line: &str, runs: usize) -> Result<Worst> {
    let mut worst = Worst::default();
    let mut options = way.options();
    options.extend(["--limit", "memory_peak_bytes=100MB"].map(String::from));
    for _ in 0..runs {
        let measured = bench.measure(&options, &bench.workload(line))?;
        ensure!(measured.status.code() == Some(124), "{line}: {}", measured.status);
        worst.touched = worst.touched.max(touched_bytes(&measured)?);
        worst.seen = worst.seen.max(measured.metric("memory_peak_bytes")?);
        let named = measured.summary.limits.iter().any(|limit| limit.offender.is_some());
        worst.named += usize::from(named);
    }
    Ok(worst)
}

/// In the kernel the offender is caught in the act, so that it has to be named too.
fn row(worst: &Worst, runs: usize, target: Option<f64>, in_kernel: bool) -> [String; 5] {
    let named = !in_kernel || worst.named == runs;
    let met = |target| worst.seen <= target && worst.touched as f64 <= target && named;
    let verdict = target.map(|target| Verdict::exact(met(target)).to_string());
    [
        worst.touched.to_string(),
        worst.seen.to_string(),
        format!("named in {} of {runs}", worst.named),
        target.map_or("–".to_string(), |target| format!("≤ {target}")),
        verdict.unwrap_or_else(|| "–".to_string()),
    ]
}

/// What the processes of `grow` had touched, in all.
fn touched_bytes(measured: &Measured) -> Result<u64> {
    let bytes = measured.progress.as_ref().context("grow did not tell how far it was")?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number)).sum())
}
