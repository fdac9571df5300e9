use std::borrow::Cow;

use jiff::Timestamp;
use proptest::prelude::*;
use weigh_schema::node_metric::*;
use weigh_schema::rule::{LONGEST_TEXT_BYTES, RuleChange, RuleStanding, Severity};
use weigh_schema::sample::{Sample, SampleTable};
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Number, Quality};

use super::*;

mod shipped;

const SECOND: u64 = 1_000_000_000;

fn moment(seconds: u64) -> RuleMoment {
    RuleMoment {
        ns: seconds * SECOND,
        time: Timestamp::from_second(1_700_000_000 + seconds as i64).unwrap(),
    }
}

/// A rule set of its own, with one rule.
fn one(lines: &str) -> RuleSet {
    let text = format!("shipped = false\n[rule.r]\ntext = \"t\"\n{lines}\n");
    RuleSet::parse(&text, "rules.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn refused(lines: &str) -> String {
    let text = format!("shipped = false\n[rule.r]\ntext = \"t\"\n{lines}\n");
    RuleSet::parse(&text, "rules.toml").unwrap_err().to_string()
}

/// Takes values of scopes, by their names; none: unavailable.
fn take(state: &mut RuleState, seconds: u64, values: &[(&str, &str, Option<f64>)]) -> Vec<String> {
    let input = |(scope, metric, value): &(&str, &'static str, Option<f64>)| RuleInput {
        scope: Cow::Owned(Scope::from(scope.to_string())),
        metric,
        value: *value,
        per_second: None,
    };
    let values: Vec<(&str, &'static str, Option<f64>)> = values
        .iter()
        .map(|(scope, metric, value)| (*scope, &*String::leak(metric.to_string()), *value))
        .collect();
    words(&state.take(moment(seconds), &mut values.iter().map(input)))
}

const FREE: &str = "node_memory_available_bytes";
const ALL: &str = "node_memory_total_bytes";

#[test]
fn the_shipped_rules_are_read() {
    let set = RuleSet::parse(SHIPPED_RULES, "rules.toml").unwrap_or_else(|error| panic!("{error}"));
    assert!(set.rules().len() >= 20, "{}", set.rules().len());
    assert_eq!(RuleSet::shipped().rules().len(), set.rules().len());
    for rule in set.rules() {
        assert!(!rule.text.is_empty() && !rule.paste.is_empty(), "{}", rule.name);
        assert!(rule.command.is_empty(), "{}: mail is the user's to ask for", rule.name);
        // Each threshold has its reason above it.
        let at = SHIPPED_RULES.find(&format!("\n[rule.{}]", rule.name)).unwrap();
        let before = SHIPPED_RULES[..at].lines().next_back().unwrap();
        assert!(before.starts_with("# ") && !before.contains("---"), "{}: no reason", rule.name);
    }
}

#[test]
fn it_begins_after_its_time_and_ends_past_the_other_threshold() {
    let mut state = RuleState::new(one(
        "when = \"node_memory_available_bytes < 5% * node_memory_total_bytes\"\nuntil = \"node_memory_available_bytes > 8% * node_memory_total_bytes\"\nfor = \"10s\"",
    ));
    let mut look = |seconds, free| {
        take(&mut state, seconds, &[("node", FREE, Some(free)), ("node", ALL, Some(1000.0))])
    };
    assert!(look(0, 49.0).is_empty() && look(9, 49.0).is_empty());
    // Once not true: it begins anew.
    assert!(look(10, 50.0).is_empty() && look(11, 49.0).is_empty() && look(20, 49.0).is_empty());
    assert_eq!(look(21, 49.0), ["began node"]);
    // About the threshold and past it, but not past the other one.
    assert!(look(22, 51.0).is_empty() && look(60, 79.0).is_empty() && look(90, 30.0).is_empty());
    assert!(look(91, 81.0).is_empty() && look(99, 100.0).is_empty());
    assert_eq!(look(100, 100.0), ["ended node"]);
    assert!(look(101, 100.0).is_empty());
}

#[test]
fn what_is_not_known_fires_nothing_and_is_told() {
    let mut state = RuleState::new(one("when = \"node_memory_available_bytes < 1000000\""));
    let reason = |state: &RuleState| state.statuses()[0].reason.clone();
    assert!(take(&mut state, 0, &[]).is_empty());
    assert_eq!(state.statuses()[0].state, RuleStanding::Unavailable);
    assert_eq!(reason(&state).unwrap(), "node_memory_available_bytes has no value here");
    // Absence is no 0, which would be less.
    assert!(take(&mut state, 1, &[("node", FREE, None)]).is_empty());
    assert!(take(&mut state, 2, &[("node", FREE, Some(f64::NAN))]).is_empty());
    assert!(reason(&state).is_some());
    assert_eq!(take(&mut state, 3, &[("node", FREE, Some(5.0))]), ["began node"]);
    assert_eq!(state.statuses()[0].state, RuleStanding::Holds);
    assert_eq!(take(&mut state, 4, &[("node", FREE, None)]), ["ended node"]);
    // Of two, what is known may be enough.
    let or = "when = \"node_memory_available_bytes < 10 or node_load_1m_threads > 3\"";
    let mut state = RuleState::new(one(or));
    assert_eq!(take(&mut state, 0, &[("node", FREE, Some(5.0))]), ["began node"]);
    let and = "when = \"node_memory_available_bytes < 10 and node_load_1m_threads > 3\"";
    let mut state = RuleState::new(one(and));
    assert!(take(&mut state, 0, &[("node", FREE, Some(5.0))]).is_empty());
    assert!(reason(&state).unwrap().contains("node_load_1m_threads"));
    assert!(take(&mut state, 1, &[("node", FREE, Some(50.0))]).is_empty());
    assert!(state.statuses().is_empty(), "it is false, whatever the load is");
}

#[test]
fn each_disk_is_judged_by_itself_and_one_that_goes_ends() {
    let busy = "node_disk_busy_seconds_total";
    let mut state = RuleState::new(one("when = \"rate(node_disk_busy_seconds_total) > 90%\""));
    let mut look = |seconds, values: &[(&str, Option<f64>)]| {
        let values: Vec<_> = values.iter().map(|(disk, value)| (*disk, busy, *value)).collect();
        take(&mut state, seconds, &values)
    };
    assert!(
        look(0, &[("disk:a", Some(0.0)), ("disk:b", Some(0.0)), ("core:0", Some(9.0))]).is_empty()
    );
    assert_eq!(look(1, &[("disk:a", Some(0.95)), ("disk:b", Some(0.85))]), ["began disk:a"]);
    assert_eq!(look(2, &[("disk:b", Some(1.8))]), ["began disk:b", "ended disk:a"]);
    // A counter that falls has begun again: its rate is not known.
    assert_eq!(look(3, &[("disk:b", Some(0.0))]), ["ended disk:b"]);
    assert_eq!(look(4, &[("disk:b", Some(1.0))]), ["began disk:b"]);
}

/// A table of a collector.
#[derive(Default)]
struct Table {
    layout: u64,
    is_fresh: bool,
    samples: Vec<(Scope, &'static Metric, Option<f64>)>,
}

impl SampleTable for Table {
    fn layout(&self) -> u64 {
        self.layout
    }

    fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    fn places(&self) -> usize {
        self.samples.len()
    }

    fn sample(&self, place: usize) -> Sample<'_> {
        let (scope, metric, value) = &self.samples[place];
        let value = value.map(Number::Real);
        Sample { scope, metric, value, quality: Quality::Exact }
    }
}

fn words(events: &[weigh_schema::rule::RuleEvent]) -> Vec<String> {
    let state = |change| if change == RuleChange::Began { "began" } else { "ended" };
    events.iter().map(|event| format!("{} {}", state(event.state), event.scope)).collect()
}

/// A slow collector's value stays, and time goes on for what is true; what has no place any more is gone.
#[test]
fn a_table_that_is_not_read_at_a_tick_keeps_its_values() {
    let lines =
        "when = \"node_disk_requests_outstanding > 7 * cores\"\nfor = \"3s\"\nkeep = \"0s\"";
    let mut state = RuleState::new(one(lines));
    let waits = &node_disk_requests_outstanding;
    let disk = |name: &str, value: f64| (Scope::Disk(name.into()), waits, Some(value));
    let cpu = |core: u32| (Scope::Core(core), &node_cpu_idle_seconds_total, Some(0.0));
    let mut cores = Table { layout: 1, is_fresh: true, samples: vec![cpu(0), cpu(1)] };
    let samples = vec![disk("a", 14.5), disk("b", 13.5)];
    let mut disks = Table { layout: 1, is_fresh: true, samples };
    let mut take = |seconds, cores: &Table, disks: &Table| {
        let tables = [cores, disks].into_iter();
        words(&state.take_tick(moment(seconds), tables, &mut std::iter::empty()))
    };
    assert!(take(0, &cores, &disks).is_empty());
    (cores.is_fresh, disks.is_fresh) = (false, false);
    assert!(take(2, &cores, &disks).is_empty());
    assert_eq!(take(3, &cores, &disks), ["began disk:a"]);
    // One CPU less: that is enough for the other.
    cores = Table { layout: 2, is_fresh: true, samples: vec![cpu(1)] };
    assert!(take(4, &cores, &disks).is_empty());
    assert_eq!(take(7, &cores, &disks), ["began disk:b"]);
    disks = Table { layout: 2, is_fresh: true, samples: vec![disk("b", 13.5)] };
    assert_eq!(take(8, &cores, &disks), ["ended disk:a"]);
    disks.samples[0].2 = None;
    assert_eq!(take(9, &cores, &disks), ["ended disk:b"]);
}

/// Ten looks in a second: a rule of many seconds takes some of the values, one that is about each value takes all; and what
/// is not known any more is noticed at once.
#[test]
fn values_are_taken_as_often_as_a_rule_needs_them() {
    let begins = |time: &str, spike: u64| {
        let lines = format!("when = \"node_memory_available_bytes < 10\"\n{time}");
        let mut state = RuleState::new(one(&lines));
        let mut take = |tenth: u64, value| {
            let samples = vec![(Scope::Node, &node_memory_available_bytes, value)];
            let table = Table { layout: 1, is_fresh: true, samples };
            let at = RuleMoment { ns: (1000 + tenth) * (SECOND / 10), ..moment(0) };
            let events = words(&state.take_collected(at, std::iter::once(&table)));
            events.into_iter().map(move |event| (tenth, event)).collect::<Vec<_>>()
        };
        let value = |tenth| if tenth >= 20 || tenth == spike { 5.0 } else { 50.0 };
        let mut found: Vec<_> = (0..60).flat_map(|tenth| take(tenth, Some(value(tenth)))).collect();
        found.extend(take(60, None));
        found.into_iter().map(|(tenth, event)| format!("{tenth} {event}")).collect::<Vec<_>>()
    };
    let each = ["13 began node", "14 ended node", "20 began node", "60 ended node"];
    assert_eq!(begins("", 13), each);
    // A tenth of three seconds: at 0, 3, 6 … from 21 to 51.
    assert_eq!(begins("for = \"3s\"\nkeep = \"0s\"", 99), ["51 began node", "60 ended node"]);
    assert_eq!(begins("for = \"500ms\"\nkeep = \"0s\"", 13), ["25 began node", "60 ended node"]);
}

/// Where a job is no more, what was said of it is over.
#[test]
fn a_job_that_has_ended_ends_its_rules() {
    let mut state = RuleState::new(one("when = \"cpu_cores > 1\""));
    assert_eq!(take(&mut state, 0, &[("job:7", "cpu_cores", Some(2.0))]), ["began job:7"]);
    assert_eq!(take(&mut state, 1, &[]), ["ended job:7"]);
    assert!(take(&mut state, 2, &[]).is_empty() && take(&mut state, 3, &[]).is_empty());
}

#[test]
fn a_slope_tells_of_a_limit_before_it_is_there() {
    let lines = "when = \"seconds_to(node_memory_available_bytes, 100, 20s) < 59.5s\"";
    let mut state = RuleState::new(one(lines));
    let mut events = Vec::new();
    for seconds in 0..200 {
        // 1000 at first; 100 after 100 seconds at 9 a second; then it stays.
        let free = (1000.0 - 9.0 * seconds as f64).max(100.5);
        events.extend(
            take(&mut state, seconds, &[("node", FREE, Some(free))])
                .into_iter()
                .map(|event| (seconds, event)),
        );
    }
    // At 41 s 59 s are left; when it stays, the line through 20 s is flat soon.
    assert_eq!(events[0], (41, "began node".to_string()));
    assert_eq!(events.len(), 2, "{events:?}");
    assert!((101..=121).contains(&events[1].0), "{events:?}");
}

#[test]
fn texts_have_values_as_people_read_them_and_bounded_names() {
    let lines = "severity = \"critical\"\nscope = \"disk:*\"\nwhen = \"rate(node_disk_read_bytes_total) > 1MiB\"\npaste = \"ls {instance}\"";
    let text = format!(
        "shipped = false\n[rule.r]\ntext = \"{{instance}} reads {{rate(node_disk_read_bytes_total)}} of {{node_memory_total_bytes}} and {{cores}}\"\n{lines}"
    );
    let mut state = RuleState::new(RuleSet::parse(&text, "f").unwrap());
    let evil = format!("disk:\x1b[2J';reboot{}", "x".repeat(5000));
    let mut look = |seconds: u64, value: f64| {
        let input = |scope: &str, metric: &'static str, value| RuleInput {
            scope: Cow::Owned(Scope::from(scope.to_string())),
            metric,
            value: Some(value),
            per_second: None,
        };
        let values = [
            input(&evil, "node_disk_read_bytes_total", value),
            input("disk:sda", "node_disk_read_bytes_total", value),
            input("node", ALL, 2048.0 * 1024.0),
            input("core:0", "node_cpu_idle_seconds_total", 1.0),
            input("core:0", "node_cpu_user_seconds_total", 1.0),
            input("core:1", "node_cpu_idle_seconds_total", 1.0),
        ];
        state.take(moment(seconds), &mut values.into_iter())
    };
    assert!(look(0, 0.0).is_empty());
    let events = look(1, 3.0 * 1024.0 * 1024.0);
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].text, "sda reads 3.0 MiB/s of 2.0 MiB and 2");
    assert_eq!((events[1].paste.as_str(), events[1].severity), ("ls sda", Severity::Critical));
    assert!(events[1].per_second && events[1].value == Some(3.0 * 1024.0 * 1024.0));
    let [text, paste] = [&events[0].text, &events[0].paste];
    assert!(text.starts_with(r"\u{1b}[2J';reboot") && text.len() <= LONGEST_TEXT_BYTES, "{text}");
    // What is cut would name something else.
    assert_eq!(paste, "");
}

