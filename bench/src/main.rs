#![cfg_attr(test, allow(clippy::unwrap_used))]
//! What measuring costs, and how right it is. Writes the pages of docs/measurements.
//!
//! Reads the summaries of weigh, the reports of its peers, and the kernel's accounting of the same
//! commands; refuses bare runs that fail, and rounds during which another weigh runs.

mod accuracy;
mod bars;
mod blocks;
mod call_costs;
mod call_options;
mod calls;
mod cases;
mod collectors;
mod costs;
mod fio;
mod fixed;
mod kinds;
mod limits;
mod machine;
mod neighbour;
mod outcome;
mod overhead;
mod packets;
mod page;
mod peers;
mod plot;
mod probes;
mod regions;
mod rewrite;
mod rounds;
mod runs;
mod server;
mod spread;
mod sweep;
mod targets;
mod tools;
mod watched;
mod ways;
mod witness;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use calls::Calls;
use page::Page;
use runs::Bench;
use tools::Tools;

#[derive(Parser)]
#[command(about = "What measuring costs, and how right it is", version)]
enum Verb {
    /// Take the figures and write the page
    Measure(Arguments),
    /// Draw the figures that bench/packets.py has left in a file into a folder
    Packets { figures: PathBuf, folder: PathBuf },
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
    /// The folder of the pages and, in `images`, of the pictures [default: pages on standard output]
    #[arg(long)]
    docs: Option<PathBuf>,
    /// A folder with the programs of peers, looked into before PATH
    #[arg(long, default_value = "target/bench-peers/bin")]
    peers: PathBuf,
    /// Two repetitions of small amounts: whether it works, not how it performs
    #[arg(long)]
    quick: bool,
    /// Only these parts; what is written has nothing else in it
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Of the overhead and the sweeps, only the work whose name has this in it
    #[arg(long, default_value = "")]
    work: String,
    /// Of sweeps, how many rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A file of the rounds of sweeps, with those of earlier calls
    #[arg(long)]
    kept: Option<PathBuf>,
}

/// A part of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Overhead,
    Calls,
    Peers,
    Fixed,
    Limits,
    Server,
    Rewrite,
    Blocks,
    Fio,
    Programs,
    Collectors,
    Regions,
    Accuracy,
    Kinds,
    CallCosts,
    CallOptions,
    Sweep,
}

fn main() -> Result<()> {
    match Verb::parse() {
        Verb::Measure(arguments) => measure(&arguments),
        Verb::Packets { figures, folder } => packets::draw(&figures, &folder),
        Verb::Inside(Inside::Witness { file, repeats, command }) => {
            witness::witness(&file, repeats, &command)
        }
        Verb::Inside(Inside::Spin { rounds }) => {
            witness::spin(rounds);
            witness::tell_cpu()
        }
    }
}

/// What a page is written of, and where.
struct Session<'a> {
    arguments: &'a Arguments,
    bench: Bench,
    tools: Tools,
    /// Parts that failed.
    failed: Cell<usize>,
}

fn measure(arguments: &Arguments) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "needs root, as weigh does for exact figures");
    let (weigh, workloads) = (&arguments.weigh, &arguments.workloads);
    let bench = Bench::new(weigh, workloads, &arguments.peers, arguments.quick)?;
    let tools = Tools::find(&bench);
    let session = Session { arguments, bench, tools, failed: Cell::new(0) };
    let accuracy = [Part::Accuracy, Part::Kinds, Part::CallCosts];
    let performance =
        |part: &Part| !accuracy.contains(part) && *part != Part::Sweep && session.wants(*part);
    if Part::value_variants().iter().any(performance) {
        session.page("performance.md", "Performance", METHOD, |page| session.performance(page))?;
    }
    if accuracy.iter().any(|part| session.wants(*part)) {
        session.page("accuracy.md", "Accuracy", ACCURACY, |page| session.accuracy(page))?;
    }
    if session.wants(Part::Sweep) {
        session.page("sweep.md", "Sweeps", SWEEP, |page| session.sweep(page))?;
    }
    ensure!(session.failed.get() == 0, "{} parts failed, as the pages say", session.failed.get());
    Ok(())
}

