//! The library that marks the calls of the C library's functions (`libweigh/calls`), as weigh sees
//! it: puts it and the file that it counts in where a command's programs find them, and reads the
//! counts.
//!
//! Emits cells without the parts of the kernel: those are in the accounts that programs share with
//! the kernel side. Refuses commands that the library can not be loaded into, with the reason.

pub mod layout;
pub(crate) mod ticks;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use weigh_schema::call::Cell;
use weigh_schema::subsystem::Account;

use crate::preload::{Folder, PreloadError, why_blind_in};
use layout::{
    CALLS, CHOSEN, COUNTS, HEAD_BYTES, NETWORK, NETWORK_BY_SOCKETS, NUMBERS, STRIPE_BYTES,
    STRIPE_NUMBERS, STRIPES, VARIABLE, head_at,
};
use ticks::Ticks;

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_calls.so"));

const BYTES: usize = HEAD_BYTES + STRIPES * STRIPE_BYTES;

/// Of what goes by sockets.
const SOCKETS: [&str; 3] = ["socket_moves", "socket_sent", "socket_received"];

/// The library, and what it has counted.
pub struct Shim {
    folder: Folder,
    counts: NonNull<AtomicU64>,
    ticks: Ticks,
}

/// A name that is no call's of those that the library has functions for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the library marks no call '{0}'; there are network (those that take connections, receive and send), {known}", known = CALLS.join(", "))]
pub struct UnknownCall(String);

/// A set of the library's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSet {
    chosen: [u64; CHOSEN],
    /// Of these, those that are meant only where they are by a socket.
    only_by_sockets: [u64; CHOSEN],
}

/// What stands for several calls.
const ALL_OF_NETWORK: &str = "network";

impl CallSet {
    /// All of them.
    pub fn all() -> CallSet {
        let mut set = CallSet::none();
        (0..CALLS.len()).for_each(|number| add(&mut set.chosen, number));
        set
    }

    /// None: the library does nothing any more.
    pub fn none() -> CallSet {
        CallSet { chosen: [0; CHOSEN], only_by_sockets: [0; CHOSEN] }
    }

    /// Those of these names, of which `network` stands for several, by sockets. All, if there is no name.
    pub fn of(names: &[String]) -> Result<CallSet, UnknownCall> {
        if names.is_empty() {
            return Ok(CallSet::all());
        }
        let mut set = CallSet::none();
        if let Some(name) =
            names.iter().find(|name| *name != ALL_OF_NETWORK && !CALLS.contains(&name.as_str()))
        {
            return Err(UnknownCall(name.clone()));
        }
        let is_named = |name: &str| names.iter().any(|named| named == name);
        for (number, call) in CALLS.iter().enumerate() {
            let by_sockets = NETWORK_BY_SOCKETS.contains(call);
            let of_network = is_named(ALL_OF_NETWORK) && (by_sockets || NETWORK.contains(call));
            if is_named(call) || of_network {
                add(&mut set.chosen, number);
            }
            if of_network && by_sockets && !is_named(call) {
                add(&mut set.only_by_sockets, number);
            }
        }
        Ok(set)
    }
}

fn add(set: &mut [u64; CHOSEN], number: usize) {
    set[number / 64] |= 1 << (number % 64);
}

/// Why the library can not be in a command; none if it can, as far as is known.
pub fn why_not(command: &OsStr) -> Option<&'static str> {
    why_blind_in(command)
}

