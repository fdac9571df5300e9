//! The summary's values: every metric of the schema, each with its source and quality.
//!
//! The peak of memory counts what processes share once: bounds from the kernel side, narrowed by looks at the pages.

use std::collections::BTreeMap;

use weigh_schema::event::{
    CertainMemory, JobReading, MemoryParts, MemoryReading, Note, SharedMemoryReading,
};
use weigh_schema::{
    Counter, CounterValues, Formula, METRICS, Mechanism, Metric, Number, Quality, Unit, Value,
    metric_name,
};

/// How near the sum at a look must be to the greatest sum for the look to stand for the peak.
const LOOK_AT_PEAK_WITHIN: f64 = 0.03;

/// All that was measured.
pub struct Measured<'a> {
    /// The time from start to end.
    pub wall_seconds: f64,
    /// The last reading.
    pub reading: &'a JobReading,
    /// How it was got.
    pub source: Mechanism,
    /// Looks at shared pages.
    pub looks: &'a [SharedMemoryReading],
    /// The greatest rate between two readings.
    pub cores_peak: Option<f64>,
    /// Values that collectors give directly.
    pub given: BTreeMap<String, Value>,
    /// What collectors have to say about values.
    pub notes: &'a [Note],
}

/// A sum of counters in the metric's unit; none if the metric is not such a sum.
pub(crate) fn sum_of(metric: &Metric, counters: &CounterValues) -> Option<f64> {
    let (sum, factor) = raw_sum(metric, counters)?;
    Some(sum as f64 * factor)
}

/// The same as it is told, to the last digit: a real number has no more than 53 bits.
pub(crate) fn number_of_sum(metric: &Metric, counters: &CounterValues) -> Option<Number> {
    let (sum, factor) = raw_sum(metric, counters)?;
    Some(match factor == 1.0 && metric.unit.is_whole() {
        true => Number::Whole(sum),
        false => metric.unit.number(sum as f64 * factor),
    })
}

fn raw_sum(metric: &Metric, counters: &CounterValues) -> Option<(u64, f64)> {
    let Formula::Sum { plus, minus, factor } = metric.formula else { return None };
    let add = |list: &[Counter]| list.iter().map(|c| counters.get(*c)).fold(0, u64::wrapping_add);
    Some((add(plus).saturating_sub(add(minus)), factor))
}

/// User and system time: the exact total, split as the ticks fell, as getrusage(2) does.
pub(crate) fn cpu_split(counters: &CounterValues) -> (f64, f64) {
    let total = counters.get(Counter::Runtime) as f64 * 1e-9;
    let user = counters.get(Counter::UserTicks) as f64;
    let system = counters.get(Counter::SystemTicks) as f64;
    if user + system == 0.0 {
        return (total, 0.0);
    }
    let user_part = user / (user + system);
    (total * user_part, total * (1.0 - user_part))
}

/// The present value of a metric as far as one reading tells: for limits.
pub fn job_value(metric: &Metric, reading: &JobReading, wall_seconds: f64) -> Option<f64> {
    let (user, system) = cpu_split(&reading.counters);
    let memory = &reading.memory;
    let certain = |value: u64, part: fn(&CertainMemory) -> u64| {
        Some(memory.certain.as_ref().map_or(value, part) as f64)
    };
    match metric.name {
        metric_name::wall_seconds => Some(wall_seconds),
        metric_name::cpu_user_seconds => Some(user),
        metric_name::cpu_system_seconds => Some(system),
        metric_name::cpu_cores_average => {
            (wall_seconds > 0.0).then(|| (user + system) / wall_seconds)
        }
        metric_name::memory_peak_bytes => Some(memory.floor_peak as f64),
        metric_name::memory_peak_rss_sum_bytes => certain(memory.rss_sum_peak, |c| c.rss_sum_peak),
        metric_name::memory_peak_process_rss_bytes => Some(memory.process_peak as f64),
        metric_name::memory_peak_virtual_bytes => certain(memory.virtual_peak, |c| c.virtual_peak),
        metric_name::memory_peak_swap_bytes => certain(memory.swap_peak, |c| c.swap_peak),
        metric_name::memory_peak_hugetlb_bytes => certain(memory.hugetlb_peak, |c| c.hugetlb_peak),
        metric_name::oom_kills_total => Some(reading.counters.get(Counter::OomKills) as f64),
        metric_name::processes_total => Some(reading.population.processes_total as f64),
        metric_name::processes_peak => Some(reading.population.processes_peak as f64),
        metric_name::threads_peak => Some(reading.population.threads_peak as f64),
        metric_name::delay_block_seconds => sum_of(metric, &reading.counters)
            .filter(|waited| *waited <= longest_wait(reading, wall_seconds)),
        _ => sum_of(metric, &reading.counters),
    }
}

