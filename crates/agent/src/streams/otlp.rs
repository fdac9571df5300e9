//! What programs publish by OTLP: metrics of OpenTelemetry, as values of the stream `pushed`, and spans, as regions ([`ProgramSpans`]).
//!
//! Reads requests at an address of this machine alone. Whose the sender is says the kernel's list of sockets, and its bound is that
//! of `weigh push`. Emits gauges as they are, counters and histograms as totals; growth is added up. Refuses who is not known,
//! more values than a user may publish now, and more series than there is room for.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use weigh_collect::otlp::{MetricAttribute, MetricPoint, PointValue, each_metric, peer_user};
use weigh_schema::Unit;
use weigh_schema::stream::{MOST_NAME_BYTES, PushedSample};
use weigh_schema::update::Scope;

use super::spans::ProgramSpans;
use crate::otlp_intake::{IntakeSettings, OtlpIntake, OtlpMessage, OtlpReply, OtlpSignal};
use crate::rate_limit::RateLimit;

/// Connections, and bytes of a body, at most: they are in the agent's memory.
const CONNECTIONS: usize = 16;
const BODY_BYTES: usize = 256 << 10;
/// Sums that are kept of one user, and of all.
const SUMS_OF_A_USER: usize = 250;
const SUMS: usize = 1000;

/// The values of one message, and whose they are.
pub struct OtlpValues {
    /// The user that has sent them.
    pub user: u32,
    /// The values; their names and numbers are checked.
    pub samples: Vec<PushedSample>,
}

/// The socket, and sums of what grows.
pub struct OtlpInput {
    intake: OtlpIntake,
    sums: SumTable,
    /// Regions that spans make.
    pub spans: ProgramSpans,
    /// Data points that were refused since they were asked for.
    refused: u64,
}

/// What is named so by a user.
type SumKey = (u32, String, String);

#[derive(Default)]
struct SumTable(BTreeMap<SumKey, f64>);

impl SumTable {
    /// Adds growth; none where there is no room for the sum.
    fn add(&mut self, user: u32, sample: &PushedSample) -> Option<f64> {
        let key = (user, sample.scope.to_string(), sample.metric.clone());
        if !self.0.contains_key(&key) {
            let of_user = self.0.keys().filter(|(of, _, _)| *of == user).count();
            if of_user >= SUMS_OF_A_USER || self.0.len() >= SUMS {
                return None;
            }
        }
        let sum = self.0.entry(key).or_insert(0.0);
        *sum += sample.value;
        Some(*sum)
    }
}

impl OtlpInput {
    /// Listens there. Errors: the address is not this machine's own alone, or is taken.
    pub fn new(address: SocketAddr) -> io::Result<OtlpInput> {
        if !matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
            let why = "OTLP is taken at an address of this machine alone, as 127.0.0.1:4318";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let settings = IntakeSettings {
            token: None,
            signals: &[OtlpSignal::Metrics, OtlpSignal::Traces],
            accepts_others: false,
            connections: CONNECTIONS,
            body_bytes: BODY_BYTES,
        };
        let intake = OtlpIntake::new(TcpListener::bind(address)?, settings)?;
        let (sums, spans) = (SumTable::default(), ProgramSpans::default());
        Ok(OtlpInput { intake, sums, spans, refused: 0 })
    }

    /// Readable when something has come.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.intake.wake_fd()
    }

    /// Takes what has come, and counts it against its users' bound.
    pub fn receive(&mut self, of_users: &mut RateLimit, now: Instant) -> Vec<OtlpValues> {
        let (sums, refused, mut taken) = (&mut self.sums, &mut self.refused, Vec::new());
        let spans = &mut self.spans;
        self.intake.attend(&mut |message| match message.signal {
            OtlpSignal::Traces => spans.take(message, now),
            OtlpSignal::Metrics => match read(message, of_users, now) {
                Ok((user, read)) => {
                    *refused += read.left_out;
                    let samples = read.samples.into_iter().filter_map(|one| one.add_up(user, sums));
                    let samples: Vec<PushedSample> = samples.collect();
                    *refused += read.count - samples.len() as u64;
                    taken.push(OtlpValues { user, samples });
                    OtlpReply::Accepted
                }
                Err(reply) => reply,
            },
        });
        taken
    }

    /// How many data points and messages were refused since.
    pub fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused) + self.intake.take_refused().values().sum::<u64>()
    }
}

/// Values of one message.
#[derive(Default)]
struct ReadMessage {
    samples: Vec<ReadSample>,
    /// How many these are.
    count: u64,
    left_out: u64,
}

