//! Regions that programs name: exact odd numbers of calls, as the program counts them, by each mechanism; killed
//! programs, publishes, profiles that were kept in a file, and what does not belong at the socket.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::Command;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with,
};
use serde_json::Value;
use weigh_schema::Quality;
use weigh_schema::profile::{ADDRESS_PREFIX, layout};
use weigh_schema::region::{PhaseRow, RegionKind, RegionRow, RegionsFound};

use crate::support::library::{folder, must, program};
use crate::support::measured::Measured;
use crate::support::run::{Weigh, weigh};
use crate::support::{is_root, patience};

fn regions(arguments: &[&str]) -> Weigh {
    let program = program("regions_run").display().to_string();
    Weigh::run(std::iter::once(program).chain(arguments.iter().map(ToString::to_string)))
}

#[track_caller]
fn found(measured: &Measured) -> RegionsFound {
    match &measured.summary().regions {
        Some(found) => (**found).clone(),
        None => panic!("no regions were told\n{}", measured.everything()),
    }
}

fn rows(measured: &Measured) -> Vec<RegionRow> {
    let mut rows = Vec::new();
    measured.recording().each_region(|row| rows.push(row)).expect("the table can be read");
    rows
}

fn phases(measured: &Measured) -> Vec<PhaseRow> {
    let mut rows = Vec::new();
    measured.recording().each_phase(|row| rows.push(row)).expect("the table can be read");
    rows
}

#[track_caller]
fn row<'a>(rows: &'a [RegionRow], path: &[&str]) -> &'a RegionRow {
    let is_it = |row: &&RegionRow| row.path == path && row.kind != RegionKind::Thread;
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no row {path:?} in {rows:#?}"))
}

/// What `regions_run count` does.
#[track_caller]
fn has_counted(measured: &Measured) {
    let (found, rows) = (found(measured), rows(measured));
    let calls = |path: &[&str]| row(&rows, path).calls;
    assert_eq!((calls(&["solve"]), calls(&["solve", "step"])), (3, 3 * 41));
    assert_eq!((calls(&["iteration"]), calls(&["around"])), (17, 1));
    assert_eq!(row(&rows, &["iteration"]).kind, RegionKind::Phase);
    let left = row(&rows, &["around", "left open"]);
    assert_eq!((left.unbalanced_calls, left.open_calls), (1, 0), "{left:?}");
    assert!(row(&rows, &["solve", "step"]).inclusive_seconds >= 123.0 * 20e-6);
    // What is in regions, and what lies outside, is the thread's time.
    let thread = rows.iter().find(|row| row.kind == RegionKind::Thread).expect("a thread");
    let sum: f64 = rows.iter().map(|row| row.exclusive_seconds).sum();
    assert!((sum - thread.inclusive_seconds).abs() < 1e-6, "{sum} {thread:?}");
    assert!(rows.iter().all(|row| row.quality == Quality::Exact), "{rows:#?}");
    let counters: BTreeMap<_, _> =
        found.counters.iter().map(|c| (c.name.as_str(), (c.value, c.samples))).collect();
    let cells = f64::from(17 * 4096 + (0..17).sum::<i32>());
    assert_eq!((counters["cells"], counters["faces"]), ((cells, 17), (cells, 17)));
    assert_eq!((counters["residual"], counters["restart"]), ((1.0 / 17.0, 17), (2.5, 1)));
    assert_eq!(found.metadata["input"], "case-7.nml");
    assert_eq!((found.processes_total, found.threads_total, found.cut_short_total), (1, 1, 0));
    assert_eq!((found.publishes_total, found.unbalanced_calls_total), (17, 1));
    assert!(found.lost.is_empty() && found.refused.is_empty(), "{found:?}");
    let phases = phases(measured);
    let iterations: Vec<u64> = phases.iter().map(|phase| phase.iteration).collect();
    assert_eq!(iterations, (100..117).collect::<Vec<u64>>());
    let job = &measured.summary().job;
    let from = job.started.as_nanosecond() as i64;
    let to = job.ended.expect("it has ended").as_nanosecond() as i64;
    // Both are noted beside the job, which may go on meanwhile.
    let (from, to) = (from - 20_000_000, to + 20_000_000);
    let is_within = |phase: &PhaseRow| from <= phase.started_ns && phase.ended_ns <= to;
    assert!(phases.iter().all(is_within), "{from} {to} {phases:#?}");
}

#[test]
fn calls_counters_and_phases_are_those_of_the_program() {
    has_counted(&regions(&["count"]).measure());
}

