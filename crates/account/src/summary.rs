//! The summary's values: every metric of the schema, each with its source and quality.

use std::collections::BTreeMap;

use weigh_schema::event::{CertainMemory, JobReading, MemoryParts, Note, SharedMemoryReading};
use weigh_schema::metric_name;
use weigh_schema::quality::{Mechanism, Quality, Value};
use weigh_schema::{Counter, CounterValues, Formula, METRICS, Metric, Number};

use crate::memory::{estimate_peak, parts_of_peak};

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
    let value = Value::exact(metric.unit, written as f64, measured.source);
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
mod tests {
    use super::*;

    #[test]
    fn a_wait_from_the_start_of_the_machine_is_no_value() {
        let mut reading = JobReading::default();
        reading.population.threads_peak = 3;
        let value = |waited_ns: u64, reading: &mut JobReading| {
            reading.counters.set(Counter::BlockDelay, waited_ns);
            metrics(&measured(reading, &[]))[metric_name::delay_block_seconds].clone()
        };
        let possible = value(5_000_000_000, &mut reading);
        assert_eq!((possible.value, possible.quality), (Some(Number::Real(5.0)), Quality::Exact));
        let impossible = value(82_902_000_000_000, &mut reading);
        assert_eq!((impossible.value, impossible.quality), (None, Quality::Unavailable));
        assert!(impossible.reason.is_some_and(|why| why.contains("from the start of the machine")));
    }

    fn measured<'a>(reading: &'a JobReading, notes: &'a [Note]) -> Measured<'a> {
        Measured {
            wall_seconds: 2.0,
            reading,
            source: Mechanism::Bpf,
            looks: &[],
            cores_peak: None,
            given: BTreeMap::new(),
            notes,
        }
    }

    /// Of a real number the last digit would be another.
    #[test]
    fn sums_are_told_to_the_last_digit() {
        let mut reading = JobReading::default();
        let odd = (1 << 60) + 1;
        reading.counters.set(Counter::ReadChars, odd);
        let read = &metrics(&measured(&reading, &[]))[metric_name::io_read_bytes_total];
        assert_eq!((read.value, read.quality), (Some(Number::Whole(odd)), Quality::Exact));
    }

    #[test]
    fn every_metric_has_a_value_or_a_reason() {
        let reading = JobReading::default();
        let metrics = metrics(&measured(&reading, &[]));
        assert_eq!(metrics.len(), METRICS.len());
        for (name, value) in metrics {
            assert_eq!(value.value.is_none(), value.quality == Quality::Unavailable, "{name}");
            assert!(value.value.is_some() || value.reason.is_some(), "{name}");
        }
    }

    #[test]
    fn huge_pages_that_are_left_out_are_named() {
        let mut reading = JobReading::default();
        reading.memory.rss_sum_peak = 1000;
        reading.memory.floor_peak = 1000;
        let parts = MemoryParts { anonymous: 700, unshared: 700, shared: 100, file: 200 };
        reading.memory.parts_at_peak = Some(parts);
        let before = metrics(&measured(&reading, &[]));
        assert_eq!(before["memory_peak_bytes"].quality, Quality::Exact);
        for (name, bytes) in [("anonymous", 700), ("shared", 100), ("file", 200)] {
            let value = &before[&format!("memory_peak_{name}_bytes")];
            assert_eq!((value.value, value.quality), (Some(Number::Whole(bytes)), Quality::Exact));
        }
        reading.memory.hugetlb_peak = 2 << 20;
        let after = metrics(&measured(&reading, &[]));
        let peak = &after["memory_peak_bytes"];
        assert_eq!((peak.value, peak.quality), (Some(Number::Whole(1000)), Quality::Estimated));
        assert!(peak.reason.as_deref().is_some_and(|why| why.contains("2097152")));
        assert_eq!(after["memory_peak_hugetlb_bytes"].value, Some(Number::Whole(2 << 20)));
    }

    #[test]
    fn sums_add_and_take_away() {
        let mut reading = JobReading::default();
        reading.counters.set(Counter::ReadChars, 1_000_003);
        reading.counters.set(Counter::SocketReadChars, 20);
        let metrics = metrics(&measured(&reading, &[]));
        assert_eq!(metrics["io_read_bytes_total"].value, Some(Number::Whole(1_000_023)));
    }

    #[test]
    fn what_is_thrown_away_unwritten_may_be_another_programs() {
        let mut reading = JobReading::default();
        let name = "storage_written_bytes_total";
        reading.counters.set(Counter::StorageWritten, 8192);
        let value = &metrics(&measured(&reading, &[]))[name];
        assert_eq!((value.value, value.quality), (Some(Number::Whole(8192)), Quality::Exact));
        // All that was there before the job was thrown away.
        reading.counters.set(Counter::StorageCancelled, 40_960);
        let value = &metrics(&measured(&reading, &[]))[name];
        assert_eq!((value.value, value.quality), (Some(Number::Whole(8192)), Quality::Estimated));
        let reason = value.reason.as_deref().unwrap();
        assert!(reason.contains("between 0 and 8192"), "{reason}");
        reading.counters.set(Counter::StorageWritten, 0);
        let value = &metrics(&measured(&reading, &[]))[name];
        assert_eq!((value.value, value.quality), (Some(Number::Whole(0)), Quality::Exact));
    }

    #[test]
    fn the_split_adds_up_to_the_exact_total() {
        let mut reading = JobReading::default();
        reading.counters.set(Counter::Runtime, 3_000_000_000);
        reading.counters.set(Counter::UserTicks, 8_000_000);
        reading.counters.set(Counter::SystemTicks, 4_000_000);
        let (user, system) = cpu_split(&reading.counters);
        assert!((user - 2.0).abs() < 1e-9 && (system - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_note_can_take_a_value_away_or_qualify_it() {
        let reading = JobReading::default();
        let note = |quality| Note::new("net_sent_bytes_total", quality, "no tracepoint");
        let notes = [note(Quality::Unavailable)];
        let value = &metrics(&measured(&reading, &notes))["net_sent_bytes_total"];
        assert_eq!((value.value, value.quality), (None, Quality::Unavailable));
        let notes = [note(Quality::Estimated)];
        let value = &metrics(&measured(&reading, &notes))["net_sent_bytes_total"];
        assert_eq!(value.quality, Quality::Estimated);
        assert_eq!(value.reason.as_deref(), Some("no tracepoint"));
    }
}
