//! Which of the things that happen to watched files call for a snapshot.
//!
//! Reads what happened, in its order; emits a mark for each rule that it meets. Several that meet
//! the same rule at one look are one mark.

use regex::bytes::Regex;
use weigh_schema::byte_text;
use weigh_schema::summary::{Cause, WatchedFile};

/// Of a line so much is kept.
const LINE_KEPT: usize = 1000;

/// When a snapshot is wanted, and what it is called.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The snapshot's label.
    pub label: String,
    /// At the file's creation.
    pub on_create: bool,
    /// When it becomes shorter.
    pub on_truncate: bool,
    /// At each line in which this is found.
    pub pattern: Option<Regex>,
    /// So often at most.
    pub most: Option<u64>,
}

/// A file, and what snapshots it calls for.
#[derive(Clone, Debug)]
pub struct WatchSpec {
    /// What is watched.
    pub file: WatchedFile,
    /// Whether to remove it when it has been found.
    pub delete_if_found: bool,
    /// The snapshots.
    pub rules: Vec<Rule>,
}

/// A snapshot is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of the file.
    pub file: usize,
    /// Its label.
    pub label: String,
    /// What happened.
    pub cause: Cause,
    /// The line, the last if there were several, in the form that keeps its bytes.
    pub line: Option<String>,
    /// How often it happened.
    pub count: u64,
}

/// The rules of all files, and how often each was met.
pub struct Marks {
    files: Vec<Vec<(Rule, u64)>>,
}

impl Marks {
    /// With the rules of each file.
    pub fn new(files: impl IntoIterator<Item = Vec<Rule>>) -> Marks {
        let uncounted = |rules: Vec<Rule>| rules.into_iter().map(|rule| (rule, 0)).collect();
        Marks { files: files.into_iter().map(uncounted).collect() }
    }

    /// What is to be taken for what happened: the number of the file, the cause, the line if it
    /// is one.
    pub fn of<'a>(
        &mut self,
        happened: impl IntoIterator<Item = (usize, Cause, Option<&'a [u8]>)>,
    ) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        for (file, cause, line) in happened {
            for (rule, met) in self.files.get_mut(file).into_iter().flatten() {
                if rule.most.is_some_and(|most| *met >= most) || !rule.is_met(cause, line) {
                    continue;
                }
                *met += 1;
                let line = line.map(kept);
                let same =
                    |m: &&mut Mark| m.file == file && m.cause == cause && m.label == rule.label;
                match marks.iter_mut().find(same) {
                    Some(mark) => {
                        mark.count += 1;
                        mark.line = line;
                    }
                    None => {
                        let label = rule.label.clone();
                        marks.push(Mark { file, label, cause, line, count: 1 });
                    }
                }
            }
        }
        marks
    }
}

impl Rule {
    fn is_met(&self, cause: Cause, line: Option<&[u8]>) -> bool {
        match cause {
            Cause::Created => self.on_create,
            Cause::Truncated => self.on_truncate,
            Cause::Line => self
                .pattern
                .as_ref()
                .zip(line)
                .is_some_and(|(pattern, line)| pattern.is_match(line)),
        }
    }
}

fn kept(line: &[u8]) -> String {
    let text = byte_text::keep(&line[..line.len().min(4 * LINE_KEPT)]);
    text.chars().take(LINE_KEPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(label: &str, pattern: &str) -> Rule {
        Rule {
            label: label.to_string(),
            on_create: false,
            on_truncate: false,
            pattern: Some(Regex::new(pattern).unwrap()),
            most: None,
        }
    }

    fn lines<'a>(texts: &'a [&'a str]) -> Vec<(usize, Cause, Option<&'a [u8]>)> {
        texts.iter().map(|text| (0, Cause::Line, Some(text.as_bytes()))).collect()
    }

    #[test]
    fn lines_of_one_look_that_meet_the_same_rule_are_one_mark() {
        let mut marks = Marks::new([vec![rule("step", "^step [0-9]+"), rule("odd", "[13579]$")]]);
        let found = marks.of(lines(&["step 1", "nothing", "step 2", "step 3"]));
        let said: Vec<_> =
            found.iter().map(|m| (m.label.as_str(), m.count, m.line.as_deref())).collect();
        assert_eq!(said, [("step", 3, Some("step 3")), ("odd", 2, Some("step 3"))]);
    }

    #[test]
    fn a_rule_is_met_so_often_at_most_over_all_looks() {
        let mut marks = Marks::new([vec![Rule { most: Some(3), ..rule("step", "step") }]]);
        assert_eq!(marks.of(lines(&["step", "step"]))[0].count, 2);
        assert_eq!(marks.of(lines(&["step", "step"]))[0].count, 1);
        assert_eq!(marks.of(lines(&["step"])), []);
    }

    #[test]
    fn causes_are_told_apart_and_so_are_files() {
        let creation = Rule { on_create: true, pattern: None, ..rule("new", "") };
        let mut marks = Marks::new([vec![creation], vec![rule("any", "")]]);
        let happened = [
            (0, Cause::Created, None),
            (0, Cause::Truncated, None),
            (0, Cause::Line, Some(&b"x"[..])),
            (1, Cause::Created, None),
            (1, Cause::Line, Some(&b"\xff"[..])),
            (2, Cause::Created, None),
        ];
        let found = marks.of(happened);
        let said: Vec<_> = found.iter().map(|m| (m.file, m.label.as_str(), m.cause)).collect();
        assert_eq!(said, [(0, "new", Cause::Created), (1, "any", Cause::Line)]);
        assert_eq!(found[1].line.as_deref(), Some(byte_text::keep(b"\xff").as_str()));
    }

    #[test]
    fn a_long_line_is_kept_in_part() {
        let mut marks = Marks::new([vec![rule("end", "z$")]]);
        let long = "é".repeat(5000) + "z";
        let found = marks.of(lines(&[&long]));
        assert_eq!(found[0].line.as_ref().unwrap().chars().count(), LINE_KEPT);
    }
}
