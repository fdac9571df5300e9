//! The journal: what has been recorded so far, one JSON object a line, while the job runs.
//!
//! Reads lines and emits entries. A line that is no entry is refused alone: it is counted and the
//! reading goes on with the next. A last line that was cut off by the end of weigh is no damage.
//! Entries of a kind that this version does not know are passed over, and so are unknown fields.
//!
//! JSON has no NaN and no infinity. A number that is not finite is no measurement: it is taken
//! out of an entry before that is written, and counted: the sample or the process's metric is left
//! out, the summary's metric becomes unavailable.

use std::io::{self, BufRead, Read};
use weigh_schema::update::Update;

use crate::sample_line::{SAMPLES, samples_of};

/// A longer line is damage: it is passed over without being held in memory.
pub(crate) const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a line is no entry.
#[derive(Debug, thiserror::Error)]
#[error("{reason} at byte {byte}")]
pub struct LineError {
    reason: String,
    byte: usize,
}

impl From<serde_json::Error> for LineError {
    fn from(error: serde_json::Error) -> LineError {
        // The library counts lines inside of the line, which would only mislead.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = error.to_string();
        let reason = text.strip_suffix(&place).unwrap_or(&text).to_string();
        LineError { reason, byte: error.column() }
    }
}

/// Reads one line of a journal, with or without the newline at its end.
pub fn parse_line(line: &[u8]) -> Result<Update, LineError> {
    match line.starts_with(SAMPLES).then(|| samples_of(line)).flatten() {
        Some(samples) => Ok(samples.into()),
        None => Ok(serde_json::from_slice(line)?),
    }
}

/// The lines of a journal, one after the other.
pub(crate) struct JournalReader<R> {
    input: R,
    line: Vec<u8>,
    /// What has been met so far.
    pub(crate) condition: Condition,
    /// Bytes of lines that had an end.
    whole_bytes: u64,
}

/// The state in which a journal was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// All lines, a last one that was cut off included.
    pub(crate) lines: u64,
    /// Lines that are no entries.
    pub(crate) damaged: u64,
    /// The first of them, counted from 1, and what is wrong with it.
    pub(crate) first_damage: Option<(u64, String)>,
    /// Whether the last line was cut off.
    pub(crate) cut_off: bool,
}

impl<R: BufRead> JournalReader<R> {
    pub(crate) fn new(input: R) -> JournalReader<R> {
        JournalReader::resumed(input, Condition::default())
    }

    /// Goes on behind lines that were found in this condition.
    pub(crate) fn resumed(input: R, condition: Condition) -> JournalReader<R> {
        JournalReader { input, line: Vec::new(), condition, whole_bytes: 0 }
    }

    /// The next entry whose line has an end, and the length of that; none at the end, or before a line that is still being written,
    /// which is not counted.
    pub(crate) fn next_whole(&mut self) -> io::Result<Option<(Update, usize)>> {
        while self.read_line()? {
            if !self.line.ends_with(b"\n") {
                self.condition.lines -= 1;
                return Ok(None);
            }
            match parse_line(&self.line) {
                Ok(entry) => return Ok(Some((entry, self.line.len()))),
                Err(error) => self.damage(error.to_string()),
            }
        }
        Ok(None)
    }

    /// Bytes of the lines that had an end.
    pub(crate) fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// The next entry that can be read; none at the end.
    pub(crate) fn next_entry(&mut self) -> io::Result<Option<Update>> {
        self.next_of(true)
    }

    /// The same; without samples their lines, which are most of a long journal, are not parsed.
    pub(crate) fn next_of(&mut self, with_samples: bool) -> io::Result<Option<Update>> {
        while self.read_line()? {
            if !with_samples && self.line.starts_with(SAMPLES) {
                continue;
            }
            match parse_line(&self.line) {
                Ok(entry) => return Ok(Some(entry)),
                Err(_) if !self.line.ends_with(b"\n") => self.condition.cut_off = true,
                Err(error) => self.damage(error.to_string()),
            }
        }
        Ok(None)
    }

    /// The next line that is not too long, whatever is in it; none at the end.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        Ok(self.read_line()?.then_some(&self.line))
    }

    /// Reads the next line that is not too long; false at the end.
    fn read_line(&mut self) -> io::Result<bool> {
        loop {
            self.line.clear();
            let length =
                (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
            if length == 0 {
                return Ok(false);
            }
            self.condition.lines += 1;
            if self.line.ends_with(b"\n") {
                self.whole_bytes += length as u64;
            }
            if self.line.ends_with(b"\n") || (length as u64) < LINE_BYTES_MAX {
                return Ok(true);
            }
            self.damage("the line is too long".to_string());
            self.whole_bytes += length as u64 + self.skip_line()?;
        }
    }

    fn damage(&mut self, reason: String) {
        self.condition.damaged += 1;
        self.condition.first_damage.get_or_insert((self.condition.lines, reason));
    }

    /// Reads on to the end of the line.
    fn skip_line(&mut self) -> io::Result<u64> {
        self.input.skip_until(b'\n').map(|bytes| bytes as u64)
    }
}
