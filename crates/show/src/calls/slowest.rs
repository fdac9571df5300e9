//! A slow call in a sentence: where its time went, what was done there, and who was in its way.

use weigh_schema::Unit;
use weigh_schema::amount::{show_amount, show_number_of};
use weigh_schema::call::{Numbers, OtherEnd, RIVALS, SingleCall, asked_to_wait};
use weigh_schema::subsystem::{FOREIGN, Field, PART};

use super::shares::{LEAST_SHARE, Part, run_queue, split};
use super::words::{TEXT_LINES, about, seconds};
use super::words::{counters_in_words, in_words, key_in_words};
use crate::text::{Line, Paint, wrap};

/// A slow call in a sentence.
pub fn sentence(call: &SingleCall) -> String {
    let worth = call.time_seconds * LEAST_SHARE;
    let mut words: Vec<(f64, String)> = split(&call.parts)
        .iter()
        .map(|share| {
            let end = call.waited_at.or_else(|| OtherEnd::named(call.of.as_deref()));
            let asked = asked_to_wait(&call.call, end);
            let asked = asked.filter(|_| share.is_plain_wait());
            let what = asked.map_or_else(|| share.part.doing(share.is_wait), str::to_string);
            let done = doings(&share.part, call.parts.get(&share.part.name));
            let rival = rival(call, &share.part.name).filter(|_| share.is_rivals());
            let rival = rival.unwrap_or_default();
            (share.seconds, format!("{} {what}{done}{rival}", seconds(share.seconds)))
        })
        .collect();
    let queue = run_queue(&call.parts);
    let behind = rival(call, "sched").unwrap_or_default();
    words.push((queue, format!("{} {RUNNABLE}{behind}", seconds(queue))));
    words.retain(|(seconds, _)| *seconds >= worth && *seconds > 0.0);
    words.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words: Vec<String> = words.into_iter().map(|(_, words)| words).collect();
    let result =
        if call.result < 0 { format!(" (failed: {})", call.result) } else { String::new() };
    let counted = match counters_in_words(&call.counters).join(", ") {
        none if none.is_empty() => none,
        counted => format!("; {counted}"),
    };
    let title = about(&call.call, call.of.as_deref());
    format!("{title} {}{result}: {}{counted}", seconds(call.time_seconds), words.join(", "))
}

/// What waiting for a CPU is, in a sentence.
pub(crate) const RUNNABLE: &str = "runnable while others had the CPU";

/// A rival that is of the same process.
pub(crate) const OWN: &str = "another thread of its own";

/// The rival there: ", most behind ffmpeg (PID 4711)".
fn rival(call: &SingleCall, subsystem: &str) -> Option<String> {
    let kind = RIVALS.iter().find(|kind| kind.subsystem == subsystem)?;
    let rival = call.rivals.get(kind.name)?;
    let who = match rival.pid == call.pid {
        true => OWN.to_string(),
        false => format!("{} (PID {})", rival.name, rival.pid),
    };
    Some(format!(", {} {who}", kind.words))
}

/// What was done there, in brackets.
fn doings(part: &Part, numbers: Option<&Numbers>) -> String {
    let Some(numbers) = numbers else { return String::new() };
    let foreign = foreign(numbers);
    let words: Vec<String> = match part.known {
        Some(known) => {
            let is_said = |field: &Field| foreign.is_some() && FOREIGN.contains(&&*field.key());
            let fields = known.fields.iter();
            let fields = fields.filter(|f| f.unit != Unit::Seconds && !is_said(f));
            fields.filter_map(|field| Some(in_words(field, numbers.get(&field.key())?))).collect()
        }
        None => {
            let is_of_all = |key: &str| PART.iter().any(|field| field.key() == key);
            let own = numbers.iter().filter(|(key, _)| !is_of_all(key));
            own.map(|(key, number)| key_in_words(key, number)).collect()
        }
    };
    let foreign = foreign.unwrap_or_default();
    if words.is_empty() { String::new() } else { format!(" ({}{foreign})", words.join(", ")) }
}

/// `; 2 of 4 requests, with 94 kB, caused by nobody followed`.
fn foreign(numbers: &Numbers) -> Option<String> {
    let amount = |key: &str, unit| Some(show_amount(numbers.get(key)?.as_f64(), unit));
    let (of, bytes) = (amount(FOREIGN[0], Unit::Count)?, amount(FOREIGN[1], Unit::Bytes)?);
    let all = numbers.get("requests_total")?.as_f64() as u64;
    let all = show_number_of(all, "request", "requests");
    Some(format!("; {of} of {all}, with {bytes}, caused by nobody followed"))
}

/// Before what goes on from the line above.
const INDENT: &str = "      ";

pub(super) fn slow_lines(call: &SingleCall, width: usize) -> Vec<Line> {
    let place = format!("at {}, thread {}: ", seconds(call.at_seconds), call.tid);
    let lines = wrap(&(place + &sentence(call)), width.saturating_sub(INDENT.len()), TEXT_LINES);
    let lines = lines.into_iter().enumerate();
    let indent = |i: usize| if i == 0 { "  " } else { INDENT };
    lines
        .map(|(i, text)| Line::new().add(indent(i), Paint::Plain).add(text, Paint::Plain))
        .collect()
}
