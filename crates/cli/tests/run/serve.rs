//! `weigh serve`: a real server and a real job, over plain sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use weigh_schema::node_metric::node_forks_total as forks;
use weigh_schema::recording::files;

use crate::schema_check::{check_answer, check_event};
use crate::support::library::program;
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, Weigh, set_surroundings};
use crate::support::{patience, weigh_binary};

/// Names that would be markup, a header, an event or a path.
const EVIL: &str =
    "</script><img src=x onerror=alert(1)>\r\nSet-Cookie: a=b\r\n\r\ndata: x/../../etc/passwd";

pub struct Served {
    pub child: Mortal,
    page: PageClient,
}

/// One who has the token of a page.
pub struct PageClient {
    pub address: SocketAddr,
    pub token: String,
}

impl std::ops::Deref for Served {
    type Target = PageClient;

    fn deref(&self) -> &PageClient {
        &self.page
    }
}

/// An answer: its status, its head and its body.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Json {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Served {
    #[track_caller]
    fn start(scratch: &Scratch, folder: &Path) -> Served {
        let mut command = Command::new(weigh_binary());
        set_surroundings(&mut command, scratch);
        command.arg("serve").arg(folder);
        Served::by(command)
    }

    #[track_caller]
    pub fn by(mut command: Command) -> Served {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = Mortal::of(command.spawn());
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        Served { child, page: PageClient::of_url(&line) }
    }
}

impl PageClient {
    #[track_caller]
    pub fn of_url(line: &str) -> PageClient {
        let url = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("no URL: {line}"));
        let (address, token) = url.split_once("/?token=").expect("a token");
        PageClient { address: address.parse().expect("an address"), token: token.to_string() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(patience(30.0))).expect("a socket");
        stream
    }

    /// Sends these lines and reads to the end.
    #[track_caller]
    pub fn ask(&self, lines: &[&str]) -> Answer {
        let mut stream = self.connect();
        let request = lines.join("\r\n") + "\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        Answer { status, head, body: answer[end + 4..].to_vec() }
    }

    /// Asks as a page or program that has the token.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        let (host, bearer) = (self.host(), self.bearer());
        let line = format!("GET {path} HTTP/1.1");
        let answer = self.ask(&[&line, &host, &bearer, "Accept: application/json"]);
        if path.starts_with("/api/v1/") && answer.status != 403 && answer.status != 421 {
            let checked = check_answer(document(), path, answer.status, &answer.json());
            assert_eq!(checked, Ok(()), "as docs/openapi.json says");
        }
        answer
    }

    pub fn host(&self) -> String {
        format!("Host: {}", self.address)
    }

    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    /// Data of the stream's events of a name, until one is as is wanted.
    #[track_caller]
    pub fn events(
        &self,
        query: &str,
        name: &str,
        mut is_last: impl FnMut(&Json) -> bool,
    ) -> Vec<Json> {
        let mut stream = self.connect();
        let (host, bearer) = (self.host(), self.bearer());
        let request = format!("GET /api/v1/stream?{query} HTTP/1.1\r\n{host}\r\n{bearer}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut events = Vec::new();
        let mut is_named = false;
        for line in BufReader::new(stream).lines() {
            let line = line.expect("events come");
            if let Some(data) = line.strip_prefix("data: ").filter(|_| is_named) {
                events.push(serde_json::from_str(data).expect("JSON"));
                assert_eq!(check_event(document(), name, &events[events.len() - 1]), Ok(()));
                if events.last().is_some_and(&mut is_last) {
                    break;
                }
            }
            if let Some(event) = line.strip_prefix("event: ") {
                is_named = event == name;
            }
        }
        events
    }
}

