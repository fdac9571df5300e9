//! The header of a Parquet page: how large the page is, and says that it becomes.
//!
//! Reads Thrift's compact protocol, as far as the header needs it; emits sizes. Refuses what is cut off, and nested
//! deeper than any header.

/// A header holds structures of structures, and no deeper ones.
const DEEPEST: usize = 8;

/// What a page says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Bytes of the header.
    pub bytes: u64,
    /// Bytes of what follows.
    pub compressed: u64,
    /// Bytes that become of it.
    pub uncompressed: u64,
    /// Values in it; a dictionary has none.
    pub values: Option<i64>,
}

/// Types of Thrift's compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// Fields of `PageHeader` in parquet.thrift.
const UNCOMPRESSED: i64 = 2;
const COMPRESSED: i64 = 3;
const DATA_PAGE: i64 = 5;
const DATA_PAGE_V2: i64 = 8;
/// Of either kind of data page.
const VALUES: i64 = 1;

impl PageHeader {
    /// Reads the header at the beginning of these bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<PageHeader> {
        let mut cursor = Cursor { rest: bytes };
        let mut header = PageHeader::default();
        let (mut has_compressed, mut has_uncompressed, mut number) = (false, false, 0);
        while let Some(kind) = cursor.field(&mut number)? {
            match (number, kind) {
                (UNCOMPRESSED, I16..=I64) => {
                    header.uncompressed = cursor.number()?.try_into().ok()?;
                    has_uncompressed = true;
                }
                (COMPRESSED, I16..=I64) => {
                    header.compressed = cursor.number()?.try_into().ok()?;
                    has_compressed = true;
                }
                (DATA_PAGE | DATA_PAGE_V2, STRUCT) => header.values = Some(cursor.values()?),
                _ => cursor.skip(kind, 0)?,
            }
        }
        header.bytes = (bytes.len() - cursor.rest.len()) as u64;
        (has_compressed && has_uncompressed).then_some(header)
    }
}

struct Cursor<'b> {
    rest: &'b [u8],
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number with a sign, which is its lowest bit.
    fn number(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// The next field's type, its number beside; nothing at the end of the structure.
    fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *number = match head >> 4 {
            0 => self.number()?,
            more => number.checked_add(more.into())?,
        };
        Some(Some(head & 0xf))
    }

    /// The number of values of a data page, whose other fields are passed over.
    fn values(&mut self) -> Option<i64> {
        let (mut number, mut values) = (0, None);
        while let Some(kind) = self.field(&mut number)? {
            match (number, kind) {
                (VALUES, I16..=I64) => values = Some(self.number()?),
                _ => self.skip(kind, 1)?,
            }
        }
        values.filter(|values| *values >= 0)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            I16..=I64 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            BINARY => self.varint().and_then(|bytes| self.pass(bytes)),
            LIST | SET => self.skip_list(depth),
            STRUCT => {
                let mut number = 0;
                while let Some(kind) = self.field(&mut number)? {
                    self.skip(kind, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn skip_list(&mut self, depth: usize) -> Option<()> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            few => few.into(),
        };
        for _ in 0..count {
            match head & 0xf {
                // In a list a truth is a byte.
                TRUE | FALSE => self.pass(1)?,
                kind => self.skip(kind, depth + 1)?,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_values_are_read() {
        // type 0, 300 bytes of 20, a data page of 5 values: encoding and levels passed over.
        let bytes = [0x15, 0, 0x15, 0xd8, 0x04, 0x15, 40, 0x2c, 0x15, 10, 0x15, 0, 0, 0, 9, 9];
        let expected = PageHeader { bytes: 14, compressed: 20, uncompressed: 300, values: Some(5) };
        assert_eq!(PageHeader::read(&bytes), Some(expected));
    }

    #[test]
    fn what_is_cut_off_is_no_header_and_nothing_worse() {
        let bytes = [0x15, 0, 0x15, 0xd8, 0x04, 0x15, 40, 0x2c, 0x15, 10, 0x15, 0, 0, 0];
        for length in 0..bytes.len() {
            assert_eq!(PageHeader::read(&bytes[..length]), None, "{length}");
        }
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut damaged = [0u8; 64];
            damaged.fill_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            });
            let _ = PageHeader::read(&damaged);
        }
    }
}
