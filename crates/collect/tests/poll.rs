//! Following real process trees without rights.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use weigh_collect::poll::{JobPoller, Poll};
use weigh_schema::Counter;
use weigh_schema::event::ProcessEnd;

/// Polls every 10 ms until the child has ended and once more after it was waited for.
fn follow(script: &str) -> (Vec<Poll>, Vec<ProcessEnd>) {
    let mut child = common::stopped(script);
    let mut poller = JobPoller::new(child.id(), &[]).unwrap();
    common::resume(child.id());
    let (mut polls, mut ended) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    loop {
        let poll = poller.poll(begun.elapsed().as_nanos() as u64).unwrap();
        let is_over = poll.reading.population.processes == 0;
        ended.extend(poll.ended.clone());
        polls.push(poll);
        if is_over {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait().unwrap();
    let last = poller.poll(u64::MAX).unwrap();
    ended.extend(last.ended.clone());
    polls.push(last);
    (polls, ended)
}

#[test]
fn ended_children_are_neither_lost_nor_counted_twice() {
    let dd = "dd if=/dev/zero of=/dev/null bs=1000 count=1000 2>/dev/null; sleep 0.05";
    let (polls, ended) = follow(&format!("sh -c '{dd}; sh -c \"{dd}; {dd}\"; sleep 0.1; exit 3'"));
    let last = polls.last().unwrap();
    let read = last.counter(Counter::ReadChars).unwrap();
    // 3 MB by dd, the rest is the dynamic loader's.
    assert!((3_000_000..3_200_000).contains(&read), "{read}");
    let written = last.counter(Counter::WriteChars).unwrap();
    assert!((3_000_000..3_001_000).contains(&written), "{written}");
    for pair in polls.windows(2) {
        for &counter in Counter::ALL {
            let [a, b] = [&pair[0], &pair[1]].map(|p| p.reading.counters.get(counter));
            assert!(a <= b, "{counter:?} falls from {a} to {b}");
        }
    }
    let population = &last.reading.population;
    assert_eq!((population.processes, population.threads), (0, 0));
    assert_eq!(population.processes_total as usize, ended.len());
    assert!((2..=3).contains(&population.processes_peak), "{}", population.processes_peak);
    let root = ended.iter().find(|e| e.started_ns == 0 && e.wait_status == Some(3 << 8)).unwrap();
    assert_eq!(root.command[0], "sh");
    assert!(ended.iter().filter(|e| e.name == "sleep").count() >= 3);
}

#[test]
fn memory_and_threads_are_seen() {
    const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *wait_a_little(void *x) { usleep(300000); return x; }
int main(void) {
    pthread_t t[7];
    char *p = malloc(77000000);
    memset(p, 1, 77000000);
    for (int i = 0; i < 7; i++) pthread_create(t + i, 0, wait_a_little, 0);
    for (int i = 0; i < 7; i++) pthread_join(t[i], 0);
    return p[123] - 1;
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let program = common::compile(folder.path(), "threads", PROGRAM, &["-pthread"]);
    let (polls, ended) = follow(&program.display().to_string());
    let reading = &polls.last().unwrap().reading;
    assert_eq!(reading.population.threads_peak, 8);
    assert_eq!(reading.population.processes_total, 1);
    for bytes in [
        reading.memory.rss_sum_peak,
        reading.memory.process_peak,
        reading.memory.floor_peak,
        ended[0].rss_peak_bytes,
    ] {
        assert!((77_000_000..82_000_000).contains(&bytes), "{bytes}");
    }
    assert!(reading.memory.virtual_peak > 77_000_000);
    assert_eq!(reading.memory.rss_sum, 0);
    assert!(reading.memory.rss_sum_peak_at_ns > 0);
    assert!(polls.last().unwrap().counter(Counter::MinorFaults).unwrap() > 100);
    assert_eq!(polls.last().unwrap().counter(Counter::NetSent), None, "cannot be known");
}

#[test]
fn a_daemon_that_was_seen_stays_in() {
    let (polls, ended) = follow("sh -c 'setsid sleep 0.4 & sleep 0.15'");
    let alone = polls.iter().filter(|p| p.reading.population.processes == 1).count();
    assert!(alone >= 2, "the daemon is followed after its parent's end");
    let daemon = ended.iter().find(|e| e.command == ["sleep", "0.4"]).unwrap();
    assert!(daemon.ended_ns.unwrap() - daemon.started_ns >= 300_000_000);
}

#[test]
fn hidden_io_is_unknown() {
    let child = common::Reaper(std::process::Command::new("sleep").arg("10").spawn().unwrap());
    let pid = child.0.id();
    // A thread without capabilities may not read the I/O of a process that has some.
    let looked = std::thread::spawn(move || {
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).unwrap();
        let mut poller = JobPoller::new(pid, &[]).unwrap();
        (poller.poll(1).unwrap(), poller.status(), std::fs::read(format!("/proc/{pid}/io")).is_ok())
    });
    let (poll, status, may_read) = looked.join().unwrap();
    assert_eq!(poll.counter(Counter::ReadChars).is_some(), may_read);
    assert_eq!(status.reason.unwrap().contains("hidden"), !may_read);
    assert!(poll.counter(Counter::MinorFaults).is_some());
    assert!(poll.reading.memory.rss_sum > 0);
}

#[test]
fn a_missing_root_is_an_error() {
    let error = JobPoller::new(u32::MAX - 1, &[]).err().unwrap().to_string();
    assert!(error.contains("cannot follow process"), "{error}");
}
