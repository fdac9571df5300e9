//! Spans of a recording to a collector, by OTLP over HTTP: in order and at least once.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::backoff::Backoff;
use super::delivery::Verdict;
use super::exporter::ExportError;
use super::http::{HttpClient, Request};
use super::otlp;
use super::target::{self, HttpTarget};

const NAME: &str = "otlp";
const PATH: &str = "/v1/traces";
/// How long a collector may be away.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends requests, one after the other.
pub struct SpanSender {
    http: HttpClient,
    patience: Duration,
    sent: u64,
}

impl SpanSender {
    /// For a target as `otlp=http://127.0.0.1:4318`; it does not connect yet.
    pub fn open(target: &str) -> Result<SpanSender, ExportError> {
        let (name, address) = target.split_once('=').unwrap_or((target, ""));
        let refused = |problem| ExportError::Spans { target: target::shown(name), problem };
        if name != NAME {
            return Err(refused(format!("spans are sent to {}", otlp::KIND.usage)));
        }
        let http = HttpTarget::parse(address).and_then(HttpClient::new).map_err(refused)?;
        Ok(SpanSender { http, patience: PATIENCE, sent: 0 })
    }

    /// Sends a request, again and again while the collector is busy or away, for half a minute at most. Errors: it was away for
    /// longer, or refuses some of it.
    pub fn send(&mut self, request: &str) -> Result<(), ExportError> {
        let until = Instant::now() + self.patience;
        let mut backoff = Backoff::default();
        loop {
            let (verdict, asked) = self.attempt(request);
            let problem = match verdict {
                Verdict::Accepted { refused, problem } => {
                    self.sent += span_count(request).saturating_sub(refused);
                    return problem.map_or(Ok(()), |problem| Err(failed(problem)));
                }
                Verdict::Later(problem) => problem,
                Verdict::Refused(problem) => return Err(failed(problem)),
                Verdict::Another => "the collector takes none of the forms".to_string(),
            };
            backoff.fail(Instant::now(), asked);
            let due = backoff.due().filter(|due| *due < until).ok_or_else(|| failed(problem))?;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    fn attempt(&self, request: &str) -> (Verdict, Option<Duration>) {
        let answer = self.http.send(Request {
            method: "POST",
            url: self.http.target.url_or(PATH),
            headers: vec![("Content-Type", "application/json")],
            body: request.trim_end().as_bytes().to_vec(),
        });
        match answer {
            Ok(answer) => (otlp::judge_answer(&answer), answer.retry_after),
            Err(problem) => (Verdict::Later(problem), None),
        }
    }

    /// Spans that the collector has accepted.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

fn failed(problem: String) -> ExportError {
    ExportError::Attempt { exporter: NAME, problem }
}

fn span_count(request: &str) -> u64 {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
    spans.map_or(0, |spans| spans.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_takes_no_spans_is_refused() {
        let refusal = |target| SpanSender::open(target).err().map(|error| error.to_string());
        assert!(refusal("prometheus=http://x").is_some_and(|words| words.contains("otlp=http://")));
        assert!(refusal("otlp=x").is_some_and(|words| words.contains("http://")));
        assert!(refusal("otlp=http://127.0.0.1:4318").is_none());
    }

    #[test]
    fn a_collector_that_stays_away_is_an_error_in_words() {
        // Nothing answers at port 1 of the loopback interface.
        let sender = SpanSender::open("otlp=http://127.0.0.1:1").unwrap();
        let mut sender = SpanSender { patience: Duration::ZERO, ..sender };
        let error = sender.send("{}\n").unwrap_err().to_string();
        assert!(error.starts_with("export to otlp: http://127.0.0.1:1: "), "{error}");
        assert_eq!(sender.sent(), 0);
    }
}
