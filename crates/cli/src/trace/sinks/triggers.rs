//! Commands that are run for events (`--on-event`), before the file or the terminal that the events go to.

use std::io;

use weigh_export::stream::jsonl::line;
use weigh_session::products::trace::{Trigger, TriggerSpec};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

/// Triggers, and what events go to besides.
pub struct TriggerSink {
    triggers: Vec<Trigger>,
    inner: Option<Box<dyn RecordSink>>,
}

impl TriggerSink {
    /// Starts what runs the commands.
    pub fn start(
        specs: &[TriggerSpec],
        probes: &[&Probe],
        inner: Option<Box<dyn RecordSink>>,
    ) -> anyhow::Result<TriggerSink> {
        let triggers = specs.iter().map(|spec| Trigger::start(spec.clone(), probes));
        Ok(TriggerSink { triggers: triggers.collect::<Result<_, _>>()?, inner })
    }
}

impl RecordSink for TriggerSink {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        for trigger in &mut self.triggers {
            trigger.take(probe, record, || text(probe, record, meaning));
        }
        self.inner.as_mut().map_or(Ok(()), |inner| inner.take(probe, record, meaning))
    }

    fn needs_order(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.needs_order())
    }

    fn join(&mut self, flow: u64) {
        if let Some(inner) = &mut self.inner {
            inner.join(flow);
        }
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.add(number, probe))
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.triggers.iter_mut().for_each(Trigger::run_if_due);
        self.inner.as_mut().map_or(Ok(()), |inner| inner.end_batch())
    }

    fn finish(
        self: Box<Self>,
        totals: &Totals,
        meaning: &Meaning,
    ) -> anyhow::Result<Option<String>> {
        self.triggers.into_iter().for_each(Trigger::finish);
        self.inner.map_or(Ok(None), |inner| inner.finish(totals, meaning))
    }
}

fn text(probe: &Probe, record: Record<'_>, meaning: &Meaning) -> io::Result<String> {
    let mut bytes = Vec::new();
    line(&mut bytes, probe, record, meaning)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
