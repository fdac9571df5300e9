//! Prometheus remote write 2.0, and 1.0 for receivers that do not know it.
//!
//! One request per report, in protobuf and snappy. A receiver that answers 415, or 2xx without saying what it wrote, has not
//! understood 2.0: its messages share no field with those of 1.0, so nothing was written, and the batch is sent again.

use std::collections::HashMap;

use weigh_schema::{Metric, Number};

use crate::protobuf::Message as _;

use super::batch::Batch;
use super::delivery::{Delivery, Protocol, Verdict};
use super::exporter::ExporterKind;
use super::http::{Answer, HttpClient, Request};
use super::openmetrics::{type_name, unit_suffix};
use super::point::Point;
use super::target::HttpTarget;

/// This exporter.
pub const KIND: ExporterKind = ExporterKind {
    name: "prometheus",
    usage: "prometheus=http://HOST:PORT[/PATH]",
    open: |address| {
        let http = HttpClient::new(HttpTarget::parse(address)?)?;
        Ok(Box::new(Delivery::new(RemoteWrite::default(), http)))
    },
};

const PATH: &str = "/api/v1/write";
/// Value of the label `job`.
const JOB: &str = "weigh";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Version {
    #[default]
    Two,
    One,
}

#[derive(Default)]
struct RemoteWrite {
    version: Version,
    /// Whether the receiver has taken something in this version.
    is_agreed: bool,
}

impl Protocol for RemoteWrite {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn request(&mut self, http: &HttpClient, batch: &Batch) -> Request {
        let (message, content_type, version) = match self.version {
            Version::Two => (
                request_2(batch),
                "application/x-protobuf;proto=io.prometheus.write.v2.Request",
                "2.0.0",
            ),
            Version::One => (request_1(batch), "application/x-protobuf", "0.1.0"),
        };
        Request {
            method: "POST",
            url: http.target.url_or(PATH),
            headers: vec![
                ("Content-Type", content_type),
                ("Content-Encoding", "snappy"),
                ("X-Prometheus-Remote-Write-Version", version),
            ],
            body: compressed(&message),
        }
    }

    fn judge(&mut self, batch: &Batch, answer: &Answer) -> Verdict {
        if self.version == Version::Two && !self.is_agreed && is_of_version_one(answer) {
            self.version = Version::One;
            return Verdict::Another;
        }
        let verdict = Verdict::of_status(answer);
        self.is_agreed |= verdict == Verdict::WHOLE;
        match (verdict, answer.samples_written) {
            (Verdict::WHOLE, Some(written)) => accepted(batch.points.len() as u64, written, answer),
            (verdict, _) => verdict,
        }
    }
}

fn accepted(points: u64, written: u64, answer: &Answer) -> Verdict {
    match points.saturating_sub(written) {
        0 => Verdict::WHOLE,
        refused => Verdict::Accepted { refused, problem: Some(answer.words()) },
    }
}

/// Whether a receiver that was sent 2.0 has shown that it knows 1.0 alone.
fn is_of_version_one(answer: &Answer) -> bool {
    match answer.status {
        200..300 => answer.samples_written.is_none(),
        // Some call a message that they cannot read a bad request.
        400 | 415 => true,
        _ => false,
    }
}

fn compressed(message: &[u8]) -> Vec<u8> {
    // It fails for what is longer than 4 GiB, which no batch is: see `batch::SCOPES`.
    snap::raw::Encoder::new().compress_vec(message).unwrap_or_default()
}

/// A double has no more; from 2^53 on whole numbers are rounded.
fn double(value: Number) -> u64 {
    value.as_f64().to_bits()
}

/// Names and values of a series, sorted by name.
fn series_labels<'a>(batch: &'a Batch, point: &'a Point) -> Vec<(&'a str, &'a str)> {
    let own = [("__name__", point.metric.name), ("instance", &batch.node[..]), ("job", JOB)];
    let labels = point.scope.labels.iter().map(|(name, value)| (*name, &value[..]));
    let mut labels: Vec<(&str, &str)> = own.into_iter().chain(labels).collect();
    labels.sort_unstable();
    labels
}

fn is_counter(metric: &Metric) -> bool {
    type_name(metric) == "counter"
}

/// COUNTER and GAUGE have the same numbers in both versions.
fn type_number(metric: &Metric) -> u64 {
    if is_counter(metric) { 1 } else { 2 }
}

/// `prometheus.WriteRequest`: series 1, metadata 3.
fn request_1(batch: &Batch) -> Vec<u8> {
    let mut message = Vec::new();
    for point in &batch.points {
        message.message(1, |series| {
            for (name, value) in series_labels(batch, point) {
                series.message(1, |label| {
                    label.bytes(1, name.as_bytes());
                    label.bytes(2, value.as_bytes());
                });
            }
            series.message(2, |sample| fill_sample(sample, batch, point));
        });
    }
    for family in batch.families() {
        let metric = family[0].metric;
        message.message(3, |metadata| {
            metadata.number(1, type_number(metric));
            metadata.bytes(2, metric.name.as_bytes());
            metadata.bytes(4, metric.help.as_bytes());
            metadata.bytes(5, unit_suffix(metric.unit).unwrap_or_default().as_bytes());
        });
    }
    message
}

/// In both versions: value 1, milliseconds 2.
fn fill_sample(sample: &mut Vec<u8>, batch: &Batch, point: &Point) {
    sample.fixed(1, double(point.value));
    sample.number(2, batch.time_ms());
}

/// Texts, each once, by their numbers; the empty text is the first.
#[derive(Default)]
struct SymbolTable<'a> {
    numbers: HashMap<&'a str, u64>,
    symbols: Vec<&'a str>,
}

impl<'a> SymbolTable<'a> {
    fn number(&mut self, symbol: &'a str) -> u64 {
        *self.numbers.entry(symbol).or_insert_with(|| {
            self.symbols.push(symbol);
            self.symbols.len() as u64 - 1
        })
    }
}

/// `io.prometheus.write.v2.Request`: symbols 4, series 5.
fn request_2(batch: &Batch) -> Vec<u8> {
    let units: Vec<String> =
        batch.points.iter().map(|p| unit_suffix(p.metric.unit).unwrap_or_default()).collect();
    let mut symbols = SymbolTable::default();
    symbols.number("");
    let mut all_series = Vec::new();
    for (point, unit) in batch.points.iter().zip(&units) {
        let labels = series_labels(batch, point);
        let labels: Vec<u64> = labels
            .iter()
            .flat_map(|(name, value)| [symbols.number(name), symbols.number(value)])
            .collect();
        let (help, unit) = (symbols.number(point.metric.help), symbols.number(unit));
        all_series.message(5, |series| {
            series.packed(1, &labels);
            series.message(2, |sample| fill_sample(sample, batch, point));
            series.message(5, |metadata| {
                metadata.number(1, type_number(point.metric));
                metadata.number(3, help);
                metadata.number(4, unit);
            });
        });
    }
    let mut message = Vec::new();
    symbols.symbols.iter().for_each(|symbol| message.bytes(4, symbol.as_bytes()));
    message.extend(all_series);
    message
}

#[cfg(test)]
mod tests;
