//! Lines, words and numbers.

/// Complete lines, without their ends; what follows the last end is cut off and no line.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

/// The words of a line, between blanks.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// A decimal number: digits and nothing else, no more than 64 bits hold.
pub fn number(word: &[u8]) -> Option<u64> {
    let add = |sum: u64, byte: &u8| match byte {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    };
    if word.is_empty() { None } else { word.iter().try_fold(0, add) }
}

/// So many numbers; `None` from the first word on that is none.
pub(super) fn numbers<'a, const N: usize>(
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> [Option<u64>; N] {
    let mut found = [None; N];
    for slot in &mut found {
        *slot = words.next().and_then(number);
        if slot.is_none() {
            break;
        }
    }
    found
}
