//! `weigh show --regions`: times of regions, of a recording or of a profile that a program has kept in a file.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde::Serialize;
use weigh_account::regions::{
    FlatRegions, ProfileContext, RegionTotals, TickScale, TreeLine, phase_rows, process_rows,
    region_tree,
};
use weigh_collect::profile::{clock_pair, is_profile, read_file};
use weigh_keep::Recording;
use weigh_schema::region::snapshot::ProfileSnapshot;
use weigh_schema::region::{
    PhaseReport, PhaseRow, REGIONS, RegionKind, RegionRow, RegionsFound, RegionsReport,
    ThreadReport,
};
use weigh_show::regions::{RegionLine, render_flat, render_tree};

use crate::terminal::{print, print_json, screen};
use weigh_arguments::ShowArguments;

/// What is shown of one recording or file.
struct Shown {
    rows: Vec<RegionRow>,
    phases: Vec<PhaseRow>,
    /// Where times of phases are counted from, on their clock.
    start_ns: i64,
    found: RegionsFound,
}

/// Shows it.
pub fn show(arguments: &ShowArguments) -> anyhow::Result<ExitCode> {
    let shown = match is_profile(&arguments.recording) {
        true => of_file(&arguments.recording)?,
        false => of_recording(&arguments.recording, arguments.json)?,
    };
    if arguments.json {
        print_json(&(json(shown, arguments)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen = screen(&std::io::stdout(), 80);
    print(&match arguments.flat {
        true => render_flat(&shown.found, &flat(&shown.rows), screen),
        false => tree(&shown, arguments.threads, screen),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn tree(shown: &Shown, by_thread: bool, screen: weigh_show::Screen) -> String {
    let lines = region_tree(&shown.rows, by_thread);
    let lines: Vec<RegionLine<'_>> = lines.iter().map(region_line).collect();
    render_tree(&shown.found, &lines, screen)
}

fn flat(rows: &[RegionRow]) -> Vec<weigh_schema::region::FlatRegion> {
    let mut flat = FlatRegions::default();
    rows.iter().for_each(|row| flat.add(row));
    flat.finish()
}

fn json(shown: Shown, arguments: &ShowArguments) -> anyhow::Result<String> {
    let Shown { rows, phases, start_ns, found } = shown;
    let threads = match arguments.threads {
        true => rows.iter().filter(|row| row.kind == RegionKind::Thread).map(thread).collect(),
        false => Vec::new(),
    };
    let phases = phases.into_iter().map(|row| phase(row, start_ns)).collect();
    let found = RegionsFound { top: Vec::new(), ..found };
    match arguments.flat {
        true => report(flat(&rows), phases, threads, found),
        false => {
            let is_region = |row: &RegionRow| row.kind != RegionKind::Thread;
            report(rows.into_iter().filter(is_region).collect(), phases, threads, found)
        }
    }
}

fn report<Row: Serialize>(
    regions: Vec<Row>,
    phases: Vec<PhaseReport>,
    threads: Vec<ThreadReport>,
    found: RegionsFound,
) -> anyhow::Result<String> {
    let report = RegionsReport { schema: REGIONS.to_string(), regions, phases, threads, found };
    Ok(serde_json::to_string_pretty(&report)?)
}

fn thread(row: &RegionRow) -> ThreadReport {
    ThreadReport {
        process: row.process,
        thread: row.thread,
        rank: row.rank,
        name: row.name.clone(),
        name_base64: row.name_base64.clone(),
        wall_seconds: row.inclusive_seconds,
        outside_seconds: row.exclusive_seconds,
    }
}

fn phase(row: PhaseRow, start_ns: i64) -> PhaseReport {
    let seconds = |at: i64| at.saturating_sub(start_ns) as f64 * 1e-9;
    PhaseReport {
        name: row.name,
        name_base64: row.name_base64,
        iteration: row.iteration,
        start_seconds: seconds(row.started_ns),
        end_seconds: seconds(row.ended_ns),
        process: row.process,
        thread: row.thread,
    }
}

fn of_recording(directory: &Path, with_phases: bool) -> anyhow::Result<Shown> {
    let recording = Recording::open(directory)?;
    let summary = recording.summary();
    let (mut rows, mut phases) = (Vec::new(), Vec::new());
    recording.each_region(|row| rows.push(row))?;
    let read = recording.each_phase(|row| phases.push(row));
    if with_phases {
        read?;
    }
    let found = match &summary.regions {
        Some(found) => (**found).clone(),
        None if rows.is_empty() && phases.is_empty() && !recording.is_complete() => {
            bail!("nothing of regions yet: of processes that run they are written now and then")
        }
        None if rows.is_empty() && phases.is_empty() => {
            bail!(
                "no program of this job named regions (see the page `regions` of weigh's documentation)"
            )
        }
        // It was cut short: there is what the rows say.
        None => RegionsFound::default(),
    };
    let start_ns = summary.job.started.as_nanosecond() as i64;
    Ok(Shown { rows, phases, start_ns, found })
}

fn region_line(line: &TreeLine) -> RegionLine<'_> {
    RegionLine { depth: line.depth, row: &line.row, threads: line.threads }
}

fn of_file(path: &Path) -> anyhow::Result<Shown> {
    let at = || path.display().to_string();
    let snapshot = read_file(path).with_context(at)?;
    let scale = scale(&snapshot).with_context(at)?;
    let context = ProfileContext { process: snapshot.pid, scale, until: snapshot.last.ticks };
    let phases = phase_rows(&snapshot, &context, 0);
    let made = process_rows(&snapshot, &context);
    let mut totals = RegionTotals::default();
    totals.process(&snapshot);
    totals.lose("rows", made.left_out);
    made.rows.iter().for_each(|row| totals.row(row));
    let start_ns = i64::try_from(snapshot.first.ns).unwrap_or(i64::MAX);
    Ok(Shown { rows: made.rows, phases, start_ns, found: totals.finish() })
}

/// How long ticks are: by the two moments in the file, or, where the program was killed before the second one, by this
/// machine's clock now.
fn scale(snapshot: &ProfileSnapshot) -> anyhow::Result<TickScale> {
    let (clock, first) = (snapshot.clock, snapshot.first);
    TickScale::between(clock, first, snapshot.last)
        .or_else(|| TickScale::between(clock, first, clock_pair(clock)))
        .context("the program was killed before its clock could be compared with another one")
}
