//! What `weigh doctor` finds: what works on this machine, what does not, why, and what helps.

use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

use crate::availability::Availability;
use crate::event::CollectorState;
use crate::quality::Mechanism;
use crate::summary::Host;

/// Everything that the doctor has to say.
#[derive(Debug, Serialize)]
pub struct DoctorReport {
    /// Whether `weigh run` follows a job exactly, sees it only now and then, or does not work.
    pub run: RunVerdict,
    /// What weigh said during the run, or why it does not work.
    pub said: Vec<String>,
    /// The machine.
    pub host: Option<Host>,
    /// The mechanisms, each tried by itself.
    pub mechanisms: Vec<MechanismFinding>,
    /// The collectors, as the trial found them.
    pub collectors: Vec<CollectorFinding>,
    /// The conventions of annotated programs (`weigh run --regions`).
    pub conventions: Vec<ConventionFinding>,
    /// Metrics without a value in the trial for a reason that no collector gives.
    pub unknown: Vec<UnknownMetrics>,
    /// The facts of the machine and of the privileges that decide it.
    pub conditions: Vec<Condition>,
}

/// How `weigh run` works here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// In the kernel.
    Exact,
    /// Every process is reported, but not all that it does.
    #[serde(rename = "told")]
    Reported,
    /// The job is polled now and then.
    Fallback,
    /// Not at all.
    Fails,
}

/// A mechanism, as its own trial found it.
#[derive(Debug)]
pub struct MechanismFinding {
    /// Whether it works.
    pub availability: Availability,
    /// What it sees.
    pub sees: &'static str,
    /// What it loses.
    pub loses: &'static str,
}

impl Serialize for MechanismFinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            name: &'a str,
            works: bool,
            reason: Option<&'a str>,
            sees: &'a str,
            loses: &'a str,
        }
        let Availability { name, reason, .. } = &self.availability;
        let (works, reason) = (self.availability.is_active(), reason.as_deref());
        Row { name, works, reason, sees: self.sees, loses: self.loses }.serialize(serializer)
    }
}

/// A collector, as the trial found it.
#[derive(Debug)]
pub struct CollectorFinding {
    /// Whether it works.
    pub availability: Availability,
    /// The mechanism it uses.
    pub mechanism: Mechanism,
    /// What it is good for.
    pub gives: Option<&'static str>,
    /// Metrics that had no value for its reason.
    pub lost_metrics: Vec<&'static str>,
}

impl Serialize for CollectorFinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            name: &'a str,
            mechanism: Mechanism,
            status: CollectorState,
            reason: Option<&'a str>,
            gives: Option<&'static str>,
            lost_metrics: &'a [&'static str],
            remedy: Option<&'static str>,
        }
        let Availability { name, status, reason, remedy } = &self.availability;
        Row {
            name,
            mechanism: self.mechanism,
            status: *status,
            reason: reason.as_deref(),
            gives: self.gives,
            lost_metrics: &self.lost_metrics,
            remedy: *remedy,
        }
        .serialize(serializer)
    }
}

/// A convention of annotated programs, as it stands here.
#[derive(Debug)]
pub struct ConventionFinding {
    /// Whether it can be heard.
    pub availability: Availability,
    /// Who uses it.
    pub programs: &'static str,
    /// Whether `--regions` has it without being named.
    pub is_usual: bool,
    /// One of `looked_for`, where it is.
    pub found: Option<PathBuf>,
    /// Commands that show that such programs are at home here; none: nothing shows it.
    pub looked_for: &'static [&'static str],
}

impl Serialize for ConventionFinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            name: &'a str,
            status: CollectorState,
            reason: Option<&'a str>,
            programs: &'a str,
            auto: bool,
            found: Option<String>,
        }
        let Availability { name, status, reason, .. } = &self.availability;
        let found = self.found.as_ref().map(|path| path.display().to_string());
        Row {
            name,
            status: *status,
            reason: reason.as_deref(),
            programs: self.programs,
            auto: self.is_usual,
            found,
        }
        .serialize(serializer)
    }
}

/// Metrics that are not known for the same reason.
#[derive(Debug, Serialize)]
pub struct UnknownMetrics {
    /// The reason.
    pub reason: String,
    /// Their names.
    pub metrics: Vec<&'static str>,
}

