//! Texts with values in them: `{node_memory_available_bytes} are left of {node_memory_total_bytes} on {scope}`.

use weigh_schema::ShellWords;
use weigh_schema::byte_text;
use weigh_schema::printable::printable;
use weigh_schema::rule::LONGEST_TEXT_BYTES;
use weigh_schema::update::Scope;

use super::dimension::Dimension;
use super::error::{ExpressionError, Span};
use super::expression::{MetricUse, Number};

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    /// The scope: `disk:sda`.
    Scope,
    /// What stands behind its first colon: `sda`.
    Instance,
    Value(Number, Dimension),
}

/// A text with values in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Template(Vec<Piece>);

/// Reads what stands in braces.
pub(super) type ReadNumber<'a> =
    &'a mut dyn FnMut(&str) -> Result<(Number, Dimension), ExpressionError>;

impl Template {
    /// Braces of a text itself are written twice. Where numbers cannot be read, there are none.
    pub fn parse(
        text: &str,
        mut number: Option<ReadNumber<'_>>,
    ) -> Result<Template, ExpressionError> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push(c);
                at += 2;
            } else if c == '{' {
                let Some(end) = rest.find('}') else {
                    let span = Span { at, length: rest.len() };
                    return Err(ExpressionError::new(span, "expected a '}' that ends the value"));
                };
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(value(&rest[1..end], at + 1, &mut number)?);
                at += end + 1;
            } else {
                plain.push(c);
                at += c.len_utf8();
            }
        }
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Template(pieces))
    }

    pub fn metrics(&self, found: &mut Vec<MetricUse>) {
        for piece in &self.0 {
            if let Piece::Value(number, _) = piece {
                number.metrics(found);
            }
        }
    }

    /// In words; `evaluate` has the values.
    pub fn words(&self, scope: &Scope, evaluate: &dyn Fn(&Number) -> Option<f64>) -> String {
        bounded(self.filled(evaluate, &|instance| {
            printable(&byte_text::shown(&word(scope, instance))).into_owned()
        }))
    }

    /// To paste into a shell: names are single words there. Empty where it would be too long: what is cut would name
    /// something else.
    pub fn line(&self, scope: &Scope) -> String {
        let line = self.filled(&|_| None, &|instance| {
            ShellWords(&[byte_text::shown(&word(scope, instance))]).to_string()
        });
        if line.len() > LONGEST_TEXT_BYTES { String::new() } else { line }
    }

    fn filled(
        &self,
        evaluate: &dyn Fn(&Number) -> Option<f64>,
        name: &dyn Fn(bool) -> String,
    ) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Scope => name(false),
            Piece::Instance => name(true),
            Piece::Value(number, dimension) => match evaluate(number) {
                Some(value) => dimension.show(value),
                None => "–".to_string(),
            },
        };
        self.0.iter().map(piece).collect()
    }
}

fn value(
    text: &str,
    at: usize,
    number: &mut Option<ReadNumber<'_>>,
) -> Result<Piece, ExpressionError> {
    match (text.trim(), number) {
        ("scope", _) => Ok(Piece::Scope),
        ("instance", _) => Ok(Piece::Instance),
        (_, Some(number)) => match (**number)(text) {
            Ok((number, dimension)) => Ok(Piece::Value(number, dimension)),
            Err(error) => {
                let span = Span { at: at + error.span.at, ..error.span };
                Err(ExpressionError { span, ..error })
            }
        },
        (_, None) => {
            let span = Span { at, length: text.len() };
            let message = "expected {scope} or {instance}: a line to paste has no other values";
            Err(ExpressionError::new(span, message))
        }
    }
}

fn word(scope: &Scope, instance: bool) -> String {
    let text = scope.to_string();
    match text.split_once(':').filter(|_| instance) {
        Some((_, instance)) => instance.to_string(),
        None => text,
    }
}

/// Names may be long.
pub(super) fn bounded(mut text: String) -> String {
    const CUT: &str = "…";
    if text.len() <= LONGEST_TEXT_BYTES {
        return text;
    }
    let mut end = LONGEST_TEXT_BYTES - CUT.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text + CUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_steer_no_shell_and_no_terminal() {
        let scope = Scope::Disk("a'; rm -rf / #\x1b[2J".into());
        let template = Template::parse("ls {{}} {instance} {scope}", None).unwrap();
        assert_eq!(
            template.line(&scope),
            r"ls {} $'a\'; rm -rf / #\033[2J' $'disk:a\'; rm -rf / #\033[2J'"
        );
        let words = template.words(&scope, &|_| None);
        assert!(words.starts_with(r"ls {} a'; rm -rf / #\u{1b}[2J disk:a'"), "{words}");
        let long = Scope::Disk("ä".repeat(5000));
        assert!(template.words(&long, &|_| None).len() <= LONGEST_TEXT_BYTES);
        assert_eq!(template.line(&long), "");
        assert!(Template::parse("{node}", None).is_err() && Template::parse("{", None).is_err());
    }
}
