//! A slot of the shared file in plain words, and its return to those that are free.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use weigh_schema::byte_text;
use weigh_schema::event::ProcessEnd;
use weigh_schema::{Counter, CounterValues};

use super::layout::{
    FLAG_EXECED, FLAG_FILTERED, FLAG_GUEST, FLAG_IO, FLAG_OUT_OF_REACH, FLAG_USAGE, Life, SLOTS,
    STATE_ENDED, STATE_EXECED, STATE_REAPED, STATE_RUNNING, STATUS_KNOWN, Shared, Slot, UNTOLD,
};
use super::pid_namespace::{NamespacePids, shown};
use super::program;

/// The kernel's name for a process has no more.
const NAME_BYTES: usize = 15;

/// A process as its slot tells of it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Which slot it is.
    pub slot: usize,
    pub state: u32,
    pub flags: u32,
    pub pid: u32,
    pub parent_pid: u32,
    pub uid: u32,
    /// On the clock that runs on while the machine sleeps.
    pub started_ns: u64,
    /// The same; 0 if it told no end.
    pub ended_ns: u64,
    pub wait_status: Option<u32>,
    pub name: String,
    /// What it was about to execute the last time, if it did.
    pub program: String,
    pub command: Vec<String>,
    pub rss_peak_bytes: u64,
    pub virtual_peak_bytes: u64,
    pub swap_peak_bytes: u64,
    /// Resident and virtual, of the last program that it has told of; 0 if it told of none.
    pub own_peaks: (u64, u64),
    /// What the library itself has read there: bytes and calls.
    pub own_reads: (u64, u64),
    pub counters: CounterValues,
}

impl Process {
    /// Reads a slot; none if there is no process in it.
    pub fn read(shared: &Shared, index: usize) -> Option<Process> {
        let slot = &shared.slots[index];
        let Life { state, pid, .. } = Life::of(slot.life.load(Ordering::Acquire));
        if !matches!(state, STATE_EXECED | STATE_RUNNING | STATE_ENDED | STATE_REAPED) {
            return None;
        }
        let number = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        let small = |n: &std::sync::atomic::AtomicU32| n.load(Ordering::Relaxed);
        let told = |n| Some(number(n)).filter(|at| at & UNTOLD == 0);
        Some(Process {
            slot: index,
            state,
            flags: small(&slot.flags),
            pid,
            parent_pid: small(&slot.parent_pid),
            uid: small(&slot.uid),
            started_ns: told(&slot.started_ns).unwrap_or_default(),
            ended_ns: told(&slot.ended_ns).unwrap_or_default(),
            wait_status: told(&slot.wait_status).map(|n| n as u32 & !STATUS_KNOWN),
            name: text(&slot.name),
            program: text(&slot.program),
            command: command(slot),
            rss_peak_bytes: number(&slot.rss_peak),
            virtual_peak_bytes: number(&slot.virtual_peak),
            swap_peak_bytes: number(&slot.swap_peak),
            own_peaks: (number(&slot.own_rss_peak), number(&slot.own_virtual_peak)),
            own_reads: (number(&slot.own_bytes), number(&slot.own_calls)),
            counters: CounterValues(std::array::from_fn(|i| number(&slot.counters[i]))),
        })
    }

    /// Reads the slot of a process that is no more, and ends its life there: a process that knew it and has
    /// not reported it by now reports nothing more. What it would report of its living children is entered
    /// here in its place.
    pub fn close(shared: &Shared, index: usize) -> Option<Process> {
        let life = &shared.slots[index].life;
        loop {
            let seen = life.load(Ordering::Acquire);
            let process = Process::read(shared, index)?;
            let next = Life::of(seen).next().word();
            if life.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                if !process.has_told_end() {
                    shared.head.alive.fetch_sub(1, Ordering::AcqRel);
                }
                return Some(process);
            }
        }
    }

    /// Whether it, or who waited for it, has said that it is no more.
    pub fn has_told_end(&self) -> bool {
        !matches!(self.state, STATE_RUNNING | STATE_EXECED)
    }

    /// With the PIDs that weigh sees, as far as they are known.
    pub fn found(mut self, hidden: &NamespacePids) -> Process {
        self.pid = hidden.pid_since(self.pid, self.started_ns);
        self.parent_pid = hidden.pid(self.parent_pid);
        self
    }

    /// Whether its memory is that of its parent.
    pub fn is_guest(&self) -> bool {
        self.flags & (FLAG_GUEST | FLAG_EXECED) == FLAG_GUEST
    }

    /// Whether it said its last: memory, CPU time and I/O are its own words then.
    pub fn said_its_last(&self) -> bool {
        self.state == STATE_ENDED
    }

    /// Why the library is not in a program it executes, or has executed. Means something once it is
    /// given time to wake up.
    pub fn blind_spot(&self) -> Option<&'static str> {
        why_blind(self.flags)
    }

    /// The kernel's name for a process of which the library has not heard since it executed a program: the program's,
    /// as far as it fits.
    fn name_by_program(&self) -> Option<String> {
        let is_unheard = self.flags & FLAG_EXECED != 0 && !self.program.is_empty();
        let last = byte_text::bytes(self.program.rsplit('/').next().filter(|_| is_unheard)?);
        Some(byte_text::keep(&last[..last.len().min(NAME_BYTES)]))
    }

    /// By which name people are told of it where the library was not in it.
    pub fn blind_name(&self) -> String {
        byte_text::shown(if self.flags & FLAG_EXECED != 0 { &self.program } else { &self.name })
    }

    /// Its row; `seen` is what looks at `/proc` found, `epoch_ns` when the job began.
    pub fn end(
        &self,
        epoch_ns: u64,
        ended_ns: Option<u64>,
        seen: Option<&ProcessEnd>,
    ) -> ProcessEnd {
        let mut counters = self.counters.clone();
        if let Some(seen) = seen {
            let (usage, io) = (self.flags & FLAG_USAGE != 0, self.flags & FLAG_IO != 0);
            for &counter in Counter::ALL.iter().filter(|c| c.task_field().is_some()) {
                let is_io = crate::procfs::IO_COUNTERS.contains(&counter);
                if !(if is_io { io } else { usage }) {
                    counters.set(counter, seen.counters.get(counter));
                }
            }
        }
        let seen_or = |own: u64, of: fn(&ProcessEnd) -> u64| own.max(seen.map_or(0, of));
        let name = match (self.name_by_program(), seen) {
            (Some(name), _) => name,
            (None, Some(seen)) if self.name.is_empty() => seen.name.clone(),
            _ => self.name.clone(),
        };
        let command = match seen {
            Some(seen) if self.command.is_empty() || self.blind_spot().is_some() => {
                seen.command.clone()
            }
            _ => self.command.clone(),
        };
        ProcessEnd {
            pid: shown(self.pid),
            parent_pid: shown(self.parent_pid),
            started_ns: self.started_ns.saturating_sub(epoch_ns),
            ended_ns,
            wait_status: self.wait_status.or(seen.and_then(|s| s.wait_status)),
            uid: self.uid,
            name,
            command,
            counters,
            is_io_lost: false,
            rss_peak_bytes: seen_or(self.rss_peak_bytes, |s| s.rss_peak_bytes),
            virtual_peak_bytes: if self.said_its_last() {
                self.virtual_peak_bytes
            } else {
                seen_or(self.virtual_peak_bytes, |s| s.virtual_peak_bytes)
            },
            swap_peak_bytes: seen_or(self.swap_peak_bytes, |s| s.swap_peak_bytes),
        }
    }
}