/// A value, and whether it is growth since the one before.
struct ReadSample {
    sample: PushedSample,
    is_growth: bool,
}

impl ReadSample {
    /// The total, of what is growth; none where there is no room for it.
    fn add_up(self, user: u32, sums: &mut SumTable) -> Option<PushedSample> {
        let ReadSample { mut sample, is_growth } = self;
        if is_growth {
            sample.value = sums.add(user, &sample)?;
        }
        Some(sample)
    }
}

/// All values of a message are taken, or none; what is busy comes again, so nothing is added up before.
fn read(
    message: OtlpMessage<'_>,
    of_users: &mut RateLimit,
    now: Instant,
) -> Result<(u32, ReadMessage), OtlpReply> {
    let OtlpMessage { body, stream, peer, .. } = message;
    let user = peer
        .find(|| peer_user(stream))
        .ok_or(OtlpReply::Refused("nobody knows who has sent it"))?;
    let mut read = ReadMessage::default();
    let left_out = each_metric(body, &mut |point| {
        let before = read.samples.len();
        read.samples.extend(samples_of(&point));
        read.left_out += u64::from(read.samples.len() == before);
    });
    read.left_out += left_out.map_err(|_| OtlpReply::Refused("metrics that make no sense"))?;
    read.count = read.samples.len() as u64;
    let count = u32::try_from(read.count).unwrap_or(u32::MAX);
    if !of_users.allows_ever(count) {
        return Err(OtlpReply::Refused("more values than a user may publish at once"));
    }
    if !of_users.has(user.into(), count, now) {
        return Err(OtlpReply::Busy);
    }
    of_users.take(user.into(), count, now);
    Ok((user, read))
}

/// Values that a data point is; none where its name is not plain or a number is none.
fn samples_of(point: &MetricPoint<'_>) -> Vec<ReadSample> {
    if point.name.is_empty() {
        return Vec::new();
    }
    let (unit, factor) = unit_of(point.unit);
    let name = metric_name(point.name, unit);
    let scope = scope_of(point);
    let sample = |name: String, value: f64, unit: Option<Unit>, is_growth: bool| {
        let sample = PushedSample { scope: scope.clone(), metric: name, value, unit, query: None };
        sample.check().is_ok().then_some(ReadSample { sample, is_growth })
    };
    let total = |name: &str| format!("{}_total", name.trim_end_matches("_total"));
    let found = match point.value {
        PointValue::Gauge(value) => [sample(name, value * factor, unit, false), None],
        PointValue::Counter { value, is_growth } => {
            [sample(total(&name), value * factor, unit, is_growth), None]
        }
        PointValue::Distribution { count, sum, is_growth } => [
            sample(total(&name), sum * factor, unit, is_growth),
            sample(
                format!("{}_samples_total", metric_name(point.name, None)),
                count,
                Some(Unit::Count),
                is_growth,
            ),
        ],
    };
    found.into_iter().flatten().collect()
}

/// What is no letter and no digit becomes `_`; the unit is its end, as of all metrics.
fn metric_name(name: &str, unit: Option<Unit>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let unit = unit.filter(|unit| *unit != Unit::Count).map(|unit| format!("_{unit}"));
    match unit {
        Some(unit) if !name.trim_end_matches("_total").ends_with(&unit) => name + &unit,
        _ => name,
    }
}

/// A unit of UCUM, and what one of it is in weigh's.
fn unit_of(ucum: &str) -> (Option<Unit>, f64) {
    let (unit, factor) = match ucum {
        "s" => (Unit::Seconds, 1.0),
        "ms" => (Unit::Seconds, 1e-3),
        "us" => (Unit::Seconds, 1e-6),
        "ns" => (Unit::Seconds, 1e-9),
        "min" => (Unit::Seconds, 60.0),
        "h" => (Unit::Seconds, 3600.0),
        "By" => (Unit::Bytes, 1.0),
        "kBy" => (Unit::Bytes, 1e3),
        "MBy" => (Unit::Bytes, 1e6),
        "KiBy" => (Unit::Bytes, 1024.0),
        "MiBy" => (Unit::Bytes, 1024.0 * 1024.0),
        "GiBy" => (Unit::Bytes, 1024.0 * 1024.0 * 1024.0),
        "Cel" => (Unit::Celsius, 1.0),
        "W" => (Unit::Watts, 1.0),
        "J" => (Unit::Joules, 1.0),
        // Things, as `{request}`.
        text if text.starts_with('{') => (Unit::Count, 1.0),
        _ => return (None, 1.0),
    };
    (Some(unit), factor)
}

