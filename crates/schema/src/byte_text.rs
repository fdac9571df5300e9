//! Texts that keep bytes which are no UTF-8, from where they are read to where they are written.
//!
//! Each such byte is one of the last 128 characters of the private planes (U+10FF80 for 0x80 and so on); where
//! the bytes have such a character themselves, its four bytes are kept so, too. So each text stands for one row of
//! bytes. People and files get [`shown`], and beside it [`base64`] where that does not say all.

use std::borrow::Cow;

use crate::base64;

const FIRST: u32 = 0x10_ff80;

fn byte_of(character: char) -> Option<u8> {
    let at = u32::from(character).checked_sub(FIRST)?;
    u8::try_from(at + 0x80).ok()
}

fn mark_of(byte: u8) -> char {
    char::from_u32(FIRST - 0x80 + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The text that keeps these bytes.
pub fn keep(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match byte_of(character) {
                None => text.push(character),
                Some(_) => {
                    let mut bytes = [0; 4];
                    let bytes = character.encode_utf8(&mut bytes).bytes();
                    text.extend(bytes.map(mark_of));
                }
            }
        }
        text.extend(chunk.invalid().iter().copied().map(mark_of));
    }
    text
}

/// The bytes that a text keeps.
pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.chars().any(|character| byte_of(character).is_some()) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// As people and files have it: what is no UTF-8 is U+FFFD.
pub fn shown(text: &str) -> String {
    String::from_utf8_lossy(&bytes(text)).into_owned()
}

/// Its bytes in Base64; none where what is shown says all.
pub fn base64(text: &str) -> Option<String> {
    let bytes = bytes(text);
    std::str::from_utf8(&bytes).is_err().then(|| base64::encode(&bytes))
}

/// Those of several words, each with a NUL byte behind it; none where all are shown as they are.
pub fn base64_of_words<T: AsRef<str>>(words: &[T]) -> Option<String> {
    let is_shown = |word: &T| std::str::from_utf8(&bytes(word.as_ref())).is_ok();
    if words.iter().all(is_shown) {
        return None;
    }
    let ended = words.iter().flat_map(|word| [&bytes(word.as_ref())[..], &[0]].concat());
    Some(base64::encode(&ended.collect::<Vec<u8>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        let own_mark = "\u{10ff85}";
        for bytes in [
            &b"plain"[..],
            "\u{e4}\u{1f600}\u{10ff7f}".as_bytes(),
            b"\xff",
            b"a\xfe\xff\xc3",
            b"\xf4\x8f\xbe",
            own_mark.as_bytes(),
            &[own_mark.as_bytes(), b"\xff"].concat(),
        ] {
            let text = keep(bytes);
            assert_eq!(super::bytes(&text), bytes, "{text:?}");
            assert_eq!(shown(&text), String::from_utf8_lossy(bytes));
            assert_eq!(base64(&text).is_some(), std::str::from_utf8(bytes).is_err());
        }
        assert_ne!(keep(b"\xff"), keep(b"\xfe"), "two files are two texts");
        assert_eq!(base64(&keep(b"\xff\xfe\xfb")).as_deref(), Some("//77"));
    }

    #[test]
    fn words_that_are_shown_whole_need_nothing_beside_them() {
        assert_eq!(base64_of_words(&["a", "\u{e4}"]), None);
        let words = [keep(b"a"), keep(b"\xff")];
        assert_eq!(base64_of_words(&words), Some(base64::encode(b"a\0\xff\0")));
    }
}
