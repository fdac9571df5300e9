//! Times of regions that programs name: a tree, a flat list, and a few lines at the end of a run.
//!
//! Columns before the name have a fixed width, so that 80 columns hold 30 of a name. What is estimated has `~` before it;
//! times over several threads are said to be added up.

use weigh_schema::amount::{show_count, show_number_of, show_seconds};
use weigh_schema::quality::Quality;
use weigh_schema::region::{FlatRegion, RegionKind, RegionRow, RegionsFound};

use crate::text::{Line, Paint, Screen};

/// So many regions stand at the end of a run.
const BRIEF: usize = 5;
/// The columns of a number.
const COLUMN: usize = 12;
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
    }
    text.extend(rest(found));
    screen.render(&text)
}

/// Regions by name.
pub fn render_flat(found: &RegionsFound, flat: &[FlatRegion], screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let mut text = vec![scope(found), heading()];
    text.extend(flat.iter().map(|region| Numbers::of_flat(region).line()));
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
    text.extend(losses(found));
    screen.render(&text)
}

/// Of whom the numbers are.
fn scope(found: &RegionsFound) -> Line {
    let processes = show_number_of(found.processes_total, "process", "processes");
    let threads = show_number_of(found.threads_total, "thread", "threads");
    let added = if found.threads_total > 1 { ": times are added up, and no wall time" } else { "" };
    Line::new()
        .add("regions", Paint::Bold)
        .add(format!("  {processes}, {threads}{added}"), Paint::Plain)
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
    lines.extend(losses(found));
    lines
}

/// What is not whole, one line for each kind.
fn losses(found: &RegionsFound) -> Vec<Line> {
    let mut notes = Vec::new();
    if found.cut_short_total > 0 {
        notes.push(format!(
            "{} had not ended in order: it is shown as it was last",
            show_number_of(found.cut_short_total, "process", "processes")
        ));
    }
    if !found.lost.is_empty() {
        let lost = found.lost.iter().map(|(what, count)| format!("{count} {what}"));
        notes.push(format!("lost: {}", lost.collect::<Vec<_>>().join(", ")));
    }
    for (why, count) in &found.refused {
        notes.push(format!("not taken: {why} ({count})"));
    }
    let note =
        |text: String| Line::new().add("note", Paint::Warn).pad_to(9).add(text, Paint::Plain);
    notes.into_iter().map(note).collect()
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
        assert!(text.contains("~500.0 ms"), "{text}");
        assert!(text.contains("hot  (±12.5 ms, 1 open, 2 unbalanced)"), "{text}");
    }
}
