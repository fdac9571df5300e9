//! What readers of a stream know of its records. Derived from crates/trace by `weigh generate`.

/// What every event begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which of the stream's events, counted from 0.
    pub event: u32,
    /// Bytes of the record, with its header.
    pub size: u32,
    /// When, by CLOCK_BOOTTIME.
    pub time_ns: u64,
    /// What the event is about, as the probe chose.
    pub id: u64,
    /// The CPU that it happened on.
    pub cpu: u32,
    /// The process that was running there.
    pub tgid: u32,
    /// Its thread.
    pub tid: u32,
    /// A bit for each field whose value could not be had, the first is bit 0.
    pub absent: u32,
}

/// Bytes of it.
pub(crate) const HEADER_BYTES: usize = 40;

impl Header {
    /// That of a record; none if it is shorter.
    pub(crate) fn of(record: &[u8]) -> Option<Header> {
        Some(Header {
            event: u32::from_le_bytes(record.get(0..4)?.try_into().ok()?),
            size: u32::from_le_bytes(record.get(4..8)?.try_into().ok()?),
            time_ns: u64::from_le_bytes(record.get(8..16)?.try_into().ok()?),
            id: u64::from_le_bytes(record.get(16..24)?.try_into().ok()?),
            cpu: u32::from_le_bytes(record.get(24..28)?.try_into().ok()?),
            tgid: u32::from_le_bytes(record.get(28..32)?.try_into().ok()?),
            tid: u32::from_le_bytes(record.get(32..36)?.try_into().ok()?),
            absent: u32::from_le_bytes(record.get(36..40)?.try_into().ok()?),
        })
    }
}

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FieldKind {
    /// A number that is never below 0.
    Unsigned = 0,
    /// A number.
    Signed = 1,
    /// 0 or 1.
    Bool = 2,
    /// An address.
    Pointer = 3,
    /// A number whose names the description has.
    Enum = 4,
    /// Characters, up to the first that is 0.
    Text = 5,
    /// Bytes.
    Bytes = 6,
    /// Addresses of the kernel's functions, the innermost first, up to the first that is 0.
    Stack = 7,
    /// The same of the program's functions.
    Ustack = 8,
    /// An address of IP, 16 bytes in the order of the network; before one of IPv4 stands ::ffff:.
    Ip = 9,
}

impl FieldKind {
    pub(crate) fn numbered(number: u32) -> Option<FieldKind> {
        Some(match number {
            0 => FieldKind::Unsigned,
            1 => FieldKind::Signed,
            2 => FieldKind::Bool,
            3 => FieldKind::Pointer,
            4 => FieldKind::Enum,
            5 => FieldKind::Text,
            6 => FieldKind::Bytes,
            7 => FieldKind::Stack,
            8 => FieldKind::Ustack,
            9 => FieldKind::Ip,
            _ => return None,
        })
    }
}
