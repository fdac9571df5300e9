//! What is wanted of several events together, as it is written.
//!
//! ```text
//! A -> B by KEY [== KEY OF B], … [within 1ms]                        latency
//! A [not] followed by B by KEY [== KEY OF B], … within 1ms           sequence
//! of A, B by KEY, …        10 of A by KEY        FIELD of A by KEY   rate, top, histogram
//! ```
//!
//! Reads text; emits a tree whose parts know where they stand. Which events and fields there are is not
//! looked at here. Refuses what is written wrongly, with the place.

use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};
use crate::event::{self, Field};
use crate::sampling;

/// The most parts of a key, and the most events of a list.
const MOST_PARTS: usize = 16;
/// The most rows of a table of the most frequent.
const MOST_ROWS: u64 = 10_000;

/// An event, as somebody calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// Its name, or its number among those that are followed.
    pub name: Result<String, u64>,
    /// Where that stands.
    pub span: Span,
}

/// A first event and a second one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairAsk {
    /// The first.
    pub first: Which,
    /// The second.
    pub second: Which,
    /// What both have to have in common: of the first, and of the second.
    pub by: Vec<(Field, Field)>,
    /// The most time between them, in nanoseconds.
    pub within_ns: Option<u64>,
}

/// Events that are counted by keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableAsk {
    /// Which; none: all.
    pub of: Vec<Which>,
    /// The keys.
    pub by: Vec<Field>,
}

/// Kinds of things that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskKind {
    /// The time between two events.
    Latency(PairAsk),
    /// First events that a second one follows; or those that none follows.
    Sequence {
        /// They.
        pair: PairAsk,
        /// None follows.
        is_not: bool,
    },
    /// Events in a second.
    Rate(TableAsk),
    /// The most frequent.
    Top {
        /// How many.
        most: usize,
        /// Of what.
        table: TableAsk,
    },
    /// How values are spread.
    Histogram {
        /// The values.
        value: Field,
        /// Of what.
        table: TableAsk,
    },
}

/// Something that is wanted of several events together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// As it was written.
    pub text: String,
    /// What.
    pub kind: AskKind,
}

impl Ask {
    /// Reads what is behind `--latency`.
    pub fn latency(text: &str) -> Result<Ask, Refusal> {
        read(text, |cursor| {
            let first = which(cursor)?;
            cursor.need("->")?;
            Ok(AskKind::Latency(pair(cursor, first)?))
        })
    }

    /// Reads what is behind `--sequence`.
    pub fn sequence(text: &str) -> Result<Ask, Refusal> {
        read(text, |cursor| {
            let first = which(cursor)?;
            let is_not = cursor.eat_word("not");
            for (word, expected) in
                [("followed", "'followed by', or 'not followed by'"), ("by", "by")]
            {
                if !cursor.eat_word(word) {
                    return Err(cursor.expected(expected));
                }
            }
            let pair = pair(cursor, first)?;
            // Without an end, none could ever be said not to be followed, or all would have to be kept.
            match pair.within_ns {
                Some(_) => Ok(AskKind::Sequence { pair, is_not }),
                None => Err(cursor.expected("'within 1ms', or another time")),
            }
        })
    }

    /// Reads what is behind `--rate`.
    pub fn rate(text: &str) -> Result<Ask, Refusal> {
        read(text, |cursor| Ok(AskKind::Rate(table(cursor)?)))
    }

    /// Reads what is behind `--top`.
    pub fn top(text: &str) -> Result<Ask, Refusal> {
        read(text, |cursor| {
            let (most, span) = cursor.need_number()?;
            if !(1..=MOST_ROWS).contains(&most) {
                let allowed = format!("1 to {MOST_ROWS}");
                let wrong = Wrong::Range { number: most.to_string(), allowed };
                return Err(span.refuse(cursor.text(), wrong));
            }
            Ok(AskKind::Top { most: most as usize, table: table(cursor)? })
        })
    }

    /// Reads what is behind `--histogram`.
    pub fn histogram(text: &str) -> Result<Ask, Refusal> {
        read(text, |cursor| {
            let value = event::nameless(cursor)?;
            Ok(AskKind::Histogram { value, table: table(cursor)? })
        })
    }

    /// The events that it names.
    pub fn events(&self) -> Vec<&Which> {
        match &self.kind {
            AskKind::Latency(pair) | AskKind::Sequence { pair, .. } => {
                vec![&pair.first, &pair.second]
            }
            AskKind::Rate(table)
            | AskKind::Top { table, .. }
            | AskKind::Histogram { table, .. } => table.of.iter().collect(),
        }
    }
}

impl Ask {
    /// Whether it looks at an event that is added while it runs: one of a table that names no events, or that
    /// one. Numbers are those of events that there were before, and pairs are of these.
    pub fn takes_in(&self, name: &str) -> bool {
        let is_named = |which: &Which| which.name.is_ok() && !which.find(&[name]).is_empty();
        self.table().is_some_and(|table| table.of.is_empty() || table.of.iter().any(is_named))
    }

    /// What is counted by keys.
    pub(super) fn table(&self) -> Option<&TableAsk> {
        match &self.kind {
            AskKind::Rate(table)
            | AskKind::Top { table, .. }
            | AskKind::Histogram { table, .. } => Some(table),
            AskKind::Latency(_) | AskKind::Sequence { .. } => None,
        }
    }

    /// The fields that a table needs of each of its events: its keys, then its value.
    pub fn fields_of_table(&self) -> Vec<&Field> {
        let by = self.table().into_iter().flat_map(|table| &table.by);
        let value = match &self.kind {
            AskKind::Histogram { value, .. } => Some(value),
            _ => None,
        };
        by.chain(value).collect()
    }
}

