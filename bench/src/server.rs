//! Servers of small files under load, their requests accounted and not: requests a second, CPU time,
//! latency, and what a program beside them pays.
//!
//! Refuses a round in which weigh did not see the requests that were made.

mod load;
mod site;
mod tables;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, getppid, kill_process};

use crate::machine;
use crate::page::Page;
use crate::plot;
use crate::runs::Bench;
use crate::spread::Spread;
use load::{CONNECTIONS, Fresh, Histogram, Load, Pace};
use site::{FILE_BYTES, Kind, Server};

/// How a server is watched.
#[derive(Clone, Copy)]
enum Watched {
    Not,
    /// It has the library in it, and an agent runs, but nobody asks for anything.
    Idle,
    /// Accounts of these parts of the kernel, for each call that takes, receives or sends.
    Accounted(&'static str),
}

struct Way {
    name: &'static str,
    watched: Watched,
    /// By how many percent there may be fewer requests a second.
    fewer: Option<f64>,
    /// By how many percent median and 99th percentile of the latency may be longer.
    longer: Option<[f64; 2]>,
}

const WAYS: [Way; 4] = [
    Way { name: "not watched", watched: Watched::Not, fewer: None, longer: None },
    Way { name: "attached, idle", watched: Watched::Idle, fewer: Some(1.0), longer: None },
    Way {
        name: "sched and socket",
        watched: Watched::Accounted("sched,socket"),
        fewer: Some(3.0),
        longer: None,
    },
    Way {
        name: "all of the network",
        watched: Watched::Accounted("sched,irq,socket,tcp,net"),
        fewer: Some(10.0),
        longer: Some([3.0, 5.0]),
    },
];

/// Nanoseconds that a getppid() beside may take longer.
const BESIDE_NS: f64 = 10.0;

/// What one round says of one way.
struct Sample {
    /// Whether another weigh ran on the machine.
    disturbed: bool,
    full: Load,
    slow: Load,
    /// CPU time of the server for each request, at full load.
    cpu_us: f64,
    /// A connection for each request: one at a time, and several.
    alone: Fresh,
    at_once: Fresh,
    /// CPU time of the server for each request that came alone.
    alone_cpu_us: f64,
    getppid_ns: f64,
}

/// The rounds of a server, by way.
type Samples = [Vec<Sample>; WAYS.len()];

/// Of requests with a connection each: one at a time, and several at once.
const ALONE: u64 = 5000;
const AT_ONCE: u64 = 10_000;

/// Requests a second of the paper's lighttpd (its table 1), not watched and watched.
const PAPER_BARE: f64 = 2486.4;
const PAPER_WATCHED: f64 = 1716.9;

const SECONDS: u64 = 600;
const ROUNDS: usize = 21;
/// Fewer say nothing.
const LEAST: usize = 6;

/// An agent that nobody asks for anything.
struct Agent(Child);

impl Agent {
    fn start(bench: &Bench) -> Result<Agent> {
        let socket = bench.path("agent.sock");
        let mut command = Command::new(bench.weigh_path());
        command.arg("agent").arg("--socket").arg(socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let agent = Agent(command.spawn().context("weigh agent")?);
        std::thread::sleep(Duration::from_millis(500));
        Ok(agent)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// The middle of many short series.
fn getppid_ns() -> f64 {
    const CALLS: u32 = 5000;
    let series = (0..41).map(|_| {
        let began = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(getppid());
        }
        began.elapsed().as_nanos() as f64 / f64::from(CALLS)
    });
    Spread::of(series).median
}

/// One way of one round.
fn sample(bench: &Bench, kind: Kind, watched: Watched) -> Result<Sample> {
    let (server, _agent, own) = match watched {
        Watched::Not => (Server::start(bench, kind, None)?, None, 0),
        Watched::Idle => {
            let options = ["--subsystems", "sched,socket", "--for", "1ms"];
            let server = Server::start(bench, kind, Some(&options))?;
            let began = Instant::now();
            while !server.has_been_told_of(bench) {
                ensure!(
                    began.elapsed() < Duration::from_secs(20),
                    "weigh calls --for does not end"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
            (server, Some(Agent::start(bench)?), 2)
        }
        Watched::Accounted(subsystems) => {
            let options = ["--only", "network", "--subsystems", subsystems];
            (Server::start(bench, kind, Some(&options))?, None, 1)
        }
    };
    let before = server.cpu_us()?;
    let full = Load::put(bench, server.port, Pace::Full)?;
    let cpu_us = (server.cpu_us()? - before) / full.requests;
    let slow = Load::put(bench, server.port, Pace::Slow)?;
    let before = server.cpu_us()?;
    let alone = Fresh::put(bench, server.port, ALONE, 1)?;
    let alone_cpu_us = (server.cpu_us()? - before) / alone.requests;
    let at_once = Fresh::put(bench, server.port, AT_ONCE, CONNECTIONS)?;
    let getppid_ns = getppid_ns();
    let disturbed = machine::weighs_running()? > own;
    let requests = full.requests + slow.requests + alone.requests + at_once.requests;
    let seen = server.end(bench)?;
    // Each is received and answered, by at least two calls.
    ensure!(
        !matches!(watched, Watched::Accounted(_)) || seen >= 2.0 * requests,
        "weigh saw {seen} calls of {requests} requests"
    );
    Ok(Sample { disturbed, full, slow, cpu_us, alone, at_once, alone_cpu_us, getppid_ns })
}

/// All ways, one right after the other, and each round begins with another one.
fn round(bench: &Bench, kind: Kind, number: usize, samples: &mut Samples) -> Result<()> {
    for offset in 0..WAYS.len() {
        let which = (number + offset) % WAYS.len();
        samples[which].push(sample(bench, kind, WAYS[which].watched)?);
    }
    Ok(())
}

/// Leaves out the rounds in which another weigh ran, if enough others are left. How many did.
fn leave_out_disturbed(samples: &mut Samples) -> String {
    let disturbed: Vec<bool> =
        (0..samples[0].len()).map(|round| samples.iter().any(|way| way[round].disturbed)).collect();
    let (all, left) = (disturbed.len(), disturbed.iter().filter(|is| !**is).count());
    if left == all {
        return format!("{all} rounds");
    }
    if left < LEAST {
        return format!("{all} rounds, another weigh ran in {} of them", all - left);
    }
    for way in samples {
        let mut rounds = disturbed.iter();
        way.retain(|_| rounds.next() == Some(&false));
    }
    format!("{left} rounds, and {} in which another weigh ran are left out", all - left)
}

/// Takes the figures, and writes them. The picture of the latencies.
pub fn write(bench: &Bench, page: &mut Page) -> Result<String> {
    eprintln!("server");
    let mut samples: [Samples; 2] = Default::default();
    let (began, load, mut number) = (Instant::now(), machine::load()?, 0);
    while number < bench.times(ROUNDS) && (number < LEAST || began.elapsed().as_secs() < SECONDS) {
        for (kind, samples) in Kind::ALL.into_iter().zip(&mut samples) {
            round(bench, kind, number, samples)?;
        }
        number += 1;
    }
    page.heading(2, "A server whose requests are accounted");
    page.paragraph(&method());
    page.paragraph(&format!(
        "Load averages (1, 5, 15 minutes) of the machine: {load} before, {} after. Where others have \
         the CPUs, too, the figures say little, as their intervals show.",
        machine::load()?
    ));
    for (kind, samples) in Kind::ALL.iter().zip(&mut samples) {
        let rounds = leave_out_disturbed(samples);
        page.heading(3, &format!("{}: {rounds}", kind.name()));
        for table in tables::all(samples) {
            page.table(&table);
        }
    }
    page.picture("Latency of requests, not watched and accounted", "images/latency.svg");
    plot::latencies(&Kind::ALL.iter().zip(&samples).map(panel).collect::<Vec<_>>())
}

fn method() -> String {
    format!(
        "Debian's nginx and lighttpd, each in one process, serve a file of {FILE_BYTES} bytes, at first to wrk \
         ({CONNECTIONS} connections that stay open, one thread, the same machine), with what their \
         packages' configurations say. “Accounted” is `weigh calls --mechanism preload --only network \
         --subsystems …`: for each call by which the server takes a connection, receives or sends, its \
         time, and what it does in these parts of the kernel. “Idle” is a server that has weigh's \
         library in it, and an agent beside it, when nobody asks for anything any more. In each round \
         each way has a server of its own, one right after the other: first for 1 s at full load, then \
         for 1 s with rests of 1 to 3 ms at each connection. At full load a request waits for those \
         before it, so its latency follows from the throughput; the latencies that targets are about \
         are those with rests. Then ab asks {ALONE} times, one request after the other, and {AT_ONCE} \
         times, {CONNECTIONS} at once, each over a connection of its own: that is what the paper behind \
         `weigh calls` measured (http_load and http_ping), its −31 % and +3.9 % are of that, in a time when \
         a request took longer: of its {PAPER_BARE:.1} and {PAPER_WATCHED:.1} requests a second follow \
         {:.0} µs more for each. Connections that stay open are the harder case: the server does less \
         for a request. Changes are medians of the ratios to the round's unwatched server, with their \
         95 % interval; “least” is the least of all rounds. libweigh itself is not \
         measured apart: the library in the server is libweigh, with one account for each kind of \
         call, and the clocks and histograms of `weigh calls` on top.",
        1e6 / PAPER_WATCHED - 1e6 / PAPER_BARE
    )
}

/// The latencies of all rounds, by way.
fn panel((kind, samples): (&Kind, &Samples)) -> plot::Latencies {
    let all = |samples: &Vec<Sample>| {
        let mut sum = Histogram::new();
        for (value, count) in samples.iter().flat_map(|sample| &sample.slow.latencies) {
            *sum.entry(*value).or_default() += count;
        }
        sum
    };
    let lines = WAYS.iter().zip(samples).map(|(way, of)| (way.name.to_string(), all(of)));
    plot::Latencies { title: kind.name().to_string(), lines: lines.collect() }
}
