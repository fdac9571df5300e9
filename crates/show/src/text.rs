//! Text that fits a terminal: columns counted as the terminal counts them, nothing in it that
//! could steer the terminal, colour only if asked.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use weigh_schema::ShellWords;
use weigh_schema::amount::{show_number_of, show_size};
use weigh_schema::printable::printable;

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

/// What a text is to stand on.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Columns of the terminal; where it is none, what sentences are wrapped at.
    pub columns: usize,
    /// Whether it is a terminal: what goes into a file or a pipe has plain digits.
    pub is_terminal: bool,
    /// Whether rows are cut at `columns`: what goes into a file or a pipe is whole, unless a width was asked for.
    pub is_cut: bool,
    /// Whether ANSI colours may be used.
    pub color: bool,
}

impl Screen {
    /// At least so many columns: in fewer a table would be noise.
    pub(crate) fn at_least(self, columns: usize) -> Screen {
        Screen { columns: self.columns.max(columns), ..self }
    }

    /// Columns that a row of a table can have.
    pub(crate) fn row_columns(&self) -> usize {
        if self.is_cut { self.columns } else { usize::MAX }
    }

    pub(crate) fn render(&self, lines: &[Line]) -> String {
        let line = |line: &Line| match self.is_terminal {
            true => line.render(self.row_columns(), self.color) + "\n",
            false => line.ungrouped().render(self.row_columns(), self.color) + "\n",
        };
        lines.iter().map(line).collect()
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

    /// With plain digits.
    fn ungrouped(&self) -> Line {
        let plain = |(text, paint): &(String, Paint)| (ungrouped(text), *paint);
        Line { pieces: self.pieces.iter().map(plain).collect() }
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
    printable(text).into_owned()
}

/// A reason with its bytes as people write them: `between 22.7 MiB and 63.6 MiB` for `between 23778963 and 66646016
/// bytes`.
pub(crate) fn with_sizes(reason: &str) -> String {
    let words: Vec<&str> = reason.split(' ').collect();
    let number = |place: usize| {
        let word = words.get(place)?.trim_end_matches(',');
        word.parse::<u64>().ok().map(|bytes| show_size(bytes as f64))
    };
    let is = |place: usize, word: &str| {
        words.get(place).is_some_and(|found| found.trim_end_matches([',', ';']) == word)
    };
    let is_of_bytes = |place: usize| is(place + 1, "bytes");
    let is_bound = |place: usize| {
        place > 0 && is(place - 1, "between") && is(place + 1, "and")
            || place > 2 && is(place - 1, "and") && is(place - 3, "between")
    };
    let has_bytes = words.iter().any(|word| word.starts_with("bytes"));
    let mut out: Vec<String> = Vec::new();
    let mut was_size = false;
    for (place, word) in words.iter().enumerate() {
        let size = number(place).filter(|_| has_bytes && (is_of_bytes(place) || is_bound(place)));
        match (&size, was_size && word.starts_with("bytes")) {
            (Some(size), _) => out.push(size.clone()),
            // The size has its unit; a comma behind it stays.
            (None, true) => {
                if let Some(last) = out.last_mut() {
                    last.push_str(&word["bytes".len()..]);
                }
            }
            (None, false) => out.push((*word).to_string()),
        }
        was_size = size.is_some();
    }
    out.join(" ")
}

/// An amount with its thousands apart for the eye alone: what goes into a file or a pipe has plain digits.
pub(crate) fn digits(amount: String, is_terminal: bool) -> String {
    if is_terminal { amount } else { ungrouped(&amount) }
}

/// The text without what stands between the digits of a number.
fn ungrouped(text: &str) -> String {
    const BETWEEN: char = '\u{202f}';
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_between = c == BETWEEN && is_digit(out.chars().next_back());
        if !(is_between && is_digit(chars.peek().copied())) {
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

/// The name of a file or a connection in so many columns. What tells it from others stays: a file's own name, the
/// ports of both ends, else the beginning and the end.
pub(crate) fn shorten(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_string();
    }
    // Of several with one name a number behind it says which.
    if let Some(place) = name.rfind(" [").filter(|_| name.ends_with(']')) {
        let (name, which) = name.split_at(place);
        if let Some(room) = width.checked_sub(which.width()).filter(|room| *room > 0) {
            return shorten(name, room) + which;
        }
    }
    let of_parts = shortened_connection(name, width).or_else(|| shortened_path(name, width));
    of_parts.unwrap_or_else(|| cut_in_the_middle(name, width))
}

fn shortened_connection(name: &str, width: usize) -> Option<String> {
    const BETWEEN: &str = " -> ";
    let (local, remote) = name.split_once(BETWEEN)?;
    let end = |text: &str| {
        let (address, port) = text.rsplit_once(':')?;
        port.parse::<u16>().ok().map(|port| (address.to_string(), format!(":{port}")))
    };
    let ((local, local_port), (remote, remote_port)) = (end(local)?, end(remote)?);
    let fixed = local_port.width() + BETWEEN.len() + remote_port.width();
    let room = width.checked_sub(fixed).filter(|room| *room >= 2)?;
    let for_local = local.width().min((room / 2).max(room.saturating_sub(remote.width())));
    let local = cut_in_the_middle(&local, for_local);
    let remote = cut_in_the_middle(&remote, room - for_local);
    Some(format!("{local}{local_port}{BETWEEN}{remote}{remote_port}"))
}

fn shortened_path(name: &str, width: usize) -> Option<String> {
    let (directory, file) = name.split_at(name.rfind('/')?);
    let room = width.checked_sub(file.width()).filter(|room| *room >= 1)?;
    Some(cut_in_the_middle(directory, room) + file)
}

/// The text, its middle replaced by `…` if it is wider than `width` columns.
fn cut_in_the_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let fitting = |chars: &mut dyn Iterator<Item = char>, room: usize| {
        let mut left = room;
        let fits = |c: &char| {
            let rest = left.checked_sub(c.width().unwrap_or(0));
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        chars.take_while(fits).collect::<Vec<char>>()
    };
    let head: String = fitting(&mut text.chars(), room.div_ceil(2)).into_iter().collect();
    let tail: String = fitting(&mut text.chars().rev(), room / 2).into_iter().rev().collect();
    format!("{head}…{tail}")
}

/// What says that not all is shown; nothing if it is.
pub(crate) fn more_rows(shown: usize, all: usize, one: &str, several: &str) -> Option<String> {
    let left = all.checked_sub(shown).filter(|left| *left > 0)? as u64;
    Some(match shown {
        0 => format!("{}; --rows shows them", show_number_of(left, one, several)),
        _ => {
            let (one, several) = (format!("more {one}"), format!("more {several}"));
            format!("and {}; --rows shows more", show_number_of(left, &one, &several))
        }
    })
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
    ShellWords(words).to_string()
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
                assert!(shorten(text, width).width() <= width, "{text} {width}");
            }
        }
        assert_eq!(cut_at_word("greatest memory held", 16), "greatest memory…");
        assert_eq!(cut_at_word("greatest memory held", 17), "greatest memory…");
        assert_eq!(cut_at_word("greatest", 5), "grea…");
        assert_eq!(cut_at_word("three four", 8), "three…", "as many bytes as before the cut");
    }

