//! Paths and their handlers: parameters in, JSON, columns or events out.
//!
//! What reads files runs on threads of its own, a few at a time, so that a slow disk holds up nothing but its readers.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::sync::watch;
use weigh_schema::Unit;
use weigh_schema::top::TopReport;

use crate::access::{Access, METRICS, guard};
use crate::api::{self, JobPage, JobState, ProfileList, PublishedList, SeriesColumns};
use crate::assets::Assets;
use crate::busiest::BusiestFilter;
use crate::decimate::{self, Columns};
use crate::error::ApiError;
use crate::growing::GrowingStore;
use crate::jobs::JobTable;
use crate::node::NodeBoard;
use crate::recording_page::page_without_series;
use crate::series::{SeriesRequest, SeriesStore, no_series};
use crate::stream::EventStream;
use crate::tokens::Grant;

/// Requests that read files at once: lists, and whole recordings.
const LISTS_AT_ONCE: usize = 2;
const READS_AT_ONCE: usize = 2;
/// Streams at once.
const STREAMS: usize = 64;
/// In `/api/v1/series`, what stands for the node in the place of a job.
const NODE: &str = "node";

/// What the API is, for programs: a test holds it to the types that are answered with.
pub(crate) const OPENAPI: &str = include_str!("../../../docs/openapi.json");

/// Writes a report in the text format that a client takes (its `Accept`); the value of `Content-Type`.
pub type MetricsText =
    Box<dyn Fn(&TopReport, Option<&str>, &mut String) -> &'static str + Send + Sync>;

/// All that handlers share.
pub(crate) struct App {
    pub(crate) jobs: JobTable,
    pub(crate) series: SeriesStore,
    growing: GrowingStore,
    pub(crate) metrics: Option<MetricsText>,
    assets: Assets,
    lists: Semaphore,
    reads: Semaphore,
    streams: Arc<Semaphore>,
    /// How many streams there are.
    pub(crate) viewers: watch::Sender<usize>,
}

impl App {
    pub(crate) fn new(jobs: JobTable, metrics: Option<MetricsText>) -> App {
        App {
            jobs,
            series: SeriesStore::default(),
            growing: GrowingStore::default(),
            metrics,
            assets: Assets::new(),
            lists: Semaphore::new(LISTS_AT_ONCE),
            reads: Semaphore::new(READS_AT_ONCE),
            streams: Arc::new(Semaphore::new(STREAMS)),
            viewers: watch::channel(0).0,
        }
    }
}

type Shared = State<Arc<App>>;
/// What the guard has found that the token opens.
type Granted = Extension<Grant>;
type Answer = Result<Response, ApiError>;

/// All paths, behind the guard.
pub(crate) fn router(app: Arc<App>, access: Arc<Access>) -> Router {
    let has_metrics = app.metrics.is_some();
    let mut router = Router::new()
        .route("/api/v1/node", get(node))
        .route("/api/v1/published", get(published))
        .route("/api/v1/profiles", get(profiles))
        .route("/api/v1/jobs", get(jobs))
        .route("/api/v1/jobs/{id}", get(job))
        .route("/api/v1/busiest", get(busiest))
        .route("/api/v1/series", get(series))
        .route("/api/v1/stream", get(stream))
        .route("/api/v1/openapi.json", get(openapi))
        .route("/api/{*rest}", get(unknown));
    if has_metrics {
        router = router.route(METRICS, get(metrics));
    }
    let router = router.fallback(asset).with_state(app);
    router.layer(middleware::from_fn_with_state(access, guard))
}

/// Runs what reads files.
async fn reading<T: Send + 'static>(
    app: &Arc<App>,
    permits: impl Fn(&App) -> &Semaphore,
    read: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let _permit = permits(app).acquire().await.map_err(ApiError::internal)?;
    let shared = app.clone();
    tokio::task::spawn_blocking(move || read(&shared)).await.map_err(ApiError::internal)?
}

