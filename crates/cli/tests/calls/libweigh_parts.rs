//! Which parts of the kernel `weigh agent` attaches: those that somebody wants, while he does; held to
//! the links that the kernel shows of the agent.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::library::{Agent, Asked};
use weigh_schema::subsystem::Subsystem;

/// One agent at a time: another one that loads its programs takes the CPU from all.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Programs that the agent has attached, as the kernel says.
fn links(agent: &Agent) -> usize {
    let folder = format!("/proc/{}/fdinfo", agent.process.id());
    let descriptors = std::fs::read_dir(folder).expect("it is there").flatten();
    let about = descriptors.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    about.filter(|about| about.lines().any(|line| line.starts_with("link_id:"))).count()
}

/// Waits until so many are left: a part is let go of when nobody has wanted it for a second or two.
fn until(agent: &Agent, expected: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    while links(agent) != expected {
        assert!(Instant::now() < end, "{} links, and not {expected}", links(agent));
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn bits(names: &[&str]) -> u64 {
    names.iter().map(|name| Subsystem::named(name).expect("a part").bit()).sum()
}

struct Used {
    reason: u64,
    touched: u64,
    unmeasured: u64,
    sent: u64,
    blocks: u64,
}

fn start(agent: &Agent, storage: &tempfile::TempDir) -> Asked {
    Asked::start(agent.command("parts").arg(storage.path()))
}

fn use_parts(program: &mut Asked, names: &[&str]) -> Used {
    let line = program.say(&format!("use {:x}", bits(names)));
    let hex: Vec<_> = line.split(' ').map(|n| u64::from_str_radix(n, 16).expect("hex")).collect();
    let ten: Vec<_> = line.split(' ').map(|n| n.parse().unwrap_or(0)).collect();
    Used { reason: ten[0], touched: hex[1], unmeasured: hex[2], sent: ten[3], blocks: ten[4] }
}

fn want(program: &mut Asked, names: &[&str]) -> String {
    program.say(&format!("want {:x}", bits(names)))
}

#[test]
fn parts_are_attached_when_they_are_wanted_and_no_longer() {
    needs_root!();
    let _alone = alone();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    assert_eq!(links(&agent), 0);
    let mut one = start(&agent, &storage);
    // A device may be so quick, in an emulator above all, that a read of it does not wait.
    let touches = |one: &mut Asked| use_parts(one, &["sched"]).touched & bits(&["irq", "sched"]);
    assert!((0..500).any(|_| touches(&mut one) != 0));
    let base = links(&agent);
    assert!((4..10).contains(&base), "{base}");
    // The first that wants sockets waits for them, and is measured whole.
    let used = use_parts(&mut one, &["socket"]);
    assert_eq!((used.reason, used.sent, used.blocks, used.unmeasured), (0, 1003, 0, 0));
    let with_socket = links(&agent);
    assert!(with_socket > base);
    // Another program's wish does not touch this one's accounts.
    let mut other = start(&agent, &storage);
    let used = use_parts(&mut other, &["block"]);
    assert_eq!((used.reason, used.sent, used.blocks, used.unmeasured), (0, 0, 1, 0));
    let with_both = links(&agent);
    assert!(with_both > with_socket);
    let used = use_parts(&mut one, &["socket"]);
    assert_eq!((used.sent, used.blocks, used.unmeasured), (1003, 0, 0));
    // Who has gone wants nothing.
    drop(other);
    until(&agent, with_socket);
    assert_eq!(use_parts(&mut one, &["socket"]).sent, 1003);
    assert_eq!(want(&mut one, &[]), "0");
    until(&agent, base);
    drop(one);
    until(&agent, 0);
}

#[test]
fn what_a_program_has_not_said_that_it_wants_is_named_as_not_measured() {
    needs_root!();
    let _alone = alone();
    let agent = Agent::start(&["--subsystems", "socket,memory"]);
    let storage = agent.storage();
    let mut one = start(&agent, &storage);
    assert_eq!(want(&mut one, &["socket"]), "0");
    let attached = links(&agent);
    let used = use_parts(&mut one, &["socket", "memory", "block", "kernel"]);
    assert_eq!((used.reason, used.sent, used.blocks), (0, 1003, 0));
    assert_eq!(used.unmeasured, bits(&["memory", "block", "kernel"]));
    assert_eq!(links(&agent), attached);
    // When another one wants it, it is there for both.
    let mut other = start(&agent, &storage);
    assert_eq!(use_parts(&mut other, &["memory", "block"]).unmeasured, bits(&["block"]));
    assert_eq!(use_parts(&mut one, &["socket", "memory"]).unmeasured, 0);
    // An agent that ends leaves nothing measured.
    agent.stop();
    let used = use_parts(&mut one, &["socket", "memory"]);
    assert_eq!((used.reason, used.sent), (2, 0));
    assert_eq!(used.unmeasured, bits(&["socket", "memory"]));
}

#[test]
fn what_is_under_way_keeps_its_parts_until_it_has_come() {
    needs_root!();
    let _alone = alone();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    let mut one = start(&agent, &storage);
    use_parts(&mut one, &["sched"]);
    let base = links(&agent);
    let pending = one.say(&format!("write {:x}", bits(&["pagecache", "block", "fs"])));
    assert_ne!(pending, "0");
    let attached = links(&agent);
    assert!(attached > base);
    assert_eq!(want(&mut one, &[]), "0");
    std::thread::sleep(Duration::from_secs(5));
    let after = links(&agent);
    // Somebody else may have had all files written.
    if one.say("pending") != "0" {
        assert_eq!(after, attached, "something is under way still");
    }
    assert_eq!(one.say("settle"), "0 20480");
    until(&agent, base);
}

#[test]
fn programs_that_come_and_go_find_their_parts_attached() {
    needs_root!();
    let _alone = alone();
    let agent = Agent::start(&[]);
    let storage = agent.storage();
    let most = {
        let mut one = start(&agent, &storage);
        assert_eq!(use_parts(&mut one, &["socket"]).sent, 1003);
        links(&agent)
    };
    let mut next = start(&agent, &storage);
    for _ in 0..5 {
        assert_eq!(use_parts(&mut next, &["socket"]).sent, 1003);
        drop(next);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(links(&agent), most);
        next = start(&agent, &storage);
    }
    // Who finds them attached wants them as much: they stay when those before it are forgotten.
    assert_eq!(use_parts(&mut next, &["socket"]).sent, 1003);
    std::thread::sleep(Duration::from_millis(4500));
    assert_eq!(links(&agent), most);
    assert_eq!(use_parts(&mut next, &["socket"]).sent, 1003);
    drop(next);
    until(&agent, 0);
}
