//! What `weigh calls --by-part` adds to what it costs to follow calls.
//!
//! Reads the CPU time of a program by its witness, which runs inside of weigh; emits a table. Refuses runs that fail.

use anyhow::{Context, Result};

use crate::page::{Page, Table};
use crate::rounds::{Length, Rounds, alternate};
use crate::runs::{Arm, Bench, Run};
use crate::spread::Spread;

/// Parts whose code allocates.
const PARTS: [&str; 2] = ["--subsystems", "memory,fs,journal,block"];

/// A program that does this many calls of a kind.
struct Work {
    name: &'static str,
    line: String,
    calls: u64,
}

fn works(bench: &Bench) -> Vec<Work> {
    let count = |full: u64| if bench.quick { full / 100 } else { full };
    let file = bench.path("work/file").display().to_string();
    let folder = bench.path("work").display().to_string();
    let work = |name, calls, line: String| Work { name, line, calls };
    let (getppids, writes, opens) = (count(200_000), count(4_000), count(40_000));
    vec![
        work("getppid", getppids, format!("calls {file} {getppids}")),
        work("write of 64 KiB, ext4", writes, format!("writers small {folder} {writes}")),
        work("open, read of 7 B, close", 3 * opens, format!("access opens {file} {opens}")),
    ]
}

/// The median of a difference, for each call, with its interval.
fn cell(spread: Option<Spread>, calls: u64) -> Option<String> {
    let spread = spread?;
    let (from, to) = spread.interval.unwrap_or((spread.least, spread.greatest));
    let [median, from, to] = [spread.median, from, to].map(|seconds| seconds * 1e9 / calls as f64);
    Some(format!("{median:+.0} ({from:+.0} … {to:+.0})").replace('-', "−"))
}

/// The table.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(2, "Calls by part");
    page.paragraph(METHOD);
    let with =
        |more: &[&str]| Arm::Calls(PARTS.iter().chain(more).map(ToString::to_string).collect());
    // The first one is what the others are compared with.
    let arms = [with(&[]), with(&["--by-part"]), with(&["--by-part", "--by", "file"]), Arm::Bare];
    let length = bench.length(Length { least: 11, most: 21, seconds: 40 });
    let mut table =
        Table::new(["calls", "bare", "followed", "--by-part", "--by-part --by file", "rounds"]);
    std::fs::write(bench.path("work/file"), vec![b'x'; 1_000_003]).context("a file")?;
    for work in works(bench) {
        eprintln!("call options: {}", work.name);
        let command = bench.workload(&work.line);
        let rounds = alternate(bench, &arms, (&command, 1), length)?;
        table.row(row(&work, &rounds).context("a way failed")?);
    }
    page.table(&table);
    Ok(())
}

fn row(work: &Work, rounds: &Rounds) -> Option<Vec<String>> {
    let cpu = |run: &Run| run.command.cpu;
    let bare = rounds.of_arm(3, cpu)?.median * 1e9 / work.calls as f64;
    let followed = rounds.added(3, |run| -run.command.cpu);
    let mut row = vec![work.name.to_string(), format!("{bare:.0}"), cell(followed, work.calls)?];
    row.push(cell(rounds.added(1, cpu), work.calls)?);
    row.push(cell(rounds.added(2, cpu), work.calls)?);
    row.push(rounds.count().to_string());
    Some(row)
}

const METHOD: &str = "\
The program's CPU time for each call, in ns. “followed” is what `weigh calls --subsystems memory,fs,journal,block` \
adds to the bare program; the two columns behind it are what `--by-part` adds to that. Medians over rounds with one run \
each way, one right after the other, with 95 % intervals. Counters of the CPU are not in it: this machine has none.";
