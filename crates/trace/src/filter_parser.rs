//! The parser of filters: `tgid == 42 && cpu in 0..3 && skb->len > 1000`, or in tcpdump's syntax.
//!
//! Reads text; emits a tree whose parts know where they stand. Names and types are not looked at
//! here. Refuses what is no filter, with the place.

use crate::cursor::{Cursor, DEEPEST};
use crate::error::{Refusal, Span, Wrong};
use crate::filter::{self, Filter, Item, Operand};
use crate::path::Path;
use crate::suggest::nearest;
use crate::tcpdump::{self, Qualifiers};
use crate::vocabulary;

/// The longest list behind `in`.
const LONGEST_LIST: usize = 256;

impl Filter {
    /// Reads a filter; nothing may follow it.
    pub fn parse(text: &str) -> Result<Filter, Refusal> {
        let mut cursor = Cursor::new(text)?;
        let filter = Filter::take(&mut cursor)?;
        match cursor.is_at_end() {
            true => Ok(filter),
            false => Err(cursor.expected("&&, || or the end").near(tcpdump::near(&cursor))),
        }
    }

    /// Reads a filter.
    pub(crate) fn take(cursor: &mut Cursor<'_>) -> Result<Filter, Refusal> {
        let mut parser = Parser { cursor, tcpdump: Tcpdump::default() };
        let filter = parser.either(0)?;
        match parser.tcpdump {
            Tcpdump { is_met: true, ambiguous: Some(span), .. } => {
                Err(span.refuse(cursor.text(), Wrong::Unsupported(AMBIGUOUS.to_string())))
            }
            _ => Ok(filter),
        }
    }
}

const AMBIGUOUS: &str = "tcpdump takes `and` and `or` from left to right, weigh takes `and` first; \
                         put parentheses around the part that is meant";

/// What of a filter is in tcpdump's syntax.
#[derive(Default)]
struct Tcpdump {
    /// Whether any of it is.
    is_met: bool,
    /// Where "and" and "or" stand beside each other without parentheses.
    ambiguous: Option<Span>,
    /// What stood before the last value: `port 53 or 80`.
    last: Option<Qualifiers>,
}

struct Parser<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    tcpdump: Tcpdump,
}

impl Parser<'_, '_> {
    /// Takes `&&` or `and`, or the like.
    fn eat(&mut self, mark: &str, word: &str) -> bool {
        if self.cursor.eat(mark) {
            return true;
        }
        let is_word = self.cursor.eat_word(word);
        self.tcpdump.is_met |= is_word;
        is_word
    }

    fn either(&mut self, depth: usize) -> Result<Filter, Refusal> {
        let begin = self.cursor.at();
        let (mut filter, mut has_and) = self.both(depth)?;
        let mut parts = 0;
        while self.eat("||", "or") {
            let (next, is_chain) = self.both(depth)?;
            filter = Filter::Or(Box::new(filter), Box::new(next));
            has_and |= is_chain;
            parts = count(parts, self.cursor)?;
        }
        if has_and && parts > 0 {
            let length = self.cursor.text()[begin..self.cursor.at()].trim_end().len();
            self.tcpdump.ambiguous.get_or_insert(Span { at: begin, length });
        }
        Ok(filter)
    }

    /// What "and" joins, and whether it joins anything.
    fn both(&mut self, depth: usize) -> Result<(Filter, bool), Refusal> {
        let mut filter = self.single(depth)?;
        let mut parts = 0;
        while self.eat("&&", "and") {
            filter = Filter::And(Box::new(filter), Box::new(self.single(depth)?));
            parts = count(parts, self.cursor)?;
        }
        Ok((filter, parts > 0))
    }

    fn single(&mut self, depth: usize) -> Result<Filter, Refusal> {
        if depth > DEEPEST {
            let wrong = Wrong::TooMuch(format!("nested deeper than {DEEPEST}"));
            let span = Span { at: self.cursor.at(), length: 1 };
            return Err(span.refuse(self.cursor.text(), wrong));
        }
        if self.eat("!", "not") {
            return Ok(Filter::Not(Box::new(self.single(depth + 1)?)));
        }
        if self.cursor.eat("(") {
            let filter = self.either(depth + 1)?;
            self.cursor.need(")")?;
            return Ok(filter);
        }
        match tcpdump::primitive(self.cursor, &mut self.tcpdump.last)? {
            Some(filter) => {
                self.tcpdump.is_met = true;
                Ok(filter)
            }
            None => comparison(self.cursor),
        }
    }
}

/// A chain is a tree as deep as it is long, and a walk through it goes as deep.
fn count(parts: usize, cursor: &Cursor<'_>) -> Result<usize, Refusal> {
    if parts < LONGEST_LIST {
        return Ok(parts + 1);
    }
    let wrong = Wrong::TooMuch(format!("more than {LONGEST_LIST} parts in a row"));
    Err(Span { at: cursor.at(), length: 1 }.refuse(cursor.text(), wrong))
}

fn comparison(cursor: &mut Cursor<'_>) -> Result<Filter, Refusal> {
    let mut ahead = cursor.clone();
    if let Some(("counter", span)) = ahead.name()
        && ahead.sees("(")
    {
        let wrong = "a counter is a field, and no part of a filter";
        return Err(span.refuse(cursor.text(), Wrong::Unsupported(wrong.to_string())));
    }
    let Some(left) = Path::parse(cursor)? else {
        return Err(
            cursor.expected("an argument of the event, or tgid, tid, cpu, comm, '!' or '('")
        );
    };
    if cursor.eat_word("in") {
        return Ok(Filter::In { left, items: items(cursor)? });
    }
    let masks = cursor.sees("&") && !cursor.sees("&&");
    let mask = if masks && cursor.eat("&") { Some(self::mask(cursor)?) } else { None };
    match filter::comparison_mark(cursor) {
        Some(how) => {
            let right = self::mask(cursor)?;
            Ok(Filter::Compare { left, mask, how, right })
        }
        None => Ok(filter::is_set(left, mask, cursor.at())),
    }
}

