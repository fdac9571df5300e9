//! What it costs a program to be measured, or to run beside one that is: the same fixed work bare,
//! beside a measured job, under weigh, and under peers, in turn.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::machine;
use crate::page::{Page, Table};
use crate::runs::{Arm, Bench, Run};
use crate::spread::Spread;

/// A fixed amount of work, and the most that measuring may add to it, in percent.
pub struct Work {
    /// What is done.
    pub name: &'static str,
    /// How.
    pub command: Vec<String>,
    measured: f64,
    beside: f64,
    /// How often it is done in one run: work that takes long enough to be told from noise.
    repeats: usize,
    rounds: usize,
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
    let work = |name, command, (measured, beside), repeats, rounds| Work {
        name,
        command,
        measured,
        beside,
        repeats,
        rounds: bench.times(rounds),
    };
    let quick = bench.quick;
    let computing = bench.spin(Duration::from_millis(if quick { 300 } else { 3000 }));
    let copying = copying(if quick { 16_384 } else { 262_144 });
    let count = if quick { 50 } else { 500 };
    let loops = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
    let forking = words(["sh", "-c", &loops]);
    let filling = bench.workload(if quick { "fill 100000000" } else { "fill 1000000000" });
    vec![
        work("computing for 3 s", computing, (0.5, 0.5), 1, 15),
        work("1 GiB from /dev/zero to /dev/null by 4 KiB", copying, (1.0, 0.5), 6, 31),
        work("500 × /bin/true from a shell", forking, (5.0, 2.0), 2, 61),
        work("filling 1 GB", filling, (5.0, 5.0), 2, 41),
    ]
}

