use std::sync::Arc;

use weigh_schema::profile::ProfileClock;
use weigh_schema::region::snapshot::{
    ClockPair, CostsLink, NodeNumbers, OpenFrame, ProfileCosts, ProfileLosses,
};
use weigh_schema::subsystem::Account;

use super::*;

const MS: u64 = 1_000_000;

/// A process of one thread, whose clock ticks in nanoseconds.
fn snapshot(names: &[&str]) -> ProfileSnapshot {
    let mut all = vec![String::new(), OTHER_NAME.to_string()];
    all.extend(names.iter().map(ToString::to_string));
    let mut snapshot = ProfileSnapshot {
        pid: 7,
        rank: None,
        clock: ProfileClock::Monotonic,
        first: ClockPair::default(),
        last: ClockPair::default(),
        epoch: 1,
        has_ended: true,
        names: Arc::new(all),
        nodes: Vec::new(),
        costs: Vec::new(),
        threads: Vec::new(),
        phases: Vec::new(),
        events: Vec::new(),
        metadata: Vec::new(),
        lost: ProfileLosses::default(),
    };
    add(&mut snapshot, 0, 0, NodeKind::Root, NodeNumbers::default());
    snapshot.threads.push(ProfileThread {
        tid: 70,
        name: "main".into(),
        begun: 10 * MS,
        ended: Some(110 * MS),
        root: 0,
        open: Vec::new(),
        deeper: 0,
    });
    snapshot
}

/// Adds a node; returns its number.
fn add(
    to: &mut ProfileSnapshot,
    parent: usize,
    name: usize,
    kind: NodeKind,
    numbers: NodeNumbers,
) -> usize {
    to.nodes.push(Some(ProfileNode {
        parent,
        name,
        thread: 0,
        kind,
        braked: 0,
        unbalanced: 0,
        is_unsettled: false,
        costs: CostsLink::Unbound,
        numbers,
    }));
    to.nodes.len() - 1
}

fn region(to: &mut ProfileSnapshot, parent: usize, name: usize, calls: u64, ms: [u64; 2]) -> usize {
    let [inclusive, exclusive] = ms.map(|ms| ms * MS);
    let (min, max) = (inclusive / calls.max(1), inclusive / calls.max(1));
    let numbers =
        NodeNumbers { epoch: 1, calls, timed: calls, inclusive, exclusive, min, max, squares: 0.0 };
    add(to, parent, name, NodeKind::Region, numbers)
}

fn rows(snapshot: &ProfileSnapshot) -> Vec<RegionRow> {
    let scale = TickScale::between(snapshot.clock, snapshot.first, snapshot.last).unwrap();
    let context = ProfileContext { process: 1007, scale, until: 110 * MS };
    process_rows(snapshot, &context).rows
}

