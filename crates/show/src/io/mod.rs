//! What a job reads and writes, as a table: what could be better, the files that took most time, one line each, then
//! who wrote what others read, and what could not be seen.
//!
//! Where so many lines may be had, parts that find no room are named in a line.

pub(crate) mod details;
pub mod docs;
mod selection;
mod table;
mod totals;

use weigh_schema::amount::{show_amount, show_number_of};
use weigh_schema::io::{Advice, Flow, IoFound, Price, Rest, Transfer};
use weigh_schema::{Mechanism, Quality, Unit};

use crate::text::{Line, Paint, Screen, wrap};

use selection::below;
pub use selection::{Extent, Fold, Folded, Selection, Shown};
use totals::size;
pub(crate) use totals::{are_devices_unseen, device, is_unavailable, mapped, pattern};

/// Below this width the table would be noise.
const LEAST_WIDTH: usize = 60;
/// The most lines a text below the table may take.
const TEXT_LINES: usize = 5;
/// So many flows and pieces of advice are shown.
const MOST: usize = 8;

/// Before a run's own first line.
const RUN_TITLE: &str = "Files  ";

/// Where the rows are that a table does not show.
#[derive(Clone, Copy)]
enum Others<'a> {
    /// `--rows` shows them.
    Asked,
    /// In this file of the recording; how many files it has is the report's to say.
    KeptIn(&'a str),
    /// They could not be written.
    Lost,
}

/// The report as text, with a line end after its last line.
pub fn render(found: &IoFound, shown: Shown<'_>, screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let parts = Parts::new(found, shown, "weigh  ", screen);
    screen.render(&parts.lines(found, shown, Others::Asked, screen))
}

/// The same of a recording; `kept_in` is its file that has all rows.
pub fn render_recorded(found: &IoFound, shown: Shown<'_>, kept_in: &str, screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let parts = Parts::new(found, shown, RUN_TITLE, screen);
    let lines = parts.lines(found, shown, Others::KeptIn(kept_in), screen);
    screen.render(&[vec![Line::new()], lines].concat())
}

/// The same of a run whose rows could not be kept.
pub fn render_without_rows(found: &IoFound, screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let files = &Selection::new(Extent::All(0));
    let shown = Shown { files, details: false, folder: None };
    let lines =
        Parts::new(found, shown, RUN_TITLE, screen).lines(found, shown, Others::Lost, screen);
    screen.render(&[vec![Line::new()], lines].concat())
}

/// That there are rows that are not shown, where so many are.
fn more(found: &IoFound, files: &Selection, rows: usize, others: Others<'_>) -> Vec<Line> {
    let rows = rows as u64;
    let text = match others {
        Others::Asked => {
            let left = files.total.saturating_sub(rows);
            (left > 0).then(|| format!("and {left} more; --rows shows more"))
        }
        Others::KeptIn(file) => {
            let told = rows + files.system.uses + files.waited.uses;
            let left = found.uses_total.saturating_sub(told);
            (left > 0).then(|| format!("and {left} more, in {file}"))
        }
        Others::Lost => Some("the rows of files could not be written".to_string()),
    };
    let text = text.map(|text| Line::new().add(text, Paint::Dim));
    let rest = found.rest.as_ref().map(|left| Line::new().add(rest(left), Paint::Warn));
    text.into_iter().chain(rest).collect()
}

/// The parts of a table, each whole.
struct Parts {
    head: Vec<Line>,
    advice: Vec<Line>,
    flows: Vec<Line>,
    unseen: Vec<Line>,
}

impl Parts {
    fn new(found: &IoFound, shown: Shown<'_>, title: &'static str, screen: Screen) -> Parts {
        let width = screen.columns;
        let flows = found.flows.iter().map(|one| flow(one, shown.folder));
        let advice = found.advice.iter().map(|one| advice(one, shown.folder));
        let files_seconds = match shown.files.extent() {
            Extent::All(0) => None,
            _ => Some((found.totals.seconds() - shown.files.waited_seconds).max(0.0)),
        };
        Parts {
            head: headline(found, files_seconds, title, width),
            advice: section("what could be better", advice, width),
            flows: section("who wrote what others read", flows, width),
            unseen: section("not seen", found.not_seen().into_iter(), width),
        }
    }

