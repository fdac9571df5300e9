//! Limits on what several processes hold together.

use super::{LIMIT, crossed, ended_at, ended_by, grows_into, names_an_offender_with, progress};
use crate::support::processes;
use crate::support::run::Weigh;

/// How far each of them comes is the scheduler's, and when the pages are scanned depends on the load: no bound is about either.
#[test]
fn the_sum_of_four_processes() {
    needs_root!();
    const STEP: u64 = 1_000_000;
    // Until a scan finds them, copies of what a process has inherited are not counted: libraries' data, the stack.
    for (metric, inherited) in
        [("memory_peak_rss_sum_bytes", 0), ("memory_peak_bytes", 4 * (256 << 10))]
    {
        let grow = format!("grow children 4 {STEP} 1000 1000000000");
        let measured = grows_into(&format!("{metric}=100MB"), "", &grow);
        ended_by(&measured, metric);
        let observed = measured.summary().limits[0].observed.map_or(0.0, |n| n.as_f64());
        measured.check((1e8..=ended_at(4) as f64).contains(&observed), || {
            format!("{metric} was {observed} when the limit was found to be passed")
        });
        let most = ended_at(4) + inherited;
        measured.is_between(metric, LIMIT as f64 * 0.99, most as f64);
        measured.is("processes_total", 5);
        let progress = progress(&measured.scratch);
        let is_one = |rss: u64| {
            progress.iter().any(|by| (*by..=by + STEP + ended_at(1) - LIMIT).contains(&rss))
        };
        names_an_offender_with(&measured, is_one);
        // Each holds its own pages of libraries too. Once some have ended, the others may go on until they are ended.
        let touched: u64 = progress.iter().sum();
        measured
            .check(touched >= LIMIT - 15 * STEP, || format!("they had touched {progress:?} bytes"));
    }
}

/// No counter of the kernel tells of the copies: only a look at the pages does.
#[test]
fn copies_of_what_was_inherited() {
    needs_root!();
    let measured = grows_into("memory_peak_bytes=100MB", "", "grow copies 4 40000000");
    ended_by(&measured, "memory_peak_bytes");
    // While they have only inherited, five processes hold 40 MB.
    let outcome = &measured.summary().limits[0];
    let at = outcome.at_seconds.unwrap_or_default();
    measured.check(at > 0.15, || format!("ended after {at} s, before there were copies"));
    measured.is_between("memory_peak_bytes", LIMIT as f64, 205e6);
}

/// While all of them are stopped, the page tables say what they hold together.
#[test]
fn four_that_are_stopped_hold_what_is_allowed() {
    needs_root!();
    for (metric, field) in [("memory_peak_rss_sum_bytes", "Rss:"), ("memory_peak_bytes", "Pss:")] {
        let run = Weigh::workload("grow children 4 1000000 1000 1000000000")
            .options(&format!("--limit {metric}=100MB --on-limit stop"));
        let mut running = run.start();
        running.wait_for("the job is stopped");
        let mark = running.scratch.mark().to_path_buf();
        running.wait_until("all processes are stopped", 5.0, || {
            let job = processes::marked(&mark);
            job.len() == 5 && job.iter().all(|pid| processes::state(*pid) == Some('T'))
        });
        let job = running.scratch.survivors();
        let held: u64 = job.iter().map(|pid| processes::mapped_bytes(*pid, field)).sum();
        for pid in job {
            processes::signal(pid, 9);
        }
        let measured = running.end();
        crossed(&measured, metric);
        // Pages of libraries belong to other processes of the machine too, and so in part only to
        // these: up to 2 MB of what is counted once is not in the proportional sum.
        measured.check((97_000_000..=ended_at(5)).contains(&held), || {
            format!("{field} of all is {held} bytes when {metric} stops them at 100 MB")
        });
    }
}
