//! Protocol buffers, as far as they are written here (protobuf.dev/programming-guides/encoding).

/// A length that is not known yet takes so many bytes: a number may be longer than it has to be.
const LENGTH_BYTES: usize = 4;

/// A message that is being written.
pub trait Message {
    /// A number.
    fn number(&mut self, field: u32, value: u64);
    /// A number of 8 bytes.
    fn fixed(&mut self, field: u32, value: u64);
    /// Bytes, or a text.
    fn bytes(&mut self, field: u32, value: &[u8]);
    /// Numbers that stand together.
    fn packed(&mut self, field: u32, values: &[u64]);
    /// A message inside, below 256 MiB.
    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Vec<u8>));
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

impl Message for Vec<u8> {
    fn number(&mut self, field: u32, value: u64) {
        varint(self, u64::from(field << 3));
        varint(self, value);
    }

    fn fixed(&mut self, field: u32, value: u64) {
        varint(self, u64::from(field << 3 | 1));
        self.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        varint(self, u64::from(field << 3 | 2));
        varint(self, value.len() as u64);
        self.extend(value);
    }

    fn packed(&mut self, field: u32, values: &[u64]) {
        let mut numbers = Vec::new();
        values.iter().for_each(|value| varint(&mut numbers, *value));
        self.bytes(field, &numbers);
    }

    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        varint(self, u64::from(field << 3 | 2));
        let at = self.len();
        self.resize(at + LENGTH_BYTES, 0);
        fill(self);
        let length = self.len() - at - LENGTH_BYTES;
        for (n, byte) in self[at..at + LENGTH_BYTES].iter_mut().enumerate() {
            let goes_on = if n + 1 < LENGTH_BYTES { 0x80 } else { 0 };
            *byte = (length >> (7 * n)) as u8 & 0x7f | goes_on;
        }
    }
}

/// How long a field with bytes is that begins here, with its head; none where that is cut.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let mut value = 0;
    for (n, byte) in bytes.get(1..)?.iter().take(10).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * n).min(63);
        if byte & 0x80 == 0 {
            return Some(n + 2 + value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_they_say() {
        let mut written = Vec::new();
        written.message(1, |message| {
            message.number(2, 300);
            message.bytes(3, &[7; 200]);
            message.message(4, |inner| inner.fixed(5, u64::MAX));
        });
        assert_eq!(length(&written), Some(written.len()));
        let expected = [0x0a, 0xdc, 0x81, 0x80, 0, 0x10, 0xac, 0x02, 0x1a, 0xc8, 0x01, 7];
        assert_eq!(written[..expected.len()], expected);
        assert_eq!(length(&written[..3]), None);
    }
}
