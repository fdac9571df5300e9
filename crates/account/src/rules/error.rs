//! Why a file of rules is refused: where, what is wrong, what was expected, and what is near.

use std::fmt;

use weigh_schema::configuration::At;

/// A stretch of an expression, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// Where it begins.
    pub at: usize,
    /// Its length.
    pub length: usize,
}

impl Span {
    /// From where this begins to where that one ends.
    pub fn to(self, other: Span) -> Span {
        Span { at: self.at, length: (other.at + other.length).saturating_sub(self.at) }
    }
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpressionError {
    pub span: Span,
    pub message: String,
    /// What may be meant, the nearest first.
    pub near: Vec<String>,
}

impl ExpressionError {
    pub fn new(span: Span, message: impl Into<String>) -> ExpressionError {
        ExpressionError { span, message: message.into(), near: Vec::new() }
    }

    pub fn near(self, near: Vec<String>) -> ExpressionError {
        ExpressionError { near, ..self }
    }
}

/// Why a file of rules is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file, the line, and the key in it: `rule.memory_low.when`.
    pub at: At,
    /// What is wrong, and what was expected.
    pub message: String,
    /// The text that it is wrong in, with the bytes that are meant; none where the key says all.
    pub excerpt: Option<Box<(String, usize, usize)>>,
    /// What may be meant, the nearest first.
    pub near: Vec<String>,
}

impl RuleError {
    pub(super) fn new(at: At, message: impl Into<String>) -> RuleError {
        RuleError { at, message: message.into(), excerpt: None, near: Vec::new() }
    }

    pub(super) fn near(self, near: Vec<String>) -> RuleError {
        RuleError { near, ..self }
    }

    /// What is wrong in an expression that stands at a key.
    pub(super) fn in_text(at: &At, text: &str, error: ExpressionError) -> RuleError {
        let excerpt = Some(Box::new((text.to_string(), error.span.at, error.span.length)));
        RuleError { at: at.clone(), message: error.message, excerpt, near: error.near }
    }
}

/// Around what is wrong, so much of a text is shown, in characters.
const SHOWN_AROUND: usize = 60;

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.at, self.message)?;
        if !self.near.is_empty() {
            write!(f, "; did you mean {}?", self.near.join(", "))?;
        }
        match &self.excerpt {
            Some(found) => excerpt(f, &found.0, found.1, found.2),
            None => Ok(()),
        }
    }
}

fn excerpt(f: &mut fmt::Formatter<'_>, text: &str, at: usize, length: usize) -> fmt::Result {
    let line = |part: &str| part.replace(['\n', '\r', '\t'], " ");
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let marked = rest.split_at_checked(length).map_or(rest, |(marked, _)| marked);
    let before: Vec<char> = line(before).chars().collect();
    let first = before.len().saturating_sub(SHOWN_AROUND);
    let shown_before: String = before[first..].iter().collect();
    let shown: String = line(rest).chars().take(2 * SHOWN_AROUND).collect();
    let marks = marked.chars().count().clamp(1, 2 * SHOWN_AROUND);
    write!(f, "\n    {shown_before}{shown}")?;
    write!(f, "\n    {}{}", " ".repeat(before.len() - first), "^".repeat(marks))
}

impl std::error::Error for RuleError {}
