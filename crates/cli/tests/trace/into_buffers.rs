//! `weigh trace --into`: one stream into several buffers, each with its own rings, predicate and file, and changed
//! while it runs; against programs that know how much they sent.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{are_refused, counted, lines, succeeds};
use crate::support::workload;
use serde_json::Value;

/// Of Ethernet, IP and UDP.
const HEADERS: u64 = 42;
const ODD: u64 = 23;

/// `N  into NAME, N passed over, N lost`
#[track_caller]
fn into(said: &str, name: &str) -> (u64, u64, u64) {
    let is = format!(" into {name},");
    let line = said.lines().find(|line| line.contains(&is)).unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1], numbers[2])
}

#[test]
fn every_event_is_in_each_buffer_that_takes_it_and_in_no_other() {
    needs_root!();
    let scratch = Scratch::new();
    let file = |name: &str| scratch.path(name).display().to_string();
    let sent = crate::support::amount(20_003);
    let odd = format!("net:net_dev_start_xmit{{len=skb->len}} if skb->len == {}", 101 + HEADERS);
    let buffers = [
        format!("few: of net_dev_start_xmit, size 64KiB, to {}", file("few.jsonl")),
        format!(
            "queued: one ring, size 16MiB, to {} if event == net_dev_queue && tid != 0",
            file("queued.jsonl")
        ),
        format!("halves: cpus 0 | 1, deliver 10ms, to {} if event in 0..1", file("halves.jsonl")),
        format!("none: deliver 100 records, to {} if cpu > 60000 || id == 0", file("none.jsonl")),
        "read: deliver each, size 16MiB if size < 1000".to_string(),
    ];
    let numbers = [sent, 100, ODD].map(|number| number.to_string());
    let all = file("all.jsonl");
    let every = format!(
        "net:net_dev_queue{{len=skb->len}} if skb->len in {}..{}",
        100 + HEADERS,
        101 + HEADERS
    );
    let mut arguments = vec!["trace", "-e", &every, "-e", &odd, "-o", &all];
    buffers.iter().for_each(|buffer| arguments.extend(["--into", buffer.as_str()]));
    let program = workload("datagrams");
    arguments.extend(["--", &program, &numbers[0], &numbers[1], &numbers[2]]);
    let said = succeeds(&weigh(&scratch, &arguments));
    let both = sent + ODD;
    assert_eq!(counted(&said), (3 * both + ODD + sent, 0), "{said}");
    assert_eq!(into(&said, "main"), (both, 0, 0), "{said}");
    assert_eq!(into(&said, "few"), (ODD, 0, 0), "{said}");
    assert_eq!(into(&said, "queued"), (sent, ODD, 0), "{said}");
    assert_eq!(into(&said, "halves"), (both, 0, 0), "{said}");
    assert_eq!(into(&said, "none"), (0, both, 0), "{said}");
    assert_eq!(into(&said, "read"), (both, 0, 0), "{said}");
    let found = lines(&scratch, "all.jsonl");
    assert_eq!(found.len() as u64, both);
    assert_eq!(lines(&scratch, "halves.jsonl"), found, "one record in each, with the same time");
    let of = |event: &str| -> Vec<Value> {
        found.iter().filter(|line| line["event"] == event).cloned().collect()
    };
    assert_eq!(lines(&scratch, "few.jsonl"), of("net:net_dev_start_xmit"));
    assert_eq!(lines(&scratch, "queued.jsonl"), of("net:net_dev_queue"));
    assert!(lines(&scratch, "none.jsonl").is_empty());
    let times: Vec<i64> = found.iter().filter_map(|event| event["time_ns"].as_i64()).collect();
    assert!(times.is_sorted() && times.len() == found.len());
}

