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

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The argument that it begins at, or a word of the header.
    pub base: String,
    /// Where that stands.
    pub base_span: Span,
    /// The way from there.
    pub steps: Vec<(Step, Span)>,
    /// Where the whole stands.
    pub span: Span,
}

impl Path {
    /// Its name alone, if it goes nowhere.
    pub fn word(&self) -> Option<&str> {
        self.steps.is_empty().then_some(self.base.as_str())
    }

    /// Takes a path, if one stands here.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Option<Path>, Refusal> {
        let Some((base, base_span)) = cursor.name() else { return Ok(None) };
        let mut path =
            Path { base: base.to_string(), base_span, steps: Vec::new(), span: base_span };
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
