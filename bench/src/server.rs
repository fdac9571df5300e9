//! A server of small files, its calls followed and not, under load: requests a second and latency.
//!
//! Reads what wrk says of nginx, and the report of `weigh calls`; refuses a round in which weigh did
//! not see the requests that were made.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::page::{Page, Table};
use crate::runs::Bench;
use crate::spread::Spread;

/// How the server is watched.
#[derive(Clone, Copy)]
enum Watched {
    Not,
    /// Another process is, so that the server pays only for the probes.
    Beside(&'static str),
    Followed(&'static str),
    /// It was started with the library that marks its calls.
    Marked(&'static str),
}

struct Way {
    name: &'static str,
    watched: Watched,
    /// By how many percent there may be fewer requests, and median and 99th percentile be longer.
    targets: Option<[f64; 3]>,
}

const NETWORK: &str = "sched,irq,socket,tcp,net,memory,lock";
const FEW: &str = "sched,socket";

const WAYS: [Way; 7] = [
    Way { name: "not watched", watched: Watched::Not, targets: None },
    Way {
        name: "calls of another process, sched and socket",
        watched: Watched::Beside(FEW),
        targets: Some([1.0, 3.0, 5.0]),
    },
    Way {
        name: "calls, sched and socket",
        watched: Watched::Followed(FEW),
        targets: Some([3.0, 3.0, 5.0]),
    },
    Way {
        name: "calls, all of the network",
        watched: Watched::Followed(NETWORK),
        targets: Some([10.0, 3.0, 5.0]),
    },
    Way {
        name: "calls by preload, sched and socket",
        watched: Watched::Marked(FEW),
        targets: Some([3.0, 3.0, 5.0]),
    },
    Way {
        name: "calls by preload, all of the network",
        watched: Watched::Marked(NETWORK),
        targets: Some([10.0, 3.0, 5.0]),
    },
    Way { name: "calls, every part", watched: Watched::Followed("all"), targets: None },
];

/// How long wrk asks in each way and round.
const LOAD_SECONDS: u64 = 2;
const SECONDS: u64 = 150;
const FILE_BYTES: usize = 1009;

/// What wrk says.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    requests: f64,
    per_second: f64,
    median_us: f64,
    p99_us: f64,
    /// CPU time of the server for each request.
    cpu_us: f64,
}

/// Reads the report of `wrk --latency`.
fn read_wrk(text: &str) -> Option<Load> {
    let after = |what: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(what));
        line.map(str::trim)
    };
    let requests =
        text.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
    Some(Load {
        requests: requests?,
        per_second: after("Requests/sec:")?.parse().ok()?,
        median_us: microseconds(after("50%")?)?,
        p99_us: microseconds(after("99%")?)?,
        cpu_us: 0.0,
    })
}

fn microseconds(text: &str) -> Option<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Some(number.trim().parse::<f64>().ok()? * factor);
        }
    }
    None
}

/// nginx, in one process.
struct Server {
    child: Child,
    port: u16,
    /// nginx itself, where the child is weigh.
    pid: u32,
}

impl Server {
    /// Starts it, by weigh if it is to be marked for these parts of the kernel.
    fn start(bench: &Bench, marked: Option<&str>) -> Result<Server> {
        let folder = bench.path(if marked.is_some() { "marked" } else { "server" });
        fs::create_dir_all(folder.join("logs")).context("a folder for the server")?;
        fs::write(folder.join("small"), vec![b'x'; FILE_BYTES]).context("a file to serve")?;
        // Free a moment ago; nobody else on the machine takes ports at random.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let configuration = format!(
            "master_process off; daemon off; user root; pid {0}/pid; error_log {0}/error;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; sendfile on; keepalive_requests 1000000;\n\
             client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;\n\
             uwsgi_temp_path {0}/d; scgi_temp_path {0}/e;\n\
             server {{ listen 127.0.0.1:{port}; root {0}; }} }}\n",
            folder.display()
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration).context("the server's configuration")?;
        let mut command = match marked {
            None => Command::new("nginx"),
            Some(subsystems) => {
                let mut command = Command::new(bench.weigh_path());
                command.args(["calls", "-q", "--mechanism", "preload", "-s", subsystems, "--json"]);
                command.arg(bench.path("calls.json")).args(["--", "nginx"]);
                command
            }
        };
        command.env("PATH", bench.search_path() + ":/usr/sbin");
        command.arg("-p").arg(&folder).arg("-c").arg(&file).arg("-e").arg(folder.join("error"));
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = Server { child: child.context("nginx")?, port, pid: 0 };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(server.child.try_wait()?.is_none(), "nginx has ended at once");
            ensure!(began.elapsed() < Duration::from_secs(10), "nginx does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = fs::read_to_string(folder.join("pid")).context("the server's pid")?;
        server.pid = pid.trim().parse().context("the server's pid")?;
        Ok(server)
    }

