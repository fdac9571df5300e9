//! Labels of a scope: names from weigh's own list, values from outside, bounded and printable.

use std::borrow::Cow;

use weigh_schema::MetricScope;
use weigh_schema::printable::printable;
use weigh_schema::published::trace_stream;
use weigh_schema::top::{PublishedValue, TopGroup, TopJob, TopJobKind, TopProcess};
use weigh_schema::update::Scope;

/// Longest value of a label, in bytes. Longer ones end in a hash of the whole.
const VALUE_BYTES: usize = 200;

/// A scope as labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScopeLabels {
    /// What the scope is: `node`, `core`, `disk`; the same for all values of a metric.
    pub kind: &'static str,
    /// Names and values, sorted by name; empty for the node.
    pub labels: Vec<(&'static str, String)>,
}

impl ScopeLabels {
    /// Labels of a scope of the node; none for what is of a job.
    pub fn new(scope: &Scope) -> Option<ScopeLabels> {
        let one = |kind, name, value: &str| ScopeLabels {
            kind,
            labels: vec![(name, label_value(value))],
        };
        Some(match scope {
            Scope::Node => ScopeLabels { kind: "node", labels: Vec::new() },
            Scope::Core(core) => one("core", "core", &core.to_string()),
            Scope::Disk(name) => one("disk", "disk", name),
            Scope::Interface(name) => one("interface", "interface", name),
            Scope::Mount(point) => one("mount", "mount", point),
            Scope::Operation { name, mount } => operation(name, mount),
            Scope::Sensor(name) => one("sensor", "sensor", name),
            Scope::PowerZone(name) => one("power", "zone", name),
            Scope::Gpu(number) => one("gpu", "gpu", &number.to_string()),
            Scope::GpuDevice(bus) => one("gpu", "gpu", bus),
            Scope::Group(path) => one("group", "group", path),
            Scope::Job | Scope::Process(_) | Scope::Other(_) => return None,
        })
    }

    /// Labels of a job that runs: of a session of `weigh run` its PID and what the kernel calls its program, of a control
    /// group its name and its path.
    pub fn of_job(job: &TopJob, processes: &[TopProcess]) -> ScopeLabels {
        let mut labels = match &job.group {
            Some(group) => of_group(group),
            None => of_session(job, processes),
        };
        labels.push(("job_kind", job_kind(job.kind).to_string()));
        labels.push(("user", label_value(&job.user)));
        labels.sort_unstable_by_key(|(name, _)| *name);
        ScopeLabels { kind: JOB, labels }
    }

    /// Labels of what a client of the agent has published. Of a stream of `weigh trace` its process and the number of what was
    /// asked, that, and the key; of any other value what the client calls it. The names are anybody's.
    pub fn of_published(value: &PublishedValue, is_of_trace: bool) -> ScopeLabels {
        let stream = trace_stream(&value.scope).filter(|_| is_of_trace);
        let mut labels = match stream {
            Some((stream, key)) => vec![("stream", label_value(stream)), ("key", label_value(key))],
            None => vec![
                ("metric", label_value(&value.metric)),
                ("scope", label_value(&value.scope.to_string())),
                ("unit", value.unit.map(|unit| unit.to_string()).unwrap_or_default()),
            ],
        };
        let asked = value.query.as_ref().filter(|_| stream.is_some());
        labels.extend(asked.map(|query| ("asked", label_value(&query.asked))));
        labels.extend(value.user.as_deref().map(|user| ("user", label_value(user))));
        labels.retain(|(_, value)| !value.is_empty());
        labels.sort_unstable_by_key(|(name, _)| *name);
        ScopeLabels { kind: PUBLISHED, labels }
    }

    /// The values, with colons between them: `READ:/scratch`. Of a job what tells it from others: its PID or path.
    pub fn instance(&self) -> String {
        if self.kind == JOB {
            let label = |wanted| self.labels.iter().find(|(name, _)| *name == wanted);
            let found = label("group").or_else(|| label("job_id"));
            return found.map(|(_, value)| value.clone()).unwrap_or_default();
        }
        let values: Vec<&str> = self.labels.iter().rev().map(|(_, value)| &value[..]).collect();
        values.join(":")
    }
}

/// Whether a value of a metric of this kind can be about the scope.
pub fn is_of(scope: &Scope, kind: MetricScope) -> bool {
    matches!(
        (scope, kind),
        (Scope::Node, MetricScope::Node | MetricScope::Core)
            | (Scope::Core(_), MetricScope::Core)
            | (Scope::Disk(_), MetricScope::Disk)
            | (Scope::Interface(_), MetricScope::Interface)
            | (Scope::Mount(_), MetricScope::Mount)
            | (Scope::Operation { .. }, MetricScope::Operation)
            | (Scope::Sensor(_), MetricScope::Sensor)
            | (Scope::PowerZone(_), MetricScope::PowerZone)
            | (Scope::Gpu(_) | Scope::GpuDevice(_), MetricScope::Gpu)
            | (Scope::Group(_), MetricScope::ControlGroup)
    )
}

