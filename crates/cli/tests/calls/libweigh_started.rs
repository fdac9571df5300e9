//! Programs with libweigh where no agent is: the weigh that has started them serves them, or says why
//! not.

use std::process::Command;

use crate::support::library::{Asked, NOBODY, folder, must, program, storage};
use crate::support::{is_there_an_agent, weigh_binary, weigh_for_everybody};
use weigh_schema::call_row::COST_COLUMNS;
use weigh_schema::explain::{Doing, ExplainReport, Verdict};

fn weigh(verb: &str) -> Command {
    let mut command = Command::new(weigh_binary());
    command.args([verb, "-q"]).env_remove("WEIGH_SOCKET");
    command
}

#[test]
fn the_weigh_that_runs_a_program_serves_it() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let (storage, recording) = (storage(), folder());
    let mut run = weigh("run");
    run.arg("-o").arg(recording.path().join("recording")).arg("--");
    must(run.arg(program("exact")).arg(storage.path()).arg("20"));
}

/// At the default socket, in a folder /run of its own; what is run ends with the status of the last command.
const BESIDE_A_NODE_AGENT: &str = "set -e; mount -t tmpfs none /run; mkdir /run/weigh
setpriv --inh-caps=-all --bounding-set=-all --no-new-privs \"$1\" agent 2>/run/said & agent=$!
trap 'kill $agent' EXIT
n=0; until grep -q 'node alone' /run/said; do n=$((n + 1)); [ $n -lt 600 ]; sleep 0.1; done
shift; \"$@\"";

/// It turns programs away, so the weigh that runs them serves them, as where no agent is.
#[test]
fn an_agent_of_the_node_alone_takes_no_program_from_the_weigh_that_runs_it() {
    needs_root!();
    let (storage, recording) = (storage(), folder());
    for verb in ["run", "calls"] {
        let mut beside = Command::new("unshare");
        beside.args(["--mount", "sh", "-c", BESIDE_A_NODE_AGENT, "sh"]).arg(weigh_binary());
        beside.arg(weigh_binary()).args([verb, "-q"]).env_remove("WEIGH_SOCKET");
        if verb == "run" {
            beside.arg("-o").arg(recording.path().join("recording"));
        }
        beside.arg("--").arg(program("exact")).arg(storage.path()).arg("20");
        must(beside.args((verb == "calls").then_some("job")));
    }
}

#[test]
fn the_weigh_that_follows_a_program_s_calls_serves_it() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let storage = storage();
    let exact = program("exact");
    must(weigh("calls").arg("--").arg(exact).arg(storage.path()).args(["20", "job"]));
}

/// The library that marks its calls is in it, too, and neither takes the other's place.
#[test]
fn a_program_whose_calls_are_marked_has_its_own_intervals_beside() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let folder = folder();
    let report = folder.path().join("calls.json");
    let mut calls = weigh("calls");
    calls.args(["--mechanism", "preload", "--json"]).arg(&report).arg("--");
    must(calls.arg(program("beside")));
    let text = std::fs::read_to_string(&report).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = report["calls"].as_array().expect("rows");
    let sleeps = rows.iter().find(|row| row["call"] == "clock_nanosleep").expect("it sleeps");
    let (slept, waited) = (&sleeps["time_seconds"], &sleeps["parts"]["sched"]["waiting_seconds"]);
    let part = waited.as_f64().unwrap_or(0.0) / slept.as_f64().expect("a time");
    assert_eq!(sleeps["calls_total"], 3, "{text}");
    assert!(part > 0.5, "{text}");
    assert!(!text.contains("was not split"), "{text}");
}

/// What a call leaves behind is charged to the account that asked for it, too.
#[test]
fn what_comes_later_reaches_the_account_of_a_program_whose_calls_are_followed() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let storage = storage();
    must(weigh("calls").arg("--").arg(program("deferred_writes")).arg(storage.path()));
}

#[test]
fn a_limit_is_told_of_under_weigh_calls_too() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let storage = storage();
    must(weigh("calls").arg("--").arg(program("limits")).arg(storage.path()));
}

/// Each call is a cause by itself: an fsync carries what a write has made dirty, and a sum has its time once.
#[test]
fn a_time_that_is_in_two_accounts_is_told_apart() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let storage = storage();
    must(weigh("calls").arg("--").arg(program("pages")).arg(storage.path()).arg("job"));
}

