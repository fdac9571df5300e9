//! The document of OpenAPI (docs/openapi.json): paths from the table here, parameters and answers from the types that the
//! handlers have. `WEIGH_BLESS=1 cargo test -p weigh-web openapi` writes it anew.

#[path = "../../show/tests/rendering/common/golden.rs"]
mod golden;
#[path = "../../show/tests/rendering/common/pages.rs"]
mod pages;
#[path = "../../show/tests/rendering/common/sample.rs"]
mod sample;
#[path = "../../show/tests/rendering/common/sample_moments.rs"]
mod sample_moments;
#[path = "../../show/tests/rendering/common/top.rs"]
mod top;
#[path = "../../show/tests/rendering/common/typescript.rs"]
mod typescript;

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value as Json, json};
use weigh_schema::Quality;
use weigh_schema::busiest::{Amounts, BusiestRow};
use weigh_schema::io::FileUse;
use weigh_schema::region::{KernelCosts, PhaseRow, RegionRow};
use weigh_schema::top::TOP;
use weigh_schema::update::{Scope, Update};
use weigh_show::shape::shape_of;

use crate::activity::JobActivity;
use crate::api::{
    self, JobEvent, JobList, JobRow, JobSamples, JobState, ProfileEvent, ProfileList,
    PublishedList, SeriesColumns, SeriesRow,
};
use crate::busiest::{BusiestBuilder, BusiestFilter};
use crate::error::ErrorBody;
use crate::node::NodeOutage;
use crate::routes::{SeriesQuery, StreamQuery};
use crate::stream::Missed;
use pages::{declare_enums, full, learn_pages};
use typescript::Types;

/// A path: what it answers, and what its parameters mean.
struct PathDoc {
    path: &'static str,
    summary: &'static str,
    answer: Answer,
    /// The fields of the type that its query is parsed into.
    query: &'static [&'static str],
    errors: &'static [u16],
}

