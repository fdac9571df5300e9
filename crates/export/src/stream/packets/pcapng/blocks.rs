//! Blocks of a file and their options: each says how long it is, and begins at a multiple of 4 bytes.

/// Options of all blocks.
pub const END: u16 = 0;
/// See above.
pub const COMMENT: u16 = 1;

/// A block: its kind, its length, what is in it, its length again.
pub fn block(to: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let begin = to.len();
    to.extend(kind.to_le_bytes());
    to.extend([0; 4]);
    fill(to);
    let length = ((to.len() - begin + 4) as u32).to_le_bytes();
    to[begin + 4..begin + 8].copy_from_slice(&length);
    to.extend(length);
}

/// An option: its number, its length, its value.
pub fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend(code.to_le_bytes());
    to.extend((value.len() as u16).to_le_bytes());
    padded(to, value);
}

/// Everything begins at a multiple of 4 bytes.
fn padded(to: &mut Vec<u8>, value: &[u8]) {
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// How long a block is that begins here.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let word = bytes.get(4..8)?.try_into().ok()?;
    Some(u32::from_le_bytes(word) as usize)
}