#[test]
fn what_another_buffer_lost_is_no_gap_of_this_one() {
    needs_root!();
    let scratch = Scratch::new();
    let file = |name: &str| scratch.path(name).display().to_string();
    let (big, small) = (file("big.parquet"), file("small.parquet"));
    let lines_file = file("again.jsonl");
    let sent = crate::support::amount(100_003);
    let event = format!("net:net_dev_queue{{len=skb->len}} if skb->len == {}", 100 + HEADERS);
    let into = format!("mini: one ring, size 4KiB, deliver 100ms, to {small}");
    let options = ["trace", "-e", &event, "--buffer", "64MiB", "-o", &big, "--into", &into, "--"];
    let program = workload("datagrams");
    let sent_text = sent.to_string();
    let command = [program.as_str(), &sent_text, "100", "0"];
    let said = succeeds(&weigh(&scratch, &[&options[..], &command].concat()));
    assert_eq!(into_counts(&said), [(sent, 0), (sent - lost_of(&said), lost_of(&said))], "{said}");
    assert!(lost_of(&said) > 0, "so small a ring holds them all? {said}");
    // Each event is one, and has a record in each buffer.
    assert!(said.contains("records into 2 buffers"), "{said}");
    for (name, taken, lost) in [(&big, sent, 0), (&small, sent - lost_of(&said), lost_of(&said))] {
        let read = ["trace", "read", name, "--rate", "by event", "-o", &lines_file];
        let again = succeeds(&weigh(&scratch, &read));
        assert_eq!(counted(&again), (taken, lost), "{again}");
    }
}

/// Of each buffer what was taken in, and lost.
fn into_counts(said: &str) -> [(u64, u64); 2] {
    ["main", "mini"].map(|name| into(said, name)).map(|(taken, _, lost)| (taken, lost))
}

fn lost_of(said: &str) -> u64 {
    into(said, "mini").2
}

#[test]
fn nothing_is_lost_while_buffers_change() {
    needs_root!();
    let scratch = Scratch::new();
    let sent = crate::support::amount(400_003);
    let event = format!("net:net_dev_queue{{len=skb->len}} if skb->len == {}", 100 + HEADERS);
    // Written nowhere: what is looked at is which record goes where.
    let mut weigh_trace = Command::new(crate::support::weigh_binary());
    weigh_trace.args(["trace", "-e", &event, "--into", "all: size 64MiB"]);
    weigh_trace.args(["--into", "changed: size 64MiB", "--", &workload("datagrams")]);
    weigh_trace.args([&sent.to_string(), "100", "0"]);
    let stream = Mortal::of(weigh_trace.stderr(Stdio::piped()).spawn());
    let pid = stream.id().to_string();
    let ask = |words: &[&str]| {
        weigh(&scratch, &[&["trace", "ctl", "--stream", &pid][..], words].concat())
    };
    let late = Instant::now() + crate::support::patience(30.0);
    while !ask(&["list"]).status.success() {
        assert!(Instant::now() < late, "nobody answers");
        std::thread::sleep(Duration::from_millis(10));
    }
    let changes: [&[&str]; 8] = [
        &["buffer", "set", "changed", "if tid != 3 && cpu < 60000"],
        &["buffer", "set", "changed", "if tid != 4 && cpu < 60001"],
        &["buffer", "set", "changed", "one ring"],
        &["buffer", "set", "changed", "if cpu > 60000"],
        &["buffer", "set", "changed", "deliver 100 records, cpus 0 | 1"],
        &["buffer", "set", "changed", "per cpu, size 32MiB, deliver 2ms if"],
        &["buffer", "add", "other: size 64KiB if cpu == 0"],
        &["buffer", "remove", "other"],
    ];
    let mut made = 0;
    for change in changes.iter().cycle() {
        let answer = ask(change);
        let why = String::from_utf8_lossy(&answer.stderr);
        // There is none of that name, or what was removed is not whole yet; else the stream has ended.
        if !answer.status.success() && !why.contains("other") {
            break;
        }
        made += 1;
    }
    let output = stream.wait_with_output().expect("it ends");
    let said = succeeds(&output);
    assert!(made >= 3, "{made} changes: {said}");
    assert_eq!(into(&said, "all"), (sent, 0, 0), "{made} changes: {said}");
    let (taken, passed, lost) = into(&said, "changed");
    assert_eq!((taken + passed, lost), (sent, 0), "{made} changes: {said}");
}

