//! `weigh trace` of functions of programs and of points that were compiled into them, against a program
//! that knows how often it called what with which arguments.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, bare_status, weigh};
use crate::support::trace::lines;
use crate::support::workload;
use serde_json::Value;

const CALLS: i64 = 1009;

/// What `probed` hands over at its Nth call.
fn given(n: i64) -> (i64, i64, &'static str) {
    if n % 2 == 1 { (-n, n << 33, "odd") } else { (n, n << 33, "even") }
}

/// Follows `probed` while it makes its calls; its events, what it and weigh said.
#[track_caller]
fn follows(scratch: &Scratch, options: &[&str]) -> (Vec<Value>, Output) {
    let file = scratch.path("events.jsonl").display().to_string();
    let (program, calls) = (workload("probed"), CALLS.to_string());
    let command = ["-o", &file, "--", &program, &calls];
    let output = weigh(scratch, &[&["trace"][..], options, &command].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "the status is the program's own: {said}");
    assert!(said.contains(" 0 lost"), "{said}");
    (lines(scratch, "events.jsonl"), output)
}

fn of<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == name).map(|event| &event["fields"]).collect()
}

/// A number that the program told.
fn told(scratch: &Scratch, key: &str) -> u64 {
    let text = scratch.text("truth");
    let value = text.lines().rev().find_map(|line| line.strip_prefix(&format!("{key}=")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {key}: {text}"))
}

#[test]
fn every_call_is_an_event_with_its_arguments() {
    needs_root!();
    let scratch = Scratch::new();
    let program = workload("probed");
    // Somebody else who calls it, and is not followed.
    let other = Command::new(&program)
        .args(["100000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut other = Mortal::of(other);
    let called = format!("user:{program}:given");
    let returned = format!("user:{program}:given%return");
    let within = format!("user:{program}:given+0x1");
    let (events, output) = follows(
        &scratch,
        &[
            "-e",
            &format!("{called}{{n=i32(arg0), wide=arg1, text=str(arg2), bytes=bytes(arg2, 3)}}"),
            "-e",
            &format!("{returned}{{ret=i64(ret)}}"),
            "-e",
            &format!("{within}{{comm}} if arg2 == \"odd\" && i32(arg0) <= -1"),
            "-e",
            &format!("{called}{{sampled=u32(arg0)}} sample 1/10"),
        ],
    );
    other.kill().and_then(|()| other.wait()).expect("it can be ended");
    let calls = of(&events, &called);
    let (calls, sampled): (Vec<&Value>, Vec<&Value>) =
        calls.into_iter().partition(|fields| fields.get("n").is_some());
    let returns = of(&events, &returned);
    assert_eq!((calls.len(), returns.len()), (CALLS as usize, CALLS as usize));
    for (n, (call, end)) in calls.iter().zip(&returns).enumerate() {
        let (number, wide, text) = given(n as i64);
        assert_eq!(call["n"], number, "{n}: {call}");
        assert_eq!(call["wide"], wide, "{n}: {call}");
        assert_eq!(call["text"], text, "{n}: {call}");
        let bytes: String = text.bytes().take(3).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(call["bytes"], bytes, "{n}: {call}");
        assert_eq!(end["ret"], number + wide, "{n}: {end}");
    }
    let odd = of(&events, &within);
    assert_eq!(odd.len() as i64, CALLS / 2);
    assert!(odd.iter().all(|fields| fields["comm"] == "probed"));
    assert_eq!(sampled.len() as i64, (CALLS + 9) / 10);
    assert_eq!(sampled[1]["sampled"], 10);
    let (untraced, status) = bare_status(&scratch, &[&program, &CALLS.to_string()]);
    assert_eq!((untraced, status), (output.stdout, Some(5)));
}

#[test]
fn every_passing_of_a_point_is_an_event_wherever_it_was_compiled_to() {
    needs_root!();
    let scratch = Scratch::new();
    for program in [workload("probed"), workload("probed-static")] {
        let step = format!("usdt:{program}:weigh_test:step");
        let asked = format!("usdt:{program}:weigh_test:asked");
        let file = scratch.path("events.jsonl").display().to_string();
        let calls = CALLS.to_string();
        let options = ["trace", "--per-cpu", "-o", &file, "-e", &step, "-e", &asked, "--"];
        let output = weigh(&scratch, &[&options[..], &[&program, &calls]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{said}");
        let events = lines(&scratch, "events.jsonl");
        let mut steps: Vec<(i64, i64)> = Vec::new();
        for fields in of(&events, &step) {
            assert_eq!(fields["arg2"], -7, "a constant: {fields}");
            let number = |name: &str| fields[name].as_i64().expect("a number");
            steps.push((number("arg0"), number("arg1")));
        }
        steps.sort_by_key(|(_, wide)| *wide);
        let expected: Vec<(i64, i64)> =
            (0..CALLS).map(given).map(|(n, wide, _)| (n, wide)).collect();
        assert_eq!(steps, expected, "in registers and in memory: {said}");
        assert_eq!(of(&events, &asked).len() as i64, CALLS, "{said}");
        assert_eq!(
            told(&scratch, "asked") as i64,
            CALLS,
            "the program was told that somebody asks"
        );
        bare_status(&scratch, &[&program, &calls]);
        assert_eq!(told(&scratch, "asked"), 0, "and that nobody does any more");
    }
}

/// The function that a frame is in.
fn function(frame: &Value) -> &str {
    frame.as_str().and_then(|frame| frame.split('+').next()).expect("a text")
}

#[test]
fn stacks_are_the_functions_that_were_executed() {
    needs_root!();
    let scratch = Scratch::new();
    let program = workload("probed");
    let step = format!("usdt:{program}:weigh_test:step");
    let switch = "sched:sched_switch";
    let file = scratch.path("events.jsonl").display().to_string();
    let arguments = [
        "trace",
        "-o",
        &file,
        "-e",
        &format!("{step}{{ustack, ustack(2)}}"),
        "-e",
        &format!("{switch}{{stack, ustack(4)}} if prev_state != 0"),
        "--",
        &program,
        "23",
        "20",
    ];
    let output = weigh(&scratch, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    let events = lines(&scratch, "events.jsonl");
    let steps = of(&events, &step);
    assert_eq!(steps.len(), 23, "{said}");
    for (n, fields) in steps.iter().enumerate() {
        let stack = fields["ustack"].as_array().expect("a list");
        let functions: Vec<&str> = stack.iter().take(4).map(function).collect();
        let point = if n % 2 == 1 { "in_registers" } else { "in_memory" };
        assert_eq!(functions, [point, "inner", "outer", "main"], "{n}: {stack:?}");
        assert!(stack.len() <= 32);
        let cut = fields["ustack(2)"].as_array().expect("a list");
        assert_eq!(cut[..], stack[..2]);
    }
    // It sleeps; the first that it is seen at is nearer to its beginning.
    let sleeps = of(&events, switch);
    let asleep = |fields: &&&Value| {
        let stack = fields["stack"].as_array().expect("a list");
        stack.iter().map(function).any(|name| name == "do_nanosleep")
    };
    assert!(sleeps.iter().filter(asleep).count() >= 23, "{sleeps:?}");
}

#[test]
fn what_a_program_does_not_have_is_refused_before_anything_starts() {
    needs_root!();
    let scratch = Scratch::new();
    let program = workload("probed");
    let own = |rest: &str| format!("user:{program}:{rest}");
    let point = |rest: &str| format!("usdt:{program}:{rest}");
    let stripped = scratch.path("stripped").display().to_string();
    let mut bytes = std::fs::read(&program).expect("the workload");
    // Nobody finds its sections any more: `e_shoff`, `e_shnum` and `e_shstrndx` of its header.
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    std::fs::write(&stripped, bytes).expect("a file");
    let cases: &[(String, &[&str])] = &[
        (own("gven"), &["no function 'gven'", "^^^^", "near it: given"]),
        (own("given+2"), &["no instruction of given begins"]),
        (own("given+0x1%return"), &["only a whole function returns"]),
        (own("given{arg9}"), &["no argument 'arg9'", "arg4"]),
        (own("given{i32(comm)}"), &["no argument 'comm'"]),
        (own("given{arg0->x}"), &["no members"]),
        (own("given{stack}"), &["nothing of the kernel"]),
        (own("given%return{arg0}"), &["no argument 'arg0'"]),
        (point("weigh_test:stop"), &["no point", "weigh_test:step"]),
        (point("weigh_tset:step"), &["weigh_test:step"]),
        (point("weigh_test:step{arg3}"), &["no argument 'arg3'"]),
        (format!("user:{stripped}:given"), &["stripped"]),
        (format!("user:{program}x:given"), &["No such file", &program]),
        ("user:/etc/passwd:x".to_string(), &["/etc/passwd", "ELF"]),
        ("user:/usr/bin:x".to_string(), &["no file"]),
        ("user:libnosuch.so.1:x".to_string(), &["no such library"]),
        ("user:libc.so.6:malllocc".to_string(), &["libc.so.6", "malloc"]),
        ("user:libc.so.6:strlen".to_string(), &["IFUNC"]),
        ("user:no-such-command:x".to_string(), &["no-such-command", "path has a '/'"]),
    ];
    for (event, words) in cases {
        let output = weigh(&scratch, &["trace", "-e", event, "--", "touch", "ran"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{event}: {said}");
        for word in *words {
            assert!(said.contains(word), "{event} lacks {word:?}: {said}");
        }
        assert!(!scratch.path("work/ran").exists(), "{event} started the command");
    }
}

#[test]
fn what_a_program_has_is_listed() {
    let scratch = Scratch::new();
    let program = workload("probed");
    let list = |pattern: &str| {
        let output = weigh(&scratch, &["trace", "list", pattern]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let listed = list(&format!("user:{program}:*in_*"));
    let names: Vec<&str> = listed.lines().filter_map(|line| line.rsplit(':').next()).collect();
    assert_eq!(names, ["in_memory", "in_registers"], "{listed}");
    let points = list(&format!("usdt:{program}"));
    let expected = format!(
        "usdt:{program}:weigh_test:asked(arg0)\nusdt:{program}:weigh_test:step(arg0, arg1, arg2)\n"
    );
    assert_eq!(points, expected);
    assert!(list("user:libc.so.6:malloc").contains("user:libc.so.6:malloc\n"));
}

/// A `probed` that goes on until it is ended.
struct Probed(Mortal);

impl Probed {
    /// A breakpoint is in every process that has the file: each test has a file of its own.
    fn start(scratch: &Scratch) -> Probed {
        let own = scratch.path("probed");
        if !own.exists() {
            // By a program of its own: a test that forks meanwhile would hold the file open for writing.
            let copied = Command::new("cp").arg(workload("probed")).arg(&own).status();
            assert!(copied.expect("cp").success());
        }
        let mut program = Command::new(own);
        let program = program.args(["100000000", "1"]).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Probed(Mortal::of(program.spawn()));
        let late = Instant::now() + crate::support::patience(20.0);
        while started.place_of_code().is_none() {
            assert!(Instant::now() < late, "it does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        started
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// From where to where its program's code lies; none as long as it has none.
    fn place_of_code(&self) -> Option<(u64, u64)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).ok()?;
        let is_code = |line: &&str| line.contains("r-xp") && line.ends_with("/probed");
        let (start, end) = maps.lines().find(is_code)?.split(' ').next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some((address(start)?, address(end)?))
    }

    /// The code of its program, as it stands in its memory.
    fn code(&self) -> Vec<u8> {
        let (start, end) = self.place_of_code().expect("it has begun");
        let mut memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).expect("mem");
        memory.seek(SeekFrom::Start(start)).expect("it is there");
        let mut code = vec![0; (end - start) as usize];
        memory.read_exact(&mut code).expect("it can be read");
        code
    }

    /// In how many places it stands otherwise than at first; each has to be a breakpoint.
    fn breakpoints(&self, clean: &[u8]) -> usize {
        let now = self.code();
        let changed = clean.iter().zip(&now).filter(|(was, is)| was != is);
        changed.inspect(|(_, is)| assert_eq!(**is, 0xcc)).count()
    }

    #[track_caller]
    fn comes_to_have(&self, clean: &[u8], breakpoints: usize) {
        let late = Instant::now() + crate::support::patience(20.0);
        while self.breakpoints(clean) != breakpoints {
            assert!(Instant::now() < late, "{} places are changed", self.breakpoints(clean));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_process_that_runs_is_probed_and_left_as_it_was() {
    needs_root!();
    let scratch = Scratch::new();
    let (followed, other) = (Probed::start(&scratch), Probed::start(&scratch));
    let (clean, others) = (followed.code(), other.code());
    let file = scratch.path("events.jsonl");
    let mut stream = Command::new(crate::support::weigh_binary());
    let stream = stream
        .args(["trace", "--wake", "0", "-e", "user:probed:given", "--pid", &followed.pid(), "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn();
    let stream = Mortal::of(stream);
    let ask = |words: &[&str]| {
        let pid = stream.id().to_string();
        let said = weigh(&scratch, &[&["trace", "ctl", "--stream", &pid][..], words].concat());
        assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
    };
    followed.comes_to_have(&clean, 1);
    // Two places, and another program's name for what it knows already.
    let late = Instant::now() + crate::support::patience(20.0);
    while std::fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
        assert!(Instant::now() < late, "nothing is followed");
        std::thread::sleep(Duration::from_millis(5));
    }
    ask(&["add", "usdt:probed:weigh_test:step"]);
    assert_eq!(followed.breakpoints(&clean), 3);
    ask(&["filter", "1", "arg0 == 1 && arg2 == -7"]);
    ask(&["add", "user:libc.so.6:clock_nanosleep%return{ret}"]);
    ask(&["remove", "0"]);
    assert_eq!(followed.breakpoints(&clean), 2);
    ask(&["remove", "1"]);
    assert_eq!(followed.breakpoints(&clean), 0, "nothing is left of it");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&stream),
        rustix::process::Signal::KILL,
    )
    .expect("a signal");
    let output = stream.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    let text = scratch.text("events.jsonl");
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert!(lines.all(|event| event["tgid"] == followed.0.id()), "the other's, too");
    assert_eq!((followed.breakpoints(&clean), other.breakpoints(&others)), (0, 0));
}

#[test]
fn who_is_killed_leaves_no_breakpoint() {
    needs_root!();
    let scratch = Scratch::new();
    let program = Probed::start(&scratch);
    let clean = program.code();
    let event = format!("user:{}:given", scratch.path("probed").display());
    let mut stream = Command::new(crate::support::weigh_binary());
    let stream = stream.args(["trace", "-q", "-o", "-", "-e", &event, "--system"]);
    let mut stream = Mortal::of(stream.stdout(Stdio::null()).spawn());
    program.comes_to_have(&clean, 1);
    stream.kill().and_then(|()| stream.wait()).expect("it can be killed");
    program.comes_to_have(&clean, 0);
}
