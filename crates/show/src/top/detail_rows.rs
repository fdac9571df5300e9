//! The rows of a job and of a process.

use std::cmp::Ordering;

use weigh_schema::amount::{show_seconds, show_size};
use weigh_schema::printable::{ShellWords, printable};
use weigh_schema::top_detail::{
    ProcessReading, TopDetail, TopIo, TopLimit, TopOpenFiles, TopProcessDetail, TopThread,
};

use super::rows::{cores, matches, order};
use super::view::{TopView, UNKNOWN};
use crate::text::cut;

/// The processes of a job that the filter leaves, sorted.
pub(super) fn chosen<'a>(detail: &'a TopDetail, view: &TopView) -> Vec<&'a TopProcessDetail> {
    let mut rows: Vec<&TopProcessDetail> =
        detail.processes.iter().filter(|detail| matches(&detail.process, &view.filter)).collect();
    rows.sort_by(|a, b| -> Ordering { order(view.sort, &a.process, &b.process) });
    rows
}

/// What a job is, in a line or two.
pub(super) fn job_head(detail: &TopDetail, columns: usize) -> Vec<String> {
    let Some(job) = &detail.job else { return Vec::new() };
    let of = |limit: Option<String>| limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let asked = job.cpus_requested.map(|cpus| format!("{cpus} CPUs"));
    let limit = job.memory_limit_bytes.map(|bytes| show_size(bytes as f64));
    let first = format!(
        "job {} of {}: processes {}, CPU {} %{}, resident {}{}",
        job.pid,
        printable(&job.user),
        job.processes,
        cores(job.cpu_cores),
        of(asked),
        show_size(job.memory_rss_sum_bytes as f64),
        of(limit),
    );
    vec![cut(&first, columns), cut(&ShellWords(&job.command).to_string(), columns)]
}

pub(super) fn job_title() -> String {
    format!(
        "{:>7} S {:>6} {:>10} {:>4} {:>12} {:>12} COMMAND",
        "PID", "CPU%", "RESIDENT", "THR", "READ", "WRITTEN"
    )
}

pub(super) fn job_row(detail: &TopProcessDetail, columns: usize) -> String {
    let process = &detail.process;
    let io = detail.io.value.as_ref();
    let command = match process.command.is_empty() {
        true => format!("[{}]", printable(&process.name)),
        false => ShellWords(&process.command).to_string(),
    };
    let line = format!(
        "{:>7} {} {:>6} {:>10} {:>4} {:>12} {:>12} {command}",
        process.pid,
        printable(&process.state),
        cores(process.cpu_cores),
        show_size(process.memory_rss_bytes as f64),
        process.threads,
        per_second(io.and_then(|io| io.read_bytes_per_second)),
        per_second(io.and_then(|io| io.written_bytes_per_second)),
    );
    cut(&line, columns)
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| UNKNOWN.to_string(), |rate| show_size(rate) + "/s")
}

/// All of a process, line by line.
pub(super) fn process_lines(detail: &TopProcessDetail, columns: usize) -> Vec<String> {
    let process = &detail.process;
    let mut lines = vec![
        format!(
            "process {} of {}: {}, state {}, parent {}{}",
            process.pid,
            printable(&process.user),
            printable(&process.name),
            printable(&process.state),
            process.parent_pid,
            process.job.map(|job| format!(", job {job}")).unwrap_or_default(),
        ),
        ShellWords(&process.command).to_string(),
        format!(
            "CPU {} %, {} since its start, resident {}, threads {}",
            cores(process.cpu_cores),
            show_seconds(process.cpu_seconds),
            show_size(process.memory_rss_bytes as f64),
            process.threads,
        ),
    ];
    lines.extend(reading("I/O", &detail.io, io_lines));
    lines.extend(reading("limits", &detail.limits, |limits| limit_lines(limits, columns)));
    lines.extend(reading("threads", &detail.thread_list, |threads| thread_lines(threads)));
    lines.extend(reading("open files", &detail.open_files, file_lines));
    lines.iter().map(|line| cut(line, columns)).collect()
}

fn reading<T>(
    what: &str,
    reading: &ProcessReading<T>,
    lines: impl FnOnce(&T) -> Vec<String>,
) -> Vec<String> {
    match &reading.value {
        Some(value) => lines(value),
        None => {
            let reason = reading.reason.as_deref().unwrap_or("not read");
            vec![format!("{what} unavailable: {}", printable(reason))]
        }
    }
}

fn io_lines(io: &TopIo) -> Vec<String> {
    let line = |what: &str, read: (u64, Option<f64>), written: (u64, Option<f64>)| {
        format!(
            "{what}: read {} ({}), written {} ({})",
            per_second(read.1),
            show_size(read.0 as f64),
            per_second(written.1),
            show_size(written.0 as f64),
        )
    };
    vec![
        line(
            "I/O by calls",
            (io.read_bytes, io.read_bytes_per_second),
            (io.written_bytes, io.written_bytes_per_second),
        ),
        line(
            "storage",
            (io.storage_read_bytes, io.storage_read_bytes_per_second),
            (io.storage_written_bytes, io.storage_written_bytes_per_second),
        ),
    ]
}

/// As many in a line as fit.
fn limit_lines(limits: &[TopLimit], columns: usize) -> Vec<String> {
    const TITLE: &str = "limits:";
    if limits.is_empty() {
        return vec![format!("{TITLE} none")];
    }
    let number =
        |limit: Option<u64>| limit.map_or("unlimited".to_string(), |limit| limit.to_string());
    let mut lines = vec![TITLE.to_string()];
    for limit in limits {
        let text =
            format!(" {} {}/{}", printable(&limit.name), number(limit.soft), number(limit.hard));
        match lines.last_mut().filter(|line| line.len() + text.len() <= columns) {
            Some(line) => *line += &text,
            None => lines.push(format!("       {text}")),
        }
    }
    lines
}

fn thread_lines(threads: &[TopThread]) -> Vec<String> {
    let title = format!("{:>7} S {:>6} {:>12} THREAD", "TID", "CPU%", "CPU TIME");
    let line = |thread: &TopThread| {
        format!(
            "{:>7} {} {:>6} {:>12} {}",
            thread.tid,
            printable(&thread.state.to_string()),
            cores(thread.cpu_cores),
            show_seconds(thread.cpu_seconds),
            printable(&thread.name),
        )
    };
    let mut sorted: Vec<&TopThread> = threads.iter().collect();
    let use_of = |thread: &TopThread| (thread.cpu_cores.unwrap_or(-1.0), thread.cpu_seconds);
    sorted.sort_by(|a, b| {
        let ((a, a_all), (b, b_all)) = (use_of(a), use_of(b));
        b.total_cmp(&a).then(b_all.total_cmp(&a_all))
    });
    std::iter::once(title).chain(sorted.into_iter().map(line)).collect()
}

fn file_lines(files: &TopOpenFiles) -> Vec<String> {
    let left_out = files.count.saturating_sub(files.list.len() as u64);
    let mut lines = vec![format!("{:>7} OPEN FILE ({})", "FD", files.count)];
    let file = |file: &weigh_schema::top_detail::TopFile| {
        format!("{:>7} {}", file.descriptor, printable(&file.target))
    };
    lines.extend(files.list.iter().map(file));
    if left_out > 0 {
        lines.push(format!("{left_out} more are not listed"));
    }
    lines
}
