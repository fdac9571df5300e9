//! The rows: jobs and processes, or collectors.

use std::cmp::Ordering;

use weigh_schema::amount::show_size;
use weigh_schema::event::CollectorState;
use weigh_schema::printable::{ShellWords, printable};
use weigh_schema::top::{TopCollector, TopJob, TopJobKind, TopProcess, TopReport};

use super::view::{SortKey, TopView, UNKNOWN};
use crate::text::cut;

/// The processes that the filter leaves, sorted.
pub(super) fn chosen<'a>(report: &'a TopReport, view: &TopView) -> Vec<&'a TopProcess> {
    let mut rows: Vec<&TopProcess> =
        report.processes.iter().filter(|process| matches(process, &view.filter)).collect();
    rows.sort_by(|a, b| order(view.sort, a, b));
    rows
}

pub(super) fn order(sort: SortKey, a: &TopProcess, b: &TopProcess) -> Ordering {
    let cpu = |process: &TopProcess| process.cpu_cores.unwrap_or(-1.0);
    match sort {
        SortKey::Cpu => cpu(b).total_cmp(&cpu(a)).then(b.cpu_seconds.total_cmp(&a.cpu_seconds)),
        SortKey::Memory => b.memory_rss_bytes.cmp(&a.memory_rss_bytes),
        SortKey::Threads => b.threads.cmp(&a.threads),
        SortKey::Pid => a.pid.cmp(&b.pid),
    }
}

pub(super) fn cores(cores: Option<f64>) -> String {
    cores.map_or_else(|| UNKNOWN.to_string(), |cores| format!("{:.1}", cores * 100.0))
}

/// What a row of the node's list is about.
#[derive(Clone, Copy)]
pub(super) enum NodeRow<'a> {
    Job(&'a TopJob),
    Process(&'a TopProcess),
}

/// Jobs first, then processes, as far as the filter leaves them.
pub(super) fn node_rows<'a>(report: &'a TopReport, view: &TopView) -> Vec<NodeRow<'a>> {
    let has_row = |job: &&TopJob| job.kind != TopJobKind::Unit && job_matches(job, &view.filter);
    let jobs = report.jobs.iter().filter(has_row).map(NodeRow::Job);
    jobs.chain(chosen(report, view).into_iter().map(NodeRow::Process)).collect()
}

/// Whether a job has the text in its command, the name of its group, its user or number.
fn job_matches(job: &TopJob, filter: &str) -> bool {
    let group = job.group.as_ref().map_or("", |group| &group.name);
    has_text(filter, [group, &job.user].into_iter().chain(job.command.iter().map(String::as_str)))
        || job.pid.to_string() == filter
}

pub(super) fn process_title() -> String {
    format!(
        "{:>7} {:<9} S {:>6} {:>10} {:>4} {:>7} COMMAND",
        "PID", "USER", "CPU%", "RESIDENT", "THR", "JOB"
    )
}

pub(super) fn node_row(row: NodeRow<'_>, columns: usize) -> String {
    match row {
        NodeRow::Job(job) => job_line(job, columns),
        NodeRow::Process(process) => process_line(process, columns),
    }
}

/// What stands above the rows: how many jobs come first; units are many, so they share one line.
pub(super) fn job_head(report: &TopReport, columns: usize) -> Vec<String> {
    let (units, jobs): (Vec<&TopJob>, Vec<&TopJob>) =
        report.jobs.iter().partition(|job| job.kind == TopJobKind::Unit);
    let own = jobs.iter().filter(|job| job.kind == TopJobKind::Weigh).count();
    let counts = [("jobs of weigh run", own), ("jobs and containers", jobs.len() - own)];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{what}: {count}"))
        .collect();
    let first = (!counts.is_empty()).then(|| format!("{}; they come first", counts.join(", ")));
    let units = (!units.is_empty()).then(|| unit_line(units, columns));
    first.into_iter().chain(units).collect()
}

/// Units that are named.
const UNITS_NAMED: usize = 3;

fn unit_line(mut units: Vec<&TopJob>, columns: usize) -> String {
    units.sort_by(|a, b| b.cpu_cores.unwrap_or(-1.0).total_cmp(&a.cpu_cores.unwrap_or(-1.0)));
    let busiest = units.iter().take(UNITS_NAMED).map(|unit| {
        let name = unit.group.as_ref().map_or("", |group| &group.name);
        format!("{} {} %", printable(name), cores(unit.cpu_cores))
    });
    let busiest = busiest.collect::<Vec<_>>().join(", ");
    cut(&format!("units of systemd: {}, the busiest: {busiest}", units.len()), columns)
}

/// What a `weigh run` measures: its own options are no news.
pub(super) fn measured_command(command: &[String]) -> &[String] {
    let end = command.iter().position(|word| word == "--").map(|at| at + 1);
    end.and_then(|end| command.get(end..)).filter(|rest| !rest.is_empty()).unwrap_or(command)
}

fn job_line(job: &TopJob, columns: usize) -> String {
    let what = match &job.group {
        Some(group) => format!("{} {}", printable(&group.manager), printable(&group.name)),
        None => ShellWords(measured_command(&job.command)).to_string(),
    };
    let line = format!(
        "{:>7} {:<9} processes {}, CPU {} %, resident {}  {what}",
        job.pid,
        cut(&printable(&job.user), 9),
        job.processes,
        cores(job.cpu_cores),
        show_size(job.memory_rss_sum_bytes as f64),
    );
    cut(&line, columns)
}

fn process_line(process: &TopProcess, columns: usize) -> String {
    let command = match process.command.is_empty() {
        true => format!("[{}]", printable(&process.name)),
        false => ShellWords(&process.command).to_string(),
    };
    let line = format!(
        "{:>7} {:<9} {} {:>6} {:>10} {:>4} {:>7} {command}",
        process.pid,
        cut(&printable(&process.user), 9),
        printable(&process.state),
        cores(process.cpu_cores),
        show_size(process.memory_rss_bytes as f64),
        process.threads,
        process.job.map(|job| job.to_string()).unwrap_or_default(),
    );
    cut(&line, columns)
}

/// The head of the list of collectors.
pub(super) fn collector_title() -> String {
    format!("{:<11} {:<12} {:>8} WHY", "COLLECTOR", "STATUS", "FAILED")
}

/// How each collector fares.
pub(super) fn collector_lines(report: &TopReport, columns: usize) -> Vec<String> {
    report.collectors.iter().map(|collector| cut(&collector_line(collector), columns)).collect()
}

/// One collector, as long as it has to be.
pub(crate) fn collector_line(collector: &TopCollector) -> String {
    let status = match (collector.status, collector.no_data_seconds) {
        (CollectorState::Active, _) => "active".to_string(),
        (CollectorState::Disabled, _) => "off".to_string(),
        (_, Some(seconds)) => format!("no data {seconds:.0}s"),
        (_, None) => "unavailable".to_string(),
    };
    let reason = printable(collector.reason.as_deref().unwrap_or_default());
    let line = format!("{:<11} {status:<12} {:>8} {reason}", collector.name, collector.failures);
    line.trim_end().to_string()
}

/// Whether a process has the text in its command, name, user or number.
pub(super) fn matches(process: &TopProcess, filter: &str) -> bool {
    let words = process.command.iter().map(String::as_str);
    has_text(filter, [process.name.as_str(), &process.user].into_iter().chain(words))
        || process.pid.to_string() == filter
}

fn has_text<'a>(filter: &str, mut texts: impl Iterator<Item = &'a str>) -> bool {
    let filter = filter.to_lowercase();
    filter.is_empty() || texts.any(|text| text.to_lowercase().contains(&filter))
}
