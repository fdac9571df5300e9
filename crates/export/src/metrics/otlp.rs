//! OpenTelemetry metrics over HTTP, as JSON (OTLP 1.x).
//!
//! Counters are cumulative sums without a start time: the kernel counts from boot, or from when the device appeared.

use serde::Deserialize;
use serde_json::{Value, json};
use weigh_schema::{Metric, Number, Unit};

use super::batch::Batch;
use super::delivery::{Delivery, Protocol, Verdict};
use super::exporter::ExporterKind;
use super::http::{Answer, HttpClient, Request};
use super::openmetrics::type_name;
use super::point::Point;
use super::target::HttpTarget;

/// This exporter.
pub const KIND: ExporterKind = ExporterKind {
    name: "otlp",
    usage: "otlp=http://HOST:PORT[/PATH]",
    open: |address| {
        let http = HttpClient::new(HttpTarget::parse(address)?)?;
        Ok(Box::new(Delivery::new(Otlp, http)))
    },
};

const PATH: &str = "/v1/metrics";
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

struct Otlp;

impl Protocol for Otlp {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn request(&mut self, http: &HttpClient, batch: &Batch) -> Request {
        Request {
            method: "POST",
            url: http.target.url_or(PATH),
            headers: vec![("Content-Type", "application/json")],
            body: body(batch).to_string().into_bytes(),
        }
    }

    fn judge(&mut self, _: &Batch, answer: &Answer) -> Verdict {
        judge_answer(answer)
    }
}

/// OTLP has 429, 502, 503 and 504 repeated, and nothing else.
pub fn judge_answer(answer: &Answer) -> Verdict {
    match answer.status {
        200..300 => accepted(answer),
        429 | 502..=504 => Verdict::Later(answer.words()),
        400..600 => Verdict::Refused(answer.words()),
        _ => Verdict::Later(answer.words()),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Accepted {
    partial_success: PartialSuccess,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// A whole number as a text, by the rules of protobuf's JSON; some send a number. Of spans it has another name.
    #[serde(alias = "rejectedSpans")]
    rejected_data_points: Value,
    error_message: String,
}

fn accepted(answer: &Answer) -> Verdict {
    let accepted: Accepted = serde_json::from_slice(&answer.body).unwrap_or_default();
    let PartialSuccess { rejected_data_points: rejected, error_message } = accepted.partial_success;
    let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
    match rejected == 0 && error_message.is_empty() {
        true => Verdict::WHOLE,
        false => Verdict::Accepted { refused: rejected, problem: Some(answer.words()) },
    }
}

fn body(batch: &Batch) -> Value {
    let metrics: Vec<Value> = batch.families().map(|family| metric(batch, family)).collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": [
            attribute("host.name", &batch.node),
            attribute("service.name", "weigh"),
        ]},
        "scopeMetrics": [{
            "scope": {"name": "weigh", "version": env!("CARGO_PKG_VERSION")},
            "metrics": metrics,
        }],
    }]})
}

fn attribute(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

fn metric(batch: &Batch, family: &[Point]) -> Value {
    let declared = family[0].metric;
    let points: Vec<Value> = family.iter().map(|point| data_point(batch, point)).collect();
    let mut metric = json!({
        "name": declared.name, "description": declared.help, "unit": ucum(declared.unit),
    });
    if is_sum(declared) {
        metric["sum"] = json!({
            "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
        });
    } else {
        metric["gauge"] = json!({"dataPoints": points});
    }
    metric
}

fn is_sum(metric: &Metric) -> bool {
    type_name(metric) == "counter"
}

fn data_point(batch: &Batch, point: &Point) -> Value {
    let labels = point.scope.labels.iter();
    let attributes: Vec<Value> = labels.map(|(name, value)| attribute(name, value)).collect();
    let mut data = json!({"attributes": attributes, "timeUnixNano": batch.time_ns.to_string()});
    match point.value {
        Number::Whole(number) if i64::try_from(number).is_ok() => {
            data["asInt"] = json!(number.to_string())
        }
        number => data["asDouble"] = json!(number.as_f64()),
    }
    data
}

/// Units as OpenTelemetry has them (UCUM).
fn ucum(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Bytes => "By",
        Unit::Count | Unit::Ratio => "1",
        Unit::Cores => "{cpu}",
        Unit::Threads => "{thread}",
        Unit::Celsius => "Cel",
        Unit::Watts => "W",
        Unit::Joules => "J",
    }
}
