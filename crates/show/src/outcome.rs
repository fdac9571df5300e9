//! How a job ended, in words.
//!
//! Reads the summary; the table's first line and the page's banner say the same.

use serde::{Deserialize, Serialize};
use weigh_schema::amount::{show_amount, show_count};
use weigh_schema::metric_name;
use weigh_schema::number_names::signal_name;
use weigh_schema::printable::printable;
use weigh_schema::summary::{Exit, ExitKind, LimitOutcome, Sender, SenderKind, Summary};
use weigh_schema::{MetricKind, Number, Unit, Value, metric};

use crate::text::{Paint, digits};

/// Whether an outcome is what one hopes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// It went well.
    Good,
    /// It went well as far as is known; something is missing.
    Open,
    /// It went wrong.
    Bad,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// A few words, without a full stop.
    pub words: String,
    /// Whether it is what one hopes for.
    pub tone: Tone,
}

/// The same with its colour; a job that runs has no end yet.
pub(crate) fn headline(summary: &Summary, is_running: bool) -> (String, Paint) {
    let outcome = outcome(summary);
    let paint = match outcome.tone {
        Tone::Good => Paint::Good,
        Tone::Open => Paint::Warn,
        Tone::Bad => Paint::Bad,
    };
    let words = match (is_running, &summary.exit) {
        (true, None) => outcome.words.replacen("no end recorded", "still running", 1),
        _ => outcome.words,
    };
    (words, paint)
}

/// How the job of this summary ended, and after how long.
pub fn outcome(summary: &Summary) -> Outcome {
    let wall = summary.metrics.get(metric_name::wall_seconds).and_then(Value::number);
    let took = wall.map(|s| show_amount(s, Unit::Seconds));
    let (words, tone) = match &summary.exit {
        None => {
            let seen = took.map(|took| format!("; {took} of it were seen")).unwrap_or_default();
            return Outcome { words: format!("no end recorded{seen}"), tone: Tone::Open };
        }
        Some(exit) => match exit.kind {
            ExitKind::Exited => match exit.code {
                Some(0) => ("exited 0".to_string(), Tone::Good),
                Some(code) => (format!("exited {code}"), Tone::Bad),
                None => ("exited".to_string(), Tone::Open),
            },
            ExitKind::Signaled => (ended_by_signal(exit), Tone::Bad),
            ExitKind::Limit => (ended_by_limit(exit), Tone::Bad),
            ExitKind::Interrupted => {
                ("measuring was stopped before the job's end,".to_string(), Tone::Open)
            }
            ExitKind::Detached => ("left running".to_string(), Tone::Good),
            ExitKind::FailedToStart => {
                let why = exit.error.as_ref().map(|e| format!(": {e}")).unwrap_or_default();
                return Outcome { words: format!("could not be started{why}"), tone: Tone::Bad };
            }
        },
    };
    let words = took.map(|took| format!("{words} after {took}")).unwrap_or(words.clone());
    Outcome { words, tone }
}

fn ended_by_signal(exit: &Exit) -> String {
    let signal = exit.signal.map_or_else(|| "a signal".to_string(), show_signal);
    match &exit.sender {
        Some(sender) => format!("ended by {signal} from {}", show_sender(sender)),
        None => format!("ended by {signal}"),
    }
}

/// Who sent a signal, for people: `bash (PID 7, user 0)`.
fn show_sender(sender: &Sender) -> String {
    let who = match (sender.kind, &sender.name) {
        (SenderKind::Kernel, _) => return "the kernel".to_string(),
        (SenderKind::Itself, _) => return "itself".to_string(),
        (_, Some(name)) => printable(name).into_owned(),
        (_, None) => "a process".to_string(),
    };
    let of_job = (sender.kind == SenderKind::Job).then(|| "of the job".to_string());
    let pid = sender.pid.map(|pid| format!("PID {pid}"));
    let user = sender.uid.map(|uid| format!("user {uid}"));
    let known: Vec<String> = of_job.into_iter().chain(pid).chain(user).collect();
    format!("{who} ({})", known.join(", "))
}

