//! Metrics of OpenTelemetry, as programs export them: `ExportMetricsServiceRequest` in protobuf.
//!
//! Reads the message's bytes; emits a [`MetricPoint`] for each data point of a gauge, a sum or a histogram. Of summaries and
//! exponential histograms nothing is emitted, and they are counted. Refuses bytes that are no such message.

use std::borrow::Cow;

use super::fields::{OtlpRefusal, Value, cut, each_field, each_message};

/// Attributes of one data point, at most; what is beyond is left out.
const MOST_ATTRIBUTES: usize = 16;
/// `AGGREGATION_TEMPORALITY_DELTA`.
const DELTA: u64 = 1;
/// Of a data point: it has no value (`DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`).
const NO_VALUE: u64 = 1;

/// What a data point says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PointValue {
    /// What something is now: a gauge, or a sum that also falls.
    Gauge(f64),
    /// What has been counted.
    Counter {
        /// Since the start, or since the point before.
        value: f64,
        /// Since the point before.
        is_growth: bool,
    },
    /// What has been measured how often.
    Distribution {
        /// How often.
        count: f64,
        /// All of it added up.
        sum: f64,
        /// Since the point before.
        is_growth: bool,
    },
}

/// Key and value of an attribute.
pub type MetricAttribute<'a> = (Cow<'a, str>, Cow<'a, str>);

/// One data point.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPoint<'a> {
    /// `service.name` of the resource; empty where it has none.
    pub service: &'a str,
    /// The metric's name.
    pub name: &'a str,
    /// Its unit, by UCUM.
    pub unit: &'a str,
    /// Keys and values of its attributes, those that are texts, whole numbers or truth values.
    pub attributes: &'a [MetricAttribute<'a>],
    /// Its value.
    pub value: PointValue,
}

/// Head of a metric.
#[derive(Clone, Copy, Default)]
struct MetricHead<'a> {
    service: &'a [u8],
    name: &'a [u8],
    unit: &'a [u8],
}

/// How the points of a metric are to be read.
#[derive(Clone, Copy)]
enum PointForm {
    Gauge,
    Sum { is_growth: bool, is_monotonic: bool },
    Histogram { is_growth: bool },
}