#[test]
fn each_mechanism_has_them() {
    let root: &[&str] = if is_root() { &["bpf"] } else { &[] };
    for mechanism in root.iter().chain(&["ptrace", "preload", "poll"]) {
        has_counted(&regions(&["count"]).options(&format!("--mechanism {mechanism}")).end());
    }
}

#[test]
fn an_ordinary_user_has_them() {
    needs_root!();
    has_counted(&regions(&["count"]).run_by(65_534).measure());
}

#[test]
fn threads_are_told_apart_and_added_up() {
    let measured = regions(&["two"]).measure();
    let mut calls: Vec<u64> = Vec::new();
    calls.extend(rows(&measured).iter().filter(|row| row.path == ["step"]).map(|row| row.calls));
    calls.sort_unstable();
    assert_eq!(calls, [5, 8]);
    let top = &found(&measured).top[0];
    assert_eq!((top.name.as_str(), top.calls, top.threads), ("step", 13, 2));
    assert!(top.longest_thread_seconds < top.inclusive_seconds);
}

/// Whatever lies in what: a thread's exclusive times and what lies outside are its wall time, and what is inside of a region
/// took no longer than it, to the microsecond.
#[test]
fn times_of_five_threads_add_up() {
    let rows = rows(&regions(&["five"]).measure());
    let threads: Vec<&RegionRow> =
        rows.iter().filter(|row| row.kind == RegionKind::Thread).collect();
    assert_eq!(threads.len(), 5, "{threads:#?}");
    for thread in threads {
        let own: Vec<&RegionRow> = rows.iter().filter(|row| row.thread == thread.thread).collect();
        assert!(own.len() > 100, "{} rows", own.len());
        assert!(own.iter().any(|row| row.name == "(other)"), "deeper than there are frames");
        let exclusive: f64 = own.iter().map(|row| row.exclusive_seconds).sum();
        assert!((exclusive - thread.inclusive_seconds).abs() < 1e-6, "{exclusive} {thread:?}");
        for row in &own {
            // Regions that have no row of their own lie anywhere: inside of others, too.
            let is_inside = |other: &&&RegionRow| {
                other.path.len() == row.path.len() + 1
                    && other.path.starts_with(&row.path)
                    && other.name != "(other)"
            };
            let inside: f64 = own.iter().filter(is_inside).map(|row| row.inclusive_seconds).sum();
            // Of what is timed one in so many, the time is known as far as its error says.
            let errors = own.iter().filter(is_inside).filter_map(|row| row.error_seconds);
            let error: f64 = errors.sum::<f64>() + row.error_seconds.unwrap_or(0.0);
            assert!(inside <= row.inclusive_seconds + error + 1e-6, "{inside} in {row:?}, {error}");
        }
    }
}

#[test]
fn a_killed_program_leaves_its_last_profile() {
    let measured = regions(&["killed"]).end();
    let (found, rows) = (found(&measured), rows(&measured));
    let open = row(&rows, &["open"]);
    assert_eq!((open.calls, open.open_calls, open.min_seconds), (0, 1, None));
    assert!(open.open_seconds.is_some_and(|seconds| seconds > 0.02), "{open:?}");
    assert_eq!(row(&rows, &["open", "step"]).calls, 7);
    assert_eq!((found.cut_short_total, found.open_calls_total), (1, 1));
}

/// An exec ends a profile, whether the next program has one or not: that is no cut.
#[test]
fn an_exec_ends_a_profile_and_cuts_nothing_short() {
    let itself = program("regions_run").display().to_string();
    // What ends at once has ended before anybody looks: the mechanism tells of its exec.
    let next = [vec![itself.as_str(), "count"], vec!["/bin/sleep", "2"], vec!["/bin/true"]];
    for next in next {
        let arguments: Vec<&str> = ["exec"].into_iter().chain(next).collect();
        let measured = regions(&arguments).options("--interval 50ms").measure();
        let found = found(&measured);
        let told = (found.processes_total, found.executed_total, found.cut_short_total);
        assert_eq!(told, (1, 1, 0), "{arguments:?}");
        let rows = rows(&measured);
        assert_eq!(row(&rows, &["open", "step"]).calls, 7);
        assert_eq!(row(&rows, &["open"]).open_calls, 1);
    }
}