/// More of its accounts write to the same pages than can be told apart: the calls have all that was written.
#[test]
fn of_accounts_that_find_no_room_the_calls_miss_nothing() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let (storage, folder) = (storage(), folder());
    let report = folder.path().join("calls.json");
    let mut calls = weigh("calls");
    must(calls.arg("--json").arg(&report).arg("--").arg(program("crowd")).arg(storage.path()));
    let text = std::fs::read_to_string(&report).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = report["calls"].as_array().expect("rows");
    let row = |call: &str| rows.iter().find(|row| row["call"] == call).expect("a row");
    assert_eq!(row("pwrite64")["later"]["block_written_bytes_total"], 3 * 4096, "{text}");
    assert!(row("fsync")["parts"]["block"]["foreign_bytes_total"].is_null(), "{text}");
    assert_eq!(report["lost_total"], 0, "{text}");
}

#[test]
fn a_user_without_rights_is_told_so() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    let recording = folder();
    command.arg(weigh_for_everybody()).args(["run", "-q", "-o"]);
    command.arg(recording.path().join("recording")).arg("--").arg(program("steps"));
    let mut steps = Asked::start(command.env_remove("WEIGH_SOCKET"));
    let (reason, calls, sent) = steps.numbers();
    let no_rights = weigh_schema::library::Reason::NoRights as u64;
    assert_eq!((reason, calls, sent), (no_rights, 2, 0));
}

#[test]
fn who_has_a_place_already_keeps_it() {
    let recording = folder();
    let mut run = weigh("run");
    run.env("WEIGH_SOCKET", "/nowhere").args(["--level", "1", "-o"]);
    let run =
        run.arg(recording.path().join("recording")).args(["--", "sh", "-c", "echo $WEIGH_SOCKET"]);
    assert_eq!(String::from_utf8_lossy(&must(run).stdout), "/nowhere\n");
}

/// Which requests were slow, and where: by the program's own tokens, and in the program itself.
#[test]
fn slow_requests_are_told_from_ordinary_ones() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let folder = folder();
    let calls = folder.path().join("calls.parquet");
    let mut follow = weigh("calls");
    follow.arg("--per-call").arg(&calls).arg("--").arg(program("requests")).arg("1000");
    must(&mut follow);

    let mut tokens = Vec::new();
    weigh_keep::each_call(&calls, |row| {
        let token = row.interval.map(|interval| interval.token).filter(|_| row.call == "getppid");
        tokens.extend(token);
    })
    .expect("a file of calls");
    let expected: Vec<u64> = (0..3000).map(|call| 100_000 + call / 3).collect();
    assert_eq!(tokens, expected);

    let explain = |by: &str| -> ExplainReport {
        let mut explain = Command::new(weigh_binary());
        explain.args(["explain", "-q", "--slow", "4ms", "--json", "-", "--by", by]).arg(&calls);
        serde_json::from_slice(&must(&mut explain).stdout).expect("a report")
    };
    let report = explain("interval");
    let [kind] = &report.kinds[..] else { panic!("{:?}", report.kinds) };
    assert_eq!((report.calls_total, kind.verdict), (1000, Verdict::Differ));
    // A busy machine may make others slow as well.
    assert!((50..100).contains(&kind.slow.calls_total), "{:?}", kind.slow);
    let first = &kind.differences[0];
    assert_eq!((first.subsystem.as_str(), first.doing), ("program", Doing::Busy));
    assert!(first.more_seconds > 2.5e-3 && first.slow_seconds >= 2.5e-3, "{first:?}");
    assert_eq!(kind.slow_tokens.len(), 5);
    // The slowest that is asked for, and one that may be like others.
    let slowest = kind.slow_tokens[0].to_string();
    let mut ask = Command::new(weigh_binary());
    ask.args(["explain", "--token", &slowest, "--token", "100000"]).arg(&calls);
    let said = String::from_utf8_lossy(&must(&mut ask).stdout).into_owned();
    for token in [slowest.as_str(), "100000"] {
        assert!(said.contains(&format!("\ntoken {token}: 1 of 1")), "{said}");
    }
    assert!(said.contains(" more in the program itself"), "{said}");
    // Each token is a kind of its own, and one request of it is none to compare.
    let by_token = explain("token");
    assert_eq!(by_token.kinds.len(), 1000);
    assert!(by_token.kinds.iter().all(|kind| kind.verdict == Verdict::TooFew));
    assert!(by_token.kinds.iter().any(|kind| kind.of.as_deref() == Some("token 100999")));
}

