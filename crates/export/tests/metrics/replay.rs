//! Exchanges that `make servers` has recorded of real servers: what is sent now is what they took, and what they answered is
//! understood.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use weigh_export::metrics::{SpanSender, exporter};

use crate::reports;
use crate::server::{Received, Reply, Server};

/// The first line of a file.
#[derive(Deserialize)]
struct Head {
    exporter: String,
    server: String,
    sent_values: u64,
    lost_values: u64,
}

/// Each further line. Bodies are those of bulk requests: the others hold texts of the declaration, or are compressed.
#[derive(Clone, Deserialize)]
struct Exchange {
    method: String,
    path: String,
    content_type: String,
    body: Option<String>,
    status: u16,
    answer_headers: String,
    answer: String,
}

fn replay(name: &str, text: &str) {
    let mut lines = text.lines();
    let head: Head = serde_json::from_str(lines.next().unwrap()).unwrap();
    let exchanges: Vec<Exchange> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let (answers, differences) = (exchanges.clone(), wrong.clone());
    let server = Server::start(move |number, request| match answers.get(number) {
        Some(exchange) => {
            differences.lock().unwrap().extend(difference(number, exchange, request));
            Reply(exchange.status, exchange.answer_headers.clone(), exchange.answer.clone())
        }
        None => Reply::bare(500),
    });
    if head.exporter == SPANS {
        send_spans(&server, head.sent_values);
        assert!(wrong.lock().unwrap().is_empty(), "{name}: {:?}", wrong.lock().unwrap());
        assert_eq!(server.received().len(), exchanges.len(), "{name}");
        return;
    }
    let mut exporter = exporter(&format!("{}={}", head.exporter, server.origin)).unwrap();
    reports().iter().for_each(|report| exporter.take(report));
    let until = Instant::now() + Duration::from_secs(30);
    while let Some(due) = exporter.next_attempt().filter(|_| Instant::now() < until) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let _ = exporter.send();
    }
    let status = exporter.status();
    assert!(
        wrong.lock().unwrap().is_empty(),
        "{name}, {}: {:?}",
        head.server,
        wrong.lock().unwrap()
    );
    assert_eq!(server.received().len(), exchanges.len(), "{name}: {status:?}");
    let counts = (status.sent_values, status.lost_values);
    assert_eq!(counts, (head.sent_values, head.lost_values), "{name}: {status:?}");
}

/// The exporter that files of spans name.
const SPANS: &str = "spans";

fn send_spans(server: &Server, expected: u64) {
    let mut sender = SpanSender::open(&format!("otlp={}", server.origin)).unwrap();
    for request in include_str!("data/spans.jsonl").lines() {
        sender.send(request).unwrap();
    }
    assert_eq!(sender.sent(), expected);
}

fn difference(number: usize, exchange: &Exchange, request: &Received) -> Option<String> {
    let of = |method: &str, path: &str, kind: &str| format!("{method} {path} {kind}");
    let recorded = of(&exchange.method, &exchange.path, &exchange.content_type);
    let now = of(&request.method, &request.path, &request.content_type);
    let is_same = exchange.body.as_ref().is_none_or(|body| body.as_bytes() == request.body);
    (recorded != now || !is_same)
        .then(|| format!("request {number} was {recorded}, is {now}; body as before: {is_same}"))
}

#[test]
fn what_real_servers_took_is_sent_and_what_they_answered_is_understood() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metrics/data/exchanges");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        replay(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0);
}
