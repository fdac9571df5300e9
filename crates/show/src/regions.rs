//! Times of regions that programs name: a tree, a flat list, and a few lines at the end of a run.
//!
//! Columns before the name have a fixed width, so that 80 columns hold 30 of a name. What is estimated has `~` before it;
//! times over several threads are said to be added up.

use weigh_schema::Quality;
use weigh_schema::amount::{show_count, show_number_of, show_seconds};
use weigh_schema::region::{FlatRegion, KernelCosts, RegionKind, RegionRow, RegionsFound, UNBOUND};

use crate::calls::greatest;
use crate::text::{Line, Paint, Screen, wrap};

/// So many regions stand at the end of a run.
const BRIEF: usize = 5;
/// The columns of a number.
const COLUMN: usize = 12;
/// Lines below a region, about its costs in the kernel.
const COST_LINES: usize = 3;
/// In fewer columns a table would be noise.
const LEAST_WIDTH: usize = 60;

/// A line of a table of regions.
pub struct RegionLine<'a> {
    /// How far its name is indented.
    pub depth: usize,
    /// Its numbers.
    pub row: &'a RegionRow,
    /// Threads that it was added up over.
    pub threads: u64,
}

/// The tree, threads as headings where they are in it.
pub fn render_tree(found: &RegionsFound, lines: &[RegionLine<'_>], screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let least = lines.iter().map(|line| line.depth).min().unwrap_or(0);
    let mut text = vec![scope(found), heading()];
    for line in lines {
        let numbers = Numbers::of_row(line.row, line.depth.saturating_sub(least));
        text.push(numbers.line());
        text.extend(numbers.cost_lines(screen.columns));
    }
    text.extend(rest(found));
    screen.render(&text)
}

/// Regions by name.
pub fn render_flat(found: &RegionsFound, flat: &[FlatRegion], screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let mut text = vec![scope(found), heading()];
    for region in flat {
        let numbers = Numbers::of_flat(region);
        text.push(numbers.line());
        text.extend(numbers.cost_lines(screen.columns));
    }
    text.extend(rest(found));
    screen.render(&text)
}

/// What is told at the end of a run: the regions that took most time by themselves.
pub fn render_brief(found: &RegionsFound, screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let mut text = vec![Line::new(), scope(found)];
    if !found.top.is_empty() {
        text.push(heading());
    }
    text.extend(found.top.iter().take(BRIEF).map(|region| Numbers::of_flat(region).line()));
    text.extend(loss_lines(found));
    screen.render(&text)
}

/// Of whom the numbers are, in words.
pub(crate) fn added_up(found: &RegionsFound) -> String {
    let processes = show_number_of(found.processes_total, "process", "processes");
    let threads = show_number_of(found.threads_total, "thread", "threads");
    let added = if found.threads_total > 1 { ": times are added up, and no wall time" } else { "" };
    format!("{processes}, {threads}{added}")
}

fn scope(found: &RegionsFound) -> Line {
    let text = format!("  {}", added_up(found));
    Line::new().add("regions", Paint::Bold).add(text, Paint::Plain)
}

fn heading() -> Line {
    let columns = ["exclusive", "inclusive", "calls", "longest"];
    let text: String = columns.iter().map(|name| format!("{name:>COLUMN$}")).collect();
    Line::new().add(text + "  region", Paint::Dim)
}

/// A line in words.
struct Numbers<'a> {
    exclusive: f64,
    inclusive: f64,
    calls: u64,
    longest: Option<f64>,
    name: &'a str,
    depth: usize,
    kind: RegionKind,
    quality: Quality,
    open: u64,
    unbalanced: u64,
    error: Option<f64>,
    imbalance: Option<f64>,
    costs: Option<&'a KernelCosts>,
}

