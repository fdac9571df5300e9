//! Filters whose names and types have been checked.
//!
//! Reads a filter as it is written, and the event's arguments; emits a [`Test`]. Refuses names that
//! do not exist, comparisons of a text with a number, and numbers that the other side can never be.

use crate::btf::{Btf, TypeKind};
use crate::counter::Counter;
use crate::error::{Refusal, Span, Wrong};
use crate::filter::{BEFORE_TEXT, Comparison, Filter, Item, Operand};
use crate::ip_prefix::Prefix;
use crate::number_range::NumberRange;
use crate::packet_header::{PacketField, Side};
use crate::packet_resolve;
use crate::path::{Cast, Path};
use crate::path_resolve::{Meaning, PathEnd, Shape, Walker};
use crate::suggest::nearest;
use crate::syscall;
use crate::vocabulary::{self, Vocabulary};

/// The longest text that is compared, and the end of it.
pub const TEXT_ROOM: usize = 64;
/// What of a text is read to be compared: one byte past the longest, which tells a longer text from it.
pub const COMPARED_BYTES: usize = TEXT_ROOM + 1;
/// The kernel's name of a thread, with its end.
pub const NAME_BYTES: u32 = 16;

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The process.
    Tgid,
    /// The thread.
    Tid,
    /// The CPU.
    Cpu,
    /// The event's number, in predicates alone, as what follows.
    Event,
    /// Bytes of the record.
    Size,
    /// What the record is about.
    Id,
    /// An argument, or what lies behind it.
    PathEnd(PathEnd),
    /// What a counter of the CPU shows; in no filter.
    Counter(Counter),
    /// Bytes of the record's packet that were kept; in no filter, as what follows.
    PacketKept,
    /// Bytes that the packet had.
    PacketLength,
    /// A part of a packet's headers that is a number.
    Packet(PacketField),
    /// The lowest bits of another number.
    Cast(Box<Source>, Cast),
}

impl Source {
    /// A word of the header, in filters and fields alike.
    pub fn of_header(word: &str) -> Option<Source> {
        match word {
            "tgid" => Some(Source::Tgid),
            "tid" => Some(Source::Tid),
            "cpu" => Some(Source::Cpu),
            _ => None,
        }
    }

