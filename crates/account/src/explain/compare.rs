//! The second reading: slow and ordinary calls of each kind, added up and set side by side.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::call::{RIVALS, Rival};
use weigh_schema::call_row::{CallRow, pending};
use weigh_schema::explain::{
    AskedToken, CallGroup, Difference, Doing, ExplainReport, ExplainedKind, INTERVAL, Of, PROGRAM,
    REPORT, RUN_QUEUE, RivalShare, SlowRule, TimeBucket, Unavailable, Verdict,
};
use weigh_schema::subsystem::{Account, SUBSYSTEMS, Subsystem};

use super::bucket::Times;
use super::call_kind::{KindKey, Thresholds, is_of};
use super::counters::{Counters, counters};
use super::outcomes::{SideOutcome, moved, outcome};

/// Slow calls that took less than this many times as long as ordinary ones hardly differ.
const LEAST_RATIO: f64 = 1.25;
/// A rival is of weight where the call waited this part of its time for it.
const LEAST_WAIT: f64 = 0.05;
/// A rival is named that was in the way of this part of the slow calls, …
const LEAST_MET: f64 = 0.1;
/// … and of the ordinary ones no more than of this part as many.
const MOST_ORDINARY: f64 = 0.5;
/// Tokens that are named.
const TOKENS_MOST: usize = 5;
/// Buckets of the histogram are so many of the fine ones: four for each doubling.
const FINE: u32 = 16;

/// What is not in the rows of calls, or not where it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Calls that came too fast to have a row.
    pub untold: u64,
    /// Calls, or what they left behind, for which there was no room.
    pub lost: u64,
    /// Bits of what came later of calls, that came too fast.
    pub untold_later: u64,
    /// Calls of which what came later stands with another of their kind.
    pub merged_later: u64,
    /// Calls of which what came later is not known.
    pub unknown_later: u64,
    /// What no row has.
    pub unavailable: Vec<Unavailable>,
}

/// What was followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedCommand {
    /// As a shell would be given it.
    pub words: String,
    /// Its words in Base64, each ended by a NUL byte, where they are no UTF-8.
    pub base64: Option<String>,
}

/// Slow and ordinary calls.
#[derive(Debug)]
pub struct Comparison {
    /// None where intervals are asked for.
    slow: Option<SlowRule>,
    measured: u64,
    calls: u64,
    kinds: BTreeMap<KindKey, (Thresholds, Sides)>,
    asked: Vec<(AskedToken, Thresholds, Sides)>,
}

#[derive(Debug, Default)]
struct Sides {
    slow: Side,
    ordinary: Side,
    histogram: BTreeMap<u32, (u64, Account)>,
}

/// The kind of rival, its name with its bytes, and whether it is the caller itself.
type RivalKey = (usize, (String, Option<String>), bool);

