//! `weigh trace`: whom it follows, and how it ends, whatever it meets.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::mortal::Mortal;
use crate::support::processes::links_of;
use crate::support::run::{Scratch, weigh, weigh_as};
use crate::support::trace::{counted, lines, succeeds};
use crate::support::{wait_until, workload};
use serde_json::Value;

#[test]
fn a_process_that_runs_is_followed_with_its_children() {
    needs_root!();
    let scratch = Scratch::new();
    // For each line that it reads it executes one program, which tells its number.
    let shell = Command::new("sh")
        .args(["-c", "while read line; do /bin/sh -c 'echo $$'; done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut shell = Mortal::of(shell);
    let pid = shell.id().to_string();
    let file = scratch.path("events.jsonl");
    let weigh = Command::new(crate::support::weigh_binary())
        .args(["trace", "-e", "sched:sched_process_exec", "--pid", &pid, "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn();
    let weigh = Mortal::of(weigh);
    let mut lines_in = shell.stdin.take().expect("a pipe");
    let mut told = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
    let mut executed: Vec<u64> = Vec::new();
    let mut execute = || {
        lines_in.write_all(b"\n").expect("the shell reads");
        let number = told.next().expect("a line").expect("UTF-8");
        executed.push(number.parse().expect("a number"));
    };
    // When weigh is ready nobody can know but by its first event.
    let late = Instant::now() + crate::support::patience(30.0);
    while std::fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
        assert!(Instant::now() < late, "nothing is followed");
        execute();
        std::thread::sleep(Duration::from_millis(100));
    }
    (0..3).for_each(|_| execute());
    drop(lines_in);
    shell.wait().expect("it ends");
    let said = succeeds(&weigh.wait_with_output().expect("it ends when the shell has"));
    let events = lines(&scratch, "events.jsonl");
    let found: Vec<u64> = events.iter().filter_map(|event| event["tgid"].as_u64()).collect();
    assert!(found.len() > 3, "{said}");
    assert_eq!(counted(&said), (found.len() as u64, 0), "{said}");
    assert!(executed.ends_with(&found), "all from the first on: {executed:?}, {found:?}");
    let gone = weigh_of_nobody(&scratch);
    assert_eq!(gone.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("4194303"));
}

fn weigh_of_nobody(scratch: &Scratch) -> Output {
    weigh(scratch, &["trace", "-e", "net", "--pid", "4194303"])
}
#[test]
fn weigh_ends_as_the_command_did_every_time() {
    needs_root!();
    let scratch = Scratch::new();
    let event = "sched:sched_process_exit{code=p->exit_code}";
    for _ in 0..crate::support::amount(20) {
        // weigh is waked in the middle of the command's end.
        let options = ["trace", "-q", "--wake", "0", "-e", event, "-e", "sched:sched_switch"];
        let command = ["-o", "-", "--", "sh", "-c", "exit 7"];
        let output = weigh(&scratch, &[&options[..], &command].concat());
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("\"code\":1792"));
    }
}

/// Packets of a Perfetto trace, if there is nothing else: a byte, a length of 4 bytes, a packet.
#[track_caller]
fn whole_packets(mut bytes: &[u8]) -> u64 {
    let mut packets = 0;
    while !bytes.is_empty() {
        assert_eq!(bytes[0], 0x0a);
        let part = |n: usize| usize::from(bytes[n + 1] & 0x7f) << (7 * n);
        bytes = &bytes[5 + part(0) + part(1) + part(2) + part(3)..];
        packets += 1;
    }
    packets
}

/// How many packets of a common trace there are, none of them cut off: each says its length in bits.
#[track_caller]
fn whole_packets_of_ctf(bytes: &[u8]) -> u64 {
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        let bits = u64::from_le_bytes(bytes[at + 32..at + 40].try_into().expect("a head"));
        at += bits as usize / 8;
        packets += 1;
    }
    assert_eq!(at, bytes.len(), "the last one is whole");
    packets
}

#[test]
fn a_full_disk_leaves_whole_lines_and_the_commands_status() {
    needs_root!();
    let scratch = Scratch::new();
    let place = scratch.path("disk");
    std::fs::create_dir(&place).expect("a directory");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &place, "tmpfs", flags, c"size=256k").expect("a tmpfs");
    let program = workload("datagrams");
    let names = [
        "events.jsonl",
        "events.parquet",
        "events.perfetto-trace",
        "events.ctf",
        "events.chrome.json",
        "events.firefox.json",
    ];
    for name in names {
        let file = place.join(name);
        let path = file.display().to_string();
        let event = "net:net_dev_queue{len=skb->len, bytes(skb->head, 64)}";
        // One of them is required to be whole.
        let is_required = name == "events.parquet";
        let required: &[&str] = if is_required { &["--require-recording"] } else { &[] };
        let options = ["trace", "-e", event, "-o", &path];
        let command = ["--", program.as_str(), "75011", "100", "5"];
        let output = weigh(&scratch, &[&options[..], required, &command].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let status = if is_required { 125 } else { 0 };
        assert_eq!(output.status.code(), Some(status), "{name}: {said}");
        assert!(said.contains("No space left") && said.contains(name), "{said}");
        let left = match name {
            "events.jsonl" => {
                let text = std::fs::read_to_string(&file).expect("it is there");
                assert!(text.ends_with('\n'));
                assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
                text.lines().count() as u64
            }
            "events.chrome.json" => {
                let text = std::fs::read_to_string(&file).expect("it is there");
                let trace: Value = serde_json::from_str(&text).expect("whole JSON");
                trace["traceEvents"].as_array().expect("a list").len() as u64
            }
            // It is written in the end, as a whole or not at all.
            "events.firefox.json" => {
                assert!(!file.exists());
                continue;
            }
            "events.perfetto-trace" => whole_packets(&std::fs::read(&file).expect("it is there")),
            "events.ctf" => {
                let bytes = std::fs::read(file.join("stream")).expect("it is there");
                whole_packets_of_ctf(&bytes)
            }
            _ => {
                let read = weigh(&scratch, &["trace", "read", &path, "--top", "3 by tgid"]);
                let told = succeeds(&read);
                assert!(told.contains("the recording ends early"), "{told}");
                weigh_keep::count_rows(&file).expect("it is whole")
            }
        };
        assert!(left < 75_011, "{left}");
        let removed = if file.is_dir() {
            std::fs::remove_dir_all(&file)
        } else {
            std::fs::remove_file(&file)
        };
        removed.expect("it can be removed");
    }
    rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).expect("unmounted");
}

