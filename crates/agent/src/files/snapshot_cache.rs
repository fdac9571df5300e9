//! What the kernel side had kept when it was last looked at: all there is of files that are open if the agent is lost.
//! It stays as bytes, for nearly always nobody asks for it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use weigh_collect::io::RecordBatch;
use weigh_schema::io::{Event, FileId, Process, Use, Who};

/// It is looked at no more often than this, and for a tenth of the time at most.
const EVERY: Duration = Duration::from_secs(1);
const REST_PER_LOOK: u32 = 9;

/// The last look, and what has come since of what was seen then.
#[derive(Default)]
pub struct LastLook {
    uses: Vec<RecordBatch>,
    processes: Vec<RecordBatch>,
    rest: Vec<RecordBatch>,
    /// What has been told for good since then.
    left: HashSet<(FileId, Who)>,
    ended: HashSet<u32>,
    next: Option<Instant>,
}

impl LastLook {
    /// Another one, which began then.
    pub fn replace(
        &mut self,
        uses: Vec<RecordBatch>,
        processes: Vec<RecordBatch>,
        rest: Vec<RecordBatch>,
        began: Instant,
    ) {
        let next = Instant::now() + EVERY.max(began.elapsed() * REST_PER_LOOK);
        let (left, ended) = (HashSet::new(), HashSet::new());
        *self = LastLook { uses, processes, rest, left, ended, next: Some(next) };
    }

    /// Whether it is time for another one.
    pub fn is_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// What was told since.
    pub fn leave(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Used(used) => drop(self.left.insert((used.file, used.who))),
                Event::Ended(process) => drop(self.ended.insert(process.pid)),
                Event::Named(_) | Event::Unlinked(_) | Event::Called(_) | Event::Asked(_) => {}
            }
        }
    }

    /// What was open, and has not been told since.
    pub fn uses(&self, began_ns: u64) -> impl Iterator<Item = Use> {
        let uses = self.uses.iter().flat_map(move |piece| piece.uses(began_ns));
        uses.filter(|used| !self.left.contains(&(used.file, used.who)))
    }

    /// Who was alive, and has not been told to have ended.
    pub fn processes(&self, began_ns: u64) -> impl Iterator<Item = Process> {
        let processes = self.processes.iter().flat_map(move |piece| piece.processes(began_ns));
        processes.filter(|process| !self.ended.contains(&process.pid))
    }

    /// What had found no room.
    pub fn rest(&self, began_ns: u64) -> Option<Use> {
        self.rest.iter().flat_map(|piece| piece.uses(began_ns)).next()
    }
}
