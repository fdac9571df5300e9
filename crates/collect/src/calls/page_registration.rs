//! Puts pages into the table that programs find them in, and takes them out.
//!
//! The kernel makes such a change at once, and then holds the caller until no program can still be
//! looking at what was there before: ten milliseconds and more. A program waits for its page when it begins,
//! and one server has all of them; so each change is a thread's of its own, and what is waited for is only that it
//! can be seen. A place that is given up is taken until it is empty.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::sleep;
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use crate::standing_threads::{Work, hand};

/// Threads at once, at most: the next one waits.
const THREADS: usize = 64;
/// Between two looks at the table.
const PAUSE: Duration = Duration::from_micros(20);

/// What is on its way in the table.
pub(super) struct Placing {
    table: Arc<MapHandle>,
    /// Places that are not empty yet.
    leaving: BTreeSet<u32>,
    emptied: (Sender<u32>, Receiver<u32>),
    put: usize,
    /// From the threads that have put something.
    done: (Sender<()>, Receiver<()>),
}

impl Placing {
    /// For an empty table.
    pub(super) fn new(table: MapHandle) -> Placing {
        Placing {
            table: Arc::new(table),
            leaving: BTreeSet::new(),
            emptied: channel(),
            put: 0,
            done: channel(),
        }
    }

    /// Whether nobody else's page is there, or was a moment ago.
    pub(super) fn is_free(&mut self, place: u32) -> bool {
        self.look();
        !self.leaving.contains(&place)
    }

    /// Puts a page where nothing is.
    pub(super) fn put(&mut self, place: u32, page: BorrowedFd<'_>) -> libbpf_rs::Result<()> {
        let page = Arc::new(page.try_clone_to_owned()?);
        let (table, done) = (self.table.clone(), self.done.0.clone());
        let (tell, told) = channel();
        let work = move || {
            let number = page.as_raw_fd().to_ne_bytes();
            // A receiver that is gone has seen it in the table.
            let _ = tell.send(table.update(&place.to_ne_bytes(), &number, MapFlags::ANY));
            let _ = done.send(());
        };
        self.apart(Box::new(work));
        self.put += 1;
        loop {
            match told.try_recv() {
                Ok(result) => return result,
                Err(TryRecvError::Empty) if is_there(&self.table, place) => return Ok(()),
                Err(TryRecvError::Empty) => sleep(PAUSE),
                Err(TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the thread that puts a page has ended").into());
                }
            }
        }
    }

    /// Takes out what is there.
    pub(super) fn take_out(&mut self, place: u32) {
        let (table, emptied) = (self.table.clone(), self.emptied.0.clone());
        let work = move || {
            // There is nothing else that could go wrong than that it is empty.
            let _ = table.delete(&place.to_ne_bytes());
            let _ = emptied.send(place);
        };
        self.apart(Box::new(work));
        self.leaving.insert(place);
    }

    /// Has a thread do it, or does it here where none is to be had.
    fn apart(&mut self, work: Work) {
        let refused = if self.is_full() { Err(work) } else { hand("place", work) };
        if let Err(work) = refused {
            work();
        }
    }

    fn is_full(&mut self) -> bool {
        self.look();
        self.leaving.len() + self.put >= THREADS
    }

    /// What has ended since.
    fn look(&mut self) {
        for place in self.emptied.1.try_iter() {
            self.leaving.remove(&place);
        }
        self.put -= self.done.1.try_iter().count();
    }
}

/// What cannot be found out is not there yet: the thread that puts it reports its end.
fn is_there(table: &MapHandle, place: u32) -> bool {
    table.lookup(&place.to_ne_bytes(), MapFlags::ANY).is_ok_and(|found| found.is_some())
}
