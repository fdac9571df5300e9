use super::*;

const MS: i64 = 1_000_000;

fn times(phases: &[(i64, i64)]) -> PhaseTimes {
    let mut times = PhaseTimes::default();
    for (from, to) in phases {
        times.add(&PhaseRow {
            name: "store".into(),
            process: 7,
            thread: 7,
            started_ns: from * MS,
            ended_ns: to * MS,
            ..PhaseRow::default()
        });
    }
    times
}

/// Samples at each `every` milliseconds to 1,000 of what has been used or is held then.
fn report(phases: &[(i64, i64)], every: i64, series: &[(&str, &dyn Fn(i64) -> f64)]) -> PhaseUsage {
    let mut survey = PhaseSurvey::new(times(phases), 0);
    for at in (1..=1000).filter(|at| at % every == 0) {
        for (metric, value) in series {
            survey.sample(&SampleRow {
                time_ns: at * MS,
                scope: "job".into(),
                metric: metric.to_string(),
                value: value(at),
            });
        }
    }
    survey.report(&BTreeMap::new(), "./solver".into(), "store".into())
}

fn named<'a>(report: &'a PhaseUsage, metric: &str) -> &'a PhaseResource {
    let found = report.resources.iter().find(|resource| resource.series == metric);
    found.unwrap_or_else(|| panic!("no {metric} in {report:#?}"))
}

/// 997 bytes a millisecond from 200 to 500 ms, 3 outside.
fn written(at: i64) -> f64 {
    let inside = at.clamp(200, 500) - 200;
    (inside * 997 + (at - inside) * 3) as f64
}

/// A CPU outside of that.
fn cpu(at: i64) -> f64 {
    (at - (at.clamp(200, 500) - 200)) as f64 * 1e-3
}

#[test]
fn rates_are_those_of_intervals_on_either_side_and_totals_are_exact() {
    let series: [(&str, &dyn Fn(i64) -> f64); 2] =
        [("io_written_bytes_total", &written), ("cpu_seconds", &cpu)];
    let report = report(&[(200, 500)], 10, &series);
    assert_eq!((report.phases_total, report.inside_seconds, report.run_seconds), (1, 0.3, 1.0));
    let written = named(&report, "io_written_bytes_total");
    assert_eq!(written.verdict, PhaseVerdict::More);
    assert!((written.inside.unwrap() - 997_000.0).abs() < 1e-3, "{written:?}");
    assert!((written.outside.unwrap() - 3_000.0).abs() < 1e-3, "{written:?}");
    let share = [written.inside_at_least, written.inside_at_most, written.inside_estimate];
    assert_eq!((share, written.total), ([Some(299_100.0); 3], Some(301_200.0)));
    let cpu = named(&report, "cpu_seconds");
    assert_eq!(
        (cpu.verdict, cpu.inside, cpu.contrast),
        (PhaseVerdict::Less, Some(0.0), Some(-1.0))
    );
    assert!((cpu.outside.unwrap() - 1.0).abs() < 1e-9, "{cpu:?}");
    // What moves most comes first.
    assert_eq!(report.resources[0].series, "cpu_seconds");
}

#[test]
fn a_border_inside_of_an_interval_leaves_bounds_that_hold_the_truth() {
    let report = report(&[(200, 500)], 70, &[("io_written_bytes_total", &written)]);
    let written = named(&report, "io_written_bytes_total");
    let [least, most] = [written.inside_at_least, written.inside_at_most].map(Option::unwrap);
    assert!(least < 299_100.0 && 299_100.0 < most, "{written:?}");
    assert!((written.inside.unwrap() - 997_000.0).abs() < 1e-3, "{written:?}");
    assert!((report.interval_seconds[0] - 0.07).abs() < 1e-9, "{:?}", report.interval_seconds);
}

#[test]
fn a_phase_shorter_than_the_interval_has_no_rate_but_a_reason() {
    let report = report(&[(203, 206), (603, 606)], 10, &[("io_written_bytes_total", &written)]);
    let written = named(&report, "io_written_bytes_total");
    assert_eq!((written.verdict, written.inside), (PhaseVerdict::Unknown, None));
    assert_eq!((written.difference, written.contrast), (None, None));
    assert!(written.outside.is_some());
    assert_eq!(written.inside_at_least, Some(0.0));
    assert_eq!(written.inside_at_most, Some(9_970.0 + 30.0));
    let reason = written.reason.as_deref().unwrap();
    assert!(reason.contains("10.0 ms") && reason.contains("took 3.0 ms at most"), "{reason}");
}

#[test]
fn a_phase_that_is_the_whole_run_has_nothing_outside() {
    let report = report(&[(0, 1000)], 10, &[("cpu_seconds", &cpu)]);
    let cpu = named(&report, "cpu_seconds");
    assert_eq!((cpu.verdict, cpu.outside), (PhaseVerdict::Unknown, None));
    assert!(cpu.reason.as_deref().unwrap().contains("outside of the phase"));
    assert_eq!(cpu.inside_at_least, cpu.total);
}

#[test]
fn a_level_is_a_mean_over_time_with_its_greatest() {
    let memory = |at: i64| if (200..500).contains(&at) { 5e6 } else { 1e6 };
    let report = report(&[(200, 500)], 10, &[("memory_bytes", &memory)]);
    let [memory] = &report.resources[..] else { panic!("{report:#?}") };
    assert_eq!((memory.kind, memory.verdict), (ResourceKind::Level, PhaseVerdict::More));
    let [inside, outside] = [memory.inside, memory.outside].map(Option::unwrap);
    assert!((inside - 5e6).abs() < 1e-3 && (outside - 1e6).abs() < 1e-3, "{memory:?}");
    assert_eq!((memory.inside_max, memory.outside_max), (Some(5e6), Some(1e6)));
    assert_eq!(memory.total, None);
}

#[test]
fn what_is_next_to_nothing_says_nothing_and_zero_has_no_row() {
    let few = |at: i64| if at > 300 { 7.0 } else { 0.0 };
    let none = |_: i64| 0.0;
    let series: [(&str, &dyn Fn(i64) -> f64); 2] =
        [("files_opened_total", &few), ("io_read_bytes_total", &none)];
    let report = report(&[(200, 500)], 10, &series);
    let [faults] = &report.resources[..] else { panic!("{report:#?}") };
    assert_eq!(faults.verdict, PhaseVerdict::Little);
}

#[test]
fn threads_that_are_in_it_at_one_time_count_once() {
    let mut times = times(&[(200, 400)]);
    times.add(&PhaseRow {
        thread: 8,
        started_ns: 300 * MS,
        ended_ns: 500 * MS,
        ..PhaseRow::default()
    });
    let survey = PhaseSurvey::new(times, 0);
    let report = survey.report(&BTreeMap::new(), String::new(), "store".into());
    assert_eq!((report.phases_total, report.threads_total), (2, 2));
    assert_eq!((report.shortest_seconds, report.longest_seconds), (0.2, 0.2));
}
