//! Profiles of regions that programs hand over at the agent's socket, and what is read of them.
//!
//! Reads the memory that a program shares, once a second where it has published, else now and then, for 1 % of a CPU and
//! user at most; emits a record for each read to the streams, and one in the end. Refuses more profiles than a user may have, and
//! memory that reading could cost this process something for. No thread of its own: its host gives one to the
//! [`ProfileServer`], so that a large profile holds up no reader of streams.

mod door;
mod program;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_collect::clock::thread_cpu_ns;
use weigh_collect::free_memory;
use weigh_collect::profile::{SharedProfile, clock_pair};
use weigh_schema::profile::ProfileClock;
use weigh_schema::program_profile::{ProgramProfile, ProgramState};
use weigh_schema::region::snapshot::ClockPair;
use weigh_wire::Payload as _;

pub use door::{ProfileDoor, ProfileLink, ProfileNote, ProfileNotes, profile_notes};
use door::{ProfileVisitor, profile_door};
use program::Program;

use crate::quota::PROFILES;
use crate::rate_limit::RateLimit;

/// Between two looks at all profiles.
const LOOKS: Duration = Duration::from_secs(1);
/// A program that has not published is read so often while nobody watches.
const UNWATCHED: Duration = Duration::from_secs(10);
/// A user's profiles are not read for so many times what the last read took.
const REST: u32 = 100;
/// Bytes of records of a user: so many at once, and then so many a second. Half of what comes at once is for the last records
/// of programs.
const BYTES: (u32, u32) = (1 << 18, 1 << 16);
/// A read that took longer leaves memory that is given back.
const LARGE: Duration = Duration::from_millis(5);

const WAKE: u64 = 0;
const MOST_EVENTS: usize = 64;

/// Reads profiles.
pub struct ProfileServer {
    epoll: OwnedFd,
    visitors: door::ProfileKeeper,
    streams: ProfileLink,
    programs: BTreeMap<u64, Program>,
    last_key: u64,
    /// When this was made, by each clock.
    begun: [(ProfileClock, ClockPair); 2],
    of_users: RateLimit,
    /// Until when no profile of a user is read.
    rests: BTreeMap<u32, Instant>,
    next_look: Instant,
}

