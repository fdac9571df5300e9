//! Many readers of one stream of `weigh trace`: its own file, others that read along, and programs with libweigh;
//! all held to what the followed program has done.

use std::io::{BufRead as _, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::library::{folder, must, program};
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{counted, lines, succeeds};
use crate::support::{wait_until, weigh_binary, workload};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Of the datagrams of this test alone: nobody else sends such.
const QUEUE: &str = "net:net_dev_queue{len=skb->len} if skb->len == 655";
/// Of a datagram, and with the headers of UDP, IP and Ethernet, as it leaves.
const BYTES: &str = "613";
const LENGTH: u64 = 655;

/// One at a time: each would see the datagrams of the others.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream that runs until it is interrupted.
struct Stream(Mortal);

impl Stream {
    fn start(scratch: &Scratch, options: &[&str]) -> Stream {
        let file = scratch.path("own.jsonl").display().to_string();
        let mut weigh = Command::new(weigh_binary());
        weigh.args(["trace", "-e", QUEUE, "-o", &file]).args(options);
        let stream = Stream(Mortal::of(weigh.stderr(Stdio::piped()).spawn()));
        wait_until("it listens", 120.0, || stream.ask(scratch, &["list"]).is_ok());
        stream
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn ask(&self, scratch: &Scratch, words: &[&str]) -> Result<String, String> {
        let pid = self.pid();
        let said = weigh(scratch, &[&["trace", "ctl", "--stream", &pid][..], words].concat());
        match said.status.success() {
            true => Ok(String::from_utf8(said.stdout).expect("UTF-8")),
            false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
        }
    }

    fn register(&self, scratch: &Scratch) -> Value {
        let said = self.ask(scratch, &["list", "--json"]).expect("a register");
        serde_json::from_str(&said).expect("JSON")
    }

    fn clients(&self, scratch: &Scratch) -> Vec<Value> {
        self.register(scratch)["clients"].as_array().expect("a list").clone()
    }

    /// Whether its first probe has met so many events, and that reader has seen all that it wrote of them.
    fn has_shown(&self, scratch: &Scratch, reader: u32, events: u64) -> bool {
        let register = self.register(scratch);
        let number = |of: &Value| of.as_u64().unwrap_or_else(|| panic!("{register}"));
        let probe = &register["probes"][0];
        let [sent, lost, missed] = ["sent", "lost", "missed"].map(|key| number(&probe[key]));
        let clients = register["clients"].as_array().expect("a list");
        let own = clients.iter().find(|client| client["pid"] == reader).expect("it reads along");
        sent + lost + missed >= events && number(&own["seen"]) >= sent
    }

    /// How many it has taken, and lost.
    fn end(self) -> (u64, u64) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).expect("a signal");
        counted(&succeeds(&self.0.wait_with_output().expect("it ends")))
    }
}

fn send(datagrams: u64) {
    let amount = datagrams.to_string();
    must(Command::new(workload("datagrams")).args([&amount, BYTES, "0"]));
}

/// All by one CPU, and so into one ring.
fn send_from_one_cpu(datagrams: u64) {
    let (sender, amount) = (workload("datagrams"), datagrams.to_string());
    must(Command::new("taskset").args(["-c", "0", &sender, &amount, BYTES, "0"]));
}

/// `stream` of libweigh/tests.
struct Program(Mortal, BufReader<ChildStdout>);

impl Program {
    fn start(stream: &Stream, words: &[&str]) -> Program {
        let mut command = Command::new(program("stream"));
        command.arg(stream.pid()).args(words).stdout(Stdio::piped());
        let mut process = Mortal::of(command.spawn());
        let said = BufReader::new(process.stdout.take().expect("output"));
        let mut program = Program(process, said);
        let mut line = program.line();
        if line.starts_with('{') {
            line = program.line();
        }
        assert_eq!(line, "ready");
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("text");
        line.trim_end().to_string()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("it is there");
    }