enum Answer {
    /// A schema.
    Json(&'static str),
    /// Columns as bytes, or as JSON.
    Columns(&'static str),
    /// Server-sent events, each with its schema.
    Events(&'static [(&'static str, &'static str)]),
    /// This document.
    Document,
}

const EVENTS: &[(&str, &str)] = &[
    ("node", "TopReport"),
    ("change", "NodeChange"),
    ("outage", "NodeOutage"),
    ("job", "JobEvent"),
    ("profile", "ProfileEvent"),
    ("jobs", "JobsChanged"),
    ("missed", "Missed"),
];

fn paths() -> [PathDoc; 9] {
    let doc = |path, summary, answer, errors| PathDoc { path, summary, answer, query: &[], errors };
    [
        doc("/api/v1/node", "The node now", Answer::Json("TopReport"), &[401, 503]),
        doc(
            "/api/v1/published",
            "The latest of each value that clients of the agent have published, of the last minute",
            Answer::Json("PublishedList"),
            &[401, 503],
        ),
        doc(
            "/api/v1/profiles",
            "Programs that publish their regions to the agent, those of the user whose token it is",
            Answer::Json("ProfileList"),
            &[401, 503],
        ),
        doc("/api/v1/jobs", "The recordings, the newest first", Answer::Json("JobList"), &[401]),
        doc(
            "/api/v1/jobs/{id}",
            "One recording: what its page shows, without the series",
            Answer::Json("JobPage"),
            &[401, 404, 422],
        ),
        PathDoc {
            query: shape_of::<BusiestFilter>().members,
            ..doc(
                "/api/v1/busiest",
                "What the jobs that run are busy with",
                Answer::Json("BusiestReport"),
                &[400, 401],
            )
        },
        PathDoc {
            query: shape_of::<SeriesQuery>().members,
            ..doc(
                "/api/v1/series",
                "The series of a job or of the node; one of them in columns where metric is given",
                Answer::Columns("SeriesAnswer"),
                &[400, 401, 404, 422],
            )
        },
        PathDoc {
            query: shape_of::<StreamQuery>().members,
            ..doc(
                "/api/v1/stream",
                "What is new: of the list of jobs, and of the node and a job if asked for",
                Answer::Events(EVENTS),
                &[400, 401, 404, 503],
            )
        },
        doc("/api/v1/openapi.json", "This document", Answer::Document, &[401]),
    ]
}

/// What parameters are, by their names: the type, and what it means.
fn parameter(path: &str, name: &str) -> (&'static str, &'static str) {
    match (path, name) {
        ("/api/v1/jobs/{id}", "id") => ("string", "an id of /api/v1/jobs"),
        ("/api/v1/busiest", "job") => ("string", "of this job alone: an id of /api/v1/jobs"),
        (_, "job") => ("string", "an id of /api/v1/jobs; of a series also node: the node"),
        (_, "user") => ("string", "of jobs of this user"),
        (_, "category") => ("string", "of jobs of this category"),
        (_, "label") => ("string", "of jobs with this label: NAME=VALUE"),
        (_, "q") => ("string", "of jobs that have these words in their user, id or command"),
        (_, "file") => {
            ("string", "of files and addresses: a part of the name, or with * and ? all of it")
        }
        (_, "metric") => ("string", "the series"),
        (_, "scope") => ("string", "what the series is about; job if not given, of the node node"),
        (_, "from") => ("integer", "nanoseconds since the Unix epoch; the beginning if not given"),
        (_, "to") => ("integer", "nanoseconds since the Unix epoch; the end if not given"),
        (_, "points") => ("integer", "columns at most: 1 to 20000, 1000 if not given"),
        (_, "node") => ("integer", "1: events of the node, too"),
        (_, "profiles") => ("integer", "1: of the job also its regions and phases"),
        _ => panic!("say here what the parameter {name} of {path} means"),
    }
}

fn parameter_doc(path: &str, name: &str, place: &str) -> Json {
    let (kind, text) = parameter(path, name);
    let is_required = place == "path" || (path, name) == ("/api/v1/series", "job");
    json!({"name": name, "in": place, "required": is_required, "description": text, "schema": {"type": kind}})
}

fn reference(schema: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn success(answer: &Answer) -> Json {
    let of_json = |schema: Json| json!({"application/json": {"schema": schema}});
    let content = match answer {
        Answer::Json(schema) => of_json(reference(schema)),
        Answer::Document => of_json(json!({"type": "object", "additionalProperties": true})),
        Answer::Columns(schema) => json!({
            "application/json": {"schema": reference(schema)},
            "application/octet-stream": {"schema": {
                "type": "string", "format": "binary",
                "description": "without Accept: application/json; little endian: a count n (32 bits), then n times in \
                                seconds since the Unix epoch, n least, n greatest and n last values (64 bits each)",
            }},
        }),
        Answer::Events(events) => {
            let events: BTreeMap<_, _> =
                events.iter().map(|(event, schema)| (*event, reference(schema))).collect();
            json!({"text/event-stream": {"schema": {"type": "string"}, "x-events": events}})
        }
    };
    json!({"description": "the answer", "content": content})
}

fn path_doc(doc: &PathDoc) -> Json {
    let error = json!({"description": "why not", "content": {"application/json": {"schema": reference("Error")}}});
    let mut responses = BTreeMap::from([("200".to_string(), success(&doc.answer))]);
    responses.extend(doc.errors.iter().map(|status| (status.to_string(), error.clone())));
    let in_path = doc.path.contains("{id}").then(|| parameter_doc(doc.path, "id", "path"));
    let in_query = doc.query.iter().map(|name| parameter_doc(doc.path, name, "query"));
    let parameters: Vec<Json> = in_path.into_iter().chain(in_query).collect();
    json!({"get": {"summary": doc.summary, "parameters": parameters, "responses": responses}})
}

fn learn(types: &mut Types) {
    declare_enums(types);
    types.declare::<JobState>();
    learn_pages(types);
    types.learn(&top::full());
    types.learn(&top::first());
    learn_jobs(types);
    learn_series(types);
    let published = &top::full().published;
    let profiles = &top::full().profiles;
    types.learn(&ProfileList { schema: api::PROFILES, profiles, left_out: 0 });
    types.learn(&PublishedList { schema: api::PUBLISHED, published, left_out: 0 });
    types.learn(&ErrorBody { schema: "", error: "", expected: "" });
    types.learn(&Missed { events: 1 });
    let now = jiff::Timestamp::UNIX_EPOCH;
    types.learn(&NodeOutage { since: Some(now), reason: String::new(), at: Instant::now() });
}

fn learn_jobs(types: &mut Types) {
    let mut row = JobRow::new("id".into(), ("/f".into(), Some("/w==".into())));
    row.set_summary(&full().summary);
    (row.state, row.reason) = (Some(JobState::Broken), Some("cut short".into()));
    let bare = JobRow::default();
    let jobs = vec![&row, &bare];
    types.learn(&JobList { schema: api::JOBS, jobs, jobs_left_out: 0 });
    let values = BTreeMap::from([("cpu_seconds".to_string(), 1.5)]);
    let samples = [JobSamples { time_ns: 1, scope: "job".into(), values }];
    let (state, metrics) = (JobState::Running, &row.metrics);
    types.learn(&JobEvent { id: "id", state, metrics, samples: &samples });
    learn_profiles(types);
    let filter = BusiestFilter::default();
    let activity = one_file();
    let mut busiest = BusiestBuilder::new(&filter);
    busiest.add(&row, &activity);
    types.learn(&busiest.finish());
    types.learn(&BusiestRow { per_second: Some(Amounts::default()), ..BusiestRow::default() });
}

/// With all that rows can have, and without.
fn learn_profiles(types: &mut Types) {
    let text = || Some("/w==".to_string());
    let row = RegionRow {
        name_base64: text(),
        path: vec!["a".into()],
        path_base64: vec!["/w==".into()],
        rank: Some(1),
        timed_calls: Some(1),
        error_seconds: Some(0.5),
        min_seconds: Some(0.5),
        max_seconds: Some(0.5),
        unbalanced_calls: 1,
        open_calls: 1,
        open_seconds: Some(0.5),
        kernel_costs: Some(KernelCosts::default()),
        ..RegionRow::default()
    };
    let phase = PhaseRow { name_base64: text(), ..PhaseRow::default() };
    let (regions, phases) = ([row, RegionRow::default()], [phase, PhaseRow::default()]);
    types.learn(&ProfileEvent { id: "id", regions: &regions, phases: &phases });
}

fn one_file() -> JobActivity {
    let mut activity = JobActivity::default();
    let used = full().files.into_iter().find(FileUse::is_followed);
    let used = Update::FileUseSoFar(Box::new(used.expect("a file that was followed")));
    // Told of twice it has a rate.
    for second in [1, 2] {
        let (time_ns, values) = (second * 1_000_000_000, BTreeMap::new());
        activity.take(&Update::Samples { time_ns, scope: Scope::Job, values });
        activity.take(&used);
    }
    activity
}

fn learn_series(types: &mut Types) {
    let unit = Some(weigh_schema::Unit::Seconds);
    let (metric, scope) = ("cpu_seconds", "job");
    types.learn(&SeriesRow { metric: metric.into(), scope: scope.into(), unit, samples: 1 });
    let (quality, column) = (Some(Quality::Exact), [1.0]);
    let [time, min, max, last] = [&column[..]; 4];
    types.learn(&SeriesColumns {
        schema: api::SERIES,
        metric,
        scope,
        unit,
        quality,
        time,
        min,
        max,
        last,
    });
}

fn schemas() -> BTreeMap<String, Json> {
    let mut types = Types::default();
    learn(&mut types);
    let mut schemas: BTreeMap<String, Json> =
        types.schemas().into_iter().map(|(name, schema)| (name.to_string(), schema)).collect();
    let mut page = schemas["Page"].clone();
    page["properties"]["state"] = reference("JobState");
    page["properties"]["reason"] = json!({"type": "string"});
    page["required"].as_array_mut().expect("a list").push("state".into());
    let nothing = json!({"type": "object", "properties": {}});
    let error = schemas.remove("ErrorBody").expect("it was learnt");
    let list = json!({"type": "array", "items": reference("SeriesRow")});
    let columns = json!({"anyOf": [reference("SeriesList"), reference("SeriesColumns")]});
    let change = json!({
        "type": "object", "required": ["report", "gone"],
        "properties": {
            "report": {
                "type": "object", "additionalProperties": true,
                "description": "what has changed of the report (TopReport): of objects by name, of lists that are as long as before by \
                                place, of processes by PID; null for what is no longer there",
            },
            "gone": {"type": "array", "items": {"type": "number"}, "description": "PIDs that are in it no longer"},
        },
    });
    schemas.extend([
        ("JobPage".to_string(), page),
        ("Error".to_string(), error),
        ("JobsChanged".to_string(), nothing),
        ("SeriesList".to_string(), list),
        ("SeriesAnswer".to_string(), columns),
        ("NodeChange".to_string(), change),
    ]);
    schemas
}

fn document() -> Json {
    let paths: BTreeMap<_, _> = paths().iter().map(|doc| (doc.path, path_doc(doc))).collect();
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "weigh serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!(
                "Jobs and the node as weigh measures them. Names are those of summary.json and of {TOP}. Fields may be added; what a \
                 value means is in docs/metrics.md."
            ),
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "the token of the URL that weigh serve prints"}},
        },
    })
}

#[test]
fn the_document_is_what_the_handlers_have() {
    let text = serde_json::to_string_pretty(&document()).expect("JSON") + "\n";
    golden::check("../../docs/openapi.json", &text);
}

#[test]
fn a_value_that_is_not_as_the_document_says_is_refused() {
    use crate::schema_check::check;
    let document = document();
    let right = json!({"schema": "weigh.error/1", "error": "a", "expected": "b"});
    assert_eq!(check(&document, "Error", &right), Ok(()));
    let wrong = [
        json!({"schema": "a", "error": "a"}),
        json!({"schema": "a", "error": 1, "expected": "b"}),
        json!({"schema": "a", "error": "a", "expected": "b", "more": 1}),
        json!([]),
    ];
    for value in wrong {
        assert!(check(&document, "Error", &value).is_err(), "{value}");
    }
    let series = json!([{"metric": "a", "scope": "job", "unit": "furlongs", "samples": 1}]);
    assert!(check(&document, "SeriesAnswer", &series).is_err());
    assert!(check(&document, "Missed", &Json::Null).is_err());
}