/// A row with the memory of the program that the process ended as: what it held before is in the job's sums alone, and
/// what was its parent's is in its parent's row.
pub fn last_program(row: &ProcessEnd, process: &Process, seen: Option<&ProcessEnd>) -> ProcessEnd {
    if process.is_guest() {
        return ProcessEnd { rss_peak_bytes: 0, virtual_peak_bytes: 0, ..row.clone() };
    }
    let or_seen =
        |own: u64, of: fn(&ProcessEnd) -> u64| if own > 0 { own } else { seen.map_or(0, of) };
    ProcessEnd {
        rss_peak_bytes: or_seen(process.own_peaks.0, |seen| seen.rss_peak_bytes),
        virtual_peak_bytes: or_seen(process.own_peaks.1, |seen| seen.virtual_peak_bytes),
        ..row.clone()
    }
}

/// Why the library is not in a process with these flags, as [`Process::blind_spot`] has it.
pub fn why_blind(flags: u32) -> Option<&'static str> {
    let reasons = [
        (
            FLAG_OUT_OF_REACH,
            "the library is out of its reach: another root directory, another mount, another user",
        ),
        (FLAG_FILTERED, "it has set itself a filter of system calls"),
    ];
    let known = reasons.into_iter().find(|(flag, _)| flags & flag != 0);
    let known = program::reason(flags).or(known.map(|(_, why)| why));
    let unheard = flags & FLAG_EXECED != 0;
    known.or(unheard.then_some("the library was not heard of in it"))
}

fn bytes(from: &[AtomicU8]) -> Vec<u8> {
    from.iter().map(|b| b.load(Ordering::Relaxed)).collect()
}

/// A text that ends at its first NUL byte.
fn text(from: &[AtomicU8]) -> String {
    let bytes = bytes(from);
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    byte_text::keep(&bytes[..end])
}

fn command(slot: &Slot) -> Vec<String> {
    let used = slot.command_bytes.load(Ordering::Relaxed) as usize;
    crate::procfs::parse_cmdline(&bytes(&slot.command[..used.min(slot.command.len())]))
}

/// Slots that may hold something.
pub fn used(shared: &Shared) -> usize {
    let of = |count: &AtomicU32| count.load(Ordering::Acquire) as usize;
    of(&shared.head.used).min(of(&shared.head.room)).min(SLOTS)
}

/// Gives a slot back whose process was closed, for others to use it.
pub fn recycle(shared: &Shared, index: usize) {
    let slot = &shared.slots[index];
    let life = slot.life.load(Ordering::Acquire);
    let start: *const Slot = slot;
    // SAFETY: the slot is made of atomics, for which zeros are valid; its process is gone, no
    // process takes it before it is among the free ones, and one that still knows it writes nothing unless
    // it finds there what never stands in a slot of another generation, nor in an empty one.
    unsafe { std::ptr::write_bytes(start.cast_mut().cast::<u8>(), 0, size_of::<Slot>()) };
    slot.life.store(life, Ordering::Release);
    shared.pids[index].store(u64::from(Life::of(life).generation) << 32, Ordering::Release);
    let mut free = shared.head.free.load(Ordering::Acquire);
    loop {
        slot.next_free.store(free as u32, Ordering::Release);
        let mine = ((free >> 32).wrapping_add(1)) << 32 | (index as u64 + 1);
        match shared.head.free.compare_exchange_weak(
            free,
            mine,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => return,
            Err(now) => free = now,
        }
    }
}
