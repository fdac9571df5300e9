//! The server without sockets: requests in, answers out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, header};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value as Json;
use weigh_keep::{Finished, KeepError, RecordingWriter};
use weigh_schema::recording::files;
use weigh_schema::sink::Sink as _;
use weigh_schema::summary::{Exit, ExitKind, Host, Job, SCHEMA, Summary};
use weigh_schema::top::{TOP, TopReport, TopValue};
use weigh_schema::update::{Scope, Update};
use weigh_schema::{Mechanism, Number, Quality, Unit, Value};
use weigh_wire::Token;

use crate::access::Access;
use crate::feed::{FeedEvent, NodeFeed};
use crate::folder::RecordingsFolder;
use crate::jobs::JobTable;
use crate::names::ServerNames;
use crate::node::NodeBoard;
use crate::routes::{App, router};
use crate::schema_check::{check_answer, check_event};
use crate::tokens::{Grant, TokenTable};

const HOST: &str = "127.0.0.1:4000";
const START_NS: i64 = 1_795_293_540_000_000_007;
/// Names as others may choose them.
const EVIL: &str = "</script><img src=x onerror=alert(1)>/../../etc/passwd\u{1b}]0;x\u{7}\"'&\n\nevent: node\ndata: {}";

/// A feed that ticks as fast as it is asked, a millisecond apart.
pub(crate) struct ScriptedFeed {
    pub(crate) reports_left: u32,
    /// Ticks at which there is none.
    pub(crate) outage: std::ops::Range<u32>,
    ticks: Arc<AtomicU32>,
}

impl ScriptedFeed {
    pub(crate) fn new() -> (ScriptedFeed, Arc<AtomicU32>) {
        let ticks = Arc::new(AtomicU32::new(0));
        (ScriptedFeed { reports_left: u32::MAX, outage: 0..0, ticks: ticks.clone() }, ticks)
    }
}

impl NodeFeed for ScriptedFeed {
    fn next(&mut self) -> Option<FeedEvent> {
        self.reports_left = self.reports_left.checked_sub(1)?;
        std::thread::sleep(Duration::from_millis(1));
        let tick = self.ticks.fetch_add(1, Ordering::SeqCst) + 1;
        if self.outage.contains(&tick) {
            return Some(FeedEvent::Outage("a test".to_string()));
        }
        let value = TopValue {
            value: Some(Number::Whole(tick.into())),
            unit: Unit::Count,
            quality: Quality::Exact,
            per_second: None,
        };
        let metrics = BTreeMap::from([("node_ticks".to_string(), value)]);
        let report = TopReport {
            schema: TOP.to_string(),
            node: format!("tick {tick}"),
            time: jiff::Timestamp::from_nanosecond((START_NS + i64::from(tick)).into()).unwrap(),
            interval_seconds: Some(0.1),
            metrics: BTreeMap::from([(Scope::Node, metrics)]),
            ..TopReport::default()
        };
        Some(FeedEvent::Report(report.into()))
    }

    fn set_interval(&mut self, _: Duration) {}
}

pub(crate) fn summary(id: &str) -> Summary {
    let cpu = Value {
        value: Some(Number::Real(0.25)),
        unit: Unit::Seconds,
        source: Mechanism::Bpf,
        quality: Quality::Exact,
        reason: None,
    };
    Summary {
        schema: SCHEMA.to_string(),
        job: Job {
            id: id.to_string(),
            command: vec!["sh".into(), "-c".into(), EVIL.into()],
            command_base64: Vec::new(),
            cwd: "/".into(),
            cwd_base64: None,
            category: Some(EVIL.into()),
            labels: BTreeMap::from([(EVIL.to_string(), EVIL.to_string())]),
            user: EVIL.into(),
            node: EVIL.into(),
            started: jiff::Timestamp::from_nanosecond(START_NS.into()).unwrap(),
            ended: None,
        },
        exit: None,
        metrics: BTreeMap::from([("cpu_seconds".to_string(), cpu)]),
        limits: Vec::new(),
        snapshots: Vec::new(),
        io: None,
        regions: None,
        collectors: Vec::new(),
        allowed: weigh_schema::allowed::Allowed::default(),
        host: Host {
            node: "n1".into(),
            kernel: "6.18.0".into(),
            cpus: 2,
            memory_bytes: 1,
            cgroup_version: "v2".into(),
            virtualisation: None,
            weigh: "0.1.0".into(),
            at_start: BTreeMap::new(),
            at_end: BTreeMap::new(),
        },
        file_systems: Vec::new(),
        gpus: Vec::new(),
    }
}

