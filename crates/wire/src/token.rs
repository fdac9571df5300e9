//! Secrets that open a page: made at random, compared in equal time, shown to nobody by mistake.

use std::fmt;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

const TOKEN_BYTES: usize = 32;

/// A random secret of 256 bits, as 64 hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one. Errors: the kernel has no random numbers.
    pub fn generate() -> io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// One that was written down; none where the text is no token.
    pub fn parse(text: &str) -> Option<Token> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_token = text.len() == 2 * TOKEN_BYTES && text.bytes().all(is_digit);
        is_token.then(|| Token(text.to_string()))
    }

    /// Its digits.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a text is this token. Takes as long for a wrong one as for the right one.
    pub fn is(&self, other: &str) -> bool {
        let differences = self.0.bytes().zip(other.bytes()).map(|(a, b)| a ^ b);
        self.0.len() == other.len() && differences.fold(0, |all, one| all | one) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_256_bits_and_each_is_another() {
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_eq!(one.text().len(), 2 * TOKEN_BYTES);
        assert_ne!(one.text(), other.text());
        assert!(
            one.is(one.text()) && !one.is(other.text()) && !one.is("") && !one.is(&one.text()[1..])
        );
        assert!(!format!("{one:?}").contains(&one.text()[..8]));
    }

    #[test]
    fn what_was_written_down_is_read_again_and_nothing_else_is() {
        let token = Token::generate().unwrap();
        assert!(Token::parse(token.text()).is_some_and(|read| read.is(token.text())));
        let upper = "A".repeat(64);
        for wrong in ["", "0", &token.text()[1..], &format!("{}\n", token.text()), &upper] {
            assert!(Token::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