impl Session<'_> {
    fn wants(&self, part: Part) -> bool {
        self.arguments.only.is_empty() || self.arguments.only.contains(&part)
    }

    /// Takes the figures of a page, and writes it.
    fn page(
        &self,
        name: &str,
        title: &str,
        method: &str,
        write: impl Fn(&mut Page) -> Result<()>,
    ) -> Result<()> {
        let (began, load, stolen) = (Instant::now(), machine::load()?, machine::stolen_seconds()?);
        let mut tables = Page::default();
        write(&mut tables)?;
        let mut page = Page::default();
        head(&self.bench, title, &mut page)?;
        let (wall, stolen) = (began.elapsed().as_secs(), machine::stolen_seconds()? - stolen);
        page.paragraph(&format!(
            "- Load averages (1, 5, 15 minutes): {load} before, {} after {wall} s, in which the \
             hypervisor took {stolen:.1} CPU-seconds",
            machine::load()?
        ));
        page.heading(2, "Method");
        page.paragraph(method);
        self.tools.write(&mut page);
        let text = format!("{}\n{}", page.text(), tables.text());
        match &self.arguments.docs {
            Some(folder) => put(&folder.join(name), &text),
            None => {
                print!("{text}");
                Ok(())
            }
        }
    }

    fn picture(&self, name: &str, picture: &str) -> Result<()> {
        let Some(folder) = &self.arguments.docs else { return Ok(()) };
        put(&folder.join("images").join(name), picture)
    }

    fn performance(&self, page: &mut Page) -> Result<()> {
        let (bench, tools, work) = (&self.bench, &self.tools, &self.arguments.work);
        let needs_calls = [Part::Overhead, Part::Calls, Part::Peers];
        let needed = needs_calls.iter().any(|part| self.wants(*part));
        let calls = if needed { Calls::measure(bench, tools)? } else { Calls::default() };
        let (mut ways, mut peers) = (Vec::new(), Vec::new());
        for part in Part::value_variants().iter().filter(|part| self.wants(**part)) {
            let done = match part {
                Part::Overhead => {
                    overhead::write(bench, tools, &calls, work, page).map(|panels| ways = panels)
                }
                Part::Calls => {
                    calls.write(page);
                    Ok(())
                }
                Part::Peers => overhead::write_peers(bench, tools, &calls, work, page)
                    .map(|panels| peers = panels),
                Part::Fixed => fixed::write(bench, tools, page),
                Part::Limits => {
                    limits::write(bench, tools, page);
                    Ok(())
                }
                Part::Programs => probes::write(bench, page),
                Part::Collectors => collectors::write(bench, page),
                Part::Regions => regions::write(bench, page),
                Part::CallOptions => call_options::write(bench, page),
                Part::Rewrite => rewrite::write(bench, page),
                Part::Blocks => blocks::write(bench, page)
                    .and_then(|picture| self.picture("blocks.svg", &picture)),
                Part::Fio => fio::write(bench, page).and_then(|picture| {
                    picture.map_or(Ok(()), |picture| self.picture("fio.svg", &picture))
                }),
                Part::Server => server::write(bench, page)
                    .and_then(|picture| self.picture("latency.svg", &picture)),
                Part::Accuracy | Part::Kinds | Part::CallCosts | Part::Sweep => Ok(()),
            };
            self.note(*part, done, page);
        }
        if ways.is_empty() && peers.is_empty() {
            return Ok(());
        }
        // A part of the works would take the others' figures out of the reference.
        if let Some(folder) = self.arguments.docs.as_ref().filter(|_| work.is_empty()) {
            put(&folder.join("costs.json"), &costs::text(&ways, &calls, tools)?)?;
        }
        self.picture("overhead.svg", &overhead::picture(ways, peers)?)
    }

    fn accuracy(&self, page: &mut Page) -> Result<()> {
        if self.wants(Part::Accuracy) {
            let asked = accuracy::ask_everything(&self.bench, &self.tools);
            let picture = accuracy::write(&self.bench, &asked, page)?;
            self.picture("memory-error.svg", &picture)?;
        }
        if self.wants(Part::Kinds) {
            let done = kinds::write(&self.bench, page);
            self.note(Part::Kinds, done, page);
        }
        if self.wants(Part::CallCosts) {
            let done = call_costs::write(&self.bench, page);
            self.note(Part::CallCosts, done, page);
        }
        Ok(())
    }

    fn sweep(&self, page: &mut Page) -> Result<()> {
        let Arguments { work, rounds, kept, .. } = self.arguments;
        let plan = sweep::Plan { work, rounds: self.bench.times(*rounds), kept: kept.as_deref() };
        let done = sweep::write(&self.bench, &self.tools, &plan, page);
        self.note(Part::Sweep, done, page);
        Ok(())
    }

    /// A part that fails says so on its page; the others are not lost with it.
    fn note(&self, part: Part, done: Result<()>, page: &mut Page) {
        if let Err(error) = done {
            eprintln!("{part:?} failed: {error:#}");
            let why = self.bench.without_paths(&format!("{error:#}"));
            page.paragraph(&format!("**This part failed:** {why}"));
            self.failed.set(self.failed.get() + 1);
        }
    }
}

