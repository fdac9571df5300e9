//! The page of events: what is in the recording, drawn.
//!
//! The file is written in the end, as a whole; until then it is as small as what the page shows.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use weigh_export::stream::StreamFormat;
use weigh_export::stream::pairs::{self, Pairs};
use weigh_schema::trace::{EventNote, PAGE_ENDING, TraceNote};
use weigh_show::trace::{Gathered, Happened, page};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::replay;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

/// The page of events.
pub const FORMAT: StreamFormat = StreamFormat {
    endings: &[PAGE_ENDING],
    create: |file| Ok(Box::new(Page::create(file.path, file.probes)?)),
};

/// A page that is being made.
struct Page {
    path: PathBuf,
    gathered: Gathered,
    events: Vec<EventNote>,
    pairs: Pairs,
}

impl Page {
    /// Sees to it that the file can be made.
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Page> {
        std::fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))?;
        let events = probes.iter().map(|probe| replay::note(probe, &[])).collect();
        let (gathered, pairs) = (Gathered::default(), Pairs::new(probes));
        Ok(Page { path: path.to_path_buf(), gathered, events, pairs })
    }
}

impl RecordSink for Page {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        meaning.meet(probe, record);
        let began_ns = meaning.began_ns;
        let at_ns = record.time_ns().saturating_sub(began_ns);
        let (event, tgid, tid) = (record.event(), record.tgid(), record.tid());
        self.gathered.event(Happened { event, at_ns, tgid, tid });
        let joined = self.pairs.take(probe, record, began_ns);
        for pair in pairs::derived(probe, record, began_ns).into_iter().chain(joined) {
            self.gathered.pair(&pair.name, pair.tid, pair.from_ns, pair.to_ns);
        }
        Ok(())
    }

    fn join(&mut self, flow: u64) {
        self.pairs.join(flow);
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.pairs.add(number, probe);
        self.events.resize_with(number, Default::default);
        self.events.push(replay::note(probe, &[]));
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