#[test]
fn a_refusal_says_what_where_and_what_to_type() {
    assert_eq!(
        refused("when = \"node_memory_availble_bytes < 5%\""),
        "rules.toml:4: rule.r.when: there is no metric 'node_memory_availble_bytes'; did you mean node_memory_available_bytes, node_memory_active_bytes, node_memory_inactive_bytes?\n    node_memory_availble_bytes < 5%\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^"
    );
    for (lines, part) in [
        ("when = \"node_threads = 5\"", "two values are compared with =="),
        ("when = \"node_threads > 5 && cores > 1\"", "joined by 'and'"),
        ("when = \"node_threads\"", "expected a comparison"),
        ("when = \"1 < 2\"", "expected a metric in the condition"),
        ("when = \"rate(node_threads) > 5\"", "expected slope(node_threads, 1min)"),
        ("when = \"rat(node_forks_total) > 5\"", "did you mean rate?"),
        ("when = \"slope(node_threads) > 5\"", "slope(METRIC, 5min)"),
        ("when = \"node_memory_free_bytes < 5s\"", "bytes and seconds cannot be compared"),
        ("when = \"node_memory_free_bytes + 5min > 3\"", "cannot be added"),
        ("when = \"node_threads > 5 furlongs\"", "expected a comparison, an operator"),
        ("when = \"node_threads > 5furlongs\"", "'furlongs' is no unit"),
        ("when = \"node_threads > (5\"", "expected a ')' before the end"),
        ("when = \"node_threads > 5 > 3\"", "expected a comparison, an operator"),
        ("when = \"node_threads > é\"", "means nothing here"),
        ("when = \"slope(node_threads, 1ms) > 5\"", "from 1s to 1d"),
        ("when = \"node_threads > 5\"\nfor = \"5 furlongs\"", "expected a duration"),
        ("when = \"node_threads > 5\"\nwehn = \"x\"", "did you mean when?"),
        ("when = \"node_threads > 5\"\nseverity = \"critcal\"", "did you mean critical?"),
        ("when = \"node_threads > 5\"\nscope = \"dsik:*\"", "did you mean disk?"),
        (
            "when = \"node_disk_flushes_total > 5\"\nscope = \"gpu:*\"",
            "expected scope = \"disk:*\"",
        ),
        ("when = \"node_disk_flushes_total > node_gpu_watts\"", "of different scopes"),
        ("when = \"node_threads > 5\"\ncommand = \"mail\"", "expected a list of words"),
        ("when = 5", "expected a condition"),
        ("for = \"1s\"", "expected the key 'when', which is missing"),
        (
            "when = \"node_threads > 5\"\npaste = \"ls {node_threads}\"",
            "expected {scope} or {instance}",
        ),
    ] {
        let said = refused(lines);
        assert!(said.contains(part), "{lines}: {said}");
        assert!(said.starts_with("rules.toml:"), "{said}");
    }
    let deep = format!("when = \"{}node_threads > 1\"", "(".repeat(10_000));
    assert!(refused(&deep).contains("too long") || refused(&deep).contains("at most"));
    let deep = format!("when = \"{}node_threads > 1\"", "(".repeat(2000));
    assert!(refused(&deep).contains("too long"));
    let said = RuleSet::parse("remove = [\"steel\"]", "f").unwrap_err().to_string();
    assert!(said.contains("no shipped rule 'steel'") && said.contains("steal"), "{said}");
    let said = RuleSet::parse("[rule.A]", "f").unwrap_err().to_string();
    assert!(said.contains("a name of at most"), "{said}");
    assert!(RuleSet::parse("[rule", "f").unwrap_err().to_string().contains("f:1: not TOML"));
}

