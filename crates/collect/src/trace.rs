//! The kernel side of `weigh trace`: programs that were made elsewhere, attached and detached while it
//! runs, and the rings that they write into.
//!
//! Takes BPF instructions and where they are to be attached; gives records where they lie in the ring,
//! and the counts that the programs keep. What is in a record, and where a count lies, it does not know.
//! Refuses programs that the kernel refuses, with the verifier's last words.

mod attach;
mod counters;
mod members;
mod modules;
mod ring;
mod shared;
mod user;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};
use rustix::event::epoll;

use crate::complaints;
use crate::job::JobError;
use crate::requirements::{self, Missing};
pub use attach::{MOST_ARGUMENTS, Point, UserPlace, raw_arguments};
pub use counters::{Counted, why_no_counter};
use members::Members;
use ring::Ring;
use shared::Shared;

/// Why events can not be had.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel or the rights do not allow it.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Membership can not be followed, or there is no such process.
    #[error(transparent)]
    Members(#[from] JobError),
    /// A map could not be made.
    #[error("{what} of {bytes} bytes can not be made: {error}")]
    Map {
        /// Which.
        what: &'static str,
        /// How large.
        bytes: usize,
        /// The kernel's reason.
        error: libbpf_rs::Error,
    },
    /// The kernel does not take a program.
    #[error("the kernel refuses the program for {probe}: {error}{said}")]
    Load {
        /// What it is for.
        probe: String,
        /// The kernel's reason.
        error: io::Error,
        /// What the verifier said last.
        said: String,
    },
    /// A program can not be attached.
    #[error("{probe} can not be attached: {error}{hint}")]
    Attach {
        /// What it is for.
        probe: String,
        /// The kernel's reason.
        error: io::Error,
        /// What may help.
        hint: &'static str,
    },
    /// A counter can not be had.
    #[error("the counter '{name}' can not be had: {why}")]
    Counter {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// Waiting for records can not be set up.
    #[error("waiting for the ring: {0}")]
    Wait(io::Error),
}

/// How events are collected.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of the array that is shared with the programs.
    pub state_bytes: usize,
    /// Bytes of each ring: a power of 2, of pages.
    pub ring_bytes: usize,
    /// A ring for each CPU instead of one for all.
    pub ring_per_cpu: bool,
    /// Only the events of some threads are wanted.
    pub follows: bool,
}

/// The descriptors that programs name.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    /// The shared array.
    pub state: i32,
    /// The ring, or the array of rings.
    pub ring: i32,
    /// Who is followed.
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

/// A stream of events.
pub struct KernelTrace {
    programs: Vec<Program>,
    state_map: MapHandle,
    state: Shared,
    rings: Vec<Ring>,
    /// Of rings for each CPU.
    outer: Option<MapHandle>,
    waker: OwnedFd,
    members: Option<Members>,
    counters: Vec<counters::Counter>,
}

/// CPUs that programs may run on.
pub fn cpus() -> usize {
    requirements::possible_cpus() as usize
}

fn made<E: Into<libbpf_rs::Error>>(what: &'static str, bytes: usize) -> impl Fn(E) -> TraceError {
    move |error| TraceError::Map { what, bytes, error: error.into() }
}

fn options(flags: u32, inner: i32) -> sys::bpf_map_create_opts {
    sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        map_flags: flags,
        inner_map_fd: inner.max(0).cast_unsigned(),
        ..Default::default()
    }
}

