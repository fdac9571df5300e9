//! Delivery to a server by HTTP: in order and at least once, from a bounded buffer, with back-off.
//!
//! What the protocols have of their own is in implementations of [`Protocol`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weigh_schema::top::TopReport;

use super::backoff::Backoff;
use super::batch::{Batch, BatchBuilder};
use super::exporter::{ExportError, ExporterStatus, MetricExporter};
use super::http::{Answer, HttpClient, Request, TIMEOUT};

/// Points in the buffer, at most: 40 MB; of a node with 300 values once a second an hour.
const BUFFERED_POINTS: usize = 1 << 20;
/// How often in succession one batch is sent again in another form.
const FORMS: usize = 3;

/// What a protocol over HTTP has of its own.
pub trait Protocol: Send {
    /// Name of the exporter.
    fn name(&self) -> &'static str;

    /// What the server has to be asked or told before the first batch; it is repeated until it succeeds.
    fn prepare(&mut self, _http: &HttpClient) -> Result<(), String> {
        Ok(())
    }

    /// The request for a batch.
    fn request(&mut self, http: &HttpClient, batch: &Batch) -> Request;

    /// What the answer means for the batch.
    fn judge(&mut self, batch: &Batch, answer: &Answer) -> Verdict {
        let _ = batch;
        Verdict::of_status(answer)
    }
}

/// What becomes of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server has it; so many values of it are refused for good, and why.
    Accepted {
        /// Values that were not taken.
        refused: u64,
        /// Why, in words.
        problem: Option<String>,
    },
    /// It is sent again at once, in another form.
    Another,
    /// It is sent again after a while: the server is busy or broken.
    Later(String),
    /// The server does not want it, now or later.
    Refused(String),
}

impl Verdict {
    /// The server has all of it.
    pub const WHOLE: Verdict = Verdict::Accepted { refused: 0, problem: None };

    /// By the status alone: 2xx accepted; 3xx, 408, 429 and 5xx later; 4xx refused.
    pub fn of_status(answer: &Answer) -> Verdict {
        match answer.status {
            200..300 => Verdict::WHOLE,
            408 | 429 => Verdict::Later(answer.words()),
            400..500 => Verdict::Refused(answer.words()),
            _ => Verdict::Later(answer.words()),
        }
    }
}

/// An exporter that speaks a protocol over HTTP.
pub struct Delivery<P> {
    protocol: P,
    http: HttpClient,
    builder: BatchBuilder,
    buffer: VecDeque<Batch>,
    buffered_points: usize,
    capacity: usize,
    backoff: Backoff,
    is_prepared: bool,
    status: ExporterStatus,
}

impl<P: Protocol> Delivery<P> {
    /// Connects to nothing yet.
    pub fn new(protocol: P, http: HttpClient) -> Delivery<P> {
        let status = ExporterStatus { exporter: protocol.name(), ..ExporterStatus::default() };
        Delivery {
            protocol,
            http,
            builder: BatchBuilder::default(),
            buffer: VecDeque::new(),
            buffered_points: 0,
            capacity: BUFFERED_POINTS,
            backoff: Backoff::default(),
            is_prepared: false,
            status,
        }
    }

    fn make_room(&mut self) {
        while self.buffered_points > self.capacity && self.buffer.len() > 1 {
            let lost = self.take_first();
            self.status.lost_values += lost;
        }
    }

    fn take_first(&mut self) -> u64 {
        let points = self.buffer.pop_front().map_or(0, |batch| batch.points.len());
        self.buffered_points -= points;
        points as u64
    }

    /// Sends the oldest batch, in as many forms as it takes.
    fn deliver_first(&mut self) -> Result<(), String> {
        if !self.is_prepared {
            self.protocol.prepare(&self.http).map_err(|problem| self.put_off(problem, None))?;
            self.is_prepared = true;
        }
        for _ in 0..FORMS {
            let Some(batch) = self.buffer.front() else { return Ok(()) };
            let request = self.protocol.request(&self.http, batch);
            let answer = match self.http.send(request) {
                Ok(answer) => answer,
                Err(problem) => return Err(self.put_off(problem, None)),
            };
            let verdict = self.protocol.judge(batch, &answer);
            if verdict != Verdict::Another {
                return self.settle(verdict, answer.retry_after);
            }
        }
        self.settle(Verdict::Refused("the server takes none of the forms".to_string()), None)
    }