fn read(
    text: &str,
    kind: impl FnOnce(&mut Cursor<'_>) -> Result<AskKind, Refusal>,
) -> Result<Ask, Refusal> {
    let mut cursor = Cursor::new(text)?;
    let kind = kind(&mut cursor)?;
    match cursor.is_at_end() {
        true => Ok(Ask { text: text.to_string(), kind }),
        false => Err(cursor.expected("',', 'by', 'within', or the end")),
    }
}

fn which(cursor: &mut Cursor<'_>) -> Result<Which, Refusal> {
    if let Some((number, span)) = cursor.number()? {
        return Ok(Which { name: Err(number), span });
    }
    let begin = cursor.at();
    let (point, _) = event::point(cursor)?;
    let whole = cursor.text().get(begin..cursor.at()).unwrap_or_default().trim_end();
    Ok(Which { name: Ok(point.name()), span: Span { at: begin, length: whole.len() } })
}

fn pair(cursor: &mut Cursor<'_>, first: Which) -> Result<PairAsk, Refusal> {
    let second = which(cursor)?;
    if !cursor.eat_word("by") {
        return Err(cursor.expected("'by' and what both have in common, as 'by tid'"));
    }
    let by = list(cursor, |cursor| {
        let first = event::nameless(cursor)?;
        let second = if cursor.eat("==") { event::nameless(cursor)? } else { first.clone() };
        Ok((first, second))
    })?;
    let within_ns = if cursor.eat_word("within") { Some(sampling::time(cursor)?) } else { None };
    Ok(PairAsk { first, second, by, within_ns })
}

/// Takes `of EVENT, …`, if it stands here.
pub(crate) fn event_list(cursor: &mut Cursor<'_>) -> Result<Vec<Which>, Refusal> {
    if cursor.eat_word("of") { list(cursor, which) } else { Ok(Vec::new()) }
}

fn table(cursor: &mut Cursor<'_>) -> Result<TableAsk, Refusal> {
    let of = event_list(cursor)?;
    if !cursor.eat_word("by") {
        let expected = if of.is_empty() { "'of EVENT' or 'by KEY'" } else { "'by KEY'" };
        return Err(cursor.expected(expected));
    }
    Ok(TableAsk { of, by: list(cursor, event::nameless)? })
}

fn list<T>(
    cursor: &mut Cursor<'_>,
    one: impl Fn(&mut Cursor<'_>) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let mut all = vec![one(cursor)?];
    while cursor.eat(",") {
        all.push(one(cursor)?);
        if all.len() > MOST_PARTS {
            let wrong = Wrong::TooMuch(format!("more than {MOST_PARTS} in a list"));
            return Err(Span { at: cursor.at(), length: 1 }.refuse(cursor.text(), wrong));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_read() {
        let AskKind::Latency(pair) = Ask::latency(
            "sched:sched_wakeup -> sched_switch by p->pid == next->pid, cpu within 10 ms",
        )
        .unwrap()
        .kind
        else {
            panic!()
        };
        assert_eq!(pair.first.name.as_deref(), Ok("sched:sched_wakeup"));
        assert_eq!(pair.second.name.as_deref(), Ok("sched_switch"));
        let names: Vec<_> =
            pair.by.iter().map(|(a, b)| (a.name.as_str(), b.name.as_str())).collect();
        assert_eq!(names, [("p->pid", "next->pid"), ("cpu", "cpu")]);
        assert_eq!(pair.within_ns, Some(10_000_000));

        let ask = Ask::sequence("0 not followed by user:libc.so.6:free by tid within 1us").unwrap();
        let AskKind::Sequence { pair, is_not: true } = ask.kind else { panic!("{ask:?}") };
        assert_eq!(pair.first.name, Err(0));
        assert_eq!(pair.second.name.as_deref(), Ok("user:libc.so.6:free"));

        let ask = Ask::top("10 of net:net_dev_queue, fn:vfs_write%return by comm, cpu").unwrap();
        let AskKind::Top { most: 10, table } = ask.kind else { panic!("{ask:?}") };
        assert_eq!(table.of.len(), 2);
        assert_eq!(table.by.len(), 2);
        assert!(matches!(Ask::rate("by event").unwrap().kind, AskKind::Rate(_)));
        let ask = Ask::histogram("skb->len by cpu").unwrap();
        let AskKind::Histogram { value, .. } = ask.kind else { panic!("{ask:?}") };
        assert_eq!(value.name, "skb->len");
    }

    #[test]
    fn what_is_wrong_is_refused_where_it_stands() {
        for (asked, at) in [
            (Ask::latency("a b"), 2),
            (Ask::latency("a -> b"), 6),
            (Ask::latency("a -> b by"), 9),
            (Ask::latency("a -> b by tid within 1"), 22),
            (Ask::latency("a -> b by tid within 1ms x"), 25),
            (Ask::sequence("a followed by b by tid"), 22),
            (Ask::sequence("a follows b"), 2),
            (Ask::sequence("a not followed b"), 15),
            (Ask::rate(""), 0),
            (Ask::rate("of a"), 4),
            (Ask::top("0 by tid"), 0),
            (Ask::top("by tid"), 0),
            (Ask::histogram("len"), 3),
        ] {
            let refusal = asked.unwrap_err();
            assert_eq!(refusal.at, at, "{refusal}");
        }
        let many = "a,".repeat(100);
        assert!(Ask::rate(&format!("by {many}a")).is_err());
    }
}
