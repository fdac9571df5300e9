//! Profiles that are handed over, by processes that run, end and are killed; and what is refused.

#[path = "../../tests/common/profile.rs"]
mod profile;

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use weigh_wire::Peer;

use self::profile::profile;
use super::door::profile_notes;
use super::*;
use crate::quota::PROFILES;

const STRANGER: u32 = 4_000_001;

/// It ends when its standard input is closed.
fn process() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

struct Fixture {
    server: ProfileServer,
    door: ProfileDoor,
    notes: ProfileNotes,
}

impl Fixture {
    fn new() -> Fixture {
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        let (link, notes) = profile_notes(wake.into());
        let (server, door) = ProfileServer::new(link).unwrap();
        Fixture { server, door, notes }
    }

    fn pass(&mut self, file: OwnedFd, uid: u32, pid: u32) {
        self.door.pass(file, Peer { pid, uid, gid: uid }, uid);
        self.server.handle().unwrap();
    }

    fn states(&self) -> Vec<(Option<u32>, ProgramState, u64)> {
        let row = |note: ProfileNote| {
            let ProfileNote { source, profile, .. } = note;
            (source.pid, profile.state, profile.regions.publishes_total)
        };
        self.notes.take().into_iter().map(row).collect()
    }
}

#[test]
fn a_publish_is_told_once_and_the_end_of_a_process_last() {
    let mut agent = Fixture::new();
    let mut one = process();
    let pid = one.id();
    agent.pass(profile(17), STRANGER, pid);
    agent.server.next_look = Instant::now();
    agent.server.handle().unwrap();
    assert_eq!(agent.states(), [(Some(pid), ProgramState::Running, 17)]);
    agent.server.next_look = Instant::now();
    agent.server.handle().unwrap();
    assert_eq!(agent.states(), []);
    one.kill().unwrap();
    one.wait().unwrap();
    while !agent.server.programs.is_empty() {
        agent.server.handle().unwrap();
    }
    assert_eq!(agent.states(), [(Some(pid), ProgramState::CutShort, 17)]);
    // One that has gone before it was heard.
    agent.pass(profile(3), STRANGER, pid);
    assert_eq!(agent.states(), [(Some(pid), ProgramState::CutShort, 3)]);
    let other = process();
    agent.pass(profile(5), STRANGER, other.id());
    agent.server.finish();
    assert_eq!(agent.states(), [(Some(other.id()), ProgramState::Left, 5)]);
    assert_eq!(agent.notes.take_refused(), 0);
    end(vec![other]);
}

#[test]
fn a_user_has_so_many_and_what_is_refused_is_counted() {
    let mut agent = Fixture::new();
    let mut processes: Vec<Child> = (0..PROFILES.of_a_user + 7).map(|_| process()).collect();
    processes.iter().for_each(|one| agent.pass(profile(1), STRANGER, one.id()));
    assert_eq!(agent.server.programs.len(), PROFILES.of_a_user);
    assert_eq!(agent.notes.take_refused(), 7);
    let of_another = process();
    agent.pass(profile(1), STRANGER + 1, of_another.id());
    assert_eq!(agent.server.programs.len(), PROFILES.of_a_user + 1);
    // What is no profile, or could cost the reader something.
    let shrinks = memfd_create("weigh_profile", MemfdFlags::ALLOW_SEALING).unwrap();
    let wrong: [OwnedFd; 2] = [File::open("/dev/null").unwrap().into(), shrinks];
    wrong.into_iter().for_each(|file| agent.pass(file, STRANGER + 1, std::process::id()));
    agent.pass(profile(1), STRANGER + 1, 0);
    assert_eq!((agent.notes.take_refused(), agent.server.programs.len()), (3, 65));
    let last = processes.split_off(PROFILES.of_a_user);
    end(processes);
    while agent.server.programs.len() > 1 {
        agent.server.handle().unwrap();
    }
    let told = agent.states().into_iter().filter(|(_, state, _)| *state == ProgramState::CutShort);
    assert_eq!(told.count(), PROFILES.of_a_user, "each end is told");
    agent.pass(profile(1), STRANGER, last[0].id());
    assert_eq!(agent.server.programs.len(), 2, "there is room again");
    end(last);
    end(vec![of_another]);
}

#[test]
fn what_is_dear_to_read_is_read_rarely() {
    let mut agent = Fixture::new();
    let one = process();
    agent.server.rests.insert(STRANGER, Instant::now() + Duration::from_secs(3600));
    agent.pass(profile(1), STRANGER, one.id());
    agent.server.next_look = Instant::now();
    agent.server.handle().unwrap();
    assert_eq!(agent.states(), []);
    agent.server.rests.clear();
    agent.server.next_look = Instant::now();
    agent.server.handle().unwrap();
    assert_eq!(agent.states().len(), 1);
    end(vec![one]);
}

fn end(processes: Vec<Child>) {
    for mut one in processes {
        drop(one.stdin.take());
        one.wait().unwrap();
    }
}
