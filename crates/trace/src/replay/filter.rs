//! Filters over the fields of a recording.
//!
//! Reads a filter as it is written for the kernel, and the probes of a recording's events; says of each record
//! whether it holds. Refuses fields that none of the events has, with the nearest that one has, and comparisons
//! of a text with a number. What an event lacks is as what could not be had: a comparison with it is false.

use std::net::IpAddr;

use crate::error::{Refusal, Span, Wrong};
use crate::filter::{BEFORE_TEXT, Comparison, Filter, Item, Operand};
use crate::ip_prefix::Prefix;
use crate::number_range::NumberRange;
use crate::packet_header;
use crate::packet_resolve::either_side;
use crate::path::Path;
use crate::path_resolve::Shape;
use crate::probe::Probe;
use crate::record::{CUT_MARK, Record};
use crate::suggest::nearest;
use crate::synthesis::key::{Part, number, words};
use crate::value::Value;
use crate::vocabulary;

/// A filter, for each event of a recording.
pub struct RecordedFilter {
    of_events: Vec<Bound>,
}

/// One side of a comparison of numbers.
enum Side {
    Constant(i128),
    Part(Part),
}

/// A filter, for one event.
enum Bound {
    And(Box<Bound>, Box<Bound>),
    Or(Box<Bound>, Box<Bound>),
    Not(Box<Bound>),
    /// True or false for all of its records.
    Always(bool),
    Number {
        left: Part,
        mask: Option<u64>,
        how: Comparison,
        right: Side,
    },
    Text {
        left: Part,
        text: Vec<u8>,
        is_equal: bool,
    },
    /// An address, or the text of one.
    Address {
        left: Part,
        prefix: Prefix,
        is_equal: bool,
    },
}

impl RecordedFilter {
    /// Reads a filter, and finds what it names.
    pub fn parse(text: &str, probes: &[&Probe]) -> Result<RecordedFilter, Refusal> {
        let filter = Filter::parse(text)?;
        let bound = probes.iter().map(|probe| Binder { text, probe, probes }.bind(&filter));
        Ok(RecordedFilter { of_events: bound.collect::<Result<_, _>>()? })
    }

    /// Whether it holds for a record.
    pub fn holds(&self, probe: &Probe, record: Record<'_>) -> bool {
        let bound = self.of_events.get(record.event() as usize);
        bound.is_some_and(|bound| bound.holds(probe, record))
    }
}

/// Finds names, for one of the events.
struct Binder<'b> {
    text: &'b str,
    probe: &'b Probe,
    probes: &'b [&'b Probe],
}

