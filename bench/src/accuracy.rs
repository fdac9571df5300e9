//! How right the tools are: programs that do exact, odd amounts and say so, against what each tool
//! says of them.

use anyhow::{Context, Result};

use crate::cases::{self, Case};
use crate::outcome::Outcome;
use crate::page::{Page, Table};
use crate::plot;
use crate::runs::{Account, Arm, Bench};
use crate::spread::Verdict;
use crate::targets;
use crate::tools::{Quantity, Tool, Tools};

/// What every tool said in every case of a kind.
struct Results {
    cases: Vec<String>,
    /// By tool, then by case.
    outcomes: Vec<(Tool, Vec<Outcome>)>,
}

/// Everything that is asked of all tools.
pub struct Asked {
    memory: Vec<Case>,
    results: Results,
    moved: Results,
    others: Vec<Case>,
    other_results: Results,
}

/// How tools are run here: as in the overhead, but for polling, which looks as often as it can.
fn arm(tool: &Tool) -> Arm {
    match tool.way() {
        Some(way) => Arm::Weigh(way.options_closely()),
        None => tool.arm(),
    }
}

fn account(bench: &Bench, tool: &Tool, case: &Case) -> Result<Account> {
    bench.account(&arm(tool), &case.command, case.complete)
}

/// A case under a tool, so often.
fn ask(bench: &Bench, tool: &Tool, case: &Case, runs: usize) -> Outcome {
    let mut outcome = Outcome::of(case.quantity);
    for _ in 0..runs {
        match account(bench, tool, case) {
            Ok(account) => outcome.add(account.figure(case.quantity), case.truth.of(&account)),
            Err(error) => outcome.fail(bench.without_paths(&format!("{error:#}"))),
        }
        if outcome.is_silent() {
            break;
        }
    }
    outcome
}

fn ask_all(bench: &Bench, tools: &[Tool], cases: &[Case], runs: usize) -> Results {
    let mut outcomes = Vec::new();
    for tool in tools {
        eprintln!("accuracy: {}", tool.name());
        let of_tool = cases.iter().map(|case| ask(bench, tool, case, runs)).collect();
        outcomes.push((tool.clone(), of_tool));
    }
    Results { cases: cases.iter().map(|case| case.name.to_string()).collect(), outcomes }
}

const BUFFERS: [u64; 4] = [4, 8, 16, 32];

/// A run that moves nothing: what it moves all the same, by the tool and by its own word.
#[derive(Clone, Copy)]
struct Still {
    said: f64,
    truth: f64,
}

/// What goes beyond a run that moves nothing, in one direction. Where the tool can say nothing of
/// so short a run, what the first tool said of it stands in.
fn moved(
    bench: &Bench,
    tool: &Tool,
    (program, kind): (&str, &str),
    outcomes: &mut [Outcome],
    stand_in: &mut Option<Still>,
) -> Result<()> {
    let bytes = if bench.quick { 1 << 20 } else { 64 << 20 };
    let case = |bytes, buffer| cases::moving(bench, program, kind, bytes, buffer);
    let none = case(0, 4096);
    let account_of_none = account(bench, tool, &none)?;
    let Some(figure) = account_of_none.figure(none.quantity) else {
        outcomes.iter_mut().for_each(|outcome| outcome.add(None, None));
        return Ok(());
    };
    let truth = none.truth.of(&account_of_none);
    let own = figure.value.zip(truth).map(|(said, truth)| Still { said, truth });
    let still = own.or(*stand_in).context("nothing is known of a run that moves nothing")?;
    stand_in.get_or_insert(still);
    for (buffer, outcome) in BUFFERS.iter().zip(outcomes) {
        let some = case(bytes, buffer * 1024);
        let account = account(bench, tool, &some)?;
        let figure = account.figure(some.quantity).map(|mut figure| {
            figure.value = figure.value.map(|value| value - still.said);
            figure
        });
        outcome.add(figure, some.truth.of(&account).map(|truth| truth - still.truth));
    }
    Ok(())
}

/// The seed's table of buffers: each tool, each size, both directions in one figure.
fn ask_moved(bench: &Bench, tools: &[Tool]) -> Results {
    let mut outcomes: Vec<(Tool, Vec<Outcome>)> =
        tools.iter().map(|tool| (tool.clone(), Vec::new())).collect();
    for program in ["io", "io-static"] {
        let mut stand_ins = [None, None];
        for (tool, of_tool) in &mut outcomes {
            eprintln!("accuracy: bytes of {program} by {}", tool.name());
            let mut sizes: Vec<Outcome> =
                BUFFERS.iter().map(|_| Outcome::of(Quantity::Read)).collect();
            for (kind, stand_in) in ["read", "write"].iter().zip(&mut stand_ins) {
                if let Err(error) = moved(bench, tool, (program, kind), &mut sizes, stand_in) {
                    let error = bench.without_paths(&format!("{error:#}"));
                    sizes.iter_mut().for_each(|outcome| outcome.fail(error.clone()));
                }
                if sizes.iter().any(Outcome::is_silent) {
                    break;
                }
            }
            of_tool.extend(sizes);
        }
    }
    let column = |link: &str| BUFFERS.map(|buffer| format!("{link}, {buffer} KiB"));
    let cases = column("dynamic").into_iter().chain(column("static")).collect();
    Results { cases, outcomes }
}

