//! Accuracy and overhead over sizes: Tables II and III of the published system (seed 000), for weigh's own ways.
//!
//! Four sweeps: computing for 0.3 to 30 s, filling 1 to 16 GB, reading 1 MB to 10 GB by 4 KiB, reading 10 GB by 8 to
//! 32 KiB. Each run gives both, the program's own word beside weigh's and the wall time from start to end. Reads and adds to a file of
//! earlier runs, so that a sweep can be made in pieces. Refuses runs that fail; leaves out what the machine's memory
//! does not hold.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cases::{self, Case, Truth};
use crate::machine;
use crate::page::{Page, Table};
use crate::runs::{Account, Arm, Bench};
use crate::spread::Spread;
use crate::tools::{Quantity, Tool, Tools};

/// One size of a sweep.
struct Step {
    name: String,
    /// Says itself what it did.
    case: Case,
    /// A run of the same program that does nothing, whose figure is taken off; absent where all counts.
    still: Option<Case>,
    /// Whether a run takes so long that each mechanism has one level.
    is_long: bool,
}

struct Sweep {
    title: &'static str,
    column: &'static str,
    steps: Vec<Step>,
}

/// One run of one step.
struct Sample {
    sweep: String,
    step: String,
    way: String,
    round: u64,
    wall: f64,
    /// What weigh says, and what the program says.
    both: Option<(f64, f64)>,
}

/// How many runs are made, and where they are kept.
pub struct Plan<'a> {
    /// Only steps in whose title and name this is.
    pub work: &'a str,
    /// Rounds of each step.
    pub rounds: usize,
    /// Where those of earlier pieces are, and these are added.
    pub kept: Option<&'a Path>,
}

const GB: u64 = 1_000_000_000;
/// Of the machine's memory a program may fill at most so many percent.
const FILLED_MOST: u64 = 75;
const BARE: &str = "bare";
/// A way that takes longer than this is run once.
const ONCE_SECONDS: f64 = 32.0;

fn case(command: Vec<String>, quantity: Quantity, truth: Truth) -> Case {
    Case { name: "", command, quantity, truth, target: |_| None, complete: |text| !text.is_empty() }
}

fn computing(bench: &Bench) -> Sweep {
    let lengths: &[u64] = if bench.quick { &[300] } else { &[300, 3000, 30_000] };
    let step = |length: &u64| Step {
        name: format!("{} s", *length as f64 / 1e3),
        case: case(
            bench.spin(Duration::from_millis(*length)),
            Quantity::Cpu,
            Truth::ToldNanoseconds("cpu_ns"),
        ),
        still: None,
        is_long: *length > 3000,
    };
    Sweep { title: "CPU time", column: "computing", steps: lengths.iter().map(step).collect() }
}

fn filling(bench: &Bench) -> Result<Sweep> {
    let room = machine::memory_bytes()? / 100 * FILLED_MOST;
    let sizes: &[u64] = if bench.quick { &[1] } else { &[1, 2, 4, 8, 16] };
    let step = |size: &u64| {
        let command = bench.workload(&format!("fill {} exit", size * GB));
        let case = case(command, Quantity::Memory, Truth::Told("peak_rss_bytes"));
        Step { name: format!("{size} GB"), case, still: None, is_long: false }
    };
    let steps = sizes.iter().filter(|size| **size * GB < room).map(step).collect();
    Ok(Sweep { title: "Memory: resident size", column: "filled", steps })
}

fn reading(bench: &Bench, name: String, bytes: u64, buffer: u64) -> Step {
    let moving = |bytes| cases::moving(bench, "io", "read", bytes, buffer);
    Step { name, case: moving(bytes), still: Some(moving(0)), is_long: false }
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
    let steps = [8, 16, 32].map(step).into_iter().collect();
    Sweep { title: "I/O: bytes read by other buffers", column: "read", steps }
}

