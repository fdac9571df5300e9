//! Lines, words and numbers.

/// Complete lines, without their ends; what follows the last end is cut off and no line.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
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

/// A decimal number with digits behind a point: digits and their power of ten, no floating point before the last step.
pub(super) fn decimal(word: &[u8]) -> Option<f64> {
    let point = word.iter().position(|byte| *byte == b'.')?;
    let (whole, part) = (number(&word[..point])?, &word[point + 1..]);
    let scale = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let parts = whole.checked_mul(scale)?.checked_add(number(part)?)?;
    Some(parts as f64 / scale as f64)
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
