//! What it costs a program to be measured, or to run beside one that is: the same fixed work bare,
//! beside a measured job, under weigh in each of its ways, and under peers, in turn.

use std::time::Duration;

use anyhow::Result;

use crate::page::{Page, Table};
use crate::plot::{self, Bar, Panel};
use crate::rounds::{Length, Rounds, alternate};
use crate::runs::{Arm, Bench, Run};
use crate::spread::Spread;
use crate::targets;
use crate::tools::{Tool, Tools};
use crate::ways::Way;

/// A way that takes more microseconds than that for a call is not asked to copy a whole GiB.
const SLOW_CALL: f64 = 5.0;

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

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}

/// So many blocks of 4 KiB, read and written.
fn copying(blocks: u32) -> Vec<String> {
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
            length: length(6, 15, 200),
            calls: false,
        },
        Work {
            name: "1 GiB from /dev/zero to /dev/null by 4 KiB",
            command: copying(if quick { 16_384 } else { 262_144 }),
            measured: targets::copying,
            beside: 0.5,
            repeats: 6,
            length: length(9, 31, 110),
            calls: true,
        },
        Work {
            name: "500 × /bin/true from a shell",
            command: words(["sh", "-c", &loops]),
            measured: targets::forking,
            beside: 2.0,
            repeats: 2,
            length: length(9, 61, 140),
            calls: false,
        },
        Work {
            name: "filling 1 GB",
            command: bench.workload(if quick { "fill 100000000" } else { "fill 1000000000" }),
            measured: targets::filling,
            beside: 5.0,
            repeats: 1,
            length: length(9, 31, 60),
            calls: false,
        },
    ]
}

fn percent(spread: &Spread) -> String {
    format!("{:+.2} %", spread.median)
}

fn interval(spread: &Spread) -> String {
    let text = |(low, high): (f64, f64)| format!("{low:+.2} … {high:+.2}");
    spread.interval.map_or_else(|| "–".to_string(), text)
}

fn range(spread: &Spread) -> String {
    format!("{:+.2} … {:+.2}", spread.least, spread.greatest)
}

/// What a call costs under each tool.
#[derive(Default)]
pub struct Calls {
    added: Vec<(Tool, Option<Call>)>,
    rounds: usize,
}

/// By how many microseconds a call takes longer.
struct Call {
    cpu: Spread,
    wall: Spread,
    /// CPU of the tool itself too, beyond what it takes to start and to end.
    all_cpu: f64,
}

/// Blocks that are copied to see what a call costs, each by two calls.
const BLOCKS: u32 = 16_384;

fn microseconds_a_call(seconds: f64) -> f64 {
    seconds * 1e6 / (2.0 * f64::from(BLOCKS))
}

impl Calls {
    /// Reads and writes 64 MiB by 4 KiB under each tool, and nothing.
    pub fn measure(bench: &Bench, tools: &Tools) -> Result<Calls> {
        eprintln!("overhead: calls");
        let tools = tools.all();
        let arms: Vec<Arm> =
            std::iter::once(Arm::Bare).chain(tools.iter().map(Tool::arm)).collect();
        let run = |blocks, seconds| {
            let length = bench.length(Length { least: 3, most: 9, seconds });
            alternate(bench, &arms, (&copying(blocks), 1), length)
        };
        let (rounds, none) = (run(BLOCKS, 25)?, run(0, 15)?);
        let call = |arm| {
            let each = |spread: Spread| spread.times(microseconds_a_call(1.0));
            let all = |rounds: &Rounds| Some(rounds.added(arm, |run| run.all.cpu)?.median);
            Some(Call {
                cpu: each(rounds.added(arm, |run| run.command.cpu)?),
                wall: each(rounds.added(arm, |run| run.command.wall)?),
                all_cpu: microseconds_a_call(all(&rounds)? - all(&none)?),
            })
        };
        let added = tools.into_iter().enumerate().map(|(index, tool)| (tool, call(index + 1)));
        Ok(Calls { added: added.collect(), rounds: rounds.count() })
    }