    /// Seen, lost, missing, the sum of the field, how often it was waked.
    fn end(mut self) -> [u64; 5] {
        let line = self.line();
        assert!(self.0.wait().expect("it ends").success(), "{line}");
        let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().expect("a number")).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
    }
}

#[test]
fn each_reader_has_every_event_and_is_waked_by_his_own_rule() {
    needs_root!();
    let _alone = alone();
    let scratch = Scratch::new();
    // The kernel passes over one in some 100,000: what nobody got is said.
    let stream = Stream::start(&scratch, &[]);
    let each = Program::start(&stream, &["0", "1", "0", "len"]);
    let bulk = Program::start(&stream, &["1048576", "0", "0", "len"]);
    let file = scratch.path("along.jsonl").display().to_string();
    let mut along = Command::new(weigh_binary());
    along.args(["trace", "attach", &stream.pid(), "-o", &file, "--top", "3 by len"]);
    let along = Mortal::of(along.stderr(Stdio::piped()).stdout(Stdio::null()).spawn());
    wait_until("three read along", 120.0, || stream.clients(&scratch).len() == 3);
    send(1003);
    let has_seen = |client: &Value| client["seen"].as_u64() >= Some(1000);
    // The one that waits for more bytes than come is not waked.
    wait_until("two have seen them", 120.0, || {
        stream.clients(&scratch).iter().filter(|client| has_seen(client)).count() == 2
    });
    let clients = stream.clients(&scratch);
    let of = |process: u32| {
        let found = clients.iter().find(|client| client["pid"].as_u64() == Some(process.into()));
        found.unwrap_or_else(|| panic!("{clients:?}"))
    };
    assert_eq!(of(bulk.0.id())["seen"], 0);
    assert_eq!(of(bulk.0.id())["wake"]["bytes"], 1 << 20);
    assert_eq!(of(each.0.id())["wake"]["count"], 1);
    assert!(of(bulk.0.id())["lag"].as_u64() > Some(1000 * 48), "{clients:?}");

    let (own, lost) = stream.end();
    assert_eq!(own + lost, 1003);
    let [seen, overrun, missing, sum, waked] = each.end();
    assert_eq!((seen, overrun, missing, sum), (own, 0, lost, own * LENGTH));
    assert!(waked > 1, "{waked}");
    let [seen, overrun, missing, sum, waked] = bulk.end();
    assert_eq!((seen, overrun, missing, sum), (own, 0, lost, own * LENGTH));
    // By the end alone.
    assert_eq!(waked, 1);
    let said = succeeds(&along.wait_with_output().expect("it ends"));
    assert_eq!(counted(&said), (own, lost));
    for name in ["own.jsonl", "along.jsonl"] {
        let events = lines(&scratch, name);
        assert_eq!(events.len() as u64, own, "{name}");
        assert!(events.iter().all(|event| event["fields"]["len"] == LENGTH), "{name}");
    }
}

#[test]
fn who_is_stopped_loses_his_own_events_and_knows_how_many() {
    needs_root!();
    let _alone = alone();
    let scratch = Scratch::new();
    let stream = Stream::start(&scratch, &["--buffer", "64KiB"]);
    let stopped = Program::start(&stream, &["0", "1", "0", "len"]);
    let other = Program::start(&stream, &["0", "1", "0", "len"]);
    send_from_one_cpu(10);
    // On a busy machine a reader may not have a CPU for seconds, and the kernel passes over an event now and then.
    for reader in [&stopped, &other] {
        wait_until("both have seen them", 120.0, || stream.has_shown(&scratch, reader.0.id(), 10));
    }
    stopped.signal(Signal::SIGSTOP);
    // Not faster than the stream itself takes them: all of them go several times round the ring.
    for batch in 1..=20 {
        send_from_one_cpu(500);
        wait_until("the other has seen them", 120.0, || {
            stream.has_shown(&scratch, other.0.id(), 10 + batch * 500)
        });
    }
    stopped.signal(Signal::SIGCONT);
    send(7);
    let (own, lost) = stream.end();
    assert_eq!(own + lost, 10_017);
    let [seen, overrun, missing, sum, _] = other.end();
    assert_eq!((seen, overrun, missing, sum), (own, 0, lost, own * LENGTH));
    let [seen, overrun, missing, sum, _] = stopped.end();
    assert!(overrun > 5_000, "{overrun} were lost");
    assert_eq!((seen + overrun, missing, sum), (own, lost, seen * LENGTH));
}