impl Results {
    /// A row for each case, a column for each tool that has anything to say.
    fn table(&self, weigh: bool) -> Option<Table> {
        let tools: Vec<&(Tool, Vec<Outcome>)> = self
            .outcomes
            .iter()
            .filter(|(tool, _)| tool.way().is_some() == weigh)
            .filter(|(_, outcomes)| outcomes.iter().any(|outcome| !outcome.is_silent()))
            .collect();
        let header = ["".to_string()].into_iter().chain(tools.iter().map(|(tool, _)| tool.name()));
        let mut table = Table::of(header.collect());
        for (which, case) in self.cases.iter().enumerate() {
            let cells = tools.iter().map(|(_, outcomes)| {
                let others = outcomes.iter().any(|other| other.is_heard_beside(&outcomes[which]));
                if others { "nothing".to_string() } else { outcomes[which].cell() }
            });
            table.row([case.clone()].into_iter().chain(cells).collect::<Vec<_>>());
        }
        (!tools.is_empty()).then_some(table)
    }

    fn write(&self, page: &mut Page) {
        for weigh in [true, false] {
            if let Some(table) = self.table(weigh) {
                page.table(&table);
            }
        }
        let silent: Vec<String> = self
            .outcomes
            .iter()
            .filter(|(_, outcomes)| outcomes.iter().all(Outcome::is_silent))
            .map(|(tool, _)| tool.name())
            .collect();
        if !silent.is_empty() {
            page.paragraph(&format!("No such figure is given by: {}.", silent.join(", ")));
        }
    }

    /// All that was said, with its own word on how sure it is.
    fn details(&self, bench: &Bench, table: &mut Table) {
        for (tool, outcomes) in &self.outcomes {
            for (case, outcome) in self.cases.iter().zip(outcomes) {
                if !outcome.is_silent() {
                    let mut row = vec![case.clone(), tool.name()];
                    // Reasons may name the program by its path.
                    row.extend(outcome.details().map(|cell| bench.without_paths(&cell)));
                    table.row(row);
                }
            }
        }
    }
}

/// Asks all tools.
pub fn ask_everything(bench: &Bench, tools: &Tools) -> Asked {
    let memory = cases::memory(bench);
    let others = cases::others(bench);
    let tools = tools.all();
    let runs = bench.times(3);
    let results = ask_all(bench, &tools, &memory, runs);
    let moved = ask_moved(bench, &tools);
    let other_results = ask_all(bench, &tools, &others, 1);
    Asked { memory, results, moved, others, other_results }
}

/// The tables of all that was asked.
pub fn write(bench: &Bench, asked: &Asked, page: &mut Page) -> Result<String> {
    page.heading(2, "Memory");
    page.paragraph(&format!(
        "The greatest memory that a job held at one moment (`memory_peak_bytes`), by how much it \
         is off from what the programs found by walking their own page tables \
         (`/proc/self/smaps_rollup`): the worst of {} runs. Shared memory counts once. *s*: weigh \
         calls the figure sampled; *e*: estimated, with bounds (see “In their own words”); what has \
         no letter it calls exact. “–”: the tool has no such figure, \
         “nothing”: it has none of this job, “ended it”: it ended the job before it was done.",
        bench.times(3)
    ));
    let picture = plot::errors(&plot_rows(&asked.results), &asked.results.cases)?;
    page.picture("Error of the memory peak, by case and tool", "images/memory-error.svg");
    asked.results.write(page);
    page.heading(2, "Bytes by calls");
    page.paragraph(
        "64 MiB read from, or written to, a device, by buffers of 4 to 32 KiB, beyond a run that \
         moves nothing, against the sum of the calls' return values: bytes off, the worse of \
         reading and writing.",
    );
    asked.moved.write(page);
    page.heading(2, "Processes, daemons, CPU time");
    page.paragraph(
        "Processes and bytes: how many are missed (−) or too many (+). The daemon is forked twice, \
         outlives its parents by 300 ms, and writes 1,000,003 bytes at its end.",
    );
    asked.other_results.write(page);
    page.heading(2, "Targets");
    page.table(&verdicts(asked));
    claims(asked, page);
    details(bench, asked, page);
    Ok(picture)
}

fn plot_rows(results: &Results) -> Vec<(String, Vec<Option<f64>>)> {
    let row = |(tool, outcomes): &(Tool, Vec<Outcome>)| {
        (tool.name(), outcomes.iter().map(Outcome::worst).collect::<Vec<_>>())
    };
    let all = results.outcomes.iter().map(row);
    all.filter(|(_, errors)| errors.iter().any(Option::is_some)).collect()
}

