//! One who wants reports while a stream runs: what several events say together, a line of JSON each time.
//!
//! Nobody waits for it: a report that finds the last one not taken yet is not sent, and the next says how many were not.

use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use weigh_schema::synthesis::SynthesisReport;

use super::connection::connect;
use super::conversation::Conversation;
use super::wire::{Answer, Ask};

/// How often reports can come, in milliseconds.
const INTERVALS: RangeInclusive<u64> = 100..=3_600_000;
/// Rows of each table in a report, if it is not too long then.
const ROWS: usize = 1000;
/// Readers have room for a line of so many bytes.
const MOST_BYTES: usize = 1 << 20;
/// For a report beyond its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// When the next report is due, and what was missed before it.
#[derive(Debug)]
pub struct ReportReader {
    every: Duration,
    next: Instant,
    missed: u64,
}

/// So often, or what was expected.
pub fn report_interval(ms: u64) -> Result<Duration, String> {
    match INTERVALS.contains(&ms) {
        true => Ok(Duration::from_millis(ms)),
        false => Err(format!(
            "reports each {ms} ms; expected {} to {}",
            INTERVALS.start(),
            INTERVALS.end()
        )),
    }
}

impl ReportReader {
    /// Gets the first one when the time is over for the first time.
    pub fn new(every: Duration) -> ReportReader {
        ReportReader { every, next: Instant::now() + every, missed: 0 }
    }

    /// When it is due.
    pub fn look_at(&self) -> Instant {
        self.next
    }

    /// The line of a report that is due; none if it is not, or has no room.
    pub fn line(
        &mut self,
        has_room: bool,
        report: impl Fn(usize) -> Option<SynthesisReport>,
    ) -> Option<Vec<u8>> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = (self.next + self.every).max(now);
        if !has_room {
            self.missed += 1;
            return None;
        }
        self.last(report)
    }

    /// The line of a report, whether it is due or not: with as many rows as a line has room for.
    pub fn last(&mut self, report: impl Fn(usize) -> Option<SynthesisReport>) -> Option<Vec<u8>> {
        let mut rows = ROWS;
        loop {
            let report = SynthesisReport { reports_missed_total: self.missed, ..report(rows)? };
            let answer: Answer = Answer::Report(Box::new(report));
            let line = serde_json::to_vec(&answer).ok()?;
            if line.len() < MOST_BYTES || rows == 0 {
                self.missed = 0;
                return Some(line);
            }
            rows /= 2;
        }
    }
}

/// Reads reports of a stream: the one that is named, or the only one, until it ends, or somebody has enough. Each is handed
/// over as JSON.
pub fn follow_reports(
    stream: Option<u32>,
    every: Duration,
    mut take: impl FnMut(&SynthesisReport) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let (pid, stream) = connect(stream)?;
    let told = || format!("stream {pid}");
    let talk = Conversation::patient(stream, every + PATIENCE).with_context(told)?;
    talk.say(&Ask::Reports { ms: every.as_millis() as u64 }, &[]).with_context(told)?;
    loop {
        let line = match talk.line() {
            Ok((line, _)) => line,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error).with_context(told),
        };
        match serde_json::from_slice::<Answer>(&line).with_context(told)? {
            Answer::Report(report) if take(&report)? => {}
            Answer::Done(_) => {}
            Answer::Report(_) | Answer::Ended(_) => return Ok(()),
            Answer::Refused(why) => bail!("stream {pid}: {why}"),
            _ => bail!("the stream of {pid} answers what was not asked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::synthesis::{KeyPart, REPORT, Row, SynthesisResult, Table, What};

    fn report(rows: usize, text: usize) -> SynthesisReport {
        let row = Row {
            key: vec![KeyPart::Text("x".repeat(text))],
            events_total: 1,
            rate: None,
            values: None,
        };
        let table = Table { rows: vec![row; rows.min(1000)], ..Table::default() };
        SynthesisReport {
            schema: REPORT.into(),
            seconds: 1.0,
            events_total: 1,
            late_total: 0,
            reports_missed_total: 0,
            switches_total: 0,
            switches: Vec::new(),
            found: vec![SynthesisResult {
                asked: String::new(),
                lost_total: 0,
                sampled: Vec::new(),
                what: What::Top(table),
            }],
        }
    }

    #[test]
    fn a_line_is_never_longer_than_readers_have_room_for() {
        let mut reader = ReportReader::new(Duration::ZERO);
        let line = reader.line(true, |rows| Some(report(rows, 4000))).unwrap();
        assert!(line.len() < MOST_BYTES && line.len() > MOST_BYTES / 4, "{}", line.len());
    }

    #[test]
    fn what_was_missed_is_told_once() {
        let mut reader = ReportReader::new(Duration::ZERO);
        let missed = |line: &[u8]| match serde_json::from_slice(line).unwrap() {
            Answer::<super::super::Register>::Report(report) => report.reports_missed_total,
            other => panic!("{other:?}"),
        };
        assert!(reader.line(false, |rows| Some(report(rows, 1))).is_none());
        assert!(reader.line(false, |rows| Some(report(rows, 1))).is_none());
        let lines = [0, 1].map(|_| reader.line(true, |rows| Some(report(rows, 1))).unwrap());
        assert_eq!(lines.map(|line| missed(&line)), [2, 0]);
    }

    #[test]
    fn reports_come_ten_times_a_second_at_most() {
        assert_eq!(report_interval(100), Ok(Duration::from_millis(100)));
        for wrong in [0, 99, 3_600_001, u64::MAX] {
            assert!(report_interval(wrong).unwrap_err().contains("expected 100 to 3600000"));
        }
    }
}
