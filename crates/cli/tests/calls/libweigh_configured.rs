//! `weigh agent --config`, and `weigh calls --config` for programs with libweigh: parts that are left out are named as
//! such, own ones are found and read by name, held to what the program itself sent. Where functions cannot be probed:
//! what is said of that.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::library::{Agent, Asked, folder, must, program, python_module};
use crate::support::{
    NO_FUNCTION_PROBES, functions_can_be_probed, is_there_an_agent, leave_out, leave_to_guest,
    weigh_binary,
};
use tempfile::TempDir;
use weigh_schema::library::Reason;
use weigh_schema::subsystem::Subsystem;

const LINK_LAYER: &str = include_str!("../../../../examples/link-layer.toml");

/// What comes before the payload of a datagram at a device: Ethernet, IP, UDP.
const HEADERS: u64 = 14 + 20 + 8;

/// Over loopback a packet is taken in by a softirq, which finds the very same packet.
const TAKEN_IN: &str = "[subsystem.taken_in]\n\
     later = { start = \"__dev_queue_xmit\", end = \"ip_rcv\", match = \"skb\" }\n";

fn configuration(folder: &TempDir, text: &str) -> String {
    let file = folder.path().join("parts.toml");
    std::fs::write(&file, text).expect("a file");
    file.display().to_string()
}

fn agent(text: &str) -> (Agent, String) {
    let place = folder();
    let file = configuration(&place, text);
    (Agent::start_in(place, &["--config", &file]), file)
}

fn numbered(name: &str) -> u64 {
    Subsystem::named(name).expect("a part").index() as u64
}

/// The first of a configuration's parts, as a set.
const FIRST: u64 = 1 << 20;

/// An interval that sends; what its account has.
#[derive(Debug)]
struct Sent(HashMap<String, u64>);

impl Sent {
    #[track_caller]
    fn of(program: &mut Asked, line: &str) -> Sent {
        let answer = program.say(line);
        let pair = |pair: &str| {
            let (key, number) = pair.split_once('=').unwrap_or_else(|| panic!("{answer}"));
            (key.to_string(), number.parse().expect("a number"))
        };
        Sent(answer.split(' ').map(pair).collect())
    }

    #[track_caller]
    fn get(&self, key: &str) -> u64 {
        *self.0.get(key).unwrap_or_else(|| panic!("no {key} in {self:?}"))
    }
}

/// `--functions` takes no file: the VFS and the socket layer have time where functions can be probed, and else the agent
/// does not start.
#[test]
fn the_vfs_and_the_socket_layer_have_time_by_functions_or_the_agent_says_why_not() {
    needs_root!();
    let place = folder();
    let start = |functions: &str| {
        let mut agent = Command::new(weigh_binary());
        agent.arg("agent").arg("--socket").arg(place.path().join("refused"));
        agent.args(["--functions", functions]).output().expect("weigh starts")
    };
    let refused = |functions: &str, words: &str| {
        let output = start(functions);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && said.contains(words), "{said}");
    };
    refused("vfs,scoket", "there are vfs and socket, not 'scoket'");
    if !functions_can_be_probed() {
        refused("vfs", "this kernel lets no function be probed");
        return leave_to_guest(NO_FUNCTION_PROBES);
    }
    let agent = Agent::start(&["--functions", "vfs,socket"]);
    must(&mut agent.command("functions"));
    must(&mut agent.as_nobody("functions"));
}

fn why(program: &mut Asked, part: &str) -> (Option<Reason>, String) {
    let answer = program.say(&format!("why {part}"));
    let (number, text) = answer.split_once(' ').unwrap_or((&answer, ""));
    (number.parse().ok().and_then(Reason::numbered), text.to_string())
}

