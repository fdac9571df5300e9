//! Memory: the peak of a job at one moment, against what the programs say of themselves.
//!
//! The programs walk their own page tables for the truth, so that it is right to the page.

mod support;

use support::measured::Measured;
use support::run::Weigh;
use support::worth_the_time;

/// What a process of its own may be off by.
const SINGLE: f64 = 0.005;
/// What several processes or threads together may be off by.
const TOGETHER: f64 = 0.01;
/// What memory that processes share may be off by.
const SHARED: f64 = 0.03;

#[track_caller]
fn a_filled_process_is_seen(line: &str) {
    let measured = Weigh::workload(line).end();
    let truth = measured.truth("peak_rss_bytes");
    for metric in
        ["memory_peak_bytes", "memory_peak_rss_sum_bytes", "memory_peak_process_rss_bytes"]
    {
        measured.is_near(metric, truth, SINGLE);
    }
    // Little else is mapped: half as much again would be a fault in the sum.
    measured.is_between("memory_peak_virtual_bytes", truth as f64 * 0.99, truth as f64 * 1.5);
    measured.is("memory_peak_swap_bytes", 0);
}

#[test]
fn fills_and_exits() {
    needs_root!();
    a_filled_process_is_seen("fill 257000000 exit");
}

#[test]
fn fills_and_exits_static() {
    needs_root!();
    a_filled_process_is_seen("fill-static 257000000 exit");
}

#[test]
fn fills_and_exits_without_ceremony() {
    needs_root!();
    for program in worth_the_time(&["fill", "fill-static"], 1) {
        a_filled_process_is_seen(&format!("{program} 257000000 _exit"));
    }
}

#[test]
fn fills_and_is_killed() {
    needs_root!();
    for program in worth_the_time(&["fill", "fill-static"], 1) {
        a_filled_process_is_seen(&format!("{program} 257000000 kill"));
    }
}

#[test]
fn fills_and_frees_before_it_exits() {
    needs_root!();
    for program in worth_the_time(&["fill", "fill-static"], 1) {
        a_filled_process_is_seen(&format!("{program} 257000000 free"));
    }
}

#[test]
fn a_spike_of_a_millisecond() {
    needs_root!();
    a_filled_process_is_seen("spike 300000001 1");
}

#[test]
fn threads_together() {
    needs_root!();
    let measured = Weigh::workload("threads 64 400000001").measure();
    let truth = measured.truth("peak_rss_bytes");
    for metric in
        ["memory_peak_bytes", "memory_peak_rss_sum_bytes", "memory_peak_process_rss_bytes"]
    {
        measured.is_near(metric, truth, TOGETHER);
    }
}

/// The sum over the tree, sharing counted per process and counted once.
#[track_caller]
fn children_are_seen(line: &str) -> Measured {
    let measured = Weigh::workload(line).measure();
    let rss = measured.truth("rss_sum_peak_bytes");
    measured.is_near("memory_peak_rss_sum_bytes", rss, TOGETHER);
    // Counted once lies between the proportional sum and the plain one.
    let pss = measured.truth("pss_sum_peak_bytes");
    measured.is_between(
        "memory_peak_bytes",
        pss as f64 * (1.0 - TOGETHER),
        rss as f64 * (1.0 + TOGETHER),
    );
    measured.is_near("memory_peak_bytes", measured.truth("filled_peak_bytes"), TOGETHER);
    measured
}

#[test]
fn two_children_together() {
    needs_root!();
    let measured = children_are_seen("children 2 300000000 together");
    measured.is_between("memory_peak_bytes", 600e6, 606e6);
    measured.is_between("memory_peak_process_rss_bytes", 300e6, 305e6);
    // Each child has its own size in its own row, the parent that holds nothing too.
    let sizes = sizes(&measured);
    measured.check(
        sizes.len() == 3
            && sizes[0] < 10_000_000
            && sizes[1..].iter().all(|size| (300_000_000..305_000_000).contains(size)),
        || format!("the rows say {sizes:?}, expected a small parent and two of 300 MB"),
    );
}

#[test]
fn two_children_in_turn() {
    needs_root!();
    let measured = children_are_seen("children 2 300000000 turn");
    measured.is_between("memory_peak_bytes", 300e6, 303e6);
}

#[test]
fn three_children_for_fifty_milliseconds() {
    needs_root!();
    for program in worth_the_time(&["children", "children-static"], 1) {
        children_are_seen(&format!("{program} 3 200000000 together 50"));
    }
}

/// The greatest resident size of each process, in ascending order.
fn sizes(measured: &Measured) -> Vec<u64> {
    let mut sizes: Vec<u64> = measured
        .processes()
        .iter()
        .map(|row| row.metrics["memory_peak_process_rss_bytes"].as_f64() as u64)
        .collect();
    sizes.sort();
    sizes
}

#[track_caller]
fn sharing_is_counted_once(kind: &str) {
    let hold = support::patience(2.0).as_millis();
    let measured = Weigh::workload(&format!("shared 5 500000000 {kind} {hold}")).measure();
    measured.is_near("memory_peak_bytes", measured.truth("filled_bytes"), SHARED);
    let rss = measured.truth("rss_sum_peak_bytes");
    measured.is_near("memory_peak_rss_sum_bytes", rss, TOGETHER);
    measured.check(rss > 2_450_000_000, || format!("the workload shared {rss} bytes only"));
}

#[test]
fn five_processes_share_after_a_fork() {
    needs_root!();
    sharing_is_counted_once("cow");
}

#[test]
fn five_processes_share_a_mapping() {
    needs_root!();
    sharing_is_counted_once("shm");
}

#[test]
fn memory_held_before_an_exec_counts_and_goes_with_it() {
    needs_root!();
    // The shell holds 40 MB, then becomes a program that needs little, then runs one that fills.
    let script = format!(
        "printf -v x '%20000000s' ''; exec bash -c 'sleep 0.05; {} 100000000'",
        support::workload("fill")
    );
    let measured = Weigh::bash(&script).measure();
    measured.is_near("memory_peak_process_rss_bytes", measured.truth("peak_rss_bytes"), SINGLE);
    // Had the exec not been noticed, the shell's memory would be added to the other's.
    measured.is_between("memory_peak_rss_sum_bytes", 100e6, 112e6);
}
