//! The rows of the digest, each from the metrics that it is about.
//!
//! Reads the summary's metrics, limits and losses. What is not known says so where it is always wanted, and is left
//! out elsewhere.

use weigh_schema::amount::{show_amount, show_number_of, show_size};
use weigh_schema::metric_name;
use weigh_schema::summary::{LimitOutcome, Summary};
use weigh_schema::{METRICS, Quality, Unit, Value, metric};

use super::row::{COLUMN, Need, Row};
use crate::machine;
use crate::outcome::limit_in_short;
use crate::text::{Paint, digits, shell_words, with_sizes, wrap};

/// So many limits have a line.
const LIMITS: usize = 3;

/// So many lines say that the machine was busy, or had little room.
const MACHINE_LINES: usize = 2;

/// Waiting that is told: a twentieth of the run.
const WAITING_SHARE: f64 = 0.05;

/// Metrics of a summary, in words.
struct Words<'a> {
    summary: &'a Summary,
    is_terminal: bool,
}

/// The rows between how the job ended and what is to be done about it.
pub(super) fn rows(summary: &Summary, is_terminal: bool) -> Vec<Row> {
    let words = Words { summary, is_terminal };
    let mut rows = Vec::new();
    rows.extend(words.limits(true));
    rows.extend(words.oom_kills());
    rows.extend(words.lost());
    rows.push(words.cpu());
    rows.push(words.memory());
    rows.extend(words.gpu());
    rows.push(words.read());
    rows.push(words.written());
    rows.extend(words.network());
    rows.extend(words.disk());
    rows.extend(words.processes());
    rows.extend(words.waiting());
    let machine = machine::words(summary).into_iter().take(MACHINE_LINES);
    rows.extend(machine.map(|text| Row::new("machine", Need::Detail, vec![text])));
    rows.extend(words.limits(false));
    rows.extend(words.snapshots());
    rows
}