#[track_caller]
fn the_link_layer_is_exact(sent: &Sent, datagrams: u64, bytes: u64) {
    assert_eq!(sent.get("reason"), 0);
    assert_eq!(sent.get("sent"), datagrams * bytes, "{sent:?}");
    if functions_can_be_probed() {
        assert_eq!(sent.get("unmeasured") & FIRST, 0, "{sent:?}");
        assert_eq!(sent.get("link_layer.entries"), datagrams, "{sent:?}");
        assert_eq!(sent.get("link_layer.bytes"), datagrams * (bytes + HEADERS), "{sent:?}");
        assert!(sent.get("link_layer.time_ns") > 0, "{sent:?}");
    } else {
        assert_eq!(sent.get("unmeasured") & FIRST, FIRST, "{sent:?}");
        assert_eq!((sent.get("link_layer.entries"), sent.get("link_layer.bytes")), (0, 0));
    }
}

#[test]
fn programs_find_own_parts_by_name_and_are_told_which_are_left_out() {
    needs_root!();
    let (agent, file) = agent(LINK_LAYER);
    for command in [&mut agent.command("configured"), &mut agent.as_nobody("configured")] {
        let mut program = Asked::start(command);
        assert_eq!(program.say("part link_layer"), "20");
        assert_eq!(program.say("part memory"), numbered("memory").to_string());
        assert_eq!(program.say("part link"), "-1");
        let sent = Sent::of(&mut program, "send socket,memory,link_layer 1009 731");
        the_link_layer_is_exact(&sent, 1009, 731);
        // Each datagram takes memory, and nobody has looked.
        assert_eq!(sent.get("allocations"), 0);
        let memory = 1 << numbered("memory");
        assert_eq!(sent.get("unmeasured") & (memory | 1 << numbered("socket")), memory);
        let (reason, text) = why(&mut program, "memory");
        let expected = format!("the agent's configuration leaves this part out: {file}");
        assert_eq!((reason, text), (Some(Reason::Removed), expected));
        let (reason, text) = why(&mut program, "link_layer");
        if functions_can_be_probed() {
            assert_eq!((reason, text), (Some(Reason::Measured), String::new()));
        } else {
            assert_eq!(reason, Some(Reason::NotSeen));
            assert!(text.contains("this kernel lets no function be probed"), "{text}");
        }
        assert_eq!(why(&mut program, "net").0, Some(Reason::NotWanted));
        // Who does not want it does not get it.
        let sent = Sent::of(&mut program, "send socket 7 1003");
        assert_eq!((sent.get("sent"), sent.get("link_layer.entries")), (7 * 1003, 0), "{sent:?}");
        assert_eq!(sent.get("unmeasured") & FIRST, 0, "{sent:?}");
    }
    agent.stop();
}

#[test]
fn two_capabilities_are_enough_for_functions() {
    needs_root!();
    let level = || std::fs::read_to_string(PARANOID).ok()?.trim().parse::<u32>().ok();
    let before = level();
    for allowed in [false, true] {
        if allowed && functions_can_be_probed() && before > Some(2) {
            if !crate::support::is_own_machine() {
                return leave_out(&format!("{PARANOID} is above 2, and others live by it"));
            }
            std::fs::write(PARANOID, "2").expect("it is our own machine");
        }
        let place = folder();
        let file = configuration(&place, LINK_LAYER);
        let agent = Agent::with_two_capabilities(place, &["--config", &file]);
        let mut program = Asked::start(&mut agent.as_nobody("configured"));
        let sent = Sent::of(&mut program, "send socket,link_layer 307 1001");
        if functions_can_be_probed() && level() > Some(2) {
            let (reason, text) = why(&mut program, "link_layer");
            assert_eq!((reason, sent.get("sent")), (Some(Reason::NotSeen), 307 * 1001));
            assert!(
                text.contains("perf_event_paranoid=3: above 2 it takes CAP_SYS_ADMIN"),
                "{text}"
            );
        } else {
            the_link_layer_is_exact(&sent, 307, 1001);
        }
    }
    if let Some(before) = before.filter(|before| level() != Some(*before)) {
        std::fs::write(PARANOID, before.to_string()).expect("it is our own machine");
    }
}

/// Debian's kernels have a level above 2.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

