//! What a report of the node says that the one before it did not: most values of a node stay as they are for long.
//!
//! Emits a patch: objects hold what has changed, by name; of lists that are as long as before they hold it by place; of
//! processes by PID. Refuses reports that lack something the one before had, but for processes: these are sent whole.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value as Json};
use weigh_schema::top::{TopProcess, TopReport, TopValue};
use weigh_schema::update::Scope;

type Patch = Map<String, Json>;

/// From one report to the next: `event: change` of the stream.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct NodeChange {
    /// What has changed of the report.
    report: Patch,
    /// Processes that are in it no longer.
    gone: Vec<u32>,
}

/// The change between two reports, of which the first `processes_most` processes are told; none where it is not told by
/// a patch.
pub(crate) fn node_change(
    old: &TopReport,
    new: &TopReport,
    processes_most: usize,
) -> Option<NodeChange> {
    if (&old.schema, &old.node, &old.user) != (&new.schema, &new.node, &new.user) {
        return None;
    }
    let mut report = Patch::new();
    let mut set = |key: &str, value: Option<Json>| {
        value.map(|value| report.insert(key.to_string(), value));
    };
    set("time", json(&new.time));
    set("interval_seconds", changed(&old.interval_seconds, &new.interval_seconds));
    set("processes_unreadable", changed(&old.processes_unreadable, &new.processes_unreadable));
    set("processes_left_out", changed(&old.processes_left_out, &new.processes_left_out));
    set("metrics", some_object(metrics(&old.metrics, &new.metrics)?));
    set("cores", list(&old.cores, &new.cores));
    set("collectors", list(&old.collectors, &new.collectors));
    set("rules", list(&old.rules, &new.rules));
    set("jobs", list(&old.jobs, &new.jobs));
    set("published", list(&old.published, &new.published));
    set("published_left_out", changed(&old.published_left_out, &new.published_left_out));
    set("profiles", list(&old.profiles, &new.profiles));
    set("profiles_left_out", changed(&old.profiles_left_out, &new.profiles_left_out));
    let first = |report: &'_ TopReport| report.processes.len().min(processes_most);
    let (old, new) = (&old.processes[..first(old)], &new.processes[..first(new)]);
    set("processes", some_object(processes(old, new)));
    let there: HashSet<u32> = new.iter().map(|process| process.pid).collect();
    let gone = old.iter().map(|process| process.pid).filter(|pid| !there.contains(pid)).collect();
    Some(NodeChange { report, gone })
}

fn json(value: &impl Serialize) -> Option<Json> {
    serde_json::to_value(value).ok()
}

fn changed<T: Serialize + PartialEq>(old: &T, new: &T) -> Option<Json> {
    (old != new).then(|| json(new)).flatten()
}

fn some_object(patch: Patch) -> Option<Json> {
    (!patch.is_empty()).then_some(Json::Object(patch))
}

type Metrics = BTreeMap<Scope, BTreeMap<String, TopValue>>;

/// None where a value is no longer there.
fn metrics(old: &Metrics, new: &Metrics) -> Option<Patch> {
    if !old.keys().all(|scope| new.contains_key(scope)) {
        return None;
    }
    let mut patch = Patch::new();
    for (scope, values) in new {
        let before = old.get(scope);
        if !before.is_none_or(|before| before.keys().all(|metric| values.contains_key(metric))) {
            return None;
        }
        let mut found = Patch::new();
        for (metric, value) in values {
            let old = before.and_then(|before| before.get(metric));
            if let Some(value) = value_change(old, value) {
                found.insert(metric.clone(), value);
            }
        }
        if !found.is_empty() {
            patch.insert(scope.to_string(), Json::Object(found));
        }
    }
    Some(patch)
}

fn value_change(old: Option<&TopValue>, new: &TopValue) -> Option<Json> {
    match old {
        Some(old) if old == new => None,
        Some(old) => difference(&json(old)?, json(new)?),
        None => json(new),
    }
}

/// By place where both are as long, else the list.
fn list<T: Serialize + PartialEq>(old: &[T], new: &[T]) -> Option<Json> {
    if old.len() != new.len() {
        return json(&new);
    }
    let places = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
    let patch = places.filter_map(|(place, (old, new))| {
        Some((place.to_string(), difference(&json(old)?, json(new)?)?))
    });
    some_object(patch.collect())
}

fn processes(old: &[TopProcess], new: &[TopProcess]) -> Patch {
    let before: HashMap<u32, &TopProcess> =
        old.iter().map(|process| (process.pid, process)).collect();
    let patch = new.iter().filter_map(|process| {
        let change = match before.get(&process.pid) {
            Some(old) if *old == process => None,
            Some(old) => difference(&json(old)?, json(process)?),
            None => json(process),
        };
        Some((process.pid.to_string(), change?))
    });
    patch.collect()
}

