//! Whether something that measures can run here: what `weigh doctor` shows of it, and what an error says.

use std::fmt;

use crate::event::{CollectorState, CollectorStatus};

/// Whether a mechanism or a collector can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// Its name.
    pub name: String,
    /// Whether it works.
    pub status: CollectorState,
    /// Why it does not, or not fully.
    pub reason: Option<String>,
    /// What helps, where the reason does not say it.
    pub remedy: Option<&'static str>,
}

impl Availability {
    /// It works.
    pub fn active(name: impl Into<String>) -> Availability {
        Availability {
            name: name.into(),
            status: CollectorState::Active,
            reason: None,
            remedy: None,
        }
    }

    /// It does not work, for this reason.
    pub fn unavailable(name: impl Into<String>, reason: impl Into<String>) -> Availability {
        Availability {
            status: CollectorState::Unavailable,
            reason: Some(reason.into()),
            ..Availability::active(name)
        }
    }

    /// It works, and loses something for this reason.
    pub fn degraded(name: impl Into<String>, reason: impl Into<String>) -> Availability {
        Availability {
            status: CollectorState::Degraded,
            reason: Some(reason.into()),
            ..Availability::active(name)
        }
    }

    /// Of a collector, as it fared. What helps is said only where it does not work fully.
    pub fn of_collector(status: CollectorStatus, remedy: Option<&'static str>) -> Availability {
        let CollectorStatus { name, status, reason, .. } = status;
        let is_wanting = matches!(status, CollectorState::Degraded | CollectorState::Unavailable);
        Availability { name, status, reason, remedy: remedy.filter(|_| is_wanting) }
    }

    /// Whether it works fully.
    pub fn is_active(&self) -> bool {
        self.status == CollectorState::Active
    }
}

/// As a notice says it: `cycles unavailable: this machine has no such counter`.
impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.status {
            CollectorState::Active => "active",
            CollectorState::Degraded => "degraded",
            CollectorState::Unavailable => "unavailable",
            CollectorState::Disabled => "disabled",
        };
        write!(f, "{} {state}", self.name)?;
        self.reason.iter().try_for_each(|reason| write!(f, ": {reason}"))?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "; it takes {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Mechanism;

    #[test]
    fn what_helps_is_said_only_where_something_is_missing() {
        let status = |status| CollectorStatus {
            name: "gpu".to_string(),
            mechanism: Mechanism::None,
            status,
            reason: Some("no driver".to_string()),
            lost: 0,
        };
        let of = |state| Availability::of_collector(status(state), Some("a GPU"));
        let text = of(CollectorState::Unavailable).to_string();
        assert_eq!(text, "gpu unavailable: no driver; it takes a GPU");
        assert_eq!(of(CollectorState::Disabled).remedy, None);
        assert_eq!(Availability::active("gpu").to_string(), "gpu active");
        let text = Availability::unavailable("cycles", "no such counter").to_string();
        assert_eq!(text, "cycles unavailable: no such counter");
    }
}