impl Binder<'_> {
    fn bind(&self, filter: &Filter) -> Result<Bound, Refusal> {
        if let Some(both) = self.either_side(filter) {
            return self.bind(&both);
        }
        let boxed = |filter: &Filter| self.bind(filter).map(Box::new);
        Ok(match filter {
            Filter::And(a, b) => Bound::And(boxed(a)?, boxed(b)?),
            Filter::Or(a, b) => Bound::Or(boxed(a)?, boxed(b)?),
            Filter::Not(of) => Bound::Not(boxed(of)?),
            Filter::Compare { left, mask, how, right } => {
                self.compare(left, mask.as_ref(), *how, right)?
            }
            Filter::In { left, items } => {
                let mut any = Bound::Always(false);
                for item in items {
                    let one = match item {
                        Item::One(value) => self.compare(left, None, Comparison::Equal, value)?,
                        Item::Range(first, last) => Bound::And(
                            Box::new(self.compare(left, None, Comparison::AtLeast, first)?),
                            Box::new(self.compare(left, None, Comparison::AtMost, last)?),
                        ),
                    };
                    any = Bound::Or(Box::new(any), Box::new(one));
                }
                any
            }
        })
    }

    /// `port` and `host`, unless a field has that name.
    fn either_side(&self, filter: &Filter) -> Option<Filter> {
        let (Filter::Compare { left, .. } | Filter::In { left, .. }) = filter else { return None };
        let called = self.called(left);
        let is_field = self.probes.iter().any(|probe| find(&called, probe).is_some());
        if is_field { None } else { either_side(filter) }
    }

    fn compare(
        &self,
        left: &Path,
        mask: Option<&Operand>,
        how: Comparison,
        right: &Operand,
    ) -> Result<Bound, Refusal> {
        let Some(part) = self.part(left)? else { return Ok(Bound::Always(false)) };
        if let Operand::Address { prefix, span } = right {
            return self.address(left, part, how, (*prefix, *span));
        }
        if let Operand::Text { value, span } = right {
            return self.text(left, part, how, (value, *span));
        }
        if !part.is_number(self.probe) {
            let why = "it cannot be compared with a number, but perhaps with a \"text\"";
            return Err(self.refuse_type(left, "a text, or bytes, or a stack", why));
        }
        let mask = match mask {
            None => None,
            Some(Operand::Number { value, .. }) => Some(*value as u64),
            Some(Operand::Path(path)) if flag(&path.base).is_some() => {
                flag(&path.base).map(i64::cast_unsigned)
            }
            Some(other) => {
                let wrong = Wrong::Expected { expected: "a constant" };
                return Err(other.span().refuse(self.text, wrong));
            }
        };
        Ok(match self.right((part, mask.is_some(), how), right)? {
            None => Bound::Always(false),
            Some(right) => Bound::Number { left: part, mask, how, right },
        })
    }

    /// The part of a record that is called so; none if only other events have it.
    fn part(&self, path: &Path) -> Result<Option<Part>, Refusal> {
        let called = self.called(path);
        if let Some(part) = find(&called, self.probe) {
            return Ok(Some(part));
        }
        if self.probes.iter().any(|probe| find(&called, probe).is_some()) {
            return Ok(None);
        }
        let fields = self.probes.iter().flat_map(|probe| &probe.fields);
        let names = fields.map(|field| field.name.as_str()).chain(words());
        let near = nearest(&called, names);
        Err(path.span.refuse(self.text, Wrong::NoField(called)).near(near))
    }

    /// Its name as it stands there; that of a header may be meant by other words.
    fn called(&self, path: &Path) -> String {
        if let Some(name) = packet_header::dotted(path)
            .filter(|name| path.cast.is_none() && packet_header::is_name(name))
        {
            return name;
        }
        let span = path.span;
        let whole = self.text.get(span.at..span.at + span.length).unwrap_or_default();
        whole.chars().filter(|c| !c.is_whitespace()).collect()
    }

    fn text(
        &self,
        path: &Path,
        left: Part,
        how: Comparison,
        (value, span): (&str, Span),
    ) -> Result<Bound, Refusal> {
        let is_equal = how.is_equality(path.span.to(span), self.text, BEFORE_TEXT)?;
        if left == Part::Event {
            return Ok(Bound::Always((self.probe.name == value) == is_equal));
        }
        if let Shape::Enum(_) = left.shape(self.probe) {
            let constants = left.constants(self.probe);
            let named = constants.iter().find(|(_, name)| name == value);
            let right = named.map(|(number, _)| Side::Constant((*number).into()));
            return right.map(|right| Bound::Number { left, mask: None, how, right }).ok_or_else(
                || {
                    let names = constants.iter().map(|(_, name)| name.as_str());
                    let wrong = Wrong::NoConstant(value.to_string());
                    span.refuse(self.text, wrong).near(nearest(value, names))
                },
            );
        }
        if left.shape(self.probe) == Shape::Address {
            let prefix = Prefix::parse(value);
            let prefix =
                prefix.map_err(|expected| span.refuse(self.text, Wrong::Address(expected)));
            return prefix.map(|prefix| Bound::Address { left, prefix, is_equal });
        }
        if left.shape(self.probe) != Shape::Text {
            return Err(self.refuse_type(path, "a number, or bytes", "it is no text"));
        }
        Ok(Bound::Text { left, text: value.as_bytes().to_vec(), is_equal })
    }

    fn address(
        &self,
        path: &Path,
        left: Part,
        how: Comparison,
        (prefix, span): (Prefix, Span),
    ) -> Result<Bound, Refusal> {
        if !matches!(left.shape(self.probe), Shape::Address | Shape::Text) {
            return Err(self.refuse_type(path, "a number, or bytes", "it is no address"));
        }
        match how {
            Comparison::Equal | Comparison::Unequal => {
                Ok(Bound::Address { left, prefix, is_equal: how == Comparison::Equal })
            }
            _ => {
                let wrong = Wrong::Expected { expected: "== or != before an address" };
                Err(path.span.to(span).refuse(self.text, wrong))
            }
        }
    }

    fn refuse_type(&self, path: &Path, kind: &str, why: &'static str) -> Refusal {
        let (what, kind) = (self.called(path), kind.to_string());
        path.span.refuse(self.text, Wrong::Type { what, kind, why })
    }

    /// The other side; none if only other events have it.
    fn right(
        &self,
        (left, is_masked, how): (Part, bool, Comparison),
        right: &Operand,
    ) -> Result<Option<Side>, Refusal> {
        let path = match right {
            Operand::Number { value, span } => {
                return self.bounded((left, is_masked, how), *value, *span).map(Some);
            }
            Operand::Path(path) => path,
            Operand::Text { span, .. } | Operand::Address { span, .. } => {
                return Err(span.refuse(self.text, Wrong::Expected { expected: "a number" }));
            }
        };
        let constants = |probe: &Probe| -> Vec<(i64, String)> {
            let named = find(&left.name(self.probe), probe);
            named.map(|part| part.constants(probe)).unwrap_or_default()
        };
        let called = self.called(path);
        let is_it = |(_, name): &&(i64, String)| *name == called;
        if let Some((value, _)) = constants(self.probe).iter().find(is_it) {
            return Ok(Some(Side::Constant((*value).into())));
        }
        if let Some(value) = vocabulary::value(&called) {
            return Ok(Some(Side::Constant(value.into())));
        }
        match self.part(path) {
            Ok(Some(part)) if !part.is_number(self.probe) => {
                let why = "it cannot be compared with a number";
                Err(self.refuse_type(path, "a text, or bytes, or a stack", why))
            }
            Ok(part) => Ok(part.map(Side::Part)),
            Err(refusal) => {
                let known: Vec<_> = self.probes.iter().flat_map(|probe| constants(probe)).collect();
                if known.iter().any(|constant| is_it(&constant)) {
                    return Ok(None);
                }
                let names = known.iter().map(|(_, name)| name.as_str());
                let mut near = nearest(&called, names);
                near.extend(refusal.near.iter().cloned());
                let wrong = Wrong::NoConstant(called);
                Err(path.span.refuse(self.text, wrong).near(near))
            }
        }
    }

    /// A number that the left side is compared with.
    fn bounded(
        &self,
        (left, is_masked, how): (Part, bool, Comparison),
        value: i128,
        span: Span,
    ) -> Result<Side, Refusal> {
        let (bits, is_signed) = if is_masked { (64, false) } else { left.width(self.probe) };
        let compared = NumberRange::new(bits, is_signed).compare(how, value);
        let (_, reading) = compared.map_err(|allowed| {
            span.refuse(self.text, Wrong::Range { number: value.to_string(), allowed })
        })?;
        Ok(Side::Constant(match how {
            Comparison::Equal | Comparison::Unequal if is_signed => i128::from(reading as i64),
            Comparison::Equal | Comparison::Unequal => i128::from(reading),
            // Numbers of more bits than the field has, and compared as they are.
            _ => value,
        }))
    }
}

