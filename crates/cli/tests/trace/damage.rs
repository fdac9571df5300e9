//! What programs have written into a ring that is damaged, and what no reader can read of it, is lost, and counted: in the
//! end and while the stream runs, by each reader. The damage is done by a program in the kernel, to a record that waits.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::library::{Agent, NOBODY, must};
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{counted, succeeds};
use crate::support::{wait_until, weigh_binary, weigh_for_everybody, workload};

/// Nobody else's datagrams are so long.
const LENGTH: u64 = 677;
const FIRST: u64 = 103;
const THEN: u64 = 11;
/// The record that cannot be read: it and those behind it that have come are lost.
const DAMAGED: u64 = 40;

fn signal(process: &Mortal, signal: Signal) {
    kill(Pid::from_raw(process.id() as i32), signal).expect("it is there");
}

/// From one CPU, and so into the first ring.
fn send(datagrams: u64) {
    let (amount, bytes) = (datagrams.to_string(), (LENGTH - 42).to_string());
    must(Command::new("taskset").args(["-c", "0", &workload("datagrams"), &amount, &bytes, "0"]));
}

fn register(scratch: &Scratch, stream: &Mortal) -> Option<Value> {
    let pid = stream.id().to_string();
    let said = weigh(scratch, &["trace", "ctl", "--stream", &pid, "list", "--json"]);
    serde_json::from_slice(&said.stdout).ok()
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of}"))
}

/// Sends while these are stopped, and writes another size into a record that waits for the first; how many there were.
fn damage(readers: &[&Mortal], size: &str) -> u64 {
    damage_after(readers, size, || ())
}

/// The same after what is waited for meanwhile.
fn damage_after(readers: &[&Mortal], size: &str, meanwhile: impl FnOnce()) -> u64 {
    readers.iter().for_each(|reader| signal(reader, Signal::SIGSTOP));
    send(FIRST);
    meanwhile();
    let truth = Scratch::new();
    let truth_file = truth.path("truth");
    let words = [readers[0].id().to_string(), DAMAGED.to_string(), size.to_string()];
    must(Command::new(workload("damage")).args(words).env("TRUTH_FILE", &truth_file));
    let told = std::fs::read_to_string(&truth_file).expect("a truth");
    readers.iter().for_each(|reader| signal(reader, Signal::SIGCONT));
    let records = told.lines().find_map(|line| line.strip_prefix("records="));
    records.and_then(|records| records.parse().ok()).unwrap_or_else(|| panic!("{told}"))
}

/// Of so many records that waited the damaged one and those behind it are lost, and all that come later are taken.
#[track_caller]
fn are_counted(stream: Mortal, scratch: &Scratch, size: &str) {
    wait_until("it listens", 120.0, || register(scratch, &stream).is_some());
    let records = damage(&[&stream], size);
    let unread = records - DAMAGED;
    // While it runs.
    wait_until("it is counted", 60.0, || {
        let register = register(scratch, &stream).expect("a register");
        number(&register["probes"][0]["unread"]) == unread
    });
    let now = register(scratch, &stream).expect("a register");
    assert_eq!(number(&now["taken"]), DAMAGED, "{now}");
    assert_eq!(number(&now["buffers"][0]["lost"]), unread, "{now}");
    send(THEN);
    wait_until("the others are taken", 60.0, || {
        let register = register(scratch, &stream).expect("a register");
        let missed = number(&register["probes"][0]["missed"]);
        number(&register["taken"]) + unread + missed >= FIRST + THEN
    });
    signal(&stream, Signal::SIGINT);
    let said = succeeds(&stream.wait_with_output().expect("it ends"));
    let (taken, lost) = counted(&said);
    // The kernel passes over one in some 100,000.
    assert_eq!(taken + lost, FIRST + THEN, "{said}");
    assert!(taken <= DAMAGED + THEN && lost >= unread, "{said}");
    let told = format!("weigh: {unread} of the lost were written and could not be read");
    assert!(said.contains(&told), "{said}");
}

fn start(command: &mut Command) -> Mortal {
    Mortal::of(command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn())
}

fn event() -> String {
    format!("net:net_dev_queue{{len=skb->len}} if skb->len == {LENGTH}")
}

/// Each test sends alone: each would see the datagrams of the others.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn what_a_stream_cannot_read_is_lost_and_counted() {
    needs_root!();
    let _alone = alone();
    let scratch = Scratch::new();
    let file = scratch.path("events.jsonl").display().to_string();
    for (spread, size) in [("--total-order", "3"), ("--per-cpu", "4294967295")] {
        let mut weigh = Command::new(weigh_binary());
        weigh.args(["trace", "-e", &event(), spread, "-o", &file]);
        are_counted(start(&mut weigh), &scratch, size);
    }
}

#[test]
fn packets_that_cannot_be_read_are_lost_and_counted_in_the_file_too() {
    needs_root!();
    let _alone = alone();
    let scratch = Scratch::new();
    for name in ["packets.pcapng", "packets.parquet"] {
        let file = scratch.path(name).display().to_string();
        let mut weigh = Command::new(weigh_binary());
        weigh.args([
            "trace",
            "packets",
            "--system",
            "--direction",
            "out",
            "--snap",
            "96",
            "-o",
            &file,
        ]);
        weigh.args(["-f", &format!("skb->len == {LENGTH}")]);
        are_counted(start(&mut weigh), &scratch, "7");
    }
    let read =
        weigh(&scratch, &["trace", "read", &scratch.path("packets.parquet").display().to_string()]);
    let (taken, lost) = counted(&succeeds(&read));
    assert_eq!(taken + lost, FIRST + THEN);
}

