//! The kernel side of `weigh trace`: programs that were made elsewhere, attached and detached while it
//! runs, and the rings that they write into.
//!
//! Takes BPF instructions and where they are to be attached; gives records where they lie in the ring,
//! and the counts that the programs keep. What is in a record, and where a count lies, it does not know.
//! [`KernelTrace`] and [`Buffer`] need rights; [`Reader`] is made from descriptors, and needs none.
//! Refuses programs that the kernel refuses, with the verifier's last words.

mod attach;
mod buffer;
mod counters;
mod error;
mod follower;
mod instruction;
mod maps;
pub(crate) mod members;
mod memory;
mod modules;
mod reader;
mod ring;
mod user;

use std::collections::HashMap;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};
use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::CollectorStatus;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use crate::libbpf_log;
use crate::requirements;
pub use crate::requirements::Missing;
pub use attach::{MOST_ARGUMENTS, Point, UserPlace, raw_arguments};
pub use buffer::Buffer;
pub use counters::{EventCode, why_no_counter};
pub use error::TraceError;
pub use follower::Follower;
pub use instruction::Instruction;
pub use maps::{cpus, cpus_online};
use maps::{made, options};
use members::Members;
use memory::{Access, Memory};
pub use reader::{Reader, ReaderFds};
pub use ring::{RingItem, Rings};

/// What it is for.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "trace",
    "events of the kernel and of programs (`weigh trace`)",
    None,
)
.probed_by(probe)
.asks(SourceTraits {
    mode: SourceMode::Notification,
    rights: "root, or CAP_BPF and CAP_PERFMON; of some events `weigh agent` for users",
    scope: "machine, or job",
    intrusiveness: Intrusiveness::Low,
    cost: "a program in the kernel at each event that is asked for, and room for its record",
});

/// Makes the maps of a stream of a command's events, and attaches what follows its threads.
fn probe() -> CollectorStatus {
    let least = Settings { state_bytes: 4096, follows: true };
    CollectorStatus::of_trial(INFO.name, Mechanism::Bpf, KernelTrace::open(&least).map(drop))
}

/// How events are collected.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of the array that is shared with the programs.
    pub state_bytes: usize,
    /// Only the events of some threads are wanted.
    pub follows: bool,
}

/// The descriptors that programs name.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    /// The shared array.
    pub state: i32,
    /// The storage that marks followed threads.
    pub members: Option<i32>,
}

/// A program for each place of an event, or what is left of them when they were removed.
struct Program {
    name: String,
    loaded: Vec<Loaded>,
    /// What was missed until they were removed.
    missed: u64,
}

/// What the kernel has of one. The first is let go of first: nothing is called after that.
struct Loaded {
    link: Option<attach::Link>,
    point: Point,
    entry: OwnedFd,
    /// Where the entry finds the program; when nobody has it any more, the kernel empties it.
    table: MapHandle,
}

/// Programs for the places of an event, which the kernel has checked and nobody calls yet.
pub struct SparePrograms(Vec<OwnedFd>);

/// A stream of events.
pub struct KernelTrace {
    programs: Vec<Program>,
    state_map: MapHandle,
    state: Memory,
    members: Option<Members>,
    counters: Vec<counters::Counter>,
    /// Of events of whole system calls, by their numbers: what is kept of those under way.
    calls: HashMap<usize, MapHandle>,
}

/// Calls under way that there is room for at least: the kernel keeps some room for each CPU apart.
const CALLS_UNDER_WAY: u32 = 8192;
const CALLS_OF_A_CPU: u32 = 256;

/// Whether this process may have events of the kernel's.
pub fn check() -> Result<(), Missing> {
    requirements::check()
}

impl KernelTrace {
    /// Makes the maps. Nothing is attached but what follows the threads that are wanted.
    pub fn open(settings: &Settings) -> Result<KernelTrace, TraceError> {
        requirements::check()?;
        libbpf_log::collect();
        let bytes = settings.state_bytes;
        let failed = made("the programs' array", bytes);
        let flags = options(sys::BPF_F_MMAPABLE, 0);
        let array = Some("weigh_trace");
        let state_map = MapHandle::create(MapType::Array, array, 4, bytes as u32, 1, &flags);
        let state_map = state_map.map_err(&failed)?;
        let state = Memory::map(state_map.as_fd(), bytes, 0, Access::Write);
        let state = state.map_err(made("the programs' array", bytes))?;
        let members = settings.follows.then(Members::open).transpose()?;
        let (programs, counters, calls) = (Vec::new(), Vec::new(), HashMap::new());
        Ok(KernelTrace { programs, state_map, state, members, counters, calls })
    }

    /// The descriptors that programs name.
    pub fn descriptors(&self) -> Descriptors {
        Descriptors {
            state: self.state_map.as_fd().as_raw_fd(),
            members: self.members.as_ref().map(Members::descriptor),
        }
    }

    /// Has each CPU count; returns the descriptor of the array that programs name.
    pub fn open_counter(&mut self, name: &str, counted: EventCode) -> Result<i32, TraceError> {
        let counter = counters::Counter::open(name, counted)?;
        let descriptor = counter.descriptor();
        self.counters.push(counter);
        Ok(descriptor)
    }

    /// What an event's programs keep of system calls under way, so many bytes of each; the descriptor that they name.
    /// There is one for each number of an event, also when its programs are replaced.
    pub fn calls_under_way(&mut self, number: usize, bytes: u32) -> Result<i32, TraceError> {
        if let Some(map) = self.calls.get(&number) {
            return Ok(map.as_fd().as_raw_fd());
        }
        let entries = CALLS_UNDER_WAY.max(cpus() as u32 * CALLS_OF_A_CPU);
        let none = options(0, 0);
        let name = Some("weigh_calls");
        let map = MapHandle::create(MapType::LruHash, name, 8, bytes, entries, &none);
        let map = map.map_err(made("the table of calls under way", (bytes * entries) as usize))?;
        let descriptor = map.as_fd().as_raw_fd();
        self.calls.insert(number, map);
        Ok(descriptor)
    }

