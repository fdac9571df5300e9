//! Many processes: alive at once, one after the other, as a fork bomb, as runs of weigh.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weigh_schema::summary::ExitKind;

use super::deeds::alone;
use super::full::{self, Course, grouped, is_full};
use super::judge::{Expected, compare, is_whole};
use super::{Case, How, NOBODY, Outcome, followed};
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
        match () {
            () if is_full() => self.full,
            () if is_slow() => self.tests.div_ceil(10),
            () => self.tests,
        }
    }

    /// How many times more it is than in the tests.
    fn times(self) -> f64 {
        self.now() as f64 / self.tests as f64
    }

    /// For the table, which has to be the same whatever is run.
    fn words(self) -> String {
        format!(
            "{} in the tests, {} with `WEIGH_HARD=full`",
            grouped(self.tests),
            grouped(self.full)
        )
    }
}

const ALIVE: Size = Size { tests: 3_000, full: 30_000 };
const SHORT: Size = Size { tests: 8_000, full: 1_000_000 };
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
fn procs(case: &Case, how: &How, size: Size, kind: &str) -> Result<(Measured, Course), String> {
    let count = size.now();
    let line = format!("procs {count} {kind}");
    let bare = if is_full() { seconds_alone(&line)? } else { Duration::ZERO };
    let run = Weigh::workload(&line).longer(size.times());
    let watch = MemoryWatch::start();
    let running = followed(run, how, case.user(how)).start();
    watch.follow(running.pid());
    let measured = running.end();
    let weigh_bytes = watch.end();
    println!(
        "{line}, {}: weigh held {} MB, took {:.1} s",
        how.name,
        weigh_bytes / 1_000_000,
        measured.took.as_secs_f64()
    );
    if !measured.status.success() || !measured.stderr.is_empty() {
        return Err(format!("harmed\n{}", measured.everything()));
    }
    if weigh_bytes > MEMORY_BYTES {
        return Err(format!("weigh held {weigh_bytes} bytes"));
    }
    let course = Course { size: count, weigh_bytes, took: measured.took, bare };
    Ok((measured, course))
}

/// How long a workload takes without weigh; tried once for all mechanisms.
fn seconds_alone(line: &str) -> Result<Duration, String> {
    static KNOWN: Mutex<BTreeMap<String, Duration>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("nobody panics with it");
    if let Some(took) = known.get(line) {
        return Ok(*took);
    }
    let begun = Instant::now();
    let seen = alone(line, Some(NOBODY));
    if seen.status != "exit status: 0" {
        return Err(format!("it does not work here without weigh: {seen:?}"));
    }
    println!("{line}, alone: took {:.1} s", begun.elapsed().as_secs_f64());
    Ok(*known.entry(line.to_string()).or_insert(begun.elapsed()))
}

/// Looks at the greatest resident size of processes while they live.
struct MemoryWatch {
    pids: Arc<Mutex<Vec<u32>>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl MemoryWatch {
    fn start() -> MemoryWatch {
        let pids = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (watched, ended) = (pids.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let mut greatest = 0;
            while !ended.load(Ordering::Relaxed) {
                let mut pids = watched.lock().expect("nobody panics with it");
                // Who has ended has no such line, even before somebody waits for it.
                pids.retain(|pid| {
                    let held = high_water(*pid);
                    greatest = greatest.max(held.unwrap_or(0));
                    held.is_some()
                });
                drop(pids);
                std::thread::sleep(Duration::from_millis(10));
            }
            greatest
        });
        MemoryWatch { pids, is_over, thread }
    }

