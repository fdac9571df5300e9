//! The rows of the invented recording's tables.

use std::collections::BTreeMap;

use weigh_schema::io::FileUse;
use weigh_schema::recording::{ProcessRow, SampleRow};
use weigh_schema::summary::Summary;
use weigh_schema::{Group, METRICS, MetricKind, Quality, Unit, Value};

use super::{WALL, started};

/// Chance that is the same every time (xorshift64*).
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        Chance(0x9e37_79b9_7f4a_7c15)
    }

    /// From 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.next()
    }
}

fn at_ns(seconds: f64) -> i64 {
    started().as_nanosecond() as i64 + (seconds * 1e9) as i64
}

/// `make`, its shells and compilers, a linker at the end.
pub fn processes(count: usize) -> Vec<ProcessRow> {
    let mut chance = Chance::new();
    let make = 40_117;
    let mut rows =
        vec![process(make, 40_100, "make", "make -j8 'CFLAGS=-O2 -g' all test", 0.0, WALL)];
    let compiled_until = WALL * 0.7;
    let units = count.saturating_sub(6) / 4;
    for unit in 0..units {
        let start = compiled_until * unit as f64 / units as f64;
        let took = chance.between(0.05, 5.5).min(WALL - start - 0.1);
        let pid = make + 1 + 4 * unit as u32;
        let command = format!("cc -O2 -g -c src/unit_{unit:03}.c -o build/unit_{unit:03}.o");
        rows.push(process(
            pid,
            make,
            "sh",
            &format!("/bin/sh -c '{command}'"),
            start,
            start + took,
        ));
        rows.push(process(pid + 1, pid, "cc", &command, start + 0.002, start + took - 0.001));
        let half = took * 0.82;
        rows.push(process(pid + 2, pid + 1, "cc1", &format!("/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -imultiarch x86_64-linux-gnu src/unit_{unit:03}.c -o /tmp/cc{unit:04}.s"), start + 0.005, start + half));
        rows.push(process(
            pid + 3,
            pid + 1,
            "as",
            &format!("as --64 -o build/unit_{unit:03}.o /tmp/cc{unit:04}.s"),
            start + half,
            start + took - 0.002,
        ));
    }
    let pid = make + 2 + 4 * units as u32;
    rows.push(process(
        pid,
        make,
        "test_runner",
        "build/test_runner --all --seed 42",
        WALL * 0.83,
        WALL * 0.97,
    ));
    rows.push(process(
        pid + 1,
        pid,
        "test_crash",
        "build/test_crash --expect-abort",
        WALL * 0.9,
        WALL * 0.91,
    ));
    rows.push(process(
        pid + 2,
        make,
        "ld.lld",
        "ld.lld -O2 --build-id -o target/release/server @objects.rsp",
        WALL * 0.7,
        WALL * 0.83,
    ));
    let mut rows: Vec<_> = rows.into_iter().map(|row| with_metrics(row, &mut chance)).collect();
    let crashed = rows.len() - 2;
    rows[crashed].exit_code = None;
    rows[crashed].exit_signal = Some(6);
    rows
}

fn process(pid: u32, parent: u32, name: &str, command: &str, start: f64, end: f64) -> ProcessRow {
    ProcessRow {
        pid,
        parent,
        name: name.to_string(),
        name_base64: None,
        command: command.to_string(),
        command_base64: None,
        uid: 1000,
        started_ns: at_ns(start),
        ended_ns: Some(at_ns(end.max(start + 1e-4))),
        exit_code: Some(0),
        exit_signal: None,
        metrics: BTreeMap::new(),
    }
}

fn with_metrics(mut row: ProcessRow, chance: &mut Chance) -> ProcessRow {
    let took = (row.ended_ns.unwrap_or(row.started_ns) - row.started_ns) as f64 / 1e9;
    let works = !matches!(row.name.as_str(), "make" | "sh" | "cc");
    let busy = if works { chance.between(0.7, 0.99) } else { 0.01 };
    let cpu = took * busy;
    for m in ProcessRow::metric_columns() {
        let size = if works { chance.between(2e6, 2e8) } else { chance.between(1e6, 4e6) };
        let number = match m.name {
            "wall_seconds" => took,
            "cpu_seconds" => cpu,
            "cpu_user_seconds" => cpu * 0.87,
            "cpu_system_seconds" => cpu * 0.13,
            "cpu_cores_average" => busy,
            "delay_cpu_seconds" => cpu * 0.07,
            _ if m.group == Group::Network || m.group == Group::Waiting => 0.0,
            "page_faults_major_total" | "memory_peak_swap_bytes" => 0.0,
            _ if m.unit == Unit::Bytes && m.kind == MetricKind::Peak => size,
            _ if m.unit == Unit::Bytes => size * 0.1,
            _ => (size / 3e4).floor(),
        };
        if m.group != Group::Waiting || m.name == "delay_cpu_seconds" {
            row.metrics.insert(m.name.to_string(), m.unit.number(number));
        }
    }
    row
}

pub fn files(processes: &[ProcessRow]) -> Vec<FileUse> {
    let mut rows = Vec::new();
    for (i, process) in processes.iter().enumerate() {
        let mut add = |path: String, opened_total, quality| {
            rows.push(FileUse::opened(process.pid, &path, opened_total, quality));
        };
        add("/etc/ld.so.cache".to_string(), 1, Quality::Exact);
        add("/usr/lib/x86_64-linux-gnu/libc.so.6".to_string(), 1, Quality::Exact);
        if process.name == "cc1" {
            add(format!("/srv/build/server/src/unit_{:03}.c", i / 4), 1, Quality::Exact);
            add("/usr/include/stdio.h".to_string(), 1 + i as u64 % 3, Quality::Exact);
            add("/srv/build/server/include/server.h".to_string(), 1, Quality::Sampled);
        }
    }
    rows
}

/// Some 300 samples of every series.
pub fn samples(summary: &Summary) -> Vec<SampleRow> {
    const COUNT: usize = 300;
    let mut chance = Chance::new();
    let mut rows = Vec::new();
    for m in METRICS {
        let (Some(series), Some(total)) =
            (m.series, summary.metrics.get(m.name).and_then(Value::number))
        else {
            continue;
        };
        let mut grown = 0.0;
        let shape: Vec<f64> =
            (0..COUNT).map(|i| activity(i as f64 / COUNT as f64, &mut chance)).collect();
        let whole: f64 = shape.iter().sum();
        let greatest = shape.iter().fold(0.0, |a: f64, b| a.max(*b));
        for (i, part) in shape.iter().enumerate() {
            grown += part / whole;
            let value = match m.kind {
                MetricKind::Counter => total * grown,
                _ => total * part / greatest,
            };
            rows.push(SampleRow {
                time_ns: at_ns(WALL * (i + 1) as f64 / COUNT as f64),
                scope: "job".to_string(),
                metric: series.to_string(),
                value: m.unit.number(value).as_f64(),
            });
        }
    }
    rows
}

/// How busy the build is at a part of its time: compiling, then one linker, then tests.
fn activity(part: f64, chance: &mut Chance) -> f64 {
    let noise = chance.between(0.85, 1.05);
    let ramp = (part / 0.04).min(1.0);
    match part {
        p if p < 0.7 => noise * ramp * 0.8,
        p if p < 0.83 => noise * (0.15 + 0.85 * ((p - 0.7) / 0.13)),
        p if p < 0.97 => noise * 0.45,
        _ => noise * 0.05,
    }
}