    /// From now on they are counted no more, but for those of these descriptors.
    pub fn keep_counters(&mut self, descriptors: &[i32]) {
        self.counters.retain(|counter| descriptors.contains(&counter.descriptor()));
    }

    /// Has the kernel check programs of one event, each for its place; returns their number. They are not
    /// called yet.
    pub fn load(&mut self, name: &str, parts: &[(Point, Vec<u64>)]) -> Result<usize, TraceError> {
        let loaded = parts.iter().map(|(point, code)| {
            let program = attach::load(name, point, code)?;
            let none = options(0, 0);
            let table =
                MapHandle::create(MapType::ProgArray, Some("weigh_program"), 4, 4, 1, &none)
                    .map_err(made("the table of a program", 4))?;
            let entry = attach::load(name, point, &attach::entry(table.as_fd().as_raw_fd()))?;
            put(&table, &program)?;
            Ok(Loaded { link: None, point: point.clone(), entry, table })
        });
        let loaded = loaded.collect::<Result<_, TraceError>>()?;
        self.programs.push(Program { name: name.to_string(), loaded, missed: 0 });
        Ok(self.programs.len() - 1)
    }

    /// Puts other programs into the places of an event's: each event is still seen, and by one of them only.
    pub fn replace(&mut self, number: usize, codes: &[Vec<u64>]) -> Result<(), TraceError> {
        // None is put anywhere before all of them are there.
        let spare = self.spare(number, codes)?;
        self.put_spare(number, &spare)
    }

    /// Has the kernel check other programs for the places of an event's.
    pub fn spare(&self, number: usize, codes: &[Vec<u64>]) -> Result<SparePrograms, TraceError> {
        let Program { name, loaded, .. } = &self.programs[number];
        let all = loaded.iter().zip(codes);
        let programs = all.map(|(loaded, code)| attach::load(name, &loaded.point, code));
        programs.collect::<Result<_, _>>().map(SparePrograms)
    }

    /// Puts such into these places: a store into a map for each, and nothing is checked again.
    pub fn put_spare(&self, number: usize, spare: &SparePrograms) -> Result<(), TraceError> {
        let mut places = self.programs[number].loaded.iter().zip(&spare.0);
        places.try_for_each(|(loaded, program)| put(&loaded.table, program))
    }

    /// From now on the programs of an event are called.
    pub fn attach(&mut self, number: usize) -> Result<(), TraceError> {
        let Program { name, loaded, .. } = &mut self.programs[number];
        for Loaded { link, point, entry, .. } in loaded {
            if link.is_none() {
                *link = Some(attach::attach(name, entry.as_fd(), point)?);
            }
        }
        Ok(())
    }

    /// From now on they are not called any more, and the kernel has nothing left of them.
    pub fn remove(&mut self, number: usize) {
        // What is missed is known as long as they are loaded.
        let loaded = &mut self.programs[number].loaded;
        attach::let_go(loaded.iter_mut().filter_map(|loaded| loaded.link.take()).collect());
        self.programs[number].missed = self.missed(number);
        self.programs[number].loaded = Vec::new();
        self.calls.remove(&number);
    }

    /// From now on they are not called until they are attached again.
    pub fn detach(&mut self, number: usize) {
        let loaded = self.programs[number].loaded.iter_mut();
        attach::let_go(loaded.filter_map(|loaded| loaded.link.take()).collect());
    }

    /// From now on none is called.
    pub fn detach_all(&mut self) {
        let loaded = self.programs.iter_mut().flat_map(|program| &mut program.loaded);
        attach::let_go(loaded.filter_map(|loaded| loaded.link.take()).collect());
    }

    /// Events that the kernel did not call a program for, because it was at work on that CPU already.
    pub fn missed(&self, number: usize) -> u64 {
        let Program { loaded, missed, .. } = &self.programs[number];
        let now: u64 = loaded.iter().map(|loaded| attach::missed(loaded.entry.as_fd())).sum();
        missed + now
    }

    /// A word of the shared array, by its place in bytes.
    pub fn word(&self, place: usize) -> u64 {
        self.state.get(place)
    }

    /// Sets one; programs see it at once.
    pub fn set_word(&self, place: usize, value: u64) {
        self.state.set(place, value);
    }

    /// This process, which waits for its exec, is followed from then on.
    pub fn arm(&mut self, pidfd: BorrowedFd<'_>) -> Result<(), TraceError> {
        match &self.members {
            Some(members) => Ok(members.arm(pidfd)?),
            None => Ok(()),
        }
    }

    /// All threads of a process are followed from now on, and what they make.
    pub fn join(&mut self, pid: u32) -> Result<(), TraceError> {
        match &self.members {
            Some(members) => Ok(members.join(pid)?),
            None => Ok(()),
        }
    }

    /// Whether a process is followed.
    pub fn is_member(&self, pid: u32) -> bool {
        self.members.as_ref().is_some_and(|members| members.has(pid))
    }

    /// Threads that are followed and live; none where everybody is.
    pub fn living(&self) -> Option<u64> {
        self.members.as_ref().map(Members::living)
    }

    /// Threads that could not be followed.
    pub fn lost_threads(&self) -> u64 {
        self.members.as_ref().map_or(0, Members::lost)
    }
}

/// From now on this is the program.
fn put(table: &MapHandle, program: &OwnedFd) -> Result<(), TraceError> {
    let value = program.as_raw_fd().to_ne_bytes();
    table
        .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
        .map_err(made("the table of a program", 4))
}
