//! CSV and JSON lines are read again with the same numbers.

use weigh_export::metrics::exporter;
use weigh_schema::running_job::running_job_values;
use weigh_schema::top::TopReport;

use crate::reports;

fn written(kind: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics");
    // Opened again, it goes on behind what is there.
    for report in reports() {
        let mut exporter = exporter(&format!("{kind}={}", path.display())).unwrap();
        exporter.take(&report);
        exporter.send().unwrap();
        assert!(exporter.status().sent_values > 100);
    }
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn json_lines_are_reports() {
    let read: Vec<TopReport> =
        written("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let without_processes = |report| TopReport { processes: Vec::new(), ..report };
    assert_eq!(read, reports().into_iter().map(without_processes).collect::<Vec<_>>());
}

#[test]
fn csv_has_a_head_once_and_a_line_per_value() {
    let text = written("csv");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time,node,scope,metric,value,unit,quality"));
    let available = |report: &TopReport| {
        let of_node = report.metrics.values().flat_map(|m| m.values());
        let of_jobs = report.jobs.iter().flat_map(running_job_values).flatten();
        of_node.filter(|v| v.value.is_some()).count() + of_jobs.count()
    };
    assert_eq!(lines.clone().count(), reports().iter().map(available).sum::<usize>());
    let hostile = "2026-11-26T12:00:00.25Z,node1,\"mount:/scratch \"\"a\"\"\\b,c\\n\\u{1b}[31m\",\
                   node_mount_read_bytes_total,9007199254740993,bytes,exact";
    assert!(lines.clone().any(|line| line == hostile), "{text}");
    let job = "2026-11-26T12:00:00.25Z,node1,job:4242,job_cpu_cores,1.75,cores,sampled";
    assert!(lines.clone().any(|line| line == job), "{text}");
    assert_eq!(lines.filter(|line| line.starts_with("time,")).count(), 0);
}
