//! Order, repeats, losses: held to what the server got.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weigh_export::metrics::{ExportThread, ExporterStatus, MetricExporter, exporter};

use crate::server::{Received, Reply, Server};
use crate::{later, reports, values};

/// Sends until nothing is left.
fn send_all(exporter: &mut dyn MetricExporter) -> ExporterStatus {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let _ = exporter.send();
        match exporter.next_attempt() {
            None => return exporter.status(),
            Some(due) => {
                assert!(Instant::now() < until, "{:?}", exporter.status());
                std::thread::sleep(due - Instant::now());
            }
        }
    }
}

/// Milliseconds of the first sample of a request of version 1.0: they are the same in all of its series.
fn times(received: &[Received]) -> Vec<u64> {
    let time = |request: &Received| {
        let message = snap::raw::Decoder::new().decompress_vec(&request.body).unwrap();
        // Value (field 1, 8 bytes), then time (field 2, a varint of 6 bytes in these years).
        let at = message.windows(10).position(|w| w[0] == 0x09 && w[9] == 0x10).unwrap();
        let digits = message[at + 10..at + 16].iter().rev();
        digits.fold(0, |time, byte| time << 7 | u64::from(byte & 0x7f))
    };
    received.iter().map(time).collect()
}

#[test]
fn what_a_broken_server_did_not_take_comes_again_in_order() {
    // 2.0 is not understood; then: busy, cut off, broken, and from then on all is taken.
    let server = Server::start(|number, _| match number {
        0 => Reply::bare(415),
        1 => Reply(429, "Retry-After: 1\r\n".to_string(), "slow down".to_string()),
        3 => Reply::bare(0),
        4 => Reply::bare(503),
        _ => Reply::bare(204),
    });
    let mut exporter = exporter(&format!("prometheus={}", server.origin)).unwrap();
    let began = Instant::now();
    (0..4).for_each(|second| exporter.take(&later(second)));
    let status = send_all(exporter.as_mut());
    assert!(began.elapsed() >= Duration::from_secs(1), "Retry-After is honoured");
    let received = server.received();
    let versions: Vec<&str> = received.iter().map(|request| &request.version[..]).collect();
    assert_eq!(versions[..3], ["2.0.0", "0.1.0", "0.1.0"]);
    assert!(received.iter().all(|r| (&r.method[..], &r.path[..]) == ("POST", "/api/v1/write")));
    let first = times(&received[1..2])[0];
    let seconds: Vec<u64> =
        times(&received[1..]).iter().map(|time| (time - first) / 1000).collect();
    assert_eq!(seconds, [0, 0, 1, 1, 1, 2, 3]);
    assert_eq!(
        (status.sent_values, status.lost_values, status.retries),
        (4 * values(&later(0)), 0, 3)
    );
    assert_eq!(status.left_out_values, 4, "a metric that is not declared, once a report");
}

#[test]
fn what_a_server_refuses_is_dropped_counted_and_said() {
    let server = Server::start(|number, _| match number {
        1 => Reply(400, String::new(), "out of order sample".to_string()),
        _ => Reply(
            204,
            "X-Prometheus-Remote-Write-Samples-Written: 139\r\n".to_string(),
            String::new(),
        ),
    });
    let mut exporter = exporter(&format!("prometheus={}/push", server.origin)).unwrap();
    reports().iter().for_each(|report| exporter.take(report));
    let status = send_all(exporter.as_mut());
    let [written, refused] = [0, 1].map(|number| values(&reports()[number]));
    assert!(written > 139);
    assert_eq!(status.lost_values, refused + (written - 139));
    let error = status.last_error.unwrap();
    assert!(error.contains("400") && error.contains("out of order sample"), "{error}");
    assert!(server.received().iter().all(|request| request.path == "/push"));
}

#[test]
fn what_otlp_was_told_to_be_rejected_is_lost_and_the_rest_is_not() {
    let answer = r#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"three"}}"#;
    let server = Server::start(move |number, _| match number {
        0 => Reply::bare(502),
        1 => Reply(200, String::new(), answer.to_string()),
        2 => Reply::bare(500),
        _ => Reply(200, String::new(), "{}".to_string()),
    });
    let mut exporter = exporter(&format!("otlp={}", server.origin)).unwrap();
    (0..3).for_each(|second| exporter.take(&later(second)));
    let status = send_all(exporter.as_mut());
    let values = values(&later(0));
    assert_eq!((status.sent_values, status.lost_values), (2 * values - 3, values + 3));
    assert_eq!(status.retries, 1, "500 is not repeated, 502 is");
    let request = &server.received()[0];
    assert_eq!((&request.path[..], &request.content_type[..]), ("/v1/metrics", "application/json"));
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let resource = &body["resourceMetrics"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "node1");
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let sensor = &metric("node_sensor_celsius")["gauge"]["dataPoints"][0];
    assert_eq!(
        (&sensor["asDouble"], &sensor["timeUnixNano"]),
        (&(-3.5).into(), &"1795694400250000000".into())
    );
    let read = metric("node_mount_read_bytes_total");
    assert_eq!((&read["unit"], &read["sum"]["isMonotonic"]), (&"By".into(), &true.into()));
    assert_eq!(read["sum"]["dataPoints"][0]["asInt"], "9007199254740993");
    assert_eq!(
        read["sum"]["dataPoints"][0]["attributes"][0]["value"]["stringValue"],
        "/scratch \"a\"\\b,c\\n\\u{1b}[31m"
    );
}

#[test]
fn a_server_that_never_answers_makes_nobody_wait() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("prometheus=http://{}", listener.local_addr().unwrap());
    let thread = ExportThread::start(exporter(&target).unwrap()).unwrap();
    let report = Arc::new(later(0));
    let began = Instant::now();
    (0..1000).for_each(|_| thread.push(report.clone()));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    // Of a thousand the inbox holds 200, and the exporter what it took before it sent.
    std::thread::sleep(Duration::from_millis(200));
    let status = thread.status();
    assert!(status.lost_values >= 100 * values(&report), "{status:?}");
    assert_eq!(status.sent_values, 0);
    let began = Instant::now();
    drop(thread);
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "a request may take 10 s: {:?}",
        began.elapsed()
    );
}

#[test]
fn a_thread_sends_what_is_left_before_it_ends() {
    let server = Server::start(|_, _| Reply(200, String::new(), "{}".to_string()));
    let thread =
        ExportThread::start(exporter(&format!("otlp={}", server.origin)).unwrap()).unwrap();
    (0..5).for_each(|second| thread.push(Arc::new(later(second))));
    drop(thread);
    assert_eq!(server.received().len(), 5);
}
