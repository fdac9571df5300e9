//! When the command of a rule may run: pure, by the clock that it is given.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weigh_schema::rule::RuleEvent;

/// An event whose command is to run.
#[derive(Clone, Debug)]
pub(super) struct DueEvent {
    pub event: RuleEvent,
    /// Events of its rule before it that got no command.
    pub left_out: u64,
}

/// The events that wait, one a rule: of several the latest.
#[derive(Debug)]
pub(super) struct CommandPace {
    pause: Duration,
    waiting: BTreeMap<String, DueEvent>,
    /// When the command of a rule ran last.
    last: BTreeMap<String, Instant>,
}

impl CommandPace {
    pub fn new(pause: Duration) -> CommandPace {
        CommandPace { pause, waiting: BTreeMap::new(), last: BTreeMap::new() }
    }

    /// It waits, in the place of one that waited before.
    pub fn take(&mut self, event: RuleEvent) {
        let before = self.waiting.remove(&event.rule);
        let left_out = before.map_or(0, |before| before.left_out + 1);
        self.waiting.insert(event.rule.clone(), DueEvent { event, left_out });
    }

    fn due_at(&self, rule: &str, now: Instant) -> Instant {
        self.last.get(rule).map_or(now, |last| *last + self.pause)
    }

    /// The next one whose command may run now.
    pub fn next(&mut self, now: Instant) -> Option<DueEvent> {
        let rule = self.waiting.keys().find(|rule| self.due_at(rule, now) <= now)?.clone();
        self.last.insert(rule.clone(), now);
        self.waiting.remove(&rule)
    }

    /// How long it is until one may run.
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        let due = |rule: &String| self.due_at(rule, now).saturating_duration_since(now);
        self.waiting.keys().map(due).min()
    }
}
