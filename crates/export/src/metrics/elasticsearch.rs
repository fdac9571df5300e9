//! Elasticsearch (6.8, and 7.8 or later) and OpenSearch, by bulk requests.
//!
//! One document per scope of a report; its metrics are numbers under `metrics`, the labels of a job and of what is published texts under `labels`. Each document has an id made of node, time
//! and scope, so that one that is sent twice is there once. The names of index, template and policy are constants. The server
//! is asked for its version first; then the template and the policy are put there, as it knows them:
//!
//! | server | index | lifecycle |
//! |---|---|---|
//! | Elasticsearch from 7.8 on | data stream, index template | ILM |
//! | Elasticsearch before that | alias and rollover, legacy template | ILM |
//! | OpenSearch | data stream, index template | ISM |

mod server;
mod setup;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use weigh_schema::Number;

use self::server::Server;
use self::setup::NAME;
use super::batch::Batch;
use super::delivery::{Delivery, Protocol, Verdict};
use super::exporter::ExporterKind;
use super::http::{Answer, HttpClient, Request};
use super::point::Point;
use super::scope_label::{JOB, PUBLISHED, hash};
use super::target::HttpTarget;

/// This exporter.
pub const KIND: ExporterKind = ExporterKind {
    name: "elasticsearch",
    usage: "elasticsearch=http://HOST:PORT[/PATH]",
    open: |address| {
        let http = HttpClient::new(HttpTarget::parse(address)?)?;
        Ok(Box::new(Delivery::new(Elasticsearch::default(), http)))
    },
};

#[derive(Default)]
struct Elasticsearch {
    server: Server,
    /// What the server did not take of the set-up, though it goes without.
    notice: Option<String>,
}

impl Protocol for Elasticsearch {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn prepare(&mut self, http: &HttpClient) -> Result<(), String> {
        self.server = server::ask(http)?;
        self.notice = setup::install(http, self.server)?;
        Ok(())
    }

    fn request(&mut self, http: &HttpClient, batch: &Batch) -> Request {
        let below = format!(
            "/{NAME}/{}_bulk?filter_path=items.*.status,items.*.error.*",
            self.server.type_path()
        );
        Request {
            method: "POST",
            url: http.target.url(&below),
            headers: vec![("Content-Type", "application/x-ndjson")],
            body: bulk(batch).into_bytes(),
        }
    }

    fn judge(&mut self, batch: &Batch, answer: &Answer) -> Verdict {
        match Verdict::of_status(answer) {
            Verdict::WHOLE => match judge_items(batch, answer) {
                Verdict::WHOLE => Verdict::Accepted { refused: 0, problem: self.notice.take() },
                verdict => verdict,
            },
            verdict => verdict,
        }
    }
}

/// Points of each scope of a batch, in the order in which the scopes first come.
fn by_scope(batch: &Batch) -> Vec<Vec<&Point>> {
    let mut documents: Vec<Vec<&Point>> = Vec::new();
    let mut numbers = std::collections::HashMap::new();
    for point in &batch.points {
        let number = *numbers.entry(Arc::as_ptr(&point.scope)).or_insert(documents.len());
        match documents.get_mut(number) {
            Some(points) => points.push(point),
            None => documents.push(vec![point]),
        }
    }
    documents
}

fn bulk(batch: &Batch) -> String {
    let mut body = String::new();
    for points in by_scope(batch) {
        let scope = &points[0].scope;
        let instance = scope.instance();
        let action = json!({"create": {"_id": id(batch, scope.kind, &instance)}});
        let metrics: Map<String, Value> = points.iter().filter_map(|point| field(point)).collect();
        let mut document = json!({
            "@timestamp": batch.time_ms(), "node": batch.node,
            "scope": scope.kind, "instance": instance, "metrics": metrics,
        });
        if [JOB, PUBLISHED].contains(&scope.kind) {
            let labels = scope.labels.iter().map(|(name, value)| (name.to_string(), json!(value)));
            document["labels"] = Value::Object(labels.collect());
        }
        body += &format!("{action}\n{document}\n");
    }
    body
}

fn id(batch: &Batch, kind: &str, instance: &str) -> String {
    let name = format!("{}\0{kind}\0{instance}", batch.node);
    format!("{}-{:016x}", batch.time_ns, hash(name.as_bytes()))
}

/// Whole numbers are of type `long`, which ends at 2^63.
fn field(point: &Point) -> Option<(String, Value)> {
    let value = match point.value {
        Number::Whole(number) => json!(i64::try_from(number).ok()?),
        Number::Real(number) => json!(number),
    };
    Some((point.metric.name.to_string(), value))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BulkAnswer {
    items: Vec<BulkItem>,
}

#[derive(Deserialize)]
struct BulkItem {
    create: ItemResult,
}

#[derive(Deserialize)]
struct ItemResult {
    status: u16,
    #[serde(default)]
    error: ItemError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemError {
    r#type: String,
    reason: String,
}

/// Each document has a status of its own; 409 says that it is there already, from an attempt whose answer was lost.
fn judge_items(batch: &Batch, answer: &Answer) -> Verdict {
    let found: Result<BulkAnswer, _> = serde_json::from_slice(&answer.body);
    let documents = by_scope(batch);
    let items = match found {
        Ok(found) if found.items.len() == documents.len() => found.items,
        _ => return Verdict::Later(format!("no answer to a bulk request: {}", answer.words())),
    };
    let results: Vec<(&ItemResult, usize)> =
        items.iter().zip(&documents).map(|(item, points)| (&item.create, points.len())).collect();
    if let Some((busy, _)) = results.iter().find(|(item, _)| matches!(item.status, 429 | 500..)) {
        return Verdict::Later(words(busy));
    }
    let refused = || results.iter().filter(|(item, _)| !matches!(item.status, 200..300 | 409));
    match refused().next() {
        None => Verdict::WHOLE,
        Some((first, _)) => Verdict::Accepted {
            refused: refused().map(|(_, points)| *points as u64).sum(),
            problem: Some(words(first)),
        },
    }
}

fn words(item: &ItemResult) -> String {
    let text = format!("{} {}", item.error.r#type, item.error.reason);
    Answer { status: item.status, body: text.into_bytes(), ..Answer::default() }.words()
}
