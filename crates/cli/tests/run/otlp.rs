//! Spans of programs that speak OpenTelemetry, under `weigh run --regions`: against what the program says that it did.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use weigh_schema::region::RegionRow;

use crate::support::measured::Measured;
use crate::support::run::{Running, Weigh, bare};

fn command() -> [String; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ["target/annotated/bin/python", "libweigh/tools/tests/spans.py"]
        .map(|path| root.join(path).display().to_string())
}

fn rows(measured: &Measured) -> Vec<RegionRow> {
    let mut rows = Vec::new();
    measured.recording().each_region(|row| rows.push(row)).expect("the table can be read");
    rows
}

/// Calls by path, as the program says, and as the recording has them.
#[track_caller]
fn agrees(measured: &Measured) {
    let line = |line: &str| {
        let (number, path) = line.split_once(' ').expect("a number and a path");
        (path.to_string(), number.parse::<u64>().expect("a number"))
    };
    let said: BTreeMap<String, u64> =
        String::from_utf8_lossy(&measured.stdout).lines().map(line).collect();
    let rows = rows(measured);
    let found: BTreeMap<String, u64> =
        rows.iter().map(|row| (row.path.join("/"), row.calls)).collect();
    assert_eq!(found, said, "{rows:#?}");
    assert_eq!((said["solve/step"], said["short"]), (20, 1031));
}

#[test]
fn spans_are_regions_by_the_path_of_their_parents() {
    let command = command();
    let measured = Weigh::run(command.clone()).option("--regions=otlp").measure();
    agrees(&measured);
    let words = command.each_ref().map(String::as_str);
    assert_eq!(measured.stdout, bare(&measured.scratch, &words));
    let rows = rows(&measured);
    let of = |path: &[&str]| rows.iter().find(|row| row.path == path).expect("a row").clone();
    let (solve, step) = (of(&["solve"]), of(&["solve", "step"]));
    assert!(step.inclusive_seconds >= 0.020 && solve.inclusive_seconds >= step.inclusive_seconds);
    let inside = step.inclusive_seconds + of(&["solve", "gr\u{fc}\u{df}e"]).inclusive_seconds;
    assert!((solve.inclusive_seconds - inside - solve.exclusive_seconds).abs() < 1e-6);
    assert!(rows.iter().all(|row| row.process != 0), "the process is found: {rows:#?}");
    let found = measured.summary().regions.clone().expect("regions");
    assert_eq!((found.processes_total, found.calls_total), (1, 20 + 1031 + 2 + 2));
    assert!(found.lost.is_empty() && found.refused.is_empty(), "{found:?}");
}

#[test]
fn spans_that_are_packed_are_taken() {
    let run = Weigh::run(command()).option("--regions=otlp");
    agrees(&run.env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip").measure());
}

#[test]
fn where_the_user_has_said_where_spans_go_weigh_stands_aside() {
    let run = Weigh::run(["sh", "-c", "echo $OTEL_EXPORTER_OTLP_HEADERS"]);
    let run = run.option("--regions=otlp");
    let measured = run.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9").end();
    assert_eq!(measured.stdout, b"\n");
    let told = "otlp: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set already; it stands aside";
    assert!(measured.stderr.contains(told), "{}", measured.stderr);
}

/// A job that tells where spans go, and waits.
fn waiting() -> (Running, String, String) {
    let script = "echo $OTEL_EXPORTER_OTLP_ENDPOINT $OTEL_EXPORTER_OTLP_HEADERS >told.new; mv told.new told; \
                  until [ -e go ]; do sleep 0.02; done";
    let mut running = Weigh::bash(script).option("--regions=otlp").start();
    let told = running.scratch.path("work").join("told");
    running.wait_until("the job tells", 20.0, || told.exists());
    let text = std::fs::read_to_string(told).expect("it was told");
    let (address, header) = text.trim().split_once(' ').expect("two words");
    let address = address.strip_prefix("http://").expect("an address").to_string();
    (running, address, header.replacen('=', ": ", 1))
}

fn asked(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("weigh listens");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a time");
    let _ = stream.write_all(bytes);
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).lines().next().unwrap_or_default().to_string()
}

#[test]
fn requests_that_bring_no_spans_are_refused_and_hold_nothing_up() {
    let (running, address, header) = waiting();
    let silent: Vec<TcpStream> =
        (0..150).filter_map(|_| TcpStream::connect(&address).ok()).collect();
    let request = |first: &str, headers: &str, length: usize| {
        format!(
            "{first} HTTP/1.1\r\n{headers}\r\ncontent-type: application/x-protobuf\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let post = |headers: &str, length| request("POST /v1/traces", headers, length);
    let wrong = header.replace(": ", ": 0");
    assert_eq!(asked(&address, post(&wrong, 4).as_bytes()), "HTTP/1.1 401 Unauthorized");
    assert_eq!(asked(&address, b"\xff\x00 no HTTP\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(
        asked(&address, post(&header, 5 << 20).as_bytes()),
        "HTTP/1.1 413 Content Too Large"
    );
    let get = request("GET /v1/traces", &header, 0);
    assert_eq!(asked(&address, get.as_bytes()), "HTTP/1.1 405 Method Not Allowed");
    let garbage = [post(&header, 6).as_bytes(), b"\xff\xff\xff\xff\xff\xff"].concat();
    assert_eq!(asked(&address, &garbage), "HTTP/1.1 400 Bad Request");
    let bomb = post(&format!("{header}\r\ncontent-encoding: br"), 1) + "x";
    assert_eq!(asked(&address, bomb.as_bytes()), "HTTP/1.1 415 Unsupported Media Type");
    let metrics = request("POST /v1/metrics", &header, 3) + "abc";
    assert_eq!(asked(&address, metrics.as_bytes()), "HTTP/1.1 200 OK");
    let long = [b"POST /v1/traces HTTP/1.1\r\na: ".to_vec(), vec![b'x'; 20_000]].concat();
    // What it has not read when it closes may cost it the answer.
    let answer = asked(&address, &long);
    assert!(answer.is_empty() || answer.contains("431"), "{answer}");
    let begun = std::time::Instant::now();
    std::fs::write(running.scratch.path("work").join("go"), "").expect("a file");
    let measured = running.end();
    assert!(begun.elapsed() < crate::support::patience(20.0), "something was held up");
    drop(silent);
    let found = measured.summary().regions.clone().expect("what was refused is told");
    assert_eq!(found.refused["spans that make no sense"], 1, "{found:?}");
    assert_eq!(found.refused["a request that brings no message of OpenTelemetry"], 5);
    assert_eq!(found.processes_total, 0);
}