    /// All of it, or as many lines as there may be: what finds no room is named in a line.
    fn lines(
        mut self,
        found: &IoFound,
        shown: Shown<'_>,
        others: Others<'_>,
        screen: Screen,
    ) -> Vec<Line> {
        let folded = table::folded(shown, screen);
        let all = shown.files.files.len();
        let Extent::Lines(most) = shown.files.extent() else {
            let rows = table::rows(found, shown, all, screen);
            let more = more(found, shown.files, all, others);
            return [self.head, self.advice, rows, folded, more, self.flows, self.unseen].concat();
        };
        shorten_section(&mut self.advice, most / 3, "more of this: --all");
        let (flows, unseen) = (hint(found.flows.len() as u64), unseen_in_short(found));
        let named = flows.iter().chain(&unseen).count();
        // A blank line, the titles, that there are more rows, and what has none.
        let beside = 2 + 1 + usize::from(found.rest.is_some());
        let own = self.head.len() + self.advice.len() + folded.len() + named + beside;
        let shown_rows = all.min(most.saturating_sub(own));
        let rows = table::rows(found, shown, shown_rows, screen);
        let more = more(found, shown.files, shown_rows, others);
        let mut left = most.saturating_sub(own + shown_rows);
        let below = [(self.unseen, unseen), (self.flows, flows)].map(|(whole, short)| {
            let short = short.map(|text| Line::new().add(text, Paint::Dim));
            let room = left + usize::from(short.is_some());
            if whole.len() > room {
                return short.into_iter().collect();
            }
            left = room - whole.len();
            whole
        });
        [self.head, self.advice, rows, folded, more, below.concat()].concat()
    }
}

/// Keeps whole texts of a section, as far as there is room.
fn shorten_section(lines: &mut Vec<Line>, most: usize, more: &str) {
    if lines.len() <= most {
        return;
    }
    let begins = |line: &Line| {
        line.render(usize::MAX, false).strip_prefix("  ").is_some_and(|text| !text.starts_with(' '))
    };
    // The head and a first text stay, and no text is cut.
    let mut later = (3..lines.len()).filter(|place| begins(&lines[*place]));
    let Some(first) = later.next() else { return };
    let ends = later.take_while(|place| *place < most).last().unwrap_or(first);
    lines.truncate(ends);
    lines.push(Line::new().add(format!("  {more}"), Paint::Dim));
}

/// That there are flows.
fn hint(flows: u64) -> Option<String> {
    let flows_in_words = show_number_of(flows, "flow", "flows");
    (flows > 0).then(|| format!("{flows_in_words} from one process to another: --all"))
}

/// That not all was seen.
fn unseen_in_short(found: &IoFound) -> Option<String> {
    let keys: Vec<&str> = found.qualities.keys().map(String::as_str).collect();
    let all = found.not_seen().len();
    (all > 0).then(|| match keys.as_slice() {
        keys @ [_, ..] if keys.len() <= 2 && keys.len() == all => {
            format!("not exact: {}; --all says why", keys.join(", "))
        }
        _ => format!(
            "{}; --all",
            show_number_of(all as u64, "note on what was not seen", "notes on what was not seen")
        ),
    })
}

fn headline(
    found: &IoFound,
    files_seconds: Option<f64>,
    title: &'static str,
    width: usize,
) -> Vec<Line> {
    let text = format!("{}; {}{}", moved(found, false), times(found, files_seconds), by(found));
    let wrapped = |text: &str| wrap(text, width.max(LEAST_WIDTH) - title.len(), TEXT_LINES);
    let unseen = unseen_at_mount(found, title).map(|text| wrapped(&text)).unwrap_or_default();
    let unseen = unseen.into_iter().map(|text| (text, Paint::Warn));
    let texts = unseen.chain(wrapped(&text).into_iter().map(|text| (text, Paint::Plain)));
    let before = |i: usize| if i == 0 { title.to_string() } else { " ".repeat(title.len()) };
    let line = |(i, (text, paint))| Line::new().add(before(i), Paint::Bold).add(text, paint);
    texts.enumerate().map(line).collect()
}

