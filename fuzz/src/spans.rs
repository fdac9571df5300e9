//! Spans and metrics of OpenTelemetry, as a program may send them.

use weigh_account::regions::SpanTable;
use weigh_parse::otlp::json::{METRICS, SPANS, protobuf_of_json};
use weigh_parse::otlp::{each_metric, each_span};

/// A message: what is read of it is added up.
pub fn otlp_spans(data: &[u8]) {
    let (mut table, mut spans) = (SpanTable::default(), 0);
    let read = each_span(data, &mut |span| {
        assert!(span.id != 0 && span.begun_ns <= span.ended_ns && span.name.len() < 1024);
        table.add(span.process, &span);
        spans += 1;
    });
    assert!(read.is_ok() || read.is_err_and(|why| !why.to_string().is_empty()));
    let made = table.finish();
    assert_eq!(made.rows.iter().map(|row| row.calls).sum::<u64>(), spans);
    for row in &made.rows {
        assert!(row.exclusive_seconds <= row.inclusive_seconds && row.path.len() <= 64);
    }
}

/// A message in JSON: what comes of it is a message.
pub fn otlp_json(data: &[u8]) {
    for form in [&METRICS, &SPANS] {
        if let Ok(message) = protobuf_of_json(data, form) {
            assert!(message.len() <= 16 * data.len() + 16);
            otlp_metrics(&message);
            let _ = each_span(&message, &mut |_| {});
        }
    }
}

/// A message of metrics: texts are bounded, and so are attributes.
pub fn otlp_metrics(data: &[u8]) {
    let mut points = 0u64;
    let read = each_metric(data, &mut |point| {
        assert!(point.name.len() < 1024 && point.unit.len() < 1024 && point.service.len() < 1024);
        assert!(point.attributes.len() <= 16);
        points += 1;
    });
    assert!(read.is_ok() || read.is_err_and(|why| !why.to_string().is_empty()));
    // A point has a byte at least, besides its key and its length.
    assert!(points <= data.len() as u64);
}
