//! What a job reads and writes, as a table: the files that took most time, one line each, then who wrote
//! what others read, what could be better, and what could not be seen.

pub(crate) mod details;
pub mod docs;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weigh_schema::amount::{percent, show_amount};
use weigh_schema::io::{Advice, Field, FileUse, Flow, IoFound, Price, Rest, Totals, Transfer};
use weigh_schema::{Quality, Unit};

use crate::text::{Line, Paint, Screen, harmless, shorten, wrap};

/// Below this width the table would be noise.
const LEAST_WIDTH: usize = 60;
/// A file's name and process should have so much.
const NAME_WIDTH: usize = 28;
/// A file's name has so much, even where its process has no room then.
const LEAST_NAME: usize = 16;
/// Time, bytes and calls are always there.
const LEAST_COLUMNS: usize = 5;
/// The most lines a text below the table may take.
const TEXT_LINES: usize = 5;
/// So many flows and pieces of advice are shown.
const MOST: usize = 8;

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

/// The files that took most time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// Each has a line.
    pub files: &'a [FileUse],
    /// What else is known of each stands below its line.
    pub details: bool,
}

/// The report as text, with a line end after its last line. `shown` are some of so many files in all.
pub fn render(found: &IoFound, shown: Shown<'_>, files: usize, screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let left = files.saturating_sub(shown.files.len());
    let more = (left > 0).then(|| format!("and {left} more; --rows shows more"));
    let lines = [headline(found, "weigh  ", screen.columns), table(found, shown, more, screen)];
    screen.render(&lines.concat())
}

/// The same of a recording, of which these are the files that took most time; `kept_in` is its file that has all.
pub fn render_recorded(found: &IoFound, shown: Shown<'_>, kept_in: &str, screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let left = found.uses_total.saturating_sub(shown.files.len() as u64);
    let more = (left > 0).then(|| format!("and {left} more, in {kept_in}"));
    let head = headline(found, "Files  ", screen.columns);
    screen.render(&[vec![Line::new()], head, table(found, shown, more, screen)].concat())
}

/// The same of a run whose rows could not be kept.
pub fn render_without_rows(found: &IoFound, screen: Screen) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let lost = Some("the rows of files could not be written".to_string());
    let head = headline(found, "Files  ", screen.columns);
    screen.render(&[vec![Line::new()], head, table(found, Shown::default(), lost, screen)].concat())
}

fn table(found: &IoFound, shown: Shown<'_>, more: Option<String>, screen: Screen) -> Vec<Line> {
    let width = screen.columns;
    // A head of nothing says nothing.
    let head = [Line::new(), titles(width)].into_iter().filter(|_| !shown.files.is_empty());
    let mut lines: Vec<Line> = head.collect();
    let are_devices_unseen = are_devices_unseen(found);
    for file in shown.files {
        lines.push(file_line(file, are_devices_unseen, screen));
        if shown.details {
            lines.extend(details::lines(file, screen));
        }
    }
    lines.extend(more.map(|more| Line::new().add(more, Paint::Dim)));
    lines.extend(found.rest.as_ref().map(|left| Line::new().add(rest(left), Paint::Warn)));
    lines.extend(section("who wrote what others read", found.flows.iter().map(flow), width));
    lines.extend(section("what could be better", found.advice.iter().map(advice), width));
    lines.extend(section("not seen", not_seen(found).into_iter(), width));
    lines
}

/// What is not in the numbers, or not exact in them, and why.
pub(crate) fn not_seen(found: &IoFound) -> Vec<String> {
    let beside = (found.quality != Quality::Exact)
        .then(|| format!("bytes and calls, all together, are {}", found.quality));
    let unseen = beside.into_iter().chain(less_than_exact(found));
    unseen.chain(found.notes.iter().cloned()).collect()
}

/// Numbers that are not exact: those that have the same reason together, what is not known first.
fn less_than_exact(found: &IoFound) -> Vec<String> {
    let mut reasons: BTreeMap<(Reverse<bool>, &str), Vec<&str>> = BTreeMap::new();
    for (key, trust) in &found.qualities {
        let is_unknown = trust.quality == Quality::Unavailable;
        reasons.entry((Reverse(is_unknown), &trust.reason)).or_default().push(key);
    }
    let line = |((Reverse(is_unknown), reason), keys): (&(Reverse<bool>, &str), &Vec<&str>)| {
        let quality = if *is_unknown { Quality::Unavailable } else { Quality::Estimated };
        format!("{} {quality}: {reason}", keys.join(", "))
    };
    reasons.iter().map(line).collect()
}

fn size(bytes: u64) -> String {
    show_amount(bytes as f64, Unit::Bytes)
}

