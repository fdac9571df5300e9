//! A recording as spans of OpenTelemetry: the job, its processes, its phases; OTLP as JSON, a request a line.
//!
//! Ids are made of what the recording says, so a recording that is sent twice has the same spans. A label `traceparent` of the
//! job (W3C Trace Context) makes it part of a trace that is there already. Regions are sums over calls, without begin and
//! end: they are no spans. Refuses a job of which neither its own end nor that of a process is known.

mod ids;

use anyhow::bail;
use serde_json::{Map, Value, json};
use weigh_schema::recording::ProcessRow;
use weigh_schema::region::PhaseRow;
use weigh_schema::summary::{Exit, ExitKind, Job, Summary};
use weigh_schema::{Number, Quality};

use super::form::{Piece, RecordingFormat, RecordingPart, RecordingRows, TextKind};
use crate::metrics::scope_label::bounded_text;
use ids::{ProcessTable, TraceIds, nested};

/// The form.
pub const FORMAT: RecordingFormat = RecordingFormat {
    name: "otlp",
    help: "Job, processes and phases as spans of OpenTelemetry, OTLP as JSON, a request a line",
    text: TextKind::Lines,
    part: RecordingPart::Spans,
    write,
};

/// Spans of one request.
const SPANS_AT_ONCE: usize = 512;
/// The longest text of an attribute, in bytes.
const TEXT_BYTES: usize = 4096;
/// The longest name of a span, and of an attribute.
const NAME_BYTES: usize = 200;
/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u64 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;

fn write(recording: &dyn RecordingRows, piece: Piece<'_>) -> anyhow::Result<bool> {
    let summary = recording.summary();
    let mut processes = ProcessTable::default();
    let mut last_end = None;
    recording.each_process(&mut |row| {
        processes.add(row.pid, row.started_ns);
        last_end = last_end.max(row.ended_ns);
    })?;
    let end_ns = summary.job.ended.map(|end| end.as_nanosecond() as i64).or(last_end);
    let Some(end_ns) = end_ns else {
        bail!(
            "neither the end of the job nor that of a process is in the recording: it may still run"
        );
    };
    let spans = SpanWriter { ids: TraceIds::new(&summary.job), processes, summary, end_ns };
    let mut requests = Requests { head: resource(&summary.job), spans: Vec::new(), piece };
    requests.push(spans.of_job())?;
    each(|visit| recording.each_process(visit), &mut |row| requests.push(spans.of_process(&row)))?;
    let mut phases: Vec<PhaseRow> = Vec::new();
    recording.each_phase(&mut |row| phases.push(row))?;
    for (phase, parent) in nested(&mut phases) {
        requests.push(spans.of_phase(phase, parent))?;
    }
    requests.flush()?;
    Ok(true)
}

/// Rows to something that may fail: the first error is kept, and no row after it is taken.
fn each<R>(
    rows: impl Fn(&mut dyn FnMut(R)) -> anyhow::Result<()>,
    take: &mut dyn FnMut(R) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut taken = Ok(());
    rows(&mut |row| {
        if taken.is_ok() {
            taken = take(row);
        }
    })?;
    taken
}

/// Spans, a request at a time.
struct Requests<'a> {
    head: Value,
    spans: Vec<Value>,
    piece: Piece<'a>,
}

impl Requests<'_> {
    fn push(&mut self, span: Value) -> anyhow::Result<()> {
        self.spans.push(span);
        if self.spans.len() < SPANS_AT_ONCE { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if self.spans.is_empty() {
            return Ok(());
        }
        let request = json!({"resourceSpans": [{
            "resource": self.head,
            "scopeSpans": [{
                "scope": {"name": "weigh", "version": env!("CARGO_PKG_VERSION")},
                "spans": std::mem::take(&mut self.spans),
            }],
        }]});
        (self.piece)(&format!("{request}\n"))
    }
}

fn resource(job: &Job) -> Value {
    let mut attributes = Attributes::default();
    attributes.text("host.name", &job.node);
    attributes.text("service.name", "weigh");
    json!({"attributes": attributes.0})
}

/// Attributes of a span.
#[derive(Default)]
struct Attributes(Vec<Value>);

impl Attributes {
    fn push(&mut self, name: &str, value: Value) {
        self.0.push(json!({"key": bounded_text(name, NAME_BYTES), "value": value}));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.push(name, json!({"stringValue": bounded_text(text, TEXT_BYTES)}));
    }

    fn integer(&mut self, name: &str, number: i64) {
        self.push(name, json!({"intValue": number.to_string()}));
    }

    /// A number that JSON has none for, and one that is none, are left out.
    fn number(&mut self, name: &str, number: Number) {
        match number {
            Number::Whole(whole) if i64::try_from(whole).is_ok() => {
                self.push(name, json!({"intValue": whole.to_string()}));
            }
            number if number.as_f64().is_finite() => {
                self.push(name, json!({"doubleValue": number.as_f64()}));
            }
            _ => {}
        }
    }
}

/// Makes the spans of a recording.
struct SpanWriter<'a> {
    ids: TraceIds,
    processes: ProcessTable,
    summary: &'a Summary,
    end_ns: i64,
}