impl KernelTrace {
    /// Makes the maps. Nothing is attached but what follows the threads that are wanted.
    pub fn open(settings: &Settings) -> Result<KernelTrace, TraceError> {
        requirements::check()?;
        complaints::collect();
        let (bytes, wait) =
            (settings.state_bytes, |e: rustix::io::Errno| TraceError::Wait(e.into()));
        let state_map = MapHandle::create(
            MapType::Array,
            Some("weigh_trace"),
            4,
            bytes as u32,
            1,
            &options(sys::BPF_F_MMAPABLE, 0),
        )
        .map_err(made("the programs' array", bytes))?;
        let state =
            Shared::new(state_map.as_fd(), bytes).map_err(made("the programs' array", bytes))?;
        let (rings, outer) = make_rings(settings)?;
        let waker = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(wait)?;
        for ring in &rings {
            // At the edge: at the level it would be ready as long as anything is in the ring.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&waker, ring, epoll::EventData::new_u64(0), flags).map_err(wait)?;
        }
        let members = settings.follows.then(Members::open).transpose()?;
        let (programs, counters) = (Vec::new(), Vec::new());
        Ok(KernelTrace { programs, state_map, state, rings, outer, waker, members, counters })
    }

    /// How many rings there are.
    pub fn rings(&self) -> usize {
        self.rings.len()
    }

    /// The descriptors that programs name.
    pub fn descriptors(&self) -> Descriptors {
        let ring = match &self.outer {
            Some(outer) => outer.as_fd().as_raw_fd(),
            None => self.rings[0].as_fd().as_raw_fd(),
        };
        Descriptors {
            state: self.state_map.as_fd().as_raw_fd(),
            ring,
            members: self.members.as_ref().map(Members::descriptor),
        }
    }

    /// Has each CPU count; returns the descriptor of the array that programs name.
    pub fn open_counter(&mut self, name: &str, counted: Counted) -> Result<i32, TraceError> {
        let counter = counters::Counter::open(name, counted)?;
        let descriptor = counter.descriptor();
        self.counters.push(counter);
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
        let Program { name, loaded, .. } = &self.programs[number];
        let all = loaded.iter().zip(codes);
        // None is put anywhere before all of them are there.
        let programs = all.map(|(loaded, code)| attach::load(name, &loaded.point, code));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        loaded.iter().zip(&programs).try_for_each(|(loaded, program)| put(&loaded.table, program))
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

    /// Ready when a watermark was crossed.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Shows the records that are there, where they lie, but not too many at once; returns how many, and
    /// whether that was all. For what is left nobody is waked.
    pub fn drain(&mut self, mut visit: impl FnMut(&[u8])) -> (u64, bool) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 16];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        // Only so that it is not ready any more: what it says is not needed.
        let _ = epoll::wait(&self.waker, &mut events[..], Some(&now));
        let drained = self.rings.iter_mut().map(|ring| ring.drain(&mut visit));
        drained.fold((0, true), |(sum, all), (records, is_all)| (sum + records, all && is_all))
    }
}

/// From now on this is the program.
fn put(table: &MapHandle, program: &OwnedFd) -> Result<(), TraceError> {
    let value = program.as_raw_fd().to_ne_bytes();
    table
        .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
        .map_err(made("the table of a program", 4))
}

fn make_rings(settings: &Settings) -> Result<(Vec<Ring>, Option<MapHandle>), TraceError> {
    let bytes = settings.ring_bytes;
    let count = if settings.ring_per_cpu { cpus() } else { 1 };
    let ring = || {
        let map = MapHandle::create(
            MapType::RingBuf,
            Some("weigh_events"),
            0,
            0,
            bytes as u32,
            &options(0, 0),
        )
        .map_err(made("a ring", bytes))?;
        Ring::new(map, bytes).map_err(made("a ring", bytes))
    };
    let rings = (0..count).map(|_| ring()).collect::<Result<Vec<_>, _>>()?;
    if !settings.ring_per_cpu {
        return Ok((rings, None));
    }
    let failed = made::<libbpf_rs::Error>("the array of rings", count * 4);
    let inner = options(0, rings[0].as_fd().as_raw_fd());
    let outer =
        MapHandle::create(MapType::ArrayOfMaps, Some("weigh_rings"), 4, 4, count as u32, &inner)
            .map_err(&failed)?;
    for (cpu, ring) in rings.iter().enumerate() {
        let ring = ring.as_fd().as_raw_fd().to_ne_bytes();
        outer.update(&(cpu as u32).to_ne_bytes(), &ring, MapFlags::ANY).map_err(&failed)?;
    }
    Ok((rings, Some(outer)))
}