/// What turns one value into another: of objects what is new in them, null for what is no longer there.
fn difference(old: &Json, new: Json) -> Option<Json> {
    match (old, new) {
        (old, new) if *old == new => None,
        (Json::Object(old), Json::Object(new)) => {
            let gone = old.keys().filter(|key| !new.contains_key(*key));
            let mut patch: Patch = gone.map(|key| (key.clone(), Json::Null)).collect();
            for (key, value) in new {
                let change = match old.get(&key) {
                    Some(old) => difference(old, value),
                    None => Some(value),
                };
                change.map(|change| patch.insert(key, change));
            }
            Some(Json::Object(patch))
        }
        (_, new) => Some(new),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use weigh_schema::{Number, Quality, Unit};

    /// As the page puts a change into what it has: a copy of `reports.ts`.
    fn merge(to: &mut Json, patch: &Json) {
        match (to, patch) {
            (Json::Object(to), Json::Object(patch)) => {
                for (key, change) in patch {
                    merge(to.entry(key.clone()).or_insert(Json::Null), change);
                }
            }
            (Json::Array(to), Json::Object(patch)) => {
                patch.iter().for_each(|(place, change)| {
                    merge(&mut to[place.parse::<usize>().unwrap()], change)
                });
            }
            (to, patch) => *to = patch.clone(),
        }
    }

    /// The report that a client has after the change, processes by PID.
    pub(crate) fn applied(report: &TopReport, change: &NodeChange) -> Json {
        let mut known = by_pid(report, usize::MAX);
        merge(&mut known, &Json::Object(change.report.clone()));
        for pid in &change.gone {
            known["processes"].as_object_mut().unwrap().remove(&pid.to_string());
        }
        known
    }

    fn by_pid(report: &TopReport, most: usize) -> Json {
        let mut known = json(report).unwrap();
        let listed = report.processes.iter().take(most);
        let processes: Patch =
            listed.map(|process| (process.pid.to_string(), json(process).unwrap())).collect();
        known["processes"] = Json::Object(processes);
        known
    }

    fn process(pid: u32) -> TopProcess {
        TopProcess {
            pid,
            parent_pid: 1,
            user: "ada".into(),
            name: "sim".into(),
            name_base64: None,
            command: vec!["./sim".into(), "--steps=1000".into()],
            command_base64: Vec::new(),
            state: "S".into(),
            threads: 8,
            cpu_cores: Some(0.0),
            cpu_seconds: 17.25,
            memory_rss_bytes: 3 << 20,
            job: Some(4711),
        }
    }

    fn report(processes: u32) -> TopReport {
        let value = |whole| TopValue {
            value: Some(Number::Whole(whole)),
            unit: Unit::Bytes,
            quality: Quality::Exact,
            per_second: Some(Some(0.0)),
        };
        let metrics =
            (0..140).map(|n| (format!("node_metric_{n}_bytes_total"), value(n))).collect();
        let core = |core| weigh_schema::top::CoreUse {
            core,
            busy_ratio: Some(0.0),
            steal_ratio: Some(0.0),
        };
        TopReport {
            schema: weigh_schema::top::TOP.into(),
            node: "n1".into(),
            interval_seconds: Some(0.1),
            user: Some("ada".into()),
            metrics: BTreeMap::from([(Scope::Node, metrics)]),
            cores: (0..4).map(core).collect(),
            processes: (1..=processes).map(process).collect(),
            ..TopReport::default()
        }
    }

    fn bytes(change: &NodeChange) -> usize {
        serde_json::to_vec(change).unwrap().len()
    }

    #[test]
    fn what_has_not_changed_is_not_sent_and_a_client_has_all() {
        let old = report(100);
        let mut new = old.clone();
        new.time = "2026-01-02T03:04:05.25Z".parse().unwrap();
        let still = node_change(&old, &new, 100).unwrap();
        assert_eq!(
            serde_json::to_string(&still).unwrap(),
            r#"{"report":{"time":"2026-01-02T03:04:05.25Z"},"gone":[]}"#
        );
        // A tenth of all changes; processes come, go and change their order.
        for (_, value) in new.metrics.get_mut(&Scope::Node).unwrap().iter_mut().take(14) {
            (value.value, value.per_second) = (Some(Number::Whole(123_456_789)), Some(None));
        }
        new.cores[2].busy_ratio = None;
        new.processes.iter_mut().take(10).for_each(|process| process.cpu_seconds += 0.125);
        new.processes[5].job = None;
        new.processes.swap(3, 90);
        new.processes.remove(20);
        new.processes.push(process(999));
        let change = node_change(&old, &new, 100).unwrap();
        let (all, sent) = (serde_json::to_vec(&new).unwrap().len(), bytes(&change));
        assert!(sent * 10 < all, "{sent} of {all} bytes");
        let mut expected = by_pid(&new, 100);
        expected["processes"]["6"]["job"] = Json::Null;
        assert_eq!(applied(&old, &change), expected);
    }

    #[test]
    fn what_is_no_longer_there_is_told_by_a_whole_report() {
        let old = report(1);
        let mut new = old.clone();
        new.metrics.get_mut(&Scope::Node).unwrap().remove("node_metric_7_bytes_total");
        assert_eq!(node_change(&old, &new, 100), None);
        assert!(node_change(&new, &old, 100).is_some());
        new.metrics.clear();
        assert_eq!(node_change(&old, &new, 100), None);
        let named = TopReport { node: "n2".into(), ..report(1) };
        assert_eq!(node_change(&old, &named, 100), None);
    }

    #[test]
    fn lists_of_another_length_and_processes_beyond_the_first_are_told_right() {
        let (old, mut new) = (report(7), report(9));
        new.cores.pop();
        let change = node_change(&old, &new, 8).unwrap();
        assert_eq!(applied(&old, &change), by_pid(&new, 8));
        let back = node_change(&new, &old, 8).unwrap();
        assert_eq!(back.gone, [8]);
    }
}
