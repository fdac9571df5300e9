//! What comes in by UDP adds up to what was counted.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

use weigh_export::metrics::exporter;
use weigh_schema::update::Scope;

use crate::reports;

fn lines(kind: &str) -> Vec<String> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut exporter = exporter(&format!("{kind}={}", socket.local_addr().unwrap())).unwrap();
    let mut lines = Vec::new();
    for report in reports() {
        exporter.take(&report);
        exporter.send().unwrap();
        let mut datagram = [0; 65536];
        while let Ok(bytes) = socket.recv(&mut datagram) {
            assert!(bytes <= 1432);
            let text = std::str::from_utf8(&datagram[..bytes]).unwrap();
            lines.extend(text.split('\n').map(str::to_string));
        }
    }
    assert_eq!(exporter.status().lost_values, 0);
    lines
}

#[test]
fn counters_grow_by_what_they_grew_and_gauges_are_what_they_are() {
    let lines = lines("statsd");
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for line in &lines {
        let (name, value) = line.split_once(':').unwrap();
        if let Some(growth) = value.strip_suffix("|c") {
            *sums.entry(name).or_default() += growth.parse::<f64>().unwrap();
        }
    }
    let value = |report: usize, scope: &str, metric: &str| {
        reports()[report].metrics[&Scope::from(scope.to_string())][metric].value.unwrap().as_f64()
    };
    let growth = |scope, metric| value(1, scope, metric) - value(0, scope, metric);
    assert_eq!(sums["weigh.node1.node_forks_total"], growth("node", "node_forks_total"));
    assert!(sums["weigh.node1.node_forks_total"] > 0.0);
    let user = sums["weigh.node1.node_cpu_user_seconds_total.1"];
    assert!((user - growth("core:1", "node_cpu_user_seconds_total")).abs() < 1e-9);
    let sensor = "weigh.node1.node_sensor_celsius.hwmon0_coretemp_Package_id_0";
    let at = lines.iter().position(|line| *line == format!("{sensor}:0|g")).unwrap();
    assert_eq!(lines[at + 1], format!("{sensor}:-3.5|g"), "a sign alone would be a change");
    assert!(lines.iter().all(|line| line.matches([':', '|']).count() == 2), "no name makes a line");
}

#[test]
fn with_tags_names_are_those_of_the_metrics() {
    let lines = lines("dogstatsd");
    assert!(
        lines.contains(
            &"node_mount_operations_total:8|c|#node:node1,mount:/scratch,operation:READ"
                .to_string()
        ) || lines.iter().any(|line| line.starts_with("node_mount_operations_total:")
            && line.ends_with("|c|#node:node1,mount:/scratch,operation:READ"))
    );
    assert!(lines.iter().all(|line| line.matches(['|', '#']).count() == 3), "{lines:?}");
}
