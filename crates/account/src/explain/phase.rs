//! Which resource moves with a phase: what was used and held while a program was in it, beside the rest of the run.
//!
//! Reads phases, then samples in the order of time; emits a row for each series. Invents nothing: rates come from sampling
//! intervals that lie in the phase or outside of it; of one that lies across its border nobody knows where its growth
//! belongs, so that a share of a total has a least and a greatest value.

mod spans;

use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::explain::{PHASE_REPORT, PhaseResource, PhaseUsage, PhaseVerdict, ResourceKind};
use weigh_schema::recording::SampleRow;
use weigh_schema::region::PhaseRow;
use weigh_schema::{METRICS, Metric, MetricKind, Unit, Value};

use spans::Spans;

/// What is known of metrics at the end.
type Values = BTreeMap<String, Value>;

/// A sampling interval is inside from this part of it on, and outside up to the rest.
const INSIDE: f64 = 0.99;
/// From this contrast on a resource moves with the phase: 1.2 times as much.
const MOVES: f64 = 0.1;
/// So few of a thing say nothing.
const FEW: f64 = 10.0;
/// So few bytes say nothing: a page.
const FEW_BYTES: f64 = 4096.0;
/// So small a part of the run's time says nothing.
const FEW_SECONDS: f64 = 0.001;
/// CPUs busy follow from the growth of CPU time.
const REPEATED: &str = "cpu_cores";

/// The phases of one name, of all threads.
#[derive(Debug, Default)]
pub struct PhaseTimes {
    spans: Vec<(i64, i64)>,
    threads: BTreeSet<(u32, u32)>,
    shortest_ns: Option<i64>,
    longest_ns: i64,
}