#[test]
fn of_a_user_s_stream_too() {
    needs_root!();
    let _alone = alone();
    let (agent, scratch) = (Agent::start(&[]), Scratch::new());
    let file = agent.folder.path().join("events.jsonl").display().to_string();
    // Each line is as many calls of its own.
    let shell = "while read n; do i=0; while [ $i -lt $n ]; do kill -0 $$; i=$((i+1)); done; done";
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command.arg(weigh_for_everybody());
    command.args(["trace", "--total-order", "-e", "raw_syscalls:sys_enter{id} if id == 62"]);
    command.args(["-o", &file, "--", "taskset", "-c", "0", "sh", "-c", shell]);
    command.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    command.env("XDG_RUNTIME_DIR", agent.folder.path()).current_dir(scratch.path("work"));
    let mut stream = start(command.stdin(Stdio::piped()));
    let mut lines = stream.stdin.take().expect("a pipe");
    let mut calls = |number: u64| {
        std::io::Write::write_all(&mut lines, format!("{number}\n").as_bytes()).expect("it reads");
    };
    let taken = || std::fs::read_to_string(&file).map_or(0, |text| text.lines().count() as u64);
    wait_until("it follows", 120.0, || {
        calls(1);
        taken() > 0
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    let before = taken();
    signal(&stream, Signal::SIGSTOP);
    calls(FIRST);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let truth = scratch.path("truth");
    let words = [stream.id().to_string(), (before + DAMAGED).to_string(), "3".to_string()];
    must(Command::new(workload("damage")).args(words).env("TRUTH_FILE", &truth));
    signal(&stream, Signal::SIGCONT);
    wait_until("what lay before it is taken", 60.0, || taken() == before + DAMAGED);
    std::thread::sleep(std::time::Duration::from_millis(500));
    calls(THEN);
    drop(lines);
    let said = succeeds(&stream.wait_with_output().expect("it ends"));
    assert_eq!(counted(&said), (before + DAMAGED + THEN, FIRST - DAMAGED), "{said}");
    assert!(said.contains("63 of the lost were written and could not be read"), "{said}");
}

/// A stream and who reads it along, with the files that they write.
struct Along {
    scratch: Scratch,
    stream: Mortal,
    reader: Mortal,
    files: [String; 2],
}

impl Along {
    fn start() -> Along {
        let scratch = Scratch::new();
        let files =
            ["own.jsonl", "along.jsonl"].map(|name| scratch.path(name).display().to_string());
        let mut weigh = Command::new(weigh_binary());
        weigh.args(["trace", "-e", &event(), "--total-order", "-o", &files[0]]);
        let stream = start(&mut weigh);
        wait_until("it listens", 120.0, || register(&scratch, &stream).is_some());
        let mut reader = Command::new(weigh_binary());
        reader.args(["trace", "attach", &stream.id().to_string(), "-o", &files[1]]);
        let reader = start(&mut reader);
        wait_until("it reads", 120.0, || {
            let register = register(&scratch, &stream).expect("a register");
            register["clients"].as_array().is_some_and(|clients| clients.len() == 1)
        });
        Along { scratch, stream, reader, files }
    }

    /// Ends both once so many could not be read: what each has counted, taken and lost, and its lines.
    fn end(self, unread: u64) -> [((u64, u64), u64); 2] {
        wait_until("it is counted", 60.0, || {
            let register = register(&self.scratch, &self.stream).expect("a register");
            number(&register["probes"][0]["unread"]) == unread
        });
        send(THEN);
        std::thread::sleep(std::time::Duration::from_millis(500));
        signal(&self.stream, Signal::SIGINT);
        let counted = |one: Mortal| counted(&succeeds(&one.wait_with_output().expect("it ends")));
        let [own, along] = [self.stream, self.reader].map(counted);
        [(own, lines(&self.files[0])), (along, lines(&self.files[1]))]
    }
}

fn lines(file: &str) -> u64 {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count() as u64)
}

#[test]
fn who_reads_along_is_told_what_nobody_could_read() {
    needs_root!();
    let _alone = alone();
    let both = Along::start();
    // The reader would take what is not damaged yet.
    let records = damage(&[&both.stream, &both.reader], "3");
    let [own, along] = both.end(records - DAMAGED);
    assert_eq!((own.0.0 + own.0.1, along), (FIRST + THEN, own));
}

#[test]
fn who_reads_along_has_not_lost_what_it_read_before_it_was_damaged() {
    needs_root!();
    let _alone = alone();
    let both = Along::start();
    let mut before = 0;
    let records = damage_after(&[&both.stream], "3", || {
        wait_until("the reader has looked", 60.0, || {
            before = lines(&both.files[1]);
            before >= FIRST - 1
        });
    });
    let [own, along] = both.end(records - DAMAGED);
    assert_eq!((own.0.0 + own.0.1, own.0.0), (FIRST + THEN, own.1));
    assert_eq!(along, ((FIRST + THEN, 0), FIRST + THEN), "{own:?}, {before} before");
}
