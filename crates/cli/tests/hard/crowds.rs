//! Many processes: alive at once, one after the other, as a fork bomb, as runs of weigh.

use std::time::Duration;

use weigh_schema::summary::ExitKind;

use super::judge::{Expected, compare, is_whole};
use super::{Case, How, Outcome, followed};
use crate::support::measured::Measured;
use crate::support::run::{Running, Weigh};
use crate::support::{is_slow, patience};

/// How many of something: as in the tests, and with `WEIGH_HARD=full`.
#[derive(Clone, Copy)]
struct Size {
    tests: u64,
    full: u64,
}

impl Size {
    fn now(self) -> u64 {
        let is_full = std::env::var_os("WEIGH_HARD").is_some_and(|size| size == "full");
        match () {
            () if is_full => self.full,
            () if is_slow() => self.tests.div_ceil(10),
            () => self.tests,
        }
    }

    /// For the table, which has to be the same whatever is run.
    fn words(self) -> String {
        let grouped = |number: u64| match number / 1000 {
            0 => number.to_string(),
            thousands @ 1..1000 => format!("{thousands},{:03}", number % 1000),
            thousands => {
                format!("{},{:03},{:03}", thousands / 1000, thousands % 1000, number % 1000)
            }
        };
        format!(
            "{} in the tests, {} with `WEIGH_HARD=full`",
            grouped(self.tests),
            grouped(self.full)
        )
    }
}

const ALIVE: Size = Size { tests: 3_000, full: 30_000 };
const SHORT: Size = Size { tests: 20_000, full: 1_000_000 };
const AT_ONCE: Size = Size { tests: 40, full: 200 };
const BOMB_LIMIT: u64 = 200;
/// Only so that a test that fails harms nobody: who holds births does not need it.
const BOMB_MOST: u64 = 20_000;
/// As a limit of the user's processes would do it, where weigh looks from outside only.
const BOMB_MOST_POLLED: u64 = 2_000;

/// What weigh may hold at the end of a job of so many processes, whatever their number.
const MEMORY_BYTES: u64 = 400_000_000;

/// The cases.
pub fn cases() -> Vec<Case> {
    let case = |name, does: String, run: fn(&Case, &How) -> Result<Outcome, String>| Case {
        name,
        does,
        needs_root: false,
        run: Box::new(run),
    };
    vec![
        case("processes alive at once", ALIVE.words(), alive),
        case("short processes, one after the other", SHORT.words(), short),
        case(
            "fork bomb",
            format!(
                "under `--limit processes_peak={BOMB_LIMIT}`; it is ended, nothing survives (for `poll`, where the user \
                 may have {BOMB_MOST_POLLED})"
            ),
            bomb,
        ),
        case("runs of weigh at once", format!("of `true`; {}", AT_ONCE.words()), at_once),
    ]
}

/// A run of `procs`; its processes, all at one moment or one after the other.
fn procs(case: &Case, how: &How, count: u64, kind: &str) -> Result<(Measured, u64), String> {
    let run = Weigh::workload(&format!("procs {count} {kind}"));
    let mut running = followed(run, how, case.user(how)).start();
    let memory = greatest_memory(&mut running);
    let measured = running.end();
    if !measured.status.success() || !measured.stderr.is_empty() {
        return Err(format!("harmed\n{}", measured.everything()));
    }
    Ok((measured, memory))
}

/// What weigh held at most, as far as it was looked at.
fn greatest_memory(running: &mut Running) -> u64 {
    let path = format!("/proc/{}/status", running.pid());
    let mut greatest = 0;
    while running.child.try_wait().expect("it is our child").is_none() {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        greatest = greatest.max(kilobytes.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(5));
    }
    greatest
}