#[test]
fn a_hostile_program_does_not_reach_others_own_parts() {
    needs_root!();
    let (agent, _) = agent(LINK_LAYER);
    let storage = agent.storage();
    let mut hostile = agent.as_nobody("hostile");
    let mut hostile = hostile.arg(storage.path()).arg("4").spawn().expect("it starts");
    let mut program = Asked::start(&mut agent.command("configured"));
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let sent = Sent::of(&mut program, "send socket,link_layer 53 403");
        the_link_layer_is_exact(&sent, 53, 403);
    }
    let status = hostile.wait().expect("it ends");
    assert!(status.success(), "{status}");
    agent.stop();
}

#[test]
fn python_finds_own_parts_by_name() {
    needs_root!();
    let ((agent, file), module) = (agent(LINK_LAYER), python_module());
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/python/tests");
    let mut command = Command::new("python3");
    command.args(["-B", "-W", "ignore", "-m", "unittest", "-v", "test_own"]).current_dir(tests);
    command.env("PYTHONPATH", module).env("CONFIGURATION", file);
    command.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    if functions_can_be_probed() {
        command.env("IS_PROBED", "1");
    }
    let said = String::from_utf8_lossy(&must(&mut command).stderr).into_owned();
    assert!(said.contains("Ran 4 tests"), "{said}");
}

#[test]
fn without_a_configuration_there_is_no_part_but_the_built_in_ones() {
    needs_root!();
    let agent = Agent::start(&["--subsystems", "socket"]);
    let mut program = Asked::start(&mut agent.command("configured"));
    assert_eq!(program.say("part link_layer"), "-1");
    let sent = Sent::of(&mut program, "send socket,memory 7 1003");
    assert_eq!((sent.get("sent"), sent.get("unmeasured")), (7 * 1003, 1 << numbered("memory")));
    let (reason, text) = why(&mut program, "memory");
    assert_eq!((reason, text.as_str()), (Some(Reason::NotSeen), Reason::NotSeen.text()));
}

/// Programs of BPF that the agent has attached, as the kernel says.
fn links(agent: &Agent) -> usize {
    let folder = format!("/proc/{}/fdinfo", agent.process.id());
    let descriptors = std::fs::read_dir(folder).expect("it is there").flatten();
    let about = descriptors.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    about.filter(|about| about.lines().any(|line| line.starts_with("link_id:"))).count()
}