#[test]
fn a_file_adds_replaces_removes_and_declares() {
    let shipped = RuleSet::shipped().rules().len();
    let text = "remove = [\"gpu_idle\"]\n[rule.steal]\nwhen = \"node_threads > 1\"\ntext = \"mine\"\n[rule.queue]\nwhen = \"queue_length > 5\"\ntext = \"{queue_length} wait\"\n[metric.queue_length]\nunit = \"count\"\n";
    let set = RuleSet::parse(text, "f").unwrap();
    assert_eq!(set.rules().len(), shipped);
    assert!(set.rules().iter().any(|rule| rule.name == "steal" && rule.text == "mine"));
    let mut state = RuleState::new(set);
    assert!(state.declares("queue_length") && !state.declares("node_threads"));
    let said = RuleSet::parse("[metric.node_threads]", "f").unwrap_err().to_string();
    assert!(said.contains("weigh itself has a metric"), "{said}");
    let both = [("shop", "queue_length", Some(6.0)), ("node", "queue_length", Some(7.0))];
    assert_eq!(take(&mut state, 0, &both).len(), 2);
    assert_eq!(take(&mut state, 1, &both[..1]), ["ended node"]);
}

/// What the simple second implementation knows: all values of all looks.
struct Walk {
    /// By look, one second apart; none: unavailable.
    gauge: Vec<Option<f64>>,
    counter: Vec<Option<f64>>,
}

