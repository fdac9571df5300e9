//! What `weigh explain` found, as sentences with figures, and as a page.

mod counters;
mod outcomes;
pub mod page;
mod requested_intervals;

use weigh_schema::Unit;
use weigh_schema::amount::{show_amount, show_number_of};
use weigh_schema::call::{OtherEnd, RIVALS, RivalKind, asked_to_wait};
use weigh_schema::explain::part_named;
use weigh_schema::explain::{
    Difference, Doing, ExplainReport, ExplainedKind, Of, RivalShare, Verdict,
};

use crate::calls::{OWN, RUNNABLE};
use crate::text::{Line, Paint, more_rows, wrap};

/// Differences below this share of the whole difference are not named.
const LEAST_SHARE: f64 = 0.05;

/// The most differences, and rivals, that are named for a kind of calls.
const NAMED_MOST: usize = 4;

/// The most lines a text may take.
const TEXT_LINES: usize = 8;

/// Slow calls that are fewer are examples.
const FEW: u64 = 3;

/// Kinds of calls that are listed by name, of those that nothing is said of.
const LISTED_MOST: usize = 8;

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

fn paragraph(text: &str, width: usize, indent: &str, paint: Paint) -> Vec<Line> {
    let wrapped = wrap(text, width.saturating_sub(indent.len()), TEXT_LINES);
    let line = |text| Line::new().add(indent, Paint::Plain).add(text, paint);
    wrapped.into_iter().map(line).collect()
}

fn seconds(value: f64) -> String {
    show_amount(value, Unit::Seconds)
}

fn headline(report: &ExplainReport) -> Line {
    let of =
        if report.command.is_empty() { String::new() } else { format!(" of {}", report.command) };
    Line::new()
        .add("weigh  ", Paint::Bold)
        .add(format!("{}{of}", report.of.number(report.calls_total)), Paint::Plain)
}

fn grouped(number: u64) -> String {
    show_amount(number as f64, Unit::Count)
}

/// What is slow, and what is ordinary.
pub fn definitions(report: &ExplainReport) -> String {
    match &report.slow {
        Some(slow) => format!(
            "slow: {slow}; ordinary, in brackets: those between the quartiles of their kind"
        ),
        None => format!(
            "asked for: {}; ordinary, in brackets: those between the quartiles of all others",
            tokens(report)
        ),
    }
}

/// Of which tokens intervals were asked for.
fn tokens(report: &ExplainReport) -> String {
    let asked = report.kinds.iter().filter_map(|kind| kind.asked.as_ref());
    asked.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn is_told(kind: &ExplainedKind) -> bool {
    kind.asked.is_some()
        || matches!(kind.verdict, Verdict::Differ | Verdict::Alike | Verdict::AllSlow)
}

/// The kind, and what it is about.
pub fn title(kind: &ExplainedKind) -> String {
    if let Some(asked) = &kind.asked {
        return asked.to_string();
    }
    match &kind.of {
        Some(of) => format!("{} ({of})", kind.call),
        None => kind.call.clone(),
    }
}

/// What there is to say of one kind of calls: the first is the whole, each other one a part of it.
pub fn sentences(kind: &ExplainedKind, of: Of) -> Vec<String> {
    let title = title(kind);
    let (slow, usual) = (&kind.slow, &kind.ordinary);
    let (calls, median) = (of.number(kind.calls_total), seconds(kind.median_seconds));
    if let Some(sentence) = requested_intervals::that_it_is_not_slow(kind, of) {
        return vec![sentence];
    }
    match kind.verdict {
        Verdict::TooFew => vec![format!("{title}: {calls}, too few to compare")],
        Verdict::NoneSlow => {
            vec![format!("{title}: none of {calls} was slow; half took {median} or less")]
        }
        Verdict::AllSlow => vec![format!(
            "{title}: most of {calls} took so long, half of them {median} or more; there is \
             nothing to compare the slow ones with"
        )],
        Verdict::Alike => vec![format!(
            "{title}: {} of {calls} slow, with {} hardly slower than the ordinary ones with {}",
            grouped(slow.calls_total),
            seconds(slow.mean_seconds),
            seconds(usual.mean_seconds),
        )],
        Verdict::Differ => {
            let few = match slow.calls_total < FEW && kind.asked.is_none() {
                true => "; so few are examples, not a rule",
                false => "",
            };
            let whole = format!(
                "{title}: {} of {calls} took {} ({}){few}",
                grouped(slow.calls_total),
                seconds(slow.mean_seconds),
                seconds(usual.mean_seconds),
            );
            let rivals = kind.rivals.iter().take(NAMED_MOST).filter_map(|r| met(r, kind));
            let did = outcomes::moved(kind).into_iter().chain(outcomes::outcome(kind));
            let causes = did.chain(contributions(kind)).chain(counters::of_other_parts(kind));
            let causes = causes.chain(counters::foreign(kind)).chain(rivals);
            let afterwards = counters::later(kind).into_iter().chain(counters::still_open(kind));
            let causes = causes.chain(afterwards);
            std::iter::once(whole).chain(causes).chain(slow_tokens(kind)).collect()
        }
    }
}

/// What those are called that are compared with ordinary ones.
fn compared(kind: &ExplainedKind) -> &'static str {
    if kind.asked.is_some() { "asked ones" } else { "slow ones" }
}

