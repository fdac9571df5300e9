//! A server that serves the very job whose calls are followed.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, waitpid};
use weigh_agent::{Server, Settings};
use weigh_collect::calls::{CallsRequest, Counters, KernelCalls, name};
use weigh_collect::spawn::{SignalMask, spawn};
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

fn must(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// The program of `libweigh/tests` that holds its accounts to the byte.
fn exact() -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libweigh");
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/libweigh-programs.sh");
    must(Command::new(build).arg(&built));
    built.join("installed/exact")
}

#[test]
fn a_job_s_calls_are_in_its_table_and_in_its_program_s_accounts() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let wanted = CallsRequest {
        subsystems: SUBSYSTEMS.iter().collect(),
        grouping: Grouping::Call,
        sharing: Sharing::Bytes,
        every_call: true,
        counters: Counters::default(),
        by_part: false,
    };
    let mut calls = KernelCalls::open(&wanted).unwrap();
    let socket = folder.path().join("socket");
    let mut server = Server::new(&socket, Settings::default()).unwrap();
    let mask = SignalMask::block(&[]).unwrap();
    let variable = format!("WEIGH_SOCKET={}", socket.display()).into();
    let command = [
        "/usr/bin/env".into(),
        variable,
        exact().into_os_string(),
        folder.path().into(),
        "20".into(),
        "job".into(),
    ];
    let waiting = spawn(&command, &mask).unwrap();
    calls.arm(waiting.pidfd()).unwrap();
    let (pid, _) = waiting.go().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let status = loop {
        assert!(Instant::now() < until, "it hangs");
        if let Some((_, status)) = waitpid(Some(pid), WaitOptions::NOHANG).unwrap() {
            break status;
        }
        let socket = server.descriptor();
        let mut ready = [PollFd::new(&socket, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 })).unwrap();
        server.handle(&mut calls).unwrap();
    };
    assert_eq!(status.exit_status(), Some(0));
    let cells = calls.cells().expect("the table");
    let writes = cells.iter().find(|cell| name(cell.number) == "write").unwrap();
    let sent = writes.account.fields(Subsystem::named("socket").unwrap())[0];
    let by_threads: u64 = (1..=7).map(|i| 20 * (1009 + 2 * i + 501 + 77 + 33 + 34)).sum();
    let by_the_first = 31 * (50 + 29) + 11 + 13;
    assert_eq!(sent, by_threads + by_the_first);
}
