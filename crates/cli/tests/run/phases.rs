//! `weigh explain --phase`, and the page of regions, of a program whose phases each use something else in exact, odd
//! amounts.

use std::process::Output;

use weigh_schema::explain::{PhaseResource, PhaseUsage, PhaseVerdict};

use crate::support::library::{folder, program};
use crate::support::measured::Measured;
use crate::support::run::{Weigh, weigh};

const ROUNDS: u64 = 3;
const PIECE: f64 = 997.0;
/// What the phase `store` writes in all.
const STORED: f64 = ROUNDS as f64 * 41.0 * PIECE;

/// Sampled every 100 ms: phases of 400 ms have whole intervals in them, one of a millisecond has none.
fn phases() -> Measured {
    let folder = folder();
    let file = folder.path().join("stored").display().to_string();
    let program = program("regions_phases").display().to_string();
    Weigh::run([program, file, ROUNDS.to_string()]).options("--interval 100ms").measure()
}

fn explain(measured: &Measured, arguments: &[&str]) -> Output {
    let place = measured.scratch.path("recording").display().to_string();
    let mut all = vec!["explain"];
    all.extend(arguments);
    all.push(&place);
    weigh(&measured.scratch, &all)
}

#[track_caller]
fn usage(measured: &Measured, phase: &str) -> PhaseUsage {
    let output = explain(measured, &["--quiet", "--json", "-", "--phase", phase]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn resource<'a>(usage: &'a PhaseUsage, metric: &str) -> &'a PhaseResource {
    let found = usage.resources.iter().find(|resource| resource.metric == metric);
    found.unwrap_or_else(|| panic!("no {metric} in {usage:#?}"))
}

#[test]
fn what_moves_with_a_phase_is_named_with_exact_bounds() {
    let measured = phases();
    let store = usage(&measured, "store");
    assert_eq!((store.schema.as_str(), store.phases_total), ("weigh.phase/1", ROUNDS));
    assert!(store.inside_seconds > 0.9 && store.inside_seconds < store.run_seconds, "{store:#?}");
    let written = resource(&store, "io_written_bytes_total");
    assert_eq!(written.verdict, PhaseVerdict::More, "{written:?}");
    // A sample may be read a moment after its time: at each border of a phase a piece may be on the other side.
    let slack = 2.0 * ROUNDS as f64 * PIECE;
    let bounds =
        [written.inside_at_least, written.inside_at_most].map(|bound| bound.expect("a bound"));
    assert!(bounds[0] <= STORED + slack && bounds[0] > STORED / 4.0, "{written:?}");
    assert!(bounds[1] >= STORED - slack, "{written:?}");
    assert!(written.total.is_some_and(|total| total >= STORED), "{written:?}");
    assert_eq!(resource(&store, "cpu_seconds").verdict, PhaseVerdict::Less);
    let burn = usage(&measured, "burn");
    assert_eq!(resource(&burn, "cpu_seconds").verdict, PhaseVerdict::More);
    assert_eq!(resource(&burn, "io_written_bytes_total").verdict, PhaseVerdict::Less);
    assert_eq!(resource(&burn, "io_written_bytes_total").inside, Some(0.0));
    let text = explain(&measured, &["--phase", "store"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.starts_with("weigh  phase store of ") && text.contains("\n3 times, "), "{text}");
    assert!(text.contains("more inside") && text.contains("less inside"), "{text}");
}

#[test]
fn of_a_phase_shorter_than_a_sampling_interval_no_rate_is_invented() {
    let measured = phases();
    let blink = usage(&measured, "blink");
    let cpu = resource(&blink, "cpu_seconds");
    assert_eq!((cpu.verdict, cpu.inside, cpu.difference), (PhaseVerdict::Unknown, None, None));
    assert!(cpu.inside_at_most <= cpu.total, "{cpu:?}");
    let text = explain(&measured, &["--phase", "blink"]);
    let text = String::from_utf8_lossy(&text.stdout).replace('\n', " ");
    assert!(text.contains("not told, for no sampling interval"), "{text}");
}

#[test]
fn a_phase_that_there_is_none_of_is_refused_with_those_there_are() {
    let measured = phases();
    let output = explain(&measured, &["--phase", "stroe"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected =
        "no phase is named stroe; there are: blink (3 times), burn (3 times), store (3 times)";
    assert!(said.contains(expected), "{said}");
    let none = Weigh::run(["true"]).measure();
    let output = explain(&none, &["--phase", "store"]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no phase has ended in this recording"), "{said}");
}

/// The page's data are those of the tables.
#[test]
fn the_page_has_regions_phases_and_counters() {
    let measured = phases();
    let html = measured.scratch.text("recording/report.html");
    let opening = "id=\"weigh-data\">";
    let from = html.find(opening).expect("data") + opening.len();
    let to = from + html[from..].find("</script>").expect("an end");
    let data: serde_json::Value = serde_json::from_str(&html[from..to]).expect("JSON");
    let regions = &data["regions"];
    let phases = &regions["phases"];
    assert_eq!((&phases["total"], phases["first"].as_array().map(Vec::len)), (&9.into(), Some(9)));
    let hot = regions["flat"].as_array().expect("a list").iter().find(|row| row["name"] == "hot");
    assert_eq!(hot.expect("a row")["calls"], 3 * 40_001);
    assert_eq!(regions["metadata"]["input"], "</script><img src=x onerror=alert(1)>");
    let series = regions["counter_series"].as_array().expect("a list");
    let bytes = series.iter().find(|series| series["name"] == "bytes").expect("a series");
    let last = bytes["rows"]["value"].as_array().and_then(|values| values.last());
    assert_eq!(last.and_then(serde_json::Value::as_f64), Some(STORED));
    assert!(!html.contains("<img src=x"), "a name became markup");
    let none = Weigh::run(["true"]).measure();
    assert!(none.scratch.text("recording/report.html").contains("\"regions\":null"));
}
