//! `weigh trace` looking at several events together, against programs that know exactly what they did.

use std::time::{Duration, Instant};

use crate::support::run::{Scratch, weigh};
use crate::support::terminal::Terminal;
use crate::support::trace::{are_refused, lines, succeeds};
use crate::support::workload;
use serde_json::Value;

const SENT: u64 = 1003;
const ODD: u64 = 23;
const BYTES: u64 = 1400;
/// With the heads of Ethernet, IP and UDP.
const LENGTH: u64 = BYTES + 42;
/// The number of sendto(2).
const SENDTO: u32 = if cfg!(target_arch = "aarch64") { 206 } else { 44 };

/// Follows while the datagrams are sent; what was found, and what weigh said.
#[track_caller]
fn sends(scratch: &Scratch, options: &[&str]) -> (Vec<Value>, String) {
    let file = scratch.path("found.json").display().to_string();
    let program = workload("datagrams");
    let numbers = [SENT, BYTES, ODD].map(|number| number.to_string());
    let command = [&program, &numbers[0], &numbers[1], &numbers[2]].map(String::as_str);
    let arguments = [&["trace", "--json", &file][..], options, &["--"], &command].concat();
    let said = succeeds(&weigh(scratch, &arguments));
    let report: Value = serde_json::from_str(&scratch.text("found.json")).expect("JSON");
    assert_eq!(report["schema"], "weigh.synthesis/1");
    assert_eq!(report["late_total"], 0, "{report}");
    (report["found"].as_array().expect("a list").clone(), said)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn an_odd_number_of_calls_and_packets_is_as_many_pairs() {
    needs_root!();
    let scratch = Scratch::new();
    let (enter, exit) = (
        format!("raw_syscalls:sys_enter if arg1 == {SENDTO}"),
        format!("raw_syscalls:sys_exit if regs->orig_ax == {SENDTO}"),
    );
    let calls = "raw_syscalls:sys_enter -> sys_exit by tid";
    let packets = "net:net_dev_queue -> net:netif_rx by skb within 10s";
    let within = "sys_enter -> net:net_dev_queue by tid within 10s";
    let options = ["-e", &enter, "-e", &exit, "--latency", calls, "--latency", packets];
    // A ring for each CPU: the order of time has to be made.
    let more = ["--latency", within, "--per-cpu"];
    let (found, said) = sends(&scratch, &[&options[..], &more].concat());
    for one in &found {
        let totals = ["first_total", "second_total", "pairs_total", "lost_total"];
        assert_eq!(totals.map(|name| number(&one[name])), [SENT, SENT, SENT, 0], "{one}");
        let seconds = &one["seconds"];
        assert_eq!(number(&seconds["count"]), SENT);
        let of = |name: &str| seconds[name].as_f64().expect("a number");
        assert!(0.0 < of("min") && of("min") <= of("p50") && of("p99") <= of("max"), "{seconds}");
        let counts = seconds["buckets"].as_array().expect("a list").iter();
        assert_eq!(counts.map(|bucket| number(&bucket["count"])).sum::<u64>(), SENT);
    }
    // A packet is sent within the call.
    let mean = |n: usize| found[n]["seconds"]["mean"].as_f64().expect("a number");
    assert!(mean(2) < mean(0), "{found:?}");
    assert!(said.contains(calls) && said.contains("pairs, of"), "{said}");
}

#[test]
fn rates_the_most_frequent_and_histograms_are_exact() {
    needs_root!();
    let scratch = Scratch::new();
    let event = "net:net_dev_queue{len=skb->len}";
    let (found, _) = sends(
        &scratch,
        &[
            "-e",
            event,
            "--top",
            "3 by comm",
            "--rate",
            "by event, cpu",
            "--histogram",
            "len by tid",
        ],
    );
    let of = |kind: &str| found.iter().find(|one| one["kind"] == kind).expect("it was asked for");
    let row = &of("top")["rows"][0];
    assert_eq!((&row["key"][0], number(&row["events_total"])), (&Value::from("datagrams"), SENT));
    let rates = of("rate")["rows"].as_array().expect("a list");
    assert_eq!(rates.iter().map(|row| number(&row["events_total"])).sum::<u64>(), SENT);
    assert!(rates.iter().all(|row| row["key"][0] == "net:net_dev_queue"), "{rates:?}");
    assert!(rates.iter().all(|row| row["rate"]["per_second"].as_f64() > Some(0.0)), "{rates:?}");
    let values = &of("histogram")["rows"][0]["values"];
    assert_eq!(number(&values["count"]), SENT);
    let (min, max) = (LENGTH as f64, LENGTH as f64 + 1.0);
    assert_eq!((values["min"].as_f64(), values["max"].as_f64()), (Some(min), Some(max)));
    let mean = min + ODD as f64 / SENT as f64;
    assert!((values["mean"].as_f64().expect("a number") - mean).abs() < 1e-6, "{values}");
}

#[test]
fn an_argument_called_id_is_meant_rather_than_the_first_one() {
    needs_root!();
    let scratch = Scratch::new();
    let event = format!("raw_syscalls:sys_enter if id == {SENDTO}");
    let (found, _) = sends(&scratch, &["-e", &event, "--top", "3 by id"]);
    let row = &found[0]["rows"][0];
    assert_eq!((&row["key"][0], number(&row["events_total"])), (&Value::from(SENDTO), SENT));
}

#[test]
fn keys_for_which_there_is_no_room_are_counted() {
    needs_root!();
    let scratch = Scratch::new();
    let options = ["--keys", "1", "--top", "9 of net:net_dev_queue by skb->len", "-q"];
    let (found, said) = sends(&scratch, &options);
    let (row, others) = (&found[0]["rows"][0], number(&found[0]["others_total"]));
    assert_eq!(number(&row["events_total"]) + others, SENT);
    assert!([ODD, SENT - ODD].contains(&others), "{found:?}");
    assert!(!said.contains("weigh"), "{said}");
}

#[test]
fn only_sequences_are_handed_on() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("pairs.jsonl").display().to_string();
    let queue = "net:net_dev_queue{len=skb->len}";
    let longer = format!("net:net_dev_start_xmit{{len=skb->len}} if skb->len > {LENGTH}");
    let program = workload("datagrams");
    // Those that nothing follows are known when their time is over.
    let command = format!("{program} {SENT} {BYTES} {ODD}; sleep 0.6");
    let run = |sequence: &str| {
        let options = ["trace", "-o", &file, "-e", queue, "-e", &longer, "--sequence", sequence];
        let arguments = [&options[..], &["--", "sh", "-c", &command]].concat();
        let said = succeeds(&weigh(&scratch, &arguments));
        assert!(said.contains(", 0 lost"), "{said}");
        lines(&scratch, "pairs.jsonl")
    };
    let pairs = run("net_dev_queue followed by net_dev_start_xmit by skb, skb->len within 300ms");
    assert_eq!(pairs.len() as u64, ODD);
    for pair in &pairs {
        assert_eq!(pair["event"], "net:net_dev_queue followed by net:net_dev_start_xmit");
        let fields = &pair["fields"];
        assert_eq!(
            (&fields["len"], &fields["then_len"]),
            (&(LENGTH + 1).into(), &(LENGTH + 1).into())
        );
        assert!(number(&fields["after_ns"]) < 300_000_000, "{pair}");
        assert_eq!(pair["tid"], fields["then_tid"], "one thread does both");
    }
    let alone =
        run("net_dev_queue not followed by net_dev_start_xmit by skb, skb->len within 300ms");
    assert_eq!(alone.len() as u64, SENT - ODD);
    assert!(alone.iter().all(|one| one["fields"]["len"] == LENGTH), "{}", alone[0]);
    assert!(alone.iter().all(|one| one["fields"]["after_ns"] == 300_000_000), "{}", alone[0]);
}