impl SpanWriter<'_> {
    fn of_job(&self) -> Value {
        let job = &self.summary.job;
        let mut attributes = Attributes::default();
        attributes.text("weigh.job.id", &job.id);
        attributes.text("process.owner", &job.user);
        attributes.text("process.working_directory", &job.cwd);
        attributes
            .text("process.command_line", &weigh_schema::ShellWords(&job.command).to_string());
        job.category.iter().for_each(|category| attributes.text("weigh.job.category", category));
        for (name, text) in &job.labels {
            attributes.text(&format!("weigh.label.{name}"), text);
        }
        for (name, value) in &self.summary.metrics {
            let Some(number) = value.value.filter(|_| value.quality != Quality::Unavailable) else {
                continue;
            };
            attributes.number(&format!("weigh.{name}"), number);
            if value.quality != Quality::Exact {
                attributes.text(&format!("weigh.{name}.quality"), &value.quality.to_string());
            }
        }
        let exit = self.summary.exit.as_ref();
        exit.iter().for_each(|exit| exit_attributes(exit, &mut attributes));
        let name = job.command.first().map_or("job", |first| base_name(first));
        let mut span = self.span(name, self.ids.of_job(), attributes);
        span.insert("startTimeUnixNano".into(), json!(job.started.as_nanosecond().to_string()));
        span.insert("endTimeUnixNano".into(), json!(self.end_ns.to_string()));
        if let Some(parent) = self.ids.parent_of_job() {
            span.insert("parentSpanId".into(), json!(parent));
        }
        if let Some(problem) = exit.and_then(problem) {
            span.insert("status".into(), json!({"code": ERROR, "message": problem}));
        }
        Value::Object(span)
    }

    fn of_process(&self, row: &ProcessRow) -> Value {
        let mut attributes = Attributes::default();
        attributes.integer("process.pid", row.pid.into());
        attributes.integer("process.parent_pid", row.parent.into());
        attributes.integer("process.user.id", row.uid.into());
        attributes.text("process.executable.name", &row.name);
        attributes.text("process.command_line", &row.command);
        row.exit_code
            .iter()
            .for_each(|code| attributes.integer("process.exit.code", (*code).into()));
        let signal = row.exit_signal.iter();
        signal.for_each(|signal| attributes.integer("weigh.exit.signal", (*signal).into()));
        for (name, number) in &row.metrics {
            attributes.number(&format!("weigh.{name}"), *number);
        }
        let own = self.ids.of_process(row.pid, row.started_ns);
        let parent = match self.processes.started_before(row.parent, row.started_ns) {
            Some(started_ns) => self.ids.of_process(row.parent, started_ns),
            None => self.ids.of_job(),
        };
        let mut span = self.span(&row.name, own, attributes);
        span.insert("parentSpanId".into(), json!(parent));
        let end_ns = row.ended_ns.unwrap_or(self.end_ns);
        insert_times(&mut span, row.started_ns, end_ns);
        let failure = match (row.exit_signal, row.exit_code) {
            (Some(signal), _) => Some(format!("signal {signal}")),
            (None, Some(code)) if code != 0 => Some(format!("exit code {code}")),
            _ => None,
        };
        if let Some(problem) = failure {
            span.insert("status".into(), json!({"code": ERROR, "message": problem}));
        }
        Value::Object(span)
    }

    fn of_phase(&self, row: &PhaseRow, parent: Option<&PhaseRow>) -> Value {
        let mut attributes = Attributes::default();
        attributes.integer("process.pid", row.process.into());
        attributes.integer("thread.id", row.thread.into());
        attributes.number("weigh.iteration", Number::Whole(row.iteration));
        let parent = match (parent, self.processes.started_before(row.process, row.started_ns)) {
            (Some(parent), _) => self.ids.of_phase(parent),
            (None, Some(started_ns)) => self.ids.of_process(row.process, started_ns),
            (None, None) => self.ids.of_job(),
        };
        let mut span = self.span(&row.name, self.ids.of_phase(row), attributes);
        span.insert("parentSpanId".into(), json!(parent));
        insert_times(&mut span, row.started_ns, row.ended_ns);
        Value::Object(span)
    }

    fn span(&self, name: &str, id: String, attributes: Attributes) -> Map<String, Value> {
        let fields = [
            ("traceId", json!(self.ids.trace())),
            ("spanId", json!(id)),
            ("name", json!(bounded_text(name, NAME_BYTES))),
            ("kind", json!(INTERNAL)),
            ("attributes", Value::Array(attributes.0)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// A span does not end before it begins, whatever clocks did.
fn insert_times(span: &mut Map<String, Value>, start_ns: i64, end_ns: i64) {
    span.insert("startTimeUnixNano".into(), json!(start_ns.to_string()));
    span.insert("endTimeUnixNano".into(), json!(end_ns.max(start_ns).to_string()));
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

fn exit_attributes(exit: &Exit, attributes: &mut Attributes) {
    attributes.text("weigh.exit.kind", &exit.kind.to_string());
    exit.code.iter().for_each(|code| attributes.integer("process.exit.code", (*code).into()));
    exit.signal.iter().for_each(|signal| attributes.integer("weigh.exit.signal", (*signal).into()));
    exit.limit.iter().for_each(|metric| attributes.text("weigh.exit.limit", metric));
}

/// What went wrong, in words.
fn problem(exit: &Exit) -> Option<String> {
    Some(match (exit.kind, exit.code, exit.signal) {
        (ExitKind::Exited, None | Some(0), _) => return None,
        (ExitKind::Detached | ExitKind::Interrupted, _, _) => return None,
        (ExitKind::Exited, Some(code), _) => format!("exit code {code}"),
        (ExitKind::Signaled, _, Some(signal)) => format!("signal {signal}"),
        (ExitKind::Limit, _, _) => {
            format!("over the limit of {}", exit.limit.as_deref().unwrap_or("a metric"))
        }
        (kind, _, _) => kind.to_string(),
    })
}

#[cfg(test)]
#[path = "otlp/tests.rs"]
mod tests;
