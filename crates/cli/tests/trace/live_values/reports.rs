//! What programs have of a stream: metrics that they collect, and reports that they read along.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::{QUEUE, Stream};
use crate::support::library::{NOBODY, must, packaged_python_module};
use crate::support::mortal::Mortal;
use crate::support::run::weigh;
use crate::support::trace::succeeds;
use crate::support::{patience, wait_until, weigh_binary};

/// What a socket answers to a request for the metrics.
fn scrape(mut stream: impl std::io::Read + std::io::Write, headers: &str) -> String {
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

/// A sample's value.
fn value_of(text: &str, name: &str, label: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name) && line.contains(label))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn metrics_have_what_was_sent_while_it_runs() {
    needs_root!();
    let stream = Stream::start(&[
        "-q",
        "-e",
        QUEUE,
        "--top",
        "3 by comm",
        "--histogram",
        "skb->len by cpu",
        "--metrics",
        "./metrics.sock",
    ]);
    let sent = stream.stop_sending() as f64;
    let accept = "Accept: application/openmetrics-text\r\n";
    let connect = || UnixStream::connect(stream.file("metrics.sock")).expect("it listens");
    // What came too late for its place is counted apart.
    let told = |text: &str| {
        let number = |name: &str, label: &str| value_of(text, name, label).unwrap_or(0.0);
        number("weigh_trace_key_events_total", "comm=\"datagrams\"")
            + number("weigh_trace_late_events_total", "")
            + number("weigh_trace_lost_events_total", "top")
    };
    let late = Instant::now() + patience(60.0);
    let mut text = scrape(connect(), accept);
    while told(&text) != sent {
        assert!(Instant::now() < late, "{sent} were sent: {text}");
        text = scrape(connect(), accept);
    }
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let of_rows = |name: &str| -> f64 {
        let rows = text.lines().filter(|line| line.starts_with(name) && line.contains("histogram"));
        rows.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let counted = of_rows("weigh_trace_key_values_count");
    assert!(counted > 0.0, "{text}");
    assert_eq!(of_rows("weigh_trace_key_values_sum"), 142.0 * counted, "{text}");
    let mode = std::fs::metadata(stream.file("metrics.sock")).expect("it is there");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    // Another user is turned away.
    let mut other = Command::new("setpriv");
    other.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "python3", "-c"]);
    other.arg("import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])");
    let refused = other.arg(stream.file("metrics.sock")).output().expect("it starts");
    assert!(!refused.status.success());
    stream.touch("end");
    let (scratch, ..) = stream.end();
    assert!(!scratch.path("work/metrics.sock").exists(), "the socket is left behind");
}

#[test]
fn metrics_on_a_port_are_for_who_has_the_token() {
    needs_root!();
    let stream = Stream::start(&[
        "-q",
        "-e",
        QUEUE,
        "--top",
        "3 by comm",
        "--metrics",
        "127.0.0.1:0",
        "--token-file",
        "token",
    ]);
    wait_until("it says where", 60.0, || stream.scratch.text("said").contains("/metrics\n"));
    let said = stream.scratch.text("said");
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{said}")).to_string();
    let connect = || TcpStream::connect(&address).expect("it listens");
    let token = stream.text("token");
    assert!(scrape(connect(), "").starts_with("HTTP/1.1 401"));
    let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
    assert!(scrape(connect(), &wrong).starts_with("HTTP/1.1 401"));
    let right = format!("Authorization: Bearer {}\r\n", token.trim());
    let sent = stream.stop_sending() as f64;
    wait_until("all is told", 60.0, || {
        let text = scrape(connect(), &right);
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        value_of(&text, "weigh_trace_events_total", "") == Some(sent)
    });
    stream.touch("end");
    stream.end();
}

/// The reports in lines of JSON.
fn reports_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn reports_come_to_who_attaches_until_the_last_which_is_whole() {
    needs_root!();
    let stream = Stream::start(&["-q", "-e", QUEUE, "--rate", "by comm"]);
    wait_until("it answers", 60.0, || stream.register().is_some());
    let pid = stream.weigh.id().to_string();
    let mut attach = Command::new(weigh_binary());
    attach.args(["trace", "attach", &pid, "--reports=100ms"]).stdout(Stdio::piped());
    let attach = Mortal::of(attach.spawn());
    let script = "import json, sys, weigh\n\
                  with weigh.reports(int(sys.argv[1]), every=0.1) as reports:\n\
                  \x20   for report in reports: print(json.dumps(report), flush=True)\n\
                  \x20   assert reports.ended\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script, &pid]).env("PYTHONPATH", packaged_python_module());
    let python = Mortal::of(python.stdout(Stdio::piped()).spawn());
    wait_until("both are there", 60.0, || {
        stream.register().is_some_and(|register| register["report_readers"] == 2)
    });
    let sent = stream.stop_sending();
    // Both have some more of them.
    std::thread::sleep(std::time::Duration::from_millis(500));
    stream.touch("end");
    stream.end();
    for reader in [attach, python] {
        let output = reader.wait_with_output().expect("it ends");
        succeeds(&output);
        let reports = reports_of(&String::from_utf8_lossy(&output.stdout));
        assert!(reports.iter().all(|report| report["schema"] == "weigh.synthesis/1"));
        let totals: Vec<u64> =
            reports.iter().filter_map(|report| report["events_total"].as_u64()).collect();
        assert!(totals.len() >= 3 && totals.is_sorted(), "{totals:?}");
        assert_eq!(totals.last(), Some(&sent), "{totals:?}");
    }
}

#[test]
fn a_stream_without_reports_says_so_and_so_does_a_wrong_time() {
    needs_root!();
    let stream = Stream::start(&["-q", "-e", QUEUE, "-o", "events.jsonl"]);
    wait_until("it answers", 60.0, || stream.register().is_some());
    let pid = stream.weigh.id().to_string();
    let output = weigh(&stream.scratch, &["trace", "attach", &pid, "--reports"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--latency"), "{said}");
    let script = "import sys, weigh\n\
                  for every in 1, 0.05:\n\
                  \x20   try: weigh.reports(int(sys.argv[1]), every=every)\n\
                  \x20   except OSError as error: print(error)\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-c", script, &pid]).env("PYTHONPATH", packaged_python_module());
    let said = String::from_utf8_lossy(&must(&mut python).stdout).into_owned();
    assert_eq!(said.matches("the stream refuses what was asked for").count(), 2, "{said}");
    stream.touch("stop");
    stream.touch("end");
    stream.end();
}