impl Shim {
    /// Makes the folder of this run.
    pub fn new() -> Result<Shim, PreloadError> {
        let no_place = |error: io::Error| PreloadError::NoPlace { tried: error.to_string() };
        let folder = Folder::new(std::path::Path::new("."), LIBRARY, BYTES as u64)?;
        let file = File::options().read(true).write(true).open(&folder.file).map_err(no_place)?;
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, where the kernel likes; the file is as long, and only ever mapped.
        let map = unsafe { mmap(std::ptr::null_mut(), BYTES, rights, flags, &file, 0) };
        let map = map.map_err(|error| no_place(error.into()))?;
        let counts =
            NonNull::new(map.cast()).ok_or_else(|| no_place(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Shim { folder, counts, ticks: Ticks::begin() })
    }

    /// Says which calls are to be marked; none are before.
    pub fn mark(&self, calls: CallSet) {
        self.keep_time();
        for (name, set) in [("only_by_sockets", calls.only_by_sockets), ("chosen", calls.chosen)] {
            for (place, bits) in self.head(name).iter().zip(set) {
                place.store(bits, Ordering::Relaxed);
            }
        }
    }

    /// Has it count what goes by sockets, which costs it a call for each descriptor that it has not seen
    /// before.
    pub fn count_sockets(&self) {
        if let Some(place) = self.head("sockets").first() {
            place.store(1, Ordering::Relaxed);
        }
    }

    /// Tells the library how fast its counter runs: the better, the longer that is known.
    pub fn keep_time(&self) {
        if let (Some(place), Some(scale)) = (self.head("scale").first(), self.ticks.scale()) {
            place.store(scale, Ordering::Relaxed);
        }
    }

    /// A place for a socket that the command's programs can reach, and nobody who was not told.
    pub fn socket(&self) -> PathBuf {
        self.folder.path.join("agent")
    }

    /// What the command's environment must have. The socket is the server's, where there is one.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut libraries = self.folder.library.clone().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        vec![
            ("LD_PRELOAD".into(), libraries),
            (VARIABLE.into(), self.folder.file.clone().into_os_string()),
            (weigh_schema::library::INSIDE_VARIABLE.into(), self.socket().into_os_string()),
        ]
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, aligned to a page, and lives as long as `self`; others
        // write it at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.counts.as_ptr(), BYTES / 8) }
    }

    fn head(&self, name: &str) -> &[AtomicU64] {
        head_at(name).map_or(&[], |at| &self.words()[at..])
    }

    fn stripes(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.words()[HEAD_BYTES / 8..].chunks(STRIPE_NUMBERS)
    }

    /// The name of a cell's call.
    pub fn name(number: u64) -> String {
        let known = usize::try_from(number).ok().and_then(|number| CALLS.get(number));
        known.map_or_else(|| format!("call {number}"), |name| (*name).to_string())
    }

    /// Calls whose time was not split.
    pub fn not_split(&self) -> u64 {
        let at = COUNTS.iter().position(|count| *count == "not_split").unwrap_or(0);
        let of = |stripe: &[AtomicU64]| -> u64 {
            let calls = stripe.chunks_exact(NUMBERS).take(CALLS.len());
            calls.map(|numbers| numbers[at].load(Ordering::Relaxed)).sum()
        };
        self.stripes().map(of).sum()
    }

    /// The calls that were made, with the accounts of those that the kernel side has split, by
    /// token. What the accounts do not hold of a call's time is the remainder.
    pub fn cells(&self, accounts: &BTreeMap<u64, Account>) -> Vec<Cell> {
        let number = |number: usize| {
            let mut cell = Cell {
                number: number as u64,
                of: [0, 0],
                errors: 0,
                bytes: 0,
                shortest_ns: 0,
                longest_ns: 0,
                account: Account::default(),
                times: BTreeMap::new(),
            };
            let (mut calls, mut time, mut sockets) = (0u64, 0u64, [0u64; 3]);
            for stripe in self.stripes() {
                let numbers = &stripe[number * NUMBERS..(number + 1) * NUMBERS];
                let (counts, times) = numbers.split_at(COUNTS.len());
                let of = |name: &str| {
                    let at = COUNTS.iter().position(|count| *count == name);
                    at.map_or(0, |at| counts[at].load(Ordering::Relaxed))
                };
                time = time.wrapping_add(of("time_ns"));
                cell.errors = cell.errors.wrapping_add(of("errors"));
                cell.bytes = cell.bytes.wrapping_add(of("bytes"));
                for (sum, name) in sockets.iter_mut().zip(SOCKETS) {
                    *sum = sum.wrapping_add(of(name));
                }
                cell.longest_ns = cell.longest_ns.max(of("longest_ns"));
                cell.shortest_ns = match cell.shortest_ns {
                    0 => of("shortest_ns"),
                    shortest => shortest.min(of("shortest_ns")),
                };
                for (bucket, count) in (0u32..).zip(times) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        let sum = cell.times.entry(bucket).or_default();
                        *sum = sum.wrapping_add(count);
                        calls = calls.wrapping_add(count);
                    }
                }
            }
            if let Some(account) = accounts.get(&(cell.number + 1)) {
                cell.account = account.clone();
            }
            let [moves, sent, received] = sockets;
            cell.account.add_part("socket", moves, &[("sent", sent), ("received", received)]);
            cell.account.complete(calls, time);
            cell
        };
        (0..CALLS.len()).map(number).filter(|cell| cell.account.calls() > 0).collect()
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.counts.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_chosen_by_name_or_all_of_the_network() {
        let of =
            |names: &[&str]| CallSet::of(&names.iter().map(|n| n.to_string()).collect::<Vec<_>>());
        let count =
            |set: [u64; CHOSEN]| set.iter().map(|word| word.count_ones()).sum::<u32>() as usize;
        let counts = |set: CallSet| [count(set.chosen), count(set.only_by_sockets)];
        let (network, by_sockets) = (NETWORK.len(), NETWORK_BY_SOCKETS.len());
        assert!(NETWORK.iter().chain(NETWORK_BY_SOCKETS).all(|call| CALLS.contains(call)));
        assert_eq!(of(&[]), Ok(CallSet::all()));
        assert_eq!(counts(CallSet::all()), [CALLS.len(), 0]);
        assert_eq!(counts(of(&["writev"]).unwrap()), [1, 0]);
        assert_eq!(counts(of(&["network"]).unwrap()), [network + by_sockets, by_sockets]);
        assert_eq!(
            counts(of(&["writev", "network", "fsync"]).unwrap()),
            [network + by_sockets + 1, by_sockets - 1]
        );
        assert!(of(&["getpid"]).unwrap_err().to_string().contains("getpid"));
    }
}