fn find(called: &str, probe: &Probe) -> Option<Part> {
    let is_it = |name: &str| name.chars().filter(|c| !c.is_whitespace()).eq(called.chars());
    let field = probe.fields.iter().find(|field| is_it(&field.name));
    Part::find(field.map_or(called, |field| field.name.as_str()), probe)
}

impl Bound {
    fn holds(&self, probe: &Probe, record: Record<'_>) -> bool {
        match self {
            Bound::And(a, b) => a.holds(probe, record) && b.holds(probe, record),
            Bound::Or(a, b) => a.holds(probe, record) || b.holds(probe, record),
            Bound::Not(of) => !of.holds(probe, record),
            Bound::Always(truth) => *truth,
            Bound::Text { left, text, is_equal } => match left.of(probe, record) {
                Value::Text(other) if is_beginning(other, text) => false,
                Value::Text(other) => (other == text) == *is_equal,
                _ => false,
            },
            Bound::Address { left, prefix, is_equal } => {
                let address = address(&left.of(probe, record));
                address.is_some_and(|address| prefix.contains(address) == *is_equal)
            }
            Bound::Number { left, mask, how, right } => {
                let right = match right {
                    Side::Constant(value) => Some(*value),
                    Side::Part(part) => number(&part.of(probe, record)),
                };
                let (Some(left), Some(right)) = (number(&left.of(probe, record)), right) else {
                    return false;
                };
                match mask {
                    None => compares(left, *how, right),
                    Some(mask) => compares((left as u64 & mask).into(), *how, right),
                }
            }
        }
    }
}

fn flag(name: &str) -> Option<i64> {
    vocabulary::value(name).or_else(|| vocabulary::tcp_flag(name))
}

