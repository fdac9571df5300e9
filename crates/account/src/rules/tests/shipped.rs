//! Shipped rules, each alone, against values that set it off and such that do not.

use super::*;

/// The rule of this name, alone.
fn shipped(name: &str) -> RuleState {
    let others = RuleSet::shipped();
    let others = others.rules().iter().filter(|rule| rule.name != name);
    let others: Vec<String> = others.map(|rule| format!("\"{}\"", rule.name)).collect();
    let text = format!("remove = [{}]\n", others.join(", "));
    let set = RuleSet::parse(&text, "rules.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(set.rules().len(), 1, "{name}");
    RuleState::new(set)
}

#[test]
fn a_job_is_told_before_a_batch_system_ends_it() {
    let mut state = shipped("job_time_nearly_over");
    let mut look = |at, left| take(&mut state, at, &[("job:7", "job_time_left_seconds", left)]);
    assert!(look(0, None).is_empty() && look(1, Some(601.0)).is_empty());
    assert_eq!(look(3, Some(599.0)), ["began job:7"]);
    assert!(look(60, Some(542.0)).is_empty());
    assert_eq!(look(603, Some(-1.0)), ["ended job:7"], "then the batch system is at work");
}

#[test]
fn a_job_that_does_nothing_is_told_after_ten_minutes() {
    let mut state = shipped("job_idle");
    let mut look = |at, cores| take(&mut state, at, &[("job:7", "cpu_cores", Some(cores))]);
    assert!((0..10).all(|minute| look(minute * 60, 0.019).is_empty()));
    assert_eq!(look(600, 0.0), ["began job:7"]);
    let mut state = shipped("job_idle");
    let mut look = |at, cores| take(&mut state, at, &[("job:7", "cpu_cores", Some(cores))]);
    assert!((0..30).all(|minute| look(minute * 60, 0.021).is_empty()));
}

#[test]
fn a_group_that_is_held_back_by_its_quota_or_its_memory_is_told() {
    const THROTTLED: &str = "node_group_cpu_throttled_seconds_total";
    let group = "group:/slurm/job_17";
    let mut state = shipped("group_throttled");
    let throttled =
        |of_a_second: f64| move |at: u64| [(group, THROTTLED, Some(at as f64 * of_a_second))];
    let quiet = throttled(0.49);
    assert!((0..200).all(|at| take(&mut state, at, &quiet(at)).is_empty()));
    let (mut state, held) = (shipped("group_throttled"), throttled(0.51));
    let mut began = (0..200).filter(|at| !take(&mut state, *at, &held(*at)).is_empty());
    assert!(began.next().is_some_and(|at| (60..=120).contains(&at)) && began.next().is_none());
    let mut state = shipped("group_memory_tight");
    let mut look = |at: u64, bytes: f64, waits: f64| {
        let values = [
            (group, "node_group_memory_bytes", Some(bytes)),
            (group, "node_group_memory_limit_bytes", Some(1000.0)),
            (group, "node_group_pressure_memory_full_seconds_total", Some(at as f64 * waits)),
        ];
        take(&mut state, at, &values)
    };
    // Full of cache, and nothing waits.
    assert!((0..200).all(|second| look(second, 1000.0, 0.0).is_empty()));
    let mut state = shipped("group_memory_tight");
    let mut began = (0..200).filter(|second| {
        let values = [
            (group, "node_group_memory_bytes", Some(960.0)),
            (group, "node_group_memory_limit_bytes", Some(1000.0)),
            (group, "node_group_pressure_memory_full_seconds_total", Some(*second as f64 * 0.2)),
        ];
        !take(&mut state, *second, &values).is_empty()
    });
    assert!(
        began.next().is_some_and(|second| (15..=60).contains(&second)) && began.next().is_none()
    );
}