#[test]
fn a_reader_changes_the_stream_and_one_that_dies_is_forgotten() {
    needs_root!();
    let _alone = alone();
    let scratch = Scratch::new();
    let stream = Stream::start(&scratch, &[]);
    let added = r#"{"add":{"event":"net:netif_rx{len=skb->len} if skb->len == 641"}}"#;
    let reader = Program::start(&stream, &["0", "1", "0", "len", added]);
    let dies = Program::start(&stream, &["0", "0", "10"]);
    assert_eq!(stream.clients(&scratch).len(), 2);
    dies.signal(Signal::SIGKILL);
    wait_until("it is forgotten", 120.0, || stream.clients(&scratch).len() == 1);
    send(103);
    // What the new event looks like the reader asks when it meets the first one: of a stream that lives.
    wait_until("it has seen them", 120.0, || stream.has_shown(&scratch, reader.0.id(), 103));
    let (own, lost) = stream.end();
    assert_eq!(own + lost, 206);
    let [seen, overrun, missing, ..] = reader.end();
    assert_eq!((seen, overrun, missing), (own, 0, lost));
}

#[test]
fn each_buffer_is_read_along_by_its_name() {
    needs_root!();
    let _alone = alone();
    let scratch = Scratch::new();
    let into = ["--into", "copy: one ring, size 1MiB", "--into", "none: if tid == 0"];
    let stream = Stream::start(&scratch, &into);
    stream.ask(&scratch, &["add", "net:netif_rx{len=skb->len} if skb->len == 641"]).expect("added");
    let of = |buffer: &str| Program::start(&stream, &["0", "1", "0", "len", "", buffer]);
    let (main, copy, none) = (of("main"), of("copy"), of("none"));
    let file = scratch.path("part.jsonl").display().to_string();
    let other = |words: &[&str]| {
        let mut other = Command::new(weigh_binary());
        other.args(["trace", "attach", &stream.pid(), "-o", &file]).args(words);
        other.stderr(Stdio::piped());
        other
    };
    for (words, says) in [
        (&["--from", "cpoy"][..], &["no buffer 'cpoy'", "perhaps 'copy'"][..]),
        (&["-f", "lenn > 3"], &["--filter", "'lenn'", "len"]),
        (&["-f", "len == \"x\""], &["--filter", "len"]),
    ] {
        let refused = other(words).output().expect("it starts");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(125), "{said}");
        assert!(says.iter().all(|word| said.contains(word)), "{said}");
    }
    let mut unknown = Command::new(program("stream"));
    let unknown = unknown.args([&stream.pid(), "0", "1", "0", "len", "", "copx"]).output();
    let said = String::from_utf8(unknown.expect("it starts").stdout).expect("text");
    assert!(said.contains("no buffer of that name"), "{said}");
    let wanted = "event == \"net:netif_rx\" && len in 600..650 && cpu < 60000";
    let part = Mortal::of(other(&["--from", "copy", "-f", wanted]).spawn());
    wait_until("four read along", 120.0, || stream.clients(&scratch).len() == 4);
    let mut read: Vec<String> =
        stream.clients(&scratch).iter().map(|client| client["buffer"].to_string()).collect();
    read.sort();
    assert_eq!(read, ["\"copy\"", "\"copy\"", "\"main\"", "\"none\""]);
    // Its rings stay as long as somebody reads them.
    let why =
        stream.ask(&scratch, &["buffer", "set", "copy", "size 2MiB"]).expect_err("it is read");
    assert!(why.contains("read it along"), "{why}");
    send(1003);
    // The kernel passes over one in some 100,000.
    wait_until("all are seen", 120.0, || {
        let seen = |client: &Value| client["seen"].as_u64().unwrap_or(0);
        stream.clients(&scratch).iter().filter(|client| seen(client) >= 2000).count() == 3
    });
    stream.ask(&scratch, &["buffer", "remove", "copy"]).expect("it is removed");
    // Who reads what is removed has all of it; the others go on.
    let [seen, overrun, _, sum, _] = copy.end();
    assert!((2000..=2006).contains(&seen) && overrun == 0, "{seen} {overrun}");
    assert!((seen / 2 * (641 + LENGTH)).abs_diff(sum) < 4 * LENGTH, "{sum}");
    let said = succeeds(&part.wait_with_output().expect("it ends"));
    assert!(said.contains(&format!(" of {seen} events in ")), "{said}");
    let found = lines(&scratch, "part.jsonl");
    assert!(found.iter().all(|event| event["event"] == "net:netif_rx"), "{said}");
    assert!((1000..=1003).contains(&found.len()), "{said}");
    send(10);
    let (own, lost) = stream.end();
    let of_main = main.end();
    assert_eq!((own + lost, of_main[0] + seen), (2 * 2006 + 20, own), "{of_main:?}");
    assert_eq!(none.end()[0], 0);
}

