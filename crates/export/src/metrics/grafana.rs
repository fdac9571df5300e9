//! Dashboards for Grafana, made of the metrics' declaration: an overview, and a row for each group with a panel per metric.

use serde_json::{Value, json};
use weigh_schema::node_metric::*;
use weigh_schema::running_job::RUNNING_JOB_METRICS;
use weigh_schema::{Group, METRICS, Metric, MetricKind, MetricScope, NODE_METRICS, Unit};

/// Where a dashboard's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// Anything that speaks PromQL.
    Prometheus,
    /// Elasticsearch or OpenSearch.
    Elasticsearch,
}

/// Panels of the overview: title, metrics, whether they add up.
const OVERVIEW: &[(&str, &[&Metric], bool)] = &[
    (
        "CPUs by state",
        &[
            &node_cpu_user_seconds_total,
            &node_cpu_nice_seconds_total,
            &node_cpu_system_seconds_total,
            &node_cpu_irq_seconds_total,
            &node_cpu_softirq_seconds_total,
            &node_cpu_iowait_seconds_total,
            &node_cpu_steal_seconds_total,
        ],
        true,
    ),
    ("Load", &[&node_load_1m_threads, &node_load_5m_threads, &node_load_15m_threads], false),
    (
        "Memory",
        &[&node_memory_total_bytes, &node_memory_available_bytes, &node_memory_free_bytes],
        false,
    ),
    ("Swap", &[&node_swap_total_bytes, &node_swap_free_bytes], false),
    ("Disk bytes", &[&node_disk_read_bytes_total, &node_disk_written_bytes_total], false),
    ("Disk busy", &[&node_disk_busy_seconds_total], false),
    ("Network bytes", &[&node_net_received_bytes_total, &node_net_sent_bytes_total], false),
    ("Temperature", &[&node_sensor_celsius, &node_gpu_celsius], false),
];

const PANEL_WIDTH: u64 = 12;
const PANEL_HEIGHT: u64 = 8;

/// The dashboard for a data source, as Grafana imports it, with a line break at its end.
pub fn dashboard(source: DataSource) -> String {
    let mut panels = Panels { source, panels: Vec::new(), next_id: 1, top: 0 };
    panels.push_overview();
    panels.push_row("Jobs", &RUNNING_JOB_METRICS.iter().collect::<Vec<_>>());
    Group::ALL.iter().chain(&[Group::Power]).for_each(|group| panels.push_group(*group));
    let dashboard = json!({
        "title": format!("weigh: nodes ({})", source.title()),
        "uid": format!("weigh-nodes-{}", source.kind()),
        "tags": ["weigh"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": source.variables()},
        "annotations": {"list": []},
        "panels": panels.panels,
    });
    // Texts and numbers alone are always written.
    serde_json::to_string_pretty(&dashboard).unwrap_or_default() + "\n"
}

impl DataSource {
    fn kind(self) -> &'static str {
        match self {
            DataSource::Prometheus => "prometheus",
            DataSource::Elasticsearch => "elasticsearch",
        }
    }

    fn title(self) -> &'static str {
        match self {
            DataSource::Prometheus => "Prometheus",
            DataSource::Elasticsearch => "Elasticsearch",
        }
    }

    fn reference(self) -> Value {
        json!({"type": self.kind(), "uid": "${datasource}"})
    }

    fn variables(self) -> Value {
        let query = match self {
            DataSource::Prometheus => {
                json!(format!("label_values({}, instance)", node_load_1m_threads.name))
            }
            DataSource::Elasticsearch => json!("{\"find\": \"terms\", \"field\": \"node\"}"),
        };
        json!([
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": self.kind()},
            {
                "name": "node", "label": "Node", "type": "query", "datasource": self.reference(),
                "query": query, "refresh": 2, "multi": true, "includeAll": true,
                "current": {"text": ["All"], "value": ["$__all"]},
            },
        ])
    }

    fn target(self, metric: &Metric, number: usize) -> Value {
        let mut target = match self {
            DataSource::Prometheus => prometheus_target(metric),
            DataSource::Elasticsearch => elasticsearch_target(metric),
        };
        target["refId"] = json!(format!("M{number}"));
        target["datasource"] = self.reference();
        target
    }
}

struct Panels {
    source: DataSource,
    panels: Vec<Value>,
    next_id: u64,
    top: u64,
}

impl Panels {
    fn push_overview(&mut self) {
        for (number, (title, metrics, adds_up)) in OVERVIEW.iter().enumerate() {
            let panel = self.panel(number as u64, title, "", metrics, *adds_up);
            self.panels.push(panel);
        }
        self.top += (OVERVIEW.len() as u64).div_ceil(2) * PANEL_HEIGHT;
    }

    fn push_group(&mut self, group: Group) {
        let of_node = NODE_METRICS.iter().copied().chain(METRICS.iter());
        let metrics: Vec<&Metric> =
            of_node.filter(|metric| metric.is_of_node() && metric.group == group).collect();
        if !metrics.is_empty() {
            self.push_row(group.title(), &metrics);
        }
    }

