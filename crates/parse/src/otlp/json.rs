//! Messages of OpenTelemetry in JSON, as OTLP has them: turned into the protobuf that the readers here take.
//!
//! Reads a text; emits the fields that are read and no others. Refuses what is no JSON, is nested deeper than JSON is read (128), or has
//! another type where a field is read. Names are lowerCamelCase, ids hexadecimal, whole numbers also texts, enums numbers.

use serde_json::Value;

use super::fields::OtlpRefusal;

/// What a field of a message is.
enum Form {
    Message(&'static [Field]),
    Text,
    /// Bytes, so many of them or none.
    Id(usize),
    Bool,
    /// Not negative, as a varint.
    Number,
    /// 64 bits with a sign, as a varint.
    Integer,
    /// 64 bits as they are: not negative, or with a sign.
    Fixed,
    SignedFixed,
    Real,
}

/// A field: its name in JSON, its number, and what it is. A list in JSON is the field again and again.
struct Field(&'static str, u8, Form);

/// `ExportMetricsServiceRequest`, as far as it is read.
pub static METRICS: OtlpForm =
    OtlpForm(&[Field("resourceMetrics", 1, Form::Message(RESOURCE_METRICS))]);
/// `ExportTraceServiceRequest`, as far as it is read.
pub static SPANS: OtlpForm = OtlpForm(&[Field("resourceSpans", 1, Form::Message(RESOURCE_SPANS))]);

/// A kind of message.
pub struct OtlpForm(&'static [Field]);

const RESOURCE_METRICS: &[Field] = &[
    Field("resource", 1, Form::Message(RESOURCE)),
    Field("scopeMetrics", 2, Form::Message(&[Field("metrics", 2, Form::Message(METRIC))])),
];
const RESOURCE_SPANS: &[Field] = &[
    Field("resource", 1, Form::Message(RESOURCE)),
    Field("scopeSpans", 2, Form::Message(&[Field("spans", 2, Form::Message(SPAN))])),
];
const RESOURCE: &[Field] = &[Field("attributes", 1, Form::Message(ATTRIBUTE))];
const ATTRIBUTE: &[Field] =
    &[Field("key", 1, Form::Text), Field("value", 2, Form::Message(ATTRIBUTE_VALUE))];
const ATTRIBUTE_VALUE: &[Field] = &[
    Field("stringValue", 1, Form::Text),
    Field("boolValue", 2, Form::Bool),
    Field("intValue", 3, Form::Integer),
];
const METRIC: &[Field] = &[
    Field("name", 1, Form::Text),
    Field("unit", 3, Form::Text),
    Field("gauge", 5, Form::Message(NUMBERS)),
    Field("sum", 7, Form::Message(NUMBERS)),
    Field("histogram", 9, Form::Message(HISTOGRAM)),
    Field("exponentialHistogram", 10, Form::Message(UNREAD)),
    Field("summary", 11, Form::Message(UNREAD)),
];
const NUMBERS: &[Field] = &[
    Field("dataPoints", 1, Form::Message(NUMBER_POINT)),
    Field("aggregationTemporality", 2, Form::Number),
    Field("isMonotonic", 3, Form::Bool),
];
const NUMBER_POINT: &[Field] = &[
    Field("asDouble", 4, Form::Real),
    Field("asInt", 6, Form::SignedFixed),
    Field("attributes", 7, Form::Message(ATTRIBUTE)),
    Field("flags", 8, Form::Number),
];
const HISTOGRAM: &[Field] = &[
    Field("dataPoints", 1, Form::Message(HISTOGRAM_POINT)),
    Field("aggregationTemporality", 2, Form::Number),
];
const HISTOGRAM_POINT: &[Field] = &[
    Field("count", 4, Form::Fixed),
    Field("sum", 5, Form::Real),
    Field("attributes", 9, Form::Message(ATTRIBUTE)),
    Field("flags", 10, Form::Number),
];
/// They are counted, and not read.
const UNREAD: &[Field] = &[Field("dataPoints", 1, Form::Message(&[]))];
const SPAN: &[Field] = &[
    Field("traceId", 1, Form::Id(16)),
    Field("spanId", 2, Form::Id(8)),
    Field("parentSpanId", 4, Form::Id(8)),
    Field("name", 5, Form::Text),
    Field("startTimeUnixNano", 7, Form::Fixed),
    Field("endTimeUnixNano", 8, Form::Fixed),
    Field("attributes", 9, Form::Message(ATTRIBUTE)),
];

/// The message in protobuf.
///
/// # Errors
/// If the text is no such message.
pub fn protobuf_of_json(text: &[u8], form: &OtlpForm) -> Result<Vec<u8>, OtlpRefusal> {
    let value: Value = serde_json::from_slice(text).map_err(|_| OtlpRefusal)?;
    let mut message = Vec::new();
    write_message(form.0, &value, &mut message)?;
    Ok(message)
}

fn write_message(fields: &[Field], value: &Value, out: &mut Vec<u8>) -> Result<(), OtlpRefusal> {
    let object = value.as_object().ok_or(OtlpRefusal)?;
    for Field(name, number, form) in fields {
        match object.get(*name) {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) if matches!(form, Form::Message(_)) => {
                items.iter().try_for_each(|item| write_field(*number, form, item, out))?;
            }
            Some(value) => write_field(*number, form, value, out)?,
        }
    }
    Ok(())
}

fn write_field(
    number: u8,
    form: &Form,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), OtlpRefusal> {
    match form {
        Form::Message(fields) => {
            let mut message = Vec::new();
            write_message(fields, value, &mut message)?;
            write_bytes(number, &message, out);
        }
        Form::Text => write_bytes(number, value.as_str().ok_or(OtlpRefusal)?.as_bytes(), out),
        Form::Id(length) => write_bytes(number, &id(value, *length)?, out),
        Form::Bool => write_varint(number, value.as_bool().ok_or(OtlpRefusal)?.into(), out),
        Form::Number => write_varint(number, whole(value)?, out),
        Form::Integer => write_varint(number, signed(value)?.cast_unsigned(), out),
        Form::Fixed => write_fixed(number, whole(value)?, out),
        Form::SignedFixed => write_fixed(number, signed(value)?.cast_unsigned(), out),
        Form::Real => write_fixed(number, real(value)?.to_bits(), out),
    }
    Ok(())
}

fn whole(value: &Value) -> Result<u64, OtlpRefusal> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).ok_or(OtlpRefusal)
}