    fn settle(&mut self, verdict: Verdict, asked: Option<Duration>) -> Result<(), String> {
        let (refused, problem) = match verdict {
            Verdict::Later(problem) => return Err(self.put_off(problem, asked)),
            Verdict::Accepted { refused, problem } => (refused, problem),
            Verdict::Refused(problem) => (u64::MAX, Some(problem)),
            Verdict::Another => return Ok(()),
        };
        let points = self.take_first();
        self.status.lost_values += refused.min(points);
        self.status.sent_values += points.saturating_sub(refused);
        self.backoff.reset();
        problem.map_or(Ok(()), Err)
    }

    fn put_off(&mut self, problem: String, asked: Option<Duration>) -> String {
        self.backoff.fail(Instant::now(), asked);
        self.status.retries += 1;
        problem
    }
}

impl<P: Protocol> MetricExporter for Delivery<P> {
    fn name(&self) -> &'static str {
        self.protocol.name()
    }

    fn take(&mut self, report: &TopReport) {
        let batch = self.builder.build(report);
        self.status.left_out_values += batch.left_out;
        if !batch.points.is_empty() {
            self.buffered_points += batch.points.len();
            self.buffer.push_back(batch);
            self.make_room();
        }
    }

    fn send(&mut self) -> Result<(), ExportError> {
        let until = Instant::now() + TIMEOUT;
        let mut last = Ok(());
        while !self.buffer.is_empty()
            && self.backoff.is_over(Instant::now())
            && Instant::now() < until
        {
            if let Err(problem) = self.deliver_first() {
                self.status.last_error = Some(problem.clone());
                last = Err(ExportError::Attempt { exporter: self.protocol.name(), problem });
            }
        }
        last
    }

    fn status(&self) -> ExporterStatus {
        ExporterStatus { buffered_reports: self.buffer.len() as u64, ..self.status.clone() }
    }

    fn next_attempt(&self) -> Option<Instant> {
        (!self.buffer.is_empty()).then(|| self.backoff.due().unwrap_or_else(Instant::now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::target::HttpTarget;
    use crate::metrics::test_report::{exact, report};
    use weigh_schema::Number;
    use weigh_schema::node_metric::node_forks_total as forks;

    /// Notes what becomes of batches; no server is asked.
    struct Noted;

    impl Protocol for Noted {
        fn name(&self) -> &'static str {
            "noted"
        }

        fn request(&mut self, http: &HttpClient, _: &Batch) -> Request {
            Request {
                method: "GET",
                url: http.target.url(""),
                headers: Vec::new(),
                body: Vec::new(),
            }
        }
    }

    fn take(delivery: &mut Delivery<Noted>, seconds: std::ops::RangeInclusive<i64>) {
        for second in seconds {
            let value = exact(Number::Whole(second as u64));
            delivery.take(&report(second, &[("node", forks.name, value)]));
        }
    }

    fn delivery() -> Delivery<Noted> {
        // Nothing answers at port 1 of the loopback interface.
        let target = HttpTarget::parse("http://127.0.0.1:1").unwrap();
        Delivery::new(Noted, HttpClient::new(target).unwrap())
    }

    #[test]
    fn a_full_buffer_loses_the_oldest_and_counts_them() {
        let mut delivery = Delivery { capacity: 3, ..delivery() };
        take(&mut delivery, 1..=10);
        let status = delivery.status();
        assert_eq!((status.lost_values, status.buffered_reports), (7, 3));
        assert_eq!(delivery.buffer[0].time_ns, 8_000_000_000);
        assert_eq!(delivery.buffered_points, 3);
    }

    #[test]
    fn after_a_failure_nothing_is_sent_before_its_time() {
        let mut delivery = delivery();
        take(&mut delivery, 1..=1);
        let error = delivery.send().unwrap_err().to_string();
        assert!(error.starts_with("export to noted: http://127.0.0.1:1: "), "{error}");
        assert!(delivery.send().is_ok());
        let status = delivery.status();
        assert_eq!((status.retries, status.lost_values, status.buffered_reports), (1, 0, 1));
        assert!(delivery.next_attempt().is_some_and(|due| due > Instant::now()));
    }

    #[test]
    fn every_verdict_is_accounted() {
        let mut delivery = delivery();
        take(&mut delivery, 1..=4);
        let answer = |status| Answer { status, ..Answer::default() };
        let settle = |delivery: &mut Delivery<Noted>, status| {
            let verdict = Verdict::of_status(&answer(status));
            delivery.settle(verdict, None).is_ok()
        };
        let statuses = [204, 400, 404, 429, 500, 302];
        let results = statuses.map(|status| settle(&mut delivery, status));
        assert_eq!(results, [true, false, false, false, false, false]);
        let status = delivery.status();
        assert_eq!((status.sent_values, status.lost_values, status.retries), (1, 2, 3));
        assert_eq!(status.buffered_reports, 1);
    }
}
