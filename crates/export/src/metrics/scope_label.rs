//! Labels of a scope: names from weigh's own list, values from outside, bounded and printable.

use std::borrow::Cow;

use weigh_schema::MetricScope;
use weigh_schema::printable::printable;
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

    /// The values, with colons between them: `READ:/scratch`.
    pub fn instance(&self) -> String {
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

fn operation(name: &str, mount: &str) -> ScopeLabels {
    let labels = vec![("mount", label_value(mount)), ("operation", label_value(name))];
    ScopeLabels { kind: "operation", labels }
}

/// A text from outside as the value of a label: printable, and not longer than [`VALUE_BYTES`].
pub fn label_value(text: &str) -> String {
    let text: Cow<'_, str> = printable(text);
    if text.len() <= VALUE_BYTES {
        return text.into_owned();
    }
    let hash = format!("…{:016x}", hash(text.as_bytes()));
    let room = VALUE_BYTES - hash.len();
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
