//! How many of the events that a filter lets through become records.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};

/// A rule for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The first, and every so many-th after it, over all CPUs.
    OneIn(u64),
    /// No more than so many in each second of the clock.
    AtMost(u64),
    /// One, and then none for so many nanoseconds.
    Every(u64),
}

/// Each is held in 32 bits by the kernel side.
const MOST: u64 = u32::MAX as u64;

const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl Sampling {
    /// Reads a rule; nothing may follow it.
    pub fn parse(text: &str) -> Result<Sampling, Refusal> {
        let mut cursor = Cursor::new(text)?;
        match Sampling::take(&mut cursor)? {
            Some(sampling) if cursor.is_at_end() => Ok(sampling),
            Some(_) => Err(cursor.expected("the end")),
            None => Err(cursor.expected("'sample 1/N', 'at most N/s' or 'every 10ms'")),
        }
    }

    /// Takes a rule, if one stands here.
    pub(crate) fn take(cursor: &mut Cursor<'_>) -> Result<Option<Sampling>, Refusal> {
        if cursor.eat_word("sample") {
            let (one, span) = cursor.need_number()?;
            if one != 1 {
                let expected = "1/N, as in 'sample 1/100'";
                return Err(span.refuse(cursor.text(), Wrong::Expected { expected }));
            }
            if !cursor.eat("/") {
                return Err(cursor.expected("'/N', as in 'sample 1/100'"));
            }
            return Ok(Some(Sampling::OneIn(bounded(cursor, MOST)?)));
        }
        if cursor.eat_word("at") {
            if !cursor.eat_word("most") {
                return Err(cursor.expected("'most', as in 'at most 5/s'"));
            }
            let most = bounded(cursor, MOST)?;
            return match cursor.eat("/") && cursor.eat_word("s") {
                true => Ok(Some(Sampling::AtMost(most))),
                false => Err(cursor.expected("'/s', as in 'at most 5/s'")),
            };
        }
        if cursor.eat_word("every") {
            return Ok(Some(Sampling::Every(time(cursor)?)));
        }
        Ok(None)
    }
}

/// Takes a time, in nanoseconds: `10ms`.
pub(crate) fn time(cursor: &mut Cursor<'_>) -> Result<u64, Refusal> {
    let times = bounded(cursor, MOST)?;
    let unit = UNITS.iter().find(|(name, _)| cursor.eat_word(name));
    let Some((_, unit)) = unit else {
        return Err(cursor.expected("ns, us, ms or s, as in '10ms'"));
    };
    Ok(times * unit)
}

/// As it is written.
impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sampling::OneIn(n) => write!(f, "sample 1/{n}"),
            Sampling::AtMost(most) => write!(f, "at most {most}/s"),
            Sampling::Every(ns) => {
                let unit = UNITS.iter().rev().find(|(_, unit)| ns % unit == 0);
                let (name, unit) = unit.copied().unwrap_or(("ns", 1));
                write!(f, "every {}{name}", ns / unit)
            }
        }
    }
}

fn bounded(cursor: &mut Cursor<'_>, most: u64) -> Result<u64, Refusal> {
    let (number, span): (u64, Span) = cursor.need_number()?;
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    let wrong = Wrong::Range { number: number.to_string(), allowed: format!("1 to {most}") };
    Err(span.refuse(cursor.text(), wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_are_read() {
        assert_eq!(Sampling::parse("sample 1/100"), Ok(Sampling::OneIn(100)));
        assert_eq!(Sampling::parse("at most 1000/s"), Ok(Sampling::AtMost(1000)));
        assert_eq!(Sampling::parse("every 10ms"), Ok(Sampling::Every(10_000_000)));
        for text in ["sample 1/100", "at most 1000/s", "every 10ms", "every 7ns", "every 2s"] {
            assert_eq!(Sampling::parse(text).map(|rule| rule.to_string()).as_deref(), Ok(text));
        }
        for text in ["sample 2/3", "sample 1/0", "at most 5", "every 10", "every 10 days", ""] {
            assert!(Sampling::parse(text).is_err(), "{text}");
        }
    }
}