pub(crate) fn ended(id: &str) -> Summary {
    let mut summary = summary(id);
    summary.job.ended = Some(summary.job.started);
    let exit = ExitKind::Exited;
    summary.exit = Some(Exit {
        kind: exit,
        code: Some(3),
        signal: None,
        sender: None,
        limit: None,
        error: None,
    });
    summary
}

pub(crate) fn samples(at_ns: i64, value: f64) -> Update {
    let values = BTreeMap::from([("cpu_seconds".to_string(), value), (EVIL.to_string(), 1.0)]);
    Update::Samples { time_ns: START_NS + at_ns, scope: Scope::Job, values }
}

/// Ends a recording, as a session does.
pub(crate) fn end(mut writer: RecordingWriter, summary: &Summary) -> Result<Finished, KeepError> {
    writer.finish(summary);
    writer.close()
}

/// A recording that has begun, with so many samples.
pub(crate) fn begun(dir: &Path, id: &str, rows: i64) -> RecordingWriter {
    let mut writer = RecordingWriter::create(dir).unwrap();
    writer.append(&Update::Started(Box::new(summary(id))));
    (0..rows).for_each(|row| {
        writer.append(&samples(row * 1000, if row == rows / 3 { 1e6 } else { row as f64 * 1e-3 }))
    });
    writer.flush();
    writer
}

struct TestServer {
    service: TowerToHyperService<axum::Router>,
    token: String,
    runtime: tokio::runtime::Runtime,
    app: Arc<App>,
}

impl TestServer {
    fn new(folder: &Path) -> TestServer {
        let jobs = JobTable::new(vec![RecordingsFolder::open(folder).unwrap()]);
        let (feed, _) = ScriptedFeed::new();
        let node = NodeBoard::start(Box::new(|| Box::new(feed))).unwrap();
        let token = Token::generate().unwrap();
        let app = Arc::new(App::new(jobs, None));
        let grant = Grant { node: Arc::new(node), is_for_metrics: false };
        let tokens = TokenTable::default().with(token.clone(), grant);
        let access = Arc::new(Access::new(tokens, ServerNames::Loopback(HOST.parse().unwrap())));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let service = TowerToHyperService::new(router(app.clone(), access));
        TestServer { service, token: token.text().to_string(), runtime, app }
    }

    fn request(&self, uri: &str, accept: &str) -> Response<Body> {
        let request = Request::builder()
            .uri(uri)
            .header(header::HOST, HOST)
            .header(header::ACCEPT, accept)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        let request = request.body(Body::empty()).unwrap();
        self.runtime.block_on(self.service.call(request)).unwrap()
    }

    fn bytes(&self, response: Response<Body>) -> Vec<u8> {
        self.runtime.block_on(to_bytes(response.into_body(), usize::MAX)).unwrap().to_vec()
    }

    #[track_caller]
    fn json(&self, uri: &str) -> Json {
        let response = self.request(uri, "application/json");
        let status = response.status();
        let body = self.bytes(response);
        assert_eq!(status, 200, "{uri}: {}", String::from_utf8_lossy(&body));
        let value = serde_json::from_slice(&body).unwrap();
        assert_eq!(check_answer(&document(), uri, 200, &value), Ok(()));
        value
    }

    #[track_caller]
    fn status(&self, uri: &str) -> u16 {
        let response = self.request(uri, "*/*");
        let status = response.status().as_u16();
        if uri.starts_with("/api/v1/") && status >= 400 {
            let value = serde_json::from_slice(&self.bytes(response)).unwrap();
            assert_eq!(check_answer(&document(), uri, status, &value), Ok(()));
        }
        status
    }