fn ended_by_limit(exit: &Exit) -> String {
    match &exit.limit {
        Some(name) => format!("ended by the limit on {name}"),
        None => "ended by a limit".to_string(),
    }
}

/// A signal for people: `SIGKILL (9)`.
pub fn show_signal(signal: i32) -> String {
    match signal_name(signal) {
        Some(name) => format!("{name} ({signal})"),
        None => format!("signal {signal}"),
    }
}

/// What became of a limit, in one sentence without a full stop.
pub fn limit_words(limit: &LimitOutcome) -> String {
    let (allowed, observed) = allowed_and_observed(limit);
    let looked = format!("enforced by {}", limit.enforced_by);
    match (limit.exceeded, observed) {
        (true, observed) => {
            let seen = observed.map(|o| format!(": {o} observed")).unwrap_or_default();
            let when = limit
                .at_seconds
                .map(|s| format!(" after {}", show_amount(s, Unit::Seconds)))
                .unwrap_or_default();
            format!("limit of {allowed} exceeded{seen}{when}, {looked}")
        }
        (false, Some(observed)) => match used(limit) {
            Some(percent) => format!("{observed} of {allowed} ({percent:.0} %), {looked}"),
            None => format!("{observed} of {allowed}, {looked}"),
        },
        (false, None) => format!("value not known, limit {allowed}, {looked}"),
    }
}

/// The same in parts, the most wanted first.
pub(crate) fn limit_in_short(limit: &LimitOutcome, is_terminal: bool) -> Vec<String> {
    let (allowed, observed) = allowed_and_observed(limit);
    let plain = |text: String| digits(text, is_terminal);
    let allowed = plain(allowed);
    let observed = observed.map(plain);
    let by = format!("by {}", limit.enforced_by);
    if limit.exceeded {
        let seen = observed.map(|seen| format!(": {seen}"));
        let when = limit.at_seconds.map(|s| format!("after {}", show_amount(s, Unit::Seconds)));
        let head = format!("{} passed {allowed}", limit.metric);
        return std::iter::once(head).chain(seen).chain(when).chain([by]).collect();
    }
    let seen = observed.unwrap_or_else(|| "nothing known".to_string());
    let head = format!("{}: {seen} of {allowed}", limit.metric);
    let percent = used(limit).map(|percent| format!("{percent:.0} %"));
    std::iter::once(head).chain(percent).chain([by]).collect()
}

/// The limit and the value seen, for people; in whole base units where the rounded texts would
/// make different numbers look the same.
fn allowed_and_observed(limit: &LimitOutcome) -> (String, Option<String>) {
    let at_least = if is_floor(limit) { "at least " } else { "" };
    let allowed = format!("{at_least}{}", limit.allowed());
    let Some(number) = limit.observed else { return (allowed, None) };
    let observed = limit.show(number);
    let is_size = metric(&limit.metric).is_some_and(|m| m.unit == Unit::Bytes);
    let is_same = observed == limit.show(limit.limit);
    if is_same && number != limit.limit && is_size {
        let whole = |n: Number| format!("{} B", show_count(n.as_f64()));
        return (format!("{at_least}{}", whole(limit.limit)), Some(whole(number)));
    }
    (allowed, Some(observed))
}

fn used(limit: &LimitOutcome) -> Option<f64> {
    let allowed = limit.limit.as_f64();
    let observed = limit.observed?.as_f64();
    (allowed > 0.0 && !is_floor(limit)).then(|| 100.0 * observed / allowed)
}

/// Whether the limit is the least that is allowed.
fn is_floor(limit: &LimitOutcome) -> bool {
    metric(&limit.metric).is_some_and(|metric| metric.kind == MetricKind::Floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        assert_eq!(show_signal(9), "SIGKILL (9)");
        assert_eq!(show_signal(31), "SIGSYS (31)");
        assert_eq!(show_signal(34), "signal 34");
        assert_eq!(show_signal(0), "signal 0");
        assert_eq!(show_signal(-1), "signal -1");
    }
}
