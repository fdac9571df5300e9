//! Spans of OpenTelemetry, as a program of the job may send them.

use weigh_account::regions::SpanTable;
use weigh_parse::otlp::each_span;

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
