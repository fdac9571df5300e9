//! One line of the digest: its label and parts, as far as they fit.

use unicode_width::UnicodeWidthStr;

use crate::text::{Line, Paint};

/// Where the text of a row begins.
pub(super) const COLUMN: usize = 11;

/// What is left out first where there are too many lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Stays whatever happens.
    Always,
    /// A failure, a limit, the network or a GPU: there may be more lines because of it.
    More,
    /// Goes after the hints.
    Detail,
    /// Goes first.
    Hint,
}

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) label: &'static str,
    /// The first is always shown, the others as far as they fit.
    pub(crate) parts: Vec<String>,
    pub(crate) paint: Paint,
    pub(crate) need: Need,
}

impl Row {
    pub(crate) fn new(label: &'static str, need: Need, parts: Vec<String>) -> Row {
        Row { label, parts, paint: Paint::Plain, need }
    }

    pub(crate) fn painted(self, paint: Paint) -> Row {
        Row { paint, ..self }
    }

    /// All of it, where there is room for all.
    pub(super) fn text(&self) -> String {
        // Where to find more stands behind a colon.
        let gap = |text: &str, part: &str| match text.is_empty() || part.starts_with(':') {
            true => "",
            false => ", ",
        };
        let text = self.parts.iter().fold(String::new(), |text, part| {
            let gap = gap(&text, part);
            text + gap + part
        });
        // The page has the details.
        text.replace("; see --details", "")
    }

    pub(super) fn line(&self, width: usize) -> Line {
        let mut text = String::new();
        for part in &self.parts {
            // Where to find more stands behind a colon.
            let gap = if text.is_empty() || part.starts_with(':') { "" } else { ", " };
            if !text.is_empty() && COLUMN + text.width() + gap.len() + part.width() > width {
                break;
            }
            text.push_str(gap);
            text.push_str(part);
        }
        Line::new().add(self.label, Paint::Bold).pad_to(COLUMN).add(text, self.paint)
    }
}