    /// Events that come until one is of that name.
    fn events(&self, body: Body, until: &str) -> String {
        use http_body::Body as _;
        let mut body = std::pin::pin!(body);
        let mut text = String::new();
        self.runtime.block_on(async {
            while !text.contains(until) {
                let frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context));
                let frame = tokio::time::timeout(Duration::from_secs(20), frame).await;
                let frame = frame.expect("an event comes").expect("the stream is open").unwrap();
                text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
        });
        check_events(&text);
        text
    }
}

fn document() -> Json {
    serde_json::from_str(crate::routes::OPENAPI).unwrap()
}

/// All of them are as the document says.
fn check_events(text: &str) {
    let document = document();
    let mut name = "";
    for line in text.lines() {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event;
        } else if let Some(data) = line.strip_prefix("data: ") {
            let data = serde_json::from_str(data).unwrap();
            assert_eq!(check_event(&document, name, &data), Ok(()));
        }
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn without_the_token_nothing_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::new(dir.path());
    for uri in
        ["/", "/api/v1/node", "/api/v1/jobs", "/api/v1/stream?node=1", "/assets/x", "/metrics"]
    {
        let request = Request::builder().uri(uri).header(header::HOST, HOST);
        let request = request.body(Body::empty()).unwrap();
        let response = server.runtime.block_on(server.service.call(request)).unwrap();
        assert_eq!(response.status(), 401, "{uri}");
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'self'") && !policy.contains("-inline"),
            "{policy}"
        );
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    }
    let request =
        Request::builder().uri(format!("/?token={}", server.token)).header(header::HOST, HOST);
    let request = request.body(Body::empty()).unwrap();
    let response = server.runtime.block_on(server.service.call(request)).unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()[header::LOCATION]),
        (303, &"/".parse().unwrap())
    );
    let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert_eq!(server.status("/"), 200);
    assert_eq!(server.status("/metrics"), 200, "a path of the page, while there is no text for it");
    assert_eq!(server.status("/api/v2/node"), 404);
}

#[test]
fn hostile_names_are_texts_and_ids_lead_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(70_000);
    for (name, id) in [("a", EVIL), ("b", "../../etc"), ("c", "../../etc"), ("d", ""), ("e", &long)]
    {
        end(begun(&dir.path().join(name), id, 3), &ended(id)).unwrap();
    }
    let server = TestServer::new(dir.path());
    let list = server.json("/api/v1/jobs");
    let rows = list["jobs"].as_array().unwrap();
    let mut ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let mut expected = [EVIL, "../../etc", "../../etc~2", "job", &long[..200]];
    expected.sort_unstable();
    assert_eq!(ids, expected);
    for id in ids {
        let page = server.json(&format!("/api/v1/jobs/{}", encoded(id)));
        assert_eq!((&page["state"], &page["exit"]["code"]), (&"ended".into(), &3.into()));
        assert_eq!(page["job"]["command"][2], EVIL);
        let list = server.json(&format!("/api/v1/series?job={}", encoded(id)));
        assert_eq!(list.as_array().unwrap().len(), 2, "{list}");
        let evil = format!("/api/v1/series?job={}&metric={}", encoded(id), encoded(EVIL));
        assert_eq!(server.json(&evil)["last"], serde_json::json!([1.0, 1.0, 1.0]));
    }
    for id in ["a", "..", "../a", "/etc", "summary.json", "a/summary.json", "%00"] {
        assert_eq!(server.status(&format!("/api/v1/jobs/{}", encoded(id))), 404, "{id}");
    }
    let event = server.request(&format!("/api/v1/stream?job={}", encoded(EVIL)), "*/*");
    let text = server.events(event.into_body(), "event: job");
    assert_eq!(text.matches("\nevent: ").count(), 1, "{text}");
}