/// Calls of one side.
#[derive(Debug, Default)]
struct Side {
    calls: u64,
    shortest: u64,
    longest: u64,
    sum: Account,
    counters: Counters,
    did: SideOutcome,
    met: BTreeMap<RivalKey, Met>,
    /// Those of which it is known whether something was still to come, and those of them of which it was.
    known_later: u64,
    open: u64,
    /// Times and tokens of the slowest, the slowest first.
    tokens: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Met {
    calls: u64,
    pids: BTreeSet<u32>,
}

impl Thresholds {
    fn is_ordinary(&self, time: u64) -> bool {
        (self.ordinary.0..self.ordinary.1).contains(&time)
    }
}

/// Where a call belongs.
#[derive(Clone, Copy)]
enum Belongs {
    Slow,
    Ordinary,
    Neither,
}

impl Sides {
    fn add(&mut self, row: &CallRow, belongs: Belongs, verdict: Verdict) {
        let side = match belongs {
            Belongs::Slow => Some(&mut self.slow),
            Belongs::Ordinary => Some(&mut self.ordinary),
            Belongs::Neither => None,
        };
        if let Some(side) = side {
            side.add(row);
            if verdict == Verdict::Differ {
                side.counters.add(row);
                side.did.add(row);
            }
        }
        let (calls, sum) =
            self.histogram.entry(Times::bucket(row.account.time_ns()) / FINE).or_default();
        *calls += 1;
        sum.add(&row.account);
    }
}

impl Side {
    fn add(&mut self, row: &CallRow) {
        let time = row.account.time_ns();
        self.shortest = if self.calls == 0 { time } else { self.shortest.min(time) };
        self.longest = self.longest.max(time);
        self.calls += 1;
        self.sum.add(&row.account);
        if let Some(pending) = pending(row) {
            self.known_later += 1;
            self.open += u64::from(pending > 0);
        }
        if let Some(interval) = row.interval {
            self.add_token(time, interval.token);
        }
        let of_weight =
            |rival: &&Rival| rival.time_ns == 0 || rival.time_ns as f64 >= time as f64 * LEAST_WAIT;
        for (kind, rival) in row.rivals.iter().enumerate() {
            let Some(rival) = rival.as_ref().filter(of_weight) else { continue };
            let name = (rival.name.clone(), rival.name_base64.clone());
            let key = (kind, name, rival.pid == row.pid);
            let met = self.met.entry(key).or_default();
            met.calls += 1;
            // One is named, several are counted no further.
            if met.pids.len() < 2 {
                met.pids.insert(rival.pid);
            }
        }
    }

    fn add_token(&mut self, time: u64, token: u64) {
        match self.tokens.iter().position(|(_, other)| *other == token) {
            Some(place) if self.tokens[place].0 >= time => return,
            Some(place) => drop(self.tokens.remove(place)),
            None => {}
        }
        let place = self.tokens.partition_point(|(other, _)| *other >= time);
        self.tokens.insert(place, (time, token));
        self.tokens.truncate(TOKENS_MOST);
    }

    fn mean(&self, sum: u64) -> f64 {
        sum as f64 / self.calls.max(1) as f64
    }

    fn group(&self) -> CallGroup {
        CallGroup {
            calls_total: self.calls,
            from_seconds: seconds(self.shortest as f64),
            to_seconds: seconds(self.longest as f64),
            mean_seconds: seconds(self.mean(self.sum.time_ns())),
            open_calls_total: (self.known_later > 0).then_some(self.open),
        }
    }
}

fn seconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e9
}

/// The times that an account is split into: whose, doing what, and nanoseconds.
fn split(account: &Account) -> impl Iterator<Item = (&'static Subsystem, Doing, u64)> {
    let in_kernel = || {
        SUBSYSTEMS.iter().flat_map(|subsystem| {
            let part = account.part(subsystem);
            let runnable = is_run_queue(subsystem).map_or(0, |i| account.fields(subsystem)[i]);
            [(Doing::Busy, part[0]), (Doing::Waiting, part[1]), (Doing::Runnable, runnable)]
                .map(|(doing, time)| (subsystem, doing, time))
        })
    };
    // The parts of a call add up to its time: what is left of an interval is between its calls.
    let left = account.time_ns().saturating_sub(in_kernel().map(|(_, _, time)| time).sum());
    in_kernel().chain([(&PROGRAM, Doing::Busy, left)])
}

/// Where a subsystem keeps the time that threads waited for a CPU.
fn is_run_queue(subsystem: &Subsystem) -> Option<usize> {
    subsystem.fields.iter().position(|field| field.name == RUN_QUEUE)
}

impl Comparison {
    pub(super) fn new(
        slow: SlowRule,
        measured: u64,
        kinds: BTreeMap<KindKey, Thresholds>,
    ) -> Comparison {
        let kinds = kinds.into_iter().map(|(kind, borders)| (kind, (borders, Sides::default())));
        let (slow, kinds) = (Some(slow), kinds.collect());
        Comparison { slow, measured, calls: 0, kinds, asked: Vec::new() }
    }

