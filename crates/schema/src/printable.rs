//! Text from outside, made safe for a terminal.
//!
//! Commands, paths, names of processes and what a foreign recording holds may carry control characters: escape
//! sequences, line breaks that forge a line of weigh's own, marks that turn the direction of writing. [`Printable`]
//! and [`ShellWords`] cannot be printed raw. JSON and Parquet files keep the text as it is.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Whether a terminal may act on a character instead of showing it: C0, DEL, C1, separators of lines and
/// paragraphs, marks of direction.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// A text whose unprintable characters are shown as escapes, as `\u{1b}` and `\n`.
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match is_unprintable(c) {
            true => write!(f, "{}", c.escape_default()),
            false => f.write_char(c),
        })
    }
}

/// The text with escapes in place of unprintable characters.
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(is_unprintable) {
        true => Cow::Owned(Printable(text).to_string()),
        false => Cow::Borrowed(text),
    }
}

/// An error of the system by its words alone: ` (os error 2)` behind them tells nobody anything.
pub fn in_words(mut text: String) -> String {
    const BEFORE: &str = " (os error ";
    let mut from = 0;
    while let Some(at) = text[from..].find(BEFORE).map(|at| at + from) {
        let number = &text[at + BEFORE.len()..];
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        match digits > 0 && number[digits..].starts_with(')') {
            true => text.replace_range(at..at + BEFORE.len() + digits + 1, ""),
            false => from = at + BEFORE.len(),
        }
    }
    text
}

/// A command as one would type it to a shell. Pasted there, each word is what it was.
pub struct ShellWords<'a>(pub &'a [String]);

impl fmt::Display for ShellWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(number, word)| {
            f.write_str(if number == 0 { "" } else { " " })?;
            shell_word(f, word)
        })
    }
}

fn shell_word(f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_^".contains(c);
    if word.contains(is_unprintable) {
        return ansi_c_quoted(f, word);
    }
    match !word.is_empty() && word.chars().all(is_plain) {
        true => f.write_str(word),
        false => write!(f, "'{}'", word.replace('\'', r"'\''")),
    }
}

/// `$'…'`, as bash, ksh, zsh and POSIX of 2024 have it. Octal digits: three end a character, whatever follows.
fn ansi_c_quoted(f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
    f.write_str("$'")?;
    for c in word.chars() {
        match c {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\'' | '\\' => write!(f, "\\{c}")?,
            _ if is_unprintable(c) => {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().try_for_each(|byte| write!(f, "\\{byte:03o}"))?;
            }
            _ => f.write_char(c)?,
        }
    }
    f.write_char('\'')
}

/// What a terminal may be sent besides characters that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Line breaks.
    Lines,
    /// Line breaks and colours (SGR).
    Colors,
    /// Line breaks and tabs, between the columns of a format for programs.
    Tabs,
}

/// The text of a screen or a page, with escapes in place of all that is not allowed: the last station before a
/// terminal, for what was not escaped where it came in.
pub fn on_screen(text: &str, allowed: Allowed) -> Cow<'_, str> {
    let is_kept = |c: char| c == '\n' || c == '\t' && allowed == Allowed::Tabs;
    if !text.contains(|c| is_unprintable(c) && !is_kept(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match allowed {
            Allowed::Colors => color_length(rest),
            _ => None,
        };
        let (first, after) = rest.split_at(length.unwrap_or(c.len_utf8()));
        match length.is_none() && is_unprintable(c) && !is_kept(c) {
            true => out.extend(c.escape_default()),
            false => out.push_str(first),
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// How long the sequence is that sets a colour, if the text begins with one: `ESC [ digits ; … m`.
fn color_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

/// JSON for a terminal. Unprintable characters stand in its texts alone, where an escape means the same; `serde_json`
/// has escaped those of C0.
pub fn json_on_screen(json: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| is_unprintable(c) && c != '\n';
    if !json.contains(is_harmful) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match is_harmful(c) {
            // All of them lie in the first 65,536.
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_in_words() {
        for (text, told) in [
            ("a: No such file (os error 2)", "a: No such file"),
            ("a (os error 2): b (os error 13), c", "a: b, c"),
            ("(os error 2) (os error x) (os error ", "(os error 2) (os error x) (os error "),
            ("", ""),
        ] {
            assert_eq!(in_words(text.to_string()), told);
        }
    }
    use proptest::prelude::*;

    const HARMFUL: &str = "\x1b[31m\x07\r\n\t\x7f\u{85}\u{9b}2J\u{61c}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{2069}";

    #[test]
    fn nothing_that_steers_a_terminal_is_printed() {
        assert_eq!(printable("a\x1b[31mb\n\u{202e}"), "a\\u{1b}[31mb\\n\\u{202e}");
        assert!(!printable(HARMFUL).contains(is_unprintable));
        assert!(matches!(printable("weigh: größer 宽"), Cow::Borrowed(_)));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["sh", "-c", "echo 'x'", ""].map(String::from);
        assert_eq!(ShellWords(&words).to_string(), r"sh -c 'echo '\''x'\''' ''");
        let words = ["A\x1b[31mRED\x1b[2J\nforged: 'line'\\".to_string(), "\u{202e}1".to_string()];
        let expected = r"$'A\033[31mRED\033[2J\nforged: \'line\'\\' $'\342\200\2561'";
        assert_eq!(ShellWords(&words).to_string(), expected);
    }

    #[test]
    fn a_screen_gets_lines_and_the_colours_that_it_may_have() {
        let text = "\x1b[1;31mbad\x1b[0m\n\x1b[2Jx\x1b]0;title\x07\ttab";
        assert_eq!(
            on_screen(text, Allowed::Colors),
            "\x1b[1;31mbad\x1b[0m\n\\u{1b}[2Jx\\u{1b}]0;title\\u{7}\\ttab"
        );
        assert_eq!(on_screen("\x1b[0m\n", Allowed::Lines), "\\u{1b}[0m\n");
        assert_eq!(on_screen("a\tb\r\n", Allowed::Tabs), "a\tb\\r\n");
    }

    #[test]
    fn json_means_the_same_on_a_screen() {
        let json = serde_json::to_string(HARMFUL).expect("a text");
        let shown = json_on_screen(&json);
        assert!(!shown.contains(is_unprintable), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), HARMFUL);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_text_gets_through(text in "\\PC*|[\\x00-\\x{9f}\\x{2028}-\\x{202e}\\[m;0-9]*") {
            prop_assert!(!printable(&text).contains(is_unprintable));
            let lines = on_screen(&text, Allowed::Lines);
            prop_assert!(!lines.contains(|c| is_unprintable(c) && c != '\n'));
        }

        #[test]
        fn bash_reads_the_words_that_were_quoted(word in "[^\\x00]{0,20}") {
            let words = [word.clone()];
            let script = format!("printf %s {}", ShellWords(&words));
            let output = std::process::Command::new("bash").args(["-c", &script]).output().expect("bash");
            prop_assert_eq!(output.stdout, word.into_bytes());
        }
    }
}
