//! Names of threads: as their records have them, else as they are when their first event comes, or as a recording
//! tells them.

use std::collections::HashMap;

use weigh_schema::trace::ThreadNote;

/// So many are remembered.
const MOST: usize = 4096;

/// What is known.
#[derive(Default)]
pub struct Threads {
    names: HashMap<u32, ThreadNote>,
    /// Who lives now is somebody else.
    is_recorded: bool,
    last: Option<u32>,
}

impl Threads {
    /// Those of a recording.
    pub fn of_recording(threads: &[ThreadNote]) -> Threads {
        let names = threads.iter().map(|thread| (thread.tid, thread.clone())).collect();
        Threads { names, is_recorded: true, last: None }
    }

    /// An event of a thread has come; its name, if its record has it. That is asked for when another thread had
    /// the event before.
    pub fn meet(&mut self, tgid: u32, tid: u32, comm: impl FnOnce() -> Option<String>) {
        if self.last == Some(tid) {
            return;
        }
        let known = self.names.get(&tid);
        let name = match (known, comm()) {
            // It may have executed another program.
            (Some(known), Some(name)) if known.name != name => name,
            (Some(known), _) if known.tgid == tgid => {
                // Who has none yet may have one in the next record.
                self.last = (!known.name.is_empty()).then_some(tid);
                return;
            }
            (Some(known), _) => known.name.clone(),
            (None, Some(name)) => name,
            (None, None) => self.look(tid),
        };
        self.last = (!name.is_empty()).then_some(tid);
        if self.names.len() < MOST || known.is_some() {
            self.names.insert(tid, ThreadNote { tgid, tid, name });
        }
    }

    /// The name of a thread; empty if nobody knows it.
    pub fn name(&self, tid: u32) -> String {
        self.names.get(&tid).map_or_else(|| self.look(tid), |thread| thread.name.clone())
    }

    /// All that are known.
    pub fn all(&self) -> Vec<ThreadNote> {
        let mut all: Vec<ThreadNote> = self.names.values().cloned().collect();
        all.sort_by_key(|thread| (thread.tgid, thread.tid));
        all
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    fn look(&self, tid: u32) -> String {
        if self.is_recorded {
            return String::new();
        }
        let mut name = std::fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
        name.pop_if(|last| *last == b'\n');
        String::from_utf8_lossy(&name).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_lives_now_gives_a_recording_names() {
        let own = std::process::id();
        let mut living = Threads::default();
        living.meet(own, own, || None);
        assert!(!living.name(own).is_empty());
        living.meet(own, 0, || Some("swapper".to_string()));
        living.meet(own, u32::MAX, || None);
        living.meet(own, 0, || Some("idle".to_string()));
        let recorded = Threads::of_recording(&living.all());
        assert_eq!((recorded.name(0).as_str(), recorded.count()), ("idle", 3));
        assert_eq!(Threads::of_recording(&[]).name(own), "");
    }
}
