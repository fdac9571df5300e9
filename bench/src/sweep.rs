//! Accuracy and overhead over sizes: Tables II and III of the published system (seed 000), for weigh's own ways.
//!
//! Four sweeps: computing for 0.3 to 30 s, filling 1 to 16 GB, reading 1 MB to 10 GB by 4 KiB, reading 10 GB by 4 to
//! 32 KiB. Reads the programs' own word, weigh's summaries, and the wall time from start to end. Refuses runs that fail;
//! leaves out what the machine's memory does not hold.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::cases::{self, Case, Truth};
use crate::machine;
use crate::page::{Page, Table};
use crate::rounds::{Length, alternate};
use crate::runs::{Arm, Bench};
use crate::tools::{Quantity, Tool, Tools};

/// One size of a sweep.
struct Step {
    name: String,
    /// Says itself what it did.
    case: Case,
    /// The same amount in each run.
    command: Vec<String>,
    /// A run of the same program that does nothing, whose figure is taken off; absent where all counts.
    still: Option<Case>,
}

struct Sweep {
    title: &'static str,
    column: &'static str,
    steps: Vec<Step>,
}

const GB: u64 = 1_000_000_000;
/// Of the machine's memory a program may fill at most so many percent.
const FILLED_MOST: u64 = 75;

fn case(bench: &Bench, line: &str, quantity: Quantity, truth: Truth) -> Case {
    let command = bench.workload(line);
    Case { name: "", command, quantity, truth, target: |_| None, complete: |text| !text.is_empty() }
}

fn computing(bench: &Bench) -> Sweep {
    let lengths: &[u64] = if bench.quick { &[300] } else { &[300, 3000, 30_000] };
    let step = |length: &u64| Step {
        name: format!("{} s", *length as f64 / 1e3),
        case: case(
            bench,
            &format!("spin {length}"),
            Quantity::Cpu,
            Truth::ToldNanoseconds("cpu_ns"),
        ),
        command: bench.spin(Duration::from_millis(*length)),
        still: None,
    };
    Sweep { title: "CPU time", column: "computing", steps: lengths.iter().map(step).collect() }
}

fn filling(bench: &Bench) -> Result<Sweep> {
    let room = machine::memory_bytes()? / 100 * FILLED_MOST;
    let sizes: &[u64] = if bench.quick { &[1] } else { &[1, 2, 4, 8, 16] };
    let step = |size: &u64| {
        let line = format!("fill {} exit", size * GB);
        let case = case(bench, &line, Quantity::Memory, Truth::Told("peak_rss_bytes"));
        Step { name: format!("{size} GB"), command: case.command.clone(), case, still: None }
    };
    let steps = sizes.iter().filter(|size| **size * GB < room).map(step).collect();
    Ok(Sweep { title: "Memory: resident size", column: "filled", steps })
}

fn reading(bench: &Bench, name: String, bytes: u64, buffer: u64) -> Step {
    let moving = |bytes| cases::moving(bench, "io", "read", bytes, buffer);
    let case = moving(bytes);
    Step { name, command: case.command.clone(), case, still: Some(moving(0)) }
}

fn sizes(bench: &Bench) -> Sweep {
    let all = [("1 MB", GB / 1000), ("100 MB", GB / 10), ("1 GB", GB), ("10 GB", 10 * GB)];
    let most = if bench.quick { 2 } else { all.len() };
    let step = |(name, bytes): &(&str, u64)| reading(bench, name.to_string(), *bytes, 4096);
    let steps = all[..most].iter().map(step).collect();
    Sweep { title: "I/O: bytes read by 4 KiB", column: "read", steps }
}

fn buffers(bench: &Bench) -> Sweep {
    let bytes = if bench.quick { GB / 10 } else { 10 * GB };
    let step = |size: u64| {
        let name = format!("{} GB by {size} KiB", bytes as f64 / GB as f64);
        reading(bench, name, bytes, size * 1024)
    };
    let steps = [4, 8, 16, 32].map(step).into_iter().collect();
    Sweep { title: "I/O: bytes read by other buffers", column: "read", steps }
}

