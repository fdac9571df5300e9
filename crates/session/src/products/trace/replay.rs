//! A recording again, through the same pipeline as a stream that runs.

use anyhow::anyhow;
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::{FollowedNote, Origin, TraceNote};
use weigh_trace::probe::Probe;
use weigh_trace::replay::RecordedStream;
use weigh_trace::replay::filter::RecordedFilter;
use weigh_trace::sink::{Meaning, Totals};
use weigh_trace::synthesis::Gaps;
use weigh_trace::synthesis::derived::is_derived;

use super::outputs::RecordOutputs;
use super::pipeline::Pipeline;
use super::settings::TraceSettings;
use super::synthesis_spec::{self, SynthesisSpec};

/// What is wanted of a recording.
pub struct ReplayPlan {
    settings: TraceSettings,
    specs: Vec<SynthesisSpec>,
    filters: Vec<RecordedFilter>,
}

/// What came of it.
pub struct Replay {
    /// What was counted.
    pub totals: Totals,
    /// Why not all of it was handed on.
    pub failed: Option<anyhow::Error>,
}

impl ReplayPlan {
    /// Reads what is wanted.
    pub fn prepare(settings: TraceSettings) -> anyhow::Result<ReplayPlan> {
        let specs = synthesis_spec::read(&settings.synthesis)?;
        Ok(ReplayPlan { settings, specs, filters: Vec::new() })
    }

    /// Checks the filters against what the recording has.
    pub fn check(&mut self, recording: &dyn RecordedStream) -> anyhow::Result<()> {
        let probes: Vec<&Probe> = recording.probes().iter().collect();
        let filters = self.settings.filters.iter().map(|text| {
            RecordedFilter::parse(text, &probes).map_err(|refusal| anyhow!("--filter: {refusal}"))
        });
        self.filters = filters.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Hands all records on.
    pub fn run(
        mut self,
        recording: &dyn RecordedStream,
        outputs: &dyn RecordOutputs,
    ) -> anyhow::Result<Replay> {
        let probes: Vec<&Probe> = recording.probes().iter().collect();
        if self.settings.draws_pairs() {
            let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
            synthesis_spec::add_default_pairs(&mut self.specs, &names);
        }
        // Rows come in the order of their times.
        let pipeline = Pipeline::new(&self.settings, &self.specs, &probes, false, outputs)?;
        hand_on(recording, &self.specs, &self.filters, pipeline)
    }
}

/// All records of a recording, through the pipeline of those that have just come.
fn hand_on(
    recording: &dyn RecordedStream,
    specs: &[SynthesisSpec],
    filters: &[RecordedFilter],
    mut pipeline: Pipeline,
) -> anyhow::Result<Replay> {
    let (note, probes) = (recording.note(), recording.probes());
    let Origin { began_ns, epoch_ns, .. } = note.origin;
    let meaning = Meaning::recorded(began_ns, epoch_ns, &note.threads);
    let probe = |event: u32| probes.get(event as usize);
    let (mut taken, mut failed) = (0, None);
    // Those of several CPUs are not in the order of time.
    let in_order = !specs.is_empty();
    let read = recording.each_batch(in_order, &meaning, &mut |records, until_ns| {
        for record in records {
            let Some(probe) = probe(record.event()) else { continue };
            if filters.iter().all(|filter| filter.holds(probe, record)) {
                taken += 1;
                pipeline.take(probe, record, &meaning)?;
            }
        }
        pipeline.end_round(Some(until_ns), &probe, &meaning)
    });
    match read.and_then(|()| pipeline.end(note.ended_ns, &probe, &meaning)) {
        Err(error) if recording.is_damage(&error) => return Err(error),
        done => failed = failed.or(done.err()),
    }
    let mut totals = Totals {
        origin: note.origin.clone(),
        followed: note.followed.clone(),
        buffers: Vec::new(),
        taken,
        seen: None,
        lost_threads: note.lost_threads_total,
        ended_ns: note.ended_ns,
        seconds: note.seconds,
        synthesis: None,
    };
    totals.synthesis = found(&pipeline, note, probes);
    let finished = pipeline.finish(&totals, &meaning);
    Ok(Replay { totals, failed: failed.or(finished.err()) })
}

/// What several events say together.
fn found(pipeline: &Pipeline, note: &TraceNote, probes: &[Probe]) -> Option<SynthesisReport> {
    // Of what derived events were made of, any may be lost.
    let of_all = probes.iter().any(is_derived);
    let lost: Vec<u64> = match of_all {
        true => vec![note.lost(); probes.len()],
        false => note.followed.iter().map(FollowedNote::gone).collect(),
    };
    let sampled = |followed: &FollowedNote| {
        followed.sampling.as_ref().map(|rule| format!("{} {rule}", followed.event))
    };
    let sampling: Vec<_> = match of_all {
        true => Vec::new(),
        false => note.followed.iter().map(sampled).collect(),
    };
    let gaps = Gaps { lost: &lost, sampling: &sampling };
    pipeline.report(usize::MAX, (note.ended_ns, note.seconds), &gaps)
}
