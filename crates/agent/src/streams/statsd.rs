//! What programs publish by datagrams of StatsD: added up, and written to the stream once a second.
//!
//! Reads datagrams at an address of this machine alone; anybody on it can send some, and the kernel does not tell who. So
//! all of them together have one bound: so many names, and a record of each in a second.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use weigh_collect::statsd::{StatsdKind, StatsdValue, each_value};
use weigh_schema::Unit;
use weigh_schema::stream::PushedSample;
use weigh_schema::update::Scope;

/// Names that are kept; values of others are refused.
const MOST_NAMES: usize = 500;
/// Datagrams that are taken before others are served.
const AT_ONCE: usize = 64;
/// Between two records of one metric.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_BYTES: usize = 1 << 16;

/// What has come of one name.
#[derive(Clone, Copy, Debug, Default)]
struct StatsdMetric {
    gauge: Option<f64>,
    counted: Option<f64>,
    /// Sum of milliseconds, and how many there were.
    timed: Option<(f64, f64)>,
    is_changed: bool,
}

/// The socket, and what has come.
pub struct StatsdInput {
    socket: UdpSocket,
    metrics: BTreeMap<String, StatsdMetric>,
    due: Option<Instant>,
    /// Values and lines that were refused since they were asked for.
    refused: u64,
}

impl StatsdInput {
    /// Listens there. Errors: the address is not this machine's own alone, or is taken.
    pub fn new(address: SocketAddr) -> io::Result<StatsdInput> {
        if !address.ip().is_loopback() {
            let why = "StatsD is taken at an address of this machine alone, as 127.0.0.1:8125";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(StatsdInput { socket, metrics: BTreeMap::new(), due: None, refused: 0 })
    }

    /// Readable when something has come.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// When records are to be written.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Takes what has come.
    pub fn receive(&mut self, now: Instant) {
        let mut bytes = vec![0; MOST_BYTES];
        for _ in 0..AT_ONCE {
            let Ok(length) = self.socket.recv(&mut bytes) else { return };
            let metrics = &mut self.metrics;
            let mut without_room = 0;
            let refused = each_value(&bytes[..length], &mut |value| {
                without_room += u64::from(!take(metrics, value));
            });
            self.refused += refused + without_room;
            self.due.get_or_insert(now + PAUSE);
        }
    }

    /// What has changed, if it is time; and how many values were refused since.
    pub fn take_samples(&mut self, now: Instant) -> Option<(Vec<PushedSample>, u64)> {
        self.due.take_if(|due| *due <= now)?;
        let mut samples = Vec::new();
        for (name, metric) in self.metrics.iter_mut().filter(|(_, metric)| metric.is_changed) {
            metric.is_changed = false;
            samples.extend(metric.samples(name));
        }
        Some((samples, std::mem::take(&mut self.refused)))
    }
}

impl StatsdMetric {
    fn samples(&self, name: &str) -> Vec<PushedSample> {
        let sample = |suffix: &str, value: f64, unit: Option<Unit>| PushedSample {
            scope: Scope::Node,
            metric: format!("{name}{suffix}"),
            value,
            unit,
            query: None,
        };
        let gauge = self.gauge.map(|value| sample("", value, None));
        let counted = self.counted.map(|value| sample("_total", value, Some(Unit::Count)));
        let timed = self.timed.map(|(sum, count)| {
            [
                sample("_seconds_total", sum * 1e-3, Some(Unit::Seconds)),
                sample("_samples_total", count, Some(Unit::Count)),
            ]
        });
        let samples = gauge.into_iter().chain(counted).chain(timed.into_iter().flatten());
        samples.filter(|sample| sample.check().is_ok()).collect()
    }
}

/// Whether there is room for the name, and it is plain.
fn take(metrics: &mut BTreeMap<String, StatsdMetric>, found: StatsdValue<'_>) -> bool {
    let name: String =
        found.name.chars().map(|c| if "./-".contains(c) { '_' } else { c }).collect();
    let probe = PushedSample {
        scope: Scope::Node,
        metric: name.clone() + "_seconds_total",
        value: 0.0,
        unit: None,
        query: None,
    };
    if probe.check().is_err() || (metrics.len() >= MOST_NAMES && !metrics.contains_key(&name)) {
        return false;
    }
    let metric = metrics.entry(name).or_default();
    metric.is_changed = true;
    match found.kind {
        StatsdKind::Gauge => metric.gauge = Some(found.value),
        StatsdKind::GaugeChange => *metric.gauge.get_or_insert(0.0) += found.value,
        StatsdKind::Counter => *metric.counted.get_or_insert(0.0) += found.value,
        StatsdKind::Timer => {
            let (sum, count) = metric.timed.get_or_insert((0.0, 0.0));
            *sum += found.value * found.count;
            *count += found.count;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_added_up_and_written_once_a_second() {
        let mut input = StatsdInput::new("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = input.socket.local_addr().unwrap();
        let now = Instant::now();
        for text in
            ["a.b:3|c\na.b:4|c|@0.5", "q:17|g\nq:-4.5|g", "t:320|ms\nt:80|ms|@0.5", "<b>:1|c\nx"]
        {
            sender.send_to(text.as_bytes(), to).unwrap();
        }
        input.receive(now);
        assert!(input.take_samples(now).is_none());
        let (samples, refused) = input.take_samples(now + PAUSE).unwrap();
        let found: Vec<(&str, f64)> =
            samples.iter().map(|sample| (sample.metric.as_str(), sample.value)).collect();
        let expected =
            [("a_b_total", 11.0), ("q", 12.5), ("t_seconds_total", 0.48), ("t_samples_total", 3.0)];
        assert_eq!((&found[..], refused), (&expected[..], 2));
        assert!(input.take_samples(now + PAUSE * 9).is_none(), "nothing has come since");
        assert!(StatsdInput::new("192.0.2.1:1".parse().unwrap()).is_err());
    }

    #[test]
    fn names_have_a_bound() {
        let mut metrics = BTreeMap::new();
        let value = |name| StatsdValue { name, value: 1.0, kind: StatsdKind::Counter, count: 1.0 };
        let names: Vec<String> = (0..MOST_NAMES).map(|number| format!("n{number}")).collect();
        assert!(names.iter().all(|name| take(&mut metrics, value(name))));
        assert!(!take(&mut metrics, value("another")) && take(&mut metrics, value("n7")));
        let long = "a".repeat(200);
        assert!(!take(&mut metrics, value(&long)));
    }
}
