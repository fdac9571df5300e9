//! Paths through the kernel's structures, as they are written: `skb->sk->__sk_common.skc_dport`.
//!
//! `->` and `.` mean the same: the kernel's types say which of them it is.

use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};

/// The longest path.
const STEPS: usize = 32;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a member of that name.
    Member(String),
    /// To an element.
    Index(u64),
}

/// What a number is taken for: its lowest bits, with a sign or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// How many bytes of it count.
    pub bytes: u32,
    /// Whether it can be below 0.
    pub is_signed: bool,
}

const CASTS: [(&str, u32, bool); 8] = [
    ("i8", 1, true),
    ("i16", 2, true),
    ("i32", 4, true),
    ("i64", 8, true),
    ("u8", 1, false),
    ("u16", 2, false),
    ("u32", 4, false),
    ("u64", 8, false),
];

impl Cast {
    /// The one that is written so.
    pub fn named(word: &str) -> Option<Cast> {
        let (_, bytes, is_signed) = *CASTS.iter().find(|(name, ..)| *name == word)?;
        Some(Cast { bytes, is_signed })
    }

    /// How it is written.
    pub fn word(self) -> Option<&'static str> {
        let is_it = |(_, bytes, is_signed): &&(_, u32, bool)| {
            (*bytes, *is_signed) == (self.bytes, self.is_signed)
        };
        CASTS.iter().find(is_it).map(|(name, ..)| *name)
    }
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The argument that it begins at, or a word of the header.
    pub base: String,
    /// Where that stands.
    pub base_span: Span,
    /// The way from there.
    pub steps: Vec<(Step, Span)>,
    /// What its end is taken for, if that was said: `i32(arg0)`.
    pub cast: Option<Cast>,
    /// Where the whole stands.
    pub span: Span,
}

impl Path {
    /// That goes nowhere.
    pub fn of_word(base: &str, span: Span) -> Path {
        Path { base: base.to_string(), base_span: span, steps: Vec::new(), cast: None, span }
    }

    /// Its name alone, if it goes nowhere.
    pub fn word(&self) -> Option<&str> {
        (self.steps.is_empty() && self.cast.is_none()).then_some(self.base.as_str())
    }

    /// Takes a path, if one stands here.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Option<Path>, Refusal> {
        let mut ahead = cursor.clone();
        if let Some((name, begin)) = ahead.name()
            && let Some(cast) = Cast::named(name)
            && ahead.eat("(")
        {
            *cursor = ahead;
            let path = Path::plain(cursor)?.ok_or_else(|| cursor.expected("an argument"))?;
            let end = Span { at: cursor.at(), length: 1 };
            cursor.need(")")?;
            return Ok(Some(Path { cast: Some(cast), span: begin.to(end), ..path }));
        }
        Path::plain(cursor)
    }

    fn plain(cursor: &mut Cursor<'_>) -> Result<Option<Path>, Refusal> {
        let Some((base, base_span)) = cursor.name() else { return Ok(None) };
        let mut path = Path::of_word(base, base_span);
        loop {
            let (step, span) = if cursor.eat("[") {
                let (index, span) = cursor.need_number()?;
                cursor.need("]")?;
                (Step::Index(index), span)
            // Two points are a range.
            } else if cursor.eat("->") || !cursor.sees("..") && cursor.eat(".") {
                let Some((name, span)) = cursor.name() else {
                    return Err(cursor.expected("the name of a member"));
                };
                (Step::Member(name.to_string()), span)
            } else {
                return Ok(Some(path));
            };
            path.steps.push((step, span));
            path.span = path.base_span.to(span);
            if path.steps.len() > STEPS {
                let wrong = Wrong::TooMuch(format!("a path of more than {STEPS} steps"));
                return Err(path.span.refuse(cursor.text(), wrong));
            }
        }
    }
}