/// More than all threads can have waited together, with room for what was not seen of them.
fn longest_wait(reading: &JobReading, wall_seconds: f64) -> f64 {
    1.0 + 2.0 * wall_seconds * reading.population.threads_peak.max(1) as f64
}

/// Seen on Linux 6.18: four waits of a build, each as long as the machine was up.
const IMPOSSIBLE_WAIT: &str = "the kernel says more than all threads can have waited: it counts some waits from the start of \
                               the machine";

/// Every metric of the schema with its value, or why it has none.
pub fn metrics(measured: &Measured<'_>) -> BTreeMap<String, Value> {
    METRICS
        .iter()
        .map(|metric| {
            let value = match measured.given.get(metric.name) {
                Some(given) => given.clone(),
                None => noted(metric, own_value(metric, measured), measured.notes),
            };
            (metric.name.to_string(), value)
        })
        .collect()
}

fn own_value(metric: &Metric, measured: &Measured<'_>) -> Value {
    let exact = |value: f64, source| Value::exact(metric.unit, value, source);
    if let Formula::NotMeasured(why) = metric.formula {
        return Value::unavailable(metric.unit, why);
    }
    match metric.name {
        metric_name::wall_seconds => exact(measured.wall_seconds, Mechanism::Clock),
        metric_name::memory_peak_bytes => whole_peak(measured),
        metric_name::memory_peak_anonymous_bytes => part(metric, measured, |parts| parts.anonymous),
        metric_name::memory_peak_shared_bytes => part(metric, measured, |parts| parts.shared),
        metric_name::memory_peak_file_bytes => part(metric, measured, |parts| parts.file),
        metric_name::memory_peak_hugetlb_bytes => qualified(
            metric,
            measured,
            Quality::Sampled,
            match measured.source {
                Mechanism::Bpf => "looked at when a resident size changed, at samples, at each end",
                _ => "looked at in /proc now and then",
            },
        ),
        metric_name::storage_written_bytes_total => written_to_storage(metric, measured),
        metric_name::oom_kills_total if measured.source != Mechanism::Bpf => {
            Value::unavailable(metric.unit, "without BPF it is told at the end of the job")
        }
        metric_name::memory_peak_virtual_bytes if measured.source == Mechanism::Bpf => qualified(
            metric,
            measured,
            Quality::Sampled,
            "looked at whenever a resident size changed",
        ),
        metric_name::cpu_user_seconds | metric_name::cpu_system_seconds => qualified(
            metric,
            measured,
            Quality::Sampled,
            "the exact total, split by what each timer tick met",
        ),
        metric_name::cpu_cores_peak => match measured.cores_peak {
            Some(cores) => exact(cores, measured.source)
                .qualified(Quality::Sampled, "the greatest average over 1 s, or --interval"),
            None => Value::unavailable(metric.unit, "the job ended before there were two samples"),
        },
        _ => match job_value(metric, measured.reading, measured.wall_seconds) {
            Some(value) => {
                let value = exact(value, measured.source);
                let sum = number_of_sum(metric, &measured.reading.counters);
                Value { value: sum.or(value.value), ..value }
            }
            None if metric.name == metric_name::delay_block_seconds => {
                Value::unavailable(metric.unit, IMPOSSIBLE_WAIT)
            }
            None => Value::unavailable(metric.unit, "no collector for it was active"),
        },
    }
}