/// What a mount does not see of reads and writes, and what does: the prices are those of docs/mount.md.
fn unseen_at_mount(found: &IoFound, title: &str) -> Option<String> {
    if found.mechanism != Mechanism::Fuse {
        return None;
    }
    let of_run = if title == RUN_TITLE { "io-" } else { "" };
    let price = format!(
        "--{of_run}exact counts each: a read of 1 KiB from the page cache then takes some 24 times as long, of 100 KiB \
         some 3 times"
    );
    let unseen = found.totals.by_calls.unseen;
    match (unseen.reads, unseen.writes) {
        (true, true) => Some(format!(
            "Reads and writes are not seen: the kernel passes them through. {price}. BPF counts them at less; `weigh \
             doctor` says what it needs."
        )),
        (true, false) => Some(format!("Reads that the page cache answers are not seen. {price}.")),
        _ => None,
    }
}

/// Time in calls on files, apart from that at pipes, sockets and terminals, where it is spent waiting for others.
fn times(found: &IoFound, files_seconds: Option<f64>) -> String {
    let time = |seconds: f64| show_amount(seconds, Unit::Seconds);
    let all = found.totals.seconds();
    let wall = time(found.wall_seconds);
    match files_seconds {
        Some(files) if all - files > 0.0 => format!(
            "{} in calls on files, {} on pipes, sockets and terminals, all processes together, in a run of {wall}",
            time(files),
            time(all - files),
        ),
        _ => format!("{} in these calls, all processes together, in a run of {wall}", time(all)),
    }
}

fn by(found: &IoFound) -> String {
    let price = found.price.as_ref().map(price).unwrap_or_default();
    format!("; seen by {}{price}", found.mechanism)
}

/// All files together, in a sentence.
pub(crate) fn sums(found: &IoFound) -> String {
    format!("{}; {}{}", moved(found, true), times(found, None), by(found))
}

/// Bytes and calls. Mapped memory that did nothing is named where all is wanted.
fn moved(found: &IoFound, is_whole: bool) -> String {
    let (by, unseen) = (&found.totals.by_calls, found.totals.by_calls.unseen);
    let least = if found.quality == Quality::Exact { "" } else { "at least " };
    let more = found.witness.map(|witness| witness.unseen()).unwrap_or_default();
    let read = match unseen.reads {
        true => "an unknown amount read".to_string(),
        false => format!(
            "{least}{} read by {} {}",
            size(by.read_bytes),
            by.read_calls,
            if by.read_calls == 1 { "call" } else { "calls" }
        ),
    } + &by_kernel(more.read_bytes);
    let written = match unseen.writes {
        true => "an unknown amount written".to_string(),
        false => format!("{least}{} written by {}", size(by.written_bytes), by.write_calls),
    } + &by_kernel(more.written_bytes);
    let of_mapped = [Transfer::Mapped.name(), "mapped_written_bytes"];
    let trust = of_mapped.iter().find_map(|key| Some(found.qualities.get(*key)?.quality));
    let has_holes = found.qualities.contains_key("mapped_read_bytes");
    let mapped = match (trust, mapped(&found.totals)) {
        (None, 0) if !is_whole => String::new(),
        (None, bytes) if has_holes => format!(", up to {} by mapped memory", size(bytes)),
        (None, bytes) => format!(", {} by mapped memory", size(bytes)),
        (Some(Quality::Unavailable), _) | (_, 0) => {
            ", an unknown amount by mapped memory".to_string()
        }
        (Some(_), bytes) if has_holes => format!(", about {} by mapped memory", size(bytes)),
        (Some(_), bytes) => format!(", at least {} by mapped memory", size(bytes)),
    };
    let devices = match device(&found.totals) {
        [0, 0] => String::new(),
        [from, to] => format!(", {} from devices, {} to them", size(from), size(to)),
    };
    format!("{read}, {written}{mapped}{devices}")
}