#[test]
fn links_pipes_and_other_folders_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let secret = tempfile::tempdir().unwrap();
    end(begun(&secret.path().join("job"), "secret", 3), &ended("secret")).unwrap();
    let served = dir.path().join("served");
    std::fs::create_dir_all(served.join("mixed")).unwrap();
    std::os::unix::fs::symlink(secret.path().join("job"), served.join("whole")).unwrap();
    for name in [files::SUMMARY, files::SERIES] {
        std::os::unix::fs::symlink(
            secret.path().join("job").join(name),
            served.join("mixed").join(name),
        )
        .unwrap();
    }
    end(begun(&served.join("series"), "series", 3), &ended("series")).unwrap();
    std::fs::remove_file(served.join("series").join(files::SERIES)).unwrap();
    std::os::unix::fs::symlink(
        secret.path().join("job").join(files::SERIES),
        served.join("series").join(files::SERIES),
    )
    .unwrap();
    let pipe = served.join("pipe");
    std::fs::create_dir(&pipe).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        pipe.join(files::SUMMARY),
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    std::fs::write(pipe.join(files::JOURNAL), "no entry\n").unwrap();
    let server = TestServer::new(&served);
    let list = server.json("/api/v1/jobs");
    let rows = list["jobs"].as_array().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"series") && !ids.contains(&"secret"), "{ids:?}");
    assert_eq!(server.status("/api/v1/series?job=series"), 422);
    assert!(!list.to_string().contains("/proc/self/fd"), "{list}");
}

#[test]
fn a_spike_is_in_the_columns_of_a_recording_at_every_zoom() {
    let dir = tempfile::tempdir().unwrap();
    const ROWS: i64 = 100_000;
    end(begun(&dir.path().join("job"), "job", ROWS), &ended("job")).unwrap();
    let server = TestServer::new(dir.path());
    let spike = START_NS + ROWS / 3 * 1000;
    for (from, to) in
        [(START_NS, START_NS + ROWS * 1000), (spike - 500_000, spike + 500_000), (spike, spike)]
    {
        for points in [1, 10, 1000] {
            let uri = format!(
                "/api/v1/series?job=job&metric=cpu_seconds&from={from}&to={to}&points={points}"
            );
            let columns = server.json(&uri);
            assert_eq!(
                (&columns["unit"], &columns["quality"]),
                (&"seconds".into(), &"exact".into())
            );
            let max = columns["max"].as_array().unwrap();
            assert!(max.len() <= points && max.contains(&1e6.into()), "{uri}");
            let bytes = server.bytes(server.request(&uri, "*/*"));
            assert_eq!(bytes.len(), 4 + 32 * max.len());
            assert_eq!(bytes[..4], (max.len() as u32).to_le_bytes());
        }
    }
    assert_eq!(server.status("/api/v1/series?job=job&metric=nothing"), 404);
    for wrong in [
        "metric=cpu_seconds&points=0",
        "metric=cpu_seconds&points=20001",
        "metric=cpu_seconds&from=x",
        "metric=cpu_seconds&from=2&to=1",
    ] {
        assert_eq!(server.status(&format!("/api/v1/series?job=job&{wrong}")), 400, "{wrong}");
    }
    assert_eq!(server.status("/api/v1/series"), 400);
}

#[test]
fn a_job_is_live_until_it_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = begun(&dir.path().join("job"), "job", 3);
    let server = TestServer::new(dir.path());
    assert_eq!(server.json("/api/v1/jobs")["jobs"][0]["state"], "running");
    let columns = server.json("/api/v1/series?job=job&metric=cpu_seconds");
    assert_eq!(columns["last"], serde_json::json!([0.0, 1e6, 0.002]));
    let stream = server.request("/api/v1/stream?job=job", "*/*");
    writer.append(&samples(5000, 7.5));
    writer.flush();
    server.app.jobs.read_on_watched();
    end(writer, &ended("job")).unwrap();
    server.app.jobs.read_on_watched();
    let text = server.events(stream.into_body(), r#""state":"ended""#);
    let events: Vec<Json> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .filter(|event: &Json| event["id"] == "job")
        .collect();
    assert_eq!(events[0]["state"], "running");
    assert!(
        events.iter().any(|event| event["samples"][0]["values"]["cpu_seconds"] == 7.5),
        "{text}"
    );
    let last = events.last().unwrap();
    assert_eq!(
        (&last["state"], &last["metrics"]["cpu_seconds"]["value"]),
        (&"ended".into(), &0.25.into())
    );
    assert_eq!(server.json("/api/v1/jobs/job")["state"], "ended");
    assert_eq!(server.json("/api/v1/series?job=job&metric=cpu_seconds")["last"][3], 7.5);
}

