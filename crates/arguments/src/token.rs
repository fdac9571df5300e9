//! Tokens of libweigh: numbers, or texts of which numbers are made.

use blake2::Blake2b;
use blake2::digest::Digest as _;
use blake2::digest::consts::U8;
use weigh_schema::explain::AskedToken;

/// A token as it is given: digits are a number, all else is a text.
pub fn token(text: &str) -> Result<AskedToken, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let token = match is_number {
        true => text.parse().map_err(|_| "expected a number below 2^64, or a text".to_string())?,
        false => number(text),
    };
    Ok(AskedToken { token, given: text.to_string() })
}

/// The number of a text, as `weigh.token()` of Python makes it.
fn number(text: &str) -> u64 {
    u64::from_le_bytes(Blake2b::<U8>::digest(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_itself_and_a_text_has_that_of_pythons_hashlib() {
        let number = |text| token(text).map(|asked| asked.token);
        assert_eq!((number("17"), number("18446744073709551615")), (Ok(17), Ok(u64::MAX)));
        // int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        assert_eq!(number("req-2"), Ok(3835346158826075702));
        assert_eq!(number(""), Ok(13020603013274838756));
        assert_eq!(number(&"\u{fc}".repeat(200)), Ok(14392493955679350940));
        assert_eq!(token("req-2").map(|asked| asked.given), Ok("req-2".to_string()));
        assert!(token("18446744073709551616").is_err());
    }
}