impl Step {
    /// The ways that it is made in, beside bare.
    fn ways<'a>(&self, ways: &'a [Tool]) -> Vec<&'a Tool> {
        let mut seen = BTreeSet::new();
        let mut is_first =
            |tool: &Tool| tool.way().is_none_or(|way| seen.insert(way.following.name));
        ways.iter().filter(|tool| !self.is_long || is_first(tool)).collect()
    }

    fn run(&self, bench: &Bench, arm: &Arm) -> Result<(f64, Option<(f64, f64)>)> {
        let account = bench.account(arm, &self.case.command, self.case.complete)?;
        if matches!(arm, Arm::Bare) {
            return Ok((account.wall, None));
        }
        let still = self.still.as_ref();
        let still =
            still.map(|case| bench.account(arm, &case.command, case.complete)).transpose()?;
        // Of some quantities some ways say nothing.
        let both = self.both(&account).and_then(|(said, truth)| {
            let still = still.as_ref().map_or(Some((0.0, 0.0)), |still| self.both(still))?;
            Some((said - still.0, truth - still.1))
        });
        Ok((account.wall, both))
    }

    /// What weigh says, and what the program says.
    fn both(&self, account: &Account) -> Option<(f64, f64)> {
        Some((account.figure(self.case.quantity)?.value?, self.case.truth.of(account)?))
    }
}

impl Sample {
    fn line(&self) -> Value {
        json!({"sweep": self.sweep, "step": self.step, "way": self.way, "round": self.round, "wall": self.wall, "both": self.both})
    }

    fn parse(line: &str) -> Option<Sample> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let pair = || Some((value["both"][0].as_f64()?, value["both"][1].as_f64()?));
        Some(Sample {
            sweep: text("sweep")?,
            step: text("step")?,
            way: text("way")?,
            round: value["round"].as_u64()?,
            wall: value["wall"].as_f64()?,
            both: pair(),
        })
    }
}

/// The samples so far.
struct Samples<'a> {
    all: Vec<Sample>,
    kept: Option<&'a Path>,
}

impl Samples<'_> {
    fn add(&mut self, sample: Sample) -> Result<()> {
        if let Some(path) = self.kept {
            let file = std::fs::File::options().append(true).create(true).open(path);
            writeln!(file.context("kept samples")?, "{}", sample.line()).context("kept samples")?;
        }
        self.all.push(sample);
        Ok(())
    }

    fn of(&self, sweep: &Sweep, step: &Step) -> Vec<&Sample> {
        let is_same = |sample: &&Sample| sample.sweep == sweep.title && sample.step == step.name;
        self.all.iter().filter(is_same).collect()
    }

    /// By a way, each with the bare run of its round.
    fn pairs(&self, sweep: &Sweep, step: &Step, way: &str) -> Vec<(&Sample, f64)> {
        let all = self.of(sweep, step);
        let is_bare = |sample: &&&Sample, round| sample.way == BARE && sample.round == round;
        let bare = |round| all.iter().find(|sample| is_bare(sample, round)).map(|bare| bare.wall);
        let runs = all.iter().filter(|sample| sample.way == way);
        runs.filter_map(|sample| Some((*sample, bare(sample.round)?))).collect()
    }
}

/// Runs a step in each way, each round beginning with another one.
fn take(
    bench: &Bench,
    ways: &[Tool],
    (sweep, step): (&Sweep, &Step),
    rounds: usize,
    samples: &mut Samples<'_>,
) -> Result<()> {
    let mut arms = vec![(BARE.to_string(), Arm::Bare)];
    arms.extend(step.ways(ways).into_iter().map(|tool| (tool.name(), tool.arm())));
    let first = samples.of(sweep, step).iter().map(|sample| sample.round + 1).max().unwrap_or(0);
    let (mut round, end) = (first, first + rounds as u64);
    // A virtual machine gets memory from its host when that is first touched: no round shall be the one that waits.
    if matches!(step.case.quantity, Quantity::Memory) {
        step.run(bench, &Arm::Bare)?;
    }
    while round < end {
        let (mut runs, mut others) = (Vec::new(), machine::weighs_running()?);
        for offset in 0..arms.len() {
            let (way, arm) = &arms[(round as usize + offset) % arms.len()];
            let is_slow = |run: &&Sample| run.way == *way && run.wall > ONCE_SECONDS;
            if samples.of(sweep, step).iter().any(is_slow) {
                continue;
            }
            let (wall, both) = step.run(bench, arm).with_context(|| way.clone())?;
            let (title, name) = (sweep.title.to_string(), step.name.clone());
            runs.push(Sample { sweep: title, step: name, way: way.clone(), round, wall, both });
            others += machine::weighs_running()?;
        }
        if others > 0 && !bench.quick {
            eprintln!("another weigh ran: round made again");
            continue;
        }
        runs.into_iter().try_for_each(|run| samples.add(run))?;
        round += 1;
    }
    Ok(())
}