#[test]
fn one_that_was_cut_short_says_why_and_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(begun(&dir.path().join("job"), "job", 3));
    let journal = std::fs::File::options()
        .append(true)
        .open(dir.path().join("job").join(files::JOURNAL))
        .unwrap();
    journal.set_modified(std::time::UNIX_EPOCH).unwrap();
    let server = TestServer::new(dir.path());
    let row = &server.json("/api/v1/jobs")["jobs"][0];
    assert_eq!((&row["state"], &row["id"]), (&"broken".into(), &"job".into()));
    assert!(row["reason"].as_str().unwrap().contains("it has no end"), "{row}");
    assert_eq!(server.json("/api/v1/jobs/job")["state"], "broken");
}

#[test]
fn the_node_comes_once_or_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::new(dir.path());
    let node = server.json("/api/v1/node");
    assert_eq!((&node["schema"], &node["node"]), (&TOP.into(), &"tick 2".into()));
    let stream = server.request("/api/v1/stream?node=1", "*/*");
    let text = server.events(stream.into_body(), "\"node\":\"tick ");
    assert!(text.contains("event: node\ndata: {"), "{text}");
    let columns = server.json("/api/v1/series?job=node&metric=node_ticks&points=1");
    assert_eq!((&columns["scope"], &columns["min"]), (&"node".into(), &serde_json::json!([2.0])));
    assert_eq!(server.json("/api/v1/series?job=node")[0]["metric"], "node_ticks");
}

#[test]
fn the_document_of_the_api_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::new(dir.path());
    let found = server.json("/api/v1/openapi.json");
    assert_eq!(found, document());
    // What it tells of is there, and what it does not tell of is not.
    for path in found["paths"].as_object().unwrap().keys() {
        let status = server.status(&path.replace("{id}", "x"));
        assert!(status != 404 || path.contains("{id}"), "{path}");
    }
    let response = server.request("/api/v1/other", "*/*");
    assert_eq!(response.status(), 404);
    let error: Json = serde_json::from_slice(&server.bytes(response)).unwrap();
    let expected = error["expected"].as_str().unwrap().replace("ID", "{id}").replace(" or ", ", ");
    let mut listed: Vec<String> =
        expected.split(", ").map(|path| format!("/api/v1/{path}")).collect();
    listed.sort();
    let paths: Vec<&String> = found["paths"].as_object().unwrap().keys().collect();
    assert_eq!(listed.iter().collect::<Vec<_>>(), paths);
}

#[test]
fn streams_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::new(dir.path());
    let streams: Vec<_> = (0..64).map(|_| server.request("/api/v1/stream", "*/*")).collect();
    assert!(streams.iter().all(|stream| stream.status() == 200));
    assert_eq!(*server.app.viewers.borrow(), 64);
    assert_eq!(server.status("/api/v1/stream"), 503);
    drop(streams);
    assert_eq!(*server.app.viewers.borrow(), 0);
    assert_eq!(server.status("/api/v1/stream"), 200);
}