impl<'a> Numbers<'a> {
    fn of_row(row: &'a RegionRow, depth: usize) -> Numbers<'a> {
        Numbers {
            exclusive: row.exclusive_seconds,
            inclusive: row.inclusive_seconds,
            calls: row.calls,
            longest: row.max_seconds,
            name: &row.name,
            depth,
            kind: row.kind,
            quality: row.quality,
            open: row.open_calls,
            unbalanced: row.unbalanced_calls,
            error: row.error_seconds,
            imbalance: None,
            costs: row.kernel_costs.as_ref(),
        }
    }

    fn of_flat(flat: &'a FlatRegion) -> Numbers<'a> {
        Numbers {
            exclusive: flat.exclusive_seconds,
            inclusive: flat.inclusive_seconds,
            calls: flat.calls,
            longest: flat.max_seconds,
            name: &flat.name,
            depth: 0,
            kind: RegionKind::Region,
            quality: flat.quality,
            open: flat.open_calls,
            unbalanced: flat.unbalanced_calls,
            error: flat.error_seconds,
            imbalance: flat.ranks.as_ref().map(|ranks| ranks.imbalance_ratio),
            costs: flat.kernel_costs.as_ref(),
        }
    }

    fn line(&self) -> Line {
        let mark = if self.quality == Quality::Exact { "" } else { "~" };
        let longest = self.longest.map_or("-".to_string(), show_seconds);
        let columns = [
            format!("{mark}{}", show_seconds(self.exclusive)),
            format!("{mark}{}", show_seconds(self.inclusive)),
            show_count(self.calls as f64),
            longest,
        ];
        let text: String = columns.iter().map(|column| format!("{column:>COLUMN$}")).collect();
        let paint = if self.kind == RegionKind::Thread { Paint::Bold } else { Paint::Plain };
        let name = if self.name.is_empty() { "(no name)" } else { self.name };
        let indent = "  ".repeat(self.depth);
        let line = Line::new().add(text, Paint::Plain).add(format!("  {indent}"), Paint::Plain);
        let remarks = self.remarks();
        let line = line.add(name, paint);
        if remarks.is_empty() { line } else { line.add(format!("  ({remarks})"), Paint::Warn) }
    }

    /// What its system calls cost, below it.
    fn cost_lines(&self, columns: usize) -> Vec<Line> {
        let Some(costs) = self.costs else { return Vec::new() };
        let indent = " ".repeat(COLUMN) + &"  ".repeat(self.depth);
        let text = format!("kernel: {}", cost_words(costs).join(", "));
        let width = columns.saturating_sub(indent.len()).max(LEAST_WIDTH / 2);
        let lines = wrap(&text, width, COST_LINES).into_iter();
        lines.map(|line| Line::new().add(&indent, Paint::Plain).add(line, Paint::Dim)).collect()
    }

    fn remarks(&self) -> String {
        let some = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let parts = [
            (self.kind == RegionKind::Thread).then(|| "thread".to_string()),
            (self.kind == RegionKind::Range).then(|| "range".to_string()),
            self.error.map(|error| format!("±{}", show_seconds(error))),
            some(self.open, "open"),
            some(self.unbalanced, "unbalanced"),
            self.imbalance.map(|ratio| format!("greatest rank {ratio:.2} times the mean")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The greatest of what system calls cost in the kernel; or why nothing is known, or not all.
pub(crate) fn cost_words(costs: &KernelCosts) -> Vec<String> {
    let mut words = greatest(&costs.parts, &costs.later);
    if words.is_empty() && costs.quality != Quality::Unavailable {
        words.push("no system call that was looked into cost anything".to_string());
    }
    let reason = costs.reason.as_ref().map(|reason| format!("{}: {reason}", costs.quality));
    words.extend(reason);
    words
}

/// Counters, metadata, and what is lost.
fn rest(found: &RegionsFound) -> Vec<Line> {
    let mut lines = Vec::new();
    for counter in &found.counters {
        let samples = show_number_of(counter.samples, "sample", "samples");
        let value = if counter.value.fract() == 0.0 && counter.value.abs() < 1e15 {
            format!("{:.0}", counter.value)
        } else {
            format!("{:.6}", counter.value)
        };
        let text = format!("  {value}  ({samples})");
        lines.push(
            Line::new()
                .add(&counter.kind, Paint::Dim)
                .pad_to(9)
                .add(&counter.name, Paint::Plain)
                .add(text, Paint::Plain),
        );
    }
    for (key, value) in &found.metadata {
        let line = Line::new().add("metadata", Paint::Dim).pad_to(9).add(key, Paint::Plain);
        lines.push(line.add(format!("  {value}"), Paint::Plain));
    }
    lines.extend(loss_lines(found));
    lines
}

/// What is not whole, a text for each kind.
pub(crate) fn losses(found: &RegionsFound) -> Vec<String> {
    let mut notes = Vec::new();
    if found.cut_short_total > 0 {
        notes.push(format!(
            "{} had not ended in order: it is shown as it was last",
            show_number_of(found.cut_short_total, "process", "processes")
        ));
    }
    if found.executed_total > 0 {
        notes.push(format!(
            "{} by executing another program: calls that were open then are shown as open",
            show_number_of(found.executed_total, "profile ended", "profiles ended")
        ));
    }
    if !found.lost.is_empty() {
        let lost = found.lost.iter().map(|(what, count)| format!("{count} {what}"));
        notes.push(format!("lost: {}", lost.collect::<Vec<_>>().join(", ")));
    }
    for (why, count) in &found.refused {
        notes.push(format!("not taken: {why} ({count})"));
    }
    for (why, count) in found.kernel_costs_unavailable.iter().filter(|(why, _)| *why != UNBOUND) {
        let regions = show_number_of(*count, "region", "regions");
        notes.push(format!("kernel costs of {regions} are unavailable: {why}"));
    }
    notes
}

fn loss_lines(found: &RegionsFound) -> Vec<Line> {
    let note =
        |text: String| Line::new().add("note", Paint::Warn).pad_to(9).add(text, Paint::Plain);
    losses(found).into_iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> RegionsFound {
        let flat = |name: &str, exclusive, calls| FlatRegion {
            name: name.into(),
            threads: 2,
            calls,
            inclusive_seconds: 2.0 * exclusive,
            exclusive_seconds: exclusive,
            max_seconds: Some(0.0125),
            quality: Quality::Exact,
            ..FlatRegion::default()
        };
        let top = vec![flat("solve", 1.5, 41), flat("a\u{1b}[2J", 0.25, 7)];
        let lost = [("phases".to_string(), 3)].into();
        RegionsFound { processes_total: 1, threads_total: 2, top, lost, ..RegionsFound::default() }
    }

    #[test]
    fn the_end_of_a_run_has_a_short_block_of_80_columns() {
        let screen = Screen { columns: 80, is_terminal: true, is_cut: true, color: false };
        let text = render_brief(&found(), screen);
        let expected = "
regions  1 process, 2 threads: times are added up, and no wall time
   exclusive   inclusive       calls     longest  region
     1.500 s     3.000 s          41     12.5 ms  solve
    250.0 ms    500.0 ms           7     12.5 ms  a\\u{1b}[2J
note     lost: 3 phases
";
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn what_is_not_exact_open_or_unbalanced_says_so() {
        let row = RegionRow {
            name: "hot".into(),
            calls: 7,
            inclusive_seconds: 0.5,
            exclusive_seconds: 0.5,
            error_seconds: Some(0.0125),
            open_calls: 1,
            unbalanced_calls: 2,
            quality: Quality::Sampled,
            ..RegionRow::default()
        };
        let line = RegionLine { depth: 1, row: &row, threads: 1 };
        let screen = Screen { columns: 120, is_terminal: false, is_cut: false, color: false };
        let text = render_tree(&found(), &[line], screen);
        assert!(text.contains("~500.0 ms") && !text.contains("kernel"), "{text}");
        assert!(text.contains("hot  (±12.5 ms, 1 open, 2 unbalanced)"), "{text}");
    }

    #[test]
    fn below_a_region_with_an_account_stands_what_its_system_calls_cost() {
        let numbers = [("sent_bytes_total".to_string(), weigh_schema::Number::Whole(411))];
        let costs = KernelCosts {
            parts: [("socket".to_string(), numbers.into())].into(),
            ..KernelCosts::default()
        };
        let bound = |costs| RegionRow { kernel_costs: Some(costs), ..RegionRow::default() };
        let rows = [bound(costs), bound(KernelCosts::unavailable("no agent of weigh answers"))];
        let lines = rows.each_ref().map(|row| RegionLine { depth: 1, row, threads: 1 });
        let screen = Screen { columns: 120, is_terminal: false, is_cut: false, color: false };
        let text = render_tree(&found(), &lines, screen);
        assert!(text.contains("kernel: 411 B sent (socket)\n"), "{text}");
        assert!(text.contains("kernel: unavailable: no agent of weigh answers\n"), "{text}");
    }
}