/// What the API is said to be.
fn document() -> &'static Json {
    static DOCUMENT: OnceLock<Json> = OnceLock::new();
    let text = include_str!("../../../../docs/openapi.json");
    DOCUMENT.get_or_init(|| serde_json::from_str(text).expect("JSON"))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn the_page_is_for_who_has_the_token_and_asks_by_its_name() {
    let scratch = Scratch::new();
    let mut served = Served::start(&scratch, &scratch.path("work"));
    let host = served.host();
    assert_eq!(served.token.len(), 64);
    assert_eq!(served.ask(&["GET / HTTP/1.1", &host]).status, 401);
    assert_eq!(served.ask(&["GET /api/v1/node HTTP/1.1", &host]).status, 401);
    let welcome = served.ask(&[&format!("GET /?token={} HTTP/1.1", served.token), &host]);
    assert_eq!(welcome.status, 303, "{}", welcome.head);
    let cookie = welcome.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let (cookie, attributes) = cookie.and_then(|text| text.split_once(';')).expect("a cookie");
    assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Strict");
    let cookie = format!("Cookie: {cookie}");
    let page = served.ask(&["GET / HTTP/1.1", &host, &cookie]);
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-security-policy: default-src 'self'"), "{}", page.head);
    let html = String::from_utf8(page.body).expect("text");
    let assets = html.split('"').filter(|text| text.starts_with("/assets/"));
    let assets: Vec<&str> = assets.collect();
    assert_eq!(assets.len(), 2, "{html}");
    for asset in assets {
        let answer = served.ask(&[&format!("GET {asset} HTTP/1.1"), &host, &cookie]);
        assert_eq!(answer.status, 200, "{asset}");
        assert!(answer.head.contains("immutable"), "{}", answer.head);
    }
    let rebound = served.ask(&["GET / HTTP/1.1", "Host: evil.example", &cookie]);
    assert_eq!(rebound.status, 421);
    let foreign = ["GET /api/v1/node HTTP/1.1", &host, &cookie, "Origin: http://evil.example"];
    assert_eq!(served.ask(&foreign).status, 403);
    assert_eq!(served.ask(&["POST / HTTP/1.1", &host, &cookie]).status, 405);
    let node = served.get("/api/v1/node").json();
    assert_eq!(node["schema"], "weigh.top/1");
    assert!(node["interval_seconds"].as_f64().is_some_and(|seconds| seconds < 5.0), "{node}");
    let pid = Pid::from_child(&served.child);
    kill_process(pid, Signal::TERM).expect("it is there");
    assert!(served.child.wait().expect("it ends").success());
}

/// The token of a file is the same after each start, and opens the metrics alone.
#[test]
fn metrics_are_collected_with_the_token_of_a_file() {
    let scratch = Scratch::new();
    let file = scratch.path("work").join("token");
    let start = || {
        let mut command = Command::new(weigh_binary());
        set_surroundings(&mut command, &scratch);
        command.args(["serve", "--token-file"]).arg(&file).arg(scratch.path("work"));
        Served::by(command)
    };
    let mut before = String::new();
    for _ in 0..2 {
        let served = start();
        let token = std::fs::read_to_string(&file).expect("it was made").trim().to_string();
        assert!(before.is_empty() || before == token, "another one");
        assert_ne!(served.token, token, "the page has its own");
        let collector = PageClient { address: served.address, token: token.clone() };
        let metrics = collector.get("/metrics");
        let text = String::from_utf8_lossy(&metrics.body);
        assert!(metrics.status == 200 && text.contains(forks.name), "{text}");
        assert_eq!(collector.get("/api/v1/node").status, 403);
        assert_eq!(collector.get("/").status, 403);
        before = token;
    }
}

#[test]
fn without_a_place_for_recordings_the_node_is_served() {
    let scratch = Scratch::new();
    let mut command = Command::new(weigh_binary());
    set_surroundings(&mut command, &scratch);
    // No folder can be made there, by root neither.
    command.arg("serve").env("XDG_STATE_HOME", "/dev/null/state").stderr(Stdio::piped());
    let mut served = Served::by(command);
    assert_eq!(served.get("/api/v1/jobs").json()["jobs"], serde_json::json!([]));
    assert_eq!(served.get("/api/v1/node").json()["schema"], "weigh.top/1");
    let mut said = String::new();
    let mut errors = BufReader::new(served.child.stderr.take().expect("a pipe"));
    errors.read_line(&mut said).expect("a line");
    assert!(said.contains("no recordings are served: /dev/null/state"), "{said}");
}