#[test]
fn what_was_lost_is_said_where_it_is_missing() {
    needs_root!();
    let scratch = Scratch::new();
    // So long a text that nothing reads it as fast as it is written.
    let event = "net:net_dev_queue{bytes(skb->data, 1024)}";
    let options = ["-e", event, "--buffer", "4KiB", "--rate", "by tid"];
    let (found, said) = sends(&scratch, &options);
    let (lost, rows) = (number(&found[0]["lost_total"]), &found[0]["rows"]);
    assert!(lost > 0, "{said}");
    assert_eq!(rows[0]["events_total"].as_u64().unwrap_or(0) + lost, SENT);
    assert!(said.contains("incomplete: "), "{said}");

    let (found, said) =
        sends(&scratch, &["-e", "net:net_dev_queue sample 1/100", "--rate", "by tid"]);
    assert_eq!(found[0]["sampled"][0], "net:net_dev_queue sample 1/100");
    assert!(said.contains("not all were taken"), "{said}");
}

#[test]
fn what_can_not_be_found_is_refused_before_anything_starts() {
    needs_root!();
    let scratch = Scratch::new();
    let queue = "net:net_dev_queue";
    let cases: &[(&[&str], &[&str])] = &[
        (&["--latency", "net:net_dev_qeue -> netif_rx by id"], &["--latency", "net:net_dev_queue"]),
        (&["--latency", "net:net_dev_queue -> 3 by id"], &["'3'", "^"]),
        (
            &["--latency", "net_dev_queue -> netif_rx by skb->lne"],
            &["'lne'", "near it: len", "by skb->lne"],
        ),
        (&["--latency", "net_dev_queue -> netif_rx"], &["by tid", "^"]),
        (&["--latency", "net_dev_queue -> netif_rx by id within 1"], &["ns, us, ms or s"]),
        (
            &["--latency", "net_dev_queue -> netif_rx by comm == cpu"],
            &["a number is never the same"],
        ),
        (
            &["-e", queue, "-e", queue, "--latency", "net_dev_queue -> 0 by id"],
            &["several", "0, 1"],
        ),
        (&["--sequence", "net_dev_queue followed by netif_rx by id"], &["within 1ms"]),
        (&["-e", queue, "--top", "by comm"], &["--top", "a number"]),
        (&["-e", queue, "--top", "3 by com"], &["--top", "com", "^"]),
        (&["-e", queue, "--histogram", "skb->dev->name by cpu"], &["text", "only numbers"]),
        (&["-e", queue, "--rate", "of netif_rxx by cpu"], &["--rate", "netif_rx"]),
        (&["-e", queue, "--rate", "by stack"], &["--rate", "stack"]),
        (&["-e", queue, "--keys", "0", "--rate", "by cpu"], &["--keys"]),
        (&["-e", queue, "--json", "-"], &["--json", "--latency"]),
        (&["-e", queue, "--top", "3 by cpu", "--every", "1s"], &["--json"]),
        (&["-e", queue, "--top", "3 by cpu", "--json", "-", "--every", "1ms"], &["0.1s"]),
        (&["--rate", "by cpu"], &["-e EVENT"]),
    ];
    are_refused(&scratch, cases);
}

