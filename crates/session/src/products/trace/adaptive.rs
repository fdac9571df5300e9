//! A stream that changes itself while a condition holds (`--when`).
//!
//! Reads how many events there were so far; emits changes to the stream, a notice for people and a [`SwitchNote`] for
//! reports each time. What a change needs was checked by the kernel at the start: here it is only put in place.

use std::time::{Duration, Instant};

use weigh_collect::notice;
use weigh_schema::synthesis::SwitchNote;
use weigh_trace::adaptation::Measure;

use super::adaptation_plan::PlannedAdaptation;
use super::control::RuleEntry;
use super::event_stream::EventStream;
use super::rate_watch::{EventMeter, RateWatch};

/// Conditions are looked at so often.
const LOOK: Duration = Duration::from_millis(100);

/// Conditions that are looked at while a stream runs.
pub struct Adaptive {
    rules: Vec<Rule>,
    meters: Vec<EventMeter>,
    next: Instant,
}

struct Rule {
    planned: PlannedAdaptation,
    watch: RateWatch,
    entry: RuleEntry,
}

impl Adaptive {
    /// Of a stream that begins now.
    pub fn new(planned: Vec<PlannedAdaptation>) -> Adaptive {
        let rule = |planned: PlannedAdaptation| Rule {
            watch: RateWatch::new(planned.adaptation.condition.clone()),
            entry: RuleEntry { rule: planned.adaptation.text.clone(), ..RuleEntry::default() },
            planned,
        };
        let rules = planned.into_iter().map(rule).collect();
        Adaptive { rules, meters: Vec::new(), next: Instant::now() }
    }

    /// Looks at each condition when it is time, and puts in force what is to be.
    pub fn attend(&mut self, stream: &mut dyn EventStream) {
        let now = Instant::now();
        if self.rules.is_empty() || now < self.next {
            return;
        }
        self.next = now + LOOK;
        let counts = stream.event_counts();
        self.meters.resize_with(counts.len().max(self.meters.len()), EventMeter::default);
        self.meters.iter_mut().zip(&counts).for_each(|(meter, counts)| meter.advance(counts));
        for place in 0..self.rules.len() {
            let rule = &mut self.rules[place];
            let sum = sum_of(rule, &self.meters);
            if let Some(rate) = rule.watch.observe(now, sum) {
                self.switch(place, rate, stream);
            }
        }
    }

    fn switch(&mut self, place: usize, rate: f64, stream: &mut dyn EventStream) {
        let rule = &mut self.rules[place];
        let is_on = rule.watch.is_on();
        let adaptation = &rule.planned.adaptation;
        let (adjustment, condition) = (&adaptation.adjustment, &adaptation.condition_text);
        match stream.adapt(place, &rule.planned, is_on) {
            Ok(()) => {
                rule.entry.is_on = is_on;
                rule.entry.switches_total += 1;
                let word = if is_on { "on" } else { "off" };
                notice!("{word}: {adjustment} ({condition}; {rate:.0}/s now)");
            }
            Err(error) => {
                rule.entry.error = Some(format!("{error:#}"));
                notice!("--when {condition}: cannot switch to {adjustment}: {error:#}");
            }
        }
        let note = SwitchNote {
            rule: rule.entry.rule.clone(),
            is_on,
            per_second: rate,
            error: rule.entry.error.clone(),
            ..SwitchNote::default()
        };
        let rules = self.rules.iter().map(|rule| rule.entry.clone()).collect();
        stream.note_switch(note, rules);
    }
}

fn sum_of(rule: &Rule, meters: &[EventMeter]) -> u64 {
    let of = |meter: &EventMeter| match rule.planned.adaptation.condition.measure {
        Measure::Rate => meter.events,
        Measure::Lost => meter.lost,
    };
    rule.planned.watched.iter().filter_map(|id| meters.get(*id)).map(of).sum()
}