impl Walk {
    /// The values since the last one that was missing, in the last seconds, with their times.
    fn window(values: &[Option<f64>], seconds: usize, is_counter: bool) -> Vec<(f64, f64)> {
        let mut found: Vec<(f64, f64)> = Vec::new();
        let now = values.len() - 1;
        for at in (0..values.len()).rev() {
            let Some(value) = values[at] else { break };
            if now - at > seconds
                || is_counter && found.last().is_some_and(|(_, next)| value > *next)
            {
                break;
            }
            found.push((at as f64, value));
        }
        found.reverse();
        found
    }

    fn rate(values: &[Option<f64>]) -> Option<f64> {
        let found = Walk::window(values, 1, true);
        (found.len() == 2).then(|| found[1].1 - found[0].1)
    }

    fn rate_over(values: &[Option<f64>], seconds: usize) -> Option<f64> {
        let found = Walk::window(values, seconds, true);
        let (first, last) = (found.first()?, found.last()?);
        let span = last.0 - first.0;
        (span > 0.0 && span >= seconds as f64 / 2.0).then(|| (last.1 - first.1) / span)
    }

    /// By the textbook's formula of sums.
    fn slope(values: &[Option<f64>], seconds: usize) -> Option<f64> {
        let found = Walk::window(values, seconds, false);
        let (first, last) = (found.first()?, found.last()?);
        if found.len() < 3 || (last.0 - first.0) < seconds as f64 / 2.0 {
            return None;
        }
        let n = found.len() as f64;
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>();
        let (x, y) = (sum(&|p| p.0), sum(&|p| p.1));
        let (xy, xx) = (sum(&|p| p.0 * p.1), sum(&|p| p.0 * p.0));
        Some((n * xy - x * y) / (n * xx - x * x))
    }