    /// The counter, if it is one.
    pub fn counter(&self) -> Option<Counter> {
        match self {
            Source::Counter(counter) => Some(*counter),
            _ => None,
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u32 {
        match self {
            Source::PathEnd(place) => place.bytes,
            Source::Id | Source::Counter(_) => 8,
            Source::Packet(field) => field.bytes(),
            Source::Cast(_, cast) => cast.bytes,
            _ => 4,
        }
    }

    /// What it is.
    pub fn shape(&self) -> Shape {
        match self {
            Source::PathEnd(place) => place.shape,
            Source::Packet(field) => field.shape(),
            Source::Cast(_, Cast { is_signed: true, .. }) => Shape::Signed,
            _ => Shape::Unsigned,
        }
    }

    /// Whether it can be below 0.
    pub fn is_signed(&self) -> bool {
        match self {
            Source::PathEnd(place) => place.is_signed,
            Source::Cast(_, cast) => cast.is_signed,
            _ => false,
        }
    }

    /// Names that its numbers have, where the kernel's types do not tell.
    pub fn names(&self) -> Option<Vocabulary> {
        match self {
            Source::PathEnd(PathEnd { meaning: Meaning::Names(names), .. }) => Some(*names),
            Source::Packet(field) => field.names(),
            _ => None,
        }
    }

    /// Whether it is a part of a packet's headers.
    pub fn is_of_packet(&self) -> bool {
        match self {
            Source::Packet(_) => true,
            Source::Cast(of, _) => of.is_of_packet(),
            _ => false,
        }
    }

    /// How many bits count.
    fn width(&self) -> u32 {
        match self {
            Source::PathEnd(place) => match place.end {
                crate::path_resolve::End::Loaded { bits: Some(bits), .. } => bits.count,
                // Types may say of themselves that they are of any size.
                _ => place.bytes.saturating_mul(8),
            },
            _ => self.bytes() * 8,
        }
    }
}

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSource {
    /// The name of the thread.
    Comm,
    /// An array of characters, or a pointer to some.
    PathEnd(PathEnd),
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// A constant.
    Constant(u64),
    /// Another value.
    Source(Source),
}

/// A filter, checked. A comparison with what cannot be had (a pointer on the way is NULL) is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Both.
    And(Box<Test>, Box<Test>),
    /// One of them.
    Or(Box<Test>, Box<Test>),
    /// Not that.
    Not(Box<Test>),
    /// Two numbers.
    Number {
        /// The left one.
        left: Source,
        /// The bits of it that count, if not all do.
        mask: Option<u64>,
        /// How they are compared.
        how: Comparison,
        /// Whether they can be below 0.
        is_signed: bool,
        /// The right one.
        right: Right,
    },
    /// A text is that one, or is not.
    Text {
        /// Where it comes from.
        source: TextSource,
        /// The other.
        text: Vec<u8>,
        /// Whether it is to be that one.
        is_equal: bool,
    },
    /// A packet's address begins with these bits, or does not.
    Address {
        /// Which of its two.
        side: Side,
        /// The bits.
        prefix: Prefix,
        /// Whether it is to begin so.
        is_equal: bool,
    },
}

impl Test {
    /// Whether it looks at a packet's headers.
    pub fn is_of_packet(&self) -> bool {
        match self {
            Test::And(a, b) | Test::Or(a, b) => a.is_of_packet() || b.is_of_packet(),
            Test::Not(of) => of.is_of_packet(),
            Test::Number { left, right, .. } => {
                let right = matches!(right, Right::Source(source) if source.is_of_packet());
                left.is_of_packet() || right
            }
            Test::Text { .. } => false,
            Test::Address { .. } => true,
        }
    }
}

/// Whether a pointer leads to characters.
pub fn leads_to_text(btf: &Btf, place: &PathEnd) -> bool {
    let Ok((_, TypeKind::Pointer(to))) = btf.bare(place.kind) else { return false };
    matches!(btf.bare(to), Ok((_, TypeKind::Int { bytes: 1, .. })))
}

/// Checks a filter.
pub fn check(walker: &Walker<'_>, filter: &Filter) -> Result<Test, Refusal> {
    if let Some(both) = either_side(walker, filter) {
        return check(walker, &both);
    }
    let both = |a: &Filter, b: &Filter| -> Result<_, Refusal> {
        Ok((Box::new(check(walker, a)?), Box::new(check(walker, b)?)))
    };
    Ok(match filter {
        Filter::And(a, b) => both(a, b).map(|(a, b)| Test::And(a, b))?,
        Filter::Or(a, b) => both(a, b).map(|(a, b)| Test::Or(a, b))?,
        Filter::Not(of) => Test::Not(Box::new(check(walker, of)?)),
        Filter::Compare { left, mask, how, right } => {
            compare(walker, left, mask.as_ref(), *how, right)?
        }
        Filter::In { left, items } => {
            one_of(walker.text, left, items, |how, right| compare(walker, left, None, how, right))?
        }
    })
}

/// `port` and `host`, unless an argument has that name.
fn either_side(walker: &Walker<'_>, filter: &Filter) -> Option<Filter> {
    let (Filter::Compare { left, .. } | Filter::In { left, .. }) = filter else { return None };
    match walker.argument(&left.base) {
        Some(_) => None,
        None => packet_resolve::either_side(filter),
    }
}

/// Whether it is one of several: `compare` holds it to one of them.
pub(crate) fn one_of(
    text: &str,
    left: &Path,
    items: &[Item],
    compare: impl Fn(Comparison, &Operand) -> Result<Test, Refusal>,
) -> Result<Test, Refusal> {
    let mut tests = items.iter().map(|item| match item {
        Item::One(value) => compare(Comparison::Equal, value),
        Item::Range(first, last) => Ok(Test::And(
            Box::new(compare(Comparison::AtLeast, first)?),
            Box::new(compare(Comparison::AtMost, last)?),
        )),
    });
    let Some(first) = tests.next() else {
        let wrong = Wrong::Expected { expected: "something to be in" };
        return Err(left.span.refuse(text, wrong));
    };
    tests.try_fold(first?, |so_far, test| Ok(Test::Or(Box::new(so_far), Box::new(test?))))
}

fn compare(
    walker: &Walker<'_>,
    left: &Path,
    mask: Option<&Operand>,
    how: Comparison,
    right: &Operand,
) -> Result<Test, Refusal> {
    if let (Some(PacketField::Address(side)), None) = (walker.packet_field(left)?, left.cast) {
        return address(walker, left, side, mask, how, right);
    }
    if let Operand::Text { value, span } = right {
        return match name_of_call(walker, left, how, value, *span)? {
            Some(test) => Ok(test),
            None => text(walker, left, how, value, *span),
        };
    }
    let source = number(walker, left)?;
    let mask = match mask {
        None => None,
        // Of bits nobody asks for an order.
        Some(mask) => match operand(walker, &source, mask, Comparison::Equal, Some(0))? {
            (_, Right::Constant(mask)) => Some(mask),
            (_, Right::Source(_)) => {
                let wrong = Wrong::Expected { expected: "a constant" };
                return Err(mask.span().refuse(walker.text, wrong));
            }
        },
    };
    let (how, right) = operand(walker, &source, right, how, mask)?;
    let right_is_signed = matches!(&right, Right::Source(source) if source.is_signed());
    let is_signed = mask.is_none() && (source.is_signed() || right_is_signed);
    match right {
        Right::Source(right) if mask.is_none() => Ok(two_numbers(source, how, right)),
        right => Ok(Test::Number { left: source, mask, how, is_signed, right }),
    }
}

/// An address of a packet, which is compared with another or with a prefix.
fn address(
    walker: &Walker<'_>,
    left: &Path,
    side: Side,
    mask: Option<&Operand>,
    how: Comparison,
    right: &Operand,
) -> Result<Test, Refusal> {
    let expected = "== or != before an address; `in` takes several";
    let is_equal = how.is_equality(left.span.to(right.span()), walker.text, expected)?;
    let refuse =
        |span: Span, expected: String| Err(span.refuse(walker.text, Wrong::Address(expected)));
    if let Some(mask) = mask {
        return refuse(
            mask.span(),
            "no bits of an address, but a prefix: == 10.0.0.0/8".to_string(),
        );
    }
    match right {
        Operand::Address { prefix, .. } => Ok(Test::Address { side, prefix: *prefix, is_equal }),
        Operand::Text { value, span } => match Prefix::parse(value) {
            Ok(prefix) => Ok(Test::Address { side, prefix, is_equal }),
            Err(expected) => refuse(*span, expected),
        },
        other => {
            let expected =
                "an address: 10.0.0.1, 10.0.0.0/8, 2001:db8::1 (names of hosts are not looked up)";
            let span = if other.span().length == 0 { left.span } else { other.span() };
            refuse(span, expected.to_string())
        }
    }
}

/// A system call by its name: `name == "openat"`.
fn name_of_call(
    walker: &Walker<'_>,
    left: &Path,
    how: Comparison,
    value: &str,
    span: Span,
) -> Result<Option<Test>, Refusal> {
    let is_of_header = left.word().is_some_and(|word| Source::of_header(word).is_some());
    let is_of_packet = walker.packet_field(left)?.is_some();
    if is_of_header || is_of_packet || left.cast.is_some() || left.word() == Some("comm") {
        return Ok(None);
    }
    let place = walker.follow(left)?;
    if place.meaning != Meaning::Names(Vocabulary::Syscalls) {
        return Ok(None);
    }
    if !matches!(how, Comparison::Equal | Comparison::Unequal) {
        let wrong = Wrong::Expected { expected: "== or != before a name" };
        return Err(left.span.to(span).refuse(walker.text, wrong));
    }
    let Some(number) = syscall::number_of(value) else {
        let refusal = span.refuse(walker.text, Wrong::NoCall(value.to_string()));
        return Err(refusal.near(nearest(value, syscall::all().map(|(_, name)| name))));
    };
    let (left, right) = (Source::PathEnd(place), Right::Constant(number.into()));
    Ok(Some(Test::Number { left, mask: None, how, is_signed: true, right }))
}

/// Two values. Of 64 bits each, one signed and one not, neither reading of both is true for all: what is below 0 is
/// less than whatever the other is.
fn two_numbers(left: Source, how: Comparison, right: Source) -> Test {
    let number = |how, is_signed| {
        let (left, right) = (left.clone(), Right::Source(right.clone()));
        Box::new(Test::Number { left, mask: None, how, is_signed, right })
    };
    let is_plain = left.is_signed() == right.is_signed()
        || matches!(how, Comparison::Equal | Comparison::Unequal)
        || unsigned_width(&left, &right) < 64;
    if is_plain {
        return *number(how, left.is_signed() || right.is_signed());
    }
    let is_signed_less = match how {
        Comparison::Less | Comparison::AtMost => left.is_signed(),
        _ => right.is_signed(),
    };
    let signed = if left.is_signed() { &left } else { &right };
    let sign = |how| {
        let (left, right) = (signed.clone(), Right::Constant(0));
        Box::new(Test::Number { left, mask: None, how, is_signed: true, right })
    };
    match is_signed_less {
        true => Test::Or(sign(Comparison::Less), number(how, false)),
        false => Test::And(sign(Comparison::AtLeast), number(how, false)),
    }
}

fn unsigned_width(left: &Source, right: &Source) -> u32 {
    if left.is_signed() { right.width() } else { left.width() }
}

/// The number that a cast takes the lowest bits of, where its type is known.
pub(crate) fn cast(walker: &Walker<'_>, path: &Path) -> Result<Option<Source>, Refusal> {
    let Some(cast) = path.cast else { return Ok(None) };
    let whole = Path { cast: None, ..path.clone() };
    let is_known = whole.word().is_some_and(|word| Source::of_header(word).is_some())
        || walker.packet_field(&whole)?.is_some()
        || walker.follow(&whole)?.kind != 0;
    match is_known {
        true => Ok(Some(Source::Cast(Box::new(number(walker, &whole)?), cast))),
        false => Ok(None),
    }
}

fn number(walker: &Walker<'_>, path: &Path) -> Result<Source, Refusal> {
    if let Some(source) = cast(walker, path)? {
        return Ok(source);
    }
    match walker.packet_field(path)? {
        Some(PacketField::Address(_)) => {
            return Err(not_a_number(walker, path, "an address of IP".to_string()));
        }
        Some(field) => return Ok(Source::Packet(field)),
        None => {}
    }
    if let Some(source) = path.word().and_then(Source::of_header) {
        return Ok(source);
    }
    if path.word() == Some("comm") {
        return Err(not_a_number(walker, path, "text".to_string()));
    }
    let place = walker.follow(path)?;
    match place.shape {
        Shape::Text | Shape::Bytes | Shape::Stack => {
            Err(not_a_number(walker, path, walker.btf.describe(place.kind)))
        }
        _ => Ok(Source::PathEnd(place)),
    }
}

fn not_a_number(walker: &Walker<'_>, path: &Path, kind: String) -> Refusal {
    let end = path.span.at + path.span.length;
    let what = walker.text.get(path.span.at..end).unwrap_or_default().to_string();
    let why = "it cannot be compared with a number, but perhaps with a \"text\"";
    path.span.refuse(walker.text, Wrong::Type { what, kind, why })
}

/// The other side: a number that the left one can be, a constant of its type, or another value; and the comparison
/// as it holds truly.
fn operand(
    walker: &Walker<'_>,
    left: &Source,
    operand: &Operand,
    how: Comparison,
    mask: Option<u64>,
) -> Result<(Comparison, Right), Refusal> {
    match operand {
        Operand::Number { value, span } => {
            let range = match mask {
                Some(_) => NumberRange::new(64, false),
                None => NumberRange::new(left.width(), left.is_signed()),
            };
            let compared = range.compare(how, *value).map_err(|allowed| {
                span.refuse(walker.text, Wrong::Range { number: value.to_string(), allowed })
            })?;
            Ok((compared.0, Right::Constant(compared.1)))
        }
        Operand::Path(path) => {
            if let Some(constant) = constant(walker, left, path) {
                return Ok((how, Right::Constant(constant.cast_unsigned())));
            }
            let is_known = path.word().is_none_or(|word| {
                Source::of_header(word).is_some() || walker.argument(word).is_some()
            });
            if is_known {
                return Ok((how, Right::Source(number(walker, path)?)));
            }
            let mut names: Vec<&str> = match left.shape() {
                Shape::Enum(kind) => walker.btf.constants(kind).iter().map(|(n, _)| *n).collect(),
                _ => Vec::new(),
            };
            let known = left.names().map(Vocabulary::names).unwrap_or_default();
            names.extend(known.iter().map(|(name, _)| *name));
            names.extend(walker.arguments.iter().map(|argument| argument.name.as_str()));
            let refusal = path.span.refuse(walker.text, Wrong::NoConstant(path.base.clone()));
            Err(refusal.near(nearest(&path.base, names.into_iter())))
        }
        Operand::Text { span, .. } | Operand::Address { span, .. } => {
            let expected = "a number; addresses are compared with host, ip.src and ip.dst";
            Err(span.refuse(walker.text, Wrong::Expected { expected }))
        }
    }
}

fn constant(walker: &Walker<'_>, left: &Source, path: &Path) -> Option<i64> {
    let name = path.word()?;
    if let Some(value) = left.names().and_then(|names| names.value(name)) {
        return Some(value);
    }
    match (left.shape(), name) {
        (Shape::Enum(kind), _) => {
            let constants = walker.btf.constants(kind);
            constants.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
        }
        (Shape::Bool, "true") => Some(1),
        (Shape::Bool, "false") => Some(0),
        (Shape::Pointer, "NULL") => Some(0),
        (Shape::Unsigned | Shape::Signed, _) if walker.argument(name).is_none() => {
            vocabulary::value(name)
        }
        _ => None,
    }
}

fn text(
    walker: &Walker<'_>,
    left: &Path,
    how: Comparison,
    value: &str,
    span: Span,
) -> Result<Test, Refusal> {
    let is_equal = how.is_equality(left.span.to(span), walker.text, BEFORE_TEXT)?;
    let (source, room) = text_source(walker, left, false)?;
    let room = (room as usize).min(TEXT_ROOM);
    if value.len() >= room || value.contains('\0') {
        let allowed = format!("texts there have {} bytes at most", room.saturating_sub(1));
        let number = format!("{value:?}");
        return Err(span.refuse(walker.text, Wrong::Range { number, allowed }));
    }
    Ok(Test::Text { source, text: value.as_bytes().to_vec(), is_equal })
}

/// A text, and how many bytes it can have with its end.
pub fn text_source(
    walker: &Walker<'_>,
    path: &Path,
    is_user: bool,
) -> Result<(TextSource, u32), Refusal> {
    if path.word() == Some("comm") && walker.argument("comm").is_none() {
        return Ok((TextSource::Comm, NAME_BYTES));
    }
    if path.word().is_some_and(|word| Source::of_header(word).is_some()) {
        return Err(not_a_text(walker, path, "a number".to_string()));
    }
    if walker.packet_field(path)?.is_some() {
        return Err(not_a_text(walker, path, "a part of a packet's headers".to_string()));
    }
    let place = walker.follow(path)?;
    let is_text = place.shape == Shape::Text || leads_to_text(walker.btf, &place);
    // A register may hold anything: where nobody knows its type, and where the kernel keeps a program's.
    let is_register = is_user && place.bytes == 8 && is_whole_number(&place);
    if !is_text && !is_register && place.kind != 0 {
        return Err(not_a_text(walker, path, walker.btf.describe(place.kind)));
    }
    let is_whole = place.shape == Shape::Text && place.meaning != Meaning::UserText;
    let room = if is_whole { place.bytes } else { TEXT_ROOM as u32 };
    Ok((TextSource::PathEnd(place), room))
}

fn is_whole_number(place: &PathEnd) -> bool {
    let is_all = !matches!(place.end, crate::path_resolve::End::Loaded { bits: Some(_), .. });
    is_all && matches!(place.shape, Shape::Unsigned | Shape::Signed)
}

fn not_a_text(walker: &Walker<'_>, path: &Path, kind: String) -> Refusal {
    let end = path.span.at + path.span.length;
    let what = walker.text.get(path.span.at..end).unwrap_or_default().to_string();
    path.span.refuse(walker.text, Wrong::Type { what, kind, why: "it is no text" })
}