    fn follow(&self, pid: u32) {
        self.pids.lock().expect("nobody panics with it").push(pid);
    }

    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

fn high_water(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Room for so many PIDs beside those that are there, as long as this lives.
struct Pids {
    before: Option<String>,
}

const PID_MAX: &str = "/proc/sys/kernel/pid_max";

impl Pids {
    fn room_for(count: u64) -> Pids {
        let before = std::fs::read_to_string(PID_MAX).expect("the kernel tells");
        let is_enough = before.trim().parse::<u64>().is_ok_and(|most| most >= 2 * count);
        if is_enough {
            return Pids { before: None };
        }
        // Where it cannot be had, the job says so.
        let _ = std::fs::write(PID_MAX, (2 * count).to_string());
        Pids { before: Some(before) }
    }
}

impl Drop for Pids {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = std::fs::write(PID_MAX, before);
        }
    }
}

/// Notes what was found, where it was found at full size.
fn noted(
    case: &Case,
    how: &How,
    measured: &Measured,
    course: &Course,
    outcome: Outcome,
) -> Result<Outcome, String> {
    if is_full() {
        full::note(case, how, course, &outcome, measured.summary())?;
    }
    Ok(outcome)
}

fn alive(case: &Case, how: &How) -> Result<Outcome, String> {
    let _room = Pids::room_for(ALIVE.now());
    let (measured, course) = procs(case, how, ALIVE, "together")?;
    let all = course.size as f64 + 1.0;
    counted(case, how, &measured, &course, (all, all))
}

fn short(case: &Case, how: &How) -> Result<Outcome, String> {
    let (measured, course) = procs(case, how, SHORT, "fork")?;
    counted(case, how, &measured, &course, (course.size as f64 + 1.0, 2.0))
}

/// Held to the number of processes, and to how many lived at one moment.
fn counted(
    case: &Case,
    how: &How,
    measured: &Measured,
    course: &Course,
    (all, peak): (f64, f64),
) -> Result<Outcome, String> {
    is_whole(measured)?;
    let expected = |word, metric, number| Expected { word, metric, low: number, high: number };
    let demands = vec![
        expected("processes", "processes_total", all),
        expected("peak", "processes_peak", peak),
    ];
    let outcome = compare(measured, demands)
        .map_err(|error| format!("{error}\n{}", measured.everything()))?;
    noted(case, how, measured, course, outcome)
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
    let bare = is_full().then(|| commands_at_once(count));
    let longer = AT_ONCE.times();
    let begin = || followed(Weigh::run(["true"]).longer(longer), how, case.user(how)).start();
    let begun = Instant::now();
    let watch = MemoryWatch::start();
    let mut running = Vec::new();
    for _ in 0..count {
        running.push(begin());
        watch.follow(running.last().map_or(0, Running::pid));
    }
    let all: Vec<Measured> = running.into_iter().map(Running::end).collect();
    let took = begun.elapsed();
    let weigh_bytes = watch.end();
    let mut outcomes = Vec::new();
    for measured in &all {
        if !measured.status.success() || !measured.stderr.is_empty() {
            return Err(format!("harmed\n{}", measured.everything()));
        }
        is_whole(measured)?;
        let one = Expected { word: "processes", metric: "processes_total", low: 1.0, high: 1.0 };
        let outcome = compare(measured, vec![one]);
        outcomes.push(outcome.map_err(|error| format!("{error}\n{}", measured.everything()))?);
    }
    // Whether a look comes in time is chance: both say that they do not know.
    let outcome = match outcomes.iter().all(|outcome| *outcome == Outcome::Exact) {
        true => Outcome::Exact,
        false => Outcome::Told("processes sampled, or unavailable".to_string()),
    };
    let bare = bare.unwrap_or_default();
    let course = Course { size: count, weigh_bytes, took, bare };
    noted(case, how, &all[0], &course, outcome)
}

/// How long the commands take without weigh.
fn commands_at_once(count: u64) -> Duration {
    let begun = Instant::now();
    let start = || Command::new("true").spawn().expect("it starts");
    let running: Vec<_> = (0..count).map(|_| start()).collect();
    for mut child in running {
        child.wait().expect("it is our child");
    }
    begun.elapsed()
}