/// Those that had their bytes on the device are named by what they waited for.
#[test]
fn requests_that_wait_for_the_device_are_told_from_ordinary_ones() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let (folder, storage) = (folder(), storage());
    let calls = folder.path().join("calls.parquet");
    let mut follow = weigh("calls");
    follow.arg("--per-call").arg(&calls).arg("--").arg(program("requests"));
    must(follow.arg("400").arg(storage.path().join("log")));

    let mut requests = 0;
    let mut written: Vec<u64> = Vec::new();
    weigh_keep::each_call(&calls, |row| {
        let token = row.interval.map(|interval| interval.token);
        written.extend(token.filter(|_| row.call == "write" && row.result.0 == 4099));
        let own = COST_COLUMNS.iter().find(|column| column.name == "block_requests_total");
        let own = own.expect("a column").raw(&row).unwrap_or(0);
        requests += if row.call == "fsync" { own } else { 0 };
    })
    .expect("a file of calls");
    assert_eq!(written, (100_000..100_400).collect::<Vec<u64>>());
    if requests == 0 {
        crate::support::leave_out("no disk is seen below this file system");
        return;
    }
    let mut explain = weigh("explain");
    // One of twenty.
    explain.args(["--slow", "5%", "--json", "-", "--by", "interval"]).arg(&calls);
    let report: ExplainReport =
        serde_json::from_slice(&must(&mut explain).stdout).expect("a report");
    let [kind] = &report.kinds[..] else { panic!("{:?}", report.kinds) };
    assert_eq!((report.calls_total, kind.verdict), (400, Verdict::Differ));
    // Others may have had the CPU before it came back.
    let waits = kind.differences.iter().filter(|part| part.doing == Doing::Waiting);
    let most = waits.max_by(|a, b| a.more_seconds.total_cmp(&b.more_seconds));
    let most = most.unwrap_or_else(|| panic!("{:?}", kind.differences));
    assert!(["block", "journal", "writeback"].contains(&most.subsystem.as_str()), "{most:?}");
    assert!(most.more_seconds > 10.0 * most.ordinary_seconds, "{most:?}");
    // Whatever else was slow on a busy machine, most had been synced.
    let synced = kind.slow_tokens.iter().filter(|token| **token % 20 == 7).count();
    assert!(2 * synced > kind.slow_tokens.len(), "{:?}", kind.slow_tokens);
}

/// Links of BPF programs to the kernel that processes of weigh's hold.
fn links_of(weigh: u32) -> usize {
    let folder = format!("/proc/{weigh}/fd");
    let files = std::fs::read_dir(folder).expect("its descriptors").flatten();
    let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    names.filter(|name| name.to_string_lossy().contains("bpf_link")).count()
}

/// A weigh and its command, which end with the test, however that ends.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let command = format!("kill -KILL $(pgrep -P {})", self.0.id());
        let _ = Command::new("sh").args(["-c", &command]).status();
        let _ = self.0.wait();
    }
}

/// The command goes on, with the library in it, and nobody pays for that any more.
#[test]
fn nothing_is_attached_when_the_time_of_following_is_over() {
    needs_root!();
    let folder = folder();
    let report = folder.path().join("calls.json");
    let mut calls = weigh("calls");
    calls.args(["--mechanism", "preload", "--for", "1s", "--json"]).arg(&report).arg("--");
    let script = "import socket, time\n\
                  one, other = socket.socketpair()\n\
                  while True: one.send(b'x'); other.recv(1); time.sleep(0.01)";
    let running = Running(calls.args(["python3", "-c", script]).spawn().expect("weigh"));
    let patience = std::time::Duration::from_secs(30);
    let began = std::time::Instant::now();
    let mut most = 0;
    while std::fs::metadata(&report).map_or(0, |file| file.len()) == 0 {
        assert!(began.elapsed() < patience, "nothing is told");
        most = most.max(links_of(running.0.id()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(most > 3, "{most}");
    // As often as it would have looked for what is wanted.
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(links_of(running.0.id()), 0);
    }
}