#[test]
fn an_address_of_the_network_is_refused() {
    let output = Command::new(weigh_binary()).args(["serve", "--http", "0.0.0.0:0"]).output();
    let output = output.expect("weigh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("--tls-cert FILE") && said.contains("ssh -L"), "{said}");
}

/// What a job has written appears while it runs, and is what the summary says in the end.
#[test]
fn a_job_is_live_and_ends_with_its_summary() {
    needs_root!();
    const BYTES: u64 = 777_777;
    let script = format!("head -c {BYTES} /dev/zero > f; until test -e end; do sleep 0.02; done");
    let scratch = Scratch::new();
    let folder = scratch.path("work").join("recordings");
    std::fs::create_dir(&folder).expect("a folder");
    let served = Served::start(&scratch, &folder);
    assert_eq!(served.get("/api/v1/jobs").json()["jobs"].as_array().map(Vec::len), Some(0));
    let recording = folder.join("job");
    let weigh = Weigh::bash(&script)
        .options("--interval 50ms --label a=b -q")
        .option("-o")
        .option(&recording)
        .option("--category")
        .option(EVIL);
    let end = weigh.scratch().path("work").join("end");
    let mut running = weigh.start();
    let mut id = String::new();
    running.wait_until("the job is listed", 20.0, || {
        let jobs = served.get("/api/v1/jobs").json();
        let row = &jobs["jobs"][0];
        id = row["id"].as_str().unwrap_or_default().to_string();
        row["state"] == "running" && row["labels"]["a"] == "b"
    });
    let written = |event: &Json| event["metrics"]["io_written_bytes_total"]["value"].as_u64();
    let query = format!("job={}", encoded(&id));
    let events = served.events(&query, "job", |event| written(event) >= Some(BYTES));
    assert!(events.iter().all(|event| event["state"] == "running"), "{events:?}");
    assert_eq!(served.get(&format!("/api/v1/jobs/{}", encoded(&id))).json()["state"], "running");
    std::fs::write(&end, "").expect("a file");
    let events = served.events(&query, "job", |event| event["state"] == "ended");
    assert!(running.end().status.success());
    let summary = std::fs::read(recording.join(files::SUMMARY)).expect("a summary");
    let summary: Json = serde_json::from_slice(&summary).expect("JSON");
    let last = events.last().expect("the last event");
    for (name, value) in summary["metrics"].as_object().expect("metrics") {
        for key in ["value", "unit", "quality"] {
            assert_eq!(last["metrics"][name][key], value[key], "{name}");
        }
    }
    let row = &served.get("/api/v1/jobs").json()["jobs"][0];
    assert_eq!((&row["state"], &row["category"]), (&Json::from("ended"), &Json::from(EVIL)));
    assert_eq!(row["exit"], summary["exit"]);
    let series = format!("/api/v1/series?{query}&metric=io_written_bytes_total&points=1");
    let columns = served.get(&series).json();
    let total = summary["metrics"]["io_written_bytes_total"]["value"].as_f64();
    assert_eq!(columns["last"][0].as_f64(), total, "{columns}");
}

/// Ends a job when a test is over, however: who watches it would wait for its end.
struct Ending(Pid);

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(self.0, Signal::TERM);
    }
}

/// Before its process has ended.
#[test]
fn regions_of_a_program_that_runs_are_on_its_page() {
    let scratch = Scratch::new();
    let folder = scratch.path("work");
    let served = Served::start(&scratch, &folder);
    let words = [program("regions_run").display().to_string(), "control".to_string()];
    let mut running = Weigh::run(words).options("-q -o").option(folder.join("job")).start();
    let mut id = String::new();
    running.wait_until("the job is listed", 20.0, || {
        let jobs = served.get("/api/v1/jobs").json();
        id = jobs["jobs"][0]["id"].as_str().unwrap_or_default().to_string();
        !id.is_empty()
    });
    let query = format!("job={}", encoded(&id));
    let calls = |key: &str| {
        let found = served.get(&format!("/api/v1/busiest?{query}")).json();
        let rows = found["phases"]["rows"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["name"] == "quiet step");
        row.and_then(|row| row[key]["calls"].as_f64()).unwrap_or(0.0)
    };
    let is_over = |event: &Json| event["state"] != "running";
    let mut first = 0.0;
    std::thread::scope(|scope| {
        let _ending = Ending(Pid::from_child(&running.child));
        let watching = scope.spawn(|| served.events(&query, "job", is_over));
        let steps = |event: &Json| {
            let rows = event["regions"].as_array().expect("a list");
            let row = rows.iter().find(|row| row["path"] == serde_json::json!(["quiet step"]));
            row.and_then(|row| row["calls"].as_u64())
        };
        let mut told = Vec::new();
        served.events(&format!("{query}&profiles=1"), "profile", |event| {
            told.extend(steps(event));
            told.len() >= 3
        });
        assert!(told.windows(2).all(|two| two[0] < two[1]), "each row is a later one: {told:?}");
        running.wait_until("calls are counted, and how many a second", 30.0, || {
            first = calls("total");
            calls("per_second") > 0.0
        });
        running.wait_until("they go on", 30.0, || calls("total") > first);
        let page = served.get(&format!("/api/v1/jobs/{}", encoded(&id))).json();
        let flat = page["regions"]["flat"].as_array().expect("regions").iter();
        let counts = flat.filter(|row| row["name"] == "quiet step");
        let counted: f64 = counts.filter_map(|row| row["calls"].as_f64()).sum();
        assert!(page["state"] == "running" && counted >= first, "{counted} after {first}");
        kill_process(Pid::from_child(&running.child), Signal::TERM).expect("it is there");
        assert_eq!(watching.join().expect("events").last().expect("one")["state"], "ended");
    });
    running.end();
    let recording = weigh_keep::Recording::open(&folder.join("job")).expect("a recording");
    let mut found = Vec::new();
    recording.each_region(|row| found.push((row.path, row.calls))).expect("a table");
    let steps: Vec<u64> =
        found.iter().filter(|(path, _)| path == &["quiet step"]).map(|(_, calls)| *calls).collect();
    assert!(
        steps.len() == 1 && steps[0] as f64 >= first,
        "one row, not one for each look: {steps:?}"
    );
}

