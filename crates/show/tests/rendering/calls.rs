//! The table of calls: what the CPU's counters have counted, and what could not be counted.

use serde_json::{Value, json};
use weigh_schema::call::{CallsReport, Grouping};
use weigh_show::Screen;
use weigh_show::calls::{render, render_recorded, sentence};
use weigh_show::io::Extent;

const PIPE: Screen = Screen { columns: 160, is_terminal: false, is_cut: false, color: false };

fn terminal(columns: usize) -> Screen {
    Screen { columns, is_terminal: true, is_cut: true, color: false }
}

fn report(counters: Value, of_calls: Value) -> String {
    let report = json!({
        "schema": "weigh.calls/1", "command": ["true"], "wall_seconds": 1.0, "grouping": "call",
        "mechanism": "bpf", "subsystems": [], "counters": counters, "calls_total": 4,
        "threads_total": 1, "lost_total": 0, "untold_total": 0,
        "calls": [{
            "call": "read", "calls_total": 4, "errors_total": 0, "bytes_total": 0, "time_seconds": 1e-5,
            "time_p50_seconds": 1e-6, "time_p99_seconds": 1e-6, "time_max_seconds": 1e-6,
            "counters": of_calls, "parts": {}, "later": {},
        }],
        "slowest": [{
            "call": "read", "pid": 1, "tid": 1, "at_seconds": 0.0, "time_seconds": 1e-6, "result": 0,
            "counters": of_calls, "parts": {},
        }],
    });
    render(&serde_json::from_value(report).unwrap(), Extent::Rows(20), false, PIPE)
        .replace('\u{202f}', " ")
}

#[test]
fn counters_stand_below_their_calls_and_say_when_they_are_estimates() {
    let asked = json!([{ "name": "cycles" }, { "name": "instructions" }]);
    let text = report(asked.clone(), json!({ "cycles_total": 8000, "instructions_total": 6000 }));
    let counted =
        "counted: 8000 cycles (2000 a call), 6000 instructions, 0.75 instructions per cycle\n";
    assert!(text.contains(counted), "{text}");
    assert!(text.contains("; 8000 cycles, 6000 instructions, 0.75"), "{text}");
    assert!(!text.contains("estimated"), "{text}");
    let text = report(asked, json!({ "cycles_total": 8000, "counted_ratio": 0.25 }));
    assert!(
        text.contains("8000 cycles (2000 a call), estimated: counted 25 % of the time"),
        "{text}"
    );
    assert!(!text.contains("per cycle"), "{text}");
}

#[test]
fn a_slow_call_says_how_many_of_its_requests_nobody_followed_has_caused() {
    let said = |block: Value| {
        let call = json!({
            "call": "fsync", "pid": 1, "tid": 1, "at_seconds": 0.0, "time_seconds": 8.5e-3, "result": 0,
            "parts": { "block": block },
        });
        sentence(&serde_json::from_value(call).unwrap())
    };
    let mut block = json!({
        "waiting_seconds": 8.3e-3, "requests_total": 4, "transferred_bytes_total": 1_048_576,
        "foreign_requests_total": 2, "foreign_bytes_total": 524_288,
    });
    assert_eq!(
        said(block.clone()),
        "fsync 8.5 ms: 8.3 ms waiting for block devices (4 requests, 1.0 MiB transferred; 2 of 4 \
         requests, with 512.0 KiB, caused by nobody followed)"
    );
    block.as_object_mut().unwrap().retain(|key, _| !key.starts_with("foreign"));
    assert_eq!(
        said(block),
        "fsync 8.5 ms: 8.3 ms waiting for block devices (4 requests, 1.0 MiB transferred)"
    );
}

