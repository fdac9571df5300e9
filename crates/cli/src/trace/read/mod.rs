//! `weigh trace read`: a recording again, through the same ways as a stream that runs.
//!
//! Reads the `.parquet` file of `weigh trace`; hands its records to what shows, writes and synthesises those of
//! the kernel. Refuses what is no recording, is damaged or newer, and fields and events that it has not.

mod rows;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::{FollowedNote, Origin, TraceNote};
use weigh_trace::probe::Probe;
use weigh_trace::recorded::filter::RecordedFilter;
use weigh_trace::sink::{Meaning, Totals};
use weigh_trace::synthesis::Gaps;
use weigh_trace::synthesis::derived::is_derived;

use super::asked::{self, Asked};
use super::way::Way;
use crate::arguments::{TraceArguments, TraceReadArguments};
use crate::destination::Destination;
use crate::show::is_enough;
use rows::Recording;

/// What was read.
struct Read {
    totals: Totals,
    /// How many events are in the file.
    rows: u64,
    /// Those that could not be written into it.
    unwritten: u64,
    failed: Option<anyhow::Error>,
}

/// Shows a recording, says what several of its events say together, or writes it in another form.
pub fn execute(arguments: &TraceReadArguments) -> anyhow::Result<ExitCode> {
    let stream = as_stream(arguments);
    if stream.synthesis.live {
        bail!("--live draws what goes on; all of a recording is there at once");
    }
    let mut asked = asked::read(&stream)?;
    let recording = Recording::open(&arguments.file)?;
    if let Some(output) = &stream.output
        && is_same(output, &arguments.file)
    {
        bail!("-o {}: that is the recording itself", output.display());
    }
    let probes: Vec<&Probe> = recording.probes().iter().collect();
    let filters = arguments.filters.iter().map(|text| {
        RecordedFilter::parse(text, &probes).map_err(|refusal| anyhow!("--filter: {refusal}"))
    });
    let filters: Vec<RecordedFilter> = filters.collect::<Result<_, _>>()?;
    let json = stream.synthesis.json.as_deref().map(Destination::open).transpose()?;
    let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
    asked::of_page(&mut asked, stream.output.as_deref(), &names);
    // Rows come in the order of their times.
    let way = Way::new(&stream, &asked, &probes, false)?;
    let read = hand_on(&recording, &asked, &filters, way)?;
    match read.failed {
        // Whoever reads standard output may have read enough.
        Some(error) if is_enough(&error) && super::session::writes_to_output(&stream) => {
            return Ok(ExitCode::SUCCESS);
        }
        Some(error) => return Err(error),
        None => {}
    }
    if !arguments.quiet {
        weigh_collect::message::show(&told(&read));
    }
    if let Some(found) = &read.totals.synthesis {
        if !arguments.quiet {
            super::tell(&stream, found)?;
        }
        if let Some(json) = json {
            json.write(&(serde_json::to_string_pretty(found)? + "\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What `weigh trace` would have to be told.
fn as_stream(arguments: &TraceReadArguments) -> TraceArguments {
    TraceArguments {
        filters: arguments.filters.clone(),
        output: arguments.output.clone(),
        counters: arguments.counters.clone(),
        quiet: arguments.quiet,
        synthesis: arguments.synthesis.clone(),
        ..TraceArguments::default()
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// All records of a recording, through the way of those that have just come.
fn hand_on(
    recording: &Recording,
    asked: &[Asked],
    filters: &[RecordedFilter],
    mut way: Way,
) -> anyhow::Result<Read> {
    let (note, probes) = (recording.note(), recording.probes());
    let Origin { began_ns, epoch_ns, .. } = note.origin;
    let meaning = Meaning::recorded(began_ns, epoch_ns, &note.threads);
    let probe = |event: u32| probes.get(event as usize);
    let (mut taken, mut failed) = (0, None);
    // Those of several CPUs are not in the order of time.
    let in_order = !asked.is_empty();
    let read = recording.each_batch(in_order, &meaning, |records, until_ns| {
        for record in records {
            let Some(probe) = probe(record.event()) else { continue };
            if filters.iter().all(|filter| filter.holds(probe, record)) {
                taken += 1;
                way.take(probe, record, &meaning)?;
            }
        }
        way.end_round(Some(until_ns), &probe, &meaning)
    });
    match read.and_then(|()| way.end(note.ended_ns, &probe, &meaning)) {
        Err(error) if is_damage(&error) => return Err(error),
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
    totals.synthesis = found(&way, note, probes);
    let finished = way.finish(&totals, &meaning);
    let failed = failed.or(finished.err());
    Ok(Read { totals, rows: recording.rows(), unwritten: note.unwritten_total, failed })
}

/// What is wrong is what was read, not what is written: nothing of the rest is told.
fn is_damage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<weigh_keep::KeepError>().is_some_and(|error| {
        matches!(error, weigh_keep::KeepError::Damaged { .. } | weigh_keep::KeepError::Read { .. })
    })
}

/// What several events say together.
fn found(way: &Way, note: &TraceNote, probes: &[Probe]) -> Option<SynthesisReport> {
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
    way.report(usize::MAX, (note.ended_ns, note.seconds), &gaps)
}

fn told(read: &Read) -> String {
    let Read { totals, rows, unwritten, .. } = read;
    let (taken, seconds, lost) = (totals.taken, totals.seconds, totals.lost());
    let of_all = if taken == *rows { String::new() } else { format!(" of {rows}") };
    let mut told = format!("weigh: {taken}{of_all} events in {seconds:.3} s, {lost} lost\n");
    if *unwritten > 0 {
        told += &format!(
            "weigh: the recording ends early: {unwritten} events could not be written into it\n"
        );
    }
    told
}
