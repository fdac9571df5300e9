//! A change that a stream makes to itself while a condition holds (`--when`).
//!
//! ```text
//! rate of A, B > 1000/s for 5s: sample 1/100 of C
//! rate of A > 10 for 2s: add D{fields, stack} if FILTER sample 1/10
//! rate of A > 10 for 2s: filter of B if len > 1000
//! lost > 0: sample 1/10 of A
//! ```
//!
//! Reads text; emits what is watched and what is changed. Whether the events exist is not looked at here. Refuses what is
//! written wrongly, with the place.

use std::fmt;
use std::time::Duration;

use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};
use crate::filter::Filter;
use crate::sampling::{self, Sampling};
use crate::synthesis::ask::{Which, event_list};

/// How long a condition has to hold unless it says so.
const USUAL_HOLD_NS: u64 = 1_000_000_000;
/// The longest.
const MOST_HOLD_NS: u64 = 3_600_000_000_000;

/// A condition, and the change that is in force while it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptation {
    /// As it was written.
    pub text: String,
    /// When, as it was written.
    pub condition_text: String,
    /// When.
    pub condition: RateCondition,
    /// What.
    pub adjustment: Adjustment,
}

/// What is counted each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Events that the filter lets through, before any sampling.
    Rate,
    /// Events for which there was no room.
    Lost,
}

/// How a number is compared with the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is greater.
    Above,
    /// It is less.
    Below,
}

/// When a change is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCondition {
    /// What is counted.
    pub measure: Measure,
    /// Of which events, their counts added up; none: of all that there are at first.
    pub of: Vec<Which>,
    /// How that is compared.
    pub comparison: Comparison,
    /// With how many a second.
    pub bound: u64,
    /// It has to be so for so long, and not so for so long.
    pub hold: Duration,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Adjustment {
    /// Another sampling.
    Sample {
        /// The rule.
        rule: Sampling,
        /// Of which events; none: of those that the condition counts.
        of: Vec<Which>,
    },
    /// A filter besides those that hold.
    Filter {
        /// Of which events.
        of: Vec<Which>,
        /// As it is written.
        filter: String,
    },
    /// Another event.
    Add {
        /// As for `-e`.
        event: String,
    },
}

impl Adaptation {
    /// Reads what is behind `--when`.
    pub fn parse(text: &str) -> Result<Adaptation, Refusal> {
        let mut cursor = Cursor::new(text)?;
        let condition = condition(&mut cursor)?;
        let condition_text = text[..cursor.at()].trim().to_string();
        if !cursor.eat(":") {
            return Err(cursor.expected("'for 5s', or ':' and what is to change"));
        }
        let adjustment = adjustment(&mut cursor)?;
        let text = text.trim().to_string();
        match cursor.is_at_end() {
            true => Ok(Adaptation { text, condition_text, condition, adjustment }),
            false => Err(cursor.expected("',' or the end")),
        }
    }
}

impl RateCondition {
    /// Whether it holds at so many a second.
    pub fn holds(&self, rate: f64) -> bool {
        match self.comparison {
            Comparison::Above => rate > self.bound as f64,
            Comparison::Below => rate < self.bound as f64,
        }
    }
}

impl fmt::Display for Adjustment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Adjustment::Sample { rule, .. } => write!(f, "{rule}"),
            Adjustment::Filter { filter, .. } => write!(f, "if {filter}"),
            Adjustment::Add { event } => write!(f, "{event}"),
        }
    }
}

fn condition(cursor: &mut Cursor<'_>) -> Result<RateCondition, Refusal> {
    let measures = [("rate", Measure::Rate), ("lost", Measure::Lost)];
    let Some((_, measure)) = measures.into_iter().find(|(word, _)| cursor.eat_word(word)) else {
        return Err(cursor.expected("'rate of EVENT > N for 5s: …' or 'lost > N: …'"));
    };
    let of = event_list(cursor)?;
    let comparisons = [(">", Comparison::Above), ("<", Comparison::Below)];
    let Some((_, comparison)) = comparisons.into_iter().find(|(mark, _)| cursor.eat(mark)) else {
        return Err(cursor.expected("'of EVENT', '>' or '<'"));
    };
    let (bound, span) = cursor.need_number()?;
    if comparison == Comparison::Below && bound == 0 {
        let allowed = "1 or more: nothing is below 0".to_string();
        return Err(span.refuse(cursor.text(), Wrong::Range { number: "0".into(), allowed }));
    }
    if cursor.eat("/") && !cursor.eat_word("s") {
        return Err(cursor.expected("s"));
    }
    let hold = if cursor.eat_word("for") { hold(cursor)? } else { USUAL_HOLD_NS };
    Ok(RateCondition { measure, of, comparison, bound, hold: Duration::from_nanos(hold) })
}

