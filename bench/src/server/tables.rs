//! What the rounds of a server say, way by way, each against the unwatched server of the same round. Pure.

use super::load::{Histogram, percentile};
use super::{BESIDE_NS, Sample, Samples, WAYS};
use crate::page::Table;
use crate::spread::Spread;

/// All of them.
pub fn all(samples: &Samples) -> [Table; 5] {
    [throughput(samples), latency(samples), fresh(samples), fresh_latency(samples), beside(samples)]
}

/// By how many percent a figure is greater than that of the unwatched server.
fn change(samples: &Samples, way: usize, figure: fn(&Sample) -> f64) -> Spread {
    let pairs = samples[way].iter().zip(&samples[0]);
    Spread::of(pairs.map(|(own, bare)| (figure(own) / figure(bare) - 1.0) * 100.0))
}

/// By how many percent it is less.
fn fewer(samples: &Samples, way: usize, figure: fn(&Sample) -> f64) -> Spread {
    let pairs = samples[way].iter().zip(&samples[0]);
    Spread::of(pairs.map(|(own, bare)| (1.0 - figure(own) / figure(bare)) * 100.0))
}

/// A latency, by how much it is longer, and whether that is within the target, if there is one.
fn latency_cells(
    samples: &Samples,
    way: usize,
    figure: fn(&Sample) -> f64,
    target: Option<f64>,
) -> [String; 4] {
    let longer = change(samples, way, figure);
    [
        format!("{:.0} µs", median(&samples[way], figure)),
        if way == 0 { "–".into() } else { percent(&longer) },
        target.map_or("–".into(), |target| format!("≤ {target} %")),
        target.map_or("–".into(), |target| longer.against(target).to_string()),
    ]
}

fn median(samples: &[Sample], figure: fn(&Sample) -> f64) -> f64 {
    Spread::of(samples.iter().map(figure)).median
}

/// What is added to a program's own time by others on the machine is never less than nothing: the least of
/// all rounds is the closest to what a request costs.
fn least(samples: &[Sample]) -> f64 {
    Spread::of(samples.iter().map(|sample| sample.cpu_us)).least
}

fn percent(spread: &Spread) -> String {
    match spread.interval {
        Some((low, high)) => format!("{:+.1} % ({low:+.1} … {high:+.1})", spread.median),
        None => format!("{:+.1} %", spread.median),
    }
}

fn throughput(samples: &Samples) -> Table {
    let mut table = Table::new([
        "watched",
        "requests/s",
        "fewer",
        "target",
        "verdict",
        "CPU/request",
        "more",
        "its least",
        "more",
        "CPU of wrk/request",
        "more",
    ]);
    for (index, way) in WAYS.iter().enumerate() {
        let own = &samples[index];
        let fewer = fewer(samples, index, |s| s.full.per_second);
        let more = |figure| match index {
            0 => "–".to_string(),
            _ => percent(&change(samples, index, figure)),
        };
        table.row([
            way.name.to_string(),
            format!("{:.0}", median(own, |s| s.full.per_second)),
            if index == 0 { "–".into() } else { percent(&fewer) },
            way.fewer.map_or("–".into(), |target| format!("≤ {target} %")),
            way.fewer.map_or("–".into(), |target| fewer.against(target).to_string()),
            format!("{:.2} µs", median(own, |s| s.cpu_us)),
            more(|s| s.cpu_us),
            format!("{:.2} µs", least(own)),
            match index {
                0 => "–".to_string(),
                _ => format!("{:+.1} %", (least(own) / least(&samples[0]) - 1.0) * 100.0),
            },
            format!("{:.2} µs", median(own, |s| s.full.own_cpu_us)),
            more(|s| s.full.own_cpu_us),
        ]);
    }
    table
}

fn middle(latencies: &Histogram) -> f64 {
    percentile(latencies, 50.0).unwrap_or(f64::NAN)
}

fn tail(latencies: &Histogram) -> f64 {
    percentile(latencies, 99.0).unwrap_or(f64::NAN)
}