/// The reports that programs read along; how many lines were missed before each.
fn lines_of(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    lines.inspect(|one: &Value| assert_eq!(one["schema"], "weigh.synthesis/1")).collect()
}

#[test]
fn programs_read_along_line_by_line() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("lines.json").display().to_string();
    let job =
        format!("'{0}' {SENT} {BYTES} {ODD}; sleep 1; '{0}' 7 {BYTES} 0", workload("datagrams"));
    let options = ["trace", "-q", "--json", &file, "--every", "100ms"];
    let asked = ["-e", "net:net_dev_queue", "--top", "3 by comm", "--", "sh", "-c", &job];
    succeeds(&weigh(&scratch, &[&options[..], &asked].concat()));
    let lines = lines_of(&scratch.text("lines.json"));
    let totals: Vec<u64> = lines.iter().map(|line| number(&line["events_total"])).collect();
    assert!(totals.is_sorted() && totals.last() == Some(&(SENT + 7)), "{totals:?}");
    let asked = ["trace", "--json", "-", "--every", "100ms", "-q", "--system", "--for", "1s"];
    let events = ["-e", "sched:sched_switch", "--top", "3 by comm"];
    let output = weigh(&scratch, &[&asked[..], &events].concat());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(lines_of(&String::from_utf8_lossy(&output.stdout)).len() >= 2);
    // While the job sleeps it is known what it has sent.
    assert!(totals.iter().filter(|total| **total == SENT).count() >= 3, "{totals:?}");
    assert!(lines.iter().all(|line| line["reports_missed_total"].is_null()), "{lines:?}");
}

