//! Intervals that were asked for by their tokens, in words: where they are not slow, or there is nothing to
//! compare them with.

use weigh_schema::explain::{ExplainedKind, Of, Verdict};

use super::words::{grouped, seconds, title};

/// The only sentence on intervals that took no longer than others, or that there are too few others for.
pub(super) fn that_it_is_not_slow(kind: &ExplainedKind, of: Of) -> Option<String> {
    kind.asked.as_ref()?;
    let (asked, usual) = (&kind.slow, &kind.ordinary);
    let took = format!(
        "{}: {} of {} took {}",
        title(kind),
        grouped(asked.calls_total),
        of.number(kind.calls_total),
        seconds(asked.mean_seconds)
    );
    match kind.verdict {
        Verdict::TooFew => Some(format!("{took}; the others are too few to compare with")),
        Verdict::Alike => Some(format!(
            "{took}, {}: ordinary ones took {}, from {} to {}",
            how(asked.mean_seconds, usual.from_seconds, usual.to_seconds),
            seconds(usual.mean_seconds),
            seconds(usual.from_seconds),
            seconds(usual.to_seconds)
        )),
        _ => None,
    }
}

fn how(took: f64, from: f64, to: f64) -> &'static str {
    match took {
        _ if took < from => "less than is usual",
        _ if took > to => "hardly more than is usual",
        _ => "as is usual",
    }
}