/// Samples of several series in one journal, one of which has one spike.
#[test]
fn a_spike_in_a_million_samples_of_a_job_that_runs_is_seen_at_every_zoom() {
    use std::fmt::Write as _;
    const LINES: i64 = 250_000;
    const TICK_NS: i64 = 100_000_000;
    const SPIKE: i64 = 123_457;
    let dir = tempfile::tempdir().unwrap();
    let writer = begun(&dir.path().join("job"), "job", 0);
    let mut text = String::new();
    for line in 0..LINES {
        let time = START_NS + line * TICK_NS;
        let value = if line == SPIKE { 1e9 } else { (line % 7) as f64 };
        let values = format!(r#"{{"memory_bytes":{value},"a":{line},"b":1,"c":2.5}}"#);
        writeln!(text, r#"{{"entry":"samples","time_ns":{time},"scope":"job","values":{values}}}"#)
            .unwrap();
    }
    let journal = dir.path().join("job").join(files::JOURNAL);
    let mut file = std::fs::File::options().append(true).open(&journal).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let server = TestServer::new(dir.path());
    let greatest = |from: i64, to: i64, points: usize| {
        let uri = format!(
            "/api/v1/series?job=job&metric=memory_bytes&from={from}&to={to}&points={points}"
        );
        let began = std::time::Instant::now();
        let columns = server.json(&uri);
        let max = columns["max"].as_array().unwrap();
        assert!(max.len() <= points, "{uri}");
        let greatest = max.iter().filter_map(Json::as_f64).fold(0.0, f64::max);
        (greatest, began.elapsed(), max.len())
    };
    let (first, last) = (START_NS, START_NS + (LINES - 1) * TICK_NS);
    let (found, whole, _) = greatest(first, last, 1000);
    assert_eq!(found, 1e9);
    let at = START_NS + SPIKE * TICK_NS;
    let mut longest = Duration::ZERO;
    for ticks in [100_000, 30_000, 10_000, 3000, 1000, 100, 10, 0] {
        for (from, to) in [
            (at - ticks * TICK_NS, at + ticks * TICK_NS),
            (at - ticks * TICK_NS, at),
            (at, at + ticks * TICK_NS),
        ] {
            let (found, took, columns) = greatest(from, to, 1000);
            assert_eq!(found, 1e9, "{ticks} ticks beside it");
            let is_fine = columns as i64 >= (ticks + 1).min(400);
            assert!(is_fine, "{columns} columns of {ticks} ticks");
            longest = longest.max(took);
        }
    }
    let (found, ..) = greatest(at + 100 * TICK_NS, last, 1000);
    assert!(found < 1e9);
    println!("the first look {whole:?}, a zoom {longest:?} at most");
    // A zoom reads what is in view: the first look has read all.
    assert!(longest < whole / 2, "{longest:?} of {whole:?}");
    drop(writer);
}

#[test]
fn what_jobs_that_run_are_busy_with() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = begun(&dir.path().join("job"), "job", 3);
    let used = serde_json::json!({
        "name": EVIL, "object": "regular", "pid": 7, "process": "sim", "device": 1, "inode": 9,
        "read_bytes": 4_000_003, "read_calls": 3, "written_bytes": 0, "write_calls": 0,
        "by_kind": {}, "numbers": {"read_seconds": 0.75}, "again_quality": "exact",
    });
    let row = serde_json::from_value(used).unwrap();
    writer.append(&Update::FileUseSoFar(row));
    writer.flush();
    end(begun(&dir.path().join("old"), "old", 3), &ended("old")).unwrap();
    let server = TestServer::new(dir.path());
    let found = server.json("/api/v1/busiest");
    assert_eq!((&found["schema"], &found["jobs"]), (&"weigh.busiest/1".into(), &1.into()));
    let row = &found["files"]["rows"][0];
    assert_eq!((&row["job"], &row["name"]), (&"job".into(), &EVIL.into()));
    assert_eq!(
        (&row["total"]["seconds"], &row["total"]["read_bytes"]),
        (&0.75.into(), &4_000_003.0.into())
    );
    assert_eq!(
        (&found["files"]["jobs_without"], &found["syscalls"]["jobs_without"]),
        (&0.into(), &1.into())
    );
    let other = server.json(&format!("/api/v1/busiest?user={}&file=nothing", encoded(EVIL)));
    assert_eq!((&other["jobs"], &other["files"]["rows_total"]), (&1.into(), &0.into()));
    assert_eq!(server.json("/api/v1/busiest?user=nobody")["jobs"], 0);
}