/// Runs each command in each way, again and again, each time beginning with another way. What
/// comes back has a run of each way for each round.
///
/// A round during which somebody else's weigh runs is made again: nothing was bare in it.
fn alternate(
    bench: &Bench,
    arms: &[Arm],
    (command, repeats): (&[String], usize),
    rounds: usize,
) -> Result<Vec<Vec<Run>>> {
    let mut done = Vec::new();
    let mut disturbed = 0;
    while done.len() < rounds {
        let mut runs = vec![None; arms.len()];
        let mut others = machine::weighs_running()?;
        for offset in 0..arms.len() {
            let which = (done.len() + offset) % arms.len();
            runs[which] = Some(bench.run(&arms[which], repeats, command)?);
            others += machine::weighs_running()?;
        }
        if others == 0 {
            done.push(runs.into_iter().flatten().collect());
            continue;
        }
        disturbed += 1;
        eprintln!("another weigh ran: round made again");
        if disturbed > 2 * rounds.max(10) {
            bail!("another weigh runs on this machine all the time: no bare run can be made");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(done)
}

/// By how many percent one way takes longer than the first one of the same round.
fn more(rounds: &[Vec<Run>], arm: usize, figure: impl Fn(&Run) -> f64) -> Spread {
    Spread::of(rounds.iter().map(|runs| (figure(&runs[arm]) / figure(&runs[0]) - 1.0) * 100.0))
}

/// How much more that is, in the middle.
fn added(rounds: &[Vec<Run>], arm: usize, figure: impl Fn(&Run) -> f64) -> String {
    let more = rounds.iter().map(|runs| (figure(&runs[arm]) - figure(&runs[0])) * 1e3);
    format!("{:+.1} ms", Spread::of(more).median)
}

fn of_arm(rounds: &[Vec<Run>], arm: usize, figure: impl Fn(&Run) -> f64) -> Spread {
    Spread::of(rounds.iter().map(|runs| figure(&runs[arm])))
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

fn seconds(spread: &Spread) -> String {
    format!("{:.3} s", spread.median)
}

/// Rows 1 and 2 of what is promised: measured, and beside a measured job.
pub fn write(bench: &Bench, only: &str, page: &mut Page) -> Result<()> {
    let arms = [Arm::Bare, Arm::Beside, Arm::Weigh(Vec::new())];
    let header = [
        "work",
        "bare, CPU",
        "CPU more",
        "95 % interval",
        "least … greatest",
        "wall more",
        "95 % interval",
        "rounds",
        "target, CPU",
        "verdict",
    ];
    let (mut beside, mut measured) = (Table::new(header), Table::new(header));
    let mut around = Table::new(["work", "weigh's own CPU", "least … greatest"]);
    for work in works(bench).into_iter().filter(|work| work.name.contains(only)) {
        eprintln!("overhead: {}", work.name);
        let rounds = alternate(bench, &arms, (&work.command, work.repeats), work.rounds)?;
        let bare = of_arm(&rounds, 0, |run| run.command.cpu / work.repeats as f64);
        for (arm, target, table) in
            [(1, work.beside, &mut beside), (2, work.measured, &mut measured)]
        {
            let cpu = more(&rounds, arm, |run| run.command.cpu);
            let wall = more(&rounds, arm, |run| run.command.wall);
            table.row([
                work.name.to_string(),
                seconds(&bare),
                percent(&cpu),
                interval(&cpu),
                range(&cpu),
                percent(&wall),
                interval(&wall),
                cpu.count.to_string(),
                format!("≤ {target} %"),
                cpu.against(target).to_string(),
            ]);
        }
        let own = of_arm(&rounds, 2, Run::cpu_around);
        let spread = format!("{:.3} … {:.3}", own.least, own.greatest);
        around.row([work.name.to_string(), seconds(&own), spread]);
    }
    page.heading(2, "A measured program");
    page.paragraph(
        "The command under `weigh run --quiet`, against the same command bare in the same round. \
         The start and the end of weigh are not in it (see “Fixed cost”).",
    );
    page.table(&measured);
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
    Ok(())
}

/// The same work under other tools.
pub fn write_peers(bench: &Bench, page: &mut Page) -> Result<()> {
    page.heading(2, "Peers");
    page.paragraph(
        "The same work under other tools: by how much the command itself takes longer, and how many \
         milliseconds more it takes from the start of the tool to its end, what the tool itself \
         does included.",
    );
    let mut peers = vec![("weigh run", Arm::Weigh(Vec::new()))];
    for (name, line) in [
        ("perf stat", "/usr/bin/perf stat -o /dev/null"),
        ("GNU time", "/usr/bin/time -o /dev/null"),
        ("strace -f -c", "/usr/bin/strace -f -c -o /dev/null"),
    ] {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        if Path::new(&words[0]).exists() {
            peers.push((name, Arm::Peer(words)));
        } else {
            page.paragraph(&format!("{name} is not installed here: left out."));
        }
    }
    let arms: Vec<Arm> =
        std::iter::once(Arm::Bare).chain(peers.iter().map(|(_, arm)| arm.clone())).collect();
    let mut table = Table::new([
        "work",
        "tool",
        "command: CPU",
        "wall",
        "with the tool: CPU",
        "wall",
        "rounds",
    ]);
    let mut works = works(bench);
    // strace takes a minute for a whole GiB; computing gives none of them anything to do.
    works[1].name = "64 MiB by 4 KiB";
    works[1].command = copying(16_384);
    for work in works.into_iter().skip(1) {
        eprintln!("peers: {}", work.name);
        let rounds = alternate(bench, &arms, (&work.command, 1), bench.times(3))?;
        for (arm, (name, _)) in peers.iter().enumerate() {
            let arm = arm + 1;
            table.row([
                work.name.to_string(),
                name.to_string(),
                percent(&more(&rounds, arm, |run| run.command.cpu)),
                percent(&more(&rounds, arm, |run| run.command.wall)),
                added(&rounds, arm, |run| run.all.cpu),
                added(&rounds, arm, |run| run.all.wall),
                rounds.len().to_string(),
            ]);
        }
    }
    page.table(&table);
    Ok(())
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
        columns.push(alternate(bench, &arms, (command, 1), bench.times(5))?);
    }
    let mut table = Table::new([
        "without",
        "`true`, wall",
        "`true`, CPU",
        "500 × /bin/true",
        "filling 1 GB",
        "rounds",
    ]);
    for (arm, name) in without.iter().enumerate() {
        let arm = arm + 1;
        table.row([
            name.to_string(),
            added(&columns[0], arm, |run| run.all.wall),
            added(&columns[0], arm, |run| run.all.cpu),
            percent(&more(&columns[1], arm, |run| run.command.cpu)),
            percent(&more(&columns[2], arm, |run| run.command.cpu)),
            columns[0].len().to_string(),
        ]);
    }
    page.table(&table);
    Ok(())
}

/// Row 3 of what is promised: what `weigh run -- true` takes.
pub fn write_fixed(bench: &Bench, page: &mut Page) -> Result<()> {
    eprintln!("fixed cost");
    const TARGET_MS: f64 = 150.0;
    let (bare, mut measured) = (words(["true"]), bench.weigh_words(&[]));
    measured.push("true".to_string());
    let (mut alone, mut with) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(31) {
        alone.push(bench.run_plain(&bare)?);
        with.push(bench.run_plain(&measured)?);
    }
    page.heading(2, "Fixed cost");
    page.paragraph(
        "`weigh run --quiet -o DIR -- true`, from start to end; beside it `true` alone.",
    );
    let mut table = Table::new([
        "",
        "median",
        "95 % interval",
        "least … greatest",
        "runs",
        "target",
        "verdict",
    ]);
    let mut row = |name: &str, figures: Vec<f64>, target: Option<f64>| {
        let spread = Spread::of(figures.into_iter().map(|seconds| seconds * 1e3));
        let verdict = target.map(|target| spread.against(target).to_string());
        let inside = |(low, high)| format!("{low:.1} … {high:.1}");
        table.row([
            name.to_string(),
            format!("{:.1} ms", spread.median),
            spread.interval.map_or_else(|| "–".to_string(), inside),
            format!("{:.1} … {:.1}", spread.least, spread.greatest),
            spread.count.to_string(),
            target.map_or_else(|| "–".to_string(), |target| format!("≤ {target} ms")),
            verdict.unwrap_or_else(|| "–".to_string()),
        ]);
    };
    row("weigh, wall", with.iter().map(|times| times.wall).collect(), Some(TARGET_MS));
    row("weigh, CPU", with.iter().map(|times| times.cpu).collect(), None);
    row("true, wall", alone.iter().map(|times| times.wall).collect(), None);
    row("true, CPU", alone.iter().map(|times| times.cpu).collect(), None);
    page.table(&table);
    Ok(())
}
