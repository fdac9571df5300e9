//! Names of threads: as their records have them, else as they are when their first event comes, or as a recording
//! has them.

use std::collections::HashMap;

use weigh_schema::byte_text;
use weigh_schema::trace::ThreadNote;

/// So many are remembered.
const MOST: usize = 4096;

/// What is known.
pub struct ThreadNames {
    names: HashMap<u32, ThreadNote>,
    /// Reads the name of a living thread, in the form that keeps its bytes.
    comm: fn(u32) -> String,
    last: Option<u32>,
}

impl ThreadNames {
    /// Of threads that live: `comm` reads the name of one, and is empty if there is none.
    pub fn live(comm: fn(u32) -> String) -> ThreadNames {
        ThreadNames { names: HashMap::new(), comm, last: None }
    }

    /// Those of a recording: a thread that lives now is another one.
    pub fn recorded(threads: &[ThreadNote]) -> ThreadNames {
        let names = threads.iter().map(|thread| (thread.tid, thread.clone())).collect();
        ThreadNames { names, comm: |_| String::new(), last: None }
    }

    /// An event of a thread has come; its name, if its record has it. That is asked for when another thread had
    /// the event before.
    pub fn meet(&mut self, tgid: u32, tid: u32, comm: impl FnOnce() -> Option<String>) {
        if self.last == Some(tid) {
            return;
        }
        let known = self.names.get(&tid);
        let told = comm().map(|name| byte_text::shown_with_base64(&name));
        let (name, name_base64) = match (known, told) {
            // It may have executed another program.
            (Some(known), Some(told))
                if (&known.name, &known.name_base64) != (&told.0, &told.1) =>
            {
                told
            }
            (Some(known), _) if known.tgid == tgid => {
                // Who has none yet may have one in the next record.
                self.last = (!known.name.is_empty()).then_some(tid);
                return;
            }
            (Some(known), _) => (known.name.clone(), known.name_base64.clone()),
            (None, Some(told)) => told,
            (None, None) => byte_text::shown_with_base64(&(self.comm)(tid)),
        };
        self.last = (!name.is_empty()).then_some(tid);
        if self.names.len() < MOST || known.is_some() {
            self.names.insert(tid, ThreadNote { tgid, tid, name, name_base64 });
        }
    }

    /// The name of a thread; empty if nobody knows it.
    pub fn name(&self, tid: u32) -> String {
        self.names
            .get(&tid)
            .map_or_else(|| byte_text::shown(&(self.comm)(tid)), |thread| thread.name.clone())
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVING: u32 = 7;

    fn comm(tid: u32) -> String {
        if tid == LIVING { "living".to_string() } else { String::new() }
    }

    #[test]
    fn nobody_who_lives_now_gives_a_recording_names() {
        let mut living = ThreadNames::live(comm);
        living.meet(LIVING, LIVING, || None);
        assert_eq!(living.name(LIVING), "living");
        living.meet(LIVING, 0, || Some("swapper".to_string()));
        living.meet(LIVING, u32::MAX, || None);
        living.meet(LIVING, 0, || Some("idle".to_string()));
        let recorded = ThreadNames::recorded(&living.all());
        assert_eq!((recorded.name(0).as_str(), recorded.count()), ("idle", 3));
        assert_eq!(ThreadNames::recorded(&[]).name(LIVING), "");
    }

    #[test]
    fn a_name_that_is_no_text_keeps_its_bytes() {
        let mut living = ThreadNames::live(comm);
        living.meet(9, 9, || Some(byte_text::keep(b"a\xff")));
        living.meet(9, 9, || Some(byte_text::keep(b"a\xfe")));
        let [thread] = &living.all()[..] else { panic!("{:?}", living.all()) };
        assert_eq!((thread.name.as_str(), living.name(9).as_str()), ("a\u{fffd}", "a\u{fffd}"));
        // The last is the one that is remembered: it differs in a byte that is not shown.
        living.meet(1, 1, || None);
        living.meet(9, 9, || Some(byte_text::keep(b"a\xfe")));
        let thread = living.all().into_iter().find(|thread| thread.tid == 9);
        assert_eq!(thread.expect("it").name_base64.as_deref(), Some("Yf4="));
    }
}