    #[test]
    fn a_path_keeps_the_name_of_its_file_and_a_connection_both_ports() {
        assert_eq!(shorten("/a/very/long/path/name", 12), "/a/…ath/name");
        assert_eq!(shorten("/a/very/long/path/name", 22), "/a/very/long/path/name");
        assert_eq!(shorten("/very-long-name-of-a-file", 9), "/ver…file");
        let connection = "tcp 127.0.0.1:38390 -> 127.0.0.1:8080";
        assert_eq!(shorten(connection, 31), "tcp …0.1:38390 -> 127.…0.1:8080");
        assert_eq!(shorten(connection, 17), "…:38390 -> …:8080");
        let numbered = format!("{connection} [47]");
        assert_eq!(shorten(&numbered, 22), "…:38390 -> …:8080 [47]");
        assert_eq!(shorten("/a/very/long/path/name [4]", 16), "/a/…ath/name [4]");
        let names = [
            "/a/b/c.txt",
            connection,
            "tcp [::1]:5 -> [fe80::1]:65535",
            &numbered,
            "x -> y",
            "pipe",
        ];
        for name in names {
            for width in 0..40 {
                assert!(shorten(name, width).width() <= width, "{name} {width}");
            }
        }
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        assert_eq!(more_rows(3, 3, "kind", "kinds"), None);
        assert_eq!(more_rows(3, 4, "kind", "kinds").unwrap(), "and 1 more kind; --rows shows more");
        assert_eq!(
            more_rows(3, 5, "kind", "kinds").unwrap(),
            "and 2 more kinds; --rows shows more"
        );
        assert_eq!(more_rows(0, 1, "kind", "kinds").unwrap(), "1 kind; --rows shows them");
    }

    #[test]
    fn bytes_of_a_reason_are_read_by_people() {
        let shown = with_sizes(
            "at the peak; between 23778963 and 66646016 bytes, by the kernel's counters",
        );
        assert_eq!(shown, "at the peak; between 22.7 MiB and 63.6 MiB, by the kernel's counters");
        assert_eq!(with_sizes("beyond 3601506304 bytes of files"), "beyond 3.4 GiB of files");
        assert_eq!(
            with_sizes("4096 bytes; so between 0 and 8192 reach it"),
            "4.0 KiB; so between 0 B and 8.0 KiB reach it"
        );
        assert_eq!(
            with_sizes("greatest of 16 scans, up to 47 ms apart"),
            "greatest of 16 scans, up to 47 ms apart"
        );
    }

    #[test]
    fn digits_are_plain_where_no_terminal_is() {
        let text = "1\u{202f}234 of 5\u{202f}678 901, at 1.00\u{202f}PM".to_string();
        assert_eq!(digits(text.clone(), false), "1234 of 5678 901, at 1.00\u{202f}PM");
        assert_eq!(digits(text.clone(), true), text);
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
    fn colour_only_if_asked() {
        let line = Line::new().add("x", Paint::Bad).add("y", Paint::Plain);
        assert_eq!(line.render(9, false), "xy");
        assert_eq!(line.render(9, true), "\x1b[1;31mx\x1b[0my");
    }
}