#[test]
fn an_interrupt_closes_the_file_whole() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("events.parquet");
    let weigh = Command::new(crate::support::weigh_binary())
        .args(["trace", "-e", "sched:sched_switch", "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn();
    let mut weigh = Mortal::of(weigh);
    wait_until("it follows", 60.0, || links_of(weigh.id()) >= 1);
    std::thread::sleep(crate::support::patience(0.5));
    let pid = rustix::process::Pid::from_child(&weigh);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    assert!(weigh.wait().expect("it ends").success());
    assert!(weigh_keep::count_rows(&file).expect("a whole file") > 0);
}

#[test]
fn a_shell_completes_the_names_of_events() {
    let scratch = Scratch::new();
    let made = scratch.path("made").display().to_string();
    succeeds(&weigh(&scratch, &["generate", &made]));
    let completes = |line: &str| {
        // As bash calls it: the word ends at a colon.
        let script = r#"source "$0/completions/weigh.bash"; COMP_LINE=$2; COMP_POINT=${#2}
            COMP_WORDS=("$1" ${2#* }); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _weigh_or_names "$1" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"; printf '%s\n' "${COMPREPLY[@]}""#;
        let bash = Command::new("bash")
            .args(["-c", script, &made])
            .arg(crate::support::weigh_binary())
            .arg(line)
            .output()
            .expect("bash");
        String::from_utf8(bash.stdout).expect("UTF-8")
    };
    assert_eq!(completes("weigh trace -e net:net_dev_que"), "net_dev_queue\n");
    assert_eq!(completes("weigh trace --for 1s --event 'net:net_dev_que"), "net_dev_queue\n");
    assert_eq!(completes("weigh trace ctl add udp-pa"), "udp-path\n");
    for before in ["--latency ", "--sequence 'netif_rx -> ", "--rate 'of ", "--top '3 of "] {
        let line = format!("weigh trace {before}net:net_dev_que");
        assert_eq!(completes(&line), "net_dev_queue\n", "{line}");
    }
    assert!(completes("weigh trace --per-c").contains("--per-cpu"));
}

#[test]
fn without_rights_it_says_what_is_needed() {
    let scratch = Scratch::new();
    let output = weigh_as(Some(65534), &scratch, &["trace", "-e", "net", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("CAP_BPF") && said.contains("root"), "{said}");
    let listed = weigh_as(Some(65534), &scratch, &["trace", "list", "net_dev_queue"]);
    let told = String::from_utf8_lossy(&listed.stdout);
    assert!(told.contains("net_dev_queue(skb: struct sk_buff *)"), "{told}");
}

#[test]
fn a_full_disk_ends_one_buffer_and_the_others_go_on() {
    needs_root!();
    let scratch = Scratch::new();
    let place = scratch.path("disk");
    std::fs::create_dir(&place).expect("a directory");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &place, "tmpfs", flags, c"size=1m").expect("a tmpfs");
    let (all, full) = (scratch.path("all.jsonl"), place.join("full.jsonl"));
    let into = format!("full: size 16MiB, to {}", full.display());
    let event = "net:net_dev_queue{len=skb->len, bytes(skb->head, 64)}";
    let all = all.display().to_string();
    let sent = crate::support::amount(30_011);
    let (program, amount) = (workload("datagrams"), sent.to_string());
    let options = ["trace", "-e", event, "-o", &all, "--into", &into, "--buffer", "16MiB", "--"];
    let output = weigh(&scratch, &[&options[..], &[&program, &amount, "100", "5"]].concat());
    let text = std::fs::read_to_string(&full).expect("it is there");
    rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("buffer full: cannot write") && said.contains("No space left"), "{said}");
    let of = |name: &str| {
        let is = format!(" into {name},");
        said.lines().find(|line| line.contains(&is)).unwrap_or_else(|| panic!("{said}"))
    };
    assert!(of("main").ends_with("0 passed over, 0 lost"), "{said}");
    assert!(of("full").ends_with("after its file had ended early"), "{said}");
    assert_eq!(lines(&scratch, "all.jsonl").len() as u64, sent, "the others lose nothing: {said}");
    assert!(text.ends_with('\n') && text.lines().all(|l| serde_json::from_str::<Value>(l).is_ok()));
    assert!((1000..sent).contains(&(text.lines().count() as u64)), "{said}");
}
