//! The library that marks the calls of the C library's functions (`libweigh/calls`), as weigh sees
//! it: puts it and the file that it counts in where a command's programs find them, and reads the
//! counts.
//!
//! Emits cells without the parts of the kernel: those are in the accounts that programs share with
//! the kernel side. Refuses commands that the library cannot be loaded into, with the reason.

pub mod layout;
pub(crate) mod ticks;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use weigh_schema::call::{Cell, TimeHistogram};
use weigh_schema::subsystem::Account;

use crate::preload::{Folder, PreloadError, SharedFile, is_kept_out_of, why_blind_in};
use crate::secure_start::command_variable;
use crate::shared_map::SharedMap;
use layout::{
    CALLS, CHOSEN, COUNTS, HEAD, HEAD_BYTES, NETWORK, NETWORK_BY_SOCKETS, NUMBERS, STRIPE_BYTES,
    STRIPES, VARIABLE, head_at,
};
use ticks::Ticks;

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_calls.so"));

const BYTES: usize = HEAD_BYTES + STRIPES * STRIPE_BYTES;

/// Of what goes by sockets.
const SOCKETS: [&str; 3] = ["socket_moves", "socket_sent", "socket_received"];

/// The library, and what it has counted.
pub struct Shim {
    folder: Folder,
    map: SharedMap,
    /// The counts are read, not mapped: what no program has room for yet stays so.
    file: File,
    ticks: Ticks,
}

/// The file, as it is made.
const FILE: SharedFile = SharedFile { suffix: "", bytes: BYTES, begins_with };

/// All of it where programs can make no room in it.
fn begins_with(can_grow: bool) -> Vec<Range<usize>> {
    std::iter::once(0..if can_grow { HEAD_NUMBERS * 8 } else { BYTES }).collect()
}

/// Numbers at the beginning that mean something.
const HEAD_NUMBERS: usize = {
    let (mut numbers, mut field) = (0, 0);
    while field < HEAD.len() {
        numbers += HEAD[field].1;
        field += 1;
    }
    numbers
};

/// What a stripe's program has counted.
type Stripe = Vec<u64>;

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

/// Why the library cannot be in a command; none if it can, as far as is known, or is just kept out of it.
pub fn why_not(command: &OsStr) -> Option<&'static str> {
    why_blind_in(command).filter(|_| !is_kept_out_of(command))
}

impl Shim {
    /// Makes the folder of this run.
    pub fn new() -> Result<Shim, PreloadError> {
        let (folder, maps) = Folder::new(std::path::Path::new("."), LIBRARY, &[FILE])?;
        let no_place = |tried: String| PreloadError::NoPlace { tried };
        let file = File::open(&folder.file).map_err(|error| no_place(error.to_string()))?;
        let map = maps.into_iter().next();
        let map = map.ok_or_else(|| no_place(folder.path.display().to_string()))?;
        Ok(Shim { folder, map, file, ticks: Ticks::begin() })
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

    /// What the command's environment must have. The socket is the server's, where there is one. Nothing where a
    /// sanitizer's runtime must be the first library: then none of its calls is marked.
    pub fn variables(&self, command: &OsStr) -> Vec<(OsString, OsString)> {
        if is_kept_out_of(command) {
            return Vec::new();
        }
        let mut libraries = self.folder.library.clone().into_os_string();
        if let Some(others) = command_variable("LD_PRELOAD").filter(|list| !list.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        vec![
            ("LD_PRELOAD".into(), libraries),
            (VARIABLE.into(), self.folder.file.clone().into_os_string()),
            (weigh_schema::library::INSIDE_VARIABLE.into(), self.socket().into_os_string()),
        ]
    }

    fn head(&self, name: &str) -> &[AtomicU64] {
        // SAFETY: the mapping is longer, aligned to a page, and lives as long as `self`; others
        // write it at any time, which atomics allow.
        let head = unsafe {
            std::slice::from_raw_parts(self.map.start().cast::<AtomicU64>().as_ptr(), HEAD_NUMBERS)
        };
        head_at(name).map_or(&[], |at| &head[at..])
    }

    /// Stripes that cannot be read, for the file was cut, are zeros.
    fn stripes(&self) -> impl Iterator<Item = Stripe> + '_ {
        (0..STRIPES).map(|stripe| {
            let mut bytes = vec![0; STRIPE_BYTES];
            let at = (HEAD_BYTES + stripe * STRIPE_BYTES) as u64;
            let _ = self.file.read_exact_at(&mut bytes, at);
            let numbers = bytes.as_chunks().0.iter();
            numbers.map(|number| u64::from_ne_bytes(*number)).collect()
        })
    }

    /// Calls that were not counted, for the file had no room for them.
    pub fn refused(&self) -> u64 {
        self.head("refused").first().map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// The name of a cell's call.
    pub fn name(number: u64) -> String {
        let known = usize::try_from(number).ok().and_then(|number| CALLS.get(number));
        known.map_or_else(|| format!("call {number}"), |name| (*name).to_string())
    }

    /// Calls whose time was not split.
    pub fn not_split(&self) -> u64 {
        let at = COUNTS.iter().position(|count| *count == "not_split").unwrap_or(0);
        let of = |stripe: Stripe| -> u64 {
            let calls = stripe.chunks_exact(NUMBERS).take(CALLS.len());
            calls.map(|numbers| numbers[at]).sum()
        };
        self.stripes().map(of).sum()
    }

    /// The calls that were made, with the accounts of those that the kernel side has split, by
    /// token. What the accounts do not hold of a call's time is the remainder.
    pub fn cells(&self, accounts: &BTreeMap<u64, Account>) -> Vec<Cell> {
        let stripes: Vec<Stripe> = self.stripes().collect();
        let number = |number: usize| {
            let mut cell = Cell {
                number: number as u64,
                of: [0, 0],
                errors: 0,
                bytes: 0,
                shortest_ns: 0,
                longest_ns: 0,
                waits_at_pipes_ns: 0,
                waits_at_sockets_ns: 0,
                account: Account::default(),
                by_part: None,
                times: TimeHistogram::default(),
            };
            let (mut calls, mut time, mut sockets) = (0u64, 0u64, [0u64; 3]);
            for stripe in &stripes {
                let numbers = &stripe[number * NUMBERS..(number + 1) * NUMBERS];
                let (counts, times) = numbers.split_at(COUNTS.len());
                let of = |name: &str| {
                    let at = COUNTS.iter().position(|count| *count == name);
                    at.map_or(0, |at| counts[at])
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
                for (bucket, &count) in (0u32..).zip(times) {
                    if count > 0 {
                        cell.times.add_to(bucket, count);
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