fn address(value: &Value<'_>) -> Option<IpAddr> {
    match value {
        Value::Address(address) => Some(*address),
        Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Whether it is what is left of a text that may have been this one.
fn is_beginning(cut: &[u8], text: &[u8]) -> bool {
    let begins = |cut: &[u8]| cut.len() < text.len() && text.starts_with(cut);
    cut.strip_suffix(CUT_MARK).is_some_and(begins) && cut != text
}

fn compares(left: i128, how: Comparison, right: i128) -> bool {
    match how {
        Comparison::Equal => left == right,
        Comparison::Unequal => left != right,
        Comparison::Less => left < right,
        Comparison::AtMost => left <= right,
        Comparison::Greater => left > right,
        Comparison::AtLeast => left >= right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{self, Cell, Header};
    use weigh_schema::trace::{EventNote, FieldKind, FieldNote};

    fn field(name: &str, kind: FieldKind, bytes: u32) -> FieldNote {
        let constants = match kind {
            FieldKind::Enum => vec![(0, "NO".to_string()), (2, "YES".to_string())],
            _ => Vec::new(),
        };
        let is_signed = kind == FieldKind::Signed;
        let (name, column) = (name.to_string(), name.to_string());
        FieldNote { name, column, kind, bytes, is_signed, constants }
    }

    fn probes() -> [Probe; 2] {
        let first = vec![
            field("skb->len", FieldKind::Unsigned, 4),
            field("ret", FieldKind::Signed, 8),
            field("dev", FieldKind::Text, 16),
            field("why", FieldKind::Enum, 4),
        ];
        let of = |name: &str, fields| EventNote { name: name.into(), fields, ..Default::default() };
        let second = of("b", vec![field("only", FieldKind::Unsigned, 1)]);
        [of("a", first), second].map(|note| replay::probe(&note).unwrap())
    }

    fn holds(text: &str) -> [bool; 2] {
        let [a, b] = probes();
        let filter = RecordedFilter::parse(text, &[&a, &b]).unwrap_or_else(|e| panic!("{e}"));
        let cells = [Cell::Number(1400), Cell::Number(-11), Cell::Text(b"lo"), Cell::Text(b"YES")];
        let head = |event| Header { event, cpu: 3, tgid: 42, tid: 43, id: 9, time_ns: 1 };
        let (mut one, mut other) = (Vec::new(), Vec::new());
        replay::write(&a, head(0), &cells, &mut one).unwrap();
        replay::write(&b, head(1), &[Cell::Absent], &mut other).unwrap();
        let record = |bytes| Record::new(bytes).unwrap();
        [filter.holds(&a, record(&one)), filter.holds(&b, record(&other))]
    }

    #[test]
    fn filters_hold_as_they_do_in_the_kernel() {
        for (text, expected) in [
            ("tgid == 42 && cpu in 0..3", [true, true]),
            ("skb->len > 1000", [true, false]),
            ("skb -> len in (1, 1400)", [true, false]),
            ("!(skb->len > 1000)", [false, true]),
            ("ret < -10 && ret >= -11", [true, false]),
            ("dev == \"lo\"", [true, false]),
            ("dev != \"lo\"", [false, false]),
            ("why == YES || why == 5", [true, false]),
            ("why & 2", [true, false]),
            ("skb->len & 0x178 == 0x178", [true, false]),
            ("event == \"b\"", [false, true]),
            ("only", [false, false]),
            ("tid > tgid", [true, true]),
            ("ret in -20..18446744073709551615", [true, false]),
            ("ret < 18446744073709551605", [true, false]),
            ("ret == 18446744073709551605", [true, false]),
        ] {
            assert_eq!(holds(text), expected, "{text}");
        }
    }

    #[test]
    fn what_no_event_has_is_refused_with_what_is_near() {
        let [a, b] = probes();
        for (text, words) in [
            ("skb->lem > 3", &["skb->lem", "skb->len"][..]),
            ("dev == 3", &["dev", "text"]),
            ("ret == \"x\"", &["ret", "no text"]),
            ("why == YESS", &["YESS", "YES"]),
            ("only == 256", &["0 to 255"]),
            ("dev < \"lo\"", &["=="]),
            ("tgid ==", &["^"]),
            ("tgid < 0", &["never less"]),
            ("ret > 9223372036854775808", &["never greater"]),
            ("tgid in 5..3", &["3..5 may be meant"]),
        ] {
            let refusal = RecordedFilter::parse(text, &[&a, &b]).err();
            let said = refusal.unwrap_or_else(|| panic!("{text}")).to_string();
            assert!(words.iter().all(|word| said.contains(word)), "{text}: {said}");
        }
    }
}
