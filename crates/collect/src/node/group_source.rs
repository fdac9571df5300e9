//! Files of a control group, and the metrics in them, by the version of its hierarchy.

use weigh_parse::node::{each_pair, first_number, io_bytes, pressure_totals};
use weigh_schema::node_metric::*;
use weigh_schema::{Metric, Quality};

use super::block::BlockWriter;

/// Values of a file, in the order of its metrics.
type Values = [Option<u64>; 2];

/// A file and what it holds.
pub(super) struct GroupSource {
    /// The controller that has it; empty: each group of version 2 has it.
    pub controller: &'static str,
    /// Its names, the best first.
    pub files: &'static [&'static str],
    pub metrics: [Option<&'static Metric>; 2],
    parse: fn(&[u8]) -> Values,
    /// What one of the metric's unit is in the file; 0: whole numbers.
    of_one: f64,
}

impl GroupSource {
    /// Writes those values that are wanted; without text they are unavailable.
    pub fn put(&self, text: Option<&[u8]>, wanted: [bool; 2], out: &mut BlockWriter<'_>) {
        let values = text.map_or([None; 2], self.parse);
        for ((metric, value), is_wanted) in self.metrics.iter().zip(values).zip(wanted) {
            let Some(metric) = metric.filter(|_| is_wanted) else { continue };
            let quality = match std::ptr::eq(metric, &node_group_memory_bytes) {
                true => Quality::Estimated,
                false => Quality::Exact,
            };
            match self.of_one {
                0.0 => out.count(metric, quality, value),
                of_one => out.parts(metric, quality, value, of_one),
            }
        }
    }
}

const fn source(
    controller: &'static str,
    files: &'static [&'static str],
    metrics: [Option<&'static Metric>; 2],
    parse: fn(&[u8]) -> Values,
    of_one: f64,
) -> GroupSource {
    GroupSource { controller, files, metrics, parse, of_one }
}

/// Each controller is a hierarchy of its own, or one of several in one.
pub(super) static VERSION_1: [GroupSource; 7] = [
    source("cpuacct", &["cpuacct.usage"], [Some(&node_group_cpu_seconds_total), None], one, 1e9),
    source(
        "cpu",
        &["cpu.stat"],
        [Some(&node_group_cpu_throttled_seconds_total), None],
        stat_1,
        1e9,
    ),
    source("memory", &["memory.usage_in_bytes"], [Some(&node_group_memory_bytes), None], one, 0.0),
    source(
        "memory",
        &["memory.limit_in_bytes"],
        [Some(&node_group_memory_limit_bytes), None],
        limit,
        0.0,
    ),
    source(
        "memory",
        &["memory.oom_control"],
        [Some(&node_group_oom_kills_total), None],
        kills,
        0.0,
    ),
    source(
        "blkio",
        &["blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"],
        [Some(&node_group_read_bytes_total), Some(&node_group_written_bytes_total)],
        io,
        0.0,
    ),
    source("pids", &["pids.current"], [Some(&node_group_threads), None], one, 0.0),
];

/// All in one hierarchy.
pub(super) static VERSION_2: [GroupSource; 9] = [
    source(
        "",
        &["cpu.stat"],
        [Some(&node_group_cpu_seconds_total), Some(&node_group_cpu_throttled_seconds_total)],
        stat_2,
        1e6,
    ),
    source("memory", &["memory.current"], [Some(&node_group_memory_bytes), None], one, 0.0),
    source("memory", &["memory.max"], [Some(&node_group_memory_limit_bytes), None], limit, 0.0),
    source("memory", &["memory.events"], [Some(&node_group_oom_kills_total), None], kills, 0.0),
    source(
        "io",
        &["io.stat"],
        [Some(&node_group_read_bytes_total), Some(&node_group_written_bytes_total)],
        io,
        0.0,
    ),
    source("pids", &["pids.current"], [Some(&node_group_threads), None], one, 0.0),
    source(
        "",
        &["cpu.pressure"],
        [Some(&node_group_pressure_cpu_some_seconds_total), None],
        pressure_totals,
        1e6,
    ),
    source(
        "",
        &["memory.pressure"],
        [
            Some(&node_group_pressure_memory_some_seconds_total),
            Some(&node_group_pressure_memory_full_seconds_total),
        ],
        pressure_totals,
        1e6,
    ),
    source(
        "",
        &["io.pressure"],
        [
            Some(&node_group_pressure_io_some_seconds_total),
            Some(&node_group_pressure_io_full_seconds_total),
        ],
        pressure_totals,
        1e6,
    ),
];

/// Metrics of a group.
pub(super) const METRICS_OF_GROUP: u64 = 13;

fn one(text: &[u8]) -> Values {
    [first_number(text), None]
}

/// Version 1 writes no limit as the greatest number of whole pages.
fn limit(text: &[u8]) -> Values {
    [first_number(text).filter(|bytes| *bytes < 1 << 62), None]
}

fn io(text: &[u8]) -> Values {
    let io = io_bytes(text);
    [io.map(|io| io.read), io.map(|io| io.written)]
}

fn pairs(text: &[u8], names: [&[u8]; 2]) -> Values {
    let mut values = [None; 2];
    each_pair(
        text,
        |_| true,
        |_, name, value| {
            if let Some(at) = names.iter().position(|known| *known == name) {
                values[at] = Some(value);
            }
        },
    );
    values
}

fn stat_1(text: &[u8]) -> Values {
    pairs(text, [b"throttled_time", b""])
}

/// Without the controller there is no time of throttling.
fn stat_2(text: &[u8]) -> Values {
    pairs(text, [b"usage_usec", b"throttled_usec"])
}

fn kills(text: &[u8]) -> Values {
    pairs(text, [b"oom_kill", b""])
}
