//! What `weigh explain` found, as sentences with figures, and as a page.

mod counters;
mod outcomes;
pub mod page;
pub mod phase;
mod requested_intervals;
mod sentences;
mod words;

use weigh_schema::explain::{ExplainReport, ExplainedKind, Verdict};

use crate::text::{Line, Paint, more_rows};
use sentences::LISTED_MOST;
pub use sentences::{definitions, sentences, warnings};
pub use words::title;
use words::{grouped, paragraph};

/// The report as text, with a line end after its last line. `rows` kinds of calls at most.
pub fn render(report: &ExplainReport, rows: usize, width: usize, color: bool) -> String {
    let mut lines = vec![headline(report)];
    lines.extend(paragraph(&definitions(report), width, "", Paint::Dim));
    let told: Vec<&ExplainedKind> = report.kinds.iter().filter(|k| is_told(k)).collect();
    for kind in told.iter().take(rows) {
        lines.push(Line::new());
        let [first, rest @ ..] = &sentences(kind, report.of)[..] else { continue };
        lines.extend(paragraph(first, width, "", Paint::Plain));
        lines.extend(rest.iter().flat_map(|text| paragraph(text, width, "  ", Paint::Plain)));
    }
    let several = report.of.plural();
    let kinds = [format!("kind of {several}"), format!("kinds of {several}")];
    if let Some(more) = more_rows(rows.min(told.len()), told.len(), &kinds[0], &kinds[1]) {
        lines.extend([Line::new(), Line::new().add(more, Paint::Dim)]);
    }
    for text in notes(report, told.is_empty()) {
        lines.push(Line::new());
        lines.extend(paragraph(&text, width, "", Paint::Dim));
    }
    for text in warnings(report) {
        lines.push(Line::new());
        lines.extend(paragraph(&text, width, "", Paint::Warn));
    }
    lines.iter().map(|line| line.render(width, color) + "\n").collect()
}

fn headline(report: &ExplainReport) -> Line {
    let of =
        if report.command.is_empty() { String::new() } else { format!(" of {}", report.command) };
    Line::new()
        .add("weigh  ", Paint::Bold)
        .add(format!("{}{of}", report.of.number(report.calls_total)), Paint::Plain)
}

fn is_told(kind: &ExplainedKind) -> bool {
    kind.asked.is_some()
        || matches!(kind.verdict, Verdict::Differ | Verdict::Alike | Verdict::AllSlow)
}

/// What is not said, and why.
fn notes(report: &ExplainReport, nothing_told: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if nothing_told {
        notes.push(format!(
            "no kind of {} has slow ones that differ from its ordinary ones",
            report.of.plural()
        ));
    }
    for (verdict, why) in
        [(Verdict::NoneSlow, "none slow"), (Verdict::TooFew, "too few to compare")]
    {
        let is_listed = |kind: &&ExplainedKind| kind.verdict == verdict && !is_told(kind);
        let kinds: Vec<&ExplainedKind> = report.kinds.iter().filter(is_listed).collect();
        if kinds.is_empty() {
            continue;
        }
        let name =
            |kind: &&ExplainedKind| format!("{} ({})", title(kind), grouped(kind.calls_total));
        let mut names: Vec<String> = kinds.iter().take(LISTED_MOST).map(name).collect();
        if kinds.len() > LISTED_MOST {
            names.push(format!("and {} more", kinds.len() - LISTED_MOST));
        }
        notes.push(format!("{why}: {}", names.join(", ")));
    }
    notes
}
