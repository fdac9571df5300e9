//! The table, held to golden files. `WEIGH_BLESS=1 cargo test -p weigh-show` writes them anew.

use crate::common::golden::check;
use crate::common::sample;
use unicode_width::UnicodeWidthStr;
use weigh_schema::summary::{Exit, ExitKind};
use weigh_schema::{METRICS, Quality, Unit, Value};
use weigh_show::digest::{self, Sources};
use weigh_show::table::{Style, render};

const STYLE: Style = Style {
    color: false,
    width: 80,
    is_terminal: true,
    complete: true,
    is_running: false,
    recording: Some("~/.local/state/weigh/20251121-190431-make-7f3a"),
};

#[test]
fn a_job_that_went_well() {
    let summary = sample::build(400).summary;
    check("tests/golden/table_80.txt", &render(&summary, STYLE));
    check("tests/golden/table_120.txt", &render(&summary, Style { width: 120, ..STYLE }));
    check("tests/golden/table_colour.txt", &render(&summary, Style { color: true, ..STYLE }));
}

#[test]
fn a_job_ended_by_a_limit() {
    check("tests/golden/table_limit.txt", &render(&sample::limited(400).summary, STYLE));
}

#[test]
fn a_recording_that_was_cut_short() {
    let style = Style { complete: false, recording: None, ..STYLE };
    check("tests/golden/table_cut_short.txt", &render(&sample::cut_short().summary, style));
    let running = render(&sample::cut_short().summary, Style { is_running: true, ..style });
    let words = "weigh  still running; 93.418 s of it were seen\n       make -j8 'CFLAGS=-O2 -g' all test\n       \
                 what follows is what has been recorded so far\n\n";
    assert!(running.starts_with(words), "{running}");
}

#[test]
fn a_command_that_could_not_be_started() {
    let mut summary = sample::cut_short().summary;
    summary.exit = Some(Exit {
        kind: ExitKind::FailedToStart,
        code: None,
        signal: None,
        sender: None,
        limit: None,
        error: Some("no such command: maek".to_string()),
    });
    for (name, value) in &mut summary.metrics {
        if name != "wall_seconds" {
            *value = Value::unavailable(value.unit, "the command was never executed");
        }
    }
    check("tests/golden/table_not_started.txt", &render(&summary, STYLE));
}

/// 0 is not all that there was, where a part is left out.
#[test]
fn what_an_exact_value_leaves_out_is_told() {
    let mut summary = sample::build(400).summary;
    let value = summary.metrics.get_mut("io_read_bytes_total").expect("a metric");
    (value.value, value.quality, value.reason) =
        (Some(weigh_schema::Number::Whole(0)), Quality::Exact, None);
    let (plain, zero) = (render(&summary, STYLE), "zero           ");
    let value = summary.metrics.get_mut("io_read_bytes_total").expect("a metric");
    value.reason = Some("without sockets".to_string());
    let told = render(&summary, STYLE);
    let line_of = |table: &str| {
        table.lines().filter(|line| line.starts_with("  io_read_bytes_total")).count()
    };
    assert_eq!((line_of(&plain), line_of(&told)), (0, 1), "{told}");
    assert!(
        plain.contains(zero)
            && told.contains("exact          io_read_bytes_total: without sockets"),
        "{told}"
    );
}

