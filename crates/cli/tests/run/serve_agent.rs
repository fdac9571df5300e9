//! `weigh serve --agent`, `weigh agent --http`: the page of an agent's node. Each test has an agent of its own.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use weigh_schema::node_metric::node_forks_total as forks;
use weigh_schema::stream::{NODE, PageStatus};

use crate::agent_node::NodeAgent;
use crate::serve::{PageClient, Served};
use crate::support::agent::NOBODY;
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, set_surroundings};
use crate::support::{wait_until, weigh_for_everybody};

/// A server of a user's own beside an agent.
fn serve(scratch: &Scratch, agent: &NodeAgent) -> Served {
    let mut command = Command::new(weigh_for_everybody());
    set_surroundings(&mut command, scratch);
    let socket = agent.scratch.path("socket");
    command.arg("serve").arg(format!("--agent={}", socket.display())).arg(scratch.path("work"));
    Served::by(command)
}

fn collector<'a>(report: &'a Json, name: &str) -> &'a Json {
    let collectors = report["collectors"].as_array().expect("a list");
    collectors.iter().find(|one| one["name"] == name).expect("it is listed")
}

#[test]
fn the_node_is_the_agents_and_an_outage_is_told() {
    let (scratch, mut agent) = (Scratch::new(), NodeAgent::start(&["--interval", "1h"]));
    let served = serve(&scratch, &agent);
    agent.done(NOBODY, &["agent", "set", "--collector", "load=off"]);
    wait_until("the agent's own collectors are shown", 20.0, || {
        collector(&served.get("/api/v1/node").json(), "load")["status"] == "disabled"
    });
    // While nobody looks the agent reads the node for nobody.
    wait_until("the reader is gone", 20.0, || agent.stream(NODE).readers == 0);
    let mut readers = 0;
    let reports = served.events("node=1", "node", |_| {
        readers = readers.max(agent.stream(NODE).readers);
        readers == 1
    });
    let last = reports.last().expect("a report")["time"].as_str().expect("a time").to_string();
    agent.end();
    let outage = served.events("node=1", "outage", |_| true);
    assert!(outage[0]["since"].as_str() >= Some(&last), "{outage:?}");
    assert!(outage[0]["reason"].as_str().is_some_and(|why| why.contains("agent")), "{outage:?}");
    let refused = served.get("/api/v1/node");
    let error = refused.json()["error"].as_str().unwrap_or_default().to_string();
    assert_eq!(refused.status, 503, "{error}");
    assert!(error.starts_with("no data of the node since 2"), "{error}");
    agent.start_again(&[]);
    let reports = served.events("node=1", "node", |_| true);
    assert_eq!(collector(&reports[0], "load")["status"], "active", "it is another agent");
    assert_eq!(served.get("/api/v1/node").status, 200);
}

/// Root's agent with a page, and no right but to become another user.
fn agent_with_page(options: &[&str]) -> NodeAgent {
    let rights = ["--bounding-set=-all,+setuid,+setgid,+setpcap"];
    NodeAgent::of_root_with(&rights, &[&["--http", "0"], options].concat())
}

fn page(agent: &NodeAgent) -> PageStatus {
    agent.client().status().expect("a status").page.expect("a page")
}

/// As a user sees it.
fn page_of(agent: &NodeAgent, uid: u32) -> PageClient {
    wait_until("the page is served", 30.0, || page(agent).is_served);
    PageClient::of_url(&agent.done(uid, &["agent", "url"]))
}

fn is_there(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // What nobody has waited for yet has ended, too.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn each_user_sees_what_it_may_by_a_process_that_may_nothing() {
    needs_root!();
    let agent = agent_with_page(&[]);
    let (root, nobody) = (page_of(&agent, 0), page_of(&agent, NOBODY));
    assert_ne!(root.token, nobody.token);
    assert_eq!(page_of(&agent, NOBODY).token, nobody.token, "it stays the same");
    let sleeper = |uid: u32| {
        let mut command = Command::new("sleep");
        Mortal::of(command.arg("7777.125").uid(uid).gid(uid).stdin(Stdio::null()).spawn())
    };
    let (of_root, of_nobody) = (sleeper(0), sleeper(NOBODY));
    let words = |page: &PageClient, pid: u32| {
        let node = page.get("/api/v1/node").json();
        let rows = node["processes"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["pid"] == pid)?;
        assert_eq!(row["name"], "sleep");
        Some(row["command"].as_array().expect("a list").len())
    };
    for (page, of_roots_own, of_nobodys_own) in [(&root, 2, 2), (&nobody, 0, 2)] {
        wait_until("both are listed", 20.0, || {
            words(page, of_root.id()) == Some(of_roots_own)
                && words(page, of_nobody.id()) == Some(of_nobodys_own)
        });
    }
    let other = PageClient { address: root.address, token: "0".repeat(64) };
    assert_eq!(other.get("/api/v1/node").status, 401);
    assert_eq!(root.get("/api/v1/jobs").json()["jobs"], serde_json::json!([]));
    let pid = page(&agent).pid.expect("its process");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        line.split_whitespace().collect::<Vec<&str>>()
    };
    assert!(field("Uid:").iter().all(|uid| *uid == NOBODY.to_string()), "{status}");
    assert!(field("Groups:").is_empty());
    for set in ["CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
}

