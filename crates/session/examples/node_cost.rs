//! What the node's metrics cost: `cargo run --release -p weigh-session --example node_cost -- INTERVAL_SECONDS SECONDS
//! [floor]`. With `floor` it wakes and reads the same files into memory, and does nothing with them: no agent can cost less.
//!
//! Reads `/proc/self/schedstat` before and after, without warm-up; prints CPU as a part of a core, samples per tick, and the
//! resident size.
#![allow(clippy::print_stdout)]

use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use weigh_collect::node::NodeCollectors;
use weigh_session::products::node::{NodeSource, NodeTick, SampleSink};
use weigh_session::{Launcher, Session};

#[derive(Default)]
struct Counts {
    ticks: u64,
    samples: u64,
    sum: f64,
}

impl SampleSink for Counts {
    fn take(&mut self, tick: NodeTick<'_>) {
        self.ticks += 1;
        for value in tick.samples().filter_map(|sample| sample.value) {
            self.samples += 1;
            self.sum += value.as_f64();
        }
    }
}

/// Nanoseconds on a CPU.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .filter(|line| line.starts_with("VmRSS") || line.starts_with("RssAnon"))
        .collect::<Vec<_>>()
        .join("  ")
}

/// The files of `/proc` that the collectors read at each tick.
const FILES: [&str; 9] = [
    "stat",
    "loadavg",
    "sys/fs/file-nr",
    "meminfo",
    "vmstat",
    "pressure/cpu",
    "pressure/memory",
    "pressure/io",
    "diskstats",
];

/// Sleeps and reads, and nothing else.
fn floor(interval: Duration, seconds: f64) -> u64 {
    let open = |name: &&str| std::fs::File::open(format!("/proc/{name}")).ok();
    let files: Vec<_> = FILES.iter().chain(&["net/dev"]).filter_map(open).collect();
    let (mut buffer, mut ticks, begun) = ([0; 8192], 0_u32, Instant::now());
    while begun.elapsed().as_secs_f64() < seconds {
        for file in &files {
            let _ = file.read_at(&mut buffer, 0);
        }
        ticks += 1;
        std::thread::sleep((begun + interval * ticks).saturating_duration_since(Instant::now()));
    }
    u64::from(ticks)
}

fn main() -> anyhow::Result<()> {
    let number = |at| std::env::args().nth(at).and_then(|word| word.parse().ok());
    let (interval, seconds) = (number(1).unwrap_or(1.0), number(2).unwrap_or(60.0));
    let interval = Duration::from_secs_f64(interval);
    let (mut before, mut began) = (cpu_ns(), Instant::now());
    let (ticks, samples) = match std::env::args().nth(3) {
        Some(_) => (floor(interval, seconds), 0),
        None => {
            let collectors = NodeCollectors::default();
            let mut source = NodeSource::new(collectors, interval, Counts::default());
            let mut run = |seconds: f64| {
                let end = Instant::now() + Duration::from_secs_f64(seconds);
                Session::new(Launcher::prepare()?.stay(), Some(end)).run(&mut source).map(drop)
            };
            run(2.0 * interval.as_secs_f64())?;
            (before, began) = (cpu_ns(), Instant::now());
            run(seconds)?;
            (source.sink.ticks, source.sink.samples)
        }
    };
    let (used, wall) = (cpu_ns() - before, began.elapsed().as_secs_f64());
    println!(
        "{:.4} % of a core over {wall:.0} s, {:.1} us a tick, {} samples a tick; {}",
        used / wall / 1e7,
        used / wall / 1e3 * interval.as_secs_f64(),
        samples / ticks.max(1),
        resident(),
    );
    Ok(())
}
