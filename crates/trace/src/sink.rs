//! The contract of everything that records go to: a format of files, a table, a page.
//!
//! Records come as they lie in the ring; what numbers in them mean is told by [`Meaning`], and what was counted of the
//! stream by [`Totals`], in the end.

mod counts;
mod names;
mod threads;

use std::cell::RefCell;
use std::rc::Rc;

use weigh_schema::byte_text;
use weigh_schema::trace::ThreadNote;

use crate::probe::Probe;
use crate::record::Record;
use crate::value::Value;
pub use counts::{BufferCounts, MAIN, ProbeCounts, Totals};
pub use names::{RecordedNames, StackNames, Symbolizer};
pub use threads::ThreadNames;

/// Takes the records of a stream.
pub trait RecordSink {
    /// Takes a record, where it lies in the ring.
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()>;

    /// Takes records of one ring, in their order. They lie there until this returns, and are written over after that.
    fn take_all(
        &mut self,
        batch: &[(&Probe, Record<'_>)],
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        batch.iter().try_for_each(|(probe, record)| self.take(probe, *record, meaning))
    }

    /// Whether records have to come in the order of their times. False: one that an interrupt came before may come after
    /// that one's, and where a ring is nearly full it is emptied first.
    fn needs_order(&self) -> bool {
        true
    }

    /// The record that is taken next belongs to others that are joined by the same number.
    fn join(&mut self, _flow: u64) {}

    /// Records of another probe will come, with this number; an error if they cannot be taken.
    fn add(&mut self, _: usize, _: &Probe) -> anyhow::Result<()> {
        Ok(())
    }

    /// All that are there for now have been taken.
    fn end_batch(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// No more will come. What was taken is whole and readable, even after a failure. Returns a line for people, if
    /// something was left out.
    fn finish(
        self: Box<Self>,
        totals: &Totals,
        meaning: &Meaning,
    ) -> anyhow::Result<Option<String>>;
}

/// What numbers in records mean.
pub struct Meaning {
    /// What the records' clock showed when the stream began.
    pub began_ns: u64,
    /// The clock of the day when it showed 0.
    pub epoch_ns: i64,
    /// Names of functions.
    pub names: RefCell<StackNames>,
    /// Names of threads.
    pub threads: RefCell<ThreadNames>,
}

impl Meaning {
    /// Of a stream that runs: its names are those of this machine. `comm` reads the name of a living thread.
    pub fn live(
        began_ns: u64,
        epoch_ns: i64,
        symbolizer: Box<dyn Symbolizer>,
        comm: fn(u32) -> String,
    ) -> Meaning {
        let names = RefCell::new(StackNames::Live(symbolizer));
        let threads = RefCell::new(ThreadNames::live(comm));
        Meaning { began_ns, epoch_ns, names, threads }
    }

    /// Of a recording, which has all its names.
    pub fn recorded(began_ns: u64, epoch_ns: i64, threads: &[ThreadNote]) -> Meaning {
        let names = RefCell::new(StackNames::Recorded(RecordedNames::default()));
        let threads = RefCell::new(ThreadNames::recorded(threads));
        Meaning { began_ns, epoch_ns, names, threads }
    }

    /// How long the stream has run at that time of the records' clock.
    pub fn seconds_since_began(&self, now_ns: u64) -> f64 {
        now_ns.saturating_sub(self.began_ns) as f64 / 1e9
    }

    /// The name of a record's thread may have to be known later.
    pub fn meet(&self, probe: &Probe, record: Record<'_>) {
        self.threads.borrow_mut().meet(record.tgid(), record.tid(), || comm(probe, record));
    }

    /// A stack as the names of its functions, the innermost first; none if the value is no stack.
    pub fn stack(&self, value: &Value<'_>, record: Record<'_>) -> Option<Vec<Rc<str>>> {
        let Value::Stack { bytes, is_user } = value else { return None };
        Some(self.names.borrow_mut().stack(bytes, *is_user, record.tgid()))
    }
}

/// The name of a record's thread, if that is one of its fields, in the form that keeps its bytes.
pub fn comm(probe: &Probe, record: Record<'_>) -> Option<String> {
    let place = probe.fields.iter().position(|field| field.name == "comm")?;
    match probe.value(record, place) {
        Value::Text(text) => Some(byte_text::keep(text)),
        _ => None,
    }
}