#[test]
fn the_pages_end_does_not_end_the_agent_and_the_agents_end_ends_it() {
    needs_root!();
    let mut agent = agent_with_page(&[]);
    let before = page_of(&agent, NOBODY);
    let first = page(&agent);
    let pid = first.pid.expect("its process");
    kill_process(Pid::from_raw(pid as i32).expect("a PID"), Signal::KILL).expect("it is there");
    wait_until("another one serves it", 30.0, || {
        let page = page(&agent);
        page.is_served && page.starts == 2
    });
    let text = agent.done(0, &["agent", "status"]);
    assert!(text.contains("started 2 times; its URL: weigh agent url"), "{text}");
    let after = page_of(&agent, NOBODY);
    assert_eq!((after.address, &after.token), (before.address, &before.token));
    assert_eq!(before.get("/api/v1/node").status, 200);
    let pid = page(&agent).pid.expect("its process");
    agent.end();
    assert!(!is_there(pid));
    // One that is killed has no time to say so.
    let mut agent = agent_with_page(&[]);
    page_of(&agent, 0);
    let pid = page(&agent).pid.expect("its process");
    agent.process.kill().expect("it is there");
    wait_until("it ends", 10.0, || !is_there(pid));
}

#[test]
fn an_agents_metrics_are_collected_with_the_token_of_a_file() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("token").display().to_string();
    let collected = || {
        let agent = agent_with_page(&["--token-file", &file]);
        let address = page_of(&agent, 0).address;
        let token = std::fs::read_to_string(Path::new(&file)).expect("it was made");
        let collector = PageClient { address, token: token.trim().to_string() };
        let metrics = collector.get("/metrics");
        assert!(String::from_utf8_lossy(&metrics.body).contains(forks.name));
        assert_eq!((metrics.status, collector.get("/api/v1/node").status), (200, 403));
        collector.token
    };
    assert_eq!(collected(), collected());
}

#[test]
fn without_a_page_there_is_no_url_and_root_serves_none() {
    let agent = NodeAgent::start(&[]);
    assert!(agent.refused(NOBODY, &["agent", "url"]).contains("weigh agent --http"));
    let refused = agent.refused(0, &["agent", "--http", "0.0.0.0:8080"]);
    assert!(refused.contains("needs TLS"), "{refused}");
    if rustix::process::geteuid().is_root() {
        let refused = agent.refused(0, &["serve", "--agent", "--for-users"]);
        assert!(refused.contains("without any rights"), "{refused}");
    }
}

const WEB_UNIT: &str = include_str!("../../../../packaging/weigh-web.service");

/// As the unit runs it: by the socket that it is given, with what the agent tells a stranger.
#[test]
fn a_page_apart_is_served_by_a_socket_that_listens_already() {
    needs_root!();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address").to_string();
    let mut agent = NodeAgent::of_root_with(
        &["--bounding-set=-all"],
        &["--http", &address, "--http-apart", "--interval", "1h"],
    );
    let line = WEB_UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=weigh "));
    let socket = agent.scratch.path("socket").display().to_string();
    let line = line.expect("a command").replace("/run/weigh/agent.sock", &socket);
    let listener = std::os::fd::OwnedFd::from(listener);
    let mut command = Command::new(weigh_for_everybody());
    command.args(line.split(' ')).uid(61_235).gid(61_235).stdin(listener);
    let served = Mortal::of(command.stdout(Stdio::null()).spawn());
    let page = page_of(&agent, NOBODY);
    assert_eq!(page.get("/api/v1/node").status, 200);
    assert_eq!(page.get("/").status, 200);
    let before = page.token.clone();
    agent.end();
    // A report of the last second is still one.
    wait_until("the outage is told", 20.0, || {
        let refused = page.get("/api/v1/node");
        refused.status == 503
            && refused.json()["error"].to_string().contains("no data of the node since")
    });
    // Another agent knows nothing of the tokens of the one before.
    agent = NodeAgent::of_root_in(agent, &["--http", &address, "--http-apart"]);
    wait_until("the old token opens nothing", 20.0, || page.get("/api/v1/node").status == 401);
    let page = page_of(&agent, NOBODY);
    assert_ne!(page.token, before);
    assert_eq!(page.get("/api/v1/node").status, 200);
    drop(served);
}

/// Each unit of the package is as confined as is promised.
#[test]
fn each_unit_is_confined() {
    let units = ["weigh-agent.service", "weigh-web.service", "weigh-commands.service"];
    for unit in units {
        let path = format!("{}/../../packaging/{unit}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--no-pager", &path]);
        let Ok(output) = command.output() else { return };
        let said = String::from_utf8_lossy(&output.stdout);
        let level = said.lines().find_map(|line| line.split_once("Overall exposure level for "));
        let level = level.and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<f64>().ok());
        assert!(level.is_some_and(|level| level <= 1.5), "{unit}: {level:?}\n{said}");
    }
}
