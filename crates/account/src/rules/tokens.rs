//! The words of an expression: names, numbers with their units, marks.
//!
//! Reads text; emits a token at a time. Refuses numbers with unknown units, and characters that begin nothing.

use weigh_schema::Unit;
use weigh_schema::amount::{parse_duration, parse_size};
use weigh_schema::printable::printable;

use super::dimension::Dimension;
use super::error::{ExpressionError, Span};

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    Name(&'t str),
    Number(f64, Dimension),
    Mark(&'static str),
    End,
}

/// Longer marks first: `<` begins `<=`.
const MARKS: [&str; 18] = [
    "<=", ">=", "==", "!=", "&&", "||", "<", ">", "+", "-", "*", "/", "(", ")", ",", "=", "!", "&",
];

/// Durations; `m` is minutes here, as everywhere in weigh.
const DURATIONS: [&str; 8] = ["ns", "us", "ms", "s", "m", "min", "h", "d"];

#[derive(Clone, Debug)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub fn new(text: &'t str) -> Tokens<'t> {
        Tokens { text, at: 0 }
    }

    /// The next word, and where it stands.
    pub fn next(&mut self) -> Result<(Token<'t>, Span), ExpressionError> {
        let text = self.text;
        let rest = text[self.at..].trim_start();
        self.at = text.len() - rest.len();
        let (token, length) = self.token(rest)?;
        let span = Span { at: self.at, length };
        self.at += length;
        Ok((token, span))
    }

    fn token(&self, rest: &'t str) -> Result<(Token<'t>, usize), ExpressionError> {
        let Some(first) = rest.chars().next() else { return Ok((Token::End, 0)) };
        if first.is_ascii_digit() || first == '.' {
            return self.number(rest);
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if is_name(first) {
            let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
            return Ok((Token::Name(&rest[..end]), end));
        }
        if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            return Ok((Token::Mark(mark), mark.len()));
        }
        let span = Span { at: self.at, length: first.len_utf8() };
        let message = format!("'{}' means nothing here", printable(&rest[..first.len_utf8()]));
        Err(ExpressionError::new(span, message))
    }

    fn number(&self, rest: &'t str) -> Result<(Token<'t>, usize), ExpressionError> {
        let digits = number_length(rest);
        let unit = &rest[digits..];
        let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let is_percent = end == 0 && unit.starts_with('%');
        let length = digits + if is_percent { 1 } else { end };
        let refuse = |message: String| {
            Err(ExpressionError::new(Span { at: self.at, length: length.max(1) }, message))
        };
        let Some(number) = rest[..digits].parse::<f64>().ok().filter(|n| n.is_finite()) else {
            return refuse(format!("'{}' is no number", &rest[..length.max(1)]));
        };
        let token = match (is_percent, &unit[..end]) {
            (true, _) => Token::Number(number / 100.0, Dimension::default()),
            (_, "") => Token::Number(number, Dimension::default()),
            _ => match with_unit(&rest[..length], &unit[..end]) {
                Some((value, unit)) => Token::Number(value, Dimension::of(unit)),
                None => {
                    return refuse(format!(
                        "'{}' is no unit: expected %, s, min, h, d, ms, B, kB, MB, GB, KiB, MiB, GiB or TiB behind a number",
                        &unit[..end]
                    ));
                }
            },
        };
        Ok((token, length))
    }
}

/// Digits, a point, and an exponent.
fn number_length(text: &str) -> usize {
    let digits = |from: usize| {
        let rest = &text[from..];
        from + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
    };
    let mut end = digits(0);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    let exponent = text[end..].strip_prefix(['e', 'E']);
    if let Some(rest) = exponent {
        let sign = usize::from(rest.starts_with(['+', '-']));
        if rest[sign..].starts_with(|c: char| c.is_ascii_digit()) {
            end = digits(end + 1 + sign);
        }
    }
    end
}

fn with_unit(text: &str, unit: &str) -> Option<(f64, Unit)> {
    if DURATIONS.contains(&unit) {
        return Some((parse_duration(text).ok()?.as_secs_f64(), Unit::Seconds));
    }
    // `m` and `k` alone could be either.
    let is_size = unit.ends_with(['B', 'b']);
    if !is_size {
        return None;
    }
    parse_size(text).ok().map(|bytes| (bytes as f64, Unit::Bytes))
}
