//! What it costs a program to be measured, or to run beside one that is: the same fixed work bare,
//! beside a measured job, under weigh in each of its ways, and under peers, in turn.

use std::time::Duration;

use anyhow::Result;

use crate::calls::Calls;
use crate::page::{Page, Table};
use crate::plot::{self, Bar, Panel};
use crate::rounds::{Length, Rounds, alternate};
use crate::runs::{Arm, Bench, Run};
use crate::spread::Spread;
use crate::targets;
use crate::tools::{Tool, Tools};
use crate::ways::Way;

/// A fixed amount of work, and the most that measuring may add to it, in percent.
pub struct Work {
    /// What is done.
    pub name: &'static str,
    /// How.
    pub command: Vec<String>,
    measured: fn(Way) -> Option<f64>,
    beside: f64,
    /// How often it is done in one run: work that takes long enough to be told from noise.
    repeats: usize,
    length: Length,
    /// Whether it is made of calls.
    calls: bool,
}

/// Words of a command.
pub fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}

/// So many blocks of 4 KiB, read and written.
pub fn copying(blocks: u32) -> Vec<String> {
    let count = format!("count={blocks}");
    words(["dd", "if=/dev/zero", "of=/dev/null", "bs=4096", &count, "status=none"])
}

/// The work of which the overhead is promised.
pub fn works(bench: &Bench) -> Vec<Work> {
    let quick = bench.quick;
    let computing = bench.spin(Duration::from_millis(if quick { 300 } else { 3000 }));
    let count = if quick { 50 } else { 500 };
    let loops = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
    let length = |least, most, seconds| bench.length(Length { least, most, seconds });
    vec![
        Work {
            name: "computing for 3 s",
            command: computing,
            measured: targets::computing,
            beside: 0.5,
            repeats: 1,
            length: length(6, 15, 170),
            calls: false,
        },
        Work {
            name: "1 GiB from /dev/zero to /dev/null by 4 KiB",
            command: copying(if quick { 16_384 } else { 262_144 }),
            measured: targets::copying,
            beside: 0.5,
            repeats: 6,
            length: length(9, 31, 90),
            calls: true,
        },
        Work {
            name: "500 × /bin/true from a shell",
            command: words(["sh", "-c", &loops]),
            measured: targets::forking,
            beside: 2.0,
            repeats: 2,
            length: length(9, 61, 120),
            calls: false,
        },
        Work {
            name: "filling 1 GB",
            command: bench.workload(if quick { "fill 100000000" } else { "fill 1000000000" }),
            measured: targets::filling,
            beside: 5.0,
            repeats: 1,
            length: length(9, 31, 50),
            calls: false,
        },
    ]
}

/// The median, as percent.
pub fn percent(spread: &Spread) -> String {
    format!("{:+.2} %", spread.median)
}

fn interval(spread: &Spread) -> String {
    let text = |(low, high): (f64, f64)| format!("{low:+.2} … {high:+.2}");
    spread.interval.map_or_else(|| "–".to_string(), text)
}

fn range(spread: &Spread) -> String {
    format!("{:+.2} … {:+.2}", spread.least, spread.greatest)
}

/// One tool at one work: the row of a table.
fn row(name: String, rounds: &Rounds, arm: usize, target: Option<f64>) -> Vec<String> {
    let cpu = rounds.more(arm, |run| run.command.cpu);
    let wall = rounds.more(arm, |run| run.command.wall);
    let (Some(cpu), Some(wall)) = (cpu, wall) else {
        let blank = vec!["–".to_string(); 7];
        return [vec![name], blank, vec!["failed".to_string()]].concat();
    };
    let verdict = target.map_or("–".to_string(), |target| cpu.against(target).to_string());
    vec![
        name,
        percent(&cpu),
        interval(&cpu),
        range(&cpu),
        percent(&wall),
        interval(&wall),
        cpu.count.to_string(),
        target.map_or("–".to_string(), |target| format!("≤ {target} %")),
        verdict,
    ]
}

