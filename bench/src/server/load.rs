//! Load on a server by wrk, over connections that stay open, and by ab, with one for each request; and
//! what they say: requests a second, and latencies.
//!
//! Reads wrk's own histogram and ab's percentiles, to the microsecond; refuses answers that are errors.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use crate::runs::Bench;

/// Seconds of each.
const SECONDS: u64 = 1;
/// Connections that stay open.
pub const CONNECTIONS: u64 = 8;

/// How wrk asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it is answered.
    Full,
    /// Each connection rests for 1 to 3 ms between an answer and the next request.
    Slow,
}

const REST: &str = "function delay() return math.random(1, 3) end\n";
const TELL: &str = "function done(summary, latency, requests)\n\
                    for i = 1, #latency do\n\
                    local value, count = latency(i)\n\
                    io.write(string.format('us %d %d\\n', value, count))\n\
                    end end\n";

/// How many requests took how many microseconds.
pub type Histogram = BTreeMap<u64, u64>;

/// What wrk says.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub requests: f64,
    pub per_second: f64,
    pub latencies: Histogram,
    /// CPU time of wrk for each request.
    pub own_cpu_us: f64,
}

impl Load {
    /// Asks for the small file.
    pub fn put(bench: &Bench, port: u16, pace: Pace) -> Result<Load> {
        let script = bench.path("wrk.lua");
        let rest = if pace == Pace::Slow { REST } else { "" };
        fs::write(&script, format!("{rest}{TELL}")).context("wrk's script")?;
        let mut words = vec!["wrk".to_string(), "-t1".into(), "-s".into()];
        words.push(script.display().to_string());
        words.extend([format!("-c{CONNECTIONS}"), format!("-d{SECONDS}s")]);
        words.push(format!("http://127.0.0.1:{port}/small"));
        let before = cpu_us_of_children()?;
        let output = bench.command(&words)?.stdout(Stdio::piped()).output().context("wrk")?;
        let cpu = cpu_us_of_children()? - before;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(!text.contains("Non-2xx"), "the server refused: {text}");
        let mut load = read(&text).with_context(|| format!("wrk said: {text}"))?;
        load.own_cpu_us = cpu / load.requests;
        Ok(load)
    }
}

/// Requests of which each has a connection of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Fresh {
    pub requests: f64,
    pub per_second: f64,
    pub median_us: f64,
    /// The time within which 99 of 100 were answered.
    pub tail_us: f64,
}

impl Fresh {
    /// Asks for the small file so many times, so many at once.
    pub fn put(bench: &Bench, port: u16, requests: u64, at_once: u64) -> Result<Fresh> {
        let percentiles = bench.path("ab.csv");
        let mut words = vec!["ab".to_string(), "-q".into(), "-e".into()];
        words.push(percentiles.display().to_string());
        words.extend([format!("-n{requests}"), format!("-c{at_once}")]);
        words.push(format!("http://127.0.0.1:{port}/small"));
        let output = bench.command(&words)?.stdout(Stdio::piped()).output().context("ab")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let table = fs::read_to_string(&percentiles).context("ab's percentiles")?;
        read_ab(&text, &table).with_context(|| format!("ab said: {text}"))
    }
}

fn read_ab(text: &str, percentiles: &str) -> Option<Fresh> {
    let after = |what: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(what))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let milliseconds = |percent: &str| {
        let mut rows = percentiles.lines().filter_map(|line| line.split_once(','));
        rows.find(|(of, _)| *of == percent)?.1.parse::<f64>().ok()
    };
    // It says nothing of answers that are errors if there are none.
    if after("Failed requests:")? > 0.0 || after("Non-2xx responses:").is_some() {
        return None;
    }
    Some(Fresh {
        requests: after("Complete requests:")?,
        per_second: after("Requests per second:")?,
        median_us: milliseconds("50")? * 1e3,
        tail_us: milliseconds("99")? * 1e3,
    })
}

/// Of those that have been waited for.
fn cpu_us_of_children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64)
}

fn read(text: &str) -> Option<Load> {
    let after = |what: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(what));
        line.map(str::trim)
    };
    let requests =
        text.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
    let bucket = |line: &str| {
        let (value, count) = line.strip_prefix("us ")?.split_once(' ')?;
        Some((value.parse().ok()?, count.parse().ok()?))
    };
    Some(Load {
        requests: requests?,
        per_second: after("Requests/sec:")?.parse().ok()?,
        latencies: text.lines().filter_map(bucket).collect(),
        own_cpu_us: 0.0,
    })
}

/// The time within which so many percent of the requests were answered.
pub fn percentile(latencies: &Histogram, percent: f64) -> Option<f64> {
    let total: u64 = latencies.values().sum();
    let mut left = (total as f64 * percent / 100.0).ceil().max(1.0) as u64;
    for (value, count) in latencies {
        if left <= *count {
            return Some(*value as f64);
        }
        left -= count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says() {
        let said = "Running 2s test @ http://127.0.0.1:1/small\n  1 threads and 8 connections\n  \
                    49871 requests in 2.00s, 59.1MB read\nRequests/sec:  24920.13\nTransfer/sec: 29MB\n\
                    us 27 1\nus 300 2\n";
        let load = read(said).unwrap();
        assert_eq!((load.requests, load.per_second), (49871.0, 24920.13));
        assert_eq!(load.latencies, Histogram::from([(27, 1), (300, 2)]));
        assert_eq!(read("nothing"), None);
    }

    #[test]
    fn what_ab_says() {
        let said = "Complete requests:      5000\nFailed requests:        0\n\
                    Requests per second:    8181.07 [#/sec] (mean)\n";
        let table = "Percentage served,Time in ms\n0,0.071\n50,0.101\n99,0.183\n100,1.2\n";
        let fresh = read_ab(said, table).unwrap();
        assert_eq!((fresh.requests, fresh.per_second), (5000.0, 8181.07));
        assert_eq!((fresh.median_us, fresh.tail_us), (101.0, 183.0));
        assert_eq!(read_ab(&format!("{said}Non-2xx responses:      5000\n"), table), None);
        assert_eq!(read_ab(&said.replace("requests:        0", "requests:        1"), table), None);
    }

    #[test]
    fn percentiles_are_of_requests() {
        let latencies = Histogram::from([(10, 50), (20, 49), (900, 1)]);
        assert_eq!(percentile(&latencies, 50.0), Some(10.0));
        assert_eq!(percentile(&latencies, 99.0), Some(20.0));
        assert_eq!(percentile(&latencies, 99.5), Some(900.0));
        assert_eq!(percentile(&Histogram::new(), 50.0), None);
    }
}