    /// Whether each condition of `CONDITIONS` is true after the first looks.
    fn truths(&self, looks: usize) -> Vec<Option<bool>> {
        let (gauge, counter) = (&self.gauge[..looks], &self.counter[..looks]);
        let now = *gauge.last().unwrap();
        let rate = Walk::rate(counter);
        let over = Walk::rate_over(counter, 10);
        let slope = Walk::slope(gauge, 10);
        let to_100 = slope.zip(now).map(|(slope, now)| match 100.0 - now {
            0.0 => 0.0,
            left if left / slope > 0.0 => left / slope,
            _ => f64::INFINITY,
        });
        let both = match (now.map(|now| now > 50.0), rate.map(|rate| rate > 3.0)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        let either = match (now.map(|now| now <= 20.0), rate.map(|rate| rate > 6.0)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        vec![
            now.map(|now| now > 50.0),
            rate.map(|rate| rate > 3.0),
            over.map(|over| over > 3.5137),
            slope.map(|slope| slope > 0.4713),
            to_100.map(|to_100| to_100 < 29.7131),
            both,
            either,
        ]
    }
}

const CONDITIONS: [&str; 7] = [
    "node_threads > 50",
    "rate(node_forks_total) > 3",
    "rate(node_forks_total, 10s) > 3.5137",
    "slope(node_threads, 10s) > 0.4713",
    "seconds_to(node_threads, 100, 10s) < 29.7131s",
    "node_threads > 50 and rate(node_forks_total) > 3",
    "node_threads <= 20 or rate(node_forks_total) > 6",
];

/// Events of a row of truths: a rule begins at the end of the first run that is long enough, and ends at the end of the
/// first pause after it that is.
fn expected(truths: &[Option<bool>], hold: usize, keep: usize) -> Vec<(usize, bool)> {
    let (mut events, mut holds) = (Vec::new(), false);
    let (mut run, mut last_true) = (0, 0);
    for (at, truth) in truths.iter().enumerate() {
        let is_true = *truth == Some(true);
        run = if is_true { run + 1 } else { 0 };
        if is_true {
            last_true = at;
        }
        if !holds && run > hold {
            holds = true;
            events.push((at, true));
        } else if holds && !is_true && at - last_true >= keep {
            holds = false;
            events.push((at, false));
        }
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A random walk fires exactly when the simple second implementation says.
    #[test]
    fn a_random_walk_fires_as_the_second_implementation_says(
        steps in prop::collection::vec((-7i32..9, 0u32..8, 0u32..40), 2..120),
        hold in 0usize..6,
        keep in 0usize..6,
    ) {
        let (mut gauge, mut counter) = (60.0f64, 0.0f64);
        let mut walk = Walk { gauge: Vec::new(), counter: Vec::new() };
        for (step, growth, accident) in &steps {
            gauge = (gauge + f64::from(*step)).clamp(0.0, 140.0);
            // Now and then it begins again, or a value is missing.
            counter = if *accident == 0 { 0.0 } else { counter + f64::from(*growth) };
            walk.gauge.push((*accident != 1).then_some(gauge));
            walk.counter.push((*accident != 2).then_some(counter));
        }
        let mut text = "shipped = false\n".to_string();
        for (number, condition) in CONDITIONS.iter().enumerate() {
            text += &format!("[rule.r{number}]\nwhen = \"{condition}\"\ntext = \"t\"\nfor = \"{hold}s\"\nkeep = \"{keep}s\"\n");
        }
        let mut state = RuleState::new(RuleSet::parse(&text, "f").unwrap());
        let mut by_table = RuleState::new(RuleSet::parse(&text, "f").unwrap());
        let mut found = vec![Vec::new(); CONDITIONS.len()];
        for at in 0..steps.len() {
            let input = |metric, value| RuleInput { scope: Cow::Owned(Scope::Node), metric, value, per_second: None };
            let values = [input("node_threads", walk.gauge[at]), input("node_forks_total", walk.counter[at])];
            let events = state.take(moment(at as u64), &mut values.into_iter());
            let samples = vec![(Scope::Node, &node_threads, walk.gauge[at]), (Scope::Node, &node_forks_total, walk.counter[at])];
            let table = Table { layout: 1, is_fresh: true, samples };
            let of_table = by_table.take_tick(moment(at as u64), std::iter::once(&table), &mut std::iter::empty());
            prop_assert_eq!(&of_table, &events);
            prop_assert_eq!(by_table.statuses(), state.statuses());
            for event in events {
                let number: usize = event.rule[1..].parse().unwrap();
                found[number].push((at, event.state == RuleChange::Began));
            }
        }
        let truths: Vec<Vec<Option<bool>>> = (1..=steps.len()).map(|looks| walk.truths(looks)).collect();
        for (number, condition) in CONDITIONS.iter().enumerate() {
            let truths: Vec<Option<bool>> = truths.iter().map(|truths| truths[number]).collect();
            prop_assert_eq!(&found[number], &expected(&truths, hold, keep), "{}", condition);
        }
    }

    /// No text makes the parser panic, and what it takes makes no values panic.
    #[test]
    fn no_rule_set_and_no_values_make_it_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "node_threads", "node_forks_total", "node_disk_reads_total", "cpu_cores", "cores", "rate(", "slope(",
            "seconds_to(", ")", "(", ",", "10s", "5%", "1GiB", "0", "1e308", "<", ">", "==", "+", "-", "*", "/", "and",
            "or", "\u{e9}", "not", "=",
        ]), 0..14),
        values in prop::collection::vec((0usize..4, any::<f64>(), 0u64..30), 0..40),
    ) {
        let condition = words.join(" ");
        let text = format!("shipped = false\n[rule.r]\nwhen = \"{condition}\"\ntext = \"{{{condition}}} t\"\n");
        // A text holds numbers alone: the condition is tried with and without it.
        let plain = format!("shipped = false\n[rule.r]\nwhen = \"{condition}\"\ntext = \"t\"\n");
        for text in [text, plain] {
            let Ok(set) = RuleSet::parse(&text, "f") else { continue };
            let mut state = RuleState::new(set);
            let metrics = ["node_threads", "node_forks_total", "node_disk_reads_total", "cpu_cores"];
            let scopes = [Scope::Node, Scope::Node, Scope::Disk("a".into()), Scope::Other("job:1".into())];
            let mut now = 0;
            for (metric, value, pause) in &values {
                now = (now + pause).saturating_sub(3);
                let input = RuleInput {
                    scope: Cow::Borrowed(&scopes[*metric]),
                    metric: metrics[*metric],
                    value: Some(*value),
                    per_second: (*pause == 7).then_some(*value),
                };
                state.take(moment(now), &mut std::iter::once(input));
                state.statuses();
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = RuleSet::parse(&text, "f").map_err(|error| error.to_string());
        let quoted = text.replace(['"', '\\'], " ");
        let rule = format!("shipped = false\n[rule.r]\nwhen = \"{quoted}\"\ntext = \"{quoted}\"");
        let _ = RuleSet::parse(&rule, "f").map_err(|error| error.to_string());
    }
}