fn put(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn head(bench: &Bench, title: &str, page: &mut Page) -> Result<()> {
    page.heading(1, title);
    page.paragraph("Written by `make bench`. Every figure is of this one session, but where a section says of which other one it is.");
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
    lines.push_str("- User: root, for BPF; the other mechanisms need no rights");
    page.paragraph(&lines);
    Ok(())
}

const METHOD: &str = "\
Each row of overhead is a fixed amount of work, done in rounds. In each round it is done once in each \
way (bare, beside a measured job, under weigh by each mechanism and level), one right after the \
other, and each round begins with another way. There are as many rounds as fit into a fixed time. \
“More” is the median, over the rounds, of the ratio to the bare run of the same round. The 95 % \
interval is that of the median, by order statistics; fewer than 6 rounds have none. A target is met \
if the whole interval is within it, and missed if the whole interval is beyond it. Nothing is pinned \
to a CPU, and nothing is left out, except rounds during which another weigh ran on the machine, which \
are made again.

CPU time is user and system time of the command and its descendants by `getrusage`, got by a small \
program that starts the command, waits for it, and runs inside of whatever measures: the same way \
bare and measured. What BPF programs take is in it, for the kernel accounts it to the thread that \
runs into them. What a tracer takes is not, but the time until it lets the command go on is in the \
wall time. Wall time is from before the command is started until it has been waited for, by the \
same program. Commands run in an empty directory.";

const ACCURACY: &str = "\
Programs (`tests/workloads`) that do exact, odd amounts of work run under each tool and say \
themselves, by a walk of their own page tables or by adding up what their calls returned, what they \
did. Every tool is asked about the same programs; what it says is held against what the program \
said in that very run. Nothing is timed here. weigh's `poll` looks as often as it can \
(`--interval 10ms`).";

const SWEEP: &str = "\
The two tables of the paper on resource_monitor and Kickstart, for weigh's own ways: programs (`tests/workloads`) of \
growing size, each bare and under weigh by each mechanism and level, one right after the other, and each round begins \
with another way. Files that are read are `/dev/zero`. What does not fit into three quarters of the machine's memory \
is left out; a way that takes longer than 32 s is run once, and computing for 30 s has one level of each mechanism. \
Figures may have been taken in several pieces; the column of rounds says how many there were.

In the paper (12 cores of 2.67 GHz, 40 GB), polling once a second missed 2 to 18 % of the memory and 1 to 17 % of the bytes read; \
its other ways were right to 0.1 % of the memory and to the byte. CPU time came out 0 to 12 % too large at 0.3 s, 0 to 0.6 % at \
28 s. What it added was 0.01 to 0.03 s of wall time to reads in all ways but one: stopping at every call by ptrace made \
1.26 s for 10 GB by 4 KiB 45 s longer.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_declared_soundly() {
        Verb::command().debug_assert();
    }
}
