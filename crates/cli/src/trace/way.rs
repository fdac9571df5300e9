//! Where records go: to the sink at once, or through what looks at several of them.
//!
//! Reads records as the ring gives them; hands on the same, in the order of their times and with what joins
//! them, or the events that are derived from them, or none: then only what was found is told.

use anyhow::Context as _;
use weigh_schema::synthesis::SynthesisReport;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::synthesis::merge::Merge;
use weigh_trace::synthesis::{Gaps, Out, Synthesis};

use super::asked::Asked;
use super::counts::Totals;
use super::sinks::{self, Meaning, Sink};
use crate::arguments::TraceArguments;
use crate::live::Live;

/// Rows of a table on the terminal.
pub const ROWS: usize = 20;

/// The probe of an event's number.
pub type Probes<'p> = &'p dyn Fn(u32) -> Option<&'p Probe>;

/// Where records go.
pub struct Way {
    /// None: nobody wants them one by one.
    sink: Option<Box<dyn Sink>>,
    behind: Option<Behind>,
}

/// What looks at several of them.
struct Behind {
    merge: Merge,
    synthesis: Synthesis,
    /// The events that are derived, which are handed on in place of the others; none: those are.
    derived: Vec<Probe>,
    out: Out,
    live: Option<Live>,
    /// Whether the sink has to be told which records belong together.
    joins: bool,
}

impl Way {
    /// Makes the file, if there is to be one. What is wrong about what is asked for is refused.
    pub fn new(
        arguments: &TraceArguments,
        asked: &[Asked],
        probes: &[&Probe],
    ) -> anyhow::Result<Way> {
        if asked.is_empty() {
            return Ok(Way { sink: Some(sink(arguments, probes)?), behind: None });
        }
        let keys = arguments.synthesis.keys as usize;
        for asked in asked {
            // Each for itself, so that the refusal names it.
            Synthesis::new(std::slice::from_ref(&asked.ask), probes, keys)
                .map_err(|refusal| asked.refused(&refusal))?;
        }
        let asks: Vec<_> = asked.iter().map(|asked| asked.ask.clone()).collect();
        let synthesis = Synthesis::new(&asks, probes, keys)?;
        let derived: Vec<Probe> = synthesis.derived().into_iter().cloned().collect();
        let handed_on: Vec<&Probe> = match derived.is_empty() {
            true => probes.to_vec(),
            false => derived.iter().collect(),
        };
        let wants_records = arguments.output.is_some() || !derived.is_empty();
        let sink = wants_records.then(|| sink(arguments, &handed_on)).transpose()?;
        let has_terminal = arguments.command.is_empty() && arguments.output.is_none();
        let is_live = arguments.synthesis.live || has_terminal && sink.is_none();
        let behind = Behind {
            merge: Merge::default(),
            synthesis,
            joins: sink.is_some() && derived.is_empty(),
            derived,
            out: Out::default(),
            live: is_live.then(Live::new),
        };
        Ok(Way { sink, behind: Some(behind) })
    }

    /// Takes a record, where it lies in the ring.
    pub fn take(
        &mut self,
        probe: &Probe,
        record: Record<'_>,
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        match (&mut self.behind, &mut self.sink) {
            (Some(behind), _) => {
                behind.merge.push(record);
                Ok(())
            }
            (None, Some(sink)) => sink.take(probe, record, meaning),
            (None, None) => Ok(()),
        }
    }

    /// Records of another probe will come, with this number.
    pub fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        let takes = self.behind.as_ref().is_none_or(|behind| behind.derived.is_empty());
        match &mut self.sink {
            Some(sink) if takes => sink.add(number, probe),
            _ => Ok(()),
        }
    }

    /// All that are there for now have been taken: all that happened until that time, or, if none is said, not
    /// all of them.
    pub fn end_round(
        &mut self,
        all_ns: Option<u64>,
        probes: Probes<'_>,
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        let Way { sink, behind } = self;
        let handed_on = behind.as_mut().map_or(Ok(()), |behind| {
            let until = behind.hand_on(all_ns, probes, meaning, sink)?;
            behind.pass(until, meaning, sink)
        });
        let ended = sink.as_mut().map_or(Ok(()), |sink| sink.end_batch());
        handed_on.and(ended)
    }

    /// Nothing more will come, of all that happened until that time.
    pub fn end(
        &mut self,
        until_ns: u64,
        probes: Probes<'_>,
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        let Way { sink, behind } = self;
        let Some(behind) = behind else { return Ok(()) };
        behind.hand_on(Some(u64::MAX), probes, meaning, sink)?;
        behind.pass(until_ns, meaning, sink)
    }

    /// What was found until then; none if nothing was asked for.
    pub fn report(
        &self,
        rows: usize,
        (now_ns, seconds): (u64, f64),
        gaps: &Gaps<'_>,
    ) -> Option<SynthesisReport> {
        let behind = self.behind.as_ref()?;
        Some(behind.synthesis.report(rows, (now_ns, seconds), behind.merge.late(), gaps))
    }

    /// The terminal, when it is time to draw on it.
    pub fn live(&mut self) -> Option<&mut Live> {
        self.behind.as_mut()?.live.as_mut().filter(|live| live.is_due())
    }

    /// What was taken is where it belongs.
    pub fn finish(self, totals: &Totals, meaning: &Meaning) -> anyhow::Result<()> {
        if let Some(mut live) = self.behind.and_then(|behind| behind.live) {
            live.clear();
        }
        self.sink.map_or(Ok(()), |sink| sink.finish(totals, meaning))
    }
}

impl Behind {
    fn hand_on(
        &mut self,
        all_ns: Option<u64>,
        probes: Probes<'_>,
        meaning: &Meaning,
        sink: &mut Option<Box<dyn Sink>>,
    ) -> anyhow::Result<u64> {
        let Behind { merge, synthesis, derived, out, joins, .. } = self;
        let mut done = Ok(());
        let until = merge.hand_on(all_ns, |record| {
            let Some(probe) = probes(record.event()) else { return };
            synthesis.take(probe, record, out);
            if let (true, Some(sink)) = (*joins, sink.as_mut())
                && done.is_ok()
            {
                out.flows.iter().for_each(|flow| sink.join(*flow));
                done = sink.take(probe, record, meaning);
            }
            out.flows.clear();
            if !out.records.is_empty() && done.is_ok() {
                done = hand_on(derived, out, meaning, sink);
            }
            out.clear();
        });
        done.map(|()| until)
    }

    fn pass(
        &mut self,
        now_ns: u64,
        meaning: &Meaning,
        sink: &mut Option<Box<dyn Sink>>,
    ) -> anyhow::Result<()> {
        self.synthesis.pass(now_ns, &mut self.out);
        let done = hand_on(&self.derived, &self.out, meaning, sink);
        self.out.clear();
        done
    }
}

/// Hands on what is derived.
fn hand_on(
    derived: &[Probe],
    out: &Out,
    meaning: &Meaning,
    sink: &mut Option<Box<dyn Sink>>,
) -> anyhow::Result<()> {
    let Some(sink) = sink else { return Ok(()) };
    out.derived().try_for_each(|record| {
        let probe = derived.get(record.event() as usize).context("an event that is none")?;
        sink.take(probe, record, meaning)
    })
}

/// Where events go if nobody says otherwise: to the terminal, beside what the command prints.
fn sink(arguments: &TraceArguments, probes: &[&Probe]) -> anyhow::Result<Box<dyn Sink>> {
    match &arguments.output {
        Some(path) => sinks::of_file(path, probes, &arguments.counters),
        None => Ok(sinks::of_terminal(arguments.command.is_empty())),
    }
}
