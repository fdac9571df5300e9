//! What is written is read again by another reader of protobuf, and answers mean what the specification says.

use proptest::prelude::*;

use super::*;
use crate::metrics::batch::BatchBuilder;
use crate::metrics::test_report::{any_report, exact, report};
use weigh_schema::node_metric::node_forks_total as forks;

/// A field of a message.
#[derive(Debug, PartialEq)]
enum Field<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl Field<'_> {
    fn number(&self) -> u64 {
        match self {
            Field::Number(number) | Field::Fixed(number) => *number,
            Field::Bytes(_) => panic!("bytes"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            _ => panic!("a number"),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                fields.push((tag >> 3, Field::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            other => panic!("wire type {other}"),
        };
        let (value, rest) = bytes.split_at(length);
        bytes = rest;
        fields.push((
            tag >> 3,
            match tag & 7 {
                1 => Field::Fixed(u64::from_le_bytes(value.try_into().unwrap())),
                _ => Field::Bytes(value),
            },
        ));
    }
    fields
}

fn of<'a, 'b>(fields: &'a [(u64, Field<'b>)], number: u64) -> Vec<&'a Field<'b>> {
    fields.iter().filter(|(field, _)| *field == number).map(|(_, value)| value).collect()
}

/// Labels, value, milliseconds, type, help, unit.
type Series = (Vec<(String, String)>, u64, u64, u64, String, String);

fn sample(message: &[u8]) -> (u64, u64) {
    let sample = fields(message);
    (of(&sample, 1)[0].number(), of(&sample, 2)[0].number())
}

fn read_1(message: &[u8]) -> Vec<Series> {
    let request = fields(message);
    let metadata: HashMap<String, (u64, String, String)> = of(&request, 3)
        .iter()
        .map(|field| fields(field.bytes()))
        .map(|m| {
            (of(&m, 2)[0].text(), (of(&m, 1)[0].number(), of(&m, 4)[0].text(), of(&m, 5)[0].text()))
        })
        .collect();
    let series = of(&request, 1).into_iter().map(|field| fields(field.bytes()));
    series
        .map(|series| {
            let labels: Vec<(String, String)> = of(&series, 1)
                .iter()
                .map(|label| fields(label.bytes()))
                .map(|label| (of(&label, 1)[0].text(), of(&label, 2)[0].text()))
                .collect();
            let (value, time) = sample(of(&series, 2)[0].bytes());
            let (kind, help, unit) = metadata[&labels[0].1].clone();
            (labels, value, time, kind, help, unit)
        })
        .collect()
}

fn read_2(message: &[u8]) -> Vec<Series> {
    let request = fields(message);
    let symbols: Vec<String> = of(&request, 4).iter().map(|field| field.text()).collect();
    assert_eq!(symbols[0], "");
    let series = of(&request, 5).into_iter().map(|field| fields(field.bytes()));
    series
        .map(|series| {
            let mut packed = of(&series, 1)[0].bytes();
            let mut numbers = Vec::new();
            while !packed.is_empty() {
                numbers.push(varint(&mut packed) as usize);
            }
            let text = |number: usize| symbols[number].clone();
            let labels = numbers.chunks(2).map(|pair| (text(pair[0]), text(pair[1]))).collect();
            let (value, time) = sample(of(&series, 2)[0].bytes());
            let metadata = fields(of(&series, 5)[0].bytes());
            let metadata = |number| of(&metadata, number)[0].number();
            let [help, unit] = [3, 4].map(|field| text(metadata(field) as usize));
            (labels, value, time, metadata(1), help, unit)
        })
        .collect()
}

fn decompressed(body: &[u8]) -> Vec<u8> {
    snap::raw::Decoder::new().decompress_vec(body).unwrap()
}

proptest! {
    #[test]
    fn any_batch_is_read_again_in_both_versions(report in any_report()) {
        let batch = BatchBuilder::default().build(&report);
        let expected: Vec<Series> = batch.points.iter().map(|point| {
            let mut labels: Vec<(String, String)> = point.scope.labels.iter()
                .map(|(name, value)| (name.to_string(), value.clone()))
                .collect();
            labels.extend([
                ("__name__".to_string(), point.metric.name.to_string()),
                ("instance".to_string(), batch.node.clone()),
                ("job".to_string(), "weigh".to_string()),
            ]);
            labels.sort();
            let kind = if point.metric.name.ends_with("_total") { 1 } else { 2 };
            let unit = unit_suffix(point.metric.unit).unwrap_or_default();
            let value = point.value.as_f64().to_bits();
            (labels, value, batch.time_ms(), kind, point.metric.help.to_string(), unit)
        }).collect();
        prop_assert_eq!(&read_1(&decompressed(&compressed(&request_1(&batch)))), &expected);
        prop_assert_eq!(&read_2(&decompressed(&compressed(&request_2(&batch)))), &expected);
    }
}

fn one_value() -> Batch {
    let value = ("node", forks.name, exact(Number::Whole(1)));
    BatchBuilder::default().build(&report(1, &[value]))
}

fn answer(status: u16, samples_written: Option<u64>) -> Answer {
    Answer { status, samples_written, ..Answer::default() }
}

#[test]
fn a_receiver_that_did_not_understand_two_is_sent_one_and_only_then() {
    let batch = one_value();
    for (first, falls_back) in [
        (answer(415, None), true),
        (answer(400, None), true),
        (answer(204, None), true),
        (answer(204, Some(1)), false),
        (answer(429, None), false),
        (answer(500, None), false),
        (answer(401, None), false),
    ] {
        let mut protocol = RemoteWrite::default();
        let verdict = protocol.judge(&batch, &first);
        assert_eq!(verdict == Verdict::Another, falls_back, "{first:?}");
        assert_eq!(protocol.version == Version::One, falls_back, "{first:?}");
        if falls_back {
            assert_eq!(protocol.judge(&batch, &answer(204, None)), Verdict::WHOLE);
        }
    }
}

#[test]
fn a_receiver_that_knows_two_is_never_sent_one() {
    let batch = one_value();
    let mut protocol = RemoteWrite::default();
    assert_eq!(protocol.judge(&batch, &answer(204, Some(1))), Verdict::WHOLE);
    assert!(matches!(protocol.judge(&batch, &answer(400, Some(0))), Verdict::Refused(_)));
    assert!(matches!(
        protocol.judge(&batch, &answer(204, Some(0))),
        Verdict::Accepted { refused: 1, .. }
    ));
    assert_eq!(protocol.version, Version::Two);
}