/// However wide the terminal is: lines that go on are further in than the first one.
#[test]
fn a_slow_call_s_words_are_all_there() {
    let report = json!({
        "schema": "weigh.calls/1", "command": ["true"], "wall_seconds": 1.0, "grouping": "call",
        "mechanism": "bpf", "subsystems": [], "counters": [], "calls_total": 0, "threads_total": 1,
        "lost_total": 0, "untold_total": 0, "calls": [],
        "slowest": [{
            "call": "fsync", "pid": 1, "tid": 1, "at_seconds": 0.0, "time_seconds": 8.5e-3, "result": 0,
            "parts": { "block": {
                "waiting_seconds": 8.3e-3, "requests_total": 4, "transferred_bytes_total": 1_048_576,
                "foreign_requests_total": 2, "foreign_bytes_total": 524_288,
            } },
        }],
    });
    let report = serde_json::from_value(report).unwrap();
    for width in 80..=200 {
        let text = render(&report, Extent::Rows(20), false, terminal(width));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("with 512.0 KiB, caused by nobody followed)"), "{width}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
}

#[test]
fn what_can_not_be_counted_is_unavailable_and_never_nothing() {
    let asked = json!([{ "name": "cycles", "unavailable": "no such counter" }]);
    let text = report(asked, json!({}));
    assert!(text.contains("cycles unavailable: no such counter"), "{text}");
    assert!(!text.contains("counted:") && !text.contains("0 cycles"), "{text}");
    assert!(!report(json!([]), json!({})).contains("cycles"));
}

/// A server that sleeps until its peer sends is idle; one that computes in the call is not.
#[test]
fn calls_that_wait_for_the_peer_are_idle_and_listed_only_where_that_is_wanted() {
    let kind = |call: &str, waited: f64| {
        json!({
            "call": call, "calls_total": 3, "errors_total": 0, "bytes_total": 0, "time_seconds": 2.0,
            "time_p50_seconds": 0.5, "time_p99_seconds": 1.0, "time_max_seconds": 1.0, "counters": {}, "later": {},
            "parts": {
                "sched": { "waiting_seconds": waited }, "net": { "time_seconds": 2.0 - waited },
            },
        })
    };
    let report = json!({
        "schema": "weigh.calls/1", "command": ["server"], "wall_seconds": 2.0, "grouping": "call",
        "mechanism": "bpf", "subsystems": [], "counters": [], "calls_total": 9, "threads_total": 1,
        "lost_total": 0, "untold_total": 0, "slowest": [],
        "calls": [kind("recvfrom", 2.0), kind("nanosleep", 2.0), kind("recvmsg", 0.1)],
        "under_way": [{ "call": "accept4", "pid": 7, "tid": 7, "command": "server", "time_seconds": 3.0 }],
    });
    let report = serde_json::from_value(report).unwrap();
    for extent in [Extent::Rows(20), Extent::Lines(24)] {
        let text = render(&report, extent, false, PIPE);
        assert!(text.contains("idle, and not in the table (--idle): recvfrom 2.000 s\n"), "{text}");
        let rows = |text: &str, name: &str| text.lines().any(|line| line.starts_with(name));
        assert!(
            !rows(&text, "recvfrom") && rows(&text, "nanosleep") && rows(&text, "recvmsg"),
            "{text}"
        );
        assert!(
            text.contains("accept4, ≥ 3.000 s, idle: waiting for a connection (server"),
            "{text}"
        );
        let text = render(&report, extent, true, PIPE);
        assert!(rows(&text, "recvfrom") && !text.contains("--idle"), "{text}");
        assert!(text.contains("idle: waiting for the peer 100 %"), "{text}");
        assert!(!text.contains("recvfrom sched wait"), "{text}");
    }
}

const CONNECTIONS: [&str; 2] =
    ["tcp 127.0.0.1:38390 -> 127.0.0.1:8080", "tcp 127.0.0.1:38392 -> 127.0.0.1:8080"];

/// Two rows with all numbers there can be, and `times` calls in each.
fn two_rows(of: [&str; 2], changed: Value) -> weigh_schema::call::CallsReport {
    let row = |of: &str| {
        json!({
            "call": "sendto", "of": of, "calls_total": 1112, "errors_total": 3, "bytes_total": 13_107_200,
            "time_seconds": 1.0, "time_p50_seconds": 0.1, "time_p99_seconds": 0.2, "time_max_seconds": 0.3,
            "counters": {}, "later": { "pending_total": 1, "timers_total": 2 },
            "parts": {
                "sched": { "run_queue_seconds": 0.5 }, "block": { "waiting_seconds": 0.3 },
                "kernel": { "time_seconds": 0.2 },
            },
        })
    };
    let mut report = json!({
        "schema": "weigh.calls/1", "command": ["true"], "wall_seconds": 1.0, "grouping": "file",
        "mechanism": "bpf", "subsystems": [], "counters": [], "calls_total": 1112, "threads_total": 2,
        "lost_total": 0, "untold_total": 0, "calls": of.map(row), "slowest": [],
    });
    report.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    serde_json::from_value(report).unwrap()
}

fn text(report: &weigh_schema::call::CallsReport, rows: usize, screen: Screen) -> String {
    render(report, Extent::Rows(rows), false, screen).replace('\u{202f}', " ")
}

#[test]
fn where_the_time_went_is_told_at_any_width_and_what_has_no_room_is_named() {
    let report = two_rows(["a", "b"], json!({}));
    const PARTS: &str = "run queue 50 %, block wait 30 %, kernel 20 %";
    for width in 60..200 {
        let text = text(&report, 20, terminal(width));
        assert_eq!(text.matches(PARTS).count(), 2, "{width}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        let titles = text.lines().find(|line| line.starts_with("call ")).unwrap();
        let shown = titles.trim_end_matches("where the time went").split_whitespace();
        let shown: Vec<&str> = shown.skip(1).collect();
        assert!(["calls", "total", "mean"].iter().all(|name| shown.contains(name)), "{titles}");
        let said = text.lines().find_map(|line| line.strip_prefix("left out: "));
        let left_out = said.map_or("", |said| said.split_once(';').unwrap().0);
        let left_out: Vec<&str> = left_out.split(", ").filter(|name| !name.is_empty()).collect();
        assert_eq!(shown.len() + left_out.len(), 8, "{width}: {text}");
        // Each row's numbers are as many as it has titles.
        let row = text.lines().find(|line| line.starts_with("sendto (a)")).unwrap();
        assert_eq!(row.contains("200.0 ms"), shown.contains(&"p99"), "{width}: {text}");
        assert_eq!(row.contains("12.5 MiB"), shown.contains(&"bytes"), "{width}: {text}");
    }
    let narrow = text(&report, 20, terminal(70));
    assert!(
        narrow.contains("\nleft out: p50, p99; 84 columns have room, and --json has all\n"),
        "{narrow}"
    );
    assert!(text(&report, 20, terminal(83)).contains("left out: p50; 84 columns"));
    assert!(!text(&report, 20, terminal(84)).contains("left out"));
}

#[test]
fn rows_of_files_and_connections_can_be_told_apart_at_any_width() {
    let paths = [
        "/tmp/user/deep/aaaaaaaaaaaaaaaaaaaaaaaaaaaaa/first",
        "/tmp/user/deep/aaaaaaaaaaaaaaaaaaaaaaaaaaaaa/second",
    ];
    for (of, marks) in
        [(CONNECTIONS, [":38390 -> ", ":38392 -> "]), (paths, ["/first)", "/second)"])]
    {
        let report = two_rows(of, json!({}));
        for width in 60..200 {
            let text = text(&report, 20, terminal(width));
            for mark in marks {
                assert_eq!(text.matches(mark).count(), 1, "{width}: {text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        let piped = text(&report, 20, Screen { columns: 60, ..PIPE });
        let row = |of: &str| {
            piped.lines().any(|line| {
                line.contains(&format!("sendto ({of})")) && line.contains("kernel 20 %")
            })
        };
        assert!(of.into_iter().all(row), "{piped}");
    }
}

#[test]
fn a_table_of_24_lines_says_what_is_left_out() {
    let mut report = two_rows(["a", "b"], json!({ "untold_total": 3 }));
    let kinds = (0..50).map(|number| {
        let mut kind = report.calls[0].clone();
        kind.call = format!("call{number}");
        kind
    });
    report.calls = kinds.collect();
    for width in 60..200 {
        let text = render(&report, Extent::Lines(24), false, terminal(width));
        assert!(text.lines().count() <= 24, "{width}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        let rows = text.lines().filter(|line| line.starts_with("call") && line.contains(" (a)"));
        let left = format!("and {} more kinds of calls; --rows shows more", 50 - rows.count());
        assert!(text.contains(&left) && text.contains("1 note: --all"), "{width}: {text}");
    }
}

#[test]
fn no_rows_are_no_table() {
    let report = two_rows(["a", "b"], json!({}));
    let none = text(&report, 0, PIPE);
    assert!(none.contains("\n2 kinds of calls; --rows shows them\n"), "{none}");
    assert!(!none.contains("p50"), "{none}");
    let one = text(&report, 1, PIPE);
    assert!(one.contains("\nand 1 more kind of calls; --rows shows more\n"), "{one}");
}

#[test]
fn one_is_not_several_and_thousands_are_apart() {
    let report = two_rows(["a", "b"], json!({ "missed_arrivals_total": 1 }));
    let piped = text(&report, 20, PIPE);
    assert!(piped.starts_with("weigh  1112 calls of 2 threads in 1.000 s\n"), "{piped}");
    let found = text(&report, 20, terminal(160));
    assert!(found.starts_with("weigh  1 112 calls of 2 threads in 1.000 s\n"), "{found}");
    assert!(found.contains("sendto (a)  1 112 "), "{found}");
    assert!(found.contains("later: 1 thing pending, 2 timers\n"), "{found}");
    assert!(found.contains("missed: 1 return of a thread to a CPU"), "{found}");
}

#[test]
fn how_much_of_the_cost_came_later_is_told() {
    let mut costly = two_rows(["a", "b"], json!({}));
    costly.calls[0].later_ratio = Some(0.856);
    costly.calls[1].later_ratio = Some(0.001);
    let found = text(&costly, 20, PIPE);
    assert!(found.contains("later, 86 % of the cost: 1 thing pending"), "{found}");
    assert!(found.contains("later: 1 thing pending"), "{found}");
}

#[test]
fn who_is_asked_to_wait_waits_as_asked_and_others_for_what_nobody_knows() {
    let said_of = |call: &str, of: Option<&str>| {
        let call = json!({
            "call": call, "of": of, "pid": 1, "tid": 1, "at_seconds": 0.0, "time_seconds": 0.05, "result": 0,
            "parts": { "sched": { "waiting_seconds": 0.05, "switches_total": 1 } },
        });
        sentence(&serde_json::from_value(call).unwrap())
    };
    let said = |call: &str| said_of(call, None);
    for call in ["nanosleep", "clock_nanosleep", "clock_nanosleep (32-bit)"] {
        let words = "50.0 ms: 50.0 ms sleeping, as it was asked to (1 switch)";
        assert_eq!(said(call), format!("{call} {words}"));
    }
    assert!(said("epoll_wait").contains("idle: waiting for descriptors"));
    assert!(said("read").contains("waiting for what no probe tells"));
    assert!(said("accept4").contains("50.0 ms idle: waiting for a connection (1 switch)"));
    assert!(said_of("read", Some("pipe:[7]")).contains("50.0 ms idle: waiting for its writer"));
}

#[test]
fn what_found_no_room_is_told_apart_with_what_can_be_done() {
    let mut changed = json!({ "lost_total": 522 });
    let lost = |changed: &Value| {
        let report = two_rows(["a", "b"], changed.clone());
        text(&report, 20, PIPE).lines().collect::<Vec<_>>().join(" ")
    };
    let calls = lost(&changed);
    assert!(calls.contains("lost: 522 calls or threads found no room"), "{calls}");
    assert!(calls.contains("--by call needs fewer rows"), "{calls}");
    assert!(!calls.contains("left behind"), "{calls}");
    changed["grouping"] = json!("call");
    assert!(!lost(&changed).contains("--by call"));
    let mut report = two_rows(["a", "b"], changed);
    let number = serde_json::from_value(json!(521)).unwrap();
    report.calls[0].later.insert("lost_total".into(), number);
    let both = text(&report, 20, PIPE).lines().collect::<Vec<_>>().join(" ");
    assert!(both.contains("lost: 521 things that calls left behind"), "{both}");
    assert!(both.contains("lost: 1 call or thread found no room"), "{both}");
}

#[test]
fn of_a_recording_its_own_options_and_files_are_named() {
    let changed = json!({ "lost_total": 3, "notes": ["a packet went unseen"] });
    let report = CallsReport { grouping: Grouping::Call, ..two_rows(["a", "b"], changed) };
    let brief = render_recorded(&report, false, terminal(70));
    assert!(brief.starts_with("\nCalls  "), "{brief}");
    assert!(brief.contains("2 notes: --details"), "{brief}");
    let whole = render_recorded(&report, true, terminal(70)).replace('\n', " ");
    for words in
        ["columns have room, and calls.json has all", "(--calls=LIST)", "a packet went unseen"]
    {
        assert!(whole.contains(words), "{words}: {whole}");
    }
    assert!(!whole.contains("--subsystems") && !whole.contains("--json"), "{whole}");
}
