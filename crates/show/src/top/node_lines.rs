//! The lines about the node.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use weigh_schema::amount::show_size;
use weigh_schema::event::CollectorState;
use weigh_schema::node_metric::*;
use weigh_schema::printable::printable;
use weigh_schema::top::{CoreUse, TopReport, TopValue};
use weigh_schema::update::Scope;
use weigh_schema::{Metric, metric_name};

use super::view::UNKNOWN;

/// All of them; cores take as many as they need, at most four.
pub(super) fn lines(report: &TopReport, color: bool, columns: usize) -> Vec<Line<'static>> {
    let node = NodeValues { report };
    let mut lines = vec![node.head(), node.cpu(), node.memory()];
    lines.push(Line::raw(devices("disks", "no disk has worked", node.disks(), columns)));
    lines.push(Line::raw(devices("net", "no interface", node.interfaces(), columns)));
    lines.extend(cores(&report.cores, color, columns));
    lines.extend(without_data(report));
    lines
}

struct NodeValues<'a> {
    report: &'a TopReport,
}

fn shown(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_string(), show)
}

fn percent(ratio: Option<f64>) -> String {
    shown(ratio, |ratio| format!("{:.0}%", ratio * 100.0))
}

fn size(bytes: Option<f64>) -> String {
    shown(bytes, show_size)
}

fn count(number: Option<f64>) -> String {
    shown(number, |number| format!("{number:.0}"))
}

impl NodeValues<'_> {
    fn point(&self, scope: &Scope, name: &str) -> Option<&TopValue> {
        self.report.metrics.get(scope)?.get(name)
    }

    fn value(&self, metric: &Metric) -> Option<f64> {
        self.point(&Scope::Node, metric.name)?.value.map(|value| value.as_f64())
    }

    fn rate(&self, scope: &Scope, name: &str) -> Option<f64> {
        self.point(scope, name)?.per_second.flatten()
    }

    fn head(&self) -> Line<'static> {
        let load = [&node_load_1m_threads, &node_load_5m_threads, &node_load_15m_threads];
        let load =
            load.map(|metric| shown(self.value(metric), |load| format!("{load:.2}"))).join(" ");
        let time = self.report.time.strftime("%H:%M:%S UTC");
        Line::from(vec![
            Span::styled(
                printable(&self.report.node).into_owned(),
                Style::new().add_modifier(Modifier::BOLD),
            ),
            Span::raw(format!(
                "  {time}  load {load}  processes {}  threads {}  open files {}",
                count(self.value(&node_processes)),
                count(self.value(&node_threads)),
                count(self.value(&node_files_open)),
            )),
        ])
    }

    /// Parts of the time of all CPUs.
    fn cpu(&self) -> Line<'static> {
        let cores = self.report.cores.len();
        let part = |metrics: &[&Metric]| {
            let rates = metrics.iter().map(|metric| self.rate(&Scope::Node, metric.name));
            percent(
                rates.sum::<Option<f64>>().filter(|_| cores > 0).map(|rate| rate / cores as f64),
            )
        };
        let cpus = if cores == 1 { "CPU" } else { "CPUs" };
        let pressure = |name| percent(self.rate(&Scope::Node, name));
        Line::raw(format!(
            "{cores} {cpus}: user {} system {} I/O wait {} irq {} steal {}  pressure: cpu {} memory {} io {}",
            part(&[&node_cpu_user_seconds_total, &node_cpu_nice_seconds_total]),
            part(&[&node_cpu_system_seconds_total]),
            part(&[&node_cpu_iowait_seconds_total]),
            part(&[&node_cpu_irq_seconds_total, &node_cpu_softirq_seconds_total]),
            part(&[&node_cpu_steal_seconds_total]),
            pressure(metric_name::node_pressure_cpu_some_seconds_total),
            pressure(metric_name::node_pressure_memory_some_seconds_total),
            pressure(metric_name::node_pressure_io_some_seconds_total),
        ))
    }

    fn memory(&self) -> Line<'static> {
        let used = |all: &Metric, free: &Metric| Some(self.value(all)? - self.value(free)?);
        Line::raw(format!(
            "memory: used {} of {}, available {}  swap: used {}  OOM kills {}",
            size(used(&node_memory_total_bytes, &node_memory_available_bytes)),
            size(self.value(&node_memory_total_bytes)),
            size(self.value(&node_memory_available_bytes)),
            size(used(&node_swap_total_bytes, &node_swap_free_bytes)),
            count(self.value(&node_oom_kills_total)),
        ))
    }

    fn disks(&self) -> Vec<(f64, String)> {
        let disk = |scope: &Scope| {
            let Scope::Disk(name) = scope else { return None };
            let rate = |metric: &Metric| self.rate(scope, metric.name);
            let (read, written) =
                (rate(&node_disk_read_bytes_total), rate(&node_disk_written_bytes_total));
            let busy = rate(&node_disk_busy_seconds_total).map(|busy| busy.min(1.0));
            Some((
                read.unwrap_or_default() + written.unwrap_or_default(),
                format!(
                    "{} r {}/s w {}/s busy {}",
                    printable(name),
                    size(read),
                    size(written),
                    percent(busy)
                ),
            ))
        };
        self.report.metrics.keys().filter_map(disk).collect()
    }

    fn interfaces(&self) -> Vec<(f64, String)> {
        let interface = |scope: &Scope| {
            let Scope::Interface(name) = scope else { return None };
            let rate = |metric: &Metric| self.rate(scope, metric.name);
            let (received, sent) =
                (rate(&node_net_received_bytes_total), rate(&node_net_sent_bytes_total));
            Some((
                received.unwrap_or_default() + sent.unwrap_or_default(),
                format!("{} in {}/s out {}/s", printable(name), size(received), size(sent)),
            ))
        };
        self.report.metrics.keys().filter_map(interface).collect()
    }
}

