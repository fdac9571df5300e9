//! The rows of the table of files: the path first, then time, bytes and calls, and more where there is room.

use unicode_width::UnicodeWidthStr;
use weigh_schema::Unit;
use weigh_schema::amount::{show_amount, show_number_of};
use weigh_schema::io::{FileUse, IoFound, Transfer};

use super::details;
use super::selection::{Folded, Shown, below};
use super::totals::pattern;
use super::totals::{are_devices_unseen, device, mapped, size};
use crate::text::{Line, Paint, Screen, harmless, shorten};

/// A file's name and process should have so much.
const NAME_WIDTH: usize = 28;
/// A file's name has so much, even where its process has no room then.
const LEAST_NAME: usize = 16;
/// Time, bytes and calls are always there.
const LEAST_COLUMNS: usize = 5;

const COLUMNS: [(&str, usize); 10] = [
    ("time", 10),
    ("read", 11),
    ("reads", 9),
    ("written", 11),
    ("writes", 9),
    ("mapped", 11),
    ("opens", 7),
    ("pattern", 18),
    ("from device", 13),
    ("to device", 11),
];

/// Titles and rows, as many as there may be; nothing of no files.
pub(super) fn rows(found: &IoFound, shown: Shown<'_>, most: usize, screen: Screen) -> Vec<Line> {
    let files = &shown.files.files[..shown.files.files.len().min(most)];
    let has_folded = shown.files.system.uses + shown.files.waited.uses > 0;
    // A head of nothing says nothing.
    if files.is_empty() && !has_folded {
        return Vec::new();
    }
    let width = name_width(shown, screen);
    let mut lines = vec![Line::new(), titles(width, screen)];
    let are_devices_unseen = are_devices_unseen(found);
    for file in files {
        let name = Name::of(file, shown.folder);
        let cells = in_columns(&cells(file, are_devices_unseen), screen.columns);
        lines.push(name.line(width).add(cells, Paint::Plain));
        if shown.details {
            lines.extend(details::lines(file, screen));
        }
    }
    lines
}

/// What is folded, in a line of each kind.
pub(super) fn folded(shown: Shown<'_>, screen: Screen) -> Vec<Line> {
    let width = name_width(shown, screen);
    let line = |folded: &Folded, one: &str, several: &str| {
        let count = |n: u64| if n == 0 { String::new() } else { n.to_string() };
        let amount = |n: u64| if n == 0 { String::new() } else { size(n) };
        let cells = [
            show_amount(folded.seconds, Unit::Seconds),
            amount(folded.bytes[0]),
            count(folded.calls[0]),
            amount(folded.bytes[1]),
            count(folded.calls[1]),
        ];
        let name = show_number_of(folded.uses, one, several).replace('\u{202f}', "");
        let line = Line::new().add(shorten(&name, width), Paint::Dim).pad_to(width);
        (folded.uses > 0).then(|| line.add(in_columns(&cells, screen.columns), Paint::Dim))
    };
    let lines = [
        line(&shown.files.system, "system file (--all)", "system files (--all)"),
        line(&shown.files.waited, "pipe, socket, tty", "pipes, sockets, ttys"),
    ];
    lines.into_iter().flatten().collect()
}

/// A file's name, and whose row it is.
struct Name {
    path: String,
    by: String,
}

impl Name {
    fn of(file: &FileUse, folder: Option<&str>) -> Name {
        let deleted = if file.is_deleted { " (deleted)" } else { "" };
        let thread = file.tid.map(|tid| format!(" thread {tid}")).unwrap_or_default();
        let sources: Vec<String> = file.sources.iter().map(ToString::to_string).collect();
        let sources = match sources.is_empty() {
            true => String::new(),
            false => format!(" by {}", sources.join("+")),
        };
        let path = below(&file.name, folder);
        Name {
            path: harmless(&format!("{path}{}{deleted}", later_name(file))),
            by: harmless(&format!("  {} {}{thread}{sources}", file.process, file.pid)),
        }
    }

    fn width(&self) -> usize {
        self.path.width() + self.by.width()
    }