fn json_bytes(json: impl Into<Bytes>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], json.into()).into_response()
}

fn json(value: &impl Serialize) -> Answer {
    serde_json::to_vec(value).map(json_bytes).map_err(ApiError::internal)
}

fn parameters<T: DeserializeOwned>(uri: &Uri, expected: &str) -> Result<T, ApiError> {
    let parsed = Query::try_from_uri(uri);
    parsed
        .map(|Query(parsed)| parsed)
        .map_err(|error| ApiError::parameter(error.body_text(), expected))
}

async fn asset(State(app): Shared, request: Request) -> Response {
    app.assets.answer(request.uri().path(), request.headers())
}

async fn unknown() -> ApiError {
    let expected =
        "node, published, profiles, jobs, jobs/ID, busiest, series, stream or openapi.json";
    ApiError::new(StatusCode::NOT_FOUND, "there is no such path in the API", expected)
}

async fn openapi() -> Response {
    json_bytes(OPENAPI)
}

async fn node(Extension(grant): Granted) -> Answer {
    let look = grant.node.look().await?;
    json(&*look.report)
}

async fn published(Extension(grant): Granted) -> Answer {
    let look = grant.node.look().await?;
    let TopReport { published, published_left_out, .. } = &*look.report;
    json(&PublishedList { schema: api::PUBLISHED, published, left_out: *published_left_out })
}

async fn profiles(Extension(grant): Granted) -> Answer {
    let look = grant.node.look().await?;
    let TopReport { profiles, profiles_left_out, .. } = &*look.report;
    json(&ProfileList { schema: api::PROFILES, profiles, left_out: *profiles_left_out })
}

async fn metrics(State(app): Shared, Extension(grant): Granted, headers: HeaderMap) -> Answer {
    let write = app.metrics.as_ref().ok_or_else(ApiError::no_node)?;
    let look = grant.node.look().await?;
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let mut text = String::new();
    let kind = write(&look.report, accept, &mut text);
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response())
}

async fn jobs(State(app): Shared) -> Answer {
    reading(&app, |app| &app.lists, |app| app.jobs.list()).await.map(json_bytes)
}

async fn busiest(State(app): Shared, uri: Uri) -> Answer {
    let filter: BusiestFilter =
        parameters(&uri, "job=ID, user=, category=, label=NAME=VALUE, q=WORDS, file=PATTERN")?;
    let read = move |app: &App| app.jobs.busiest(&filter);
    reading(&app, |app| &app.lists, read).await.map(json_bytes)
}

async fn job(State(app): Shared, id: Result<Path<String>, PathRejection>) -> Answer {
    let Path(id) = id.map_err(|_| ApiError::no_job())?;
    let page = reading(&app, |app| &app.reads, move |app| job_page(app, &id));
    page.await.map(json_bytes)
}

fn job_page(app: &App, id: &str) -> Result<Vec<u8>, ApiError> {
    let job = app.jobs.find(id)?;
    let recording = app.growing.recording(&job)?;
    let state = match (recording.is_complete(), recording.is_running()) {
        (true, _) => JobState::Ended,
        (_, true) => JobState::Running,
        _ => JobState::Broken,
    };
    let reason = recording.incomplete_because().map(str::to_string);
    let page = page_without_series(&recording);
    serde_json::to_vec(&JobPage { state, reason, page }).map_err(ApiError::internal)
}

/// Parameters of `/api/v1/series`.
#[derive(Deserialize)]
pub(crate) struct SeriesQuery {
    job: String,
    metric: Option<String>,
    scope: Option<String>,
    from: Option<i64>,
    to: Option<i64>,
    points: Option<usize>,
}