/// The peak; huge pages of hugetlbfs, which are in no resident size, make it inexact.
fn whole_peak(measured: &Measured<'_>) -> Value {
    let memory = &measured.reading.memory;
    let mut peak = estimate_peak(memory, measured.looks, measured.source);
    if memory.hugetlb_peak > 0 {
        let without = format!(
            "without huge pages of hugetlbfs, of which up to {} bytes were held",
            memory.hugetlb_peak
        );
        peak.reason = Some(peak.reason.map_or(without.clone(), |why| format!("{why}; {without}")));
        peak.quality = match peak.quality {
            Quality::Exact => Quality::Estimated,
            other => other,
        };
    }
    peak
}

/// The peak that follows from the bounds and the looks.
fn estimate_peak(
    memory: &MemoryReading,
    looks: &[SharedMemoryReading],
    source: Mechanism,
) -> Value {
    let upper = memory.rss_sum_peak as f64;
    let certain = |look: &SharedMemoryReading| look.certain_bytes.unwrap_or(look.union_bytes);
    let seen = looks.iter().map(certain).max().unwrap_or(0) as f64;
    let lower = (memory.floor_peak as f64).max(seen).min(upper);
    if upper - lower <= upper * Quality::EXACT_WITHIN {
        return Value::exact(Unit::Bytes, upper, source);
    }
    let likely = memory.likely_peak as f64;
    let bounds = format!("between {lower} and {upper} bytes, by the kernel's counters");
    let qualified = |bytes: f64, quality, why: String| {
        let value = Value::exact(Unit::Bytes, bytes.clamp(lower, upper), source);
        value.qualified(quality, format!("{why}; {bounds}"))
    };
    let estimated = |bytes, why: String| qualified(bytes, Quality::Estimated, why);
    match (surplus_at_peak(upper, looks), part_seen(memory, looks)) {
        (Some(surplus), _) if looks.iter().any(|look| look.certain_bytes.is_some()) => estimated(
            upper - surplus,
            "this system lets no address spaces be compared: processes that share one may count once each"
                .to_owned(),
        ),
        (Some(surplus), _) => qualified(
            upper - surplus,
            Quality::Sampled,
            format!("pages are shared; looked at {} times, also at the peak", looks.len()),
        ),
        (None, Some(part)) if upper * part < likely => estimated(
            upper * part,
            format!(
                "pages are shared; the part seen at a lower sum ({part:.3}) was taken for the peak"
            ),
        ),
        (None, _) => estimated(
            likely,
            "pages may be shared, and were not looked at near the peak: what forks have inherited \
             is counted once"
                .to_owned(),
        ),
    }
}

/// Of what a peak of so many bytes was made, from the sums of resident sizes at that moment. Where the sum is greater,
/// what was counted more than once is taken from what can be shared: first what forks have inherited, then mapped pages.
fn parts_of_peak(parts: &MemoryParts, peak_bytes: f64) -> MemoryParts {
    let MemoryParts { anonymous, unshared, shared, file } = *parts;
    let surplus = (anonymous + shared + file).saturating_sub(peak_bytes as u64);
    let of_inherited = surplus.min(anonymous.saturating_sub(unshared));
    let mapped = shared + file;
    let of_mapped = (surplus - of_inherited).min(mapped);
    let of_shared = (u128::from(of_mapped) * u128::from(shared) / u128::from(mapped.max(1))) as u64;
    MemoryParts {
        anonymous: anonymous - of_inherited,
        unshared,
        shared: shared - of_shared,
        file: file - (of_mapped - of_shared),
    }
}

