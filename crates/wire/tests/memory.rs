//! What a message may make its reader take of memory. By itself: addresses that other tests take are the process's, too.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use weigh_wire::{Answer, Head, Message as _, VERSION, receive};

#[test]
fn memory_is_taken_for_what_has_come_and_not_for_what_is_announced() {
    let peak = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let kind = Answer::Processes(Vec::new()).kind();
    let head = Head { version: VERSION, kind, length: 1 << 27, descriptors: 0 };
    ours.write_all(&head.bytes()).unwrap();
    ours.write_all(&[b' '; 50_000]).unwrap();
    drop(ours);
    let before = peak();
    assert!(receive::<Answer>(&theirs).is_err());
    assert!(peak() < before + (16 << 20), "{} {before}", peak());
}