fn flat(rows: &[RegionRow]) -> Vec<weigh_schema::region::FlatRegion> {
    let mut flat = FlatRegions::default();
    rows.iter().for_each(|row| flat.add(row));
    flat.finish()
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn exclusive_times_and_what_is_outside_make_up_the_wall_time() {
    let mut profile = snapshot(&["solve", "step", "halo"]);
    let solve = region(&mut profile, 0, 2, 3, [60, 15]);
    let step = region(&mut profile, solve, 3, 41, [45, 25]);
    region(&mut profile, step, 4, 82, [20, 20]);
    let rows = rows(&profile);
    let paths: Vec<String> = rows.iter().map(|row| row.path.join("/")).collect();
    assert_eq!(paths, ["", "solve", "solve/step", "solve/step/halo"]);
    assert!(is_near(rows[0].inclusive_seconds, 0.1) && is_near(rows[0].exclusive_seconds, 0.04));
    let sum: f64 = rows.iter().map(|row| row.exclusive_seconds).sum();
    assert!(is_near(sum, rows[0].inclusive_seconds), "{sum}");
    assert_eq!((rows[2].calls, rows[2].process, rows[2].thread), (41, 1007, 70));
    assert!(rows.iter().all(|row| row.quality == Quality::Exact));
}

#[test]
fn what_is_open_is_in_no_sum_and_told_by_itself() {
    let mut profile = snapshot(&["solve", "step"]);
    let solve = region(&mut profile, 0, 2, 0, [0, 0]);
    region(&mut profile, solve, 3, 2, [10, 10]);
    profile.threads[0].ended = None;
    let inside = 10 * MS;
    profile.threads[0].open = vec![OpenFrame { node: solve, begun: Some(80 * MS), inside }];
    let rows = rows(&profile);
    assert_eq!((rows[1].calls, rows[1].open_calls, rows[1].min_seconds), (0, 1, None));
    assert!(is_near(rows[1].open_seconds.unwrap(), 0.03));
    assert!(is_near(rows[0].exclusive_seconds, 0.07), "outside: {}", rows[0].exclusive_seconds);
}

/// What found no place is below the root, wherever it was called.
#[test]
fn calls_without_a_place_are_in_no_time_twice() {
    let mut profile = snapshot(&["solve"]);
    region(&mut profile, 0, 2, 1, [60, 40]);
    region(&mut profile, 0, 1, 7, [20, 20]);
    let rows = rows(&profile);
    assert!(is_near(rows[0].exclusive_seconds, 0.04), "outside: {}", rows[0].exclusive_seconds);
    let sum: f64 = rows.iter().map(|row| row.exclusive_seconds).sum();
    assert!(is_near(sum, rows[0].inclusive_seconds), "{sum}");
}

#[test]
fn recursion_is_not_counted_twice() {
    let mut profile = snapshot(&["walk"]);
    let outer = region(&mut profile, 0, 2, 1, [50, 10]);
    let inner = region(&mut profile, outer, 2, 2, [40, 15]);
    region(&mut profile, inner, 2, 4, [25, 25]);
    let flat = flat(&rows(&profile));
    assert_eq!((flat.len(), flat[0].calls, flat[0].threads), (1, 7, 1));
    assert!(is_near(flat[0].inclusive_seconds, 0.05) && is_near(flat[0].exclusive_seconds, 0.05));
    assert!(is_near(flat[0].min_seconds.unwrap(), 0.00625));
}

#[test]
fn a_braked_region_has_an_estimate_within_its_error() {
    // 1,000 calls of 3 µs before; then 6,400, of which one in 64 was timed: calls take 900 and 1,100 ns in turn.
    let (before, timed, calls) = (1_000u64, 1_100u64, 7_400u64);
    let mut profile = snapshot(&["outer", "hot"]);
    let outer = region(&mut profile, 0, 2, 1, [20, 0]);
    let numbers = NodeNumbers {
        epoch: 1,
        calls,
        timed,
        inclusive: before * 3_000 + (timed - before) * 1_000,
        exclusive: before * 3_000,
        min: 900,
        max: 3_000,
        squares: 50.0 * (900.0 * 900.0 + 1_100.0 * 1_100.0),
    };
    let hot = add(&mut profile, outer, 3, NodeKind::Region, numbers);
    profile.nodes[hot].as_mut().unwrap().braked = before;
    profile.nodes[outer].as_mut().unwrap().numbers.exclusive = 20 * MS - numbers.inclusive;
    let rows = rows(&profile);
    let (outer, hot) = (&rows[1], &rows[2]);
    assert_eq!((hot.calls, hot.timed_calls, hot.quality), (calls, Some(timed), Quality::Sampled));
    assert!(is_near(hot.inclusive_seconds, 3_000e-6 + 6_400e-6));
    let error = hot.error_seconds.unwrap();
    // 6,300 calls of a mean that is known to 100 ns / √99, and of themselves 100 ns apart.
    let expected =
        1e-9 * (6_300f64.powi(2) * 10_000.0 / 99.0 + 6_300.0 * 10_000.0 * 100.0 / 99.0).sqrt();
    assert!((error - expected).abs() < 1e-3 * expected, "{error} {expected}");
    // What was not timed is not the caller's own.
    assert!(is_near(outer.exclusive_seconds, 0.02 - 9_400e-6) && outer.quality == Quality::Sampled);
    assert!(is_near(rows.iter().map(|row| row.exclusive_seconds).sum(), 0.1));
}

#[test]
fn ranges_are_in_nobodys_exclusive_time() {
    let mut profile = snapshot(&["transfer"]);
    let numbers = NodeNumbers {
        epoch: 1,
        calls: 5,
        timed: 5,
        inclusive: 900 * MS,
        exclusive: 900 * MS,
        ..NodeNumbers::default()
    };
    add(&mut profile, 0, 2, NodeKind::Range, numbers);
    let rows = rows(&profile);
    assert_eq!(rows[1].kind, RegionKind::Range);
    assert!(is_near(rows[0].exclusive_seconds, 0.1) && is_near(rows[1].inclusive_seconds, 0.9));
}

#[test]
fn ranks_are_compared() {
    let of_rank = |rank, ms| {
        let mut profile = snapshot(&["halo"]);
        profile.rank = Some(rank);
        if ms > 0 {
            region(&mut profile, 0, 2, 1, [ms, ms]);
        }
        rows(&profile)
    };
    let rows = [of_rank(0, 10), of_rank(1, 30), of_rank(2, 0)].concat();
    let flat = flat(&rows);
    let ranks = flat[0].ranks.clone().unwrap();
    assert_eq!((ranks.ranks, ranks.max_rank), (3, 1));
    assert!(is_near(ranks.imbalance_ratio, 2.25), "{ranks:?}");
    assert!(is_near(flat[0].longest_thread_seconds, 0.04), "one thread number in each of them");
}

#[test]
fn totals_add_counters_up_and_say_what_is_lost() {
    let mut profile = snapshot(&["cells", "residual"]);
    let whole = |sum: i64, calls| NodeNumbers {
        epoch: 1,
        calls,
        inclusive: sum.cast_unsigned(),
        min: (-5i64).cast_unsigned(),
        max: 9,
        ..NodeNumbers::default()
    };
    add(&mut profile, 0, 2, NodeKind::Counter, whole(-7, 3));
    add(&mut profile, 0, 2, NodeKind::Counter, whole(40, 2));
    let last =
        NodeNumbers { epoch: 1, calls: 4, exclusive: 0.25f64.to_bits(), ..NodeNumbers::default() };
    add(&mut profile, 0, 3, NodeKind::Gauge, last);
    profile.metadata.push(("input".into(), "a".into()));
    profile.lost.phases = 3;
    profile.has_ended = false;
    let mut totals = RegionTotals::default();
    assert!(totals.is_empty());
    totals.process(&profile);
    profile.metadata[0].1 = "b".into();
    totals.process(&profile);
    totals.refused("no profile");
    let found = totals.finish();
    let values: Vec<_> =
        found.counters.iter().map(|c| (c.name.as_str(), c.value, c.samples, c.min)).collect();
    assert_eq!(values, [("cells", 66.0, 10, -5.0), ("residual", 0.25, 8, 0.0)]);
    assert_eq!(
        (found.metadata["input"].as_str(), &found.metadata_differs[..]),
        ("a", &["input".to_string()][..])
    );
    assert_eq!(
        (found.lost["phases"], found.refused["no profile"], found.cut_short_total),
        (6, 1, 2)
    );
    assert_eq!(counter_series(&profile, 1), [("region:cells".to_string(), 33.0)].into());
}

#[test]
fn an_exec_is_no_cut() {
    let mut profile = snapshot(&["cells"]);
    profile.has_ended = false;
    let mut totals = RegionTotals::default();
    totals.executed(&profile);
    totals.executed(&profile);
    totals.process(&profile);
    totals.without_another(1);
    let found = totals.finish();
    assert_eq!((found.processes_total, found.executed_total, found.cut_short_total), (2, 2, 1));
}

#[test]
fn ticks_of_any_length_become_seconds() {
    let pair = |ticks, ns| ClockPair { ticks, ns };
    let scale =
        TickScale::between(ProfileClock::Counter, pair(1_000, 5_000), pair(4_000, 6_000)).unwrap();
    assert!(is_near(scale.seconds(3e9), 1.0));
    assert_eq!((scale.monotonic_ns(1_300), scale.monotonic_ns(700)), (5_100, 4_900));
    assert_eq!(TickScale::between(ProfileClock::Counter, pair(5, 5), pair(5, 5)), None);
}

#[test]
fn long_paths_are_left_out_and_counted() {
    let name = "n".repeat(1023);
    let mut profile = snapshot(&[&name]);
    let mut parent = 0;
    for _ in 0..600 {
        parent = region(&mut profile, parent, 2, 1, [1, 1]);
    }
    let scale = TickScale::between(profile.clock, profile.first, profile.last).unwrap();
    let found = process_rows(&profile, &ProfileContext { process: 1, scale, until: 0 });
    assert!(found.left_out > 300 && found.rows.len() > 200, "{}", found.left_out);
}

#[test]
fn trees_of_threads_are_added_up_with_the_greatest_first() {
    let mut profile = snapshot(&["a", "b"]);
    region(&mut profile, 0, 2, 1, [10, 10]);
    region(&mut profile, 0, 3, 1, [20, 20]);
    let mut rows = rows(&profile);
    rows.extend(rows.clone().into_iter().map(|row| RegionRow { thread: 71, ..row }));
    let names = |by_thread| -> Vec<_> {
        let lines = region_tree(&rows, by_thread).into_iter();
        lines.map(|line| (line.depth, line.row.name, line.row.calls, line.threads)).collect()
    };
    assert_eq!(names(false), [(1, "b".into(), 2, 2), (1, "a".into(), 2, 2)]);
    let of_thread = [(0, "main".into(), 1, 1), (1, "b".into(), 1, 1), (1, "a".into(), 1, 1)];
    assert_eq!(names(true), [&of_thread[..], &of_thread[..]].concat());
}

/// A program may say of each of its places that it has the same account: one alone has it.
#[test]
fn an_account_is_of_one_place() {
    let mut profile = snapshot(&["solve", "step"]);
    let solve = region(&mut profile, 0, 2, 1, [50, 10]);
    let step = region(&mut profile, solve, 3, 1, [40, 40]);
    let account = Account::default();
    let costs =
        ProfileCosts { node: step as u64, wanted: 1, reason: 0, account, is_unsettled: false };
    profile.costs = vec![Some(costs)];
    for node in profile.nodes.iter_mut().flatten() {
        node.costs = CostsLink::Record(0);
    }
    let rows = rows(&profile);
    let reason = |row: &RegionRow| row.kernel_costs.as_ref().and_then(|costs| costs.reason.clone());
    assert_eq!(reason(&rows[1]).as_deref(), Some("its account makes no sense"));
    assert_eq!(reason(&rows[2]).as_deref(), Some("no call of the region has ended"));
    let mut totals = RegionTotals::default();
    rows.iter().for_each(|row| totals.row(row));
    let found = totals.finish();
    assert_eq!(found.kernel_costs_unavailable.values().sum::<u64>(), 2);
}

/// Else a profile of 4,096 threads would be gone through 4,096 times.
#[test]
fn a_tree_that_several_threads_say_is_theirs_is_one_threads() {
    let mut snapshot = snapshot(&["a"]);
    let outer = region(&mut snapshot, 0, 2, 17, [40, 30]);
    region(&mut snapshot, outer, 2, 3, [10, 10]);
    // The tree, a part of it, and two nodes around each other.
    let one = add(&mut snapshot, 4, 2, NodeKind::Region, NodeNumbers::default());
    let other = region(&mut snapshot, one, 2, 5, [1, 1]);
    for root in [0, outer, other, one] {
        let thread = ProfileThread { root, ..snapshot.threads[0].clone() };
        snapshot.threads.push(thread);
    }
    let scale = TickScale::between(
        ProfileClock::Monotonic,
        ClockPair::default(),
        ClockPair { ticks: MS, ns: MS },
    );
    let context = ProfileContext { process: 7, scale: scale.expect("time"), until: 110 * MS };
    let rows = process_rows(&snapshot, &context).rows;
    let regions = rows.iter().filter(|row| row.kind != RegionKind::Thread);
    assert_eq!(regions.map(|row| row.calls).collect::<Vec<u64>>(), [17, 3]);
}