/// As a script reads it.
const SCRIPT: &str = "
import sys, weigh
try:
    weigh.trace(int(sys.argv[1]), buffer='none')
except OSError as error:
    assert 'no buffer of that name' in str(error), error
with weigh.trace(int(sys.argv[1]), count=1, buffer='main') as trace:
    print('ready', flush=True)
    lengths = [(event.skb_len, event['dev']) for event in trace]
    print(len(lengths), *set(lengths), *trace.lost(), trace.ended)
";

#[test]
fn python_reads_along() {
    needs_root!();
    let _alone = alone();
    let scratch = Scratch::new();
    let stream = Stream::start(&scratch, &[]);
    let added = "net:netif_rx{skb->len, dev=skb->dev->name} if skb->len == 641";
    stream.ask(&scratch, &["remove", "0"]).expect("it is removed");
    stream.ask(&scratch, &["add", added]).expect("it is added");
    let library = program("lib").join("libweigh.so.0");
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../libweigh/python");
    let mut python = Command::new("python3");
    python.args(["-B", "-c", SCRIPT, &stream.pid()]).env("PYTHONPATH", module);
    let python = python.env("WEIGH_LIBRARY", library).stdout(Stdio::piped()).spawn();
    let mut python = Mortal::of(python);
    let mut said = BufReader::new(python.stdout.take().expect("output")).lines();
    let mut line = || said.next().expect("a line").expect("text");
    assert_eq!(line(), "ready");
    send(103);
    let word = |client: &Value, name: &str| client[name].as_u64().unwrap_or(0);
    wait_until("nearly all are seen", 120.0, || {
        stream.clients(&scratch).first().is_some_and(|client| word(client, "seen") >= 100)
    });
    // A stamp, a header, a number and "lo" with its end take 56 bytes, with all room of the name 72.
    let client = &stream.clients(&scratch)[0];
    assert!(word(client, "position") < 58 * word(client, "seen"), "{client}");
    let (own, lost) = stream.end();
    assert_eq!(own + lost, 103);
    assert_eq!(line(), format!("{own} (641, 'lo') 0 {lost} True"));
    assert!(python.wait().expect("it ends").success());
}

#[test]
fn a_stream_that_lies_harms_nobody() {
    let folder = folder();
    let output = must(Command::new(program("stream_hostile")).arg(folder.path()).arg("500"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("opened"));
}
