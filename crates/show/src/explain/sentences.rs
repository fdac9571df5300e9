//! What there is to say of a report and its kinds of calls, a sentence each.

use weigh_schema::amount::show_number_of;
use weigh_schema::call::{OtherEnd, RIVALS, RivalKind, asked_to_wait};
use weigh_schema::explain::{
    Difference, Doing, ExplainReport, ExplainedKind, Of, RivalShare, Verdict, part_named,
};

use super::words::{NAMED_MOST, compared, grouped, named, seconds, title};
use super::{counters, outcomes, requested_intervals};
use crate::calls::{OWN, RUNNABLE};

/// Slow calls that are fewer are examples.
const FEW: u64 = 3;

/// Kinds of calls that are listed by name, of those that nothing is said of.
pub(super) const LISTED_MOST: usize = 8;

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
pub(super) fn tokens(report: &ExplainReport) -> String {
    let asked = report.kinds.iter().filter_map(|kind| kind.asked.as_ref());
    asked.map(ToString::to_string).collect::<Vec<_>>().join(", ")
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

/// What the program called the slowest.
fn slow_tokens(kind: &ExplainedKind) -> Option<String> {
    let tokens: Vec<String> = kind.slow_tokens.iter().map(u64::to_string).collect();
    let tokens = (!tokens.is_empty()).then(|| tokens.join(", "))?;
    Some(format!("tokens of the slowest: {tokens}"))
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