/// What was counted more than once, seen where the sum was near its greatest.
fn surplus_at_peak(upper: f64, looks: &[SharedMemoryReading]) -> Option<f64> {
    let best = looks.iter().max_by_key(|look| look.rss_sum_bytes)?;
    let is_at_peak = best.rss_sum_bytes as f64 >= upper * (1.0 - LOOK_AT_PEAK_WITHIN);
    is_at_peak.then(|| best.rss_sum_bytes.saturating_sub(best.union_bytes) as f64)
}

/// The part of the sum that is not counted more than once, seen at a lower sum. A look at fewer address spaces than
/// there were at the peak says nothing of what these had in common.
fn part_seen(memory: &MemoryReading, looks: &[SharedMemoryReading]) -> Option<f64> {
    let spaces = memory.spaces_at_peak.max(2);
    let telling = looks.iter().filter(|look| look.spaces >= spaces && look.rss_sum_bytes > 0);
    let best = telling.max_by_key(|look| look.rss_sum_bytes)?;
    Some((best.union_bytes as f64 / best.rss_sum_bytes as f64).min(1.0))
}

/// A part of the peak.
fn part(metric: &Metric, measured: &Measured<'_>, of: fn(&MemoryParts) -> u64) -> Value {
    let memory = &measured.reading.memory;
    let Some(parts) = memory.parts_at_peak.filter(|_| memory.rss_sum_peak > 0) else {
        return Value::unavailable(metric.unit, "no look at /proc found memory");
    };
    let peak = estimate_peak(memory, measured.looks, measured.source);
    let (quality, reason) = match (measured.source, peak.quality) {
        (Mechanism::Bpf, Quality::Exact) => (Quality::Exact, None),
        (Mechanism::Bpf, _) => (
            Quality::Estimated,
            Some("what was counted more than once is taken from what can be shared".to_owned()),
        ),
        _ => {
            let sum = parts.anonymous + parts.shared + parts.file;
            let reason = format!("as it was at the look that found the greatest sum, {sum} bytes");
            (Quality::Sampled, Some(reason))
        }
    };
    let bytes = of(&parts_of_peak(&parts, peak.number().unwrap_or_default())) as f64;
    Value { quality, reason, ..Value::exact(metric.unit, bytes, measured.source) }
}

/// What was thrown away before it was written may be the job's, or what others had made dirty before: the
/// kernel charges it to who deletes.
fn written_to_storage(metric: &Metric, measured: &Measured<'_>) -> Value {
    let counters = &measured.reading.counters;
    let written = counters.get(Counter::StorageWritten);
    let cancelled = counters.get(Counter::StorageCancelled);
    let reason = format!(
        "made dirty by the job; of dirty pages it threw away {cancelled} bytes before they were written, its own or \
         others', so between {} and {written} reach storage (--written follows each page)",
        written.saturating_sub(cancelled)
    );
    let value = Value::whole(metric.unit, written, measured.source);
    match cancelled > 0 && written > 0 {
        true => value.qualified(Quality::Estimated, reason),
        false => value,
    }
}

fn qualified(metric: &Metric, measured: &Measured<'_>, quality: Quality, reason: &str) -> Value {
    let value = job_value(metric, measured.reading, measured.wall_seconds);
    Value {
        value: value.map(|v| metric.unit.number(v)),
        unit: metric.unit,
        source: measured.source,
        quality: if value.is_some() { quality } else { Quality::Unavailable },
        reason: Some(reason.to_string()),
    }
}

fn noted(metric: &Metric, mut value: Value, notes: &[Note]) -> Value {
    for note in notes.iter().filter(|note| note.metric == metric.name) {
        if note.quality == Quality::Unavailable {
            return Value::unavailable(metric.unit, note.reason.clone());
        }
        if value.quality == Quality::Exact {
            value.quality = note.quality;
        }
        value.source = note.source.unwrap_or(value.source);
        if note.reason.is_empty() {
            continue;
        }
        value.reason = Some(match value.reason.take() {
            Some(before) => format!("{before}; {}", note.reason),
            None => note.reason.clone(),
        });
    }
    value
}

#[cfg(test)]
mod tests;