fn signed(value: &Value) -> Result<i64, OtlpRefusal> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).ok_or(OtlpRefusal)
}

/// `NaN` and `Infinity` are texts.
fn real(value: &Value) -> Result<f64, OtlpRefusal> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).ok_or(OtlpRefusal)
}

fn id(value: &Value, length: usize) -> Result<Vec<u8>, OtlpRefusal> {
    let text = value.as_str().map(str::as_bytes).ok_or(OtlpRefusal)?;
    if !text.is_empty() && text.len() != 2 * length {
        return Err(OtlpRefusal);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(OtlpRefusal);
    let byte = |pair: &[u8]| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    text.chunks_exact(2).map(byte).collect()
}

fn write_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    push_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_varint(number: u8, value: u64, out: &mut Vec<u8>) {
    out.push(number << 3);
    push_varint(value, out);
}

fn write_fixed(number: u8, value: u64, out: &mut Vec<u8>) {
    out.push(number << 3 | 1);
    out.extend(value.to_le_bytes());
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::{MetricPoint, PointValue, each_metric, each_span};

    fn points(text: &str) -> Result<(Vec<String>, u64), OtlpRefusal> {
        let mut found = Vec::new();
        let message = protobuf_of_json(text.as_bytes(), &METRICS)?;
        let left_out = each_metric(&message, &mut |point: MetricPoint<'_>| {
            let MetricPoint { service, name, unit, attributes, value } = point;
            found.push(format!("{service} {name} {unit} {attributes:?} {value:?}"));
        })?;
        Ok((found, left_out))
    }

    fn metric(data: &str) -> String {
        let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]}"#;
        let metric = format!(r#"{{"name":"a.b","unit":"ms","description":7,{data}}}"#);
        format!(
            r#"{{"resourceMetrics":[{{"resource":{resource},"scopeMetrics":[{{"metrics":[{metric}],"scope":null}}]}}]}}"#
        )
    }

    #[test]
    fn metrics_in_json_are_those_in_protobuf() {
        let sum = r#""sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[
            {"asInt":"-7","timeUnixNano":"1544712660300000000","attributes":[{"key":"k","value":{"intValue":"9"}},
             {"key":"t","value":{"boolValue":true}},{"key":"l","value":{"arrayValue":{"values":[]}}}]},
            {"asDouble":0.25},{"asInt":3,"flags":1}]}"#;
        let (found, left_out) = points(&metric(sum)).expect("a message");
        assert_eq!(
            found,
            [
                r#"shop a.b ms [("k", "9"), ("t", "true")] Counter { value: -7.0, is_growth: true }"#,
                r#"shop a.b ms [] Counter { value: 0.25, is_growth: true }"#,
            ]
        );
        assert_eq!(left_out, 1, "without a value");
        let histogram = r#""histogram":{"aggregationTemporality":2,"dataPoints":[
            {"count":"18446744073709551615","sum":1e3,"bucketCounts":["1"],"explicitBounds":[1.5]}]}"#;
        let value =
            PointValue::Distribution { count: u64::MAX as f64, sum: 1000.0, is_growth: false };
        assert_eq!(points(&metric(histogram)).unwrap().0, [format!("shop a.b ms [] {value:?}")]);
        let unread = r#""summary":{"dataPoints":[{"quantileValues":[{}]},{}]},"exponentialHistogram":{"dataPoints":[{}]}"#;
        assert_eq!(points(&metric(unread)), Ok((Vec::new(), 3)));
        assert_eq!(points("{}"), Ok((Vec::new(), 0)));
        let not_finite = points(&metric(r#""gauge":{"dataPoints":[{"asDouble":"NaN"}]}"#)).unwrap();
        assert_eq!(not_finite.0, ["shop a.b ms [] Gauge(NaN)"], "who reads it refuses it");
    }

    #[test]
    fn spans_in_json_are_those_in_protobuf() {
        let span = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"process.pid","value":{"intValue":77}}]},
            "scopeSpans":[{"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b174",
            "parentSpanId":"","name":"solve","startTimeUnixNano":"1544712660000000000","endTimeUnixNano":1544712661000000000,
            "kind":2,"status":{},"attributes":[{"key":"thread.id","value":{"intValue":"9"}}]}]}]}]}"#;
        let message = protobuf_of_json(span.as_bytes(), &SPANS).expect("a message");
        let mut found = Vec::new();
        each_span(&message, &mut |span| {
            found.push(format!(
                "{} {} {:x} {:x} {} {} {}",
                span.process,
                span.thread,
                span.trace,
                span.id,
                span.name,
                span.begun_ns,
                span.ended_ns
            ));
        })
        .expect("spans");
        let expected = "77 9 5b8efff798038103d269b633813fc60c eee19b7ec3c1b174 solve 1544712660000000000 1544712661000000000";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn what_is_of_another_type_or_too_deep_is_refused() {
        let deep = "[".repeat(100_000);
        let deep_in_unread = format!(r#"{{"x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let gauge = |point: &str| metric(&format!(r#""gauge":{{"dataPoints":{point}}}"#));
        for wrong in [
            "",
            "7",
            "[]",
            "null",
            "{\"resourceMetrics\":7}",
            "{\"resourceMetrics\":[7]}",
            "{\"resourceMetrics\":",
            "NaN",
            &deep,
            &deep_in_unread,
            "\u{0}",
            "{\"resourceMetrics\":[[{}]]}",
            &gauge(r#"[{"asInt":1.5}]"#),
            &gauge(r#"[{"asInt":"x"}]"#),
            &gauge(r#"[{"asInt":"99999999999999999999"}]"#),
            &gauge(r#"[{"asDouble":true}]"#),
            &gauge(r#"[{"asDouble":1e999}]"#),
            &gauge(r#"[{"asDouble":NaN}]"#),
            &gauge(r#"[{"flags":-1}]"#),
            &gauge("7"),
            &metric(r#""name":7"#),
            &metric(r#""sum":{"aggregationTemporality":"DELTA"}"#),
            &metric(r#""sum":{"isMonotonic":1}"#),
        ] {
            assert!(points(wrong).is_err(), "{}", &wrong[..wrong.len().min(200)]);
        }
        assert!(protobuf_of_json(b"\xff{}", &METRICS).is_err());
        for id in [
            "\"12\"",
            "\"zzz19b7ec3c1b174\"",
            "7",
            "\"\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\"",
        ] {
            let span = format!(
                r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"spanId":{id}}}]}}]}}]}}"#
            );
            assert!(protobuf_of_json(span.as_bytes(), &SPANS).is_err(), "{id}");
        }
    }
}
