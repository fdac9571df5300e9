//! What the node's metrics cost: `cargo run --release -p weigh-session --example node_cost -- INTERVAL_SECONDS SECONDS`.
//!
//! Reads `/proc/self/schedstat` before and after, without warm-up; prints CPU as a part of a core, samples per tick, and the
//! resident size.
#![allow(clippy::print_stdout)]

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

fn main() -> anyhow::Result<()> {
    let number = |at| std::env::args().nth(at).and_then(|word| word.parse().ok());
    let (interval, seconds) = (number(1).unwrap_or(1.0), number(2).unwrap_or(60.0));
    let interval = Duration::from_secs_f64(interval);
    let mut source = NodeSource::new(NodeCollectors::default(), interval, Counts::default());
    let mut run = |seconds: f64| {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        Session::new(Launcher::prepare()?.stay(), Some(end)).run(&mut source).map(drop)
    };
    run(2.0 * interval.as_secs_f64())?;
    let (before, began) = (cpu_ns(), Instant::now());
    run(seconds)?;
    let (used, wall) = (cpu_ns() - before, began.elapsed().as_secs_f64());
    let Counts { ticks, samples, .. } = source.sink;
    println!(
        "{:.4} % of a core over {wall:.0} s, {:.1} us a tick, {} samples a tick; {}",
        used / wall / 1e7,
        used / wall / 1e3 * interval.as_secs_f64(),
        samples / ticks.max(1),
        resident(),
    );
    Ok(())
}
