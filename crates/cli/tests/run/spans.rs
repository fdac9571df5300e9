//! Recordings as spans of OpenTelemetry: a real job, and a collector that answers by script.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::channel;

use serde_json::Value;

use crate::support::run::{Weigh, weigh};

/// A collector: it answers each request with the next of these, and hands the requests on.
fn collector(answers: &'static [&'static str]) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = format!("otlp=http://{}", listener.local_addr().expect("an address"));
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for (answer, stream) in answers.iter().zip(listener.incoming()) {
            let mut reader = BufReader::new(stream.expect("a connection"));
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                head += &std::mem::take(&mut line).to_lowercase();
            }
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let mut body = vec![0; length.and_then(|text| text.parse().ok()).expect("a length")];
            reader.read_exact(&mut body).expect("a body");
            reader.get_mut().write_all(answer.as_bytes()).expect("it reads");
            // The test may be over.
            let _ = sender.send(String::from_utf8(body).expect("text"));
        }
    });
    (target, received)
}

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BAD: &str = "HTTP/1.1 400 Bad\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope";

fn spans(text: &str) -> Vec<Value> {
    let requests = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    requests
        .flat_map(|request: Value| {
            let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.as_array().expect("spans").clone()
        })
        .collect()
}

#[test]
fn a_job_and_its_processes_are_spans_and_a_collector_gets_the_same() {
    let measured = Weigh::bash("/bin/true; (exit 3); exit 0").option("--label=a=b").measure();
    let place = measured.scratch.path("recording").display().to_string();
    let output = weigh(&measured.scratch, &["export", "--format", "otlp", &place]);
    let text = String::from_utf8(output.stdout).expect("text");
    let found = spans(&text);
    let rows = measured.processes();
    assert_eq!(found.len(), rows.len() + 1, "{text}");
    for row in &rows {
        let is_it =
            |span: &&Value| span["startTimeUnixNano"] == row.started_ns.to_string().as_str();
        let span = found[1..].iter().find(is_it).expect("each process is a span");
        assert_eq!(span["name"], row.name.as_str());
        assert_eq!(span["status"]["code"] == 2, row.exit_code != Some(0), "{span}");
    }
    // What is below the job is the shell alone.
    let below_job = |span: &&Value| span["parentSpanId"] == found[0]["spanId"];
    assert_eq!(found.iter().filter(below_job).count(), 1);
    assert!(found.iter().all(|span| span["traceId"] == found[0]["traceId"]));
    let (target, received) = collector(&[BUSY, FINE]);
    let output = weigh(&measured.scratch, &["export", "--to", &target, &place]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.contains(&format!("{} spans were sent", found.len())), "{said}");
    let bodies: Vec<String> = received.iter().collect();
    assert_eq!(bodies, [text.trim_end(), text.trim_end()], "what was not taken comes again");
}

#[test]
fn what_a_collector_refuses_and_what_is_none_is_an_error() {
    let measured = Weigh::bash("exit 0").measure();
    let place = measured.scratch.path("recording").display().to_string();
    let (target, _received) = collector(&[BAD]);
    for (arguments, expected) in [
        (vec!["--to", &target], "400: nope"),
        (vec!["--to", "prometheus=http://127.0.0.1:1"], "otlp=http://HOST:PORT"),
        (vec!["--to", "otlp=ftp://127.0.0.1:1"], "http:// or https://"),
        (vec!["--to", &target, "--format", "otlp"], "cannot be used with"),
        (vec![], "--format"),
    ] {
        let words = [&["export"], &arguments[..], &[place.as_str()]].concat();
        let output = weigh(&measured.scratch, &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{words:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}
