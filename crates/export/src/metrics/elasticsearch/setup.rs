//! What is put on the server before the first document: lifecycle policy, template, and the first index where there is
//! no data stream. All of it is made of constants and of the metrics' declaration.

use serde_json::{Map, Value, json};
use weigh_schema::published::{PUBLISHED_VALUE, TRACE_METRICS};
use weigh_schema::running_job::RUNNING_JOB_METRICS;
use weigh_schema::{METRICS, NODE_METRICS, Unit};

use super::server::Server;
use crate::metrics::http::{Answer, HttpClient, Request};
use crate::metrics::scope_label::{JOB_LABELS, PUBLISHED_LABELS};

/// Name of the data stream or alias, the template and the policy.
pub const NAME: &str = "weigh-node";
/// An index is closed after so many days, or when it is so large.
const ROLLOVER_DAYS: &str = "1d";
const ROLLOVER_SIZE: &str = "10gb";
/// An index is deleted after so many days. Change the policy on the server to keep them longer: it is put there once.
const KEEP_DAYS: &str = "30d";

/// Puts it there. A policy that the server refuses (it may have no ILM or ISM) is told, and goes without.
pub fn install(http: &HttpClient, server: Server) -> Result<Option<String>, String> {
    let notice = install_policy(http, server)?;
    let (path, template) = match server.has_streams() {
        true => (format!("/_index_template/{NAME}"), index_template(server)),
        false => (format!("/_template/{NAME}"), legacy_template(server)),
    };
    demand(&path, put(http, &path, &template)?)?;
    if !server.has_streams() {
        install_first_index(http)?;
    }
    Ok(notice)
}

fn install_policy(http: &HttpClient, server: Server) -> Result<Option<String>, String> {
    let (path, policy) = match server {
        Server::OpenSearch => (format!("/_plugins/_ism/policies/{NAME}"), ism_policy()),
        _ => (format!("/_ilm/policy/{NAME}"), ilm_policy()),
    };
    // One that is there stays as it is: somebody may have changed it.
    if get(http, &path)?.is_success() {
        return Ok(None);
    }
    let answer = put(http, &path, &policy)?;
    match answer.status {
        200..300 | 409 => Ok(None),
        429 | 500.. => Err(answer.words()),
        _ => {
            Ok(Some(format!("no lifecycle policy, indices are kept for ever: {}", answer.words())))
        }
    }
}

/// The index behind the alias; one that is there already stays.
fn install_first_index(http: &HttpClient) -> Result<(), String> {
    if get(http, &format!("/_alias/{NAME}"))?.is_success() {
        return Ok(());
    }
    let path = format!("/{NAME}-000001");
    demand(&path, put(http, &path, &json!({"aliases": {NAME: {"is_write_index": true}}}))?)
}

fn demand(path: &str, answer: Answer) -> Result<(), String> {
    match answer.is_success() {
        true => Ok(()),
        false => Err(format!("PUT {path}: {}", answer.words())),
    }
}

fn get(http: &HttpClient, path: &str) -> Result<Answer, String> {
    let url = http.target.url(path);
    http.send(Request { method: "GET", url, headers: Vec::new(), body: Vec::new() })
}

fn put(http: &HttpClient, path: &str, body: &Value) -> Result<Answer, String> {
    http.send(Request {
        method: "PUT",
        url: http.target.url(path),
        headers: vec![("Content-Type", "application/json")],
        body: body.to_string().into_bytes(),
    })
}

fn ilm_policy() -> Value {
    json!({"policy": {"phases": {
        "hot": {"actions": {"rollover": {"max_age": ROLLOVER_DAYS, "max_size": ROLLOVER_SIZE}}},
        "delete": {"min_age": KEEP_DAYS, "actions": {"delete": {}}},
    }}})
}

fn ism_policy() -> Value {
    json!({"policy": {
        "description": "metrics of nodes, by weigh",
        "default_state": "hot",
        "states": [
            {
                "name": "hot",
                "actions": [{"rollover": {"min_index_age": ROLLOVER_DAYS, "min_size": ROLLOVER_SIZE}}],
                "transitions": [{"state_name": "delete", "conditions": {"min_index_age": KEEP_DAYS}}],
            },
            {"name": "delete", "actions": [{"delete": {}}], "transitions": []},
        ],
        "ism_template": [{"index_patterns": [format!("{NAME}*")], "priority": 100}],
    }})
}

fn index_template(server: Server) -> Value {
    let mut settings = json!({"number_of_shards": 1});
    if server != Server::OpenSearch {
        settings["index.lifecycle.name"] = json!(NAME);
    }
    json!({
        "index_patterns": [NAME], "data_stream": {}, "priority": 200,
        "template": {"settings": settings, "mappings": mappings()},
    })
}

fn legacy_template(server: Server) -> Value {
    let mappings = match server {
        Server::Six => json!({"_doc": mappings()}),
        _ => mappings(),
    };
    json!({
        "index_patterns": [format!("{NAME}-*")],
        "settings": {
            "number_of_shards": 1, "index.lifecycle.name": NAME, "index.lifecycle.rollover_alias": NAME,
        },
        "mappings": mappings,
    })
}

/// Nothing is mapped by itself: fields are those of the declaration.
fn mappings() -> Value {
    let of_node =
        NODE_METRICS.iter().copied().chain(METRICS.iter()).filter(|metric| metric.is_of_node());
    // What clients publish has no certain unit.
    let of_published = TRACE_METRICS.iter().chain([&PUBLISHED_VALUE]);
    let of_published =
        of_published.map(|metric| (metric.name.to_string(), json!({"type": "double"})));
    let metrics: Map<String, Value> = of_node
        .chain(&RUNNING_JOB_METRICS)
        .map(|metric| (metric.name.to_string(), json!({"type": number_type(metric.unit)})))
        .chain(of_published)
        .collect();
    let keyword = json!({"type": "keyword", "ignore_above": 1024});
    let labels: Map<String, Value> = JOB_LABELS
        .iter()
        .chain(&PUBLISHED_LABELS)
        .map(|name| (name.to_string(), keyword.clone()))
        .collect();
    json!({
        "dynamic": false,
        "properties": {
            "@timestamp": {"type": "date", "format": "epoch_millis"},
            "node": keyword, "scope": keyword, "instance": keyword,
            "metrics": {"dynamic": false, "properties": metrics},
            "labels": {"dynamic": false, "properties": labels},
        },
    })
}

fn number_type(unit: Unit) -> &'static str {
    if unit.is_whole() { "long" } else { "double" }
}
