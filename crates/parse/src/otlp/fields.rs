//! The fields of a message in protobuf, as OpenTelemetry's are.

use std::borrow::Cow;

/// The bytes are no message of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtlpRefusal;

impl std::fmt::Display for OtlpRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no message of OpenTelemetry")
    }
}

impl std::error::Error for OtlpRefusal {}

/// A name is cut behind so many bytes.
const MOST_NAME: usize = weigh_schema::profile::MOST_TEXT;

/// What a field holds.
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, with their numbers.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], OtlpRefusal> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(OtlpRefusal)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, OtlpRefusal> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(OtlpRefusal)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), OtlpRefusal> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(self.fixed(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| OtlpRefusal)?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(self.fixed(4)?),
            _ => return Err(OtlpRefusal),
        };
        Ok((key >> 3, value))
    }

    fn fixed(&mut self, count: usize) -> Result<u64, OtlpRefusal> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// Each field of a message.
pub(super) fn each_field<'a>(
    bytes: &'a [u8],
    mut take: impl FnMut(u64, Value<'a>) -> Result<(), OtlpRefusal>,
) -> Result<(), OtlpRefusal> {
    let mut fields = Fields { rest: bytes };
    while !fields.rest.is_empty() {
        let (number, value) = fields.field()?;
        take(number, value)?;
    }
    Ok(())
}

/// Each message that is that field of a message.
pub(super) fn each_message<'a>(
    bytes: &'a [u8],
    wanted: u64,
    mut take: impl FnMut(&'a [u8]) -> Result<(), OtlpRefusal>,
) -> Result<(), OtlpRefusal> {
    each_field(bytes, |number, value| match value {
        Value::Bytes(message) if number == wanted => take(message),
        _ => Ok(()),
    })
}

/// The text up to its bound.
pub(super) fn cut<'a>(name: &'a Cow<'a, str>) -> Cow<'a, str> {
    let end = (0..=name.len().min(MOST_NAME)).rev().find(|at| name.is_char_boundary(*at));
    Cow::Borrowed(&name[..end.unwrap_or(0)])
}
