//! An agent for which descriptors run out: one request after the other fails, and it goes on.

use std::process::Command;

use crate::support::library::{Agent, Asked, must};
use crate::support::wait_until;
use weigh_schema::library::Reason;

const MEASURED: u64 = Reason::Measured as u64;
/// More than a program takes that is measured.
const PROGRAM: usize = 8;

fn descriptors(agent: &Agent) -> usize {
    let folder = format!("/proc/{}/fd", agent.process.id());
    std::fs::read_dir(folder).expect("it is there").count()
}

/// It may have so many more than it has now, or as many as at first.
fn allow(agent: &Agent, more: Option<usize>) {
    let soft = more.map_or(4096, |more| descriptors(agent) + more);
    let pid = agent.process.id().to_string();
    must(Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={soft}:")]));
}

/// A program comes when there are so many left, and may be refused; one that comes later is measured.
fn comes(agent: &mut Agent, more: usize) -> bool {
    allow(agent, Some(more));
    let reason = Asked::start(&mut agent.as_nobody("steps")).numbers().0;
    assert!(agent.process.try_wait().expect("a child").is_none(), "it has ended: {more} left");
    println!("{more} left: {:?}", Reason::numbered(reason));
    allow(agent, None);
    wait_until("one that comes later is measured", 60.0, || {
        Asked::start(&mut agent.as_nobody("steps")).numbers().0 == MEASURED
    });
    reason == MEASURED
}

#[test]
fn an_agent_without_descriptors_refuses_and_goes_on() {
    needs_root!();
    let mut agent = Agent::start(&[]);
    let mut there = Asked::start(&mut agent.as_nobody("steps"));
    assert_eq!(there.numbers().0, MEASURED);
    let measured: Vec<bool> = (0..=PROGRAM)
        .map(|more| {
            let is_measured = comes(&mut agent, more);
            assert_eq!(there.numbers().0, MEASURED, "who was there before: {more} left");
            is_measured
        })
        .collect();
    assert!(!measured[0] && measured[PROGRAM], "{measured:?}");
    agent.stop();
}
