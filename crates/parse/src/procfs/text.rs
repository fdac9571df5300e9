//! Texts of bytes.

pub(super) fn split_once(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|b| *b == separator)?;
    Some((&text[..at], &text[at + 1..]))
}
