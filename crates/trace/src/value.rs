//! The fields of a record, read where they lie.

use std::fmt;
use std::net::IpAddr;

use crate::ip_prefix::address_of;
use crate::path_resolve::Shape;
use crate::probe::{Content, Probe, ProbeField};
use crate::record::Record;
use crate::vocabulary::bits;

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'r> {
    /// It could not be had: a pointer on the way was NULL, or led nowhere.
    Absent,
    /// A number.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// True or false.
    Bool(bool),
    /// An address.
    Pointer(u64),
    /// A constant by its name; or a number that none of them has.
    Constant(i64, Option<&'r str>),
    /// A text; nobody promises that it is UTF-8.
    Text(&'r [u8]),
    /// Bytes.
    Bytes(&'r [u8]),
    /// An address of a packet.
    Address(IpAddr),
    /// Addresses of functions, the innermost first, 8 bytes each.
    Stack {
        /// They.
        bytes: &'r [u8],
        /// Of the program, not of the kernel.
        is_user: bool,
    },
}

impl Probe {
    /// The values of a record's fields, in the order of the fields.
    pub fn values<'r>(&'r self, record: Record<'r>) -> impl Iterator<Item = Value<'r>> {
        let absent = record.absent();
        self.fields.iter().enumerate().map(move |(bit, field)| {
            if absent >> bit & 1 == 1 { Value::Absent } else { field.value(record) }
        })
    }
}

impl Probe {
    /// The value of one of a record's fields.
    pub fn value<'r>(&'r self, record: Record<'r>, place: usize) -> Value<'r> {
        match self.fields.get(place) {
            Some(field) if record.absent() >> place & 1 == 0 => field.value(record),
            _ => Value::Absent,
        }
    }
}

impl ProbeField {
    /// What of a record is this field's: a record may end within its last field, behind that one's content.
    #[inline]
    pub fn room_in<'r>(&self, record: Record<'r>) -> Option<&'r [u8]> {
        let (start, bytes) = (self.offset as usize, record.bytes());
        let end = match &self.content {
            Content::Number(_) => start + self.bytes as usize,
            Content::Packet(packet) => {
                let kept = bytes.get(packet.kept_at as usize..)?.first_chunk()?;
                start + u32::from_le_bytes(*kept).min(self.bytes) as usize
            }
            _ => (start + self.bytes as usize).min(bytes.len()),
        };
        bytes.get(start..end)
    }

    /// The value, if it could be had.
    fn value<'r>(&'r self, record: Record<'r>) -> Value<'r> {
        let Some(bytes) = self.room_in(record) else { return Value::Absent };
        match self.shape {
            Shape::Unsigned => Value::Unsigned(number(bytes)),
            Shape::Signed => Value::Signed(signed(bytes)),
            Shape::Bool => Value::Bool(number(bytes) != 0),
            Shape::Pointer => Value::Pointer(number(bytes)),
            Shape::Enum(_) => {
                let number =
                    if self.is_signed { signed(bytes) } else { number(bytes).cast_signed() };
                let constant = self.constants.iter().find(|(value, _)| *value == number);
                Value::Constant(number, constant.map(|(_, name)| name.as_str()))
            }
            Shape::Text => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                Value::Text(&bytes[..end])
            }
            Shape::Bytes => Value::Bytes(bytes),
            Shape::Address => {
                bytes.try_into().map_or(Value::Absent, |bytes| Value::Address(address_of(bytes)))
            }
            Shape::Stack => {
                let is_frame = |frame: &[u8]| frame.iter().any(|byte| *byte != 0);
                let frames = bytes.chunks_exact(8).take_while(|frame| is_frame(frame)).count();
                let is_user = matches!(self.content, Content::Stack { is_user: true });
                Value::Stack { bytes: &bytes[..frames * 8], is_user }
            }
        }
    }
}

impl ProbeField {
    /// A number by the names that it has beside: an error, a set of flags. Files keep the number.
    pub fn named(&self, value: &Value<'_>) -> Option<String> {
        match *value {
            Value::Signed(number) => {
                let known = self.constants.iter().find(|(value, _)| *value == number);
                known.map(|(_, name)| name.clone())
            }
            Value::Unsigned(number) if self.is_bits() => Some(bits(number, &self.constants)),
            _ => None,
        }
    }

    /// Whether it is a set of bits that have names.
    pub fn is_bits(&self) -> bool {
        self.shape == Shape::Unsigned && !self.constants.is_empty()
    }
}

/// How a field is read that is a number and nothing else: for those who read it of very many records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainNumber {
    offset: usize,
    /// Bits of a word that are not the number's.
    unused: u32,
    is_signed: bool,
    is_truth: bool,
}

impl ProbeField {
    /// None if its values are no plain numbers.
    pub fn plain_number(&self) -> Option<PlainNumber> {
        let is_plain =
            matches!(self.shape, Shape::Unsigned | Shape::Pointer | Shape::Signed | Shape::Bool);
        (is_plain && matches!(self.bytes, 1 | 2 | 4 | 8)).then(|| PlainNumber {
            offset: self.offset as usize,
            unused: u64::BITS - 8 * self.bytes,
            is_signed: self.shape == Shape::Signed,
            is_truth: self.shape == Shape::Bool,
        })
    }
}