/// One fact of the machine or of the privileges.
#[derive(Debug, Serialize)]
pub struct Condition {
    /// What it is.
    pub name: &'static str,
    /// How it stands.
    pub value: String,
    /// Whether that is as weigh would have it; absent where it takes no side.
    pub good: Option<bool>,
    /// What it is for.
    pub bears_on: &'static str,
}

/// What one call takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallTimes {
    /// A read.
    pub read_seconds: f64,
    /// A write.
    pub write_seconds: f64,
}

impl CallTimes {
    /// What it takes more than that; nothing if it is less.
    pub fn more_than(&self, without: &CallTimes) -> CallTimes {
        CallTimes {
            read_seconds: (self.read_seconds - without.read_seconds).max(0.0),
            write_seconds: (self.write_seconds - without.write_seconds).max(0.0),
        }
    }

    /// The least of some, of reads and of writes.
    pub fn least(all: &[CallTimes]) -> Option<CallTimes> {
        let least = |part: fn(&CallTimes) -> f64| all.iter().map(part).min_by(f64::total_cmp);
        Some(CallTimes {
            read_seconds: least(|times| times.read_seconds)?,
            write_seconds: least(|times| times.write_seconds)?,
        })
    }
}

/// What it costs to see what is read and written (`weigh doctor io`).
#[derive(Debug, Serialize)]
pub struct IoOverhead {
    /// Bytes of each call.
    pub block_bytes: usize,
    /// The least is taken of so many rounds.
    pub rounds: usize,
    /// What a call takes that nobody sees: the least that was found before a trial.
    pub without: Option<CallTimes>,
    /// Each level, by each mechanism that has it.
    pub ways: Vec<IoTrial>,
}

/// A level of detail by one mechanism, as its trial found it.
#[derive(Debug)]
pub struct IoTrial {
    /// The level.
    pub level: &'static str,
    /// Whether the mechanism works.
    pub availability: Availability,
    /// What a call of the job takes more.
    pub followed: Option<CallTimes>,
    /// What a call of a process takes more that is not followed.
    pub others: Option<CallTimes>,
}

impl Serialize for IoTrial {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            level: &'static str,
            mechanism: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            followed: Option<CallTimes>,
            #[serde(skip_serializing_if = "Option::is_none")]
            others: Option<CallTimes>,
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<&'a str>,
        }
        let Availability { name, reason, .. } = &self.availability;
        let IoTrial { level, followed, others, .. } = *self;
        let reason = reason.as_deref();
        Row { level, mechanism: name, followed, others, reason }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_nothing_more() {
        let times = |read_seconds, write_seconds| CallTimes { read_seconds, write_seconds };
        assert_eq!(times(3.0, 4.0).more_than(&times(1.0, 5.0)), times(2.0, 0.0));
        assert_eq!(CallTimes::least(&[times(3.0, 4.0), times(4.0, 1.0)]), Some(times(3.0, 1.0)));
        assert_eq!(CallTimes::least(&[]), None);
    }

    #[test]
    fn findings_are_objects_with_the_keys_that_others_read() {
        fn json(finding: &impl Serialize) -> String {
            serde_json::to_string(finding).expect("JSON")
        }
        let availability = Availability::unavailable("gpu", "no driver");
        let mechanism =
            MechanismFinding { availability: availability.clone(), sees: "all", loses: "none" };
        let expected =
            r#"{"name":"gpu","works":false,"reason":"no driver","sees":"all","loses":"none"}"#;
        assert_eq!(json(&mechanism), expected);
        let collector = CollectorFinding {
            availability: Availability::active("gpu"),
            mechanism: Mechanism::None,
            gives: None,
            lost_metrics: vec!["a"],
        };
        let expected = r#"{"name":"gpu","mechanism":"none","status":"active","reason":null,"gives":null,"lost_metrics":["a"],"remedy":null}"#;
        assert_eq!(json(&collector), expected);
        assert_eq!(json(&RunVerdict::Reported), r#""told""#);
        let trial = IoTrial { level: "totals", availability, followed: None, others: None };
        assert_eq!(json(&trial), r#"{"level":"totals","mechanism":"gpu","reason":"no driver"}"#);
    }
}
