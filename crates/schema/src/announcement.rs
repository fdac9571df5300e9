//! What a command of `--on-event` is told: one JSON object on its standard input.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::summary::{Job, LimitOutcome, Snapshot, Summary};
use crate::unit::Number;
use crate::unit::Unit;

/// The object's name and version.
pub const SCHEMA: &str = "weigh.event/1";

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// When it was announced (UTC).
    pub at: Timestamp,
    /// The job.
    pub job: Job,
    /// The directory of the recording.
    pub recording: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording_base64: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub happening: Happening,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happening {
    /// A snapshot was taken.
    Snapshot {
        /// The snapshot.
        snapshot: Box<Snapshot>,
    },
    /// A value came near its limit.
    Warning {
        /// The metric.
        metric: String,
        /// Its value.
        observed: Number,
        /// Its limit.
        limit: Number,
        /// The unit of both.
        unit: Unit,
    },
    /// A limit was crossed.
    Limit {
        /// Which, where, and by whom.
        limit: Box<LimitOutcome>,
    },
    /// The job has ended, and the recording is complete.
    End {
        /// Its totals.
        summary: Box<Summary>,
    },
}

impl Happening {
    /// The kind of happening, as in the object's field `event`.
    pub fn event(&self) -> &'static str {
        match self {
            Happening::Snapshot { .. } => "snapshot",
            Happening::Warning { .. } => "warning",
            Happening::Limit { .. } => "limit",
            Happening::End { .. } => "end",
        }
    }

    /// What it is about: a label, a metric, or the way in which the job ended.
    pub fn name(&self) -> String {
        match self {
            Happening::Snapshot { snapshot } => snapshot.label.clone(),
            Happening::Warning { metric, .. } => metric.clone(),
            Happening::Limit { limit } => limit.metric.clone(),
            Happening::End { summary } => {
                summary.exit.as_ref().map_or_else(String::new, |exit| exit.kind.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_the_one_in_the_object() {
        let happening = Happening::Warning {
            metric: "memory_peak_bytes".to_string(),
            observed: Number::Whole(9),
            limit: Number::Whole(10),
            unit: Unit::Bytes,
        };
        let written = serde_json::to_value(&happening).expect("an object");
        assert_eq!(written["event"], happening.event());
        assert_eq!(written["metric"], happening.name());
    }
}
