//! Words that are no UTF-8, beside the text that stands for them: as Base64 (RFC 4648), which keeps each byte.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// All words of a command, if one of them is no UTF-8; else none, for the text says all.
pub fn of_words<'w, W: AsRef<OsStr> + 'w>(words: impl IntoIterator<Item = &'w W>) -> Vec<String> {
    let words: Vec<&[u8]> = words.into_iter().map(|word| word.as_ref().as_bytes()).collect();
    match words.iter().all(|word| std::str::from_utf8(word).is_ok()) {
        true => Vec::new(),
        false => words.into_iter().map(encode).collect(),
    }
}

/// The words of a command, each with a NUL byte behind it, if one of them is no UTF-8.
pub fn of_words_ended<W: AsRef<OsStr>>(words: &[W]) -> Option<String> {
    let words = || words.iter().map(|word| word.as_ref().as_bytes());
    let is_text = words().all(|word| std::str::from_utf8(word).is_ok());
    (!is_text).then(|| encode(&words().flat_map(|word| [word, &[0]].concat()).collect::<Vec<_>>()))
}

/// These bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            (0..3).fold(0, |bits, at| bits << 8 | group.get(at).map_or(0, |b| u32::from(*b)));
        for at in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn bytes_are_as_the_standard_has_them() {
        // The test vectors of RFC 4648.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
        assert_eq!(encode(&[0xff, 0xfe, 0xfb]), "//77");
    }

    #[test]
    fn words_that_are_text_need_nothing_beside_them() {
        let plain = [OsString::from("a"), OsString::from("ä")];
        assert!(of_words(&plain).is_empty());
        let words = [OsString::from("a"), OsString::from_vec(vec![0xff])];
        assert_eq!(of_words(&words), ["YQ==", "/w=="]);
        assert_eq!(of_words_ended(&plain), None);
        assert_eq!(of_words_ended(&words), Some(encode(b"a\0\xff\0")));
    }
}