fn items(cursor: &mut Cursor<'_>) -> Result<Vec<Item>, Refusal> {
    let is_list = cursor.eat("(");
    let mut items = Vec::new();
    loop {
        let first = operand(cursor)?;
        items.push(match cursor.eat("..") {
            true => filter::range(cursor.text(), first, operand(cursor)?)?,
            false => Item::One(first),
        });
        count(items.len() - 1, cursor)?;
        if !is_list || !cursor.eat(",") {
            break;
        }
    }
    if is_list {
        cursor.need(")")?;
    }
    Ok(items)
}

/// Bits: one constant, or several of them, in parentheses: `(A | B)`.
fn mask(cursor: &mut Cursor<'_>) -> Result<Operand, Refusal> {
    if !cursor.eat("(") {
        return operand(cursor);
    }
    let mut bits = 0;
    let begin = Span { at: cursor.at(), length: 0 };
    let span = loop {
        let span = match operand(cursor)? {
            Operand::Number { value, span } => {
                bits |= value;
                begin.to(span)
            }
            Operand::Path(Path { base, span, .. }) if flag(&base).is_some() => {
                bits |= i128::from(flag(&base).unwrap_or_default());
                begin.to(span)
            }
            other => {
                let wrong = Wrong::Expected { expected: "a number or a flag: (0x1 | O_CREAT)" };
                return Err(other.span().refuse(cursor.text(), wrong));
            }
        };
        if !cursor.eat("|") {
            break span;
        }
    };
    cursor.need(")")?;
    Ok(Operand::Number { value: bits, span })
}

fn flag(name: &str) -> Option<i64> {
    vocabulary::value(name).or_else(|| vocabulary::tcp_flag(name))
}

/// An error as system calls return it: `-ENOENT`.
fn error_below(name: &str, span: Span, cursor: &Cursor<'_>) -> Result<Operand, Refusal> {
    match vocabulary::error(name) {
        Some(number) => Ok(Operand::Number { value: -i128::from(number), span }),
        None => {
            let wrong = Wrong::NoName { what: "error", name: name.to_string() };
            let near = nearest(name, vocabulary::errors());
            let near = near.iter().map(|name| format!("-{name}")).collect();
            Err(span.refuse(cursor.text(), wrong).near(near))
        }
    }
}

fn operand(cursor: &mut Cursor<'_>) -> Result<Operand, Refusal> {
    if let Some((text, span)) = cursor.address() {
        return filter::address(text, span, cursor.text());
    }
    let begin = Span { at: cursor.at(), length: 0 };
    if cursor.eat("-") {
        if let Some((name, span)) = cursor.name() {
            return error_below(name, begin.to(span), cursor);
        }
        let (number, span) = cursor.need_number()?;
        return Ok(Operand::Number { value: -i128::from(number), span: begin.to(span) });
    }
    if let Some((number, span)) = cursor.number()? {
        return Ok(Operand::Number { value: i128::from(number), span });
    }
    if let Some((value, span)) = cursor.quoted()? {
        return Ok(Operand::Text { value, span });
    }
    let path = Path::parse(cursor)?;
    path.map(Operand::Path)
        .ok_or_else(|| cursor.expected("a number, a text, an address, or a path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn and_binds_closer_than_or() {
        let filter = Filter::parse("a == 1 || b == 2 && !(c == 3)").unwrap();
        let Filter::Or(_, right) = filter else { panic!("{filter:?}") };
        assert!(matches!(*right, Filter::And(_, ref not) if matches!(**not, Filter::Not(_))));
    }

    #[test]
    fn lists_ranges_flags_and_texts_are_read() {
        for text in [
            "cpu in 0..3",
            "tgid in (1, 2, 7..9)",
            "skb->len & 0x10",
            "flags & (1|2) == 2",
            "comm != \"a \\\" b\"",
            "ret < -11",
            "ret == -ENOENT",
            "flags & (O_CREAT | O_TRUNC | 0x4)",
            "sk->a.b[3].c",
            "a->b..c == 1",
        ] {
            let parsed = Filter::parse(text);
            assert_eq!(parsed.is_ok(), text != "a->b..c == 1", "{text}: {parsed:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_stands() {
        let refusal = Filter::parse(r#"comm == "back\slash""#).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "expected \\\\ or \\\" behind a \\ in a text\n    comm == \"back\\slash\"\n                 ^^"
        );
        assert!(Filter::parse(r#"comm == "back\\slash \" ""#).is_ok());
        let refusal = Filter::parse("tgid == 42 && cpu = 3").unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "expected &&, || or the end\n    tgid == 42 && cpu = 3\n                      ^\n    near it: =="
        );
        let refusal = Filter::parse("ret == -ENOENTT").unwrap_err();
        assert_eq!(refusal.near[0], "-ENOENT");
        assert!(Filter::parse("tgid == 99999999999999999999").is_err());
        assert!(Filter::parse(&"(".repeat(10_000)).is_err());
        assert!(Filter::parse(&"!".repeat(10_000)).is_err());
        assert!(Filter::parse(&"a&&".repeat(10_000)).is_err());
    }
}