/// The busiest devices of a kind, as many as fit; how many there are besides.
fn devices(kind: &str, none: &str, mut found: Vec<(f64, String)>, columns: usize) -> String {
    if found.is_empty() {
        return format!("{kind}: {none}");
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut line = format!("{kind}:");
    let all = found.len();
    for (at, (_, text)) in found.into_iter().enumerate() {
        if at > 0 && line.chars().count() + text.chars().count() + 14 > columns {
            return format!("{line}  and {} more", all - at);
        }
        line += &format!(" {text}{}", if at + 1 < all { "," } else { "" });
    }
    line
}

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// From little to much, for the colour-blind as well: blue, yellow, red beside the height of the bar.
const COLORS: [u8; 8] = [24, 31, 38, 114, 178, 214, 208, 196];
/// Lines of cores: a machine with more is shown by groups.
const CORE_LINES: usize = 4;

/// One cell for each CPU, or for so many of them, the busiest counting.
fn cores(cores: &[CoreUse], color: bool, columns: usize) -> Vec<Line<'static>> {
    const TITLE: &str = "cores ";
    if cores.is_empty() {
        return vec![Line::raw(format!("{TITLE}{UNKNOWN}"))];
    }
    let per_line = columns.saturating_sub(TITLE.len()).max(1);
    let group = cores.len().div_ceil(per_line * CORE_LINES);
    let cells: Vec<Span<'static>> = cores.chunks(group).map(|group| cell(group, color)).collect();
    let line = |(number, cells): (usize, &[Span<'static>])| {
        let title = if number == 0 { TITLE } else { "      " };
        let mut spans = vec![Span::raw(title)];
        spans.extend(cells.iter().cloned());
        Line::from(spans)
    };
    cells.chunks(per_line).enumerate().map(line).collect()
}

fn cell(group: &[CoreUse], color: bool) -> Span<'static> {
    let busiest = group.iter().filter_map(|core| core.busy_ratio).reduce(f64::max);
    let Some(ratio) = busiest else { return Span::raw("?") };
    let level = ((ratio * 8.0) as usize).min(7);
    let style = if color { Style::new().fg(Color::Indexed(COLORS[level])) } else { Style::new() };
    Span::styled(BARS[level].to_string(), style)
}

/// Collectors that had values and have none now.
fn without_data(report: &TopReport) -> Option<Line<'static>> {
    let since = |collector: &weigh_schema::top::TopCollector| {
        let seconds =
            collector.no_data_seconds.filter(|_| collector.status == CollectorState::Degraded)?;
        Some(format!("{} for {seconds:.0} s", collector.name))
    };
    let found: Vec<String> = report.collectors.iter().filter_map(since).collect();
    let style = Style::new().add_modifier(Modifier::BOLD);
    (!found.is_empty())
        .then(|| Line::styled(format!("no data: {} (s: why)", found.join(", ")), style))
}