    pub(super) fn of_asked(measured: u64, asked: Vec<(AskedToken, Thresholds)>) -> Comparison {
        let sides = |(token, borders)| (token, borders, Sides::default());
        let asked = asked.into_iter().map(sides).collect();
        Comparison { slow: None, measured, calls: 0, kinds: BTreeMap::new(), asked }
    }

    /// Takes a call in that the survey has seen.
    pub fn add(&mut self, row: &CallRow) {
        self.calls += 1;
        if !self.asked.is_empty() {
            return self.add_beside_asked(row);
        }
        let Some((borders, sides)) = self.kinds.get_mut(&KindKey::of(row)) else {
            return;
        };
        let belongs = match row.account.time_ns() {
            time if time >= borders.slow => Belongs::Slow,
            time if borders.is_ordinary(time) => Belongs::Ordinary,
            _ => Belongs::Neither,
        };
        sides.add(row, belongs, borders.verdict);
    }

    /// Those that others have asked for are no ordinary ones.
    fn add_beside_asked(&mut self, row: &CallRow) {
        let is_asked_for = self.asked.iter().any(|(asked, ..)| is_of(row, asked));
        for (asked, borders, sides) in &mut self.asked {
            let belongs = match is_of(row, asked) {
                true => Belongs::Slow,
                false if !is_asked_for && borders.is_ordinary(row.account.time_ns()) => {
                    Belongs::Ordinary
                }
                false => Belongs::Neither,
            };
            sides.add(row, belongs, borders.verdict);
        }
    }

    /// What came of it; `missing` is what is not in the rows.
    pub fn report(self, of: Of, followed: FollowedCommand, missing: Missing) -> ExplainReport {
        let mut kinds: Vec<ExplainedKind> = self
            .kinds
            .into_iter()
            .map(|(kind, (borders, sides))| explained(kind, &borders, &sides))
            .collect();
        let lost_time = |kind: &ExplainedKind| match kind.verdict {
            Verdict::Differ => {
                let more = kind.slow.mean_seconds - kind.ordinary.mean_seconds;
                (kind.slow.calls_total as f64 * more * 1e9) as u64
            }
            _ => 0,
        };
        kinds.sort_by_key(|kind| (Reverse(lost_time(kind)), Reverse(kind.calls_total)));
        kinds.extend(self.asked.into_iter().map(explained_asked));
        let unmeasured =
            SUBSYSTEMS.iter().filter(|s| self.calls > 0 && self.measured & s.bit() == 0);
        ExplainReport {
            schema: REPORT.to_string(),
            command: followed.words,
            command_base64: followed.base64,
            of,
            slow: self.slow,
            calls_total: self.calls,
            untold_total: missing.untold,
            lost_total: missing.lost,
            untold_later_total: missing.untold_later,
            merged_later_total: missing.merged_later,
            unknown_later_total: missing.unknown_later,
            unmeasured: unmeasured.map(|s| s.name.to_string()).collect(),
            unavailable: missing.unavailable,
            kinds,
        }
    }
}

/// What was asked for, beside ordinary ones.
fn explained_asked((token, borders, sides): (AskedToken, Thresholds, Sides)) -> ExplainedKind {
    ExplainedKind {
        asked: Some(token),
        // The borders know of the others only.
        calls_total: sides.histogram.values().map(|(calls, _)| calls).sum(),
        slow_from_seconds: None,
        slow_tokens: Vec::new(),
        ..explained(KindKey::interval(), &borders, &sides)
    }
}

