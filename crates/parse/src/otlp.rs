//! Spans of OpenTelemetry, as programs export them: `ExportTraceServiceRequest` in protobuf.
//!
//! Reads the message's bytes; emits a [`SpanRecord`] for each span that has an id, a name and times that can be. Refuses bytes
//! that are no such message. Allocates nothing, whatever the bytes say of lengths.

mod fields;
pub mod json;
mod metrics;

use weigh_schema::region::span::SpanRecord;

pub use fields::OtlpRefusal;
use fields::{Value, cut, each_field, each_message};
pub use metrics::{MetricAttribute, MetricPoint, PointValue, each_metric};

/// Reads a message, span by span. Spans before what is wrong with it have been emitted.
///
/// # Errors
/// If it is none.
pub fn each_span(bytes: &[u8], emit: &mut dyn FnMut(SpanRecord<'_>)) -> Result<(), OtlpRefusal> {
    each_message(bytes, 1, |resource_spans| {
        let (mut process, mut service): (u32, &[u8]) = (0, &[]);
        each_message(resource_spans, 1, |resource| {
            each_message(resource, 1, |attribute| {
                process = number_of(attribute, "process.pid")?.unwrap_or(process);
                service = metrics::text_of(attribute, "service.name")?.unwrap_or(service);
                Ok(())
            })
        })?;
        let service = cut(&String::from_utf8_lossy(service)).into_owned();
        let resource = SpanRecord { process, service: &service, ..SpanRecord::default() };
        each_message(resource_spans, 2, |scope_spans| {
            each_message(scope_spans, 2, |span| emit_span(span, resource, emit))
        })
    })
}

/// The number that an attribute holds, if it has that key.
fn number_of(attribute: &[u8], wanted: &str) -> Result<Option<u32>, OtlpRefusal> {
    let (mut is_it, mut found) = (false, None);
    each_field(attribute, |number, value| {
        match (number, value) {
            (1, Value::Bytes(key)) => is_it = key == wanted.as_bytes(),
            (2, Value::Bytes(value)) => each_field(value, |number, value| {
                if let (3, Value::Number(value)) = (number, value) {
                    found = u32::try_from(value).ok();
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(found.filter(|_| is_it))
}

fn emit_span(
    bytes: &[u8],
    resource: SpanRecord<'_>,
    emit: &mut dyn FnMut(SpanRecord<'_>),
) -> Result<(), OtlpRefusal> {
    let mut span = resource;
    let mut name: &[u8] = &[];
    each_field(bytes, |number, value| {
        match (number, value) {
            (1, Value::Bytes(id)) => span.trace = id_of(id, 16)?,
            (2, Value::Bytes(id)) => span.id = id_of(id, 8)? as u64,
            (4, Value::Bytes(id)) => span.parent = id_of(id, 8)? as u64,
            (5, Value::Bytes(text)) => name = text,
            (7, Value::Number(at)) => span.begun_ns = at,
            (8, Value::Number(at)) => span.ended_ns = at,
            (9, Value::Bytes(attribute)) => {
                span.thread = number_of(attribute, "thread.id")?.unwrap_or(span.thread);
            }
            _ => {}
        }
        Ok(())
    })?;
    if span.id == 0 || span.ended_ns < span.begun_ns || span.begun_ns == 0 {
        return Err(OtlpRefusal);
    }
    let name = cut(&String::from_utf8_lossy(name)).into_owned();
    emit(SpanRecord { name: &name, ..span });
    Ok(())
}

/// An id has so many bytes, or none.
fn id_of(bytes: &[u8], length: usize) -> Result<u128, OtlpRefusal> {
    match bytes.len() == length || bytes.is_empty() {
        true => Ok(bytes.iter().fold(0, |id, byte| id << 8 | u128::from(*byte))),
        false => Err(OtlpRefusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            field.push(length as u8 | 0x80);
            length >>= 7;
        }
        field.push(length as u8);
        field.extend(bytes);
        field
    }

    fn fixed(number: u8, value: u64) -> Vec<u8> {
        [vec![number << 3 | 1], value.to_le_bytes().to_vec()].concat()
    }

    fn attribute(key: &str, value: u8) -> Vec<u8> {
        [field(1, key.as_bytes()), field(2, &[3 << 3, value])].concat()
    }

    fn message(span: &[u8]) -> Vec<u8> {
        let resource = field(1, &field(1, &attribute("process.pid", 77)));
        let scopes = field(2, &field(2, span));
        field(1, &[scopes, resource].concat())
    }

    fn span() -> Vec<u8> {
        [
            field(1, &[1; 16]),
            field(2, &[0, 0, 0, 0, 0, 0, 1, 2]),
            field(4, &[3; 8]),
            field(5, b"solve"),
            vec![6 << 3, 1],
            fixed(7, 1000),
            fixed(8, 3500),
            field(9, &attribute("thread.id", 9)),
        ]
        .concat()
    }

    /// Process, thread, number, parent, name, begin and end.
    type SpanRow = (u32, u32, u64, u64, String, u64, u64);

    fn read(bytes: &[u8]) -> (Vec<SpanRow>, bool) {
        let mut found = Vec::new();
        let emit = &mut |s: SpanRecord<'_>| {
            found.push((
                s.process,
                s.thread,
                s.id,
                s.parent,
                s.name.into(),
                s.begun_ns,
                s.ended_ns,
            ));
        };
        let is_whole = each_span(bytes, emit).is_ok();
        (found, is_whole)
    }

    #[test]
    fn a_span_has_its_process_thread_name_and_times() {
        let (found, is_whole) = read(&message(&span()));
        let parent = u64::from_be_bytes([3; 8]);
        assert_eq!(found, [(77, 9, 258, parent, "solve".into(), 1000, 3500)]);
        assert!(is_whole);
        assert_eq!(read(&[]), (Vec::new(), true));
    }

    #[test]
    fn what_is_cut_or_lies_is_refused() {
        let whole = message(&span());
        for end in 1..whole.len() {
            assert!(!read(&whole[..end]).1, "{end} bytes");
        }
        assert!(!read(&[0xff; 64]).1);
        assert!(!read(&field(1, &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f])).1);
        let backwards = [span(), fixed(8, 1)].concat();
        assert!(!read(&message(&backwards)).1);
        let no_id = [span(), field(2, &[1; 7])].concat();
        assert!(!read(&message(&no_id)).1);
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let long = "\u{fc}".repeat(700);
        let (found, _) = read(&message(&[span(), field(5, long.as_bytes())].concat()));
        assert_eq!(found[0].4, "\u{fc}".repeat(511));
    }
}