async fn series(
    State(app): Shared,
    Extension(grant): Granted,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    const EXPECTED: &str = "job=ID or job=node; metric=NAME, scope=SCOPE, from=NS, to=NS, points=N";
    let SeriesQuery { job, metric, scope, from, to, points } = parameters(&uri, EXPECTED)?;
    let is_node = job == NODE;
    let Some(metric) = metric else {
        let rows = match is_node {
            true => grant.node.series_list(),
            false => {
                let list = move |app: &App| app.series.list(&app.jobs, &app.jobs.find(&job)?);
                reading(&app, |app| &app.reads, list).await?
            }
        };
        return json(&rows);
    };
    let scope = scope.unwrap_or_else(|| if is_node { NODE } else { "job" }.to_string());
    let request = SeriesRequest { scope, metric, from_ns: from, to_ns: to, points };
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let is_json = accept.contains("application/json");
    match is_node {
        true => node_columns(&grant.node, &request, is_json),
        false => {
            let read = move |app: &App| job_columns(app, &job, &request, is_json);
            reading(&app, |app| &app.reads, read).await
        }
    }
}

fn node_columns(node: &NodeBoard, request: &SeriesRequest, is_json: bool) -> Answer {
    let (unit, series) = node.series(&request.scope, &request.metric).ok_or_else(no_series)?;
    let grid = request.grid(series.interval().ok_or_else(no_series)?)?;
    columns_answer(request, &decimate::columns(&series, grid), Some(unit), None, is_json)
}

fn job_columns(app: &App, id: &str, request: &SeriesRequest, is_json: bool) -> Answer {
    let job = app.jobs.find(id)?;
    let columns = app.series.columns(&app.jobs, &job, request)?;
    let metric = api::metric_of_series(&request.metric);
    let quality =
        metric.and_then(|metric| job.row.metrics.get(metric.name)).map(|value| value.quality);
    columns_answer(request, &columns, metric.map(|metric| metric.unit), quality, is_json)
}

fn columns_answer(
    request: &SeriesRequest,
    columns: &Columns,
    unit: Option<Unit>,
    quality: Option<weigh_schema::Quality>,
    is_json: bool,
) -> Answer {
    if !is_json {
        let kind = HeaderValue::from_static("application/octet-stream");
        return Ok(([(CONTENT_TYPE, kind)], columns.to_bytes()).into_response());
    }
    let SeriesRequest { scope, metric, .. } = request;
    let Columns { time, min, max, last } = columns;
    json(&SeriesColumns { schema: api::SERIES, metric, scope, unit, quality, time, min, max, last })
}

/// Parameters of `/api/v1/stream`.
#[derive(Deserialize)]
pub(crate) struct StreamQuery {
    node: Option<u8>,
    job: Option<String>,
    profiles: Option<u8>,
}

/// Counts a stream as long as it is there.
struct Viewer(Arc<App>);

impl Viewer {
    fn new(app: &Arc<App>) -> Viewer {
        app.viewers.send_modify(|viewers| *viewers += 1);
        Viewer(app.clone())
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.send_modify(|viewers| *viewers -= 1);
    }
}

async fn stream(State(app): Shared, Extension(grant): Granted, uri: Uri) -> Answer {
    let StreamQuery { node, job, profiles } = parameters(&uri, "node=1, job=ID, profiles=1")?;
    let with_profiles = profiles.is_some_and(|profiles| profiles != 0);
    let permit = app.streams.clone().try_acquire_owned().map_err(|_| {
        let error = "too many streams are open";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error, "64 streams at most")
    })?;
    let mut stream = EventStream::new(permit);
    stream.hold(Viewer::new(&app));
    stream.add_list(app.jobs.version());
    if let Some(id) = job {
        let subscribe = move |app: &App| app.jobs.subscribe(&id, with_profiles);
        let (first, events) = reading(&app, |app| &app.lists, subscribe).await?;
        stream.add_job(first, events);
    }
    if node.is_some_and(|node| node != 0) {
        let (viewer, looks) = grant.node.view();
        stream.add_node(viewer, looks);
    }
    Ok(stream.into_response())
}
