//! The page of events: what is in the recording, drawn.
//!
//! The file is written in the end, as a whole; until then it is as small as what the page shows.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use weigh_schema::trace::TraceNote;
use weigh_show::trace::{Gathered, Happened, page};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::recorded;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::synthesis::derived::is_derived;
use weigh_trace::value::Value;

use super::joined::Joined;

/// A page that is being made.
pub struct Page {
    path: PathBuf,
    gathered: Gathered,
    events: Vec<weigh_schema::trace::EventNote>,
    joined: Joined,
}

impl Page {
    /// Sees to it that the file can be made.
    pub fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Page> {
        std::fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))?;
        let events = probes.iter().map(|probe| recorded::note(probe, &[])).collect();
        let (gathered, joined) = (Gathered::default(), Joined::default());
        Ok(Page { path: path.to_path_buf(), gathered, events, joined })
    }
}

impl RecordSink for Page {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        meaning.meet(probe, record);
        let since = |time_ns: u64| time_ns.saturating_sub(meaning.began_ns);
        let at_ns = since(record.time_ns());
        let (event, tgid, tid) = (record.event(), record.tgid(), record.tid());
        let Page { gathered, events, joined, .. } = self;
        gathered.event(Happened { event, at_ns, tgid, tid });
        if is_derived(probe)
            && let Value::Unsigned(after) = probe.value(record, 0)
        {
            gathered.pair(&probe.name, tid, at_ns.saturating_sub(after), at_ns);
        }
        joined.take(record, |_, first| {
            let of_first = events.get(first.event as usize).map_or("", |event| &event.name);
            let called = format!("{of_first} -> {}", probe.name);
            gathered.pair(&called, first.tid, since(first.time_ns), at_ns);
        });
        Ok(())
    }

    fn join(&mut self, flow: u64) {
        self.joined.join(flow);
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.events.resize_with(number, Default::default);
        self.events.push(recorded::note(probe, &[]));
        Ok(())
    }

    fn finish(
        self: Box<Self>,
        totals: &Totals,
        meaning: &Meaning,
    ) -> anyhow::Result<Option<String>> {
        let Page { path, gathered, events, .. } = *self;
        let note = TraceNote { events, ..totals.note() };
        let threads = meaning.threads.borrow();
        let page = page::render(&gathered, &note, &|tid| threads.name(tid));
        std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(None)
    }
}