    /// A row that is closed at first: what is not open is not asked for.
    fn push_row(&mut self, title: &str, metrics: &[&Metric]) {
        let row_id = self.id();
        self.top += 1;
        let panels: Vec<Value> =
            (0..).zip(metrics).map(|(n, m)| self.panel(n, m.name, m.help, &[m], false)).collect();
        self.panels.push(json!({
            "id": row_id, "type": "row", "title": title, "collapsed": true,
            "gridPos": {"x": 0, "y": self.top - 1, "w": 24, "h": 1}, "panels": panels,
        }));
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn panel(
        &mut self,
        number: u64,
        title: &str,
        help: &str,
        metrics: &[&Metric],
        adds_up: bool,
    ) -> Value {
        let targets: Vec<Value> =
            metrics.iter().enumerate().map(|(n, m)| self.source.target(m, n)).collect();
        let stacking = if adds_up { "normal" } else { "none" };
        json!({
            "id": self.id(), "type": "timeseries", "title": title, "description": help,
            "datasource": self.source.reference(), "targets": targets,
            "gridPos": {
                "x": number % 2 * PANEL_WIDTH, "y": self.top + number / 2 * PANEL_HEIGHT,
                "w": PANEL_WIDTH, "h": PANEL_HEIGHT,
            },
            "fieldConfig": {"overrides": [], "defaults": {
                "unit": grafana_unit(metrics[0]),
                "custom": {"stacking": {"mode": stacking}, "fillOpacity": if adds_up { 30 } else { 0 }},
            }},
            "options": {
                "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
        })
    }
}

/// Labels that a panel tells series apart by, besides the node: cores are summed up.
fn label_names(scope: MetricScope) -> &'static [&'static str] {
    match scope {
        MetricScope::Node | MetricScope::Core => &[],
        MetricScope::Job => &["user", "job_id", "job_name"],
        MetricScope::Disk => &["disk"],
        MetricScope::Interface => &["interface"],
        MetricScope::Mount => &["mount"],
        MetricScope::Operation => &["mount", "operation"],
        MetricScope::Sensor => &["sensor"],
        MetricScope::PowerZone => &["zone"],
        MetricScope::Gpu => &["gpu"],
        MetricScope::ControlGroup => &["group"],
    }
}

fn is_counter(metric: &Metric) -> bool {
    metric.kind == MetricKind::Counter
}

fn prometheus_target(metric: &Metric) -> Value {
    let names = label_names(metric.scope);
    let selector = format!("{}{{instance=~\"$node\"}}", metric.name);
    let by = [&["instance"], names].concat().join(", ");
    let expression = match is_counter(metric) {
        true => format!("sum by ({by}) (rate({selector}[$__rate_interval]))"),
        false => selector,
    };
    let labels: String = names.iter().map(|name| format!(" {{{{{name}}}}}")).collect();
    json!({"expr": expression, "legendFormat": format!("{{{{instance}}}}{labels} {}", metric.help)})
}

/// Of a counter the growth in a second: of cores the mean over them.
fn elasticsearch_target(metric: &Metric) -> Value {
    let kind = if metric.scope == MetricScope::Core { "avg" } else { "max" };
    let field = format!("metrics.{}", metric.name);
    let mut metrics =
        vec![json!({"id": "1", "type": kind, "field": field, "hide": is_counter(metric)})];
    if is_counter(metric) {
        let settings = json!({"unit": "1s"});
        metrics.push(json!({"id": "5", "type": "derivative", "field": "1", "pipelineAgg": "1", "settings": settings}));
    }
    let terms = |id: &str, field: &str| {
        let settings =
            json!({"size": "100", "order": "desc", "orderBy": "_term", "min_doc_count": "1"});
        json!({"id": id, "type": "terms", "field": field, "settings": settings})
    };
    let mut buckets = vec![terms("2", "node")];
    if !label_names(metric.scope).is_empty() {
        buckets.push(terms("3", "instance"));
    }
    // A growth is refused by OpenSearch, and by Elasticsearch from 7 on, where empty buckets are left out.
    let least = if is_counter(metric) { "0" } else { "1" };
    let settings = json!({"interval": "auto", "min_doc_count": least});
    buckets.push(
        json!({"id": "4", "type": "date_histogram", "field": "@timestamp", "settings": settings}),
    );
    let instance = if buckets.len() == 3 { " {{term instance}}" } else { "" };
    json!({
        "query": format!("node:($node) AND _exists_:{field}"),
        "metrics": metrics, "bucketAggs": buckets, "timeField": "@timestamp",
        "alias": format!("{{{{term node}}}}{instance} {}", metric.help),
    })
}

/// Rates of seconds are parts of the time, those of joules watts.
fn grafana_unit(metric: &Metric) -> &'static str {
    match (metric.unit, is_counter(metric)) {
        (Unit::Bytes, true) => "Bps",
        (Unit::Bytes, false) => "bytes",
        (Unit::Seconds, true) | (Unit::Ratio, _) => "percentunit",
        (Unit::Seconds, false) => "s",
        (Unit::Count | Unit::Cores | Unit::Threads, true) => "cps",
        (Unit::Count | Unit::Cores | Unit::Threads, false) => "short",
        (Unit::Celsius, _) => "celsius",
        (Unit::Watts, _) | (Unit::Joules, true) => "watt",
        (Unit::Joules, false) => "joule",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_committed_dashboards_are_what_would_be_written() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana");
        for source in [DataSource::Prometheus, DataSource::Elasticsearch] {
            let path = folder.join(format!("weigh-nodes-{}.json", source.kind()));
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(committed == dashboard(source), "{} is stale: run `make docs`", path.display());
        }
    }

    #[test]
    fn every_metric_of_the_node_has_a_panel_and_every_panel_a_number_of_its_own() {
        for source in [DataSource::Prometheus, DataSource::Elasticsearch] {
            let dashboard: Value = serde_json::from_str(&dashboard(source)).unwrap();
            let panels = dashboard["panels"].as_array().unwrap();
            let inner = panels.iter().filter_map(|panel| panel["panels"].as_array()).flatten();
            let all: Vec<&Value> = panels.iter().chain(inner).collect();
            let mut ids: Vec<u64> = all.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
            ids.sort_unstable();
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
            for metric in NODE_METRICS.iter().copied().chain(&RUNNING_JOB_METRICS) {
                assert!(all.iter().any(|panel| panel["title"] == metric.name), "{}", metric.name);
            }
        }
    }
}