/// Kind of the labels of what a client of the agent has published.
pub const PUBLISHED: &str = "published";
/// Names of the labels of what is published.
pub const PUBLISHED_LABELS: [&str; 7] =
    ["asked", "key", "metric", "scope", "stream", "unit", "user"];
/// Kind of the labels of a job.
pub const JOB: &str = "job";
/// Names of the labels of jobs.
pub const JOB_LABELS: [&str; 5] = ["group", "job_id", "job_kind", "job_name", "user"];

fn of_group(group: &TopGroup) -> Vec<(&'static str, String)> {
    let path = match &group.scope {
        Scope::Group(path) => path.clone(),
        scope => scope.to_string(),
    };
    vec![("group", label_value(&path)), ("job_id", label_value(&group.name))]
}

fn of_session(job: &TopJob, processes: &[TopProcess]) -> Vec<(&'static str, String)> {
    let main = processes.iter().find(|process| process.parent_pid == job.pid);
    let name = main.map(|process| ("job_name", label_value(&process.name)));
    [("job_id", job.pid.to_string())].into_iter().chain(name).collect()
}

fn job_kind(kind: TopJobKind) -> &'static str {
    match kind {
        TopJobKind::Weigh => "weigh",
        TopJobKind::Slurm => "slurm",
        TopJobKind::Unit => "unit",
        TopJobKind::Container => "container",
    }
}

fn operation(name: &str, mount: &str) -> ScopeLabels {
    let labels = vec![("mount", label_value(mount)), ("operation", label_value(name))];
    ScopeLabels { kind: "operation", labels }
}

/// A text from outside as the value of a label: printable, and not longer than [`VALUE_BYTES`].
pub fn label_value(text: &str) -> String {
    bounded_text(text, VALUE_BYTES)
}

/// A text from outside: printable, and not longer than so many bytes, of which there are 20 at least.
pub fn bounded_text(text: &str, most_bytes: usize) -> String {
    let text: Cow<'_, str> = printable(text);
    if text.len() <= most_bytes {
        return text.into_owned();
    }
    let hash = format!("…{:016x}", hash(text.as_bytes()));
    let room = most_bytes.saturating_sub(hash.len());
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{hash}", &text[..end])
}

/// FNV-1a of 64 bits.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_and_stays_apart_from_others() {
        let [a, b] =
            ["ä".repeat(40_000) + "a", "ä".repeat(40_000) + "b"].map(|long| label_value(&long));
        assert!(a.len() <= VALUE_BYTES && a.starts_with("ää") && a != b);
        assert_eq!(label_value("a\u{1b}\n\"\\"), "a\\u{1b}\\n\"\\");
    }

    #[test]
    fn a_job_has_no_other_labels_than_those_that_are_declared() {
        use crate::metrics::test_report::{group_job, session};
        let process = TopProcess { pid: 8, parent_pid: 7, name: "solver".into(), ..of_nobody() };
        let of_session = ScopeLabels::of_job(&session(7, 0.0), &[of_nobody(), process]);
        let of_group = ScopeLabels::of_job(&group_job(9, TopJobKind::Slurm, "/a/17", 0.0), &[]);
        let names = |labels: &ScopeLabels| labels.labels.iter().map(|(name, _)| *name).collect();
        let (first, second): (Vec<_>, Vec<_>) = (names(&of_session), names(&of_group));
        assert_eq!(first, ["job_id", "job_kind", "job_name", "user"]);
        assert_eq!(second, ["group", "job_id", "job_kind", "user"]);
        assert!(first.iter().chain(&second).all(|name| JOB_LABELS.contains(name)));
        assert_eq!(of_session.labels[2].1, "solver");
        assert_eq!((of_session.instance(), of_group.instance()), ("7".into(), "/a/17".into()));
    }

    fn of_nobody() -> TopProcess {
        TopProcess {
            pid: 1,
            parent_pid: 0,
            user: String::new(),
            name: "init".to_string(),
            name_base64: None,
            command: Vec::new(),
            command_base64: Vec::new(),
            state: "S".to_string(),
            threads: 1,
            cpu_cores: None,
            cpu_seconds: 0.0,
            memory_rss_bytes: 0,
            job: None,
        }
    }

    #[test]
    fn a_scope_has_labels_of_its_kind_only() {
        let scope = |text: &str| Scope::from(text.to_string());
        let labels = |text: &str| ScopeLabels::new(&scope(text));
        assert_eq!(labels("operation:READ:/a:b").unwrap().instance(), "READ:/a:b");
        assert_eq!(labels("core:3").unwrap().labels, [("core", "3".to_string())]);
        assert_eq!(labels("node").unwrap().labels, []);
        assert_eq!(["process:3", "job", "weather"].map(labels), [None, None, None]);
        for (text, kind) in [("core:3", MetricScope::Node), ("node", MetricScope::Disk)] {
            assert!(!is_of(&scope(text), kind), "{text}");
        }
    }
}