#[test]
fn the_register_says_which_buffers_there_are() {
    needs_root!();
    let scratch = Scratch::new();
    let stream = Command::new(crate::support::weigh_binary())
        .args(["trace", "-e", "sched:sched_switch{}", "-q"])
        .args([
            "--into",
            "a: of sched_switch, size 64KiB, deliver 3 records if tid != 7 && cpu in 0..3",
        ])
        .spawn();
    let mut stream = Mortal::of(stream);
    let pid = stream.id().to_string();
    let ask = |words: &[&str]| {
        let said = weigh(&scratch, &[&["trace", "ctl", "--stream", &pid][..], words].concat());
        let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        (said.status.success(), text)
    };
    let late = Instant::now() + crate::support::patience(30.0);
    let register = loop {
        let (is_there, text) = ask(&["buffers", "--json"]);
        if is_there {
            break serde_json::from_str::<Value>(&text).expect("JSON");
        }
        assert!(Instant::now() < late, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    };
    let a = &register[0];
    assert_eq!(
        (register.as_array().map(Vec::len), &a["name"]),
        (Some(1), &"a".into()),
        "{register}"
    );
    assert_eq!((&a["ring_bytes"], &a["spread"]), (&65536.into(), &"per cpu".into()));
    assert_eq!((&a["delivery"], &a["lost"]), (&"3 records".into(), &0.into()));
    assert_eq!(a["predicate"], "tid != 7 && cpu in 0..3");
    for (words, says) in [
        (&["buffer", "set", "a", "if tgit == 3"][..], "tgid"),
        (&["buffer", "set", "a", "of nothing"], "nothing"),
        (&["buffer", "set", "a", "to x.jsonl"], "stays the same"),
        (&["buffer", "set", "b", "one ring"], "no buffer 'b'"),
        (&["buffer", "add", "a: one ring"], "'a'"),
        (&["buffer", "remove", "b"], "no buffer 'b'"),
    ] {
        let (is_done, said) = ask(words);
        assert!(!is_done && said.contains(says), "{words:?}: {said}");
    }
    let (is_done, said) = ask(&["buffer", "set", "a", "one ring, deliver 5ms if"]);
    assert!(is_done && said.contains("buffer a: in force"), "{said}");
    let (_, told) = ask(&["list"]);
    assert!(told.contains("a: one ring, deliver 5 ms, of sched_switch"), "{told}");
    assert!(ask(&["buffer", "remove", "a"]).0);
    let (_, told) = ask(&["buffers"]);
    assert!(told.contains("(removed)"), "{told}");
    let ends = rustix::process::Pid::from_child(&stream);
    rustix::process::kill_process(ends, rustix::process::Signal::INT).expect("a signal");
    assert!(stream.wait().expect("it ends").success());
}

#[test]
fn buffers_that_can_not_be_are_refused_before_anything_starts() {
    needs_root!();
    let scratch = Scratch::new();
    let event = "net:net_dev_queue";
    let cases: &[(&[&str], &[&str])] = &[
        (&["-e", event, "--into", "one ring"], &["a name and a colon"]),
        (&["-e", event, "--into", "a: two rings"], &["two rings", "deliver each"]),
        (&["-e", event, "--into", "a: size 1000"], &["size 1000", "power of 2"]),
        (&["-e", event, "--into", "a: if skb->len > 3"], &["a word of the header"]),
        (&["-e", event, "--into", "a: of netif_rx"], &["netif_rx", event]),
        (&["-e", event, "--into", "a: to x.nothing"], &["x.nothing", ".jsonl"]),
        (&["-e", event, "--into", "a:", "--into", "a:"], &["--into a"]),
    ];
    are_refused(&scratch, cases);
}

#[test]
fn the_place_of_a_buffer_that_was_removed_is_anothers() {
    needs_root!();
    let scratch = Scratch::new();
    // Of the datagrams of this test alone: nobody else sends such.
    let event = format!("net:net_dev_queue{{len=skb->len}} if skb->len == {}", 777 + HEADERS);
    let stream = Command::new(crate::support::weigh_binary())
        .args(["trace", "-q", "-e", &event, "--into", "a: size 64KiB"])
        .spawn();
    let mut stream = Mortal::of(stream);
    let pid = stream.id().to_string();
    let ask = |words: &[&str]| {
        let said = weigh(&scratch, &[&["trace", "ctl", "--stream", &pid][..], words].concat());
        let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        (said.status.success(), text)
    };
    let send = |amount: u64| {
        let sent =
            Command::new(workload("datagrams")).args([&amount.to_string(), "777", "0"]).status();
        assert!(sent.expect("it starts").success());
    };
    // Of the last buffer of that name: what it has taken, and passed over.
    let counted = |name: &str| {
        let (_, text) = ask(&["buffers", "--json"]);
        let buffers: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        let buffer = buffers.iter().rev().find(|b| b["name"] == name).expect("it is there");
        (buffer["taken"].as_u64(), buffer["passed_over"].as_u64())
    };
    crate::support::wait_until("it listens", 30.0, || ask(&["list"]).0);
    for name in ["b", "c", "d", "e", "f", "g", "h"] {
        let (is_done, said) = ask(&["buffer", "add", &format!("{name}: size 64KiB")]);
        assert!(is_done, "{said}");
    }
    let (is_done, said) = ask(&["buffer", "add", "i: size 64KiB"]);
    assert!(!is_done && said.contains("8 buffers at most"), "{said}");
    send(101);
    crate::support::wait_until("all are taken in", 10.0, || counted("b").0 == Some(101));
    for round in 0..3 {
        let (name, other) = (["b", "x", "y"][round], ["x", "y", "z"][round]);
        let (is_done, said) = ask(&["buffer", "remove", name]);
        assert!(is_done, "{said}");
        let none = format!("{other}: size 64KiB if tid == 0");
        crate::support::wait_until("its place is free", 20.0, || ask(&["buffer", "add", &none]).0);
        send(53);
        crate::support::wait_until("all were passed over", 10.0, || {
            counted(other) == (Some(0), Some(53))
        });
    }
    crate::support::wait_until("the others lose nothing", 10.0, || {
        counted("a") == (Some(260), Some(0))
    });
    assert_eq!(counted("b"), (Some(101), Some(0)), "what was removed keeps its numbers");
    // A name can be had again.
    let (is_done, said) = ask(&["buffer", "remove", "z"]);
    assert!(is_done, "{said}");
    crate::support::wait_until("its name is free", 20.0, || {
        ask(&["buffer", "add", "z: one ring"]).0
    });
    let ends = rustix::process::Pid::from_child(&stream);
    rustix::process::kill_process(ends, rustix::process::Signal::INT).expect("a signal");
    assert!(stream.wait().expect("it ends").success());
}

/// What a record has room for and does not need is another one's. weigh stands still meanwhile, so all of it has to have
/// room in the rings.
#[test]
fn records_take_no_more_room_than_what_is_in_them() {
    needs_root!();
    let scratch = Scratch::new();
    let (path, program) = (scratch.path("x.jsonl").display().to_string(), workload("datagrams"));
    let script = format!("kill -STOP $PPID; {program} 53 100 7; kill -CONT $PPID");
    let packet = "net:net_dev_start_xmit{packet=packet(skb, 4096)}";
    let stack = "net:net_dev_queue{stack(127), dev=str(skb->dev->name)}";
    let options = ["trace", "-e", packet, "-e", stack, "--per-cpu", "--buffer", "64KiB"];
    let command = ["-o", &path, "--", "sh", "-c", &script];
    let said = succeeds(&weigh(&scratch, &[&options[..], &command].concat()));
    assert_eq!(counted(&said), (106, 0), "{said}");
    let lines = std::fs::read_to_string(&path).expect("a file");
    let lines =
        lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let (packets, stacks): (Vec<_>, Vec<_>) =
        lines.partition(|line| line["event"] == "net:net_dev_start_xmit");
    assert_eq!((packets.len(), stacks.len()), (53, 53));
    let mut longer = 0;
    for packet in &packets {
        let fields = &packet["fields"];
        let length = fields["packet_length"].as_u64().expect("a number");
        longer += length - 142;
        assert_eq!(fields["packet_kept"], length, "{packet}");
        assert_eq!(fields["packet"].as_str().map(str::len), Some(2 * length as usize), "{packet}");
    }
    assert_eq!(longer, 7);
    for stack in &stacks {
        let frames = stack["fields"]["stack(127)"].as_array().expect("functions");
        assert!((5..127).contains(&frames.len()), "{stack}");
        assert_eq!(stack["fields"]["dev"], "lo");
    }
}
