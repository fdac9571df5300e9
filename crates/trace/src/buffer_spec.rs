//! Buffers as they are asked for: `NAME: CLAUSE, CLAUSE… if PREDICATE`.
//!
//! Reads text; emits what it says, and leaves open what it does not. Refuses clauses that do not exist, or are said
//! twice. Names of events and predicates are not looked at here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use weigh_schema::amount::{parse_duration, parse_size};
use weigh_schema::ring;

/// CPUs have numbers below this.
const MOST_CPUS: usize = 1 << 16;

/// The CPUs that write into the same ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All CPUs.
    One,
    /// Each CPU has one of its own.
    PerCpu,
    /// Those of a group; all others have one more.
    Groups(Vec<Vec<usize>>),
}

/// When who reads is waked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// For each record.
    Each,
    /// When a CPU has written so many bytes.
    Bytes(u64),
    /// When a CPU has written so many records.
    Records(u64),
    /// So much later, and when the rings fill up.
    Time(Duration),
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spread::One => f.write_str("one ring"),
            Spread::PerCpu => f.write_str("per cpu"),
            Spread::Groups(groups) => {
                let group = |cpus: &Vec<usize>| {
                    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                    cpus.join(" ")
                };
                let groups: Vec<String> = groups.iter().map(group).collect();
                write!(f, "cpus {}", groups.join(" | "))
            }
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delivery::Each => f.write_str("each"),
            Delivery::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Delivery::Records(records) => write!(f, "{records} records"),
            Delivery::Time(time) => write!(f, "{} ms", time.as_secs_f64() * 1e3),
        }
    }
}

/// What is said of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferOptions {
    /// `per cpu`, `one ring`, `cpus 0-3 | 4-7`
    pub spread: Option<Spread>,
    /// `size 4MiB`: of each ring.
    pub bytes: Option<usize>,
    /// `of EVENT | EVENT`: which go in.
    pub events: Option<Vec<String>>,
    /// `deliver each`, `deliver 64KiB`, `deliver 100 records`, `deliver 10ms`
    pub delivery: Option<Delivery>,
    /// `to FILE`
    pub output: Option<PathBuf>,
    /// `if PREDICATE`; with nothing behind it: all.
    pub predicate: Option<Option<String>>,
}

/// Why something is no buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntoError {
    /// It has no name.
    #[error("'{0}' does not begin with a name and a colon, as `slow: to slow.jsonl if tgid == 42`")]
    NoName(String),
    /// There is no such clause.
    #[error(
        "'{0}' is not understood; expected per cpu, one ring, cpus 0-3 | 4-7, size SIZE, of EVENT | EVENT, \
         deliver each, SIZE, N records or DURATION, to FILE, and last `if PREDICATE`"
    )]
    NoClause(String),
    /// It is said twice.
    #[error("'{0}' was said before")]
    Twice(String),
    /// It cannot be.
    #[error("'{clause}': expected {expected}")]
    Value {
        /// The clause.
        clause: String,
        /// What it should be.
        expected: &'static str,
    },
}

/// Reads a buffer with its name.
pub fn parse(text: &str) -> Result<(String, BufferOptions), IntoError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || !text.contains(':') {
        return Err(IntoError::NoName(text.to_string()));
    }
    Ok((name.to_string(), clauses(rest)?))
}

/// Reads what is said of a buffer.
pub fn clauses(text: &str) -> Result<BufferOptions, IntoError> {
    let padded = format!(" {} ", text.trim());
    let (clauses, predicate) = match padded.split_once(" if ") {
        Some((clauses, predicate)) => (clauses.to_string(), Some(predicate.trim().to_string())),
        None => (padded, None),
    };
    let mut into = BufferOptions {
        predicate: predicate.map(|text| (!text.is_empty()).then_some(text)),
        ..BufferOptions::default()
    };
    let clauses = clauses.split(',').map(str::trim).filter(|clause| !clause.is_empty());
    clauses.into_iter().try_for_each(|clause| into.take(clause)).map(|()| into)
}

fn put<T>(to: &mut Option<T>, value: T, clause: &str) -> Result<(), IntoError> {
    match to.replace(value) {
        None => Ok(()),
        Some(_) => Err(IntoError::Twice(clause.to_string())),
    }
}