fn hold(cursor: &mut Cursor<'_>) -> Result<u64, Refusal> {
    let begin = cursor.at();
    let ns = sampling::time(cursor)?;
    if ns <= MOST_HOLD_NS {
        return Ok(ns);
    }
    let span = Span { at: begin, length: cursor.at() - begin };
    let number = cursor.text().get(begin..cursor.at()).unwrap_or_default().trim().to_string();
    Err(span.refuse(cursor.text(), Wrong::Range { number, allowed: "3600s at most".into() }))
}

fn adjustment(cursor: &mut Cursor<'_>) -> Result<Adjustment, Refusal> {
    if cursor.eat_word("add") {
        return Ok(Adjustment::Add { event: rest(cursor, "an event, as for -e")? });
    }
    if cursor.eat_word("filter") {
        let of = event_list(cursor)?;
        if of.is_empty() || !cursor.eat_word("if") {
            return Err(cursor.expected("'of EVENT if FILTER'"));
        }
        let at = cursor.at();
        let filter = rest(cursor, "a filter, as for -f")?;
        // Its place is that in this text.
        Filter::parse(&filter).map_err(|refusal| Refusal {
            at: at + refusal.at,
            text: cursor.text().to_string(),
            ..refusal
        })?;
        return Ok(Adjustment::Filter { of, filter });
    }
    match Sampling::take(cursor)? {
        Some(rule) => Ok(Adjustment::Sample { rule, of: event_list(cursor)? }),
        None => {
            Err(cursor
                .expected("'sample 1/N', 'at most N/s', 'filter of EVENT if …' or 'add EVENT'"))
        }
    }
}

/// All that is left.
fn rest(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<String, Refusal> {
    let (text, _) = cursor.until(&[]);
    match text.trim().is_empty() {
        true => Err(cursor.expected(expected)),
        false => Ok(text.trim_end().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[Which]) -> Vec<&str> {
        of.iter().map(|which| which.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn all_kinds_are_read() {
        let text = "rate of sched:sched_switch, openat > 1000/s for 5s: sample 1/100 of openat";
        let read = Adaptation::parse(text).unwrap();
        assert_eq!(read.condition_text, "rate of sched:sched_switch, openat > 1000/s for 5s");
        assert_eq!(names(&read.condition.of), ["sched:sched_switch", "syscall:openat"]);
        assert_eq!((read.condition.bound, read.condition.hold.as_secs()), (1000, 5));
        let Adjustment::Sample { rule: Sampling::OneIn(100), of } = read.adjustment else {
            panic!("{:?}", read.adjustment)
        };
        assert_eq!(names(&of), ["syscall:openat"]);

        let read = Adaptation::parse("lost > 0: at most 10/s").unwrap();
        assert_eq!(read.condition.measure, Measure::Lost);
        assert_eq!((read.condition.of.len(), read.condition.hold.as_secs()), (0, 1));

        let add = "net:netif_rx{len=skb->len, stack} if skb->len > 9 sample 1/3";
        let read = Adaptation::parse(&format!("rate of a < 5 for 10ms: add {add}")).unwrap();
        assert_eq!(read.adjustment, Adjustment::Add { event: add.into() });
        assert_eq!(read.condition.comparison, Comparison::Below);

        let read = Adaptation::parse("rate of a > 5: filter of b if len > 3 && tid == 1").unwrap();
        let Adjustment::Filter { of, filter } = read.adjustment else { panic!() };
        assert_eq!((names(&of), filter.as_str()), (vec!["b"], "len > 3 && tid == 1"));
    }

    #[test]
    fn a_bound_is_not_part_of_what_holds() {
        let read = |text| Adaptation::parse(text).unwrap().condition;
        let above = read("rate > 10: sample 1/2");
        assert_eq!([9.9, 10.0, 10.1].map(|rate| above.holds(rate)), [false, false, true]);
        let below = read("rate < 10: sample 1/2");
        assert_eq!([9.9, 10.0, 10.1].map(|rate| below.holds(rate)), [true, false, false]);
    }

    #[test]
    fn what_is_wrong_is_refused_where_it_stands() {
        for (text, at) in [
            ("", 0),
            ("speed > 1: sample 1/2", 0),
            ("rate of a 5: sample 1/2", 10),
            ("rate of a > x: sample 1/2", 12),
            ("rate of a < 0: sample 1/2", 12),
            ("rate of a > 1 for 5: sample 1/2", 19),
            ("rate of a > 1 for 3601s: sample 1/2", 18),
            ("rate of a > 1 sample 1/2", 14),
            ("rate of a > 1: stop", 15),
            ("rate of a > 1: add ", 19),
            ("rate of a > 1: filter if x == 1", 22),
            ("rate of a > 1: filter of b if len >", 35),
            ("rate of a > 1: sample 1/2 of b c", 31),
        ] {
            let refusal = Adaptation::parse(text).unwrap_err();
            assert_eq!(refusal.at, at, "{text}: {refusal}");
        }
    }
}
