//! Text that fits a terminal: columns counted as the terminal counts them, nothing in it that
//! could steer the terminal, colour only if asked.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a piece of text is meant to stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Paint {
    fn sgr(self) -> &'static str {
        match self {
            Paint::Plain => "",
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Good => "1;32",
            Paint::Warn => "33",
            Paint::Bad => "1;31",
        }
    }
}

/// One line, made of pieces that are painted differently.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pieces: Vec<(String, Paint)>,
}

impl Line {
    pub(crate) fn new() -> Line {
        Line::default()
    }

    pub(crate) fn add(mut self, text: impl AsRef<str>, paint: Paint) -> Line {
        self.pieces.push((harmless(text.as_ref()), paint));
        self
    }

    /// Spaces up to column `column`, at least one if there is text before it.
    pub(crate) fn pad_to(self, column: usize) -> Line {
        let gap = column.saturating_sub(self.width()).max(usize::from(!self.pieces.is_empty()));
        self.add(" ".repeat(gap), Paint::Plain)
    }

    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|(text, _)| text.width()).sum()
    }

    /// The line with its end cut off at `width` columns, spaces at the end left out.
    pub(crate) fn render(&self, width: usize, color: bool) -> String {
        let mut out = String::new();
        let mut left = width;
        for (text, paint) in &self.pieces {
            let shown = cut(text, left);
            left -= shown.width();
            if color && *paint != Paint::Plain && !shown.is_empty() {
                out.push_str(&format!("\x1b[{}m{shown}\x1b[0m", paint.sgr()));
            } else {
                out.push_str(&shown);
            }
            if shown != *text {
                break;
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

/// The text without control characters, which could move the cursor or worse.
pub(crate) fn harmless(text: &str) -> String {
    // U+2028 and the direction marks are format characters that terminals may act on.
    let unsafe_char = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(unsafe_char) {
        return text.to_string();
    }
    let mut out = String::new();
    for c in text.chars() {
        if unsafe_char(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The text, its end replaced by `…` if it is wider than `width` columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > width {
            break;
        }
        used += w;
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// The text, cut after a whole word if it is wider than `width` columns.
pub(crate) fn cut_at_word(text: &str, width: usize) -> String {
    let hard = cut(text, width);
    if hard == text || !hard.ends_with('…') {
        return hard;
    }
    let kept = &hard[..hard.len() - '…'.len_utf8()];
    // The cut may already lie between two words.
    let end = match text[kept.len()..].starts_with(' ') {
        true => Some(kept.len()),
        false => kept.rfind(' '),
    };
    match end {
        Some(end) if end > 0 => format!("{}…", kept[..end].trim_end_matches([' ', ','])),
        _ => hard,
    }
}

/// The text broken at spaces into lines of at most `width` columns; at most `lines` of them, the
/// last cut off if there is more.
pub(crate) fn wrap(text: &str, width: usize, lines: usize) -> Vec<String> {
    let text = harmless(text);
    let mut out: Vec<String> = Vec::new();
    let mut rest = text.split(' ').peekable();
    while let Some(word) = rest.next() {
        let full = out.len() == lines;
        match out.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) if full => {
                let tail: Vec<&str> = std::iter::once(word).chain(rest).collect();
                *line = cut_at_word(&format!("{line} {}", tail.join(" ")), width);
                return out;
            }
            _ => out.push(cut(word, width)),
        }
    }
    out
}

/// A command as one would type it to a shell.
pub(crate) fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_exceeds_the_width() {
        for text in ["", "a", "abc def ghi", "宽宽宽宽", "e\u{301}e\u{301}e\u{301}"] {
            for width in 0..12 {
                assert!(cut(text, width).width() <= width, "{text} {width}");
                assert!(cut_at_word(text, width).width() <= width, "{text} {width}");
            }
        }
        assert_eq!(cut_at_word("greatest memory held", 16), "greatest memory…");
        assert_eq!(cut_at_word("greatest memory held", 17), "greatest memory…");
        assert_eq!(cut_at_word("greatest", 5), "grea…");
        assert_eq!(cut_at_word("three four", 8), "three…", "as many bytes as before the cut");
    }

    #[test]
    fn wrapped_text_keeps_its_words() {
        assert_eq!(wrap("one two three", 7, 9), ["one two", "three"]);
        assert_eq!(wrap("one two three four", 8, 2), ["one two", "three…"]);
    }

    #[test]
    fn a_command_can_not_steer_the_terminal() {
        let line = Line::new().add("a\x1b[31mb\n\u{202e}", Paint::Plain).render(80, false);
        assert_eq!(line, "a\\u{1b}[31mb\\n\\u{202e}");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["sh", "-c", "echo 'x'", ""].map(String::from);
        assert_eq!(shell_words(&words), r"sh -c 'echo '\''x'\''' ''");
    }

    #[test]
    fn colour_only_if_asked() {
        let line = Line::new().add("x", Paint::Bad).add("y", Paint::Plain);
        assert_eq!(line.render(9, false), "xy");
        assert_eq!(line.render(9, true), "\x1b[1;31mx\x1b[0my");
    }
}
