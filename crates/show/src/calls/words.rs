//! Calls and their numbers in words.

use std::collections::BTreeMap;

use weigh_schema::amount::{show_amount, show_number_of};
use weigh_schema::call::{CallKind, Numbers};
use weigh_schema::subsystem::{BY_PART, COUNTED_RATIO, CPU_COUNTERS, CpuCounter, Field, LATER};
use weigh_schema::{Number, Unit};

use super::shares::LEAST_SHARE;
use crate::text::{Line, Paint, wrap};

/// The most lines a text below the table may take.
pub(super) const TEXT_LINES: usize = 4;

pub(super) fn seconds(value: f64) -> String {
    show_amount(value, Unit::Seconds)
}

pub(super) fn about(call: &str, of: Option<&str>) -> String {
    match of {
        Some(of) => format!("{call} ({of})"),
        None => call.to_string(),
    }
}

/// A number in words: `4 requests`, `266 kB transferred`, `3.1 ms queue`.
pub(super) fn in_words(field: &Field, number: &Number) -> String {
    let amount = show_amount(number.as_f64(), field.unit);
    let is_one = field.unit == Unit::Count && number.as_f64() == 1.0;
    format!("{amount} {}", if is_one { field.word() } else { field.words() })
}

/// The same for a number of which nothing but its key is known.
pub(super) fn key_in_words(key: &str, number: &Number) -> String {
    let (name, unit) = match key.strip_suffix("_seconds") {
        Some(name) => (name, Unit::Seconds),
        None => {
            let name = key.trim_end_matches("_total");
            (name, if name.ends_with("bytes") { Unit::Bytes } else { Unit::Count })
        }
    };
    format!("{} {}", show_amount(number.as_f64(), unit), name.replace('_', " "))
}

pub(super) fn later(kind: &CallKind, width: usize) -> Vec<Line> {
    let is_known = |key: &str| LATER.iter().any(|field| field.key() == key);
    let known =
        LATER.iter().filter_map(|field| Some(in_words(field, kind.later.get(&field.key())?)));
    let own = kind.later.iter().filter(|(key, _)| !is_known(key));
    let own = own.map(|(key, number)| key_in_words(key, number));
    let words: Vec<String> = known.chain(own).collect();
    if words.is_empty() {
        return Vec::new();
    }
    below(&format!("later{}: {}", of_the_cost(kind), words.join(", ")), width, Paint::Dim)
}

/// How much of what a kind of calls cost came later, if it can be told from nothing.
fn of_the_cost(kind: &CallKind) -> String {
    match kind.later_ratio.filter(|ratio| *ratio >= LEAST_SHARE) {
        Some(ratio) => format!(", {:.0} % of the cost", ratio * 100.0),
        None => String::new(),
    }
}

/// What the CPU counted meanwhile, in words.
pub(super) fn counters_in_words(counters: &Numbers) -> Vec<String> {
    let of = |counter: &CpuCounter| counters.get(counter.key).map(|number| number.as_f64());
    let words = |counter: &CpuCounter| {
        Some(format!("{} {}", show_amount(of(counter)?, Unit::Count), counter.name))
    };
    let mut words: Vec<String> = CPU_COUNTERS.iter().filter_map(words).collect();
    let (cycles, instructions) = (of(&CPU_COUNTERS[0]), of(&CPU_COUNTERS[1]));
    if let (Some(cycles), Some(instructions)) = (cycles.filter(|n| *n > 0.0), instructions) {
        words.push(format!("{:.2} instructions per cycle", instructions / cycles));
    }
    if let Some(ratio) = counters.get(COUNTED_RATIO).filter(|_| !words.is_empty()) {
        words.push(format!("estimated: counted {:.0} % of the time", 100.0 * ratio.as_f64()));
    }
    words
}

pub(super) fn counted(counters: &Numbers, calls: u64, width: usize) -> Vec<Line> {
    let mut words = counters_in_words(counters);
    let Some(first) = words.first_mut() else { return Vec::new() };
    let count = CPU_COUNTERS.iter().find_map(|counter| counters.get(counter.key));
    let each = count.map_or(0.0, |count| count.as_f64() / calls.max(1) as f64);
    first.push_str(&format!(" ({} a call)", show_amount(each.round(), Unit::Count)));
    below(&format!("counted: {}", words.join(", ")), width, Paint::Dim)
}

/// What the code of each part did itself.
pub(super) fn by_part(parts: &BTreeMap<String, Numbers>, width: usize) -> Vec<Line> {
    let words = |(part, numbers): (&String, &Numbers)| {
        let known = BY_PART.iter().filter_map(|f| Some(in_words(f, numbers.get(&f.key())?)));
        format!("{part} {}", known.collect::<Vec<_>>().join(", "))
    };
    if parts.is_empty() {
        return Vec::new();
    }
    let words: Vec<String> = parts.iter().map(words).collect();
    below(&format!("by part: {}", words.join("; ")), width, Paint::Dim)
}

/// How long queues were, how the connection was that the calls sent by last, and how often their threads were moved.
pub(super) fn states(kind: &CallKind, width: usize) -> Vec<Line> {
    let number = |part: &str, key: &str| Some(kind.parts.get(part)?.get(key)?.as_f64());
    let queue = |part, [all, came, most]: [&str; 3]| {
        let mean = number(part, all)? / number(part, came).filter(|came| *came > 0.0)?;
        Some(format!("{part} queue {mean:.1} on average, {} at most", number(part, most)?))
    };
    let connection = || {
        let srtt = seconds(number("tcp", "srtt_seconds")?);
        let window = number("tcp", "cwnd")?;
        let unacked = number("tcp", "unacked").unwrap_or(0.0);
        Some(format!("connection at last: srtt {srtt}, cwnd {window}, unacked {unacked}"))
    };
    let moved = number("sched", "migrations_total").filter(|moved| *moved > 0.0);
    let times = |moved| show_number_of(moved as u64, "time", "times");
    let moved = moved.map(|moved| format!("moved to another CPU {}", times(moved)));
    let words: Vec<String> = [
        connection(),
        queue("block", ["in_flight_total", "issued_total", "in_flight_most"]),
        queue("qdisc", ["in_queue_total", "packets_total", "in_queue_most"]),
        moved,
    ]
    .into_iter()
    .flatten()
    .collect();
    match words.is_empty() {
        true => Vec::new(),
        false => below(&words.join("; "), width, Paint::Dim),
    }
}

/// Lines below a row.
pub(super) fn below(text: &str, width: usize, paint: Paint) -> Vec<Line> {
    let lines = wrap(text, width.saturating_sub(4), TEXT_LINES).into_iter();
    lines.map(|text| Line::new().add("    ", Paint::Plain).add(text, paint)).collect()
}
