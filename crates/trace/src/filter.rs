//! Filters as they are written: trees whose parts know where they stand, and the parts that every syntax has.
//!
//! Names and types are not looked at here.

use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};
use crate::ip_prefix::Prefix;
use crate::path::Path;

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// What a text can be compared by.
pub(crate) const BEFORE_TEXT: &str = "== or != before a text";

impl Comparison {
    /// Whether it is `==`; refused if it is neither that nor `!=`.
    pub(crate) fn is_equality(
        self,
        span: Span,
        text: &str,
        expected: &'static str,
    ) -> Result<bool, Refusal> {
        match self {
            Comparison::Equal => Ok(true),
            Comparison::Unequal => Ok(false),
            _ => Err(span.refuse(text, Wrong::Expected { expected })),
        }
    }
}

/// Longer marks first: `<` begins `<=`.
pub(crate) const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A word of the header, an argument, or what lies behind it; or the name of a constant.
    Path(Path),
    /// A number; `-1` is all ones.
    Number {
        /// The number.
        value: i128,
        /// Where it stands.
        span: Span,
    },
    /// A text.
    Text {
        /// The text.
        value: String,
        /// Where it stands.
        span: Span,
    },
    /// Addresses of IP.
    Address {
        /// They.
        prefix: Prefix,
        /// Where they stand.
        span: Span,
    },
}

impl Operand {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Operand::Path(path) => path.span,
            Operand::Number { span, .. }
            | Operand::Text { span, .. }
            | Operand::Address { span, .. } => *span,
        }
    }
}

/// What a list behind `in` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// One value.
    One(Operand),
    /// All from the first to the last, both included.
    Range(Operand, Operand),
}

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Both.
    And(Box<Filter>, Box<Filter>),
    /// One of them, or both.
    Or(Box<Filter>, Box<Filter>),
    /// Not that.
    Not(Box<Filter>),
    /// A comparison, after some bits have been picked out.
    Compare {
        /// The left side.
        left: Path,
        /// The bits that are looked at.
        mask: Option<Operand>,
        /// How.
        how: Comparison,
        /// The right side.
        right: Operand,
    },
    /// One of several.
    In {
        /// The left side.
        left: Path,
        /// What it may be.
        items: Vec<Item>,
    },
}

/// Takes a comparison's mark, if one stands here.
pub(crate) fn comparison_mark(cursor: &mut Cursor<'_>) -> Option<Comparison> {
    COMPARISONS.iter().find(|(mark, _)| cursor.eat(mark)).map(|(_, how)| *how)
}

/// Alone it means: not 0.
pub(crate) fn is_set(left: Path, mask: Option<Operand>, at: usize) -> Filter {
    let right = Operand::Number { value: 0, span: Span { at, length: 0 } };
    Filter::Compare { left, mask, how: Comparison::Unequal, right }
}

/// All from the first to the last.
pub(crate) fn range(text: &str, first: Operand, last: Operand) -> Result<Item, Refusal> {
    if let (Operand::Number { value: from, span }, Operand::Number { value: to, span: end }) =
        (&first, &last)
        && from > to
    {
        let allowed = format!("nothing is in it: {to}..{from} may be meant");
        let wrong = Wrong::Range { number: format!("{from}..{to}"), allowed };
        return Err(span.to(*end).refuse(text, wrong));
    }
    Ok(Item::Range(first, last))
}

/// Reads an address, or a prefix, which stands there.
pub(crate) fn address(word: &str, span: Span, text: &str) -> Result<Operand, Refusal> {
    match Prefix::parse(word) {
        Ok(prefix) => Ok(Operand::Address { prefix, span }),
        Err(expected) => Err(span.refuse(text, Wrong::Address(expected))),
    }
}