/// The worst of those outcomes that something is promised of.
fn worst<'a>(
    outcomes: impl Iterator<Item = (&'a String, &'a Outcome)>,
) -> Option<(&'a String, &'a Outcome)> {
    let error = |outcome: &Outcome| outcome.worst().map_or(f64::INFINITY, f64::abs);
    outcomes.max_by(|a, b| error(a.1).total_cmp(&error(b.1)))
}

/// The name of the worst case, if one is worse than the others.
fn worst_name(case: &str, outcome: &Outcome) -> String {
    if outcome.worst() == Some(0.0) { "all alike".to_string() } else { case.to_string() }
}

fn verdicts(asked: &Asked) -> Table {
    let mut table = Table::new(["promise", "by", "worst case", "off", "target", "verdict"]);
    for (tool, outcomes) in &asked.results.outcomes {
        let Some(way) = tool.way() else { continue };
        let mut limits: Vec<f64> = asked.memory.iter().filter_map(|c| (c.target)(way)).collect();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        let bounded = targets::memory_bounded(way);
        for limit in limits {
            let promised = asked.memory.iter().zip(&asked.results.cases).zip(outcomes);
            let promised: Vec<(&String, &Outcome)> = promised
                .filter(|((case, _), _)| (case.target)(way) == Some(limit))
                .map(|((_, name), outcome)| (name, outcome))
                .collect();
            let Some((case, outcome)) = worst(promised.iter().copied()) else { continue };
            let within = outcome.worst().is_some_and(|error| error.abs() <= limit);
            let stated = !bounded || promised.iter().all(|(_, outcome)| outcome.claims());
            let verdict = Verdict::exact(within && stated).to_string();
            table.row([
                "memory".to_string(),
                tool.name(),
                case.clone(),
                outcome.cell(),
                format!("≤ {limit} %{}", if bounded { ", bounds stated" } else { "" }),
                if within && !stated { format!("{verdict}: no bounds") } else { verdict },
            ]);
        }
    }
    for (tool, outcomes) in &asked.moved.outcomes {
        let Some(way) = tool.way() else { continue };
        let promised = asked.moved.cases.iter().zip(outcomes).enumerate();
        let promised =
            promised.filter(|(which, _)| targets::bytes(way, *which >= BUFFERS.len()).is_some());
        if let Some((case, outcome)) = worst(promised.map(|(_, pair)| pair)) {
            let met = outcome.worst() == Some(0.0);
            table.row([
                "bytes by calls".to_string(),
                tool.name(),
                worst_name(case, outcome),
                outcome.cell(),
                "0".to_string(),
                Verdict::exact(met).to_string(),
            ]);
        }
    }
    for (tool, outcomes) in &asked.other_results.outcomes {
        let Some(way) = tool.way() else { continue };
        let all = targets::all_processes(way);
        let of_processes = asked.others.iter().zip(&asked.other_results.cases).zip(outcomes);
        let of_processes =
            of_processes.filter(|((case, _), _)| case.quantity == Quantity::Processes);
        for ((_, case), outcome) in of_processes {
            let met = if all { outcome.worst() == Some(0.0) } else { outcome.is_honest() };
            table.row([
                "processes".to_string(),
                tool.name(),
                case.clone(),
                outcome.cell(),
                if all { "none missed".to_string() } else { "stated".to_string() },
                Verdict::exact(met).to_string(),
            ]);
        }
    }
    table
}

/// Whether weigh's own word on its figures holds.
fn claims(asked: &Asked, page: &mut Page) {
    let (mut claimed, mut wrong) = (0, Vec::new());
    for results in [&asked.results, &asked.moved, &asked.other_results] {
        for (tool, outcomes) in &results.outcomes {
            for (case, outcome) in results.cases.iter().zip(outcomes) {
                claimed += usize::from(outcome.claims());
                if !outcome.is_honest() {
                    wrong.push(format!("{case} by {} ({})", tool.name(), outcome.cell()));
                }
            }
        }
    }
    let wrong = if wrong.is_empty() { "none".to_string() } else { wrong.join("; ") };
    page.paragraph(&format!(
        "weigh's own word on these figures: {claimed} were called exact, or were given bounds. Of \
         these did not hold (an exact one is off, memory and CPU time by more than 0.5 %; the \
         truth lies outside of the bounds): {wrong}."
    ));
}

fn details(bench: &Bench, asked: &Asked, page: &mut Page) {
    let mut table = Table::of_words(["case", "tool", "truth", "said", "quality", "reason"]);
    for results in [&asked.results, &asked.moved, &asked.other_results] {
        results.details(bench, &mut table);
    }
    page.heading(2, "In their own words");
    page.paragraph(
        "Each figure, least … greatest of its runs, with the truth of the last one. Peers do not say \
         how sure theirs are.",
    );
    page.folded_table("All figures", &table);
}
