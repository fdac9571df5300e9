//! Exporters that append lines to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use weigh_schema::printable::in_words;
use weigh_schema::top::TopReport;

use super::backoff::Backoff;
use super::exporter::{ExportError, ExporterStatus, MetricExporter};

/// Bytes that wait for room on the disk, at most; what is beyond is not taken.
const BUFFERED_BYTES: usize = 8 << 20;

/// A file and what is still to be written to it.
pub struct TextFile {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    /// What of `buffer` is written already.
    written: usize,
    is_empty: bool,
}

impl TextFile {
    /// Opens a file for more lines, and makes it where it is not there.
    pub fn open(path: &str) -> Result<TextFile, String> {
        let path = PathBuf::from(path);
        let failed = |error: io::Error| {
            format!("cannot open {}: {}", path.display(), in_words(error.to_string()))
        };
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        let is_empty = file.metadata().map_err(failed)?.len() == 0;
        Ok(TextFile { file, path, buffer: Vec::new(), written: 0, is_empty })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has no line yet, written or not.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Takes lines, or nothing where too much is waiting.
    pub fn push(&mut self, lines: &str) -> bool {
        let fits = self.buffer.len() - self.written + lines.len() <= BUFFERED_BYTES;
        if fits {
            self.buffer.extend_from_slice(lines.as_bytes());
            self.is_empty &= lines.is_empty();
        }
        fits
    }

    /// Writes what is waiting. What a full disk does not take is kept, from the byte on at which it stopped.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.written < self.buffer.len() {
            match self.file.write(&self.buffer[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buffer.drain(..self.written);
                    self.written = 0;
                    return Err(error);
                }
            }
        }
        self.buffer.clear();
        self.written = 0;
        Ok(())
    }
}

/// Lines of a report.
#[derive(Clone, Copy)]
pub struct LineFormat {
    /// Name of the exporter.
    pub exporter: &'static str,
    /// The first line of a file, its end included.
    pub head: &'static str,
    /// The lines of a report, and how many values they hold.
    pub lines: fn(&TopReport) -> (String, u64),
}

/// Appends reports to a file.
pub struct TextExporter {
    format: LineFormat,
    file: TextFile,
    /// Values that wait with their lines.
    waiting: u64,
    backoff: Backoff,
    status: ExporterStatus,
}

impl TextExporter {
    /// Opens the file.
    pub fn open(format: LineFormat, path: &str) -> Result<TextExporter, String> {
        let status = ExporterStatus { exporter: format.exporter, ..ExporterStatus::default() };
        let file = TextFile::open(path)?;
        Ok(TextExporter { format, file, waiting: 0, backoff: Backoff::default(), status })
    }
}

impl MetricExporter for TextExporter {
    fn name(&self) -> &'static str {
        self.format.exporter
    }

    fn take(&mut self, report: &TopReport) {
        let (mut lines, values) = (self.format.lines)(report);
        if self.file.is_empty() {
            lines.insert_str(0, self.format.head);
        }
        match self.file.push(&lines) {
            true => self.waiting += values,
            false => self.status.lost_values += values,
        }
    }

    fn send(&mut self) -> Result<(), ExportError> {
        if !self.backoff.is_over(Instant::now()) {
            return Ok(());
        }
        if let Err(error) = self.file.flush() {
            self.backoff.fail(Instant::now(), None);
            self.status.retries += 1;
            let problem =
                format!("{}: {}", self.file.path().display(), in_words(error.to_string()));
            self.status.last_error = Some(problem.clone());
            return Err(ExportError::Attempt { exporter: self.format.exporter, problem });
        }
        self.backoff.reset();
        self.status.sent_values += std::mem::take(&mut self.waiting);
        Ok(())
    }

    fn status(&self) -> ExporterStatus {
        self.status.clone()
    }

    fn next_attempt(&self) -> Option<Instant> {
        self.backoff.due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_no_line_twice_and_loses_none_uncounted() {
        let mut file = TextFile::open("/dev/full").unwrap();
        assert!(file.push("one\n"));
        assert!(file.flush().is_err() && file.buffer == b"one\n");
        assert!(!file.push(&"x".repeat(BUFFERED_BYTES)), "the buffer has its bound");
        file.file = OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert!(file.flush().is_ok() && file.buffer.is_empty());
    }
}
