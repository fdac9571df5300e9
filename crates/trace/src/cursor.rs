//! A place in a text that is read from left to right: names, numbers, marks.

use crate::error::{Refusal, Span, Wrong};

/// How deep things may be nested: parsing goes down by one call each.
pub const DEEPEST: usize = 64;
/// The longest text that is read.
const LONGEST: usize = 64 * 1024;

/// A place in a text.
#[derive(Clone, Debug)]
pub struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    /// The beginning of a text.
    pub fn new(text: &'t str) -> Result<Cursor<'t>, Refusal> {
        if text.len() > LONGEST {
            let wrong = Wrong::TooMuch(format!("{} bytes of text, of {LONGEST}", text.len()));
            return Err(Span::default().refuse("", wrong));
        }
        let mut cursor = Cursor { text, at: 0 };
        cursor.skip();
        Ok(cursor)
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Where it is.
    pub fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Whether this mark stands here.
    pub fn sees(&self, mark: &str) -> bool {
        self.rest().starts_with(mark)
    }

    /// Takes a mark, if it stands here.
    pub fn eat(&mut self, mark: &str) -> bool {
        let found = self.sees(mark);
        if found {
            self.at += mark.len();
            self.skip();
        }
        found
    }

    /// Takes a mark that has to stand here.
    pub fn need(&mut self, mark: &'static str) -> Result<(), Refusal> {
        if self.eat(mark) { Ok(()) } else { Err(self.expected(mark)) }
    }

    /// Takes a word, if it stands here as a whole.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let mut ahead = self.clone();
        let found = ahead.name().is_some_and(|(name, _)| name == word);
        if found {
            *self = ahead;
        }
        found
    }

    /// Takes a name, if one stands here.
    pub fn name(&mut self) -> Option<(&'t str, Span)> {
        let rest = self.rest();
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !rest.starts_with(is_first) {
            return None;
        }
        let end = rest.find(|c: char| !is_first(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
        let span = Span { at: self.at, length: end };
        self.at += end;
        self.skip();
        Some((&rest[..end], span))
    }

    /// Takes a symbol of a program, if one stands here: names, with what compilers put into them.
    pub fn symbol(&mut self) -> Option<(&'t str, Span)> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '@');
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let span = Span { at: self.at, length: end };
        self.at += end;
        self.skip();
        (end > 0).then(|| (&rest[..end], span))
    }

    /// Takes all up to one of these characters, which stays; nothing else ends it.
    pub fn until(&mut self, ends: &[char]) -> (&'t str, Span) {
        let rest = self.rest();
        let end = rest.find(ends).unwrap_or(rest.len());
        let span = Span { at: self.at, length: end };
        self.at += end;
        (&rest[..end], span)
    }

    /// Takes what may be an IP address, with the length of a prefix behind it, if one stands here: numbers with points
    /// between them (two points are a range), or with colons.
    pub fn address(&mut self) -> Option<(&'t str, Span)> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
        let mut end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let has_points = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        let has_colons = word.matches(':').count() > 1;
        if word.contains("..") || !has_points && !has_colons {
            return None;
        }
        if let Some(bits) = rest[end..].strip_prefix('/') {
            end += 1 + bits.find(|c: char| !c.is_ascii_digit()).unwrap_or(bits.len());
        }
        let span = Span { at: self.at, length: end };
        self.at += end;
        self.skip();
        Some((&rest[..end], span))
    }

    /// Takes a whole number, decimal or hexadecimal, if one stands here.
    pub fn number(&mut self) -> Result<Option<(u64, Span)>, Refusal> {
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let digits = &rest[..end.unwrap_or(rest.len())];
        let (digits_only, base, word) = match digits.strip_prefix("0x") {
            Some(hexadecimal) => (hexadecimal, 16, digits),
            // A unit may follow a decimal number: 10ms.
            None => {
                let end = digits.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(digits.len());
                (&digits[..end], 10, &digits[..end])
            }
        };
        let span = Span { at: self.at, length: word.len() };
        let Ok(number) = u64::from_str_radix(&digits_only.replace('_', ""), base) else {
            let allowed = "whole numbers of 64 bits".to_string();
            let wrong = Wrong::Range { number: word.to_string(), allowed };
            return Err(span.refuse(self.text, wrong));
        };
        self.at += word.len();
        self.skip();
        Ok(Some((number, span)))
    }

    /// Takes a number that has to stand here.
    pub fn need_number(&mut self) -> Result<(u64, Span), Refusal> {
        self.number()?.ok_or_else(|| self.expected("a number"))
    }

    /// Takes a text in quotation marks, if one stands here.
    pub fn quoted(&mut self) -> Result<Option<(String, Span)>, Refusal> {
        if !self.sees("\"") {
            return Ok(None);
        }
        let (mut text, mut escaped) = (String::new(), false);
        for (offset, c) in self.rest().char_indices().skip(1) {
            match (escaped, c) {
                (false, '\\') => escaped = true,
                (false, '"') => {
                    let span = Span { at: self.at, length: offset + 1 };
                    self.at += offset + 1;
                    self.skip();
                    return Ok(Some((text, span)));
                }
                (true, c) if !matches!(c, '\\' | '"') => {
                    let at = self.at + offset - 1;
                    let wrong = Wrong::Expected { expected: r#"\\ or \" behind a \ in a text"# };
                    return Err(Span { at, length: 1 + c.len_utf8() }.refuse(self.text, wrong));
                }
                (_, c) => {
                    text.push(c);
                    escaped = false;
                }
            }
        }
        let span = Span { at: self.at, length: self.rest().len() };
        Err(span.refuse(self.text, Wrong::Expected { expected: "a '\"' that ends the text" }))
    }

    /// The refusal of what stands here.
    pub fn expected(&self, expected: &'static str) -> Refusal {
        let rest = self.rest();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()) {
            0 => rest.chars().next().map_or(1, char::len_utf8),
            word => word,
        };
        let is_lone_sign = rest.starts_with('=') && !rest.starts_with("==");
        let near = is_lone_sign.then(|| "==".to_string()).into_iter().collect();
        Span { at: self.at, length }.refuse(self.text, Wrong::Expected { expected }).near(near)
    }
}
