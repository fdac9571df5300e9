//! For which scopes a rule is judged: `node`, `disk:*`, `operation:GETATTR:*`.

use weigh_schema::MetricScope;
use weigh_schema::update::Scope;

/// One pattern, in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopePattern(String);

impl ScopePattern {
    pub fn new(text: &str) -> ScopePattern {
        ScopePattern(text.to_string())
    }

    /// All scopes that a metric has, but for the CPUs: their sums are the node's.
    pub fn of_metric(scope: MetricScope) -> Vec<ScopePattern> {
        let kinds: &[&str] = match scope {
            MetricScope::Job => &["job", "job:*"],
            MetricScope::Node | MetricScope::Core => &["node"],
            MetricScope::Disk => &["disk:*"],
            MetricScope::Interface => &["interface:*"],
            MetricScope::Mount => &["mount:*"],
            MetricScope::Operation => &["operation:*"],
            MetricScope::Sensor => &["sensor:*"],
            MetricScope::PowerZone => &["power:*"],
            MetricScope::Gpu => &["gpu:*"],
            MetricScope::ControlGroup => &["group:*"],
        };
        kinds.iter().map(|kind| ScopePattern::new(kind)).collect()
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What stands before the first colon.
    pub fn kind(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    pub fn matches(&self, scope: &Scope) -> bool {
        match (scope, self.0.as_str()) {
            // What is published is about anything, and the node's unless it says otherwise.
            (_, "*") => true,
            (Scope::Node, pattern) => pattern == "node",
            (Scope::Job, pattern) => pattern == "job",
            // Nothing is written out for the most common of them.
            (Scope::Disk(_), "disk:*") | (Scope::Interface(_), "interface:*") => true,
            (Scope::Core(_), "core:*") => true,
            (Scope::Gpu(_) | Scope::GpuDevice(_), "gpu:*") => true,
            (Scope::Mount(_), "mount:*") | (Scope::Sensor(_), "sensor:*") => true,
            (Scope::Operation { .. }, "operation:*") => true,
            (scope, pattern) => is_match(pattern.as_bytes(), scope.to_string().as_bytes()),
        }
    }
}

/// Kinds of scopes, as patterns begin.
pub(super) const KINDS: [&str; 12] = [
    "node",
    "core",
    "disk",
    "interface",
    "mount",
    "operation",
    "sensor",
    "power",
    "gpu",
    "group",
    "job",
    "process",
];

/// The kinds of scopes that values of a metric have; the first is the usual one.
pub(super) fn kinds_of(scope: MetricScope) -> &'static [&'static str] {
    match scope {
        MetricScope::Job => &["job", "process"],
        MetricScope::Node => &["node"],
        MetricScope::Core => &["node", "core"],
        MetricScope::Disk => &["disk"],
        MetricScope::Interface => &["interface"],
        MetricScope::Mount => &["mount"],
        MetricScope::Operation => &["operation"],
        MetricScope::Sensor => &["sensor"],
        MetricScope::PowerZone => &["power"],
        MetricScope::Gpu => &["gpu"],
        MetricScope::ControlGroup => &["group"],
    }
}

/// Goes back to the last `*` alone: no pattern takes more than pattern times text.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    (p, t) = (at + 1, from + 1);
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        let matches = |pattern: &str, text: &str| {
            ScopePattern::new(pattern).matches(&Scope::from(text.to_string()))
        };
        assert!(matches("disk:*", "disk:sda") && matches("disk:nvme*", "disk:nvme0n1"));
        assert!(!matches("disk:nvme*", "disk:sda") && !matches("disk:*", "interface:eth0"));
        assert!(matches("operation:GETATTR:*", "operation:GETATTR:/scratch:a"));
        assert!(matches("operation:*:/scratch", "operation:READ:/scratch"));
        assert!(!matches("job", "job:12") && matches("job:*", "job:12") && matches("job", "job"));
        assert!(matches("core:*", "core:3") && !matches("node", "core:3"));
        assert!(matches("*a*a*b", "xaaaab") && !matches("*a*a*b", "xaaaa"));
    }
}