/// `node`; of a service `service:NAME`, with its attributes behind it in the order of their keys.
fn scope_of(point: &MetricPoint<'_>) -> Scope {
    let mut attributes: Vec<&MetricAttribute<'_>> = point.attributes.iter().collect();
    attributes.sort();
    if point.service.is_empty() && attributes.is_empty() {
        return Scope::Node;
    }
    let mut text = format!("service:{}", plain_scope(point.service));
    for (key, value) in attributes {
        text += &format!(":{}:{}", plain_scope(key), plain_scope(value));
    }
    Scope::from(cut_scope(text))
}

fn plain_scope(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_./@-".contains(c) { c } else { '_' };
    text.chars().map(plain).collect()
}

/// One that is too long ends in a number that is made of all of it.
fn cut_scope(text: String) -> String {
    if text.len() <= MOST_NAME_BYTES {
        return text;
    }
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // It has plain letters alone, of one byte each.
    format!("{}-{hash:016x}", &text[..MOST_NAME_BYTES - 17])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point<'a>(
        name: &'a str,
        unit: &'a str,
        attributes: &'a [MetricAttribute<'a>],
        value: PointValue,
    ) -> MetricPoint<'a> {
        MetricPoint { service: "shop", name, unit, attributes, value }
    }

    fn rows(point: &MetricPoint<'_>) -> Vec<(String, String, f64, Option<Unit>)> {
        let found = samples_of(point).into_iter().map(|one| one.sample);
        found.map(|one| (one.scope.to_string(), one.metric, one.value, one.unit)).collect()
    }

    #[test]
    fn a_point_has_a_plain_name_base_units_and_a_scope() {
        let attributes = [("b".into(), "<x y>".into()), ("a".into(), "1".into())];
        let gauge = point("queue.length", "{job}", &attributes, PointValue::Gauge(17.0));
        let scope = "service:shop:a:1:b:_x_y_".to_string();
        assert_eq!(rows(&gauge), [(scope, "queue_length".to_string(), 17.0, Some(Unit::Count))]);
        let value = PointValue::Distribution { count: 4.0, sum: 320.0, is_growth: false };
        let service = || "service:shop".to_string();
        let expected = [
            (service(), "http_took_seconds_total".to_string(), 0.32, Some(Unit::Seconds)),
            (service(), "http_took_samples_total".to_string(), 4.0, Some(Unit::Count)),
        ];
        assert_eq!(rows(&point("http.took", "ms", &[], value)), expected);
        let counter = PointValue::Counter { value: 3.0, is_growth: true };
        assert_eq!(rows(&point("sent_bytes_total", "KiBy", &[], counter))[0].1, "sent_bytes_total");
        assert_eq!(rows(&point("sent_bytes_total", "KiBy", &[], counter))[0].2, 3072.0);
        for wrong in ["", "7up", "a\u{e4}\u{1b}".repeat(60).as_str()] {
            assert_eq!(rows(&point(wrong, "1", &[], counter)), [], "{wrong}");
        }
        assert_eq!(rows(&point("a", "1", &[], PointValue::Gauge(f64::NAN))), []);
    }

    #[test]
    fn a_long_scope_is_cut_and_stays_apart_from_others() {
        let long = |end: &str| [("k".into(), ("v".repeat(300) + end).into())];
        let (one, other) = (long("1"), long("2"));
        let scope =
            |attributes| rows(&point("a", "1", attributes, PointValue::Gauge(1.0)))[0].0.clone();
        assert!(scope(&one) != scope(&other) && scope(&one).len() == MOST_NAME_BYTES);
    }

    #[test]
    fn growth_is_added_up_for_each_user_within_a_bound() {
        let mut sums = SumTable::default();
        let sample = |name: &str, value| PushedSample {
            scope: Scope::Node,
            metric: name.to_string(),
            value,
            unit: None,
            query: None,
        };
        assert_eq!(sums.add(7, &sample("a_total", 3.0)), Some(3.0));
        assert_eq!(sums.add(7, &sample("a_total", 4.0)), Some(7.0));
        assert_eq!(sums.add(8, &sample("a_total", 1.0)), Some(1.0));
        let more =
            (1..SUMS_OF_A_USER).all(|n| sums.add(7, &sample(&format!("b{n}"), 1.0)).is_some());
        assert!(more && sums.add(7, &sample("c", 1.0)).is_none());
        assert_eq!(sums.add(7, &sample("a_total", 0.5)), Some(7.5), "what is there goes on");
        assert!(sums.add(8, &sample("c", 1.0)).is_some(), "another user has its own room");
    }
}
