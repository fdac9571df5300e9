//! The library that marks the calls of the C library's functions (`libweigh/calls`), as weigh sees
//! it: puts it and the file that it counts in where a command's programs find them, and reads the
//! counts.
//!
//! Emits cells without the parts of the kernel: those are in the accounts that programs share with
//! the kernel side. Refuses commands that the library can not be loaded into, with the reason.

pub mod layout;

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
use layout::{CALLS, COUNTS, NUMBERS, STRIPE_BYTES, STRIPE_NUMBERS, STRIPES, VARIABLE};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_calls.so"));

const BYTES: usize = STRIPES * STRIPE_BYTES;

/// The library, and what it has counted.
pub struct Shim {
    folder: Folder,
    counts: NonNull<AtomicU64>,
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
        Ok(Shim { folder, counts })
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
            (weigh_schema::library::SOCKET_VARIABLE.into(), self.socket().into_os_string()),
        ]
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, aligned to a page, and lives as long as `self`; others
        // write it at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.counts.as_ptr(), BYTES / 8) }
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
        self.words().chunks(STRIPE_NUMBERS).map(of).sum()
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
            let (mut calls, mut time) = (0u64, 0u64);
            for stripe in self.words().chunks(STRIPE_NUMBERS) {
                let numbers = &stripe[number * NUMBERS..(number + 1) * NUMBERS];
                let (counts, times) = numbers.split_at(COUNTS.len());
                let of = |name: &str| {
                    let at = COUNTS.iter().position(|count| *count == name);
                    at.map_or(0, |at| counts[at].load(Ordering::Relaxed))
                };
                time = time.wrapping_add(of("time_ns"));
                cell.errors = cell.errors.wrapping_add(of("errors"));
                cell.bytes = cell.bytes.wrapping_add(of("bytes"));
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
