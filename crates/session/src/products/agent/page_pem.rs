//! The certificate and key of the agent's page, on their way to the process that serves it: its standard input. The agent
//! may read the files, that process may not.

use std::fmt;
use std::io::{self, BufRead, Read as _};

/// Bytes of each: chains have a few thousand.
const MOST_BYTES: usize = 256 * 1024;

/// A certificate with its chain, and its key, both PEM.
#[derive(Clone)]
pub struct PagePem {
    /// The certificate, and those that have signed it.
    pub certificates: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

/// The key is shown nowhere.
impl fmt::Debug for PagePem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PagePem").finish_non_exhaustive()
    }
}

impl PagePem {
    /// As it is read by [`PagePem::read_input`]: both lengths, and both.
    pub(super) fn to_input(&self) -> Vec<u8> {
        let lengths = format!("{} {}\n", self.certificates.len(), self.key.len());
        [lengths.as_bytes(), &self.certificates, &self.key].concat()
    }

    /// Takes it from the beginning of an input. Errors: it is not there, or too long.
    pub fn read_input(input: &mut impl BufRead) -> io::Result<PagePem> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "expected two lengths");
        let mut line = String::new();
        input.by_ref().take(64).read_line(&mut line)?;
        let lengths = line.trim_end().split_once(' ').ok_or_else(wrong)?;
        let mut part = |length: &str| {
            let length = length.parse().ok().filter(|length| *length <= MOST_BYTES);
            let mut bytes = vec![0; length.ok_or_else(wrong)?];
            input.read_exact(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        Ok(PagePem { certificates: part(lengths.0)?, key: part(lengths.1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read_and_no_more() {
        let pem = PagePem { certificates: b"a\nb".to_vec(), key: b"key".to_vec() };
        assert_eq!(format!("{pem:?}"), "PagePem { .. }");
        let sent = [pem.to_input(), b"rest".to_vec()].concat();
        let mut input = sent.as_slice();
        let read = PagePem::read_input(&mut input).unwrap();
        assert_eq!((read.certificates, read.key), (pem.certificates, pem.key));
        assert_eq!(input, b"rest");
        for wrong in ["", "3\n", "x y\n", "3 999999999\nabc", "3 3\nabcde"] {
            assert!(PagePem::read_input(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