fn latency(samples: &Samples) -> Table {
    let mut table = Table::new([
        "watched",
        "median, with rests",
        "longer",
        "target",
        "verdict",
        "p99, with rests",
        "longer",
        "target",
        "verdict",
        "median, full load",
        "longer",
    ]);
    for (index, way) in WAYS.iter().enumerate() {
        let targets = way.longer.map_or([None; 2], |targets| targets.map(Some));
        let full = latency_cells(samples, index, |s| middle(&s.full.latencies), None);
        let mut row = vec![way.name.to_string()];
        row.extend(latency_cells(samples, index, |s| middle(&s.slow.latencies), targets[0]));
        row.extend(latency_cells(samples, index, |s| tail(&s.slow.latencies), targets[1]));
        row.extend(full.into_iter().take(2));
        table.row(row);
    }
    table
}

/// Requests with a connection each: how many a second, and what one costs the server.
fn fresh(samples: &Samples) -> Table {
    let mut table = Table::new([
        "watched, a connection for each request",
        "requests/s, one at a time",
        "fewer",
        "target",
        "verdict",
        "requests/s, several at once",
        "fewer",
        "verdict",
        "CPU/request",
        "more",
    ]);
    let figures: [fn(&Sample) -> f64; 2] = [|s| s.alone.per_second, |s| s.at_once.per_second];
    for (index, way) in WAYS.iter().enumerate() {
        let own = &samples[index];
        let unless_bare = |text: String| if index == 0 { "–".to_string() } else { text };
        let mut row = vec![way.name.to_string()];
        for (number, figure) in figures.into_iter().enumerate() {
            let fewer = fewer(samples, index, figure);
            row.push(format!("{:.0}", median(own, figure)));
            row.push(unless_bare(percent(&fewer)));
            if number == 0 {
                row.push(way.fewer.map_or("–".into(), |target| format!("≤ {target} %")));
            }
            row.push(way.fewer.map_or("–".into(), |target| fewer.against(target).to_string()));
        }
        row.push(format!("{:.1} µs", median(own, |s| s.alone_cpu_us)));
        row.push(unless_bare(percent(&change(samples, index, |s| s.alone_cpu_us))));
        table.row(row);
    }
    table
}

/// The latencies of requests that come one at a time, each with a connection of its own.
fn fresh_latency(samples: &Samples) -> Table {
    let mut table = Table::new([
        "watched, a connection for each request",
        "median",
        "longer",
        "target",
        "verdict",
        "p99",
        "longer",
        "target",
        "verdict",
    ]);
    for (index, way) in WAYS.iter().enumerate() {
        let targets = way.longer.map_or([None; 2], |targets| targets.map(Some));
        let mut row = vec![way.name.to_string()];
        row.extend(latency_cells(samples, index, |s| s.alone.median_us, targets[0]));
        row.extend(latency_cells(samples, index, |s| s.alone.tail_us, targets[1]));
        table.row(row);
    }
    table
}

fn beside(samples: &Samples) -> Table {
    let mut table =
        Table::new(["watched", "getppid() of a program beside", "longer", "target", "verdict"]);
    for (index, way) in WAYS.iter().enumerate() {
        let pairs = samples[index].iter().zip(&samples[0]);
        let longer = Spread::of(pairs.map(|(own, bare)| own.getppid_ns - bare.getppid_ns));
        let (low, high) = longer.interval.unwrap_or((longer.least, longer.greatest));
        let is_bare = index == 0;
        let unless_bare = |text: String| if is_bare { "–".to_string() } else { text };
        table.row([
            way.name.to_string(),
            format!("{:.1} ns", median(&samples[index], |s| s.getppid_ns)),
            unless_bare(format!("{:+.1} ns ({low:+.1} … {high:+.1})", longer.median)),
            unless_bare(format!("≤ {BESIDE_NS} ns")),
            unless_bare(longer.against(BESIDE_NS).to_string()),
        ]);
    }
    table
}