impl PhaseTimes {
    /// Takes a phase in.
    pub fn add(&mut self, row: &PhaseRow) {
        let ended_ns = row.ended_ns.max(row.started_ns);
        let length = ended_ns.saturating_sub(row.started_ns);
        self.spans.push((row.started_ns, ended_ns));
        self.threads.insert((row.process, row.thread));
        self.shortest_ns = Some(self.shortest_ns.unwrap_or(length).min(length));
        self.longest_ns = self.longest_ns.max(length);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

/// Takes samples, and finds what moves with a phase.
pub struct PhaseSurvey {
    times: PhaseTimes,
    spans: Spans,
    start_ns: i64,
    end_ns: i64,
    series: BTreeMap<String, SeriesUse>,
    /// The shortest and longest sampling interval of rates.
    interval_ns: Option<(i64, i64)>,
}

/// One series.
#[derive(Debug)]
struct SeriesUse {
    at_ns: i64,
    value: f64,
    inside: Part,
    outside: Part,
    /// Growth in intervals that lie wholly in the phase, that touch it, and their share by time.
    at_least: f64,
    at_most: f64,
    estimate: f64,
    total: f64,
}

/// The intervals on one side.
#[derive(Debug, Default)]
struct Part {
    seconds: f64,
    growth: f64,
    /// Level times seconds, and the greatest.
    held: f64,
    held_seconds: f64,
    max: Option<f64>,
}

impl PhaseSurvey {
    /// Of a job that began then: nanoseconds since the Unix epoch.
    pub fn new(mut times: PhaseTimes, start_ns: i64) -> PhaseSurvey {
        let spans = Spans::new(std::mem::take(&mut times.spans));
        times.spans = Vec::new();
        PhaseSurvey {
            times,
            spans,
            start_ns,
            end_ns: start_ns,
            series: BTreeMap::new(),
            interval_ns: None,
        }
    }

    /// Takes a sample in, if it is of the whole job. Those of a series come in the order of time.
    pub fn sample(&mut self, row: &SampleRow) {
        if row.scope != "job" || !row.value.is_finite() || row.metric == REPEATED {
            return;
        }
        self.end_ns = self.end_ns.max(row.time_ns);
        let new = || SeriesUse::new(self.start_ns);
        let series = self.series.entry(row.metric.clone()).or_insert_with(new);
        let length = series.sample(&self.spans, row.time_ns, row.value);
        if let Some(length) = length.filter(|_| is_rate(&row.metric)) {
            let (least, most) = self.interval_ns.unwrap_or((length, length));
            self.interval_ns = Some((least.min(length), most.max(length)));
        }
    }

    /// The report. Texts are those that people see.
    pub fn report(self, values: &Values, command: String, phase: String) -> PhaseUsage {
        let seconds = |ns: i64| ns as f64 / 1e9;
        let run_seconds = seconds(self.end_ns.saturating_sub(self.start_ns));
        let reason = self.reason();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let of_series = METRICS.iter().filter_map(|metric| {
            let name = metric.series.filter(|name| seen.insert(name))?;
            let series = self.series.get(name)?;
            Some(series.resource(metric, name, values, run_seconds, &reason))
        });
        let mut resources: Vec<PhaseResource> = of_series.flatten().collect();
        resources.sort_by_key(order);
        let (least, most) = self.interval_ns.unwrap_or((0, 0));
        PhaseUsage {
            schema: PHASE_REPORT.to_string(),
            command,
            phase,
            phases_total: self.spans.phases(),
            threads_total: self.times.threads.len() as u64,
            shortest_seconds: seconds(self.times.shortest_ns.unwrap_or(0)),
            longest_seconds: seconds(self.times.longest_ns),
            inside_seconds: seconds(self.spans.within(self.start_ns, self.end_ns)),
            run_seconds,
            interval_seconds: [seconds(least), seconds(most)],
            resources,
        }
    }

    fn reason(&self) -> Reasons {
        let ms = |ns: i64| weigh_schema::amount::show_seconds(ns as f64 / 1e9);
        let (least, most) = self.interval_ns.unwrap_or((0, 0));
        let interval =
            if least == most { ms(least) } else { format!("{} to {}", ms(least), ms(most)) };
        Reasons {
            inside: format!(
                "no sampling interval ({interval}) lies inside the phase, which took {} at most",
                ms(self.times.longest_ns)
            ),
            outside: format!("no sampling interval ({interval}) lies outside of the phase"),
            level_inside: format!(
                "no sample was taken inside the phase, which took {} at most",
                ms(self.times.longest_ns)
            ),
            level_outside: "no sample was taken outside of the phase".to_string(),
        }
    }
}

struct Reasons {
    inside: String,
    outside: String,
    level_inside: String,
    level_outside: String,
}

impl SeriesUse {
    /// What is used up begins with nothing at the job's start.
    fn new(start_ns: i64) -> SeriesUse {
        SeriesUse {
            at_ns: start_ns,
            value: 0.0,
            inside: Part::default(),
            outside: Part::default(),
            at_least: 0.0,
            at_most: 0.0,
            estimate: 0.0,
            total: 0.0,
        }
    }

    /// Takes a sample in; how long the interval before it was.
    fn sample(&mut self, spans: &Spans, at_ns: i64, value: f64) -> Option<i64> {
        let length = at_ns.checked_sub(self.at_ns).filter(|length| *length > 0)?;
        let growth = (value - self.value).max(0.0);
        let overlap = spans.within(self.at_ns, at_ns);
        let part = overlap as f64 / length as f64;
        let seconds = length as f64 / 1e9;
        match part {
            part if part >= INSIDE => self.inside.add(seconds, growth),
            part if part <= 1.0 - INSIDE => self.outside.add(seconds, growth),
            _ => {}
        }
        let side = if spans.contains(at_ns) { &mut self.inside } else { &mut self.outside };
        side.hold(seconds, value);
        self.total += growth;
        self.estimate += growth * part;
        self.at_most += if overlap > 0 { growth } else { 0.0 };
        self.at_least += if overlap == length { growth } else { 0.0 };
        (self.at_ns, self.value) = (at_ns, value);
        Some(length)
    }

    /// None of what was nothing all the time.
    fn resource(
        &self,
        metric: &Metric,
        series: &str,
        values: &Values,
        run_seconds: f64,
        reasons: &Reasons,
    ) -> Option<PhaseResource> {
        let is_rate = metric.kind == MetricKind::Counter;
        let greatest =
            [self.inside.max, self.outside.max].into_iter().flatten().fold(0.0, f64::max);
        if greatest == 0.0 || (is_rate && self.total == 0.0) {
            return None;
        }
        let (inside, outside) = match is_rate {
            true => (self.inside.rate(), self.outside.rate()),
            false => (self.inside.level(), self.outside.level()),
        };
        let contrast = inside.zip(outside).map(|(inside, outside)| contrast(inside, outside));
        let is_little = is_rate && is_little(self.total, metric.unit, run_seconds);
        let missing = match (inside, outside, is_rate) {
            (None, _, true) => Some(&reasons.inside),
            (None, _, false) => Some(&reasons.level_inside),
            (_, None, true) => Some(&reasons.outside),
            (_, None, false) => Some(&reasons.level_outside),
            _ => None,
        };
        let of_total = |amount: f64| is_rate.then_some(amount);
        let of_level = |amount: Option<f64>| amount.filter(|_| !is_rate);
        let value = values.get(metric.name);
        Some(PhaseResource {
            metric: metric.name.to_string(),
            series: series.to_string(),
            help: metric.help.to_string(),
            unit: metric.unit,
            kind: if is_rate { ResourceKind::Rate } else { ResourceKind::Level },
            verdict: verdict(contrast, is_little),
            inside,
            outside,
            difference: inside.zip(outside).map(|(inside, outside)| inside - outside),
            contrast,
            total: of_total(self.total),
            inside_at_least: of_total(self.at_least),
            inside_at_most: of_total(self.at_most),
            inside_estimate: of_total(self.estimate),
            inside_max: of_level(self.inside.max),
            outside_max: of_level(self.outside.max),
            reason: missing.cloned(),
            quality: value.map(|value| value.quality).unwrap_or_default(),
            quality_reason: value.and_then(|value| value.reason.clone()),
        })
    }
}

impl Part {
    fn add(&mut self, seconds: f64, growth: f64) {
        self.seconds += seconds;
        self.growth += growth;
    }

    fn hold(&mut self, seconds: f64, value: f64) {
        self.held += seconds * value;
        self.held_seconds += seconds;
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }

    fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.growth / self.seconds)
    }

