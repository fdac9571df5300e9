//! The pipeline of records: to the sink at once, or through what looks at several of them.
//!
//! Reads records as the ring gives them; hands on the same, in the order of their times and with what joins
//! them, or the events that are derived from them, or none: then only what was found is told.

use std::collections::VecDeque;

use anyhow::Context as _;
use weigh_collect::notice;
use weigh_schema::synthesis::{SwitchNote, SynthesisReport};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::synthesis::merge::Merge;
use weigh_trace::synthesis::{Gaps, Out, Synthesis};

use super::outputs::{LiveReport, RecordOutputs};
use super::resolve::{ResolvedEvent, Resolver};
use super::settings::TraceSettings;
use super::synthesis_spec::{self, SynthesisSpec};

/// Changes that a report tells of.
const MOST_SWITCHES: usize = 100;

/// The probe of an event's number.
pub type Probes<'p> = &'p dyn Fn(u32) -> Option<&'p Probe>;

/// Where records go; by default nowhere.
#[derive(Default)]
pub struct Pipeline {
    /// None: nobody wants them one by one.
    sink: Option<Box<dyn RecordSink>>,
    /// Records that wait until all that are older have come; none: they come in their order, or it does not
    /// matter.
    merge: Option<Merge>,
    stage: Option<SynthesisStage>,
}

/// What looks at several of them.
struct SynthesisStage {
    specs: Vec<SynthesisSpec>,
    synthesis: Synthesis,
    /// Events that are not followed any more, and since when, until all that was before has been looked at.
    removed: VecDeque<(u64, usize)>,
    /// The events that are derived, which are handed on in place of the others; none: those are.
    derived: Vec<Probe>,
    out: Out,
    live: Vec<Box<dyn LiveReport>>,
    /// Changes of the stream by its own conditions, the last ones, and how many there were.
    switches: VecDeque<SwitchNote>,
    switches_total: u64,
    /// Whether the sink has to be told which records belong together.
    joins: bool,
}

impl Pipeline {
    /// Makes the file, if there is to be one. What is wrong about what is asked for is refused.
    pub fn new(
        settings: &TraceSettings,
        specs: &[SynthesisSpec],
        probes: &[&Probe],
        has_rings: bool,
        outputs: &dyn RecordOutputs,
    ) -> anyhow::Result<Pipeline> {
        if specs.is_empty() {
            let merge = has_rings.then(Merge::default);
            let sink = outputs.with_triggers(Some(sink(settings, probes, outputs)?), probes)?;
            return Ok(Pipeline { sink, merge, stage: None });
        }
        let keys = settings.synthesis.keys;
        for spec in specs {
            // Each for itself, so that the refusal names it.
            Synthesis::new(std::slice::from_ref(&spec.ask), probes, keys)
                .map_err(|refusal| spec.refused(&refusal))?;
        }
        let asks: Vec<_> = specs.iter().map(|spec| spec.ask.clone()).collect();
        let synthesis = Synthesis::new(&asks, probes, keys)?;
        let derived: Vec<Probe> = synthesis.derived().into_iter().cloned().collect();
        let handed_on: Vec<&Probe> = match derived.is_empty() {
            true => probes.to_vec(),
            false => derived.iter().collect(),
        };
        let wants_records = settings.output.is_some() || !derived.is_empty();
        let sink = wants_records.then(|| sink(settings, &handed_on, outputs)).transpose()?;
        let has_terminal = settings.command.is_empty() && settings.output.is_none();
        let is_quiet = sink.is_none();
        let sink = outputs.with_triggers(sink, &handed_on)?;
        let is_live = settings.synthesis.live || has_terminal && is_quiet;
        let table = is_live.then(|| outputs.open_live_table());
        let stage = SynthesisStage {
            specs: specs.to_vec(),
            synthesis,
            removed: VecDeque::new(),
            joins: sink.is_some() && derived.is_empty(),
            derived,
            out: Out::default(),
            live: table.into_iter().chain(outputs.open_reports()).collect(),
            switches: VecDeque::new(),
            switches_total: 0,
        };
        Ok(Pipeline { sink, merge: Some(Merge::default()), stage: Some(stage) })
    }

    /// To a file and nowhere else, or to nobody: then others may read the rings.
    pub fn to_sink(sink: Option<Box<dyn RecordSink>>, has_rings: bool) -> Pipeline {
        let merge = (has_rings && sink.is_some()).then(Merge::default);
        Pipeline { sink, merge, stage: None }
    }