#[test]
fn a_slow_reader_misses_lines_and_is_told_how_many() {
    needs_root!();
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let reader = std::fs::File::options().read(true).write(true).open(&pipe).expect("a pipe");
    rustix::pipe::fcntl_setpipe_size(&reader, 4096).expect("a small one");
    let slow = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
        let mut text = Vec::new();
        let mut lines = std::io::BufReader::new(reader);
        while !text.ends_with(b"the end\n") {
            std::io::BufRead::read_until(&mut lines, b'\n', &mut text).expect("lines");
        }
        String::from_utf8(text).expect("text")
    });
    let job = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1; done";
    let file = pipe.display().to_string();
    let options = ["trace", "-q", "--json", &file, "--every", "100ms"];
    let asked = ["-e", "sched:sched_switch", "--rate", "by comm", "--", "sh", "-c", job];
    succeeds(&weigh(&scratch, &[&options[..], &asked].concat()));
    let mut end = std::fs::File::options().write(true).open(&pipe).expect("a pipe");
    std::io::Write::write_all(&mut end, b"the end\n").expect("it is read");
    let text = slow.join().expect("the reader");
    let lines = lines_of(text.trim_end_matches("the end\n"));
    let missed: u64 = lines.iter().filter_map(|line| line["reports_missed_total"].as_u64()).sum();
    assert!(missed >= 3 && lines.len() >= 3, "{missed} missed of {}", lines.len());
}

#[test]
fn a_terminal_has_the_table_while_it_runs() {
    needs_root!();
    let scratch = Scratch::new();
    let binary = crate::support::weigh_binary().display().to_string();
    let rate = "of sched:sched_switch by cpu";
    let command = [binary.as_str(), "trace", "--rate", rate, "--for", "60s"];
    let mut terminal = Terminal::start(&scratch, 24, 80, &command);
    let late = Instant::now() + crate::support::patience(30.0);
    // It is drawn again over what was drawn before.
    while !terminal.shown().contains("\x1b[J") {
        assert!(Instant::now() < late, "{}", terminal.shown());
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = terminal.shown();
    assert!(shown.contains(rate) && shown.contains("a second"), "{shown}");
    terminal.types("\x03");
    assert!(terminal.child.wait().expect("it ends").success());
    // What was written last comes through the terminal a little later.
    while !terminal.shown().contains(" events in ") {
        assert!(Instant::now() < late, "{}", terminal.shown());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_journey_of_each_packet_is_told_by_layers() {
    needs_root!();
    let scratch = Scratch::new();
    let (program, sent) = (workload("datagrams"), SENT.to_string());
    let (found, file) = (scratch.path("found.json"), scratch.path("way.jsonl"));
    let (found, file) = (found.display().to_string(), file.display().to_string());
    // Nobody reads them, so most are dropped where they arrive.
    let options = ["trace", "packets", "--journey", "--json", &found, "-o", &file, "--"];
    let command = [program.as_str(), &sent, "1400", "0"];
    let said = succeeds(&weigh(&scratch, &[&options[..], &command].concat()));
    assert!(said.contains(", 0 lost"), "{said}");
    let report: Value = serde_json::from_str(&scratch.text("found.json")).expect("JSON");
    let layers = report["found"].as_array().expect("a list");
    for layer in &layers[..3] {
        assert_eq!(number(&layer["pairs_total"]), SENT, "{layer}");
        assert!(said.contains(layer["asked"].as_str().expect("a text")), "{said}");
    }
    let (read, dropped) = (&layers[3], &layers[4]);
    assert_eq!(number(&read["first_total"]), SENT, "{read}");
    assert_eq!(number(&read["pairs_total"]), 0, "{read}");
    assert!((1..=SENT).contains(&number(&dropped["pairs_total"])), "{dropped}");
    // What was not dropped came to the socket, or, before Linux 6.3, was let go of with it.
    let up = &layers[5];
    let is_told = up["asked"].as_str().expect("a text").contains("sk_data_ready");
    if is_told {
        let arrived = number(&up["pairs_total"]) + number(&dropped["pairs_total"]);
        assert_eq!(arrived, SENT, "{up} {dropped}");
    }
    let queued = lines(&scratch, "way.jsonl");
    let queued = queued.iter().filter(|event| event["event"] == "net:net_dev_queue");
    assert_eq!(queued.count() as u64, SENT);
}