/// Waits until so many are left.
#[track_caller]
fn until(agent: &Agent, expected: usize) {
    let end = Instant::now() + crate::support::patience(15.0);
    while links(agent) != expected {
        assert!(Instant::now() < end, "{} links, and not {expected}", links(agent));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn functions_are_probed_while_somebody_wants_their_part_and_no_longer() {
    needs_root!();
    let (agent, _) = agent(LINK_LAYER);
    // What was tried is let go of.
    until(&agent, 0);
    let mut without = Asked::start(&mut agent.command("configured"));
    // A part that no interrupt has a hand in comes without those.
    Sent::of(&mut without, "send block 1 100");
    let base = links(&agent);
    let mut program = Asked::start(&mut agent.command("configured"));
    for _ in 0..2 {
        the_link_layer_is_exact(&Sent::of(&mut program, "send socket,link_layer 11 997"), 11, 997);
        let sent = Sent::of(&mut without, "send block 1 100");
        assert_eq!((sent.get("link_layer.entries"), sent.get("unmeasured")), (0, 0), "{sent:?}");
        let with_functions = links(&agent);
        // An entry with its return, and the end of what comes later with its return.
        let functions = if functions_can_be_probed() { 4 } else { 0 };
        assert!(with_functions >= base + functions, "{with_functions}, {base}");
        drop(program);
        until(&agent, base);
        // They come back for the next one.
        program = Asked::start(&mut agent.command("configured"));
    }
    drop(program);
    drop(without);
    until(&agent, 0);
}

#[test]
fn what_functions_do_later_comes_to_the_account_that_caused_it() {
    needs_root!();
    if !functions_can_be_probed() {
        return leave_to_guest(NO_FUNCTION_PROBES);
    }
    let (agent, _) = agent(TAKEN_IN);
    let mut one = Asked::start(&mut agent.as_nobody("configured"));
    let mut other = Asked::start(&mut agent.command("configured"));
    for _ in 0..3 {
        Sent::of(&mut one, "send taken_in,socket 211 64");
        Sent::of(&mut other, "send socket 97 64");
        assert_eq!(one.say("settle"), "0");
        let sent = Sent::of(&mut one, "again");
        assert_eq!(sent.get("taken_in.later.taken_in"), 211, "{sent:?}");
        assert!(sent.get("taken_in.later.taken_in_ns") > 0, "{sent:?}");
        let others = Sent::of(&mut other, "again");
        assert_eq!(others.get("taken_in.later.taken_in"), 0, "{others:?}");
    }
}

/// A program keeps the numbers of parts, and has them in its accounts: they must not come to mean another part.
#[test]
fn an_agent_with_another_configuration_does_not_mix_its_parts_with_those_before() {
    needs_root!();
    let (before, _) = agent(LINK_LAYER);
    let mut program = Asked::start(&mut before.command("configured"));
    the_link_layer_is_exact(&Sent::of(&mut program, "send socket,link_layer 13 500"), 13, 500);
    let mut place = before.stop();
    let sent = Sent::of(&mut program, "send socket,link_layer 13 500");
    assert_eq!(sent.get("reason"), Reason::Gone as u64);
    assert_eq!(sent.get("unmeasured"), FIRST | 1 << numbered("socket"));
    let other = "[subsystem.sends.boundary]\n__dev_queue_xmit = { bytes = \"skb->len\" }\n";
    for (text, hides) in [(Some(other), true), (None, true), (Some(LINK_LAYER), false)] {
        let file = configuration(&place, text.unwrap_or(LINK_LAYER));
        let options = ["--config", &file];
        let next = Agent::start_in(place, if text.is_some() { &options } else { &[] });
        let end = Instant::now() + crate::support::patience(20.0);
        while Sent::of(&mut program, "send socket 1 1").get("reason") != 0 {
            assert!(Instant::now() < end, "it does not find the agent");
            std::thread::sleep(Duration::from_millis(100));
        }
        // The name is what it was; a new program has the agent's.
        assert_eq!(program.say("part link_layer"), "20");
        assert_eq!(program.say("part sends"), "-1");
        let sent = Sent::of(&mut program, "send socket,link_layer 17 500");
        if hides {
            assert_eq!((sent.get("sent"), sent.get("unmeasured")), (17 * 500, FIRST), "{sent:?}");
            assert_eq!((sent.get("link_layer.entries"), sent.get("link_layer.bytes")), (0, 0));
            assert_eq!(why(&mut program, "link_layer").0, Some(Reason::OtherParts));
        } else {
            the_link_layer_is_exact(&sent, 17, 500);
        }
        let mut fresh = Asked::start(&mut next.command("configured"));
        let own = text.map(|text| if text == other { "sends" } else { "link_layer" });
        let expected = if own.is_some() { "20" } else { "-1" };
        assert_eq!(fresh.say(&format!("part {}", own.unwrap_or("sends"))), expected);
        place = next.stop();
    }
}

#[test]
fn a_wrong_configuration_is_refused_before_anybody_is_served() {
    needs_root!();
    let place = folder();
    let socket: PathBuf = place.path().join("socket");
    let refused = |options: &[&str]| {
        let mut command = Command::new(weigh_binary());
        let output = command.arg("agent").arg("--socket").arg(&socket).args(options).output();
        let output = output.expect("weigh starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
        assert!(!socket.exists() && !said.contains("serves at"), "{said}");
        said
    };
    for (text, expected) in [
        ("remove = [\"timr\"]\n", ":1: remove: there is no part 'timr'; there is kernel, sched"),
        ("[subsystem.x]\nboundary = [\"vfs_raed\"]\n", ":2: subsystem.x.boundary: "),
        (
            "[subsystem.x.boundary]\n\nvfs_read = { n = \"cuont\" }\n",
            ":3: subsystem.x.boundary.vfs_read.n: there is no argument of the function 'cuont'; there is file, buf, count",
        ),
        ("remove = [", ":1: not TOML"),
        ("", ":1: it defines no part and removes none"),
    ] {
        let file = configuration(&place, text);
        let said = refused(&["--config", &file]);
        assert!(said.contains(&format!("{file}{expected}")), "no {expected} in {said}");
    }
    assert!(refused(&["--config", "/no/such.toml"]).contains("/no/such.toml: No such file"));
    assert!(refused(&["--subsystems", "blok"]).contains("did you mean block?"));
    assert!(
        refused(&["--subsystems", "vfs"])
            .contains("for programs --functions or a --config can define such a part")
    );
    let file = configuration(&place, &format!("only = [\"taken_in\"]\n{TAKEN_IN}"));
    if !functions_can_be_probed() {
        assert!(refused(&["--config", &file]).contains("nothing else is asked for"));
    }
}

/// What comes later is in the table of `weigh calls` and in the program's account.
#[test]
fn what_functions_do_later_comes_to_a_program_whose_calls_are_followed_too() {
    needs_root!();
    if !functions_can_be_probed() {
        return leave_to_guest(NO_FUNCTION_PROBES);
    }
    if is_there_an_agent() {
        return;
    }
    let place = folder();
    let (file, json) = (configuration(&place, TAKEN_IN), place.path().join("calls.json"));
    let mut calls = Command::new(weigh_binary());
    calls.args(["calls", "-q", "--config", &file, "--json"]).arg(&json).arg("--");
    let mut program = Asked::start(calls.arg(program("configured")).env_remove("WEIGH_SOCKET"));
    Sent::of(&mut program, "send socket,taken_in 211 64");
    assert_eq!(program.say("settle"), "0");
    let sent = Sent::of(&mut program, "again");
    assert_eq!(sent.get("taken_in.later.taken_in"), 211, "{sent:?}");
    assert!(sent.get("taken_in.later.taken_in_ns") > 0, "{sent:?}");
    drop(program);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("a report")).expect("JSON");
    let rows = report["calls"].as_array().expect("rows").iter();
    let sends: Vec<_> = rows.filter(|row| row["call"] == "sendto").collect();
    assert_eq!(sends[0]["later"]["taken_in_total"], 211, "{report}");
}

/// `weigh calls` serves the programs that it has started, by what it has loaded.
#[test]
fn a_program_whose_calls_are_followed_has_the_parts_of_that_configuration() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let place = folder();
    let (file, json) = (configuration(&place, LINK_LAYER), place.path().join("calls.json"));
    let mut calls = Command::new(weigh_binary());
    calls.args(["calls", "-q", "--config", &file, "--json"]).arg(&json).arg("--");
    let mut program = Asked::start(calls.arg(program("configured")).env_remove("WEIGH_SOCKET"));
    assert_eq!(program.say("part link_layer"), "20");
    the_link_layer_is_exact(&Sent::of(&mut program, "send socket,link_layer 401 333"), 401, 333);
    let (reason, text) = why(&mut program, "timer");
    let expected = format!("the configuration of weigh calls leaves this part out: {file}");
    assert_eq!((reason, text), (Some(Reason::Removed), expected));
    drop(program);
    let text = std::fs::read_to_string(&json).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = report["calls"].as_array().expect("rows").iter();
    let sends: Vec<_> = rows.filter(|row| row["call"] == "sendto").collect();
    // What libweigh has asked weigh goes by another socket.
    assert_eq!(sends[0]["parts"]["udp"]["datagrams_total"], 401, "{report}");
    if functions_can_be_probed() {
        assert_eq!(sends[0]["parts"]["link_layer"]["entries_total"], 401);
    }
}
