//! What processes did with GPUs, in a line each.

use std::cmp::Reverse;

use weigh_schema::amount::{show_amount, show_number_of};
use weigh_schema::summary::{GpuUse, Summary};
use weigh_schema::{Quality, Value, metric_name};

use crate::text::harmless;

/// More processes than this are in the summary alone.
const MOST: usize = 8;

/// The ones that had the most time first.
pub(crate) fn words(summary: &Summary) -> Vec<String> {
    let mut uses: Vec<&GpuUse> = summary.gpus.iter().collect();
    let nanoseconds = |used: &GpuUse| {
        let seconds = used.metrics.get(metric_name::gpu_seconds).and_then(Value::number);
        (seconds.unwrap_or(0.0) * 1e9) as u64
    };
    uses.sort_by_key(|used| (Reverse(nanoseconds(used)), used.pid));
    let mut lines: Vec<String> = uses.iter().take(MOST).map(|used| line(used)).collect();
    if let Some(more) = uses.len().checked_sub(MOST).filter(|more| *more > 0) {
        let more = show_number_of(more as u64, "process", "processes");
        lines.push(format!("{more} more: `gpus` of the summary"));
    }
    lines
}

fn line(used: &GpuUse) -> String {
    let part = |(name, word): (&str, &str)| {
        let value = used.metrics.get(name)?;
        let sign = if value.quality == Quality::Exact { "" } else { "±" };
        Some(format!("{sign}{} {word}", show_amount(value.number()?, value.unit)))
    };
    let parts = [
        (metric_name::gpu_seconds, "of its time"),
        (metric_name::gpu_memory_peak_bytes, "at most"),
    ];
    let mut parts: Vec<String> = parts.into_iter().filter_map(part).collect();
    if !used.opened.is_empty() {
        parts.push(format!("opened {}", used.opened.join(", ")));
    }
    harmless(&format!("process {} on {}: {}", used.pid, used.gpu, parts.join(", ")))
}
