//! The I/O of all descendants that weigh has waited for: what wait4(2) is for CPU time, for I/O.
//!
//! When a process waits for a child, the kernel adds the child's I/O, and that of all that the
//! child had waited for, to what it keeps for the process beside its threads. So the difference
//! between `/proc/self/io` and the threads' own `io` is exact, and needs no rights. It holds static
//! programs, killed ones, and those that no look at `/proc` ever met. Threads of weigh that have
//! ended are in the difference too: what they had done when they were last seen is taken away.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use rustix::io::Errno;
use weigh_schema::{Counter, CounterValues};

use crate::procfs::{self, io_values};

/// How often to try to find all other threads at rest.
const TRIES: usize = 50;

/// Reads the sum, and knows how it began.
pub struct WaitedIo {
    before: CounterValues,
    threads: BTreeMap<u32, CounterValues>,
    ended_threads: CounterValues,
    /// Whether a thread of weigh has ended: then what it did since it was last seen is in the sum.
    pub has_lost_threads: bool,
}

impl WaitedIo {
    /// What was waited for so far does not count.
    pub fn begin() -> io::Result<WaitedIo> {
        let mut waited = WaitedIo {
            before: CounterValues::default(),
            threads: BTreeMap::new(),
            ended_threads: CounterValues::default(),
            has_lost_threads: false,
        };
        waited.before = waited.read()?;
        waited.has_lost_threads = false;
        Ok(waited)
    }

    /// The I/O of those that were waited for since.
    pub fn read(&mut self) -> io::Result<CounterValues> {
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        for _ in 0..TRIES {
            let before = threads(me)?;
            let (all, bytes_read) = one_read("/proc/self/io")?;
            let (mut own, _) = one_read("/proc/thread-self/io")?;
            let after = threads(me)?;
            if before != after {
                continue;
            }
            // The thread's own count has the read of the process's in it already.
            let values = &mut own.0;
            values[Counter::ReadChars as usize] -= bytes_read;
            values[Counter::ReadCalls as usize] -= 1;
            let mut sum = all;
            for thread in after.values().chain([&own]) {
                sum = less(&sum, thread);
            }
            self.remember(after);
            sum = less(&sum, &self.ended_threads);
            return Ok(less(&sum, &self.before));
        }
        Err(io::Error::other("weigh's own threads do not come to rest"))
    }

    fn remember(&mut self, now: BTreeMap<u32, CounterValues>) {
        for (thread, last) in &self.threads {
            if !now.contains_key(thread) {
                self.ended_threads = plus(&self.ended_threads, last);
                self.has_lost_threads = true;
            }
        }
        self.threads = now;
    }
}

fn plus(a: &CounterValues, b: &CounterValues) -> CounterValues {
    CounterValues(std::array::from_fn(|i| a.0[i].saturating_add(b.0[i])))
}

fn less(a: &CounterValues, b: &CounterValues) -> CounterValues {
    CounterValues(std::array::from_fn(|i| a.0[i].saturating_sub(b.0[i])))
}

/// All threads but this one.
fn threads(me: u32) -> io::Result<BTreeMap<u32, CounterValues>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let name = entry?.file_name();
        let Some(thread) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if thread == me {
            continue;
        }
        // One that has just ended is not among them the next time.
        if let Ok((values, _)) = one_read(&format!("/proc/self/task/{thread}/io")) {
            found.insert(thread, values);
        }
    }
    Ok(found)
}

/// Reads the file by exactly one call, and says how many bytes that gave.
fn one_read(path: &str) -> io::Result<(CounterValues, u64)> {
    let file = File::open(path)?;
    let mut text = [0u8; 1024];
    let length = loop {
        match rustix::io::read(&file, &mut text) {
            Err(Errno::INTR) => continue,
            other => break other?,
        }
    };
    let io = procfs::parse_io(&text[..length])
        .ok_or_else(|| io::Error::other(format!("{path} holds no I/O counts")))?;
    let mut values = CounterValues::default();
    for (counter, value) in io_values(&io) {
        values.set(counter, value);
    }
    Ok((values, length as u64))
}
