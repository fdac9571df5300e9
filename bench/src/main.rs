#![cfg_attr(test, allow(clippy::unwrap_used))]
//! What measuring costs, and how right it is. Writes docs/performance.md.
//!
//! Reads the summaries of weigh and the kernel's accounting of the same commands; refuses runs
//! that fail, and rounds during which another weigh runs.

mod accuracy;
mod machine;
mod neighbour;
mod overhead;
mod page;
mod probes;
mod runs;
mod spread;
mod witness;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use page::Page;
use runs::Bench;

#[derive(Parser)]
#[command(about = "What measuring costs, and how right it is", version)]
enum Verb {
    /// Take the figures and write the page
    Measure(Arguments),
    #[command(flatten)]
    Inside(Inside),
}

/// What is run inside of a measurement.
#[derive(Subcommand)]
#[command(hide = true)]
enum Inside {
    /// Run a command so often, leave its times in a file
    Witness {
        file: PathBuf,
        repeats: usize,
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Compute for so many rounds
    Spin { rounds: u64 },
}

#[derive(clap::Args)]
struct Arguments {
    /// The binary to measure with
    #[arg(long, default_value = "target/release/weigh")]
    weigh: PathBuf,
    /// The folder of the workloads' programs
    #[arg(long, default_value = "tests/workloads/bin")]
    workloads: PathBuf,
    /// The page to write [default: standard output]
    #[arg(long)]
    output: Option<PathBuf>,
    /// Two repetitions of small amounts: whether it works, not how it performs
    #[arg(long)]
    quick: bool,
    /// Only these parts
    #[arg(long, value_delimiter = ',')]
    rows: Vec<Part>,
    /// Of the overhead, only the work whose name has this in it
    #[arg(long, default_value = "")]
    work: String,
}

/// A part of the page.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Overhead,
    Programs,
    Fixed,
    Limits,
    Accuracy,
    Collectors,
    Peers,
}

fn main() -> Result<()> {
    match Verb::parse() {
        Verb::Measure(arguments) => measure(&arguments),
        Verb::Inside(Inside::Witness { file, repeats, command }) => {
            witness::witness(&file, repeats, &command)
        }
        Verb::Inside(Inside::Spin { rounds }) => {
            witness::spin(rounds);
            Ok(())
        }
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "needs root, as weigh does for exact figures");
    let bench = Bench::new(&arguments.weigh, &arguments.workloads, arguments.quick)?;
    let (began, load, stolen) = (Instant::now(), machine::load()?, machine::stolen_seconds()?);
    let mut tables = Page::default();
    for part in Part::value_variants() {
        if !arguments.rows.is_empty() && !arguments.rows.contains(part) {
            continue;
        }
        match part {
            Part::Overhead => overhead::write(&bench, &arguments.work, &mut tables)?,
            Part::Programs => probes::write(&bench, &mut tables)?,
            Part::Fixed => overhead::write_fixed(&bench, &mut tables)?,
            Part::Limits => accuracy::write_limits(&bench, &mut tables)?,
            Part::Accuracy => accuracy::write(&bench, &mut tables)?,
            Part::Collectors => overhead::write_collectors(&bench, &mut tables)?,
            Part::Peers => overhead::write_peers(&bench, &mut tables)?,
        }
    }
    let mut page = Page::default();
    head(&bench, &mut page)?;
    let (wall, stolen) = (began.elapsed().as_secs(), machine::stolen_seconds()? - stolen);
    page.paragraph(&format!(
        "- Load averages (1, 5, 15 minutes): {load} before, {} after {wall} s, in which the \
         hypervisor took {stolen:.1} CPU-seconds",
        machine::load()?
    ));
    page.heading(2, "Method");
    page.paragraph(METHOD);
    let text = format!("{}\n{}", page.text(), tables.text());
    match &arguments.output {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string()),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

fn head(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(1, "Performance");
    page.paragraph("Written by `make bench`. Every figure is of this one session.");
    if bench.quick {
        page.paragraph(
            "**A smoke test (`--quick`): amounts and repetitions are too small for figures.**",
        );
    }
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
    let mut lines = format!("- Date: {date}\n- Version: {}\n", bench.version()?);
    for (name, fact) in machine::describe()? {
        lines.push_str(&format!("- {name}: {fact}\n"));
    }
    page.paragraph(&lines);
    Ok(())
}

const METHOD: &str = "\
Each row of overhead is a fixed amount of work, done in rounds. In each round it is done once in each \
way (bare, beside a measured job, under weigh), one right after the other, and each round begins with \
another way. “More” is the median, over the rounds, of the ratio to the bare run of the same round. \
The 95 % interval is that of the median, by order statistics. A target is met if the whole interval \
is within it, and missed if the whole interval is beyond it. Nothing is pinned to a CPU, and nothing \
is left out, except rounds during which another weigh ran on the machine, which are made again.

CPU time is user and system time of the command and its descendants by `getrusage`, got by a small \
program that starts the command, waits for it, and runs inside of whatever measures: the same way \
bare and measured. What BPF programs take is in it, for the kernel accounts it to the thread that \
runs into them. Wall time is from before the command is started until it has been waited for, by the \
same program. Commands run in an empty directory.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_declared_soundly() {
        Verb::command().debug_assert();
    }
}