    /// The microseconds of a call under a tool, if it takes too long for a whole GiB.
    fn slow(&self, tool: &Tool) -> Option<f64> {
        let (_, added) = self.added.iter().find(|(other, _)| other.name() == tool.name())?;
        let wall = added.as_ref()?.wall.median;
        (wall > SLOW_CALL).then_some(wall)
    }

    /// The table.
    pub fn write(&self, page: &mut Page) {
        page.heading(2, "A call");
        page.paragraph(&format!(
            "By how many microseconds a read or write of 4 KiB takes longer: 64 MiB from /dev/zero \
             to /dev/null, {} rounds. The last column has the CPU time of the tool too, less what it \
             takes when nothing is copied. A tool that takes more than {SLOW_CALL} µs is not asked \
             to do a whole GiB above and below.",
            self.rounds
        ));
        let mut table = Table::new([
            "tool",
            "wall",
            "least … greatest",
            "CPU of the command",
            "least … greatest",
            "CPU of both",
        ]);
        for (tool, added) in &self.added {
            let cells = |spread: &Spread| {
                [
                    format!("{:+.2} µs", spread.median),
                    format!("{:+.2} … {:+.2}", spread.least, spread.greatest),
                ]
            };
            let cells = match added {
                Some(call) => {
                    let all = vec![format!("{:+.2} µs", call.all_cpu)];
                    [cells(&call.wall).to_vec(), cells(&call.cpu).to_vec(), all].concat()
                }
                None => vec!["failed".into(), "–".into(), "–".into(), "–".into(), "–".into()],
            };
            table.row([vec![tool.name()], cells].concat());
        }
        page.table(&table);
    }
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
    Some(Bar { name, median: cpu.median, low, high })
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

/// The picture of both.
pub fn picture(weigh: Vec<Panel>, peers: Vec<Panel>) -> Result<String> {
    let mut panels = weigh;
    for panel in peers {
        match panels.iter_mut().find(|other| other.title == panel.title) {
            Some(there) => there.bars.extend(panel.bars),
            None => panels.push(panel),
        }
    }
    plot::overhead(&panels)
}

/// What each collector adds, by doing without it.
pub fn write_collectors(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(2, "Collectors");
    page.paragraph(
        "What weigh takes without one collector, against all of them in the same round: less is \
         what that collector costs. Of a run of `true`, the time from start to end; of the others, \
         the CPU time of the command.",
    );
    let without = ["hardware", "network", "files", "footprint", "cgroup", "gpu", "pages", "bpf"];
    let arms: Vec<Arm> = std::iter::once(Arm::Weigh(Vec::new()))
        .chain(without.map(|name| Arm::Weigh(words(["--without", name]))))
        .collect();
    let works = works(bench);
    let (forking, filling) = (&works[2].command, &works[3].command);
    let mut columns = Vec::new();
    for command in [&words(["true"]), forking, filling] {
        eprintln!("collectors: {}", command.join(" "));
        let length = bench.length(Length { least: 3, most: 5, seconds: 20 });
        columns.push(alternate(bench, &arms, (command, 1), length)?);
    }
    let mut table = Table::new([
        "without",
        "`true`, wall",
        "`true`, CPU",
        "500 × /bin/true",
        "filling 1 GB",
        "rounds",
    ]);
    let failed = || "failed".to_string();
    for (arm, name) in without.iter().enumerate() {
        let arm = arm + 1;
        let milliseconds = |spread: Spread| format!("{:+.1} ms", spread.median * 1e3);
        let of_true =
            [columns[0].added(arm, |run| run.all.wall), columns[0].added(arm, |run| run.all.cpu)];
        let [wall, cpu] = of_true.map(|spread| spread.map_or_else(failed, milliseconds));
        let more = |column: usize| {
            let spread = columns[column].more(arm, |run| run.command.cpu);
            spread.map_or_else(failed, |spread| percent(&spread))
        };
        let count = columns[0].count().to_string();
        table.row([name.to_string(), wall, cpu, more(1), more(2), count]);
    }
    page.table(&table);
    Ok(())
}