    fn ask(&self, bench: &Bench) -> Result<Load> {
        let address = format!("http://127.0.0.1:{}/small", self.port);
        let duration = format!("-d{LOAD_SECONDS}s");
        let words = ["wrk", "-t1", "-c8", &duration, "--latency", &address].map(String::from);
        let mut command = bench.command(&words)?;
        let before = self.cpu_us()?;
        let output = command.stdout(Stdio::piped()).output().context("wrk")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(!text.contains("Non-2xx"), "the server refused: {text}");
        let mut load = read_wrk(&text).with_context(|| format!("wrk said: {text}"))?;
        load.cpu_us = (self.cpu_us()? - before) / load.requests;
        Ok(load)
    }

    /// Its CPU time so far.
    fn cpu_us(&self) -> Result<f64> {
        let stat =
            fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).context("its CPU time")?;
        let nanoseconds =
            stat.split_whitespace().next().and_then(|first| first.parse::<f64>().ok());
        Ok(nanoseconds.context("its CPU time")? / 1e3)
    }

    /// Ends one that was marked. How many calls weigh saw.
    fn end_marked(mut self, bench: &Bench) -> Result<f64> {
        let pid = Pid::from_raw(self.pid as i32).context("a PID")?;
        kill_process(pid, Signal::TERM).context("nginx")?;
        self.child.wait().context("weigh calls")?;
        seen(bench)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `weigh calls` on a process that runs.
struct Watch {
    weigh: Child,
}

impl Watch {
    fn start(bench: &Bench, pid: u32, subsystems: &str) -> Result<Watch> {
        let report = bench.path("calls.json");
        let mut words = vec![bench.weigh_path(), "calls".into(), "-q".into(), "--json".into()];
        words.push(report.display().to_string());
        words.extend(["--subsystems".into(), subsystems.into(), "--pid".into(), pid.to_string()]);
        let weigh = bench.command(&words)?.spawn().context("weigh calls")?;
        // Until everything is attached it may have begun already: that only helps it.
        std::thread::sleep(Duration::from_millis(800));
        Ok(Watch { weigh })
    }

    /// How many calls it saw.
    fn end(mut self, bench: &Bench) -> Result<f64> {
        let pid = Pid::from_raw(self.weigh.id() as i32).context("a PID")?;
        kill_process(pid, Signal::INT).context("weigh calls")?;
        ensure!(self.weigh.wait()?.success(), "weigh calls failed");
        seen(bench)
    }
}

/// How many calls the report tells of.
fn seen(bench: &Bench) -> Result<f64> {
    let text = fs::read_to_string(bench.path("calls.json")).context("the report")?;
    let report: Value = serde_json::from_str(&text).context("the report")?;
    ensure!(report["lost_total"] == 0, "weigh lost {} calls", report["lost_total"]);
    report["calls_total"].as_f64().context("calls_total")
}

/// A server of its own, for the library is in it from its beginning.
fn marked_round(bench: &Bench, subsystems: &str) -> Result<Load> {
    let server = Server::start(bench, Some(subsystems))?;
    let load = server.ask(bench)?;
    let seen = server.end_marked(bench)?;
    ensure!(seen >= 2.0 * load.requests, "weigh saw {seen} calls of {} requests", load.requests);
    Ok(load)
}

fn round(bench: &Bench, server: &Server, watched: Watched) -> Result<Load> {
    let (subsystems, whom) = match watched {
        Watched::Not => return server.ask(bench),
        Watched::Followed(subsystems) => (subsystems, server.child.id()),
        Watched::Beside(subsystems) => (subsystems, std::process::id()),
        Watched::Marked(subsystems) => return marked_round(bench, subsystems),
    };
    let watch = Watch::start(bench, whom, subsystems)?;
    let load = server.ask(bench);
    let seen = watch.end(bench)?;
    let load = load?;
    let is_followed = matches!(watched, Watched::Followed(_));
    // Each request is read and answered, by at least two calls.
    if is_followed && seen < 2.0 * load.requests {
        bail!("weigh saw {seen} calls of {} requests", load.requests);
    }
    Ok(load)
}

/// Takes the figures, and writes them.
pub fn write(bench: &Bench, page: &mut Page) -> Result<()> {
    eprintln!("server");
    let server = Server::start(bench, None)?;
    let mut loads: Vec<Vec<Load>> = WAYS.iter().map(|_| Vec::new()).collect();
    let begin = Instant::now();
    server.ask(bench)?;
    for number in 0..bench.times(15) {
        if number >= 6 && begin.elapsed().as_secs() > SECONDS {
            break;
        }
        for offset in 0..WAYS.len() {
            let which = (number + offset) % WAYS.len();
            loads[which].push(round(bench, &server, WAYS[which].watched)?);
        }
    }
    page.heading(2, "A server whose calls are followed");
    page.paragraph(&format!(
        "nginx in one process serves a file of {FILE_BYTES} bytes to wrk (8 connections that stay \
         open, one thread, {LOAD_SECONDS} s at a time), with `weigh calls --pid` on it and \
         without, in turn; {} rounds. Changes are medians of the ratios to the round's unwatched \
         part. Server and wrk share the machine, so each pays for what the other is slowed by.",
        loads[0].len()
    ));
    page.table(&table(&loads));
    Ok(())
}

fn table(loads: &[Vec<Load>]) -> Table {
    let mut table = Table::new([
        "watched",
        "requests/s",
        "change",
        "95 % interval",
        "median",
        "change",
        "p99",
        "change",
        "CPU/request",
        "change",
        "targets",
        "verdict",
    ]);
    for (way, own) in WAYS.iter().zip(loads) {
        let change = |figure: fn(&Load) -> f64| {
            let pairs = own.iter().zip(&loads[0]);
            Spread::of(pairs.map(|(load, bare)| (figure(load) / figure(bare) - 1.0) * 100.0))
        };
        let median = |figure: fn(&Load) -> f64| Spread::of(own.iter().map(figure)).median;
        let (rate, middle, tail) =
            (change(|l| l.per_second), change(|l| l.median_us), change(|l| l.p99_us));
        let verdict = match way.targets {
            None => "–".to_string(),
            Some(targets) => verdict(targets, [-rate.median, middle.median, tail.median]),
        };
        let interval = |spread: &Spread| {
            spread.interval.map_or("–".into(), |(low, high)| format!("{low:+.1} … {high:+.1} %"))
        };
        let is_bare = matches!(way.watched, Watched::Not);
        let changed = |spread: &Spread| match is_bare {
            true => "–".to_string(),
            false => format!("{:+.1} %", spread.median),
        };
        table.row([
            way.name.to_string(),
            format!("{:.0}", median(|l| l.per_second)),
            changed(&rate),
            if is_bare { "–".into() } else { interval(&rate) },
            format!("{:.0} µs", median(|l| l.median_us)),
            changed(&middle),
            format!("{:.0} µs", median(|l| l.p99_us)),
            changed(&tail),
            format!("{:.1} µs", median(|l| l.cpu_us)),
            changed(&change(|l| l.cpu_us)),
            way.targets.map_or("–".into(), |[a, b, c]| format!("-{a} %, +{b} %, +{c} %")),
            verdict,
        ]);
    }
    table
}

fn verdict(targets: [f64; 3], worse: [f64; 3]) -> String {
    let names = ["requests", "median", "p99"];
    let missed: Vec<&str> = (0..3).filter(|i| worse[*i] > targets[*i]).map(|i| names[i]).collect();
    match missed.is_empty() {
        true => "medians within".to_string(),
        false => format!("missed: {}", missed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says() {
        let said = "Running 2s test @ http://127.0.0.1:1/small\n  1 threads and 8 connections\n  \
                    Latency Distribution\n     50%  304.00us\n     75%  371.00us\n     99%    1.20ms\n  \
                    49871 requests in 2.00s, 59.1MB read\nRequests/sec:  24920.13\nTransfer/sec: 29MB\n";
        let load = read_wrk(said).unwrap();
        assert_eq!((load.requests, load.per_second), (49871.0, 24920.13));
        assert_eq!((load.median_us, load.p99_us), (304.0, 1200.0));
        assert_eq!(read_wrk("nothing"), None);
    }

    #[test]
    fn what_is_worse_than_promised_is_named() {
        assert_eq!(verdict([3.0, 3.0, 5.0], [2.0, 3.0, -1.0]), "medians within");
        assert_eq!(verdict([3.0, 3.0, 5.0], [4.0, 3.0, 6.0]), "missed: requests, p99");
    }
}
