//! What `weigh explain --phase` found, as text: what there is more of inside, what less, what is alike, and what cannot be told.

use weigh_schema::amount::{show_amount, show_number_of, show_seconds};
use weigh_schema::explain::{PhaseResource, PhaseUsage, PhaseVerdict, ResourceKind};
use weigh_schema::{Quality, Unit};

use super::words::paragraph;
use crate::text::{Line, Paint};

/// The columns of a number.
const COLUMN: usize = 13;
/// The column of the share.
const SHARE: usize = 23;

/// The report as text, with a line end after its last line.
pub fn render(report: &PhaseUsage, width: usize, color: bool) -> String {
    let mut lines = vec![headline(report)];
    lines.extend(paragraph(&definition(report), width, "", Paint::Dim));
    let of = |verdict: PhaseVerdict| {
        report.resources.iter().filter(move |resource| resource.verdict == verdict)
    };
    for (verdict, title) in [(PhaseVerdict::More, "more"), (PhaseVerdict::Less, "less")] {
        if of(verdict).next().is_none() {
            continue;
        }
        lines.extend([Line::new(), heading(title)]);
        lines.extend(of(verdict).map(row));
    }
    if of(PhaseVerdict::More).chain(of(PhaseVerdict::Less)).next().is_none() {
        lines.push(Line::new());
        lines.extend(paragraph(
            "Nothing is known to move with this phase.",
            width,
            "",
            Paint::Plain,
        ));
    }
    for (verdict, title) in [
        (PhaseVerdict::Alike, "the same inside and outside"),
        (PhaseVerdict::Little, "next to nothing in the whole run"),
    ] {
        let names: Vec<&str> = of(verdict).map(|resource| resource.metric.as_str()).collect();
        if !names.is_empty() {
            lines.push(Line::new());
            let text = format!("{title}: {}", names.join(", "));
            lines.extend(paragraph(&text, width, "", Paint::Dim));
        }
    }
    for text in untold(report) {
        lines.push(Line::new());
        lines.extend(paragraph(&text, width, "", Paint::Warn));
    }
    lines.iter().map(|line| line.render(width, color) + "\n").collect()
}

fn headline(report: &PhaseUsage) -> Line {
    let of =
        if report.command.is_empty() { String::new() } else { format!(" of {}", report.command) };
    Line::new().add("weigh  ", Paint::Bold).add(format!("phase {}{of}", report.phase), Paint::Plain)
}

fn definition(report: &PhaseUsage) -> String {
    let times = show_number_of(report.phases_total, "time", "times");
    let [least, most] = report.interval_seconds.map(show_seconds);
    let interval = if least == most { least } else { format!("{least} to {most}") };
    let share = match report.run_seconds > 0.0 {
        true => format!(" ({:.1} %)", 100.0 * report.inside_seconds / report.run_seconds),
        false => String::new(),
    };
    let threads = match report.threads_total {
        0 | 1 => String::new(),
        threads => format!(" Inside is where at least one of its {threads} threads is."),
    };
    format!(
        "{times}, {} each at most: {} of {}{share}. Sampled every {interval}; rates are means over sampling intervals that lie inside, or outside.{threads}",
        show_seconds(report.longest_seconds),
        show_seconds(report.inside_seconds),
        show_seconds(report.run_seconds),
    )
}

fn heading(title: &str) -> Line {
    let text = format!("{:>COLUMN$}{:>COLUMN$}{:>SHARE$}  ", "inside", "outside", "of the total");
    Line::new().add(text, Paint::Dim).add(format!("{title} inside"), Paint::Bold)
}

fn row(resource: &PhaseResource) -> Line {
    let is_exact = resource.quality == Quality::Exact;
    let value = |value: Option<f64>| {
        let mark = if is_exact { "" } else { "~" };
        value.map_or("-".to_string(), |value| format!("{mark}{}", show_value(value, resource)))
    };
    let [inside, outside] = [resource.inside, resource.outside].map(value);
    let text = format!(
        "{inside:>COLUMN$}{outside:>COLUMN$}{:>SHARE$}",
        share(resource).unwrap_or_default()
    );
    Line::new()
        .add(text, Paint::Plain)
        .add(format!("  {}", resource.metric), Paint::Plain)
        .add(format!("  {}", resource.help), Paint::Dim)
}