impl Words<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.summary.metrics.get(name)
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.number()
    }

    fn is_some(&self, name: &str) -> bool {
        self.number(name).is_some_and(|number| number > 0.0)
    }

    /// The value for people, with "±" before it where it is not exact.
    fn show(&self, name: &str) -> Option<String> {
        let value = self.value(name)?;
        let amount = show_amount(value.number()?, metric(name)?.unit);
        let mark = if value.quality == Quality::Exact { "" } else { "±" };
        Some(mark.to_string() + &digits(amount, self.is_terminal))
    }

    fn shown(&self, name: &str) -> String {
        self.show(name).unwrap_or_else(|| "not available".to_string())
    }

    /// The value and a word behind it, unless it is nothing or not known.
    fn part(&self, name: &str, word: &str) -> Option<String> {
        let value = self.show(name).filter(|_| self.is_some(name))?;
        Some(format!("{value} {word}"))
    }

    fn counted(&self, name: &str, one: &str, several: &str) -> Option<String> {
        let word = if self.number(name)? == 1.0 { one } else { several };
        self.part(name, word)
    }

    fn cpu(&self) -> Row {
        let average = self.number(metric_name::cpu_cores_average).unwrap_or_default();
        let is_above = |peak: &f64| *peak > 1.05 * average;
        let peak = self.number(metric_name::cpu_cores_peak).filter(is_above);
        let mut parts = vec![self.shown(metric_name::cpu_seconds)];
        parts.extend(
            self.show(metric_name::cpu_cores_average)
                .map(|cores| format!("{cores} cores on average")),
        );
        let quota = self.summary.allowed.cpu_quota_cores;
        parts.extend(peak.and_then(|_| self.part(metric_name::cpu_cores_peak, "at most")));
        parts.extend(quota.map(|cores| format!("{cores} allowed")));
        parts.extend(self.in_kernel());
        Row::new("CPU", Need::Always, parts)
    }

    fn in_kernel(&self) -> Option<String> {
        let (all, system) =
            (self.number(metric_name::cpu_seconds)?, self.number(metric_name::cpu_system_seconds)?);
        let is_exact = self.value(metric_name::cpu_system_seconds)?.quality == Quality::Exact;
        let mark = if is_exact { "" } else { "±" };
        // Below, the split says little.
        (all >= 0.01).then(|| format!("{mark}{:.0} % of it in the kernel", 100.0 * system / all))
    }

    fn memory(&self) -> Row {
        let mut parts = vec![
            self.show(metric_name::memory_peak_bytes)
                .map_or_else(|| "not available".to_string(), |peak| format!("{peak} at the peak")),
        ];
        parts.extend(self.memory_max());
        let reason =
            self.value(metric_name::memory_peak_bytes).and_then(|value| value.reason.as_deref());
        parts.extend(reason.and_then(interval));
        if self.number(metric_name::processes_total).is_some_and(|count| count > 1.0) {
            parts.extend(
                self.part(metric_name::memory_peak_process_rss_bytes, "in the largest process"),
            );
        }
        parts.extend(self.part(metric_name::memory_peak_swap_bytes, "swapped out"));
        Row::new("memory", Need::Always, parts)
    }

    fn memory_max(&self) -> Option<String> {
        let bytes = self.summary.allowed.memory_max_bytes?;
        Some(format!("{} allowed", digits(show_size(bytes as f64), self.is_terminal)))
    }

    fn gpu(&self) -> Option<Row> {
        let parts: Vec<String> = [
            (metric_name::gpu_memory_peak_bytes, "of memory at the peak"),
            (metric_name::gpu_seconds, "of its time"),
            (metric_name::gpu_utilization_ratio, "busy"),
        ]
        .into_iter()
        .filter_map(|(name, word)| self.part(name, word))
        .collect();
        (!parts.is_empty()).then(|| Row::new("GPU", Need::More, parts))
    }

    fn read(&self) -> Row {
        let parts = self.moved(
            [
                metric_name::io_read_bytes_total,
                metric_name::io_read_calls_total,
                metric_name::mmap_read_bytes_total,
                metric_name::storage_read_bytes_total,
            ],
            "from storage",
        );
        Row::new("read", Need::Always, parts)
    }

    fn written(&self) -> Row {
        let parts = self.moved(
            [
                metric_name::io_written_bytes_total,
                metric_name::io_write_calls_total,
                metric_name::mmap_written_bytes_total,
                metric_name::storage_written_bytes_total,
            ],
            "to storage",
        );
        Row::new("written", Need::Always, parts)
    }

    fn moved(&self, [bytes, calls, mapped, storage]: [&str; 4], where_to: &str) -> Vec<String> {
        let by = self.counted(calls, "call", "calls").map(|calls| format!(" by {calls}"));
        let mut parts = vec![self.shown(bytes) + &by.unwrap_or_default()];
        parts.extend(self.part(mapped, "by mapped memory"));
        let is_wanted = self.is_some(bytes) || self.is_some(storage);
        let of_it = self.show(storage).filter(|_| is_wanted);
        parts.extend(of_it.map(|amount| format!("{amount} {where_to}")));
        parts
    }

    fn network(&self) -> Option<Row> {
        let moved = [
            (metric_name::net_sent_bytes_total, "sent"),
            (metric_name::net_received_bytes_total, "received"),
        ];
        let mut parts: Vec<String> =
            moved.into_iter().filter_map(|(name, word)| self.part(name, word)).collect();
        parts.extend(self.counted(metric_name::net_connections_total, "connection", "connections"));
        parts.extend(self.part(metric_name::net_retransmits_total, "sent again"));
        (!parts.is_empty()).then(|| Row::new("network", Need::More, parts))
    }

    fn disk(&self) -> Option<Row> {
        // The files that are counted are those of before, too.
        let grown = self.part(metric_name::disk_growth_peak_bytes, "more than before, at most")?;
        Some(Row::new("disk", Need::Detail, vec![grown]))
    }

    fn processes(&self) -> Option<Row> {
        let all = self.show(metric_name::processes_total)?;
        let mut parts = vec![all];
        if self.number(metric_name::processes_peak).is_some_and(|peak| peak > 1.0) {
            parts.extend(self.part(metric_name::processes_peak, "at once"));
        }
        parts.extend(self.counted(metric_name::threads_peak, "thread", "threads at once"));
        Some(Row::new("processes", Need::Always, parts))
    }

    /// Waits that are a part of the run, the longest first.
    fn waiting(&self) -> Option<Row> {
        const WAITS: [(&str, &str); 5] = [
            (metric_name::delay_cpu_seconds, "for a CPU"),
            (metric_name::delay_cpu_throttled_seconds, "of it for a CPU quota"),
            (metric_name::delay_block_seconds, "for storage"),
            (metric_name::delay_reclaim_seconds, "for memory to be freed"),
            (metric_name::delay_swapin_seconds, "for swap"),
        ];
        let wall = self.number(metric_name::wall_seconds)?;
        let matters = |name: &str| {
            self.number(name).is_some_and(|time| time >= 0.01 && time >= WAITING_SHARE * wall)
        };
        let waits = WAITS.into_iter().filter(|(name, _)| matters(name));
        let parts: Vec<String> = waits.filter_map(|(name, word)| self.part(name, word)).collect();
        let is_several =
            self.number(metric_name::threads_peak).is_some_and(|threads| threads > 1.0);
        let together = is_several.then(|| "all threads together".to_string());
        (!parts.is_empty())
            .then(|| Row::new("waiting", Need::Detail, parts.into_iter().chain(together).collect()))
    }

    fn limits(&self, exceeded: bool) -> Vec<Row> {
        let of_these = |limit: &&LimitOutcome| limit.exceeded == exceeded;
        let limits: Vec<_> = self.summary.limits.iter().filter(of_these).collect();
        let paint = if exceeded { Paint::Bad } else { Paint::Plain };
        let mut rows = Vec::new();
        for limit in limits.iter().take(LIMITS) {
            let parts = limit_in_short(limit, self.is_terminal);
            rows.push(Row::new("limit", Need::More, parts).painted(paint));
            if let Some(by) = &limit.offender {
                let command = shell_words(&by.command);
                let parts = vec![format!("process {} ({})", by.pid, by.name), command];
                rows.push(Row::new("passed by", Need::More, parts));
            }
        }
        if let Some(more) = limits.len().checked_sub(LIMITS).filter(|more| *more > 0) {
            let text = format!("and {}", show_number_of(more as u64, "more limit", "more limits"));
            rows.push(Row::new("", Need::More, vec![text]));
        }
        rows
    }

    fn oom_kills(&self) -> Option<Row> {
        let killed = self.counted(metric_name::oom_kills_total, "process", "processes")?;
        let reason =
            self.value(metric_name::oom_kills_total).and_then(|value| value.reason.clone());
        let names = reason.and_then(|text| Some(text.split_once(": ")?.1.to_string()));
        let parts = vec![format!("{killed} by the kernel, for want of memory (OOM)")];
        let parts = parts.into_iter().chain(names).collect();
        Some(Row::new("killed", Need::More, parts).painted(Paint::Bad))
    }

    fn lost(&self) -> Option<Row> {
        let lost: u64 = self.summary.collectors.iter().map(|collector| collector.lost).sum();
        let text = digits(show_number_of(lost, "event", "events"), self.is_terminal);
        let text = format!("{text}: some numbers are too small; see --details");
        (lost > 0).then(|| Row::new("lost", Need::More, vec![text]).painted(Paint::Bad))
    }

    fn snapshots(&self) -> Option<Row> {
        let count = self.summary.snapshots.len();
        let text = show_number_of(count as u64, "snapshot", "snapshots");
        (count > 0).then(|| Row::new("noted", Need::Detail, vec![format!("{text}; see --details")]))
    }
}

