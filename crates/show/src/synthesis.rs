//! What several events said together, as text for the terminal: a few lines for each thing that was asked
//! for, with histograms by doublings.

use weigh_schema::amount::{show_count, show_seconds};
use weigh_schema::synthesis::{
    CounterDifference, Distribution, KeyPart, Pairs, Row, SynthesisReport, SynthesisResult, Table,
    What,
};

use crate::text::{Line, Paint};

/// The longest bar of a histogram.
const BAR: usize = 32;
/// Histograms of so many keys are drawn; of more only their figures are told.
const DRAWN: usize = 4;
/// Where figures begin, and how wide they are.
const INDENT: &str = "  ";
const FIGURE: usize = 11;

/// The report as text, with a line end after its last line. `rows` rows of each table at most.
pub fn render(report: &SynthesisReport, rows: usize, width: usize, color: bool) -> String {
    let mut lines = Vec::new();
    for found in &report.found {
        lines.push(Line::new());
        lines.push(Line::new().add(&found.asked, Paint::Bold));
        lines.extend(match &found.what {
            What::Latency(pairs) => of_pairs(pairs),
            What::Sequence(pairs) => of_pairs(pairs),
            What::Rate(table) | What::Top(table) | What::Histogram(table) => of_table(table, rows),
        });
        lines.extend(gaps(found, report.late_total));
    }
    lines.iter().map(|line| line.render(width, color) + "\n").collect()
}

/// What is not in the figures.
fn gaps(found: &SynthesisResult, late: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut warn =
        |text: String| lines.push(Line::new().add(INDENT, Paint::Plain).add(text, Paint::Warn));
    if found.lost_total > 0 {
        warn(format!("incomplete: {} events lost", show_count(found.lost_total as f64)));
    }
    for rule in &found.sampled {
        warn(format!("not all were taken: {rule}"));
    }
    if late > 0 {
        warn(format!("{} events came too late for their place in time", show_count(late as f64)));
    }
    lines
}

fn plain(text: impl AsRef<str>) -> Line {
    Line::new().add(INDENT, Paint::Plain).add(text, Paint::Plain)
}

/// Counts that are not 0, in a row.
fn counts(all: &[(u64, &str)]) -> Option<String> {
    let told: Vec<String> = all
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", show_count(*count as f64)))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn of_pairs(pairs: &Pairs) -> Vec<Line> {
    let count = |count: u64| show_count(count as f64);
    let mut lines = vec![plain(format!(
        "{} pairs, of {} first and {} second events",
        count(pairs.pairs_total),
        count(pairs.first_total),
        count(pairs.second_total)
    ))];
    lines.extend(
        counts(&[
            (pairs.unanswered_total, "not followed in time"),
            (pairs.overwritten_total, "followed by another first one"),
            (pairs.waiting_total, "still wait"),
            (pairs.unmatched_total, "second ones without a first"),
            (pairs.without_key_total, "without a key"),
            (pairs.not_kept_total, "first ones without room (--keys)"),
        ])
        .map(plain),
    );
    if let Some(seconds) = &pairs.seconds {
        lines.push(plain(figures(seconds, &time)));
        lines.extend(bars(seconds, &time));
    }
    lines.extend(pairs.counters.iter().flat_map(of_counter));
    lines
}

/// What a counter has counted between the two.
fn of_counter(between: &CounterDifference) -> Vec<Line> {
    let sum = format!("{}: sum {}", between.counter, show_count(between.sum as f64));
    let missing = counts(&[
        (between.other_cpu_total, "pairs on two CPUs are not in it"),
        (between.absent_total, "pairs without the count"),
    ]);
    let mut lines = vec![plain([sum].into_iter().chain(missing).collect::<Vec<_>>().join(", "))];
    lines.extend(between.values.as_ref().map(|values| plain(figures(values, &number))));
    lines
}

/// Shorter than what people time otherwise.
fn time(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 1e-6 {
        return format!("{:.0} ns", seconds * 1e9);
    }
    show_seconds(seconds)
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { show_count(value) } else { format!("{value:.1}") }
}