fn explained(kind: KindKey, borders: &Thresholds, sides: &Sides) -> ExplainedKind {
    let (slow, ordinary) = (sides.slow.group(), sides.ordinary.group());
    let verdict = match borders.verdict {
        Verdict::Differ if slow.calls_total == 0 => Verdict::NoneSlow,
        Verdict::Differ if slow.mean_seconds < ordinary.mean_seconds * LEAST_RATIO => {
            Verdict::Alike
        }
        verdict => verdict,
    };
    let differ = verdict == Verdict::Differ;
    let more_seconds = slow.mean_seconds - ordinary.mean_seconds;
    let is_known = borders.verdict != Verdict::TooFew;
    ExplainedKind {
        // Of a kind that is a token they would all be the same.
        slow_tokens: match kind.of.is_some() && kind.call == INTERVAL {
            true => Vec::new(),
            false => sides.slow.tokens.iter().map(|(_, token)| *token).collect(),
        },
        call: kind.call,
        of: kind.of,
        of_base64: kind.of_base64,
        asked: None,
        calls_total: borders.calls,
        median_seconds: seconds(borders.median as f64),
        verdict,
        slow_from_seconds: is_known.then(|| seconds(borders.slow as f64)),
        slow,
        ordinary,
        moved: if differ { moved(&sides.slow.did, &sides.ordinary.did) } else { None },
        outcome: if differ { outcome(&sides.slow.did, &sides.ordinary.did) } else { None },
        differences: if differ { differences(sides) } else { Vec::new() },
        counters: match differ {
            true => counters(&sides.slow.counters, &sides.ordinary.counters, more_seconds),
            false => Vec::new(),
        },
        rivals: if differ { rivals(sides) } else { Vec::new() },
        histogram: histogram(sides),
    }
}

fn differences(sides: &Sides) -> Vec<Difference> {
    let (slow, ordinary) = (&sides.slow, &sides.ordinary);
    let pairs = split(&slow.sum).zip(split(&ordinary.sum));
    let mut differences: Vec<Difference> = pairs
        .map(|((subsystem, doing, slower), (_, _, usual))| {
            let (slower, usual) = (slow.mean(slower), ordinary.mean(usual));
            Difference {
                subsystem: subsystem.name.to_string(),
                doing,
                slow_seconds: seconds(slower),
                ordinary_seconds: seconds(usual),
                more_seconds: seconds(slower - usual),
            }
        })
        .filter(|difference| difference.more_seconds != 0.0)
        .collect();
    differences.sort_by(|a, b| b.more_seconds.total_cmp(&a.more_seconds));
    differences
}

fn rivals(sides: &Sides) -> Vec<RivalShare> {
    let share = |met: u64, side: &Side| met as f64 / side.calls.max(1) as f64;
    let mut rivals = Vec::new();
    for (key, met) in &sides.slow.met {
        let ordinary = sides.ordinary.met.get(key).map_or(0, |met| met.calls);
        let often = share(met.calls, &sides.slow);
        if often < LEAST_MET || share(ordinary, &sides.ordinary) > often * MOST_ORDINARY {
            continue;
        }
        rivals.push(RivalShare {
            kind: RIVALS[key.0].name.to_string(),
            name: key.1.0.clone(),
            name_base64: key.1.1.clone(),
            pid: met.pids.first().copied().filter(|_| met.pids.len() == 1),
            is_own: key.2,
            slow_total: met.calls,
            ordinary_total: ordinary,
        });
    }
    rivals.sort_by_key(|rival| Reverse(rival.slow_total));
    rivals
}

fn histogram(sides: &Sides) -> Vec<TimeBucket> {
    let bucket = |(number, (calls, sum)): (&u32, &(u64, Account))| {
        let mut parts: BTreeMap<String, f64> = BTreeMap::new();
        for (subsystem, doing, time) in split(sum).filter(|(_, _, time)| *time > 0) {
            let name = if doing == Doing::Runnable { RUN_QUEUE } else { subsystem.name };
            *parts.entry(name.to_string()).or_default() += seconds(time as f64);
        }
        TimeBucket {
            from_seconds: seconds(Times::first(number * FINE) as f64),
            to_seconds: seconds(Times::first((number + 1) * FINE) as f64),
            calls_total: *calls,
            parts,
        }
    };
    sides.histogram.iter().map(bucket).collect()
}