fn seconds(totals: &Totals, key: &str) -> f64 {
    totals.numbers.get(key).map_or(0.0, |number| number.as_f64())
}

pub(crate) fn mapped(totals: &Totals) -> u64 {
    let mapped = totals.by_kind.get(Transfer::Mapped.name());
    mapped.map_or(0, |mapped| mapped.read_bytes + mapped.written_bytes)
}

/// Bytes that devices read and wrote.
pub(crate) fn device(totals: &Totals) -> [u64; 2] {
    let of = |key: &str| totals.numbers.get(key).map_or(0, |number| number.as_f64() as u64);
    [of("device_read_bytes"), of("device_written_bytes")]
}

/// Whether it is not seen what devices do.
pub(crate) fn are_devices_unseen(found: &IoFound) -> bool {
    is_unavailable(found, &Field::DeviceRead.key())
}

/// Whether nothing is known of these numbers.
pub(crate) fn is_unavailable(found: &IoFound, key: &str) -> bool {
    found.qualities.get(key).is_some_and(|trust| trust.quality == Quality::Unavailable)
}

fn headline(found: &IoFound, title: &'static str, width: usize) -> Vec<Line> {
    let wrapped = wrap(&sums(found), width.max(LEAST_WIDTH) - title.len(), TEXT_LINES);
    let before = |i: usize| if i == 0 { title.to_string() } else { " ".repeat(title.len()) };
    let line = |(i, text)| Line::new().add(before(i), Paint::Bold).add(text, Paint::Plain);
    wrapped.into_iter().enumerate().map(line).collect()
}

/// All files together, in a sentence.
pub(crate) fn sums(found: &IoFound) -> String {
    let (by, unseen) = (&found.totals.by_calls, found.totals.by_calls.unseen);
    let least = if found.quality == Quality::Exact { "" } else { "at least " };
    let more = found.witness.map(|witness| witness.unseen()).unwrap_or_default();
    let read = match unseen.reads {
        true => "an unknown amount read".to_string(),
        false => format!("{least}{} read by {} calls", size(by.read_bytes), by.read_calls),
    } + &by_kernel(more.read_bytes);
    let written = match unseen.writes {
        true => "an unknown amount written".to_string(),
        false => format!("{least}{} written by {}", size(by.written_bytes), by.write_calls),
    } + &by_kernel(more.written_bytes);
    let of_mapped = [Transfer::Mapped.name(), "mapped_written_bytes"];
    let trust = of_mapped.iter().find_map(|key| Some(found.qualities.get(*key)?.quality));
    let has_holes = found.qualities.contains_key("mapped_read_bytes");
    let mapped = match (trust, mapped(&found.totals)) {
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
    format!(
        "{read}, {written}{mapped}{devices}; {} in these calls, added up over all processes, in a run of {}; seen by {}{}",
        show_amount(found.totals.seconds(), Unit::Seconds),
        show_amount(found.wall_seconds, Unit::Seconds),
        found.mechanism,
        found.price.as_ref().map(price).unwrap_or_default(),
    )
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

/// How many of the columns have room beside the file's name; the last ones are given up first.
fn columns_in(width: usize) -> usize {
    let end = |count: &usize| COLUMNS[..*count].iter().map(|(_, width)| width).sum::<usize>();
    let has_room = |count: &usize| end(count) + NAME_WIDTH <= width;
    (LEAST_COLUMNS..=COLUMNS.len()).rev().find(has_room).unwrap_or(LEAST_COLUMNS)
}

fn titles(width: usize) -> Line {
    let columns = COLUMNS[..columns_in(width)].iter();
    let columns = columns.map(|(name, width)| format!("{name:>width$}"));
    Line::new().add(columns.collect::<String>(), Paint::Dim).add("  file", Paint::Dim)
}

/// By what it was known last, beside what it was known by first.
fn later_name(file: &FileUse) -> String {
    let Some(later) = &file.later_name else { return String::new() };
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_string());
    let in_same_folder = folder(later) == folder(&file.name);
    let shown = later.rsplit('/').next().filter(|_| in_same_folder).unwrap_or(later);
    format!(" (later {shown})")
}

fn file_line(file: &FileUse, are_devices_unseen: bool, screen: Screen) -> Line {
    let count = |n: u64| if n == 0 { String::new() } else { n.to_string() };
    let amount = |n: u64| if n == 0 { String::new() } else { size(n) };
    let (by, unseen) = (&file.totals.by_calls, file.totals.by_calls.unseen);
    let known = |is_unseen: bool, text: String| if is_unseen { "?".to_string() } else { text };
    let is_bound = file.moved_quality != Quality::Exact;
    let least = |text: String| match is_bound && !text.is_empty() {
        true => format!("≥ {text}"),
        false => text,
    };
    // Who does not see mapped memory does not see what it makes devices do either.
    let hidden = file.totals.by_kind.get(Transfer::Mapped.name());
    let is_hidden = hidden.is_some_and(|kind| kind.unseen.any());
    let mapped = match mapped(&file.totals) {
        0 => known(is_hidden, String::new()),
        bytes if is_hidden => format!("≥ {}", size(bytes)),
        bytes => size(bytes),
    };
    let no_devices = is_hidden || are_devices_unseen;
    let opens = file.totals.numbers.get("opens_total").map_or(0, |n| n.as_f64() as u64);
    let cells = [
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
    ];
    let columns = COLUMNS[..columns_in(screen.columns)].iter();
    let cells = cells.iter().zip(columns).map(|(text, (_, width))| format!("{text:>width$}"));
    let cells: String = cells.collect();
    let deleted = if file.is_deleted { " (deleted)" } else { "" };
    let thread = file.tid.map(|tid| format!(" thread {tid}")).unwrap_or_default();
    let sources: Vec<String> = file.sources.iter().map(ToString::to_string).collect();
    let sources = match sources.is_empty() {
        true => String::new(),
        false => format!(" by {}", sources.join("+")),
    };
    let by = format!("  {} {}{thread}{sources}", file.process, file.pid);
    let name = format!("{}{}{deleted}", file.name, later_name(file));
    let room = screen.row_columns().saturating_sub(cells.chars().count() + 2);
    let left = room.saturating_sub(by.chars().count()).max(LEAST_NAME.min(room));
    Line::new()
        .add(cells, Paint::Plain)
        .add("  ", Paint::Plain)
        .add(shorten(&harmless(&name), left), Paint::Bold)
        .add(by, Paint::Dim)
}

/// The commonest way through the file, and its share. What is neither consecutive nor strided is irregular, as the
/// advice counts it, unless it never went back.
pub(crate) fn pattern(totals: &Totals) -> String {
    let of = |kind: &str| {
        let key = |what: &str| format!("{kind}_{what}_total");
        ["reads", "writes"].iter().map(|what| seconds(totals, &key(what))).sum::<f64>()
    };
    let [on, strided, ahead, back] = ["consecutive", "strided", "sequential", "random"].map(of);
    let word = if back > 0.0 { "irregular" } else { "ahead" };
    let kinds = [(on, "on"), (strided, "strided"), (ahead + back, word)];
    let all: f64 = kinds.iter().map(|(count, _)| count).sum();
    let most = kinds.iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(count, _)| *count > 0.0);
    let share = |count: f64| percent(count as u64, all as u64);
    most.map_or_else(String::new, |(count, kind)| format!("{kind} {} %", share(*count)))
}