/// Each read is of one publish: where the program's counters are equal.
#[test]
fn counters_are_equal_at_each_publish_that_is_read() {
    let measured = regions(&["publish", "1"]).options("--interval 20ms").measure();
    let mut at: BTreeMap<i64, BTreeMap<String, f64>> = BTreeMap::new();
    for sample in measured.samples() {
        if sample.metric.starts_with("region:") {
            at.entry(sample.time_ns).or_default().insert(sample.metric, sample.value);
        }
    }
    let found = found(&measured);
    assert!(found.publishes_read_total >= 3, "{found:?}");
    assert!(found.publishes_total > found.publishes_read_total);
    assert!(at.len() as u64 >= found.publishes_read_total, "{} times", at.len());
    for (time, values) in at {
        assert_eq!(values.get("region:cells"), values.get("region:faces"), "at {time}");
    }
}

#[test]
fn a_job_that_names_none_shows_nothing_of_it() {
    let measured = Weigh::run(["true"]).measure();
    assert!(measured.summary().regions.is_none());
    assert!(!measured.stderr.contains("regions"), "{}", measured.stderr);
    let recording = measured.scratch.path("recording");
    assert!(!recording.join("regions.parquet").exists());
    let shown = weigh(&measured.scratch, &["show", "--regions", &recording.to_string_lossy()]);
    assert!(!shown.status.success());
    assert!(String::from_utf8_lossy(&shown.stderr).contains("named regions"));
}

fn json(measured: &Measured, arguments: &[&str]) -> Value {
    let output = weigh(&measured.scratch, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn they_are_shown_as_tree_flat_and_json() {
    let measured = regions(&["count"]).measure();
    assert!(measured.stderr.contains("\nregions  1 process, 1 thread\n"), "{}", measured.stderr);
    let place = measured.scratch.path("recording").display().to_string();
    let text = weigh(&measured.scratch, &["show", "--regions", &place]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("  solve\n") && text.contains("    step\n"), "{text}");
    assert!(text.contains("left open  (1 unbalanced)"), "{text}");
    let all = json(&measured, &["show", "--regions", "--threads", "--json", &place]);
    assert_eq!(all["schema"], "weigh.regions/1");
    let step = all["regions"].as_array().expect("a list").iter().find(|row| row["name"] == "step");
    let step = step.expect("a row");
    assert_eq!(
        (&step["path"], &step["calls"]),
        (&serde_json::json!(["solve", "step"]), &123.into())
    );
    assert_eq!(step["quality"], "exact");
    let phases = all["phases"].as_array().expect("a list");
    assert_eq!((phases.len(), &phases[16]["iteration"]), (17, &116.into()));
    assert!(phases[0]["start_seconds"].as_f64().expect("a number") >= 0.0);
    assert_eq!(all["threads"].as_array().map(Vec::len), Some(1));
    assert_eq!(all["metadata"]["input"], "case-7.nml");
    let flat = json(&measured, &["show", "--regions", "--flat", "--json", &place]);
    let names = flat["regions"].as_array().expect("a list").len();
    assert_eq!(names, 5, "solve, step, iteration, around, left open: {flat}");
}

#[test]
fn a_profile_in_a_file_is_shown_alike() {
    let measured = Weigh::run(["true"]).measure();
    let place = folder();
    let file = place.path().join("profile");
    must(Command::new(program("regions_run")).arg("count").env("WEIGH_PROFILE", &file));
    let shown = json(&measured, &["show", "--regions", "--json", &file.to_string_lossy()]);
    let rows = shown["regions"].as_array().expect("a list").iter();
    let calls: BTreeMap<&str, u64> = rows
        .map(|row| {
            (row["name"].as_str().expect("a value"), row["calls"].as_u64().expect("a value"))
        })
        .collect();
    assert_eq!((calls["solve"], calls["step"], calls["iteration"]), (3, 123, 17));
    assert_eq!(shown["phases"].as_array().map(Vec::len), Some(17));
    assert_eq!(shown["metadata"]["input"], "case-7.nml");
}

/// Where a job is told to hand profiles over, and the number for it.
struct Socket {
    address: SocketAddrUnix,
    token: [u64; 2],
}

impl Socket {
    fn new(variable: &str) -> Socket {
        let (address, token) = variable.trim().split_once(':').expect("two numbers");
        let number = |digits: &str| u64::from_str_radix(digits, 16).expect("a number");
        let name = format!("{ADDRESS_PREFIX}{address}");
        Socket {
            address: SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("an address"),
            token: [number(&token[..16]), number(&token[16..])],
        }
    }

    fn connect(&self) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.expect("a socket");
        connect(&socket, &self.address).expect("weigh listens");
        socket
    }

    fn send(&self, words: &[u64], files: &[BorrowedFd<'_>]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.send_bytes(&bytes, files);
    }

    fn send_bytes(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(files)));
        }
        let part = [IoSlice::new(bytes)];
        // weigh may have turned it away already.
        let _ = sendmsg(self.connect(), &part, &mut control, SendFlags::NOSIGNAL);
    }

    fn hello(&self) -> [u64; 4] {
        [layout(), self.token[0], self.token[1], 1]
    }
}

fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("profile", MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, bytes).expect("its size");
    fcntl_add_seals(&file, seals).expect("its seals");
    file
}

#[test]
fn what_does_not_belong_at_the_socket_is_refused_and_holds_nothing_up() {
    let script = "echo $WEIGH_REGIONS >socket.new; mv socket.new socket; \
                  until [ -e go ]; do sleep 0.02; done; \"$0\" count";
    let program = program("regions_run").display().to_string();
    let mut running = Weigh::bash(script).argument(program).start();
    let work = running.scratch.path("work");
    running.wait_until("the socket is told", 20.0, || work.join("socket").exists());
    let socket = Socket::new(&std::fs::read_to_string(work.join("socket")).expect("the variable"));
    // More than may be silent at one time, each to the end.
    let silent: Vec<OwnedFd> = (0..200).map(|_| socket.connect()).collect();
    let good = memory(8 << 10, SealFlags::SHRINK);
    let file = std::fs::File::open("/dev/null").expect("a file");
    socket.send_bytes(b"\xff\x00 random bytes", &[]);
    socket.send_bytes(&[7; 4096], &[good.as_fd()]);
    socket.send(&[layout(), socket.token[0] ^ 1, socket.token[1], 1], &[good.as_fd()]);
    socket.send(&[layout() ^ 1, socket.token[0], socket.token[1], 1], &[good.as_fd()]);
    socket.send(&socket.hello(), &[]);
    socket.send(&socket.hello(), &[good.as_fd(), good.as_fd()]);
    socket.send(&socket.hello(), &[file.as_fd()]);
    socket.send(&socket.hello(), &[memory(8 << 10, SealFlags::GROW).as_fd()]);
    socket.send(&socket.hello(), &[memory((64 << 20) + 8, SealFlags::SHRINK).as_fd()]);
    socket.send(&socket.hello(), &[memory(64, SealFlags::SHRINK).as_fd()]);
    socket.send(&socket.hello(), &[good.as_fd()]);
    let begun = std::time::Instant::now();
    std::fs::write(work.join("go"), "").expect("a file");
    let measured = running.end();
    assert!(begun.elapsed() < patience(20.0), "something was held up");
    drop(silent);
    let mut found = found(&measured);
    let refused = std::mem::take(&mut found.refused);
    for (why, count) in [
        ("a message that is none of libweigh's", 2),
        ("a message without the job's number", 1),
        ("a profile of another version of weigh", 1),
        ("a message without a profile", 2),
        ("the descriptor is no memfd", 1),
        ("the memfd may shrink", 1),
        ("a profile whose size is not what it says", 2),
        ("no profile, or not ready", 1),
    ] {
        assert_eq!(refused.get(why), Some(&count), "{why}: {refused:#?}");
    }
    let rows = rows(&measured);
    assert_eq!((found.processes_total, row(&rows, &["solve", "step"]).calls), (1, 123));
}

#[test]
fn they_are_exported_for_speedscope_and_perfetto() {
    let measured = regions(&["count"]).measure();
    let place = measured.scratch.path("recording").display().to_string();
    let flames = json(&measured, &["export", "--format", "speedscope", &place]);
    let profile = &flames["profiles"][0];
    let weights = profile["weights"].as_array().expect("a list").iter();
    let sum: f64 = weights.map(|weight| weight.as_f64().expect("a number")).sum();
    let thread = rows(&measured).into_iter().find(|row| row.kind == RegionKind::Thread);
    let wall = thread.expect("a thread").inclusive_seconds;
    assert!((sum - wall).abs() < 1e-6, "{sum} {wall}");
    let events = json(&measured, &["export", "--format", "chrome", &place]);
    let events = events["traceEvents"].as_array().expect("a list").clone();
    assert_eq!((events.len(), &events[16]["args"]["iteration"]), (17, &116.into()));
    let output = weigh(&measured.scratch, &["export", "--format", "otlp", &place]);
    let text = String::from_utf8(output.stdout).expect("text");
    // Seventeen phases, a process, the job.
    assert_eq!(text.matches("\"spanId\"").count(), 19, "{text}");
    assert_eq!(text.matches("weigh.iteration").count(), 17);
}
