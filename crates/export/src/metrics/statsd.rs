//! StatsD by UDP: gauges as they are, counters as growth since the report before.
//!
//! Of a counter's first report nothing is sent: StatsD adds up, and what was counted before is not growth. A datagram that
//! cannot be handed to the kernel is lost and counted; what is lost on the way nobody knows.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;

use weigh_schema::printable::in_words;
use weigh_schema::top::TopReport;
use weigh_schema::{MetricKind, Number};

use super::batch::BatchBuilder;
use super::exporter::{ExportError, ExporterKind, ExporterStatus, MetricExporter};
use super::openmetrics::number_text;
use super::point::Point;
use super::scope_label::ScopeLabels;

/// Names hold the scope: `weigh.n1.node_disk_reads_total.sda`.
pub const KIND: ExporterKind = ExporterKind {
    name: "statsd",
    usage: "statsd=HOST:PORT",
    open: |address| open(KIND.name, plain_name, address),
};

/// Scopes are tags, as DogStatsD, Telegraf and statsd_exporter read them.
pub const TAGGED_KIND: ExporterKind = ExporterKind {
    name: "dogstatsd",
    usage: "dogstatsd=HOST:PORT",
    open: |address| open(TAGGED_KIND.name, tagged_name, address),
};

/// Bytes of a datagram, at most: it fits into a frame of Ethernet by IPv6.
const DATAGRAM_BYTES: usize = 1432;
/// Bytes that wait, at most.
const BUFFERED_BYTES: usize = 1 << 20;

/// What stands before and behind value and type.
type Name = fn(node: &str, point: &Point) -> (String, String);

struct Statsd {
    name: &'static str,
    naming: Name,
    socket: UdpSocket,
    builder: BatchBuilder,
    /// Values of counters at the report before.
    previous: HashMap<(&'static str, Arc<ScopeLabels>), Number>,
    datagrams: Vec<Datagram>,
    status: ExporterStatus,
}

#[derive(Default)]
struct Datagram {
    text: String,
    values: u64,
}

fn open(
    name: &'static str,
    naming: Name,
    address: &str,
) -> Result<Box<dyn MetricExporter>, String> {
    let status = ExporterStatus { exporter: name, ..ExporterStatus::default() };
    let (builder, previous, datagrams) = Default::default();
    let socket = connect(address)?;
    Ok(Box::new(Statsd { name, naming, socket, builder, previous, datagrams, status }))
}

fn connect(address: &str) -> Result<UdpSocket, String> {
    let wrong =
        |error: std::io::Error| format!("HOST:PORT is expected: {}", in_words(error.to_string()));
    let address = address.to_socket_addrs().map_err(wrong)?.next();
    let address = address.ok_or("HOST:PORT is expected: the name has no address")?;
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket));
    let failed =
        |error: std::io::Error| format!("cannot make a socket: {}", in_words(error.to_string()));
    let socket = socket.map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket)
}

impl Statsd {
    fn push(&mut self, node: &str, point: &Point, growth: Option<Number>) {
        let (name, tags) = (self.naming)(node, point);
        let line = line(&name, &tags, point, growth);
        let waiting: usize = self.datagrams.iter().map(|datagram| datagram.text.len()).sum();
        if waiting + line.len() > BUFFERED_BYTES || line.len() > DATAGRAM_BYTES {
            self.status.lost_values += 1;
            return;
        }
        let has_room = |datagram: &&mut Datagram| datagram.text.len() + line.len() < DATAGRAM_BYTES;
        match self.datagrams.last_mut().filter(has_room) {
            Some(datagram) => {
                datagram.text += "\n";
                datagram.text += &line;
                datagram.values += 1;
            }
            None => self.datagrams.push(Datagram { text: line, values: 1 }),
        }
    }

    /// Growth of a counter since the report before; `None` at its first.
    fn growth(
        previous: &HashMap<(&'static str, Arc<ScopeLabels>), Number>,
        point: &Point,
    ) -> Option<Number> {
        let before = previous.get(&(point.metric.name, point.scope.clone()))?;
        Some(match (*before, point.value) {
            // Below what it was: it began again at 0.
            (Number::Whole(before), Number::Whole(now)) => {
                Number::Whole(now.checked_sub(before).unwrap_or(now))
            }
            (before, now) => {
                let growth = now.as_f64() - before.as_f64();
                Number::Real(if growth < 0.0 { now.as_f64() } else { growth })
            }
        })
    }
}

impl MetricExporter for Statsd {
    fn name(&self) -> &'static str {
        self.name
    }

    fn take(&mut self, report: &TopReport) {
        let batch = self.builder.build(report);
        self.status.left_out_values += batch.left_out;
        let previous = std::mem::take(&mut self.previous);
        for point in &batch.points {
            if point.metric.kind != MetricKind::Counter {
                self.push(&batch.node, point, None);
                continue;
            }
            if let Some(growth) = Self::growth(&previous, point) {
                self.push(&batch.node, point, Some(growth));
            }
            self.previous.insert((point.metric.name, point.scope.clone()), point.value);
        }
    }

    fn send(&mut self) -> Result<(), ExportError> {
        let mut last = Ok(());
        for datagram in std::mem::take(&mut self.datagrams) {
            match self.socket.send(datagram.text.as_bytes()) {
                Ok(_) => self.status.sent_values += datagram.values,
                Err(error) => {
                    self.status.lost_values += datagram.values;
                    let problem = in_words(error.to_string());
                    self.status.last_error = Some(problem.clone());
                    last = Err(ExportError::Attempt { exporter: self.name, problem });
                }
            }
        }
        last
    }

    fn status(&self) -> ExporterStatus {
        self.status.clone()
    }
}

/// A gauge below 0 is set to 0 first: a sign would be taken for a change.
fn line(name: &str, tags: &str, point: &Point, growth: Option<Number>) -> String {
    let mut line = String::new();
    let (value, kind) = match growth {
        Some(growth) => (growth, 'c'),
        None => (point.value, 'g'),
    };
    if growth.is_none() && value.as_f64() < 0.0 {
        let _ = writeln!(line, "{name}:0|g{tags}");
    }
    let _ = write!(line, "{name}:{}|{kind}{tags}", number_text(value));
    line
}

fn plain_name(node: &str, point: &Point) -> (String, String) {
    let mut name = format!("weigh.{}.{}", word(node), point.metric.name);
    for (_, value) in point.scope.labels.iter().rev() {
        name = name + "." + &word(value);
    }
    (name, String::new())
}

fn tagged_name(node: &str, point: &Point) -> (String, String) {
    let labels = point.scope.labels.iter().map(|(name, value)| format!(",{name}:{}", tag(value)));
    (point.metric.name.to_string(), format!("|#node:{}{}", tag(node), labels.collect::<String>()))
}

/// Letters, digits, `-` and `_`; a dot would be a step of the name.
fn word(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    text.chars().map(plain).collect()
}

fn tag(text: &str) -> String {
    text.replace(|c: char| "|,#:\n\\".contains(c) && c != ':' || c.is_control(), "_")
}