impl BufferOptions {
    fn take(&mut self, clause: &str) -> Result<(), IntoError> {
        let wrong = |expected| IntoError::Value { clause: clause.to_string(), expected };
        let (word, rest) = clause.split_once(char::is_whitespace).unwrap_or((clause, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("per", "cpu") => put(&mut self.spread, Spread::PerCpu, clause),
            ("one", "ring") => put(&mut self.spread, Spread::One, clause),
            ("cpus", rest) => {
                let groups =
                    groups(rest).ok_or_else(|| wrong("CPUs, each once: cpus 0-3 | 4-7"))?;
                put(&mut self.spread, Spread::Groups(groups), clause)
            }
            ("size", rest) => {
                let bytes = parse_size(rest).ok().and_then(|bytes| usize::try_from(bytes).ok());
                let is_size = |bytes: &usize| ring::Layout::new(1, *bytes as u64).is_some();
                let bytes = bytes.filter(is_size);
                put(
                    &mut self.bytes,
                    bytes.ok_or_else(|| wrong("a power of 2, 4KiB to 256MiB"))?,
                    clause,
                )
            }
            ("of", rest) => {
                let events: Vec<String> =
                    rest.split('|').map(|name| name.trim().to_string()).collect();
                match events.iter().any(String::is_empty) {
                    true => Err(wrong("names of events: of net_dev_queue | netif_rx")),
                    false => put(&mut self.events, events, clause),
                }
            }
            ("deliver", rest) => {
                let delivery = delivery(rest);
                let delivery = delivery.ok_or_else(|| wrong("each, 64KiB, 100 records or 10ms"))?;
                put(&mut self.delivery, delivery, clause)
            }
            ("to", rest) if !rest.is_empty() => put(&mut self.output, rest.into(), clause),
            _ => Err(IntoError::NoClause(clause.to_string())),
        }
    }
}

fn groups(text: &str) -> Option<Vec<Vec<usize>>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for group in text.split('|') {
        let mut cpus = Vec::new();
        for part in group.split_whitespace() {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MOST_CPUS {
                return None;
            }
            cpus.extend(first..=last);
        }
        if cpus.is_empty() || cpus.iter().any(|cpu| groups.iter().any(|other| other.contains(cpu)))
        {
            return None;
        }
        groups.push(cpus);
    }
    Some(groups)
}

fn delivery(text: &str) -> Option<Delivery> {
    if text == "each" {
        return Some(Delivery::Each);
    }
    if let Some(records) = text.strip_suffix("records") {
        return records.trim().parse().ok().filter(|n| *n > 0).map(Delivery::Records);
    }
    // A number alone is bytes.
    if let Ok(bytes) = parse_size(text) {
        return Some(Delivery::Bytes(bytes));
    }
    parse_duration(text).ok().map(Delivery::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_is_read() {
        let text = "big: cpus 0-1 4 | 2, size 64KiB, of a | net:b, deliver 10ms, to x.jsonl if size > 3 && tgid == 4";
        let (name, into) = parse(text).unwrap();
        let expected = BufferOptions {
            spread: Some(Spread::Groups(vec![vec![0, 1, 4], vec![2]])),
            bytes: Some(65536),
            events: Some(vec!["a".into(), "net:b".into()]),
            delivery: Some(Delivery::Time(Duration::from_millis(10))),
            output: Some("x.jsonl".into()),
            predicate: Some(Some("size > 3 && tgid == 4".into())),
        };
        assert_eq!((name.as_str(), into), ("big", expected));
        assert_eq!(parse("x:").unwrap().1, BufferOptions::default());
        assert_eq!(clauses("if").unwrap().predicate, Some(None));
        assert_eq!(clauses("one ring").unwrap().spread, Some(Spread::One));
        for (text, delivery) in [
            ("each", Delivery::Each),
            ("100 records", Delivery::Records(100)),
            ("64KiB", Delivery::Bytes(65536)),
            ("4096", Delivery::Bytes(4096)),
            ("2s", Delivery::Time(Duration::from_secs(2))),
        ] {
            assert_eq!(clauses(&format!("deliver {text}")).unwrap().delivery, Some(delivery));
        }
    }

    #[test]
    fn what_is_no_buffer_is_refused() {
        for text in [
            "x",
            "a b: one ring",
            ": one ring",
            "x: two rings",
            "x: one ring, per cpu",
            "x: size 1000",
            "x: cpus 0-3 | 3",
            "x: cpus 3-1",
            "x: cpus",
            "x: deliver",
            "x: deliver 0 records",
            "x: to",
            "x: of a |",
            "x: cpus 0-99999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
