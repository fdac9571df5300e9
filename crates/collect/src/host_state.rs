//! What the machine is doing at one moment: load, memory, uptime.
//!
//! Reads `/proc/loadavg`, `/proc/meminfo` and CLOCK_BOOTTIME; emits a value for each of [`HOST_METRICS`]. What cannot be
//! read is unavailable, and says why.

use std::collections::BTreeMap;

use weigh_parse::node::{LoadAverages, each_pair, load_averages};
use weigh_schema::node_metric::*;
use weigh_schema::{Mechanism, Metric, Number, Quality, Value};

use crate::clock::Moment;
use crate::procfs;

/// How the machine is now, by the names of [`HOST_METRICS`].
pub fn host_state() -> BTreeMap<String, Value> {
    let read = |path| procfs::read(path).map_err(|error| error.to_string());
    of_texts(read("/proc/loadavg"), read("/proc/meminfo"), Moment::now().ns())
}

/// A file's text, or why there is none.
type Text = Result<Vec<u8>, String>;

fn of_texts(load: Text, memory: Text, uptime_ns: u64) -> BTreeMap<String, Value> {
    let load = load.and_then(|text| {
        load_averages(&text).ok_or_else(|| "/proc/loadavg holds no load".to_string())
    });
    let memory = memory.as_deref().map(lines_of);
    let value = |metric: &&Metric| {
        let found = match metric.name {
            name if name == node_uptime_seconds.name => Ok(Number::Real(uptime_ns as f64 / 1e9)),
            name => match (of_load(name, &load), &memory) {
                (Some(found), _) => found,
                (None, Ok(lines)) => of_memory(name, lines),
                (None, Err(why)) => Err((*why).clone()),
            },
        };
        (metric.name.to_string(), with_quality(metric, found))
    };
    HOST_METRICS.iter().map(value).collect()
}

/// The value of a metric that `/proc/loadavg` has.
fn of_load(name: &str, load: &Result<LoadAverages, String>) -> Option<Result<Number, String>> {
    let averages = [&node_load_1m_threads, &node_load_5m_threads, &node_load_15m_threads];
    let average = averages.iter().position(|metric| metric.name == name);
    let is_running = name == node_threads_running.name;
    if average.is_none() && !is_running && name != node_threads.name {
        return None;
    }
    Some(load.as_ref().map_err(Clone::clone).map(|load| match average {
        Some(at) => Number::Real(load.averages[at]),
        None => Number::Whole(if is_running { load.running } else { load.threads }),
    }))
}

/// The lines of `/proc/meminfo`, in bytes.
fn lines_of(text: &[u8]) -> BTreeMap<&[u8], u64> {
    let mut lines = BTreeMap::new();
    each_pair(
        text,
        |_| true,
        |_, name, kilobytes| {
            lines.extend(kilobytes.checked_mul(1024).map(|bytes| (name, bytes)));
        },
    );
    lines
}

/// The value of a metric that `/proc/meminfo` has.
fn of_memory(name: &str, lines: &BTreeMap<&[u8], u64>) -> Result<Number, String> {
    let line = |key: &[u8]| {
        let found = lines.get(key).copied();
        found.ok_or_else(|| format!("/proc/meminfo holds no {}", String::from_utf8_lossy(key)))
    };
    let bytes = match name {
        name if name == node_memory_used_bytes.name => {
            let (total, available) = (line(b"MemTotal")?, line(b"MemAvailable")?);
            total.checked_sub(available).ok_or("more memory is available than there is")?
        }
        name if name == node_memory_total_bytes.name => line(b"MemTotal")?,
        name if name == node_memory_free_bytes.name => line(b"MemFree")?,
        name if name == node_memory_available_bytes.name => line(b"MemAvailable")?,
        name if name == node_swap_total_bytes.name => line(b"SwapTotal")?,
        name if name == node_swap_free_bytes.name => line(b"SwapFree")?,
        name => return Err(format!("nothing here reads {name}")),
    };
    Ok(Number::Whole(bytes))
}

/// How far each can be trusted: see `counts` of its declaration.
fn with_quality(metric: &Metric, found: Result<Number, String>) -> Value {
    let value = match found {
        Ok(value) => value,
        Err(why) => return Value::unavailable(metric.unit, why),
    };
    let (quality, reason) = match metric.name {
        name if name.starts_with("node_load_") => {
            (Quality::Sampled, Some("the kernel looks every 5 s"))
        }
        name if name == node_memory_available_bytes.name => {
            (Quality::Estimated, Some("an estimate of the kernel"))
        }
        name if name == node_memory_used_bytes.name => {
            (Quality::Estimated, Some("what the kernel estimates not to be available"))
        }
        _ => (Quality::Exact, None),
    };
    let is_clock = metric.name == node_uptime_seconds.name;
    let source = if is_clock { Mechanism::Clock } else { Mechanism::Proc };
    let reason = reason.map(str::to_string);
    Value { value: Some(value), unit: metric.unit, source, quality, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &[u8] = b"MemTotal:        2000 kB\nMemFree:          301 kB\n\
        MemAvailable:     703 kB\nSwapTotal:          0 kB\nSwapFree:           0 kB\n";
    const LOAD: &[u8] = b"0.20 1.18 0.12 3/345 11206\n";

    #[test]
    fn each_metric_has_its_value() {
        let state = of_texts(Ok(LOAD.to_vec()), Ok(MEMORY.to_vec()), 7_500_000_000);
        let number = |name: &str| state[name].number();
        assert_eq!(state.len(), HOST_METRICS.len());
        for (name, wanted) in [
            ("node_load_5m_threads", 1.18),
            ("node_threads_running", 3.0),
            ("node_threads", 345.0),
            ("node_memory_total_bytes", 2000.0 * 1024.0),
            ("node_memory_free_bytes", 301.0 * 1024.0),
            ("node_memory_used_bytes", 1297.0 * 1024.0),
            ("node_swap_total_bytes", 0.0),
            ("node_uptime_seconds", 7.5),
        ] {
            assert_eq!(number(name), Some(wanted), "{name}");
        }
        assert_eq!(state["node_memory_used_bytes"].quality, Quality::Estimated);
        assert_eq!(state["node_uptime_seconds"].source, Mechanism::Clock);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let no_available = b"MemTotal:        2000 kB\n".to_vec();
        let state = of_texts(Err("cannot read it".to_string()), Ok(no_available), 1);
        for (name, why) in [
            ("node_threads", "cannot read it"),
            ("node_load_1m_threads", "cannot read it"),
            ("node_memory_used_bytes", "holds no MemAvailable"),
        ] {
            let value = &state[name];
            assert_eq!((value.value, value.quality), (None, Quality::Unavailable), "{name}");
            assert!(value.reason.as_deref().is_some_and(|text| text.contains(why)), "{value:?}");
        }
        assert!(state["node_memory_total_bytes"].value.is_some());
    }

    #[test]
    fn this_machine_has_a_state() {
        let state = host_state();
        let total = crate::host::memory_bytes().unwrap() as f64;
        assert_eq!(state["node_memory_total_bytes"].number(), Some(total));
        for (name, value) in &state {
            assert!(value.value.is_some(), "{name}: {value:?}");
        }
    }
}