fn figures(spread: &Distribution, show: &dyn Fn(f64) -> String) -> String {
    let Distribution { mean, min, p50, p99, max, .. } = spread;
    let all = [("mean", mean), ("least", min), ("p50", p50), ("p99", p99), ("most", max)];
    all.map(|(name, value)| format!("{name} {}", show(*value))).join(", ")
}

/// The doubling that a value lies in: where that begins, in powers of 2 of a nanosecond or of 1.
fn doubling(from: f64, unit: f64) -> f64 {
    let value = (from / unit).round();
    if value == 0.0 {
        return 0.0;
    }
    // What is below 0 lies in doublings that begin at their far end, as its buckets do.
    let power = value.abs().log2();
    let power = if value < 0.0 { power.ceil() } else { power.floor() };
    value.signum() * power.exp2() * unit
}

fn bars(spread: &Distribution, show: &dyn Fn(f64) -> String) -> Vec<Line> {
    // Only times are told in fractions.
    let unit =
        if spread.buckets.iter().any(|bucket| bucket.from.fract() != 0.0) { 1e-9 } else { 1.0 };
    let mut doublings: Vec<(f64, u64)> = Vec::new();
    for bucket in &spread.buckets {
        let from = doubling(bucket.from, unit);
        match doublings.last_mut() {
            Some((last, count)) if *last == from => *count += bucket.count,
            _ => doublings.push((from, bucket.count)),
        }
    }
    let most = doublings.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let line = |(from, count): (f64, u64)| {
        let share = (count as f64 / most as f64 * BAR as f64).ceil() as usize;
        let from = format!("{:>FIGURE$}", show(from));
        let count = format!(" {:>FIGURE$} ", show_count(count as f64));
        Line::new()
            .add(INDENT, Paint::Plain)
            .add(from + &count, Paint::Plain)
            .add("█".repeat(share), Paint::Good)
    };
    doublings.into_iter().map(line).collect()
}