const HEADER: [&str; 9] = [
    "",
    "CPU more",
    "95 % interval",
    "least … greatest",
    "wall more",
    "95 % interval",
    "rounds",
    "target, CPU",
    "verdict",
];

fn bar(name: String, rounds: &Rounds, arm: usize) -> Option<Bar> {
    let cpu = rounds.more(arm, |run| run.command.cpu)?;
    let (low, high) = cpu.interval.unwrap_or((cpu.least, cpu.greatest));
    // The names of weigh's ways end with a level.
    let is_weigh = name.ends_with(|last: char| last.is_ascii_digit());
    Some(Bar { name, median: cpu.median, low, high, is_weigh })
}

/// What is promised of a measured program, of each way of weigh; and beside one.
pub fn write(
    bench: &Bench,
    tools: &Tools,
    calls: &Calls,
    only: &str,
    page: &mut Page,
) -> Result<Vec<Panel>> {
    let mut panels = Vec::new();
    let mut header = HEADER;
    header[0] = "work";
    let mut beside = Table::new(header);
    let mut around = Table::new(["work", "by", "weigh's own CPU", "least … greatest"]);
    page.heading(2, "A measured program");
    page.paragraph(
        "The command under `weigh run --quiet`, by each mechanism and level, against the same \
         command bare in the same round. The start and the end of weigh are not in it (see “Fixed \
         cost”).",
    );
    page.picture("CPU time more, by work and tool", "images/overhead.svg");
    let mut failures = Vec::new();
    for work in works(bench).into_iter().filter(|work| work.name.contains(only)) {
        eprintln!("overhead: {}", work.name);
        let (slow, ways): (Vec<&Tool>, Vec<&Tool>) =
            tools.ways.iter().partition(|way| work.calls && calls.slow(way).is_some());
        let mut arms = vec![Arm::Bare, Arm::Beside];
        arms.extend(ways.iter().map(|way| way.arm()));
        let rounds = alternate(bench, &arms, (&work.command, work.repeats), work.length)?;
        let mut table = Table::new(HEADER);
        let mut bars = Vec::new();
        for (arm, tool) in ways.iter().enumerate().map(|(index, tool)| (index + 2, tool)) {
            let target = tool.way().and_then(work.measured);
            table.row(row(tool.name(), &rounds, arm, target));
            bars.extend(bar(tool.name(), &rounds, arm));
            if let Some(own) = rounds.of_arm(arm, Run::cpu_around) {
                around.row([
                    work.name.to_string(),
                    tool.name(),
                    format!("{:.3} s", own.median),
                    format!("{:.3} … {:.3}", own.least, own.greatest),
                ]);
            }
            let failure = rounds.failures[arm].as_ref();
            failures.extend(failure.map(|why| format!("{}, {}: {why}", work.name, tool.name())));
        }
        for tool in slow {
            let each = calls.slow(tool).unwrap_or_default();
            let mut cells = vec!["–".to_string(); HEADER.len()];
            cells[0] = tool.name();
            cells[HEADER.len() - 1] = format!("published: {each:.0} µs a call");
            table.row(cells);
        }
        beside.row(row(work.name.to_string(), &rounds, 1, Some(work.beside)));
        page.heading(3, work.name);
        if let Some(bare) = rounds.of_arm(0, |run| run.command.cpu / work.repeats as f64) {
            page.paragraph(&format!(
                "Bare: {:.3} s of CPU time ({:.3} … {:.3}).",
                bare.median, bare.least, bare.greatest
            ));
        }
        page.table(&table);
        panels.push(Panel { title: work.name.to_string(), bars });
    }
    list_failures(&failures, page);
    page.heading(3, "weigh itself");
    page.paragraph(
        "What weigh itself used beside these commands, mostly to start and to end \
         (CPU of all processes but the command's):",
    );
    page.table(&around);
    page.heading(2, "An unmeasured program beside a measured job");
    page.paragraph(
        "The command bare while `weigh run` measures a shell that waits for its input, against the \
         command bare with no weigh on the machine, in the same round.",
    );
    page.table(&beside);
    Ok(panels)
}