fn alive(case: &Case, how: &How) -> Result<Outcome, String> {
    let count = ALIVE.now();
    let (measured, memory) = procs(case, how, count, "together")?;
    println!("{count} alive, {}: weigh held {} MB", how.name, memory / 1_000_000);
    let all = count as f64 + 1.0;
    is_whole(&measured)?;
    compare(
        &measured,
        vec![
            Expected { word: "processes", metric: "processes_total", low: all, high: all },
            Expected { word: "peak", metric: "processes_peak", low: all, high: all },
        ],
    )
    .map_err(|error| format!("{error}\n{}", measured.everything()))
}

fn short(case: &Case, how: &How) -> Result<Outcome, String> {
    let count = SHORT.now();
    let (measured, memory) = procs(case, how, count, "fork")?;
    println!(
        "{count} short ones, {}: weigh held {} MB, took {:.1} s",
        how.name,
        memory / 1_000_000,
        measured.took.as_secs_f64()
    );
    if memory > MEMORY_BYTES {
        return Err(format!("weigh held {memory} bytes"));
    }
    let all = count as f64 + 1.0;
    is_whole(&measured)?;
    compare(
        &measured,
        vec![
            Expected { word: "processes", metric: "processes_total", low: all, high: all },
            Expected { word: "peak", metric: "processes_peak", low: 2.0, high: 2.0 },
        ],
    )
    .map_err(|error| format!("{error}\n{}", measured.everything()))
}

fn bomb(case: &Case, how: &How) -> Result<Outcome, String> {
    let is_polled = how.name == "poll";
    let most = if is_polled { BOMB_MOST_POLLED } else { BOMB_MOST };
    let run = Weigh::workload(&format!("bomb {most}"))
        .options(&format!("--limit processes_peak={BOMB_LIMIT} --grace 300ms"));
    let measured = followed(run, how, case.user(how)).end();
    let failed = |what: String| Err(format!("{what}\n{}", measured.everything()));
    let left = measured.scratch.survivors();
    if !left.is_empty() {
        return failed(format!("alive: {left:?}"));
    }
    if measured.took > patience(20.0) {
        return failed(format!("it took {:?}", measured.took));
    }
    let exit = measured.summary().exit.clone().expect("it has ended");
    if measured.status.code() != Some(124) || exit.kind != ExitKind::Limit {
        return failed(format!("it ended as {exit:?}"));
    }
    let peak = measured.number("processes_peak");
    println!("bomb, {}: {peak} at most, after {:?}", how.name, measured.took);
    let total = measured.number("processes_total");
    if !is_polled && total >= BOMB_MOST as f64 {
        return failed("it came to its own end".to_string());
    }
    match how.name {
        "poll" => Ok(Outcome::Told("the limit is noticed at the next look".to_string())),
        // Forks that had begun when the limit was crossed come on top: one a process, at most.
        _ if peak > (2 * BOMB_LIMIT) as f64 => failed(format!("{peak} lived at once")),
        _ => Ok(Outcome::Exact),
    }
}

fn at_once(case: &Case, how: &How) -> Result<Outcome, String> {
    let count = AT_ONCE.now();
    let begin = || followed(Weigh::run(["true"]), how, case.user(how)).start();
    let running: Vec<Running> = (0..count).map(|_| begin()).collect();
    let mut outcomes = Vec::new();
    for running in running {
        let measured = running.end();
        if !measured.status.success() || !measured.stderr.is_empty() {
            return Err(format!("harmed\n{}", measured.everything()));
        }
        is_whole(&measured)?;
        let one = Expected { word: "processes", metric: "processes_total", low: 1.0, high: 1.0 };
        let outcome = compare(&measured, vec![one]);
        outcomes.push(outcome.map_err(|error| format!("{error}\n{}", measured.everything()))?);
    }
    // Whether a look comes in time is chance: both say that they do not know.
    match outcomes.iter().all(|outcome| *outcome == Outcome::Exact) {
        true => Ok(Outcome::Exact),
        false => Ok(Outcome::Told("processes sampled, or unavailable".to_string())),
    }
}