impl PlainNumber {
    /// The number that a record has there, with the bits of the value that [`Probe::value`] gives; none if the record
    /// ends before it. Whether it could be had at all the record says elsewhere.
    #[inline]
    pub fn of(&self, record: Record<'_>) -> Option<i64> {
        let bytes = record.bytes().get(self.offset..)?;
        // Mostly there is more behind it: a whole word is read at once, whatever the number has of it.
        let word = match bytes.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => number_at_end(bytes, (u64::BITS - self.unused) as usize / 8)?,
        };
        let up = word << self.unused;
        Some(match (self.is_signed, self.is_truth) {
            (true, _) => up.cast_signed() >> self.unused,
            (false, true) => i64::from(up != 0),
            (false, false) => (up >> self.unused).cast_signed(),
        })
    }
}

/// A number of so many bytes, behind which the record ends.
#[cold]
fn number_at_end(bytes: &[u8], length: usize) -> Option<u64> {
    bytes.get(..length).map(number)
}

fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    (number(bytes) << unused).cast_signed() >> unused
}

/// The addresses of a stack.
pub fn frames(stack: &[u8]) -> impl Iterator<Item = u64> {
    stack.chunks_exact(8).map(number)
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Absent => write!(f, "-"),
            Value::Unsigned(number) => write!(f, "{number}"),
            Value::Signed(number) => write!(f, "{number}"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Pointer(address) => write!(f, "{address:#x}"),
            Value::Constant(_, Some(name)) => write!(f, "{name}"),
            Value::Constant(number, None) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{}", text.escape_ascii()),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Value::Address(address) => write!(f, "{address}"),
            Value::Stack { bytes, .. } => {
                let mut separator = "";
                frames(bytes).try_for_each(|frame| {
                    write!(f, "{separator}{frame:#x}")?;
                    separator = ";";
                    Ok(())
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(shape: Shape, offset: u32, bytes: u32) -> ProbeField {
        ProbeField {
            name: String::new(),
            shape,
            is_signed: shape == Shape::Signed,
            offset,
            bytes,
            content: Content::Number(crate::condition::Source::Tid),
            constants: Vec::new(),
        }
    }

    proptest::proptest! {
        #[test]
        fn plain_numbers_are_the_values_that_any_reader_gets(
            body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..24),
            offset in 40u32..60,
            width in 0usize..5,
            shape in 0usize..5,
        ) {
            let (bytes, shape) = ([1, 2, 3, 4, 8][width], [
                Shape::Unsigned, Shape::Signed, Shape::Bool, Shape::Pointer, Shape::Text,
            ][shape]);
            let field = field(shape, offset, bytes);
            let mut record = vec![0u8; crate::record::HEADER_BYTES];
            record.extend(&body);
            record[4] = record.len() as u8;
            let record = Record::new(&record).unwrap();
            let Some(plain) = field.plain_number() else {
                assert!(shape == Shape::Text || bytes == 3);
                return Ok(());
            };
            let any = match field.value(record) {
                Value::Absent => None,
                Value::Unsigned(number) | Value::Pointer(number) => Some(number.cast_signed()),
                Value::Signed(number) => Some(number),
                Value::Bool(truth) => Some(truth.into()),
                other => panic!("{other:?} is no plain number"),
            };
            assert_eq!(plain.of(record), any);
        }
    }

    #[test]
    fn a_record_may_end_within_its_last_text_or_stack() {
        let mut record = vec![0u8; crate::record::HEADER_BYTES];
        record.extend(*b"abc\0");
        record[4] = record.len() as u8;
        let record = Record::new(&record).unwrap();
        let of = |shape, offset, content| ProbeField { content, ..field(shape, offset, 64) };
        let text = || Content::Text { source: crate::condition::TextSource::Comm, is_user: false };
        assert_eq!(of(Shape::Text, 40, text()).value(record), Value::Text(b"abc"));
        assert_eq!(of(Shape::Text, 44, text()).value(record), Value::Text(b""));
        assert_eq!(of(Shape::Text, 45, text()).value(record), Value::Absent);
        let stack = of(Shape::Stack, 40, Content::Stack { is_user: true });
        assert_eq!(stack.value(record), Value::Stack { bytes: &[], is_user: true });
        assert_eq!(field(Shape::Unsigned, 40, 8).value(record), Value::Absent);
    }

    #[test]
    fn numbers_have_names_beside() {
        let of = |shape, constants: &[(i64, &str)]| {
            let constants = constants.iter().map(|(value, name)| (*value, (*name).to_string()));
            ProbeField { constants: constants.collect(), ..field(shape, 40, 8) }
        };
        let ret = of(Shape::Signed, &[(-2, "-ENOENT")]);
        assert_eq!(ret.named(&Value::Signed(-2)).as_deref(), Some("-ENOENT"));
        assert_eq!(ret.named(&Value::Signed(3)), None);
        let flags = of(Shape::Unsigned, &[(1, "ONE"), (4, "FOUR")]);
        assert_eq!(flags.named(&Value::Unsigned(5)).as_deref(), Some("ONE|FOUR"));
        assert_eq!(of(Shape::Unsigned, &[]).named(&Value::Unsigned(5)), None);
    }

    #[test]
    fn numbers_of_all_widths_are_read() {
        assert_eq!(signed(&[0xff]), -1);
        assert_eq!(signed(&[0xfe, 0xff]), -2);
        assert_eq!(signed(&[1, 0, 0, 0]), 1);
        assert_eq!(signed(&(-5i64).to_le_bytes()), -5);
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xff]), u64::from(u32::MAX));
    }
}