fn key(row: &Row) -> String {
    let part = |part: &KeyPart| match part {
        KeyPart::Bool(truth) => truth.to_string(),
        KeyPart::Unsigned(number) => number.to_string(),
        KeyPart::Signed(number) => number.to_string(),
        KeyPart::Text(text) => text.clone(),
    };
    row.key.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn of_table(table: &Table, rows: usize) -> Vec<Line> {
    let shown = &table.rows[..rows.min(table.rows.len())];
    let has_rates = shown.iter().any(|row| row.rate.is_some());
    let titles: &[&str] =
        if has_rates { &["events", "a second", "last", "most"] } else { &["events"] };
    let mut title = INDENT.to_string();
    for name in titles {
        title += &format!("{name:>FIGURE$}");
    }
    let title = title + "  " + &table.by.join(", ");
    let mut lines = vec![Line::new().add(title, Paint::Dim)];
    let are_drawn = shown.len() <= DRAWN;
    for row in shown {
        let mut text = format!("{:>FIGURE$}", show_count(row.events_total as f64));
        if let Some(rate) = row.rate {
            let (last, most) = (show_count(rate.last as f64), show_count(rate.most as f64));
            let mean = format!("{:.1}", rate.per_second);
            text += &format!("{mean:>FIGURE$}{last:>FIGURE$}{most:>FIGURE$}");
        }
        text += &format!("  {}", key(row));
        if let Some(values) = &row.values {
            text += &format!("  {}", figures(values, &number));
        }
        lines.push(plain(text));
        let drawn = row.values.as_ref().filter(|_| are_drawn);
        lines.extend(drawn.into_iter().flat_map(|values| bars(values, &number)));
    }
    let hidden = &table.rows[shown.len()..];
    let keys = table.rest_keys_total + hidden.len() as u64;
    let events = table.rest_events_total + hidden.iter().map(|row| row.events_total).sum::<u64>();
    if keys > 0 {
        let (keys, events) = (show_count(keys as f64), show_count(events as f64));
        lines.push(plain(format!("and {keys} more keys, of {events} events")));
    }
    lines.extend(
        counts(&[
            (table.others_total, "of others, for which there was no room (--keys)"),
            (table.without_key_total, "without a key or value"),
        ])
        .map(plain),
    );
    lines
}

#[cfg(test)]
mod tests {
    use weigh_schema::synthesis::{Bucket, REPORT, Rate};

    use super::*;

    fn report(what: What) -> SynthesisReport {
        let found = SynthesisResult {
            asked: "a -> b by tid".to_string(),
            lost_total: 7,
            sampled: vec!["g:a sample 1/2".to_string()],
            what,
        };
        let schema = REPORT.to_string();
        SynthesisReport {
            schema,
            seconds: 2.0,
            events_total: 9,
            late_total: 0,
            reports_missed_total: 0,
            switches_total: 0,
            switches: Vec::new(),
            found: vec![found],
        }
    }

    fn spread(unit: f64) -> Distribution {
        let bucket = |from: u64, count| Bucket { from: from as f64 * unit, count };
        Distribution {
            count: 16,
            mean: 900.0 * unit,
            min: 512.0 * unit,
            p50: 1023.0 * unit,
            p99: 2100.0 * unit,
            max: 2100.0 * unit,
            buckets: vec![bucket(512, 1), bucket(992, 8), bucket(1024, 3), bucket(2048, 4)],
        }
    }

    #[test]
    fn a_latency_is_told_with_what_it_lacks() {
        let pairs = Pairs {
            first_total: 20,
            second_total: 17,
            pairs_total: 16,
            unanswered_total: 4,
            unmatched_total: 1,
            seconds: Some(spread(1e-9)),
            counters: vec![CounterDifference {
                counter: "counter(cycles)".to_string(),
                pairs_total: 14,
                other_cpu_total: 2,
                sum: 90_000,
                values: Some(spread(1.0)),
                ..CounterDifference::default()
            }],
            ..Pairs::default()
        };
        let text = render(&report(What::Latency(pairs)), 9, 100, false);
        for line in [
            "a -> b by tid\n",
            "  16 pairs, of 20 first and 17 second events\n",
            "  4 not followed in time, 1 second ones without a first\n",
            "  mean 900 ns, least 512 ns, p50 1.0 us, p99 2.1 us, most 2.1 us\n",
            "       512 ns           9 ████████████████████████████████\n",
            "       1.0 us           3 ███████████\n",
            "  counter(cycles): sum 90\u{202f}000, 2 pairs on two CPUs are not in it\n",
            "  mean 900, least 512, p50 1\u{202f}023, p99 2\u{202f}100, most 2\u{202f}100\n",
            "  incomplete: 7 events lost\n",
            "  not all were taken: g:a sample 1/2\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn tables_say_what_is_not_in_them() {
        let row = |name: &str, events| Row {
            key: vec![KeyPart::Text(format!("{name}\x1b[2J")), KeyPart::Unsigned(3)],
            events_total: events,
            rate: Some(Rate { per_second: events as f64 / 2.0, last: 4, most: 5 }),
            values: None,
        };
        let table = Table {
            by: vec!["comm".to_string(), "cpu".to_string()],
            rows: vec![row("one", 12), row("two", 7), row("three", 1)],
            rest_keys_total: 1,
            rest_events_total: 1,
            others_total: 3,
            without_key_total: 2,
        };
        let text = render(&report(What::Rate(table.clone())), 2, 100, false);
        assert!(text.contains("           12        6.0          4          5  one"), "{text}");
        assert!(text.contains("and 2 more keys, of 2 events"), "{text}");
        assert!(text.contains("3 of others, for which there was no room"), "{text}");
        assert!(!text.contains('\x1b'), "{text:?}");

        let values = Row { rate: None, values: Some(spread(1.0)), ..row("x", 16) };
        let table = Table { rows: vec![values], ..table };
        let text = render(&report(What::Histogram(table)), 2, 100, false);
        assert!(text.contains("p50 1\u{202f}023"), "{text}");
        assert!(text.contains("      2\u{202f}048           4 ███████████████\n"), "{text}");
    }

    #[test]
    fn doublings_begin_at_powers_of_2() {
        for (value, from) in [(0.0, 0.0), (1.0, 1.0), (3.0, 2.0), (992.0, 512.0), (-3.0, -4.0)] {
            assert_eq!(doubling(value, 1.0), from);
        }
    }
}