/// How many values are less than exact, and where the reasons are.
pub(super) fn qualities(summary: &Summary, recording: Option<&str>) -> Option<Row> {
    let known = |metric: &weigh_schema::Metric| summary.metrics.get(metric.name);
    let values: Vec<&Value> = METRICS.iter().filter_map(known).collect();
    let count = |is: &dyn Fn(Quality) -> bool| values.iter().filter(|v| is(v.quality)).count();
    let less = count(&|quality| matches!(quality, Quality::Estimated | Quality::Sampled));
    let absent = count(&|quality| quality == Quality::Unavailable);
    let estimates = match less {
        0 => None,
        1 => Some("1 value is an estimate (±)".to_string()),
        _ => Some(format!("{less} values are estimates (±)")),
    };
    let absent = (absent > 0).then(|| format!("{absent} not available"));
    let both: Vec<String> = estimates.into_iter().chain(absent).collect();
    let place = recording.map(|_| ": weigh show --details".to_string());
    (!both.is_empty()).then(|| {
        let parts = both.into_iter().chain(place).collect();
        Row::new("note", Need::Always, parts).painted(Paint::Dim)
    })
}

/// The interval that a reason of memory gives.
fn interval(reason: &str) -> Option<String> {
    let reason = with_sizes(reason);
    let from = &reason[reason.find("between ")?..];
    let end = from.find([',', ';']).unwrap_or(from.len());
    Some(from[..end].to_string())
}

/// A row whose text is wrapped into several.
pub(super) fn wrapped(row: Row, width: usize, lines: usize) -> Vec<Row> {
    let text = row.parts.join(", ");
    let texts = wrap(&text, width - COLUMN, lines).into_iter().enumerate();
    let label = |place: usize| if place == 0 { row.label } else { "" };
    texts.map(|(i, text)| Row { label: label(i), parts: vec![text], ..row.clone() }).collect()
}

/// Bytes and counts of a part, for sentences.
pub(super) fn size(bytes: f64) -> String {
    show_amount(bytes, Unit::Bytes)
}