pub(crate) fn flow(flow: &Flow) -> String {
    let bytes = flow.bytes.map_or_else(|| "some".to_string(), size);
    let most = if flow.is_upper_bound { "up to " } else { "" };
    format!(
        "{} {} wrote, {} {} read: {most}{bytes} of {}",
        flow.writer_name, flow.writer, flow.reader_name, flow.reader, flow.name
    )
}

fn advice(advice: &Advice) -> String {
    format!("{}: {} [{}]", advice.file, advice.text, advice.rule)
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
    use super::*;
    use weigh_schema::Number;

    #[test]
    fn a_narrow_table_has_room_for_names() {
        assert_eq!(columns_in(160), COLUMNS.len());
        assert_eq!(columns_in(80), LEAST_COLUMNS);
        assert_eq!(columns_in(91), LEAST_COLUMNS + 1);
    }

    #[test]
    fn the_commonest_pattern_has_its_share() {
        let mut totals = Totals::default();
        totals.numbers.insert("consecutive_reads_total".into(), Number::Whole(3));
        totals.numbers.insert("random_writes_total".into(), Number::Whole(1));
        assert_eq!(pattern(&totals), "on 75 %");
        assert_eq!(pattern(&Totals::default()), "");
        // Half of what is read anywhere in a file lies ahead.
        let of = |ahead: u64, back: u64| {
            let mut totals = Totals::default();
            let keys = ["consecutive_reads_total", "sequential_reads_total", "random_reads_total"];
            for (key, count) in keys.into_iter().zip([1, ahead, back]) {
                totals.numbers.insert(key.into(), Number::Whole(count));
            }
            pattern(&totals)
        };
        assert_eq!(of(49, 50), "irregular 99 %");
        assert_eq!(of(99, 0), "ahead 99 %");
        // All of it is said of all of it alone.
        assert_eq!(of(9999, 0), "ahead 99 %");
    }
}