#[test]
fn no_line_exceeds_the_width() {
    let summary = sample::limited(40).summary;
    for width in [40, 41, 60, 80, 97, 200] {
        for line in render(&summary, Style { width, ..STYLE }).lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

const SOURCES: Sources = Sources {
    report: Some("~/.local/state/weigh/20251121-190431-make-7f3a/report.html"),
    is_command_known: true,
};

#[test]
fn twelve_lines_say_what_is_most_wanted() {
    let summary = sample::build(400).summary;
    check("tests/golden/digest.txt", &digest::render(&summary, STYLE, SOURCES));
    let limited = sample::limited(400).summary;
    check("tests/golden/digest_limit.txt", &digest::render(&limited, STYLE, SOURCES));
    let style = Style { complete: false, recording: None, ..STYLE };
    let sources = Sources { report: None, is_command_known: false };
    let cut_short = digest::render(&sample::cut_short().summary, style, sources);
    check("tests/golden/digest_cut_short.txt", &cut_short);
}

/// A process that waits for a GPU keeps a CPU busy by asking.
#[test]
fn a_busy_gpu_is_told_before_one_busy_cpu() {
    let mut summary = sample::build(400).summary;
    let ratio = |value| Value {
        value: Some(Unit::Ratio.number(value)),
        quality: Quality::Sampled,
        ..Value::unavailable(Unit::Ratio, "")
    };
    for name in
        ["delay_block_seconds", "delay_cpu_seconds", "io_read_calls_total", "io_write_calls_total"]
    {
        summary.metrics.insert(name.into(), Value::unavailable(Unit::Count, "not looked at"));
    }
    summary.metrics.insert("cpu_cores_average".into(), ratio(1.0));
    summary.metrics.insert("wall_seconds".into(), ratio(60.0));
    let advice = |busy: Option<f64>| {
        let busy = busy.map_or(Value::unavailable(Unit::Ratio, "no GPU"), ratio);
        let mut summary = summary.clone();
        summary.metrics.insert("gpu_utilization_ratio".into(), busy);
        digest::advice(&summary).unwrap_or_default()
    };
    assert_eq!(
        advice(Some(0.794)),
        "limited by the GPU: busy 79.4 % of the time that the job had it"
    );
    assert_eq!(
        advice(Some(0.01)),
        "the GPU was mostly idle: busy 1.0 % of the time that the job had it"
    );
    for busy in [Some(0.5), None] {
        assert!(advice(busy).starts_with("limited by one CPU"), "{}", advice(busy));
    }
}

/// Lines and columns, whatever there is to say; and nothing but what must be is left out.
#[test]
fn a_digest_has_twelve_lines_or_sixteen_and_none_is_cut() {
    let mut plain = sample::build(400).summary;
    plain.limits.clear();
    plain.metrics.retain(|name, _| !name.starts_with("net_") && !name.starts_with("gpu_"));
    let mut crowded = sample::limited(400).summary;
    let limit = crowded.limits[0].clone();
    crowded.limits.extend(std::iter::repeat_n(limit, 7));
    let cases = [(plain, 12), (sample::build(40).summary, 16), (crowded, 16)];
    for (summary, most) in cases {
        for width in [60, 80, 97, 200] {
            let text = digest::render(&summary, Style { width, ..STYLE }, SOURCES);
            assert!(text.lines().count() <= most, "{width}: {text}");
            for line in text.lines().filter(|line| !line.starts_with("report")) {
                assert!(line.width() <= width && !line.contains('…'), "{width}: {line}");
            }
            for label in
                ["weigh", "CPU", "memory", "read", "written", "processes", "note", "report"]
            {
                assert!(text.lines().any(|line| line.starts_with(label)), "{label} in {text}");
            }
        }
    }
}

#[test]
fn a_file_gets_plain_digits_and_keys_their_values() {
    let summary = sample::build(400).summary;
    let text = |is_terminal| {
        let style = Style { is_terminal, ..STYLE };
        digest::render(&summary, style, SOURCES) + &render(&summary, style)
    };
    assert!(text(true).contains('\u{202f}') && !text(false).contains('\u{202f}'));
    let keys = weigh_show::table::render_keys(&summary);
    for metric in METRICS {
        let line = keys.lines().find(|line| line.split(' ').next() == Some(metric.name)).unwrap();
        let value = line.split(' ').nth(1).unwrap().parse::<f64>().ok();
        assert_eq!(value, summary.metrics[metric.name].number(), "{line}");
    }
}

#[test]
fn every_metric_is_accounted_for_and_absence_is_not_zero() {
    let summary = sample::build(40).summary;
    let table = render(&summary, Style { width: 400, ..STYLE });
    let (rows, notes) =
        table.split_once("\n\n").and_then(|(_, rest)| rest.split_once("\n\n")).unwrap();
    // Of the space of watched directories the table has the growth.
    let has_line = |name: &str| rows.contains(&format!("  {name} ")) || notes.contains(name);
    assert!(!has_line("disk_footprint_peak_bytes") && has_line("disk_growth_peak_bytes"));
    // What is free has a line where a limit is on it.
    const HIDDEN: [&str; 3] =
        ["disk_footprint_peak_bytes", "disk_free_least_bytes", "disk_free_inodes_least"];
    for m in METRICS.iter().filter(|m| !HIDDEN.contains(&m.name)) {
        let value = &summary.metrics[m.name];
        let has_row = rows.lines().any(|l| l.split_whitespace().next() == Some(m.name));
        let nothing = value.quality == Quality::Unavailable
            || (value.quality == Quality::Exact && value.number() == Some(0.0));
        assert_eq!(has_row, !nothing, "{}", m.name);
        let group_named = notes.contains(&format!("all of {}", m.group.title()));
        assert!(has_row || notes.contains(m.name) || group_named, "{} is nowhere", m.name);
    }
}
