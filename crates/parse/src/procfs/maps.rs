//! Parsers of `maps`, `smaps` and `smaps_rollup`.

use super::text::split_once;

/// One mapping of `/proc/PID/maps` or `smaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// `rwxp` or `rwxs`, a dash for what is not allowed.
    pub permissions: [u8; 4],
    /// Offset in the file.
    pub offset: u64,
    /// Inode of the file; 0 if there is none.
    pub inode: u64,
    /// File, `[heap]`, `[stack]`, … or nothing.
    pub name: Vec<u8>,
}

/// Parses one line of `/proc/PID/maps`, without its newline.
pub fn parse_map_line(line: &[u8]) -> Option<MapEntry> {
    let mut rest = line;
    let mut field = || {
        let (head, tail) = split_once(rest, b' ')?;
        rest = tail;
        std::str::from_utf8(head).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let permissions: [u8; 4] = field()?.as_bytes().try_into().ok()?;
    let offset = u64::from_str_radix(field()?, 16).ok()?;
    let _device = field()?;
    let (inode, name) = split_once(rest, b' ').unwrap_or((rest, b""));
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    let blank = name.iter().position(|b| *b != b' ').unwrap_or(name.len());
    // A newline is the one byte that the kernel escapes here.
    let name = replace_all(&name[blank..], b"\\012", b"\n");
    (start <= end).then_some(MapEntry { start, end, permissions, offset, inode, name })
}

/// Parses `/proc/PID/maps`.
pub fn parse_maps(text: &[u8]) -> Vec<MapEntry> {
    text.split(|b| *b == b'\n').filter_map(parse_map_line).collect()
}

/// Parses `/proc/PID/smaps` into mappings and their resident bytes.
pub fn parse_smaps(text: &[u8]) -> Vec<(MapEntry, u64)> {
    let mut maps: Vec<(MapEntry, u64)> = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        if let Some(entry) = parse_map_line(line) {
            maps.push((entry, 0));
        } else if let (Some(bytes), Some(last)) = (kilobytes_of(line, b"Rss:"), maps.last_mut()) {
            last.1 = bytes;
        }
    }
    maps
}

/// Resident and proportional bytes of `/proc/PID/smaps_rollup`.
pub fn parse_smaps_rollup(text: &[u8]) -> Option<(u64, u64)> {
    let find = |key: &[u8]| text.split(|b| *b == b'\n').find_map(|l| kilobytes_of(l, key));
    Some((find(b"Rss:")?, find(b"Pss:")?))
}

fn kilobytes_of(line: &[u8], key: &[u8]) -> Option<u64> {
    let value = std::str::from_utf8(line.strip_prefix(key)?).ok()?;
    value.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn replace_all(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out
}
