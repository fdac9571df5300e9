//! Whether something that measures can run here: what `weigh doctor` shows of it, and what an error says.

use std::fmt;

use crate::event::{CollectorState, CollectorStatus};
use crate::printable::in_words;
use crate::source_traits::SourceTraits;

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

    /// By what trying it has come to.
    pub fn of_trial<E: fmt::Display>(
        name: impl Into<String>,
        trial: Result<(), E>,
    ) -> Availability {
        match trial {
            Ok(()) => Availability::active(name),
            Err(error) => Availability::unavailable(name, in_words(error.to_string())),
        }
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

/// What a collector is for and what it takes: declared beside its code, and nowhere else.
#[derive(Clone, Copy, Debug)]
pub struct CollectorInfo {
    /// Its name, as in a summary.
    pub name: &'static str,
    /// What it is good for.
    pub gives: &'static str,
    /// What helps where it does not work, if its own reason does not say it.
    pub remedy: Option<&'static str>,
    /// How it fares on this machine, tried without a job; absent where a job alone can tell.
    pub probe: Option<fn() -> CollectorStatus>,
    /// What it asks of the machine and of the job; absent of what is no source of values.
    pub traits: Option<SourceTraits>,
}

impl CollectorInfo {
    /// One that a job alone can tell of.
    pub const fn new(
        name: &'static str,
        gives: &'static str,
        remedy: Option<&'static str>,
    ) -> CollectorInfo {
        CollectorInfo { name, gives, remedy, probe: None, traits: None }
    }

    /// The same, with a trial.
    pub const fn probed_by(self, probe: fn() -> CollectorStatus) -> CollectorInfo {
        CollectorInfo { probe: Some(probe), ..self }
    }

    /// The same, with what it asks of the machine and of the job.
    pub const fn asks(self, traits: SourceTraits) -> CollectorInfo {
        CollectorInfo { traits: Some(traits), ..self }
    }

    /// Whether it works here, as it fared. What helps is said only where it does not work fully.
    pub fn availability_in(&self, status: CollectorStatus) -> Availability {
        let CollectorStatus { name, status, reason, .. } = status;
        let is_wanting = matches!(status, CollectorState::Degraded | CollectorState::Unavailable);
        Availability { name, status, reason, remedy: self.remedy.filter(|_| is_wanting) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Mechanism;

    #[test]
    fn what_helps_is_said_only_where_something_is_missing() {
        const GPU: CollectorInfo = CollectorInfo::new("gpu", "memory of GPUs", Some("a GPU"));
        let status = |status| {
            CollectorStatus::new("gpu", Mechanism::None, status, Some("no driver".to_string()))
        };
        let of = |state| GPU.availability_in(status(state));
        let text = of(CollectorState::Unavailable).to_string();
        assert_eq!(text, "gpu unavailable: no driver; it takes a GPU");
        assert_eq!(of(CollectorState::Disabled).remedy, None);
        assert_eq!(Availability::active("gpu").to_string(), "gpu active");
        let text = Availability::unavailable("cycles", "no such counter").to_string();
        assert_eq!(text, "cycles unavailable: no such counter");
    }
}
