//! The page of `weigh explain`: for each kind of calls its sentences, a histogram of its times, and where the
//! time went in each of its bars.
//!
//! The TypeScript side's types are derived from these (see `tests/rendering/generated_types.rs`).

use serde::Serialize;

use weigh_schema::explain::{
    Counter, CounterDifference, ExplainReport, ExplainedKind, Of, PROGRAM, RUN_QUEUE, TimeBucket,
    Verdict, part_named,
};
use weigh_schema::subsystem::SUBSYSTEMS;

use crate::calls::RUNNABLE;
use crate::document::{Bundle, bundle, document};
use crate::explain::counters::{WHOLE, mean};
use crate::explain::sentences;
use crate::explain::sentences::{definitions, warnings};
use crate::explain::words::title;

const BUNDLE: Bundle = bundle!("explain");

/// The most kinds of calls that a page shows.
const KINDS_MOST: usize = 60;

/// Parts with a colour of their own; the others share one.
const COLOURS: usize = 6;

/// All that the page shows.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainPage {
    /// What was followed.
    pub command: String,
    /// What is compared, in the plural: calls, or intervals.
    pub noun: String,
    /// How many there are.
    pub calls: u64,
    /// What is slow, and what is ordinary.
    pub definitions: String,
    /// What may make the rest wrong.
    pub warnings: Vec<String>,
    /// The parts of the kernel that have a colour, then all others together.
    pub parts: Vec<PartTitle>,
    /// The kinds of calls.
    pub kinds: Vec<KindRow>,
    /// Kinds that are left out, for they have too few calls.
    pub left_out: usize,
}

/// A part of the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct PartTitle {
    /// Its name.
    pub name: String,
    /// What belongs to it.
    pub help: String,
}

/// A kind of calls.
#[derive(Clone, Debug, Serialize)]
pub struct KindRow {
    /// The call, and what it is about.
    pub title: String,
    /// How many.
    pub calls: u64,
    /// Whether those that are called slow here were asked for, however long they took.
    pub asked: bool,
    /// Whether slow ones differ from ordinary ones.
    pub differs: bool,
    /// What there is to say.
    pub sentences: Vec<String>,
    /// What differs beside the time, the first what tells slow from ordinary best.
    pub counters: Vec<CounterRow>,
    /// How many are slow, …
    pub slow: u64,
    /// … and how many ordinary.
    pub ordinary: u64,
    /// Slow from so many seconds on.
    pub slow_from: Option<f64>,
    /// The ordinary ones took so many seconds or more, …
    pub ordinary_from: Option<f64>,
    /// … up to so many.
    pub ordinary_to: Option<f64>,
    /// Buckets: from so many seconds on, …
    pub from: Vec<f64>,
    /// … below so many, …
    pub to: Vec<f64>,
    /// … so many calls, …
    pub count: Vec<u64>,
    /// … and of their time the share of each of the parts.
    pub shares: Vec<Vec<f64>>,
}

/// A number beside the time in which slow calls differ from ordinary ones.
#[derive(Clone, Debug, Serialize)]
pub struct CounterRow {
    /// The part of the kernel, or what else it is of.
    pub part: String,
    /// Whether it is of what the calls caused after they had returned.
    pub later: bool,
    /// Its name.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// The mean of the slow ones.
    pub slow: String,
    /// The mean of the ordinary ones.
    pub ordinary: String,
    /// So many of the slow ones had any.
    pub slow_calls: u64,
    /// So many of the ordinary ones had.
    pub ordinary_calls: u64,
}

/// The page as a file.
pub fn render(report: &ExplainReport) -> String {
    let page = page(report);
    let title = match page.command.as_str() {
        "" => "explained · weigh".to_string(),
        command => format!("{command} · explained · weigh"),
    };
    let instead = "This page draws itself with a script. `weigh explain` prints what it says.";
    document(&BUNDLE, &title, instead, env!("CARGO_PKG_VERSION"), &page)
}

/// The data of the page.
pub fn page(report: &ExplainReport) -> ExplainPage {
    let is_shown = |kind: &&ExplainedKind| kind.verdict != Verdict::TooFew || kind.asked.is_some();
    let enough: Vec<&ExplainedKind> = report.kinds.iter().filter(is_shown).collect();
    let shown = &enough[..enough.len().min(KINDS_MOST)];
    let parts = coloured(shown);
    ExplainPage {
        command: report.command.clone(),
        noun: report.of.plural().to_string(),
        calls: report.calls_total,
        definitions: definitions(report),
        warnings: warnings(report),
        kinds: shown.iter().map(|kind| row(kind, &parts, report.of)).collect(),
        left_out: report.kinds.len() - shown.len(),
        parts: parts.iter().map(|name| part(name)).chain([others()]).collect(),
    }
}