    fn level(&self) -> Option<f64> {
        (self.held_seconds > 0.0).then(|| self.held / self.held_seconds)
    }
}

/// Whether a series is of what is used up.
fn is_rate(series: &str) -> bool {
    let is_it = |metric: &&Metric| metric.series == Some(series);
    METRICS.iter().find(is_it).is_some_and(|metric| metric.kind == MetricKind::Counter)
}

/// The difference by the sum.
fn contrast(inside: f64, outside: f64) -> f64 {
    let sum = inside.abs() + outside.abs();
    if sum > 0.0 { (inside - outside) / sum } else { 0.0 }
}

fn is_little(total: f64, unit: Unit, run_seconds: f64) -> bool {
    match unit {
        Unit::Bytes => total < FEW_BYTES,
        Unit::Seconds => total < FEW_SECONDS * run_seconds,
        Unit::Count => total < FEW,
        // Levels, and what no job has.
        Unit::Cores | Unit::Ratio | Unit::Threads | Unit::Celsius | Unit::Watts | Unit::Joules => {
            false
        }
    }
}

fn verdict(contrast: Option<f64>, is_little: bool) -> PhaseVerdict {
    match contrast {
        None => PhaseVerdict::Unknown,
        Some(_) if is_little => PhaseVerdict::Little,
        Some(contrast) if contrast >= MOVES => PhaseVerdict::More,
        Some(contrast) if contrast <= -MOVES => PhaseVerdict::Less,
        Some(_) => PhaseVerdict::Alike,
    }
}

/// What moves most comes first; of what moves alike, in the order of metrics.
fn order(resource: &PhaseResource) -> (u8, i64) {
    let rank = match resource.verdict {
        PhaseVerdict::More | PhaseVerdict::Less => 0,
        PhaseVerdict::Alike => 1,
        PhaseVerdict::Little => 2,
        PhaseVerdict::Unknown => 3,
    };
    let contrast = resource.contrast.unwrap_or(0.0).abs();
    (rank, -((contrast * 100.0).round() as i64))
}

#[cfg(test)]
mod tests;
