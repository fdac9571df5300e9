//! What probes of functions at the borders of parts there were, in words.

use weigh_schema::amount::show_count;
use weigh_schema::call::{BorderProbes, CallsReport, ChosenBy, ProbedBy};

use super::words::{TEXT_LINES, seconds};
use crate::text::{Line, Paint, wrap};

/// The lines below the table; none where no such probes were asked for.
pub fn lines(report: &CallsReport, width: usize) -> Vec<Line> {
    let texts = texts(report);
    if texts.is_empty() {
        return Vec::new();
    }
    let wrapped = texts.iter().flat_map(|text| wrap(text, width, TEXT_LINES));
    let lines = wrapped.map(|text| Line::new().add(text, Paint::Plain));
    std::iter::once(Line::new()).chain(lines).collect()
}

/// How many functions are probed for each part, by whose choice, and what that costs.
fn texts(report: &CallsReport) -> Vec<String> {
    let Some(functions) = &report.functions else { return Vec::new() };
    let with_borders = report.subsystems.iter().filter_map(|s| Some((&s.name, s.functions?)));
    let parts: Vec<_> = with_borders.collect();
    let of = |(name, part): &(&String, BorderProbes)| {
        format!(
            "{name} {}, entered {} times",
            show_count(part.probed as f64),
            show_count(part.hits_total as f64)
        )
    };
    let list: Vec<String> = parts.iter().map(of).collect();
    let by_list = parts.iter().any(|(_, part)| part.chosen_by == ChosenBy::List);
    let chooser = if by_list { "a list that weigh brings along" } else { "the kernel's image" };
    let way = match functions.by {
        ProbedBy::KprobeMulti => "all at once",
        ProbedBy::Kprobe => "one by one",
    };
    let mut texts = vec![format!(
        "functions at borders, chosen by {chooser}: {}; attached {way} in {}, let go of in {}",
        list.join("; "),
        seconds(functions.attach_seconds),
        seconds(functions.detach_seconds),
    )];
    if let Some(cost) = functions.cost {
        let hits: u64 = parts.iter().map(|(_, part)| part.hits_total).sum();
        texts.push(format!(
            "a probe, its entry and its return, costs {} a thread that is followed and {} any other, measured \
             here: about {} of the time above",
            seconds(cost.followed_seconds),
            seconds(cost.others_seconds),
            seconds(cost.followed_seconds * hits as f64),
        ));
    }
    texts.extend(functions.why.iter().map(|why| format!("not by the kernel's image: {why}")));
    texts
}