/// How far weigh is off in one run, with its percent of the truth.
fn error(bench: &Bench, tool: &Tool, step: &Step) -> Result<(f64, f64)> {
    let figures = |case: &Case| -> Result<(f64, f64)> {
        let account = bench.account(&tool.arm(), &case.command, case.complete)?;
        let figure = account.figure(case.quantity).context("no such figure")?;
        let said = figure.value.with_context(|| figure.reason.unwrap_or_default())?;
        Ok((said, case.truth.of(&account).context("the program did not say what it did")?))
    };
    let (said, truth) = figures(&step.case)?;
    let still = step.still.as_ref().map(figures).transpose()?.unwrap_or((0.0, 0.0));
    let truth = truth - still.1;
    let off = said - still.0 - truth;
    Ok((off, off / truth * 100.0))
}

/// The worst of so many runs.
fn accuracy_cell(bench: &Bench, tool: &Tool, step: &Step) -> String {
    let mut worst = (0.0_f64, 0.0);
    for _ in 0..bench.times(5) {
        match error(bench, tool, step) {
            Ok(off) if off.0.abs() >= worst.0.abs() => worst = off,
            Ok(_) => {}
            Err(error) => {
                let why = bench.without_paths(&format!("{error:#}"));
                return why.split_whitespace().collect::<Vec<_>>().join(" ");
            }
        }
    }
    let (off, percent) = worst;
    let off = match step.case.quantity {
        Quantity::Cpu => format!("{off:+.3} s"),
        _ => format!("{off:+}"),
    };
    if worst.0 == 0.0 {
        "0".to_string()
    } else {
        format!("{off} ({percent:+.2} %)").replace('-', "−")
    }
}

fn header(sweep: &Sweep, ways: &[Tool], second: &str) -> Table {
    let mut words = vec![sweep.column.to_string(), second.to_string()];
    words.extend(ways.iter().map(Tool::name));
    words.retain(|word| !word.is_empty());
    Table::of(words)
}

fn write_accuracy(bench: &Bench, ways: &[Tool], sweep: &Sweep, page: &mut Page) {
    let mut table = header(sweep, ways, "");
    for step in &sweep.steps {
        eprintln!("sweep: {}, {}: accuracy", sweep.title, step.name);
        let cells = ways.iter().map(|tool| accuracy_cell(bench, tool, step));
        table.row([step.name.clone()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    page.heading(3, sweep.title);
    page.table(&table);
}

fn write_overhead(bench: &Bench, ways: &[Tool], sweep: &Sweep, page: &mut Page) -> Result<()> {
    let mut table = header(sweep, ways, "bare");
    let length = bench.length(Length { least: 5, most: 15, seconds: 30 });
    for step in &sweep.steps {
        eprintln!("sweep: {}, {}: overhead", sweep.title, step.name);
        let arms: Vec<Arm> = [Arm::Bare].into_iter().chain(ways.iter().map(Tool::arm)).collect();
        let rounds = alternate(bench, &arms, (&step.command, 1), length)?;
        let bare = rounds.of_arm(0, |run| run.all.wall).context("no bare run")?;
        let mut row = vec![step.name.clone(), format!("{:.3} s", bare.median)];
        row.extend((1..arms.len()).map(|arm| {
            let added = rounds.added(arm, |run| run.all.wall);
            let more = rounds.more(arm, |run| run.all.wall);
            let both = added.zip(more).map(|(added, more)| {
                format!("{:+.3} ({:+.1} %)", added.median, more.median).replace('-', "−")
            });
            both.unwrap_or_else(|| "failed".to_string())
        }));
        table.row(row);
    }
    page.heading(3, sweep.title);
    page.table(&table);
    Ok(())
}

/// Both tables, of all sweeps.
pub fn write(bench: &Bench, tools: &Tools, page: &mut Page) -> Result<()> {
    let sweeps = [computing(bench), filling(bench)?, sizes(bench), buffers(bench)];
    page.heading(2, "Accuracy");
    page.paragraph(&format!(
        "What weigh says, less what the program says itself: the worst of {} runs, with its percent of the truth. \
         Of bytes a run that moves nothing is taken off both.",
        bench.times(5)
    ));
    for sweep in &sweeps {
        write_accuracy(bench, &tools.ways, sweep, page);
    }
    page.heading(2, "Overhead");
    page.paragraph(
        "Wall time from the start of weigh to its end beyond that of the bare program in the same round: median, in \
         seconds and percent.",
    );
    for sweep in &sweeps {
        write_overhead(bench, &tools.ways, sweep, page)?;
    }
    Ok(())
}