/// What the kernel has counted besides.
fn by_kernel(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(" (and {} unseen, by the kernel's own count)", size(bytes)),
    }
}

/// What seeing cost the job.
fn price(price: &Price) -> String {
    let time = |seconds: f64| show_amount(seconds, Unit::Seconds);
    format!(
        "; that took {} stops, at least {} of the job's time ({} for each stop, {} for looks)",
        price.stops_total,
        time(price.seconds),
        time(price.stop_seconds),
        time(price.look_seconds),
    )
}

/// Files that have no row of their own, in words.
pub(crate) fn rest(rest: &Rest) -> String {
    let by = &rest.totals.by_calls;
    format!(
        "the rest: {} read, {} written by {} calls, on files that have no row of their own",
        size(by.read_bytes),
        size(by.written_bytes),
        by.read_calls + by.write_calls
    )
}

pub(crate) fn flow(flow: &Flow, folder: Option<&str>) -> String {
    let bytes = flow.bytes.map_or_else(|| "some".to_string(), size);
    let most = if flow.is_upper_bound { "up to " } else { "" };
    format!(
        "{} {} wrote, {} {} read: {most}{bytes} of {}",
        flow.writer_name,
        flow.writer,
        flow.reader_name,
        flow.reader,
        below(&flow.name, folder)
    )
}

fn advice(advice: &Advice, folder: Option<&str>) -> String {
    format!("{}: {} [{}]", below(&advice.file, folder), advice.text, advice.rule)
}

fn section(title: &str, texts: impl Iterator<Item = String>, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for (place, text) in texts.enumerate() {
        if place == 0 {
            lines.push(Line::new());
            lines.push(Line::new().add(title, Paint::Bold));
        }
        if place == MOST {
            lines.push(Line::new().add("  and more, in --json", Paint::Dim));
            break;
        }
        let wrapped = wrap(&text, width.saturating_sub(4), TEXT_LINES).into_iter().enumerate();
        let indent = |i: usize| if i == 0 { "  " } else { "    " };
        lines.extend(
            wrapped
                .map(|(i, text)| Line::new().add(indent(i), Paint::Plain).add(text, Paint::Plain)),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use weigh_schema::io::Totals;

    fn of_mount(reads: bool, writes: bool) -> IoFound {
        let mut totals = Totals::default();
        totals.by_calls.unseen = weigh_schema::io::Unseen { reads, writes };
        IoFound {
            wall_seconds: 1.0,
            mechanism: Mechanism::Fuse,
            quality: Quality::Exact,
            witness: None,
            price: None,
            totals,
            uses_total: 0,
            flows: Vec::new(),
            advice: Vec::new(),
            rest: None,
            untold: None,
            qualities: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_a_mount_does_not_see_comes_first_with_the_option_that_does() {
        let first = |found: &IoFound, title| {
            let lines = headline(found, None, title, 400);
            lines.iter().map(|line| line.render(usize::MAX, false)).collect::<String>()
        };
        let passing = first(&of_mount(true, true), "weigh  ");
        assert!(passing.starts_with("weigh  Reads and writes are not seen"), "{passing}");
        assert!(passing.contains("--exact counts each") && passing.contains("24 times as long"));
        let cached = first(&of_mount(true, false), RUN_TITLE);
        assert!(cached.starts_with("Files  Reads that the page cache answers are not seen"));
        assert!(cached.contains("--io-exact counts each"), "{cached}");
        assert!(!first(&of_mount(false, false), "weigh  ").contains("not seen"));
        let by_library = IoFound { mechanism: Mechanism::Preload, ..of_mount(true, true) };
        assert!(!first(&by_library, "weigh  ").contains("--exact"));
    }
}
