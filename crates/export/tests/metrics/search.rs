//! What Elasticsearch and OpenSearch are sent, by version.

use serde_json::Value;
use weigh_export::metrics::exporter;

use crate::server::{Received, Reply, Server};
use crate::{later, values};

/// A server of that version on which nothing is yet, and that takes all.
fn start(root: &'static str, policies: u16) -> Server {
    Server::start(move |_, request| match (&request.method[..], &request.path[..]) {
        ("GET", "/") => Reply(200, String::new(), root.to_string()),
        ("GET", _) => Reply::bare(404),
        ("PUT", path) if path.contains("policy") || path.contains("policies") => {
            Reply::bare(policies)
        }
        ("PUT", _) => Reply(200, String::new(), "{}".to_string()),
        _ => Reply(200, String::new(), bulk_answer(request, 201)),
    })
}

fn bulk_answer(request: &Received, status: u16) -> String {
    let item = format!("{{\"create\":{{\"status\":{status}}}}}");
    let documents = request.body.iter().filter(|byte| **byte == b'\n').count() / 2;
    format!("{{\"items\":[{}]}}", vec![item; documents].join(","))
}

fn sent(server: &Server) -> (Vec<String>, weigh_export::metrics::ExporterStatus) {
    let mut exporter = exporter(&format!("elasticsearch={}", server.origin)).unwrap();
    let mut report = later(0);
    report.node = "../_all\n{\"delete\":{}}".to_string();
    exporter.take(&report);
    let _ = exporter.send();
    let lines = server.received().into_iter().map(|r| format!("{} {}", r.method, r.path)).collect();
    (lines, exporter.status())
}

const BULK: &str = "_bulk?filter_path=items.*.status,items.*.error.*";

#[test]
fn each_version_is_told_what_it_knows() {
    let six = start(r#"{"version":{"number":"6.8.23"}}"#, 200);
    let (lines, status) = sent(&six);
    let expected = [
        "GET /",
        "GET /_ilm/policy/weigh-node",
        "PUT /_ilm/policy/weigh-node",
        "PUT /_template/weigh-node",
        "GET /_alias/weigh-node",
        "PUT /weigh-node-000001",
    ];
    assert_eq!(lines[..6], expected);
    assert_eq!(lines[6..], [format!("POST /weigh-node/_doc/{BULK}")]);
    assert_eq!((status.sent_values, status.lost_values), (values(&later(0)), 0));
    let template: Value = serde_json::from_slice(&six.received()[3].body).unwrap();
    let fields = &template["mappings"]["_doc"]["properties"]["metrics"]["properties"];
    assert_eq!(fields["node_disk_read_bytes_total"]["type"], "long");

    let eight = start(r#"{"version":{"number":"8.17.0"}}"#, 200);
    let (lines, _) = sent(&eight);
    assert_eq!(
        lines[3..],
        ["PUT /_index_template/weigh-node".to_string(), format!("POST /weigh-node/{BULK}")]
    );

    let open = start(r#"{"version":{"number":"2.19.1","distribution":"opensearch"}}"#, 400);
    let (lines, status) = sent(&open);
    assert_eq!(
        lines[1..3],
        ["GET", "PUT"].map(|m| format!("{m} /_plugins/_ism/policies/weigh-node"))
    );
    assert!(status.last_error.unwrap().starts_with("no lifecycle policy"));
    assert_eq!(status.lost_values, 0);
}

#[test]
fn a_node_of_any_name_is_a_value_and_nothing_else() {
    let server = start(r#"{"version":{"number":"8.17.0"}}"#, 200);
    let (lines, _) = sent(&server);
    assert!(lines.iter().all(|line| !line.contains("_all") && !line.contains("delete")));
    let body = String::from_utf8(server.received().pop().unwrap().body).unwrap();
    let lines: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for pair in lines.chunks(2) {
        assert_eq!(pair[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["create"]);
        assert_eq!(pair[0]["create"].as_object().unwrap().keys().collect::<Vec<_>>(), ["_id"]);
        assert_eq!(pair[1]["node"], "../_all\\n{\"delete\":{}}");
    }
    let disk = lines.chunks(2).find(|pair| pair[1]["instance"] == "vda").unwrap();
    assert_eq!(
        (&disk[1]["scope"], &disk[1]["@timestamp"]),
        (&"disk".into(), &1_795_694_400_250u64.into())
    );
}

#[test]
fn documents_that_were_busy_come_again_with_the_same_ids_and_refused_ones_are_counted() {
    let server = Server::start(|number, request| match (number, &request.method[..]) {
        (0, _) => Reply(200, String::new(), r#"{"version":{"number":"8.17.0"}}"#.to_string()),
        (_, "GET" | "PUT") => Reply(200, String::new(), "{}".to_string()),
        (3, _) => Reply(200, String::new(), bulk_answer(request, 201).replacen("201", "429", 1)),
        _ => {
            let answer = bulk_answer(request, 409);
            let error = r#"400,"error":{"type":"mapper","reason":"no"}"#;
            Reply(200, String::new(), answer.replacen("409", error, 1))
        }
    });
    let mut exporter = exporter(&format!("elasticsearch={}", server.origin)).unwrap();
    exporter.take(&later(0));
    assert!(exporter.send().is_err());
    std::thread::sleep(exporter.next_attempt().unwrap() - std::time::Instant::now());
    assert!(exporter.send().unwrap_err().to_string().contains("mapper no"));
    let bodies: Vec<Vec<u8>> =
        server.received().into_iter().filter(|r| r.method == "POST").map(|r| r.body).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
    let first: usize = {
        let text = String::from_utf8(bodies[0].clone()).unwrap();
        let document: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        document["metrics"].as_object().unwrap().len()
    };
    let status = exporter.status();
    assert_eq!((status.lost_values, status.retries), (first as u64, 1));
    assert_eq!(status.sent_values + status.lost_values, values(&later(0)));
}