/// The parts that took the greatest share of any kind's time, in the order of their declaration.
fn coloured(kinds: &[&ExplainedKind]) -> Vec<&'static str> {
    let names = SUBSYSTEMS.iter().map(|s| s.name).chain([RUN_QUEUE, PROGRAM.name]);
    let mut names: Vec<&str> = names.collect();
    let in_kind = |kind: &ExplainedKind, name: &str| {
        let sum = |of: &dyn Fn(&TimeBucket) -> f64| kind.histogram.iter().map(of).sum::<f64>();
        let all = sum(&|bucket| bucket.parts.values().sum());
        let one = sum(&|bucket| bucket.parts.get(name).copied().unwrap_or(0.0));
        // The slow ones count as much as all together: they are what the page is about.
        let slow = kind.differences.iter().filter(|d| d.subsystem == name);
        let slow: f64 = slow.map(|d| d.more_seconds.max(0.0)).sum();
        one / all.max(f64::MIN_POSITIVE) + slow / kind.slow.mean_seconds.max(f64::MIN_POSITIVE)
    };
    let greatest = |name: &str| kinds.iter().map(|kind| in_kind(kind, name)).fold(0.0, f64::max);
    let order = names.clone();
    names.retain(|name| greatest(name) > 0.0);
    names.sort_by(|a, b| greatest(b).total_cmp(&greatest(a)));
    names.truncate(COLOURS);
    order.into_iter().filter(|name| names.contains(name)).collect()
}

fn part(name: &str) -> PartTitle {
    let subsystem = part_named(name);
    PartTitle {
        name: name.replace('_', " "),
        help: subsystem.map_or(RUNNABLE, |s| s.help).to_string(),
    }
}

fn others() -> PartTitle {
    PartTitle { name: "others".to_string(), help: "all other parts of the kernel".to_string() }
}

fn row(kind: &ExplainedKind, parts: &[&str], of: Of) -> KindRow {
    let buckets = &kind.histogram;
    let ordinary = Some(&kind.ordinary).filter(|group| group.calls_total > 0);
    KindRow {
        title: title(kind),
        calls: kind.calls_total,
        asked: kind.asked.is_some(),
        differs: kind.verdict == Verdict::Differ,
        sentences: sentences(kind, of),
        counters: kind.counters.iter().filter_map(counter).collect(),
        slow: kind.slow.calls_total,
        ordinary: kind.ordinary.calls_total,
        slow_from: kind.slow_from_seconds.filter(|_| kind.slow.calls_total > 0),
        ordinary_from: ordinary.map(|group| group.from_seconds),
        ordinary_to: ordinary.map(|group| group.to_seconds),
        from: buckets.iter().map(|b| b.from_seconds).collect(),
        to: buckets.iter().map(|b| b.to_seconds).collect(),
        count: buckets.iter().map(|b| b.calls_total).collect(),
        shares: buckets.iter().map(|b| shares(b, parts)).collect(),
    }
}

fn counter(difference: &CounterDifference) -> Option<CounterRow> {
    let counter = Counter::of(difference)?;
    Some(CounterRow {
        part: counter.subsystem().unwrap_or(WHOLE).to_string(),
        later: counter.is_later(),
        name: counter.words(),
        help: counter.help().to_string(),
        slow: mean(difference.slow, counter.unit()),
        ordinary: mean(difference.ordinary, counter.unit()),
        slow_calls: difference.slow_calls_total,
        ordinary_calls: difference.ordinary_calls_total,
    })
}

/// The share of each part, and last of all others.
fn shares(bucket: &TimeBucket, parts: &[&str]) -> Vec<f64> {
    let all: f64 = bucket.parts.values().sum();
    let share = |seconds: f64| if all > 0.0 { (seconds / all * 1e4).round() / 1e4 } else { 0.0 };
    let one = |name: &&str| share(bucket.parts.get(*name).copied().unwrap_or(0.0));
    let mut shares: Vec<f64> = parts.iter().map(one).collect();
    let others = bucket.parts.iter().filter(|(name, _)| !parts.contains(&name.as_str()));
    shares.push(share(others.map(|(_, seconds)| seconds).sum()));
    shares
}
