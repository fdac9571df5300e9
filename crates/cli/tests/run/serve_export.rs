//! `weigh serve --export` and `/metrics`: the real node, into a file and to a server that stores nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weigh_schema::metric_name;
use weigh_schema::node_metric::node_forks_total as forks;
use weigh_schema::top::{TopJobKind, TopReport};
use weigh_schema::update::Scope;

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, set_surroundings};
use crate::support::{patience, weigh_binary};

/// Starts it; the process, and its address and token.
fn start(scratch: &Scratch, options: &[&str]) -> (Mortal, String, String) {
    let mut command = Command::new(weigh_binary());
    set_surroundings(&mut command, scratch);
    command.arg("serve").arg(scratch.path("work")).args(options);
    let mut child = Mortal::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn());
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let url = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("no URL: {line}"));
    let (address, token) = url.split_once("/?token=").expect("a token");
    (child, address.to_string(), token.to_string())
}

fn forks_of(report: &TopReport) -> f64 {
    report.metrics[&Scope::Node][forks.name].value.expect("the kernel counts them").as_f64()
}

#[test]
fn the_nodes_metrics_go_where_they_are_sent_until_the_end() {
    let scratch = Scratch::new();
    let file = scratch.path("work").join("node.jsonl");
    // Nothing answers there: it holds up neither the file nor the end.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let prometheus = format!("prometheus=http://{}", silent.local_addr().expect("an address"));
    let jsonl = format!("jsonl={}", file.display());
    let options = ["--export", &jsonl, "--export", &prometheus, "--export-interval", "100ms"];
    let (mut child, address, token) = start(&scratch, &options);
    let read = || -> Vec<TopReport> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let whole = text.lines().take(text.matches('\n').count());
        whole.map(|line| serde_json::from_str(line).expect("a report")).collect()
    };
    let until = Instant::now() + patience(20.0);
    while read().len() < 5 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let open = get_metrics(&address, &token, "Accept: application/openmetrics-text\r\n");
    assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
    // A client that does not name it has text 0.0.4, in which a counter's type has its whole name.
    let answer = get_metrics(&address, &token, "");
    let counter = format!("# TYPE {} counter\n", forks.name);
    assert!(answer.contains("text/plain; version=0.0.4") && answer.contains(&counter), "{answer}");
    assert!(!answer.contains("# EOF"), "{answer}");
    let line = format!("\n{} ", forks.name);
    let scraped = answer.split_once(&line).and_then(|(_, rest)| rest.lines().next());
    let scraped: f64 = scraped.and_then(|text| text.parse().ok()).expect("a number");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
    assert!(child.wait().expect("it ends").success());
    let reports = read();
    assert!(reports.len() >= 5, "{}", reports.len());
    assert!(reports.windows(2).all(|two| two[0].time < two[1].time));
    assert!(reports.iter().all(|report| report.processes.is_empty() && report.jobs.is_empty()));
    let (first, last) = (forks_of(&reports[0]), forks_of(&reports[reports.len() - 1]));
    assert!(first <= scraped && first <= last, "{first} {scraped} {last}");
    let pressure = metric_name::node_pressure_cpu_some_seconds_total;
    let has_pressure = std::path::Path::new("/proc/pressure/cpu").exists();
    assert_eq!(reports[0].metrics[&Scope::Node].contains_key(pressure), has_pressure);
}

#[test]
fn jobs_are_exported_where_they_are_asked_for_and_no_more_than_that() {
    let scratch = Scratch::new();
    let file = scratch.path("work").join("node.jsonl");
    let mut command = Command::new(weigh_binary());
    set_surroundings(&mut command, &scratch);
    command
        .args(["run", "-q", "-o"])
        .arg(scratch.path("work").join("job"))
        .args(["--", "sleep", "600"]);
    let _job = Mortal::of(command.stdin(Stdio::null()).spawn());
    let jsonl = format!("jsonl={}", file.display());
    let options = ["--export", &jsonl, "--export-interval", "100ms", "--export-jobs=1"];
    let (_child, address, token) = start(&scratch, &options);
    let until = Instant::now() + patience(20.0);
    let jobs = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let whole = text.lines().take(text.matches('\n').count());
        let reports = whole.map(|line| serde_json::from_str::<TopReport>(line).expect("a report"));
        if let Some(report) = reports.last().filter(|report| !report.jobs.is_empty()) {
            break report.jobs;
        }
        assert!(Instant::now() < until, "no job is exported");
        std::thread::sleep(Duration::from_millis(20));
    };
    // Sessions of weigh run come before all others, and there may be more of them.
    assert_eq!((jobs.len(), jobs[0].kind), (1, TopJobKind::Weigh));
    let answer = get_metrics(&address, &token, "");
    let lines = answer.lines().filter(|line| line.starts_with("job_processes{"));
    assert_eq!(lines.clone().count(), 1, "{answer}");
    assert!(lines.clone().all(|line| line.contains("job_kind=\"weigh\"")), "{answer}");
    for wrong in ["0", "70000", "many"] {
        let option = format!("--export-jobs={wrong}");
        let output = Command::new(weigh_binary()).args(["serve", &option]).output().expect("weigh");
        assert!(!output.status.success() && output.stdout.is_empty(), "{wrong}");
    }
}

fn get_metrics(address: &str, token: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{accept}Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_target_that_cannot_be_is_refused_before_anything_is_served() {
    for (target, expected) in [("influx=x", "jsonl=FILE"), ("otlp=ftp://x", "https://")] {
        let command = Command::new(weigh_binary()).args(["serve", "--export", target]).output();
        let output = command.expect("weigh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(expected) && output.stdout.is_empty(), "{said}");
    }
}
