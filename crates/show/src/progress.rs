//! One line that says how a running job is doing.
//!
//! Reads the latest look at the job and the one before; what does not fit the width is left out
//! from the end, never cut in the middle of a number.

use unicode_width::UnicodeWidthStr;
use weigh_schema::amount::{show_count, show_size};
use weigh_schema::event::JobReading;
use weigh_schema::metric_name;
use weigh_schema::{Formula, metric};

/// The live line: elapsed time, CPUs kept busy, memory held now and at the peak, how near limits are, processes,
/// bytes read and written by calls per second. Rates are those since `before`; without it they are left out.
/// `limits` are metrics with the share of their limit that is used.
pub fn line(
    before: Option<&JobReading>,
    now: &JobReading,
    limits: &[(&str, f64)],
    width: usize,
) -> String {
    let since = before.filter(|earlier| earlier.at_ns < now.at_ns);
    let mut parts = vec![elapsed(now.at_ns)];
    parts.extend(
        rate(since, now, metric_name::cpu_seconds).map(|cores| format!("{cores:.2} cores")),
    );
    parts.push(memory(now));
    parts.extend(peak(now));
    parts.extend(limits.iter().map(|(name, used)| format!("{name} at {:.0} %", 100.0 * used)));
    parts.push(population(now));
    for (word, name) in
        [("read", metric_name::io_read_bytes_total), ("write", metric_name::io_written_bytes_total)]
    {
        parts.extend(rate(since, now, name).map(|r| format!("{word} {}/s", show_size(r))));
    }

    let mut out = String::new();
    for part in parts {
        let gap = if out.is_empty() { "" } else { "  " };
        if out.width() + gap.width() + part.width() > width {
            break;
        }
        out.push_str(gap);
        out.push_str(&part);
    }
    out
}

fn elapsed(at_ns: u64) -> String {
    let seconds = at_ns / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// What the job holds now: the sum of resident sizes, and where sharing may make it less, the
/// least it can be.
fn memory(now: &JobReading) -> String {
    let (least, most) = (now.memory.floor, now.memory.rss_sum);
    // As with `memory_peak_bytes`, bounds that meet within 1 % are one number.
    if least as f64 >= most as f64 * 0.99 {
        show_size(most as f64)
    } else {
        format!("{} to {}", show_size(least as f64), show_size(most as f64))
    }
}

/// The greatest sum of resident sizes, where it is more than is held now.
fn peak(now: &JobReading) -> Option<String> {
    let peak = now.memory.rss_sum_peak;
    let is_more = peak as f64 > now.memory.rss_sum as f64 * 1.01;
    is_more.then(|| format!("(peak {})", show_size(peak as f64)))
}

fn population(now: &JobReading) -> String {
    let counted = |n: u64, one: &str, many: &str| {
        format!("{} {}", show_count(n as f64), if n == 1 { one } else { many })
    };
    let processes = counted(now.population.processes, "process", "processes");
    if now.population.threads <= now.population.processes {
        return processes;
    }
    format!("{processes}, {}", counted(now.population.threads, "thread", "threads"))
}

/// How much the named sum of counters grew per second between two looks.
fn rate(before: Option<&JobReading>, now: &JobReading, name: &str) -> Option<f64> {
    let before = before?;
    let elapsed = (now.at_ns - before.at_ns) as f64 / 1e9;
    let grown = total(now, name)? - total(before, name)?;
    Some(grown.max(0.0) / elapsed)
}

fn total(reading: &JobReading, name: &str) -> Option<f64> {
    let Formula::Sum { plus, minus, factor } = metric(name)?.formula else { return None };
    let add =
        |counters: &[_]| counters.iter().map(|c| reading.counters.get(*c) as f64).sum::<f64>();
    Some((add(plus) - add(minus)) * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::event::{MemoryReading, Population};
    use weigh_schema::{Counter, Unit};

    fn reading(at_ns: u64, runtime: u64, read: u64) -> JobReading {
        let mut reading = JobReading {
            at_ns,
            population: Population { processes: 3, threads: 12, ..Population::default() },
            memory: MemoryReading { rss_sum: 3 << 20, floor: 3 << 20, ..MemoryReading::default() },
            ..JobReading::default()
        };
        reading.counters.set(Counter::Runtime, runtime);
        reading.counters.set(Counter::ReadChars, read);
        reading
    }

    #[test]
    fn rates_are_those_since_the_last_look() {
        let (a, b) =
            (reading(61_000_000_000, 0, 0), reading(63_000_000_000, 3_000_000_000, 4 << 20));
        assert_eq!(
            line(Some(&a), &b, &[], 120),
            "1:03  1.50 cores  3.0 MiB  3 processes, 12 threads  read 2.0 MiB/s  write 0 B/s"
        );
        assert_eq!(line(None, &b, &[], 120), "1:03  3.0 MiB  3 processes, 12 threads");
        assert_eq!(line(Some(&b), &b, &[], 120), line(None, &b, &[], 120));
    }

    #[test]
    fn the_peak_and_limits_stand_behind_memory() {
        let mut now = reading(0, 0, 0);
        now.memory.rss_sum_peak = 5 << 20;
        let limits = [("memory_peak_bytes", 0.512)];
        let expected =
            "0:00  3.0 MiB  (peak 5.0 MiB)  memory_peak_bytes at 51 %  3 processes, 12 threads";
        assert_eq!(line(None, &now, &limits, 90), expected);
    }

    #[test]
    fn shared_memory_is_a_range() {
        let mut now = reading(0, 0, 0);
        now.memory.floor = 1 << 20;
        assert_eq!(line(None, &now, &[], 30), "0:00  1.0 MiB to 3.0 MiB");
    }

    #[test]
    fn it_never_exceeds_the_width() {
        let (a, b) = (reading(0, 0, 0), reading(4_000_000_000_000, 1 << 40, 1 << 50));
        for width in 0..130 {
            assert!(line(Some(&a), &b, &[], width).width() <= width, "{width}");
        }
    }

    #[test]
    fn the_named_totals_exist() {
        for name in ["cpu_seconds", "io_read_bytes_total", "io_written_bytes_total"] {
            assert!(total(&JobReading::default(), name).is_some(), "{name}");
        }
        assert_eq!(metric("cpu_seconds").map(|m| m.unit), Some(Unit::Seconds));
    }
}
