//! Numbers as Parquet packs them: by their bits, as runs, as differences (Encodings.md of the format).
//!
//! Takes whole pages of numbers and emits their bytes; nothing is refused. The encoders of the library take one
//! value after the other, which costs several times as much as what they are taken from.

/// Differences of a block, and of the parts of it that each have a width of their own.
const BLOCK: usize = 128;
const PART: usize = 32;

/// How many bits numbers up to this one take.
pub(super) fn width(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

/// Numbers that each take so many bits, 64 at most, the first in the lowest ones.
pub(super) fn bits(values: impl Iterator<Item = u64>, width: u32, to: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut word, mut used) = (0u64, 0);
    for value in values {
        word |= value << used;
        used += width;
        if used >= u64::BITS {
            to.extend_from_slice(&word.to_le_bytes());
            used -= u64::BITS;
            // Nothing of it is left where it ended with the word.
            word = value.checked_shr(width - used).unwrap_or(0);
        }
    }
    to.extend_from_slice(&word.to_le_bytes()[..used.div_ceil(8) as usize]);
}

/// A number in as many bytes as it needs, 7 bits in each.
pub(super) fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn zigzag(value: i64, to: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63).cast_unsigned(), to);
}

/// The same number so many times, which takes so many bits.
pub(super) fn run(value: u16, width: u32, times: usize, to: &mut Vec<u8>) {
    varint((times as u64) << 1, to);
    to.extend(value.to_le_bytes().iter().take(width.div_ceil(8) as usize));
}

/// So many numbers of so many bits follow: what follows is filled up to a multiple of 8 of them.
pub(super) fn packed(values: &[u16], width: u32, to: &mut Vec<u8>) {
    let eights = values.len().div_ceil(8);
    varint((eights as u64) << 1 | 1, to);
    let end = to.len() + eights * width as usize;
    bits(values.iter().map(|value| u64::from(*value)), width, to);
    to.resize(end, 0);
}

/// Which of so many rows have a value: a bit for each, the first is the lowest of the first word.
pub(super) fn presence(rows: usize, values: usize, bits: &[u64], to: &mut Vec<u8>) {
    let at = to.len();
    to.extend_from_slice(&[0; 4]);
    if values == 0 || values == rows {
        run(u16::from(values > 0), 1, rows, to);
    } else {
        let eights = rows.div_ceil(8);
        varint((eights as u64) << 1 | 1, to);
        to.extend(bits.iter().flat_map(|word| word.to_le_bytes()).take(eights));
    }
    let length = (to.len() - at - 4) as u32;
    to[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// DELTA_BINARY_PACKED: the first, and how much each one differs from the one before.
pub(super) fn differences(values: &[i64], to: &mut Vec<u8>) {
    varint(BLOCK as u64, to);
    varint((BLOCK / PART) as u64, to);
    varint(values.len() as u64, to);
    let Some(first) = values.first() else { return zigzag(0, to) };
    zigzag(*first, to);
    let mut before = *first;
    for block in values[1..].chunks(BLOCK) {
        let mut differs = [0i64; BLOCK];
        let mut least = i64::MAX;
        for (differs, value) in differs.iter_mut().zip(block) {
            *differs = value.wrapping_sub(before);
            before = *value;
            least = least.min(*differs);
        }
        // What fills the last part up is as small as can be.
        differs[block.len()..].fill(least);
        let above = differs.map(|differs| differs.wrapping_sub(least).cast_unsigned());
        zigzag(least, to);
        let widths = to.len();
        to.extend_from_slice(&[0; BLOCK / PART]);
        let parts = above.chunks_exact(PART).take(block.len().div_ceil(PART));
        for (number, part) in parts.enumerate() {
            let width = width(part.iter().fold(0, |all, value| all | value));
            to[widths + number] = width as u8;
            bits(part.iter().copied(), width, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_follow_each_other() {
        let mut bytes = Vec::new();
        bits([0, 1, 2, 3, 4, 5, 6, 7].into_iter(), 3, &mut bytes);
        // As the format's own example has it.
        assert_eq!(bytes, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
        for of in [1u32, 7, 31, 33, 63, 64] {
            let mut bytes = Vec::new();
            let most = u64::MAX >> (64 - of);
            bits([most, 0, most, most].into_iter(), of, &mut bytes);
            assert_eq!(bytes.len(), (4 * of as usize).div_ceil(8), "{of}");
            let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(ones, 3 * of, "{of}");
        }
    }

    #[test]
    fn differences_are_written_as_the_format_has_it() {
        let mut bytes = Vec::new();
        differences(&[1, 2, 3, 4, 5], &mut bytes);
        assert_eq!(bytes, [0x80, 1, 4, 5, 2, 2, 0, 0, 0, 0]);
        bytes.clear();
        differences(&[7, 5, 3, 1, 2, 3, 4, 5], &mut bytes);
        // Differences -2 -2 -2 1 1 1 1, less -2: 0 0 0 3 3 3 3 of 2 bits.
        assert_eq!(bytes[..10], [0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0]);
        assert_eq!(bytes[10..], [0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
    }
}