/// Reads a message, point by point; how many data points of other kinds, and without a value, there were. Points before what is
/// wrong with it have been emitted.
///
/// # Errors
/// If it is none.
pub fn each_metric(
    bytes: &[u8],
    emit: &mut dyn FnMut(MetricPoint<'_>),
) -> Result<u64, OtlpRefusal> {
    let mut left_out = 0;
    each_message(bytes, 1, |resource_metrics| {
        let mut service: &[u8] = &[];
        each_message(resource_metrics, 1, |resource| {
            each_message(resource, 1, |attribute| {
                service = text_of(attribute, "service.name")?.unwrap_or(service);
                Ok(())
            })
        })?;
        each_message(resource_metrics, 2, |scope_metrics| {
            each_message(scope_metrics, 2, |metric| {
                left_out += emit_metric(metric, service, emit)?;
                Ok(())
            })
        })
    })?;
    Ok(left_out)
}

fn emit_metric(
    metric: &[u8],
    service: &[u8],
    emit: &mut dyn FnMut(MetricPoint<'_>),
) -> Result<u64, OtlpRefusal> {
    let mut head = MetricHead { service, ..MetricHead::default() };
    let (mut data, mut left_out) = (None, 0);
    each_field(metric, |number, value| {
        match (number, value) {
            (1, Value::Bytes(name)) => head.name = name,
            (3, Value::Bytes(unit)) => head.unit = unit,
            (5 | 7 | 9, Value::Bytes(points)) => data = Some((number, points)),
            (10 | 11, Value::Bytes(points)) => {
                each_message(points, 1, |_| {
                    left_out += 1;
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    let Some((kind, points)) = data else { return Ok(left_out) };
    let form = form_of(kind, points)?;
    each_message(points, 1, |point| {
        left_out += u64::from(!emit_point(point, head, form, emit)?);
        Ok(())
    })?;
    Ok(left_out)
}

fn form_of(kind: u64, points: &[u8]) -> Result<PointForm, OtlpRefusal> {
    let (mut is_growth, mut is_monotonic) = (false, false);
    each_field(points, |number, value| {
        match (number, value) {
            (2, Value::Number(temporality)) => is_growth = temporality == DELTA,
            (3, Value::Number(number)) => is_monotonic = number != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(match kind {
        5 => PointForm::Gauge,
        7 => PointForm::Sum { is_growth, is_monotonic },
        _ => PointForm::Histogram { is_growth },
    })
}

/// Whether there was a value.
fn emit_point(
    point: &[u8],
    head: MetricHead<'_>,
    form: PointForm,
    emit: &mut dyn FnMut(MetricPoint<'_>),
) -> Result<bool, OtlpRefusal> {
    let is_histogram = matches!(form, PointForm::Histogram { .. });
    let (of_attributes, of_flags) = if is_histogram { (9, 10) } else { (7, 8) };
    let (mut attributes, mut flags) = (Vec::new(), 0);
    let (mut number_value, mut count, mut sum) = (None, None, None);
    each_field(point, |number, value| {
        match (number, value) {
            (n, Value::Bytes(attribute))
                if n == of_attributes && attributes.len() < MOST_ATTRIBUTES =>
            {
                attributes.extend(attribute_of(attribute)?);
            }
            (n, Value::Number(number)) if n == of_flags => flags = number,
            (4, Value::Number(number)) if is_histogram => count = Some(number as f64),
            (5, Value::Number(bits)) if is_histogram => sum = Some(f64::from_bits(bits)),
            (4, Value::Number(bits)) => number_value = Some(f64::from_bits(bits)),
            (6, Value::Number(number)) => number_value = Some(number as i64 as f64),
            _ => {}
        }
        Ok(())
    })?;
    let value = match form {
        PointForm::Histogram { is_growth } => {
            count.zip(sum).map(|(count, sum)| PointValue::Distribution { count, sum, is_growth })
        }
        PointForm::Sum { is_growth, is_monotonic: true } => {
            number_value.map(|value| PointValue::Counter { value, is_growth })
        }
        // Growth of what also falls cannot be told from what it is.
        PointForm::Sum { is_growth: true, .. } => None,
        PointForm::Gauge | PointForm::Sum { .. } => number_value.map(PointValue::Gauge),
    };
    let Some(value) = value.filter(|_| flags & NO_VALUE == 0) else { return Ok(false) };
    let text = |bytes| cut(&String::from_utf8_lossy(bytes)).into_owned();
    let (service, name, unit) = (text(head.service), text(head.name), text(head.unit));
    emit(MetricPoint {
        service: &service,
        name: &name,
        unit: &unit,
        attributes: &attributes,
        value,
    });
    Ok(true)
}

/// Key and value of an attribute; none where it holds something else.
fn attribute_of(attribute: &[u8]) -> Result<Option<MetricAttribute<'_>>, OtlpRefusal> {
    let (mut key, mut found) = (Cow::Borrowed(""), None);
    each_field(attribute, |number, value| {
        match (number, value) {
            (1, Value::Bytes(name)) => key = String::from_utf8_lossy(name),
            (2, Value::Bytes(value)) => each_field(value, |number, value| {
                match (number, value) {
                    (1, Value::Bytes(text)) => found = Some(String::from_utf8_lossy(text)),
                    (2, Value::Number(number)) => found = Some((number != 0).to_string().into()),
                    (3, Value::Number(number)) => found = Some((number as i64).to_string().into()),
                    _ => {}
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(found.map(|value| (key, value)))
}

/// The text that an attribute holds, if it has that key.
pub(super) fn text_of<'a>(
    attribute: &'a [u8],
    wanted: &str,
) -> Result<Option<&'a [u8]>, OtlpRefusal> {
    let (mut is_it, mut found) = (false, None);
    each_field(attribute, |number, value| {
        match (number, value) {
            (1, Value::Bytes(key)) => is_it = key == wanted.as_bytes(),
            (2, Value::Bytes(value)) => each_message(value, 1, |text| {
                found = Some(text);
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(found.filter(|_| is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 128);
        [vec![number << 3 | 2, bytes.len() as u8], bytes.to_vec()].concat()
    }

    fn fixed(number: u8, bits: u64) -> Vec<u8> {
        [vec![number << 3 | 1], bits.to_le_bytes().to_vec()].concat()
    }

    fn varint(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn attribute(key: &str, value: &str) -> Vec<u8> {
        [field(1, key.as_bytes()), field(2, &field(1, value.as_bytes()))].concat()
    }

    fn message(metrics: &[Vec<u8>]) -> Vec<u8> {
        let resource = field(1, &field(1, &attribute("service.name", "shop")));
        let scope: Vec<u8> = metrics.iter().flat_map(|metric| field(2, metric)).collect();
        let mut long = vec![2 << 3 | 2];
        long.extend([scope.len() as u8 & 0x7f | 0x80, (scope.len() >> 7) as u8]);
        long.extend(scope);
        let body = [resource, long].concat();
        let mut all = vec![1 << 3 | 2, body.len() as u8 & 0x7f | 0x80, (body.len() >> 7) as u8];
        all.extend(body);
        all
    }

    fn metric(name: &str, unit: &str, data: Vec<u8>) -> Vec<u8> {
        [field(1, name.as_bytes()), field(3, unit.as_bytes()), data].concat()
    }

    type Row = (String, String, Vec<(String, String)>, PointValue);

    fn read(bytes: &[u8]) -> (Vec<Row>, Result<u64, OtlpRefusal>) {
        let mut rows = Vec::new();
        let left_out = each_metric(bytes, &mut |point| {
            assert_eq!(point.service, "shop");
            let attributes =
                point.attributes.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            rows.push((point.name.to_string(), point.unit.to_string(), attributes, point.value));
        });
        (rows, left_out)
    }

    fn all() -> Vec<u8> {
        let point = [fixed(4, 1.5f64.to_bits()), field(7, &attribute("a", "b"))].concat();
        let gauge = metric("queue", "1", field(5, &field(1, &point)));
        let whole = field(1, &fixed(6, (-3i64) as u64));
        let falls = metric("used", "By", field(7, &whole));
        let sum = [field(1, &fixed(6, 7)), varint(2, 1), varint(3, 1)].concat();
        let growth = metric("sold", "1", field(7, &sum));
        let sum = [field(1, &fixed(6, 9)), varint(2, 2), varint(3, 1)].concat();
        let counter = metric("sold.all", "1", field(7, &sum));
        let point = [fixed(4, 4), fixed(5, 2.5f64.to_bits())].concat();
        let histogram = metric("took", "s", field(9, &[field(1, &point), varint(2, 2)].concat()));
        let nothing = [fixed(4, 0), varint(8, 1)].concat();
        let without = metric("none", "1", field(5, &field(1, &nothing)));
        let summary = metric("old", "s", field(11, &field(1, &fixed(4, 1))));
        message(&[gauge, falls, growth, counter, histogram, without, summary])
    }

    #[test]
    fn each_kind_of_point_is_read_and_what_is_left_out_is_counted() {
        let (rows, left_out) = read(&all());
        let row = |name: &str, unit: &str, value| (name.into(), unit.into(), Vec::new(), value);
        let mut first = row("queue", "1", PointValue::Gauge(1.5));
        first.2 = vec![("a".to_string(), "b".to_string())];
        let expected: [Row; 5] = [
            first,
            row("used", "By", PointValue::Gauge(-3.0)),
            row("sold", "1", PointValue::Counter { value: 7.0, is_growth: true }),
            row("sold.all", "1", PointValue::Counter { value: 9.0, is_growth: false }),
            row("took", "s", PointValue::Distribution { count: 4.0, sum: 2.5, is_growth: false }),
        ];
        assert_eq!((&rows[..], left_out), (&expected[..], Ok(2)));
    }

    #[test]
    fn what_is_cut_or_lies_is_refused() {
        let whole = all();
        for end in 1..whole.len() {
            assert!(read(&whole[..end]).1.is_err(), "{end} bytes");
        }
        assert_eq!(each_metric(&[0xff; 64], &mut |_| ()), Err(OtlpRefusal));
        assert_eq!(each_metric(&[], &mut |_| ()), Ok(0));
    }
}