fn show_value(value: f64, resource: &PhaseResource) -> String {
    match (resource.kind, resource.unit) {
        (ResourceKind::Level, unit) => show_amount(value, unit),
        (ResourceKind::Rate, Unit::Count) if value < 100.0 => format!("{value:.1}/s"),
        (ResourceKind::Rate, Unit::Seconds) => format!("{value:.2} s/s"),
        (ResourceKind::Rate, unit) => format!("{}/s", show_amount(value, unit)),
    }
}

/// How much of the run's total falls into the phase: between two bounds, where these differ.
fn share(resource: &PhaseResource) -> Option<String> {
    let total = resource.total.filter(|total| *total > 0.0)?;
    let least = (100.0 * resource.inside_at_least? / total).floor();
    let most = (100.0 * resource.inside_at_most? / total).ceil();
    let of = show_amount(total, resource.unit);
    Some(match most - least <= 1.0 {
        true => format!("{:.0} % of {of}", 100.0 * resource.inside_estimate? / total),
        false => format!("{least:.0}-{most:.0} % of {of}"),
    })
}

/// What cannot be told, a text for each reason.
fn untold(report: &PhaseUsage) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    let unknown =
        report.resources.iter().filter(|resource| resource.verdict == PhaseVerdict::Unknown);
    for resource in unknown {
        let reason = resource.reason.as_deref().unwrap_or("not known");
        let name = match bound(resource) {
            Some(bound) => format!("{} ({bound})", resource.metric),
            None => resource.metric.clone(),
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let text = |(reason, names): (&str, Vec<String>)| {
        format!("not told, for {reason}: {}", names.join(", "))
    };
    reasons.into_iter().map(text).collect()
}

/// What is certain of a resource that has no rate.
fn bound(resource: &PhaseResource) -> Option<String> {
    let (total, most) = (resource.total?, resource.inside_at_most?);
    let [total, most] = [total, most].map(|value| show_amount(value, resource.unit));
    Some(format!("{most} of {total} at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(metric: &str, verdict: PhaseVerdict, inside: Option<f64>) -> PhaseResource {
        PhaseResource {
            metric: metric.into(),
            series: metric.into(),
            help: "bytes written".into(),
            unit: Unit::Bytes,
            kind: ResourceKind::Rate,
            verdict,
            inside,
            outside: Some(0.0),
            difference: inside,
            contrast: inside.map(|_| 1.0),
            total: Some(122_631.0),
            inside_at_least: Some(0.0),
            inside_at_most: Some(122_631.0),
            inside_estimate: Some(122_631.0),
            inside_max: None,
            outside_max: None,
            reason: inside.is_none().then(|| "no sampling interval lies inside".into()),
            quality: Quality::Exact,
            quality_reason: None,
        }
    }

    fn report(resources: Vec<PhaseResource>) -> PhaseUsage {
        PhaseUsage {
            command: "./solver".into(),
            phase: "store".into(),
            phases_total: 3,
            threads_total: 1,
            longest_seconds: 0.41,
            inside_seconds: 1.21,
            run_seconds: 2.71,
            interval_seconds: [0.01, 0.08],
            resources,
            ..PhaseUsage::default()
        }
    }

    #[test]
    fn what_moves_stands_in_columns_with_its_share() {
        let known = PhaseResource {
            inside_at_least: Some(122_630.0),
            ..rate("io_written_bytes_total", PhaseVerdict::More, Some(102_400.0))
        };
        let wide = PhaseResource {
            quality: Quality::Sampled,
            inside_at_least: Some(61_000.0),
            ..known.clone()
        };
        let text = render(&report(vec![known, wide]), 100, false);
        let expected = "\
weigh  phase store of ./solver
3 times, 410.0 ms each at most: 1.210 s of 2.710 s (44.6 %). Sampled every 10.0 ms to 80.0 ms; rates
are means over sampling intervals that lie inside, or outside.

       inside      outside           of the total  more inside
  100.0 KiB/s        0 B/s     100 % of 119.8 KiB  io_written_bytes_total  bytes written
 ~100.0 KiB/s       ~0 B/s  49-100 % of 119.8 KiB  io_written_bytes_total  bytes written
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_cannot_be_told_says_why_and_what_is_certain() {
        let text = render(
            &report(vec![rate("io_written_bytes_total", PhaseVerdict::Unknown, None)]),
            200,
            false,
        );
        assert!(text.contains("Nothing is known to move"), "{text}");
        let line = "not told, for no sampling interval lies inside: io_written_bytes_total (119.8 KiB of 119.8 KiB at most)";
        assert!(text.contains(line), "{text}");
    }
}
