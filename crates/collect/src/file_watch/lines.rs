//! Bytes in pieces of any length become lines.

/// A longer line is told of by its beginning.
const LINE_MOST: usize = 64 * 1024;

/// The line that has not come to its end.
#[derive(Default)]
pub struct Lines {
    begun: Vec<u8>,
    has_begun: bool,
}

impl Lines {
    /// Takes what comes next, and tells of each line that is complete with it, without its end.
    pub fn add(&mut self, bytes: &[u8], tell: &mut dyn FnMut(Vec<u8>)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_complete) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = LINE_MOST.saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&text[..text.len().min(room)]);
            self.has_begun = true;
            if is_complete {
                tell(self.take());
            }
        }
    }

    /// What was begun and will not be ended.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        self.has_begun.then(|| self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        self.has_begun = false;
        let mut line = std::mem::take(&mut self.begun);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.add(piece, &mut |line| found.push(line));
        }
        found.extend(lines.rest());
        found
    }

    #[test]
    fn pieces_may_end_anywhere() {
        let expected: Vec<Vec<u8>> = vec![b"one".to_vec(), b"".to_vec(), b"two".to_vec()];
        assert_eq!(lines_of(&[b"o", b"ne\n\n", b"two"]), expected);
        assert_eq!(lines_of(&[b"one\r\n\r", b"\ntwo\n"]), expected);
        assert_eq!(lines_of(&[]), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn of_a_very_long_line_the_beginning_is_told() {
        let long = vec![b'x'; LINE_MOST];
        let found = lines_of(&[&long, b"yyy", b"\nshort\n"]);
        assert_eq!(found, [long, b"short".to_vec()]);
    }
}