/// The run that is furthest off.
fn accuracy_cell(step: &Step, pairs: &[(&Sample, f64)]) -> String {
    let off = |sample: &&Sample| sample.both.map(|(said, truth)| (said - truth, truth));
    let all = pairs.iter().filter_map(|(sample, _)| off(sample));
    let Some((off, truth)) = all.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())) else {
        return "–".to_string();
    };
    if off == 0.0 {
        return "0".to_string();
    }
    let percent = off / truth * 100.0;
    let off = match step.case.quantity {
        Quantity::Cpu => format!("{off:+.3} s"),
        _ => format!("{off:+}"),
    };
    format!("{off} ({percent:+.2} %)").replace('-', "−")
}

fn overhead_cell(pairs: &[(&Sample, f64)]) -> String {
    if pairs.is_empty() {
        return "–".to_string();
    }
    let of = |figure: fn(f64, f64) -> f64| {
        Spread::of(pairs.iter().map(|(sample, bare)| figure(sample.wall, *bare))).median
    };
    let (added, more) =
        (of(|wall, bare| wall - bare), of(|wall, bare| (wall / bare - 1.0) * 100.0));
    let once = if pairs.len() == 1 { ", one run" } else { "" };
    format!("{added:+.3} ({more:+.1} %{once})").replace('-', "−")
}

fn write_table(
    ways: &[Tool],
    sweep: &Sweep,
    samples: &Samples<'_>,
    page: &mut Page,
    is_overhead: bool,
) {
    let mut words = vec![sweep.column.to_string(), "rounds".to_string()];
    words.extend(is_overhead.then(|| BARE.to_string()));
    words.extend(ways.iter().map(Tool::name));
    let mut table = Table::of(words);
    for step in &sweep.steps {
        let bare: Vec<f64> =
            samples.of(sweep, step).iter().filter(|s| s.way == BARE).map(|s| s.wall).collect();
        if bare.is_empty() {
            continue;
        }
        let mut row = vec![step.name.clone(), bare.len().to_string()];
        row.extend(is_overhead.then(|| format!("{:.3} s", Spread::of(bare).median)));
        row.extend(ways.iter().map(|tool| {
            let pairs = samples.pairs(sweep, step, &tool.name());
            if is_overhead { overhead_cell(&pairs) } else { accuracy_cell(step, &pairs) }
        }));
        table.row(row);
    }
    page.heading(3, sweep.title);
    page.table(&table);
}

/// Both tables, of all sweeps.
pub fn write(bench: &Bench, tools: &Tools, plan: &Plan<'_>, page: &mut Page) -> Result<()> {
    let sweeps = [computing(bench), filling(bench)?, sizes(bench), buffers(bench)];
    let earlier = plan.kept.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let all = earlier.lines().filter_map(Sample::parse).collect();
    let mut samples = Samples { all, kept: plan.kept };
    for sweep in &sweeps {
        for step in &sweep.steps {
            let name = format!("{}, {}", sweep.title, step.name);
            if name.contains(plan.work) {
                eprintln!("sweep: {name}");
                take(bench, &tools.ways, (sweep, step), plan.rounds, &mut samples)?;
            }
        }
    }
    for (title, method, is_overhead) in
        [("Accuracy", ACCURACY, false), ("Overhead", OVERHEAD, true)]
    {
        page.heading(2, title);
        page.paragraph(method);
        for sweep in &sweeps {
            write_table(&tools.ways, sweep, &samples, page, is_overhead);
        }
    }
    Ok(())
}

const ACCURACY: &str = "What weigh says, less what the program says itself: the run that is furthest off, with its \
percent of the truth. Of bytes a run that moves nothing is taken off both. “–”: not run, or not told.";

const OVERHEAD: &str = "Wall time from the start of weigh to its end beyond that of the bare program in the same round: \
median, in seconds and percent. Weigh itself takes some time to begin and to end; short programs show no more than that.";