    /// Whether records need not wait here for those of other CPUs: the sink is content with the order of the rings. Then
    /// they wait in the rings.
    pub fn reads_in_place(&mut self) -> bool {
        let is_content = self.sink.as_ref().is_some_and(|sink| !sink.needs_order());
        let is_in_place = is_content && self.merge.is_some() && self.stage.is_none();
        if is_in_place {
            self.merge = None;
        }
        is_in_place
    }

    /// Takes a record, where it lies in the ring.
    pub fn take(
        &mut self,
        probe: &Probe,
        record: Record<'_>,
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        match (&mut self.merge, &mut self.sink) {
            (Some(merge), _) => {
                merge.push(record);
                Ok(())
            }
            (None, Some(sink)) => sink.take(probe, record, meaning),
            (None, None) => Ok(()),
        }
    }

    /// Takes records of one ring, where they lie in it.
    pub fn take_all(
        &mut self,
        batch: &[(&Probe, Record<'_>)],
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        match (&self.merge, &mut self.sink) {
            (None, Some(sink)) => sink.take_all(batch, meaning),
            _ => batch.iter().try_for_each(|(probe, record)| self.take(probe, *record, meaning)),
        }
    }

    /// Gives an event that will be added what those need of it that will look at it.
    pub fn complete(
        &self,
        resolver: &Resolver,
        resolved: &mut ResolvedEvent,
    ) -> anyhow::Result<()> {
        let specs = self.stage.as_ref().map(|stage| stage.specs.as_slice());
        synthesis_spec::complete_added(resolver, specs.unwrap_or_default(), resolved)
    }

    /// Records of another probe will come: of the last of these, which has that number.
    pub fn add(&mut self, probes: &[&Probe]) -> anyhow::Result<()> {
        let Some((probe, before)) = probes.split_last() else { return Ok(()) };
        let takes = self.stage.as_ref().is_none_or(|stage| stage.derived.is_empty());
        if let (Some(sink), true) = (&mut self.sink, takes) {
            sink.add(before.len(), probe)?;
        }
        match &mut self.stage {
            Some(SynthesisStage { specs, synthesis, .. }) => {
                let asks: Vec<_> = specs.iter().map(|spec| spec.ask.clone()).collect();
                Ok(synthesis.add(&asks, probes)?)
            }
            None => Ok(()),
        }
    }

    /// After that time there is no record of this probe.
    pub fn remove(&mut self, number: usize, since_ns: u64) {
        if let Some(stage) = &mut self.stage {
            stage.removed.push_back((since_ns, number));
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
        let handed_on =
            self.hand_on(all_ns, probes, meaning).and_then(|until| self.pass(until, meaning));
        let ended = self.sink.as_mut().map_or(Ok(()), |sink| sink.end_batch());
        handed_on.and(ended)
    }

    /// Nothing more will come, of all that happened until that time.
    pub fn end(
        &mut self,
        until_ns: u64,
        probes: Probes<'_>,
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        self.hand_on(Some(u64::MAX), probes, meaning)?;
        if let Some(SynthesisStage { removed, synthesis, out, .. }) = &mut self.stage {
            end_removed(removed, u64::MAX, synthesis, out);
        }
        self.pass(until_ns, meaning)
    }

    /// Hands on those that have their turn; returns up to when all were.
    fn hand_on(
        &mut self,
        all_ns: Option<u64>,
        probes: Probes<'_>,
        meaning: &Meaning,
    ) -> anyhow::Result<u64> {
        let Pipeline { sink, merge: Some(merge), stage } = self else { return Ok(0) };
        let mut done = Ok(());
        let until = merge.hand_on(all_ns, |record| {
            let (Some(probe), true) = (probes(record.event()), done.is_ok()) else { return };
            done = match (&mut *stage, &mut *sink) {
                (Some(stage), sink) => stage.take(probe, record, meaning, sink),
                (None, Some(sink)) => sink.take(probe, record, meaning),
                (None, None) => Ok(()),
            };
        });
        done.map(|()| until)
    }

    fn pass(&mut self, now_ns: u64, meaning: &Meaning) -> anyhow::Result<()> {
        let Some(stage) = &mut self.stage else { return Ok(()) };
        end_removed(&mut stage.removed, now_ns, &mut stage.synthesis, &mut stage.out);
        stage.synthesis.pass(now_ns, &mut stage.out);
        let done = hand_on(&stage.derived, &stage.out, meaning, &mut self.sink);
        stage.out.clear();
        done
    }

    /// What was found until then; none if nothing was asked for.
    pub fn report(
        &self,
        rows: usize,
        (now_ns, seconds): (u64, f64),
        gaps: &Gaps<'_>,
    ) -> Option<SynthesisReport> {
        let stage = self.stage.as_ref()?;
        let late = self.merge.as_ref().map_or(0, Merge::late);
        let report = stage.synthesis.report(rows, (now_ns, seconds), late, gaps);
        let switches = stage.switches.iter().cloned().collect();
        Some(SynthesisReport { switches, switches_total: stage.switches_total, ..report })
    }

    /// The stream has changed itself; reports tell of it from now on.
    pub fn note_switch(&mut self, note: SwitchNote) {
        let Some(stage) = &mut self.stage else { return };
        stage.switches_total += 1;
        stage.switches.push_back(note);
        if stage.switches.len() > MOST_SWITCHES {
            stage.switches.pop_front();
        }
    }

    /// So many rows of a report are to be shown now; none: it is not time.
    pub fn due_rows(&self) -> Option<usize> {
        let live = self.stage.iter().flat_map(|stage| &stage.live);
        live.filter(|live| live.is_due()).map(|live| live.rows()).max()
    }

    /// Shows it where it is time.
    pub fn show(&mut self, found: &SynthesisReport) {
        let live = self.stage.iter_mut().flat_map(|stage| &mut stage.live);
        live.filter(|live| live.is_due()).for_each(|live| live.show(found));
    }

    /// What was taken is where it belongs.
    pub fn finish(self, totals: &Totals, meaning: &Meaning) -> anyhow::Result<()> {
        self.stage.into_iter().flat_map(|stage| stage.live).for_each(|mut live| live.clear());
        let Some(sink) = self.sink else { return Ok(()) };
        if let Some(remark) = sink.finish(totals, meaning)? {
            notice!("{remark}");
        }
        Ok(())
    }
}

impl SynthesisStage {
    /// Takes one that has its turn.
    fn take(
        &mut self,
        probe: &Probe,
        record: Record<'_>,
        meaning: &Meaning,
        sink: &mut Option<Box<dyn RecordSink>>,
    ) -> anyhow::Result<()> {
        let SynthesisStage { synthesis, removed, derived, out, joins, .. } = self;
        end_removed(removed, record.time_ns(), synthesis, out);
        synthesis.take(probe, record, out);
        let mut done = Ok(());
        if let (true, Some(sink)) = (*joins, sink.as_mut()) {
            out.flows.iter().for_each(|flow| sink.join(*flow));
            done = sink.take(probe, record, meaning);
        }
        out.flows.clear();
        if !out.records.is_empty() && done.is_ok() {
            done = hand_on(derived, out, meaning, sink);
        }
        out.clear();
        done
    }
}

/// What was removed before that time will not come any more.
fn end_removed(
    removed: &mut VecDeque<(u64, usize)>,
    until_ns: u64,
    synthesis: &mut Synthesis,
    out: &mut Out,
) {
    while let Some((since_ns, number)) = removed.front().copied()
        && since_ns < until_ns
    {
        removed.pop_front();
        synthesis.pass(since_ns, out);
        synthesis.remove(number);
    }
}

/// Hands on what is derived.
fn hand_on(
    derived: &[Probe],
    out: &Out,
    meaning: &Meaning,
    sink: &mut Option<Box<dyn RecordSink>>,
) -> anyhow::Result<()> {
    let Some(sink) = sink else { return Ok(()) };
    out.derived().try_for_each(|record| {
        let probe = derived.get(record.event() as usize).context("an event that is none")?;
        sink.take(probe, record, meaning)
    })
}

/// Where events go if nobody says otherwise: to the terminal, beside what the command prints.
fn sink(
    settings: &TraceSettings,
    probes: &[&Probe],
    outputs: &dyn RecordOutputs,
) -> anyhow::Result<Box<dyn RecordSink>> {
    match &settings.output {
        Some(path) => outputs.open_file(path, probes),
        None => Ok(outputs.open_terminal(settings.command.is_empty())),
    }
}