/// Without viewers a sample is taken once a second, where it is a look at /proc.
#[test]
fn a_job_that_is_watched_has_samples_ten_times_a_second() {
    let scratch = Scratch::new();
    let folder = scratch.path("work");
    let served = Served::start(&scratch, &folder);
    let weigh =
        Weigh::run(["sleep", "60"]).options("--mechanism poll -q -o").option(folder.join("job"));
    let mut running = weigh.start();
    let mut id = String::new();
    running.wait_until("the job is listed", 20.0, || {
        let jobs = served.get("/api/v1/jobs").json();
        id = jobs["jobs"][0]["id"].as_str().unwrap_or_default().to_string();
        !id.is_empty()
    });
    let mut times: Vec<i64> = Vec::new();
    served.events(&format!("job={}", encoded(&id)), "job", |event| {
        let samples = event["samples"].as_array().expect("a list").iter();
        times.extend(samples.filter_map(|sample| sample["time_ns"].as_i64()));
        times.len() >= 12
    });
    let mut between: Vec<i64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    between.sort_unstable();
    let middle = Duration::from_nanos(between[between.len() / 2].unsigned_abs());
    assert!(middle < patience(0.5), "{middle:?} between two samples: {times:?}");
    let pid = Pid::from_child(&running.child);
    kill_process(pid, Signal::TERM).expect("it is there");
    running.end();
}

/// Clients that send half a request, or take nothing of an answer, hold up nobody else.
#[test]
fn slow_clients_do_not_stop_a_good_one() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, &scratch.path("work"));
    let (host, bearer) = (served.host(), served.bearer());
    let begun = |text: String| {
        let mut stream = served.connect();
        stream.write_all(text.as_bytes()).expect("it takes a few bytes");
        stream
    };
    let half = (0..64).map(|_| begun(format!("GET / HTTP/1.1\r\n{host}\r\n")));
    let stream = format!("GET /api/v1/stream?node=1 HTTP/1.1\r\n{host}\r\n{bearer}\r\n\r\n");
    let deaf = (0..32).map(|_| begun(stream.clone()));
    let clients: Vec<TcpStream> = half.chain(deaf).collect();
    let begin = Instant::now();
    assert_eq!(served.get("/api/v1/jobs").status, 200);
    assert_eq!(served.get("/api/v1/node").status, 200);
    let mut changes = 0;
    served.events("node=1", "change", |_| {
        changes += 1;
        changes == 5
    });
    assert!(begin.elapsed() < patience(10.0), "{:?}", begin.elapsed());
    drop(clients);
    let rss = std::fs::read_to_string(format!("/proc/{}/statm", served.child.id())).expect("statm");
    let pages: u64 = rss.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("pages");
    assert!(pages * 4096 < 100 << 20, "{pages} pages");
}

/// While nobody looks, nothing is read: the server uses no CPU.
#[test]
fn it_rests_while_nobody_looks() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, &scratch.path("work"));
    served.events("node=1", "node", |_| true);
    // That the client has gone is met when it is written to.
    std::thread::sleep(Duration::from_millis(1500));
    let switches = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", served.child.id())).expect("tasks");
        let status = tasks.map(|task| {
            std::fs::read_to_string(task.expect("a task").path().join("status")).unwrap_or_default()
        });
        let field = |text: String| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
        };
        status.map(field).sum::<u64>()
    };
    let before = switches();
    std::thread::sleep(Duration::from_millis(1500));
    let after = switches();
    assert!(after <= before + 5, "{} wake-ups in 1.5 s", after - before);
}
