//! The report as a file: its data can be read back, and nothing that the job wrote becomes markup.

use crate::common::sample;
use crate::common::sample_moments::{HOSTILE, io_over_time, regions, series};
use serde_json::Value as Json;
use weigh_schema::METRICS;
use weigh_schema::io::FileUse;
use weigh_schema::recording::SampleRow;
use weigh_show::report::{FileColumns, page};

const OPENING: &str = "<script type=\"application/json\" id=\"weigh-data\">";

/// `totals` are those of processes and files.
fn html(recording: &sample::Recording, totals: [u64; 2]) -> String {
    let sample::Recording { summary, samples, processes, files } = recording;
    let mut columns = FileColumns::default();
    files.iter().for_each(|row| columns.push(row));
    let columns = columns.finish(totals[1]);
    let mut page = page(summary, series(summary, samples), processes, columns, totals[0]);
    page.io_over_time = io_over_time(summary);
    page.html()
}

fn data(html: &str) -> Json {
    let start = html.find(OPENING).expect("the page has data") + OPENING.len();
    let end = start + html[start..].find("</script>").expect("the data end");
    serde_json::from_str(&html[start..end]).expect("the data are JSON")
}

#[test]
fn every_metric_is_carried_and_absence_is_null() {
    let recording = sample::build(40);
    let page = data(&html(&recording, [0; 2]));
    let rows = page["metrics"].as_array().unwrap();
    assert_eq!(rows.len(), METRICS.len());
    for (row, metric) in rows.iter().zip(METRICS) {
        assert_eq!(row["name"], metric.name);
        assert_eq!(row["counts"], metric.counts);
        let value = &recording.summary.metrics[metric.name];
        assert_eq!(row["value"], serde_json::to_value(value.value).unwrap());
        assert_eq!(row["text"].is_null(), value.value.is_none(), "{}", metric.name);
    }
}

/// Names of regions, counters and metadata are a program's own.
#[test]
fn names_of_regions_are_data_and_no_markup() {
    let sample::Recording { summary, samples, .. } = sample::build(4);
    let files = FileColumns::default().finish(0);
    let mut page = page(&summary, series(&summary, &samples), &[], files, 0);
    page.regions = regions();
    let html = page.html();
    assert!(!html.contains("<script>alert"), "a name became markup");
    let regions = &data(&html)["regions"];
    assert_eq!(regions["texts"][0], HOSTILE);
    assert_eq!(regions["flat"][0]["name"], HOSTILE);
    assert_eq!(regions["metadata"]["input"], HOSTILE);
    let notes = regions["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with("3 publishes, of which 2")));
}

/// The page says first what `weigh run` says, and the same files have no row of their own.
#[test]
fn the_page_has_the_digest_and_folds_files_as_io_does() {
    let mut recording = sample::build(4);
    let own = recording.files[0].clone();
    for path in ["/usr/lib/libc.so.6", "/home/user/lib/python3.11/site-packages/x.py"] {
        recording.files.push(FileUse { name: path.into(), ..own.clone() });
    }
    let page = data(&html(&recording, [0; 2]));
    let style = weigh_show::table::Style {
        color: false,
        width: 400,
        is_terminal: true,
        complete: true,
        is_running: false,
        recording: None,
    };
    let digest = weigh_show::digest::render(&recording.summary, style, Default::default());
    let rows = page["digest"].as_array().unwrap();
    assert!(rows.len() >= 5, "{rows:?}");
    for row in rows.iter().filter(|row| row["label"] != "noted") {
        let (label, text) = (row["label"].as_str().unwrap(), row["text"].as_str().unwrap());
        assert!(digest.contains(text), "{label}: {text} is not in {digest}");
    }
    let folds: Vec<_> = page["files"]["fold"].as_array().unwrap().iter().rev().take(2).collect();
    assert_eq!(folds, ["system", "system"]);
}

#[test]
fn mapped_memory_that_can_not_be_seen_has_no_column() {
    let mut recording = sample::limited(4);
    let is_unseen = |recording: &sample::Recording| {
        data(&html(recording, [0; 2]))["io"]["is_mapped_unseen"].as_bool().unwrap()
    };
    assert!(!is_unseen(&recording));
    let reason = "no call tells of it".to_string();
    let trust = weigh_schema::io::Trust { quality: weigh_schema::Quality::Unavailable, reason };
    let found = recording.summary.io.as_mut().unwrap();
    found.qualities.insert("mapped".to_string(), trust);
    assert!(is_unseen(&recording));
}

#[test]
fn text_of_the_job_stays_text() {
    let nasty = "</script><img src=x onerror=alert(1)><!--\u{2028}";
    let mut recording = sample::build(3);
    recording.summary.job.command = vec![nasty.to_string()];
    recording.summary.job.labels.insert(nasty.to_string(), nasty.to_string());
    recording.processes[0].command = nasty.to_string();
    recording.files[0].name = nasty.to_string();
    let html = html(&recording, [0; 2]);
    assert!(!html.contains("<img"), "markup of the job's got into the page");
    assert!(!html.contains("<!--"));
    let page = data(&html);
    assert_eq!(page["job"]["command"][0], nasty);
    assert_eq!(page["job"]["labels"][nasty], nasty);
    assert!(page["processes"]["texts"].as_array().unwrap().contains(&Json::from(nasty)));
    assert_eq!(page["files"]["paths"][0], nasty);
}

#[test]
fn rows_that_were_left_out_are_counted() {
    let recording = sample::build(40);
    let page = data(&html(&recording, [12_345, 678_901]));
    assert_eq!(page["processes"]["total"], 12_345);
    assert_eq!(page["files"]["total"], 678_901);
    assert_eq!(page["processes"]["pid"].as_array().unwrap().len(), recording.processes.len());
}

#[test]
fn a_long_series_is_thinned_but_keeps_its_peak() {
    let mut recording = sample::build(3);
    let start = sample::started().as_nanosecond() as i64;
    recording.samples = (0..200_000)
        .map(|i| SampleRow {
            time_ns: start + i * 1_000_000,
            scope: "job".to_string(),
            metric: "memory_bytes".to_string(),
            value: if i == 77_777 { 9e9 } else { 1e6 },
        })
        .collect();
    let page = data(&html(&recording, [0; 2]));
    let series = &page["series"]["memory_bytes"];
    assert_eq!(series["total"], 200_000);
    let values = series["value"].as_array().unwrap();
    assert!(values.len() <= 4_000, "{}", values.len());
    let peak = values.iter().position(|v| v == &Json::from(9e9)).expect("the peak is there");
    assert_eq!(series["at"][peak], 77.777);
}

#[test]
fn a_job_without_any_rows_has_a_page() {
    let mut recording = sample::cut_short();
    recording.samples.clear();
    recording.processes.clear();
    recording.files.clear();
    let page = data(&html(&recording, [0; 2]));
    assert_eq!(page["exit"], Json::Null);
    assert_eq!(page["processes"]["pid"], Json::Array(vec![]));
}
