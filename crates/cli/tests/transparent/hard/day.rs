//! The clock of the day is set while a job runs: on a machine of its own, for it is everybody's.
//!
//! All times are to be counted by a clock that nobody can set: how long things took, when limits
//! are crossed, when what happened within the job.

use std::time::Duration;

use jiff::Timestamp;
use weigh_schema::announcement::Announcement;
use weigh_schema::following::following;
use weigh_schema::summary::ExitKind;

use super::judge::judge;
use super::{Case, How, Outcome};
use crate::support::measured::Measured;
use crate::support::patience;
use crate::support::run::Weigh;

/// How often `turn day` sets it.
const TURNS: usize = 6;

/// It rests so long after each turn.
const REST_SECONDS: f64 = 0.3;

/// The limit that ends a job, and how much later that may be.
const LIMIT_SECONDS: f64 = 2.0;
const LATE_SECONDS: f64 = 1.0;

/// The cases.
pub fn cases() -> Vec<Case> {
    let case = |name, does: &str, run: fn(&Case, &How) -> Result<Outcome, String>| Case {
        name,
        does: does.to_string(),
        needs_root: true,
        run: Box::new(run),
    };
    vec![
        case(
            "it is set forward and back by hours",
            "up to three years; children are killed, execute the program, live without `/proc` meanwhile. \
             Rows, samples, snapshots, what `--on-event` is told: all are within the job's time and in order",
            turned,
        ),
        case(
            "a limit of time meanwhile",
            "`--limit wall_seconds=2`, set every 0.1 s: it is crossed at 2 s, not when the clock says so",
            limited,
        ),
    ]
}

/// The clock of the day as it was, whatever becomes of the job.
struct Day {
    ahead_ns: i128,
}

impl Day {
    fn now() -> Day {
        Day { ahead_ns: Timestamp::now().as_nanosecond() - boot_ns() }
    }
}

impl Drop for Day {
    fn drop(&mut self) {
        let right = (boot_ns() + self.ahead_ns) / 1_000_000_000;
        let set = std::process::Command::new("date").args(["-s", &format!("@{right}")]).output();
        println!("the clock of the day is set right: {:?}", set.map(|set| set.status));
    }
}

fn boot_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// A run at each level that the mechanism has; the outcome is that of the deepest.
fn at_each_level(
    how: &How,
    line: &str,
    options: &str,
    verdict: impl Fn(&Measured) -> Result<Outcome, String>,
) -> Result<Outcome, String> {
    let levels = following(how.name).expect("it is declared").levels;
    let mut deepest = Err("it has no level".to_string());
    for level in levels {
        let number = level.number();
        let _day = Day::now();
        let run = Weigh::workload(line)
            .options(&how.options())
            .options(&format!("--level {number} {options}"))
            .option("--on-event")
            .option("cat >>told")
            .env("TURN_MAY_SET_THE_DAY", "1");
        let measured = run.end();
        let outcome = verdict(&measured)
            .map_err(|error| format!("level {number}: {error}\n{}", measured.everything()))?;
        deepest = Ok(outcome);
    }
    deepest
}

fn turned(_: &Case, how: &How) -> Result<Outcome, String> {
    let options = "--limit wall_seconds=1h --interval 100ms --snapshot turn=log:^turned";
    at_each_level(how, "turn day", options, |measured| {
        if !measured.status.success() {
            return Err("it did not end by itself".to_string());
        }
        let least = REST_SECONDS * TURNS as f64;
        times_agree(measured, least, measured.took.as_secs_f64())?;
        // Two that come before a look are one snapshot.
        let snapshots: u64 = measured.summary().snapshots.iter().map(|s| s.count).sum();
        if snapshots != TURNS as u64 {
            return Err(format!("{snapshots} snapshots"));
        }
        judge(measured)
    })
}

fn limited(_: &Case, how: &How) -> Result<Outcome, String> {
    let options = format!("--limit wall_seconds={LIMIT_SECONDS} --grace 300ms");
    at_each_level(how, "turn days", &options, |measured| {
        let latest = LIMIT_SECONDS + patience(LATE_SECONDS).as_secs_f64();
        let exit = measured.summary().exit.clone().expect("it has ended");
        if measured.status.code() != Some(124) || exit.kind != ExitKind::Limit {
            return Err(format!("it ended as {exit:?}"));
        }
        let at = measured.summary().limits[0].at_seconds.expect("it is crossed");
        if !(LIMIT_SECONDS..latest).contains(&at) {
            return Err(format!("crossed at {at} s"));
        }
        if measured.took < Duration::from_secs_f64(LIMIT_SECONDS) {
            return Err(format!("it took {:?}", measured.took));
        }
        times_agree(measured, LIMIT_SECONDS, measured.took.as_secs_f64())?;
        Ok(Outcome::Exact)
    })
}

/// What the recording says of times agrees with itself, and with a clock outside.
fn times_agree(measured: &Measured, least: f64, most: f64) -> Result<(), String> {
    let summary = measured.summary();
    let wall = measured.number("wall_seconds");
    if !(least..=most).contains(&wall) {
        return Err(format!("it took {wall} s, at least {least}, at most {most}"));
    }
    let started = summary.job.started;
    let since = |at: Timestamp| at.duration_since(started).as_secs_f64();
    let ended = summary.job.ended.map(since).expect("the job has ended");
    if (ended - wall).abs() > 1e-6 {
        return Err(format!("ended after {ended} s, and took {wall} s"));
    }
    let mut before = 0.0;
    for snapshot in &summary.snapshots {
        let (at, taken) = (snapshot.at_seconds, since(snapshot.taken));
        if at < before || at > wall || (at - taken).abs() > 1e-6 {
            return Err(format!("a snapshot at {at} s, or {taken} s, after one at {before} s"));
        }
        before = at;
    }
    for sample in measured.samples() {
        let at = (i128::from(sample.time_ns) - started.as_nanosecond()) as f64 * 1e-9;
        if !(0.0..=wall + 0.001).contains(&at) {
            return Err(format!("out of the job's time, at {at} s: {sample:?}"));
        }
    }
    let text = measured.scratch.text("work/told");
    let mut before = 0.0;
    for line in text.lines() {
        let told: Announcement = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let at = since(told.at);
        if at < before || at > most {
            return Err(format!("{:?} told at {at} s, after {before} s", told.happening.event()));
        }
        before = at;
    }
    if before < ended {
        return Err(format!("the end is told at {before} s, and was at {ended} s"));
    }
    Ok(())
}
