//! The lines about rules.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Line;
use weigh_schema::printable::printable;
use weigh_schema::rule::{RuleStanding, RuleStatus, Severity};
use weigh_schema::top::TopReport;

use crate::text::cut;

/// Lines above the rows of a screen.
const MOST_LINES: usize = 4;

/// One for each rule that holds, the most important first; how many there are besides.
pub(super) fn holding(report: &TopReport, color: bool, columns: usize) -> Vec<Line<'static>> {
    let holds = |status: &&RuleStatus| status.state == RuleStanding::Holds;
    let all: Vec<&RuleStatus> = report.rules.iter().filter(holds).collect();
    let shown = if all.len() > MOST_LINES { MOST_LINES - 1 } else { all.len() };
    let mut lines: Vec<Line<'static>> =
        all[..shown].iter().map(|status| line(status, color, columns)).collect();
    if all.len() > shown {
        lines.push(Line::raw(format!("and {} more rules hold (r: all)", all.len() - shown)));
    }
    lines
}

/// The same, and those that are true but not for long enough: two looks cannot tell.
pub(super) fn all_true(report: &TopReport, columns: usize) -> Vec<Line<'static>> {
    let is_true = |status: &&RuleStatus| status.state != RuleStanding::Unavailable;
    report.rules.iter().filter(is_true).map(|status| line(status, false, columns)).collect()
}

fn line(status: &RuleStatus, color: bool, columns: usize) -> Line<'static> {
    let pending = match status.state {
        RuleStanding::Pending => format!(
            " (for {:.0} s, has to be for {:.0} s)",
            status.true_seconds.unwrap_or_default(),
            status.for_seconds
        ),
        _ => String::new(),
    };
    let text = format!("{}: {}{pending}", status.severity.name(), printable(&status.text));
    Line::styled(cut(&text, columns), style(status.severity, color))
}

/// As the cores: red and yellow, and bold besides.
fn style(severity: Severity, color: bool) -> Style {
    let style = match severity {
        Severity::Critical | Severity::Warning => Style::new().add_modifier(Modifier::BOLD),
        Severity::Note => Style::new(),
    };
    match severity {
        Severity::Critical if color => style.fg(Color::Indexed(196)),
        Severity::Warning if color => style.fg(Color::Indexed(214)),
        _ => style,
    }
}

/// How each rule stands that is not simply false; of one that holds the line to paste below it.
pub(super) fn list(report: &TopReport, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for status in &report.rules {
        let state = match status.state {
            RuleStanding::Holds => "holds",
            RuleStanding::Pending => "pending",
            RuleStanding::Unavailable => "unavailable",
        };
        let said = status.reason.as_deref().unwrap_or(&status.text);
        let text = format!(
            "{:<24} {:<8} {state:<11} {}",
            cut(&printable(&status.rule), 24),
            status.severity.name(),
            printable(said)
        );
        lines.push(cut(&text, columns));
        if !status.paste.is_empty() && status.state == RuleStanding::Holds {
            lines.push(cut(&format!("    {}", printable(&status.paste)), columns));
        }
    }
    lines
}

/// The head of that list.
pub(super) fn title() -> String {
    format!("{:<24} {:<8} {:<11} WHAT", "RULE", "SEVERITY", "STATE")
}