    fn line(&self, width: usize) -> Line {
        let left = width.saturating_sub(self.by.width()).max(LEAST_NAME.min(width));
        let path = shorten(&self.path, left);
        let room = width.saturating_sub(path.width());
        let by = crate::text::cut(&self.by, room);
        let line = Line::new().add(path, Paint::Bold).add(by, Paint::Dim);
        let gap = width.saturating_sub(line.width());
        line.add(" ".repeat(gap), Paint::Plain)
    }
}

/// Columns of the names: what the numbers leave; where rows are whole, as many as the longest needs.
fn name_width(shown: Shown<'_>, screen: Screen) -> usize {
    let columns = &COLUMNS[..columns_in(screen.columns)];
    let numbers = columns.iter().map(|(_, width)| width).sum::<usize>();
    let room = screen.columns.saturating_sub(numbers);
    let width = |file: &FileUse| Name::of(file, shown.folder).width();
    let longest = shown.files.files.iter().map(width).max().unwrap_or(0);
    if screen.is_cut { longest.clamp(NAME_WIDTH.min(room), room) } else { longest.max(NAME_WIDTH) }
}

fn titles(width: usize, screen: Screen) -> Line {
    let columns = COLUMNS[..columns_in(screen.columns)].iter();
    let columns = columns.map(|(name, width)| format!("{name:>width$}"));
    Line::new().add("file", Paint::Dim).pad_to(width).add(columns.collect::<String>(), Paint::Dim)
}

fn in_columns(cells: &[String], width: usize) -> String {
    let columns = COLUMNS[..columns_in(width)].iter();
    let cells = cells.iter().zip(columns);
    cells.map(|(text, (_, width))| format!("{text:>width$}")).collect()
}

/// How many of the columns have room beside the file's name; the last ones are given up first.
fn columns_in(width: usize) -> usize {
    let end = |count: &usize| COLUMNS[..*count].iter().map(|(_, width)| width).sum::<usize>();
    let has_room = |count: &usize| end(count) + NAME_WIDTH <= width;
    (LEAST_COLUMNS..=COLUMNS.len()).rev().find(has_room).unwrap_or(LEAST_COLUMNS)
}

/// By what it was known last, beside what it was known by first.
fn later_name(file: &FileUse) -> String {
    let Some(later) = &file.later_name else { return String::new() };
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_string());
    let in_same_folder = folder(later) == folder(&file.name);
    let shown = later.rsplit('/').next().filter(|_| in_same_folder).unwrap_or(later);
    format!(" (later {shown})")
}

/// What stands in the columns.
fn cells(file: &FileUse, are_devices_unseen: bool) -> [String; 10] {
    let count = |n: u64| if n == 0 { String::new() } else { n.to_string() };
    let amount = |n: u64| if n == 0 { String::new() } else { size(n) };
    let (by, unseen) = (&file.totals.by_calls, file.totals.by_calls.unseen);
    let known = |is_unseen: bool, text: String| if is_unseen { "?".to_string() } else { text };
    let is_bound = file.is_bound();
    let least = |text: String| match is_bound && !text.is_empty() {
        true => format!("≥ {text}"),
        false => text,
    };
    // A mechanism that does not see mapped memory does not see what it makes devices do either.
    let hidden = file.totals.by_kind.get(Transfer::Mapped.name());
    let is_hidden = hidden.is_some_and(|kind| kind.unseen.any());
    let mapped = match mapped(&file.totals) {
        0 => known(is_hidden, String::new()),
        bytes if is_hidden => format!("≥ {}", size(bytes)),
        bytes => size(bytes),
    };
    let no_devices = is_hidden || are_devices_unseen;
    let opens = file.totals.numbers.get("opens_total").map_or(0, |n| n.as_f64() as u64);
    [
        show_amount(file.totals.seconds(), Unit::Seconds),
        known(unseen.reads, least(amount(by.read_bytes))),
        known(unseen.reads, least(count(by.read_calls))),
        known(unseen.writes, least(amount(by.written_bytes))),
        known(unseen.writes, least(count(by.write_calls))),
        mapped,
        count(opens),
        pattern(&file.totals),
        known(no_devices, amount(device(&file.totals)[0])),
        known(no_devices, amount(device(&file.totals)[1])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_has_room_for_names() {
        assert_eq!(columns_in(160), COLUMNS.len());
        assert_eq!(columns_in(80), LEAST_COLUMNS);
        assert_eq!(columns_in(91), LEAST_COLUMNS + 1);
    }
}