impl ProfileServer {
    /// One that tells these streams, and the door to it. Errors: no descriptors are left.
    pub fn new(streams: ProfileLink) -> io::Result<(ProfileServer, ProfileDoor)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (door, visitors) = profile_door(&streams)?;
        let data = epoll::EventData::new_u64(WAKE);
        epoll::add(&epoll, visitors.descriptor(), data, epoll::EventFlags::IN)?;
        let clocks = [ProfileClock::Monotonic, ProfileClock::Counter];
        let server = ProfileServer {
            epoll,
            visitors,
            streams,
            programs: BTreeMap::new(),
            last_key: WAKE,
            begun: clocks.map(|clock| (clock, clock_pair(clock))),
            of_users: RateLimit::new(BYTES.0, BYTES.1),
            rests: BTreeMap::new(),
            next_look: Instant::now(),
        };
        Ok((server, door))
    }

    /// Waits until there is something to do, and does it. Errors: the kernel tells of no events any more.
    pub fn handle(&mut self) -> io::Result<()> {
        let mut room = [const { MaybeUninit::uninit() }; MOST_EVENTS];
        let pause = (!self.programs.is_empty()).then(|| pause_until(self.next_look));
        let events = match epoll::wait(&self.epoll, &mut room, pause.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &mut [],
            Err(error) => return Err(error.into()),
        };
        let woken: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        for key in woken {
            match key {
                WAKE => self.take_in_visitors(),
                key => self.end(key),
            }
        }
        if Instant::now() >= self.next_look {
            self.look();
            self.next_look = Instant::now() + LOOKS;
        }
        Ok(())
    }

    /// The agent ends: what profiles hold now is told.
    pub fn finish(&mut self) {
        self.take_in_visitors();
        while let Some((_, mut program)) = self.programs.pop_first() {
            let state = match program.profile.has_ended() {
                true => ProgramState::Ended,
                false => ProgramState::Left,
            };
            self.tell_last(&mut program, state);
        }
    }

    fn take_in_visitors(&mut self) {
        self.visitors.visitors().into_iter().for_each(|visitor| self.take_in(visitor));
    }

    fn take_in(&mut self, visitor: ProfileVisitor) {
        let ProfileVisitor { file, peer, user } = visitor;
        self.conclude_before(peer.pid);
        let holders = self.programs.values().map(|program| program.user);
        // Of a process that cannot be seen from here nobody would hear the end.
        let pid =
            Pid::from_raw(peer.pid.cast_signed()).filter(|_| PROFILES.has_room(user, holders));
        let profile = pid.and_then(|_| SharedProfile::map_sealed(file).ok());
        let Some((pid, profile)) = pid.zip(profile) else { return self.streams.refuse() };
        let process = pidfd_open(pid, PidfdFlags::empty());
        let has_ended = matches!(process, Err(Errno::SRCH));
        let mut program = Program::new(profile, peer, user, process.ok());
        if has_ended {
            return self.tell_end(&mut program);
        }
        self.last_key += 1;
        let data = epoll::EventData::new_u64(self.last_key);
        let is_heard = program.process.as_ref().is_some_and(|process| {
            epoll::add(&self.epoll, process.as_fd(), data, epoll::EventFlags::IN).is_ok()
        });
        match is_heard {
            true => drop(self.programs.insert(self.last_key, program)),
            false => self.streams.refuse(),
        }
    }

    /// A process hands over another profile: it has executed a program, unless it has two copies of the library.
    fn conclude_before(&mut self, pid: u32) {
        let before = self.programs.iter().find(|(_, program)| program.peer.pid == pid);
        let before = before.filter(|(_, program)| program.profile.is_mapped_by(pid) != Some(true));
        if let Some(key) = before.map(|(key, _)| *key) {
            self.end(key);
        }
    }

    fn end(&mut self, key: u64) {
        let Some(mut program) = self.programs.remove(&key) else { return };
        self.tell_end(&mut program);
    }

    fn tell_end(&mut self, program: &mut Program) {
        let state = match program.profile.has_ended() {
            true => ProgramState::Ended,
            false => ProgramState::CutShort,
        };
        self.tell_last(program, state);
    }

    fn tell_last(&mut self, program: &mut Program, state: ProgramState) {
        let began_ns = thread_cpu_ns();
        let snapshot = program.profile.read_end();
        if let Some(profile) = program.describe(&snapshot, &self.begun, state) {
            self.tell(program, profile);
        }
        self.rest(program.user, began_ns);
    }

    /// Reads those that are due, the one that has waited longest first.
    fn look(&mut self) {
        let now = Instant::now();
        self.rests.retain(|_, until| *until > now);
        let apart = if self.streams.is_watched() { LOOKS } else { UNWATCHED };
        let mut due: Vec<(Instant, u64)> =
            self.programs.iter().filter(|(_, one)| one.is_due(now, apart)).map(of_read).collect();
        due.sort_unstable();
        for (_, key) in due {
            let Some(mut program) = self.programs.remove(&key) else { continue };
            self.read(&mut program, apart);
            self.programs.insert(key, program);
        }
    }

    fn read(&mut self, program: &mut Program, apart: Duration) {
        let user = program.user;
        if self.rests.contains_key(&user)
            || !self.of_users.has(user.into(), BYTES.0 / 2, Instant::now())
        {
            return;
        }
        let began_ns = thread_cpu_ns();
        if let Some(snapshot) = program.read(apart)
            && let Some(profile) = program.describe(&snapshot, &self.begun, ProgramState::Running)
            && program.is_news(&profile)
        {
            self.tell(program, profile);
        }
        program.profile.forget_names();
        self.rest(user, began_ns);
    }

    /// A user whose profiles are dear to read waits.
    fn rest(&mut self, user: u32, began_ns: u64) {
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(began_ns));
        self.rests.insert(user, Instant::now() + took * REST);
        if took >= LARGE {
            free_memory::release();
        }
    }

    /// One that is too large for what its user may publish now is known, and is no record.
    fn tell(&mut self, program: &Program, profile: ProgramProfile) {
        let mut bytes = Vec::new();
        let _ = profile.write(&mut bytes);
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let has_room = self.of_users.has(program.user.into(), count, Instant::now());
        if has_room {
            self.of_users.take(program.user.into(), count, Instant::now());
        }
        let source = program.source();
        self.streams.tell(ProfileNote { source, profile, is_refused: !has_room });
    }
}

fn of_read((key, program): (&u64, &Program)) -> (Instant, u64) {
    (program.read_at, *key)
}

fn pause_until(until: Instant) -> Timespec {
    let pause = until.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: pause.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: pause.subsec_nanos().into(),
    }
}
