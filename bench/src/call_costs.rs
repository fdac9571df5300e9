//! How right `weigh calls` is: a program whose calls cost what is known otherwise, by each mechanism.
//!
//! Reads the report of `weigh calls` and the truth of the workload `costs`, by the same declaration
//! as the tests; emits a table. Refuses a run that fails.

#[path = "../../tests/workloads/costs.rs"]
mod costs;

use anyhow::{Context, Result};
use weigh_schema::call::CallsReport;

use crate::page::{Page, Table};
use crate::runs::Bench;
use crate::spread::Verdict;
use costs::{Allowed, Both, ROWS, Row};

const MECHANISMS: [&str; 2] = ["bpf", "preload"];

/// A run: what weigh said, and what the program did.
struct Run {
    report: CallsReport,
    truth: String,
}

/// The table.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    let count = bench.times(5);
    let mut runs: [Vec<Run>; 2] = [Vec::new(), Vec::new()];
    for round in 0..count {
        eprintln!("accuracy: calls, round {}", round + 1);
        for (of_mechanism, mechanism) in runs.iter_mut().zip(MECHANISMS) {
            of_mechanism.push(follow(bench, mechanism)?);
        }
    }
    page.heading(2, "Costs of calls");
    page.paragraph(&format!(
        "What `weigh calls` says of a program whose calls cost what is known otherwise \
         (`tests/workloads/costs.c`; each kind of work is done by a call of its own name): by the \
         program's own clocks, by what the kernel counts for it elsewhere, or because it is what the \
         program did. Of {count} runs by each mechanism the one that is furthest off. Times: what \
         passes between a call and the program's clock is in the truth only. A kernel may pass \
         over a program in an interrupt that comes while another one runs: of timers that ran, \
         some may be missing. “–”: the library does not see this call."
    ));
    let mut table = Table::new([
        "what",
        "call",
        "known by",
        "truth",
        "by `bpf`",
        "by `preload`",
        "may be off",
        "verdict",
    ]);
    for row in ROWS {
        table.row(cells(row, &runs));
    }
    table.row(sums(&runs));
    page.table(&table);
    Ok(())
}

/// Follows the program.
fn follow(bench: &Bench, mechanism: &str) -> Result<Run> {
    let path = bench.path("calls.json");
    let mut words = vec![bench.weigh_path()];
    words.extend(["calls", "--quiet", "--mechanism", mechanism, "--json"].map(String::from));
    words.extend([path.display().to_string(), "--".to_string()]);
    words.extend(bench.workload("costs costs-file"));
    let _ = std::fs::remove_file(bench.path("truth"));
    let status = bench.command(&words)?.status().with_context(|| words.join(" "))?;
    bench.succeeded(&words, status)?;
    let read = |name: &str| std::fs::read_to_string(bench.path(name)).context(name.to_string());
    let report = serde_json::from_str(&read("calls.json")?).context("the report")?;
    Ok(Run { report, truth: read("truth")? })
}

fn cells(row: &Row, runs: &[Vec<Run>; 2]) -> Vec<String> {
    let both = runs.each_ref().map(|runs| worst(row, runs));
    let truth = both.iter().flatten().next().map(|both| amount(row, both.truth));
    let all_hold = both.iter().flatten().all(|both| row.holds(*both, 1.0));
    let cell = |both: Option<Both>| both.map_or("–".to_string(), |both| said(row, both));
    let mut cells = vec![row.what.to_string(), format!("`{}`", row.call), row.witness.to_string()];
    cells.push(truth.unwrap_or_else(|| "–".to_string()));
    cells.extend(both.map(cell));
    cells.push(match row.allowed {
        Allowed::Nothing => "0".to_string(),
        Allowed::Percent(percent) => format!("{percent} %"),
        Allowed::Seconds(seconds) => format!("{} ms", seconds * 1e3),
    });
    cells.push(Verdict::exact(all_hold).to_string());
    cells
}

/// The run that is furthest off.
fn worst(row: &Row, runs: &[Run]) -> Option<Both> {
    let both = runs.iter().filter_map(|run| row.both(&run.report, &run.truth));
    let off = |both: &Both| (both.said - both.truth).abs();
    both.max_by(|a, b| off(a).total_cmp(&off(b)))
}

fn amount(row: &Row, figure: f64) -> String {
    // A sum of nothing is -0.
    if row.is_time() { format!("{:.3} ms", figure * 1e3) } else { (figure + 0.0).to_string() }
}

fn said(row: &Row, both: Both) -> String {
    let off = both.said - both.truth;
    let figure = amount(row, both.said);
    match row.allowed {
        _ if off == 0.0 => figure,
        Allowed::Percent(_) => format!("{figure} ({:+.2} %)", off / both.truth * 100.0),
        _ => format!("{figure} ({})", amount(row, off)),
    }
}

/// Whether the parts of each kind of call are its time.
fn sums(runs: &[Vec<Run>; 2]) -> Vec<String> {
    let worst = |runs: &Vec<Run>| {
        let sums = runs.iter().map(|run| costs::worst_sum(&run.report));
        sums.fold((0.0_f64, 0), |worst, (off, kinds)| (worst.0.max(off), worst.1.max(kinds)))
    };
    let [bpf, preload] = runs.each_ref().map(worst);
    let cell = |(off, kinds): (f64, usize)| format!("{off:.6} % off in {kinds} kinds");
    let mut cells = ["parts of each kind of call, in sum", "`*`", "its time", "100 %"]
        .map(String::from)
        .to_vec();
    cells.extend([cell(bpf), cell(preload), "1 %".to_string()]);
    cells.push(Verdict::exact(bpf.0.max(preload.0) <= 1.0).to_string());
    cells
}
