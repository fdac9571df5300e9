//! What the kernel side writes of an event: a header, then the fields, each at its place.
//!
//! Declared here once: the programs that write records and the readers of them are derived from it,
//! and so is docs/trace.md.

/// A part of the header.
pub struct HeaderPart {
    /// Its name.
    pub name: &'static str,
    /// Where it lies.
    pub offset: usize,
    /// How many bytes it has.
    pub bytes: usize,
    /// What it is.
    pub help: &'static str,
}

macro_rules! header {
    ($($name:ident: $type:ty = $offset:literal, $help:literal;)+) => {
        /// The header, part by part.
        pub const HEADER: &[HeaderPart] = &[$(HeaderPart {
            name: stringify!($name),
            offset: $offset,
            bytes: size_of::<$type>(),
            help: $help,
        }),+];

        /// Where each part lies.
        pub mod offset {
            $(#[doc = $help] #[allow(non_upper_case_globals)] pub const $name: usize = $offset;)+
        }

        impl Record<'_> {
            $(
                #[doc = $help]
                pub fn $name(&self) -> $type {
                    const END: usize = $offset + size_of::<$type>();
                    let part = self.bytes.get($offset..END).and_then(|part| part.try_into().ok());
                    part.map_or(0, <$type>::from_le_bytes)
                }
            )+
        }
    };
}

header! {
    event: u32 = 0, "which of the stream's events, counted from 0";
    size: u32 = 4, "bytes of the record, with its header";
    time_ns: u64 = 8, "when, by CLOCK_BOOTTIME";
    id: u64 = 16, "what the event is about, as the probe chose";
    cpu: u32 = 24, "the CPU that it happened on";
    tgid: u32 = 28, "the process that was running there";
    tid: u32 = 32, "its thread";
    absent: u32 = 36, "a bit for each field whose value could not be had, the first is bit 0";
}

/// Ends a text that was cut, in the record itself: so no reader takes a beginning for the whole.
pub const CUT_MARK: &[u8] = "…".as_bytes();
/// That, and the end of the text.
pub(crate) const CUT: &[u8] = "…\0".as_bytes();

/// Bytes of a header.
pub const HEADER_BYTES: usize = 40;

/// One record, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    bytes: &'r [u8],
}

impl<'r> Record<'r> {
    /// Takes a record; none if it is too short to be one, or says of itself that it is longer.
    pub fn new(bytes: &'r [u8]) -> Option<Record<'r>> {
        let record = Record { bytes };
        let size = record.size() as usize;
        (bytes.len() >= HEADER_BYTES && (HEADER_BYTES..=bytes.len()).contains(&size))
            .then_some(record)
    }

    /// All of it.
    pub fn bytes(&self) -> &'r [u8] {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_no_gaps() {
        let mut end = 0;
        for part in HEADER {
            assert_eq!(part.offset, end, "{}", part.name);
            assert_eq!(part.offset % part.bytes, 0, "{} is aligned", part.name);
            end += part.bytes;
        }
        assert_eq!(end, HEADER_BYTES);
    }

    #[test]
    fn the_reference_says_the_same() {
        let reference = include_str!("../../../docs/trace.md");
        for HeaderPart { name, offset, bytes, help } in HEADER {
            let line = format!("| {offset}-{} | `{name}` | {help} |", offset + bytes - 1);
            assert!(reference.contains(&line), "docs/trace.md lacks: {line}");
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let mut bytes = vec![0u8; HEADER_BYTES];
        assert!(Record::new(&bytes).is_none(), "it says that it has 0 bytes");
        bytes[4] = HEADER_BYTES as u8;
        bytes[8] = 7;
        assert_eq!(Record::new(&bytes).map(|r| r.time_ns()), Some(7));
        assert!(Record::new(&bytes[..39]).is_none());
    }
}