/// What the program called the slowest.
fn slow_tokens(kind: &ExplainedKind) -> Option<String> {
    let tokens: Vec<String> = kind.slow_tokens.iter().map(u64::to_string).collect();
    let tokens = (!tokens.is_empty()).then(|| tokens.join(", "))?;
    Some(format!("tokens of the slowest: {tokens}"))
}

/// Where the slow ones spent more time, the greatest first: what is named of it.
fn named(kind: &ExplainedKind) -> impl Iterator<Item = &Difference> {
    let whole = kind.slow.mean_seconds - kind.ordinary.mean_seconds;
    let worth = move |difference: &&Difference| difference.more_seconds >= whole * LEAST_SHARE;
    kind.differences.iter().filter(worth).take(NAMED_MOST)
}

/// The same in words; what differs beside the time stands with a part's first.
fn contributions(kind: &ExplainedKind) -> impl Iterator<Item = String> {
    let is_first = move |place: usize, difference: &Difference| {
        named(kind).take(place).all(|other| other.subsystem != difference.subsystem)
    };
    named(kind).enumerate().filter_map(move |(place, difference)| {
        let subsystem = part_named(&difference.subsystem)?;
        let what = match difference.doing {
            Doing::Busy => subsystem.busy,
            Doing::Waiting => asked_to_wait(&kind.call, OtherEnd::named(kind.of.as_deref()))
                .filter(|_| subsystem.name == "sched")
                .unwrap_or(subsystem.waits),
            Doing::Runnable => RUNNABLE,
        };
        let counters = match is_first(place, difference) {
            true => counters::beside(kind, &difference.subsystem),
            false => String::new(),
        };
        Some(format!("{} more {what}{counters}", seconds(difference.more_seconds)))
    })
}

/// `2 of 3 slow ones waited for a CPU behind ffmpeg (PID 4711)`.
fn met(rival: &RivalShare, kind: &ExplainedKind) -> Option<String> {
    let RivalKind { happened, .. } = RIVALS.iter().find(|k| k.name == rival.kind)?;
    let who = match (rival.is_own, rival.pid) {
        (true, _) => OWN.to_string(),
        (false, Some(pid)) => format!("{} (PID {pid})", rival.name),
        (false, None) => format!("{} (several processes)", rival.name),
    };
    let (slow, ordinary) = (grouped(rival.slow_total), grouped(rival.ordinary_total));
    Some(format!(
        "{slow} of {} {} {happened} {who}, and {ordinary} of {} ordinary ones",
        grouped(kind.slow.calls_total),
        compared(kind),
        grouped(kind.ordinary.calls_total)
    ))
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

/// What is not known of any call, with the reason: `not known, for …: block_foreign_bytes_total`.
fn unavailable(report: &ExplainReport) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for number in &report.unavailable {
        match by_reason.iter_mut().find(|(reason, _)| *reason == number.reason) {
            Some((_, names)) => names.push(&number.name),
            None => by_reason.push((&number.reason, vec![&number.name])),
        }
    }
    let text = |(reason, mut names): (&str, Vec<&str>)| {
        let more = names.len().saturating_sub(LISTED_MOST);
        names.truncate(LISTED_MOST);
        let more =
            if more > 0 { format!(", and {more} more (--json names them)") } else { String::new() };
        format!("not known, for {reason}: {}{more}", names.join(", "))
    };
    by_reason.into_iter().map(text).collect()
}

/// What may make the rest wrong.
pub fn warnings(report: &ExplainReport) -> Vec<String> {
    let calls = |number: u64| Of::Call.number(number);
    let mut texts = Vec::new();
    if report.untold_total > 0 {
        texts.push(format!(
            "not in the file: {} came faster than weigh reads",
            calls(report.untold_total)
        ));
    }
    if report.lost_total > 0 {
        texts.push(format!(
            "lost: {}, or bits of what calls left behind, found no room in the kernel side's tables: fewer rows \
             (`weigh calls --by call`), fewer parts (`--subsystems`), or a shorter time (`--for`) need less of it",
            calls(report.lost_total)
        ));
    }
    if report.untold_later_total > 0 {
        texts.push(format!(
            "missing of what calls caused later: {} came faster than weigh reads",
            show_number_of(report.untold_later_total, "bit", "bits")
        ));
    }
    if report.unknown_later_total > 0 {
        texts.push(format!(
            "of {} it is not known what came later: missing bits may belong there",
            calls(report.unknown_later_total)
        ));
    }
    if report.merged_later_total > 0 {
        texts.push(format!(
            "of {} what came later stands with another call of that kind: there was no room for each (see \
             `weigh explain` in the manual)",
            calls(report.merged_later_total)
        ));
    }
    texts.extend(unavailable(report));
    if !report.unmeasured.is_empty() {
        texts.push(format!(
            "not looked into, so that their time is in the remainder: {}",
            report.unmeasured.join(", ")
        ));
    }
    texts
}
