//! The records that a read from a fanotify group returns.

/// Numbers of the kernel's (`linux/fanotify.h`) that tell records apart.
pub mod number {
    /// The version of the records.
    pub const METADATA_VERSION: u8 = 3;
    /// A file was opened.
    pub const OPEN: u64 = 0x20;
    /// The queue was full.
    pub const Q_OVERFLOW: u64 = 0x4000;
    /// What follows is a directory's handle and a name in it.
    pub const INFO_DFID_NAME: u8 = 2;
    /// What follows is a directory's handle.
    pub const INFO_DFID: u8 = 3;
}

/// Where a file was when it was opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The file system, as statfs(2) names it.
    pub file_system: [u8; 8],
    /// Type of the directory's handle.
    pub handle_type: i32,
    /// The directory's handle.
    pub handle: Vec<u8>,
    /// The name in it; `.` for the directory itself.
    pub name: Vec<u8>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The queue was full: some events are missing.
    Overflow,
    /// A file was opened.
    Open {
        /// By whom; 0 if that process is not in our PID namespace.
        pid: u32,
        /// Where the file was, if the kernel says so.
        location: Option<Location>,
    },
}

const METADATA_BYTES: usize = 24;
const INFO_HEADER_BYTES: usize = 4;
const HANDLE_AT: usize = INFO_HEADER_BYTES + 8;
const HANDLE_HEADER_BYTES: usize = 8;

/// Splits what a read returned into records; stops at the first one that makes no sense.
pub fn parse_records(buffer: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut rest = buffer;
    while let Some((record, length)) = parse_record(rest) {
        records.extend(record);
        rest = &rest[length..];
    }
    records
}

/// One record and its length; no record for one of another version or kind.
fn parse_record(bytes: &[u8]) -> Option<(Option<Record>, usize)> {
    let length = u32_at(bytes, 0)? as usize;
    let version = *bytes.get(4)?;
    let header = u16_at(bytes, 6)? as usize;
    let mask = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
    let pid = u32_at(bytes, 20)?;
    if header < METADATA_BYTES || length < header || length > bytes.len() {
        return None;
    }
    let record = if version != number::METADATA_VERSION {
        None
    } else if mask & number::Q_OVERFLOW != 0 {
        Some(Record::Overflow)
    } else if mask & number::OPEN != 0 {
        Some(Record::Open { pid, location: find_location(&bytes[header..length]) })
    } else {
        None
    };
    Some((record, length))
}

fn find_location(mut infos: &[u8]) -> Option<Location> {
    loop {
        let kind = *infos.first()?;
        let length = u16_at(infos, 2)? as usize;
        if length < INFO_HEADER_BYTES || length > infos.len() {
            return None;
        }
        if kind == number::INFO_DFID_NAME || kind == number::INFO_DFID {
            return parse_location(&infos[..length]);
        }
        infos = &infos[length..];
    }
}

fn parse_location(info: &[u8]) -> Option<Location> {
    let handle_bytes = u32_at(info, HANDLE_AT)? as usize;
    let handle_type = u32_at(info, HANDLE_AT + 4)? as i32;
    let start = HANDLE_AT + HANDLE_HEADER_BYTES;
    let end = start.checked_add(handle_bytes)?;
    let handle = info.get(start..end)?.to_vec();
    let name: Vec<u8> = info[end..].iter().copied().take_while(|b| *b != 0).collect();
    Some(Location {
        file_system: info.get(INFO_HEADER_BYTES..HANDLE_AT)?.try_into().ok()?,
        handle_type,
        handle,
        name: if name.is_empty() { b".".to_vec() } else { name },
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: u8, handle: &[u8], name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend((handle.len() as u32).to_ne_bytes());
        bytes.extend(129i32.to_ne_bytes());
        bytes.extend(handle);
        bytes.extend(name);
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let length = (bytes.len() as u16).to_ne_bytes();
        bytes[2..4].copy_from_slice(&length);
        bytes
    }

    fn event(mask: u64, pid: u32, infos: &[u8]) -> Vec<u8> {
        let mut bytes = ((24 + infos.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend([number::METADATA_VERSION, 0]);
        bytes.extend(24u16.to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend((-1i32).to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        bytes.extend(infos);
        bytes
    }

    #[test]
    fn a_batch_is_split_into_records() {
        let mut batch = event(number::OPEN, 7, &info(2, b"handle!!", b"na me"));
        batch.extend(event(number::Q_OVERFLOW, 0, &[]));
        let mut both = info(1, b"file", b"");
        both.extend(info(2, b"dir", b""));
        batch.extend(event(number::OPEN, 8, &both));
        let close = 0x18;
        batch.extend(event(close, 9, &[]));
        let records = parse_records(&batch);
        assert_eq!(records.len(), 3, "a kind that was not asked for is left out");
        let Record::Open { pid: 7, location: Some(location) } = &records[0] else {
            panic!("{records:?}")
        };
        assert_eq!(location.handle, b"handle!!");
        assert_eq!(location.name, b"na me");
        assert_eq!((location.handle_type, location.file_system[7]), (129, 8));
        assert_eq!(records[1], Record::Overflow);
        let Record::Open { pid: 8, location: Some(location) } = &records[2] else {
            panic!("{records:?}")
        };
        assert_eq!((&location.handle[..], &location.name[..]), (&b"dir"[..], &b"."[..]));
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_panics() {
        let whole = event(number::OPEN, 7, &info(2, b"handle!!", b"name"));
        for length in 0..whole.len() {
            assert!(parse_records(&whole[..length]).is_empty(), "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut broken = whole.clone();
                broken[at] = value;
                assert!(parse_records(&broken).len() <= 1);
            }
        }
    }
}