fn list_failures(failures: &[String], page: &mut Page) {
    for failure in failures {
        let failure = failure.split_whitespace().collect::<Vec<_>>().join(" ");
        page.item(&format!("Left out, because it failed: {failure}"));
    }
    if !failures.is_empty() {
        page.paragraph("");
    }
}

/// The same work under other tools.
pub fn write_peers(
    bench: &Bench,
    tools: &Tools,
    calls: &Calls,
    only: &str,
    page: &mut Page,
) -> Result<Vec<Panel>> {
    page.heading(2, "Peers");
    page.paragraph(
        "The same work under other tools (“Tools” says how they are run): by how much the command \
         itself takes longer, and how many milliseconds more it takes from the start of the tool to \
         its end, what the tool itself does included.",
    );
    let mut panels = Vec::new();
    let mut failures = Vec::new();
    let mut table = Table::new([
        "work",
        "tool",
        "command: CPU",
        "least … greatest",
        "wall",
        "with the tool: CPU",
        "wall",
        "rounds",
    ]);
    for work in works(bench).into_iter().filter(|work| work.name.contains(only)) {
        eprintln!("peers: {}", work.name);
        let (slow, quick): (Vec<&Tool>, Vec<&Tool>) =
            tools.peers.iter().partition(|peer| work.calls && calls.slow(peer).is_some());
        let mut arms = vec![Arm::Bare];
        arms.extend(quick.iter().map(|peer| peer.arm()));
        let length = bench.length(Length { least: 3, most: 9, seconds: 25 });
        let rounds = alternate(bench, &arms, (&work.command, 1), length)?;
        let mut bars = Vec::new();
        for (arm, tool) in quick.iter().enumerate().map(|(index, tool)| (index + 1, tool)) {
            let failure = rounds.failures[arm].as_ref();
            failures.extend(failure.map(|why| format!("{}, {}: {why}", work.name, tool.name())));
            let percents =
                [rounds.more(arm, |run| run.command.cpu), rounds.more(arm, |run| run.command.wall)];
            let whole = [
                rounds.added(arm, |run| run.all.cpu * 1e3),
                rounds.added(arm, |run| run.all.wall * 1e3),
            ];
            let ([Some(cpu), Some(wall)], [Some(all_cpu), Some(all_wall)]) = (percents, whole)
            else {
                continue;
            };
            table.row([
                work.name.to_string(),
                tool.name(),
                percent(&cpu),
                range(&cpu),
                percent(&wall),
                format!("{:+.1} ms", all_cpu.median),
                format!("{:+.1} ms", all_wall.median),
                cpu.count.to_string(),
            ]);
            bars.extend(bar(tool.name(), &rounds, arm));
        }
        for tool in slow {
            let mut cells = vec!["–".to_string(); 8];
            (cells[0], cells[1]) = (work.name.to_string(), tool.name());
            cells[4] = format!("{:+.0} µs a call", calls.slow(tool).unwrap_or_default());
            table.row(cells);
        }
        panels.push(Panel { title: work.name.to_string(), bars });
    }
    page.table(&table);
    list_failures(&failures, page);
    Ok(panels)
}

const NOTE: &str = "CPU time of the command, percent more than bare: median, and its 95 % interval";

/// The picture of both.
pub fn picture(weigh: Vec<Panel>, peers: Vec<Panel>) -> Result<String> {
    let mut panels = weigh;
    for panel in peers {
        match panels.iter_mut().find(|other| other.title == panel.title) {
            Some(there) => there.bars.extend(panel.bars),
            None => panels.push(panel),
        }
    }
    plot::overhead(&panels, NOTE)
}
