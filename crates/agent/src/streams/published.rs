//! The latest value of each metric that clients publish: what rules judge, and what is shown of the node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weigh_collect::host;
use weigh_schema::printable::printable;
use weigh_schema::stream::{PushedSample, RecordSource, TraceQuery};
use weigh_schema::top::PublishedValue;
use weigh_schema::update::Scope;

/// The most values, and those of one user: names are anybody's.
const MOST_VALUES: usize = 4096;
const MOST_OF_A_USER: usize = 1024;
/// After so long without another one a value is not known any more.
pub(super) const KNOWN_FOR: Duration = Duration::from_secs(60);

/// Two users do not write over each other's.
type ValueKey = (Scope, String, Option<u32>);

#[derive(Debug, Default)]
pub(super) struct PublishedValues {
    values: BTreeMap<ValueKey, (PublishedValue, Instant)>,
}

impl PublishedValues {
    /// It came at this time of the day, and is as old as `at` says.
    pub fn take(
        &mut self,
        source: RecordSource,
        sample: &PushedSample,
        time: Timestamp,
        at: Instant,
    ) {
        let key = (sample.scope.clone(), sample.metric.clone(), source.uid);
        if let Some((value, known)) = self.values.get_mut(&key) {
            (value.value, value.unit, value.time, *known) = (sample.value, sample.unit, time, at);
            (value.pid, value.query) = (source.pid, shown(sample));
            return;
        }
        let of_user = self.values.keys().filter(|(_, _, uid)| *uid == source.uid).count();
        if self.values.len() < MOST_VALUES && of_user < MOST_OF_A_USER {
            self.values.insert(key, (value(source, sample, time), at));
        }
    }

    /// Those that are known, by scope and metric.
    pub fn known(&mut self, now: Instant) -> Vec<PublishedValue> {
        self.values.retain(|_, (_, at)| now.saturating_duration_since(*at) < KNOWN_FOR);
        self.values.values().map(|(value, _)| value.clone()).collect()
    }
}

fn value(source: RecordSource, sample: &PushedSample, time: Timestamp) -> PublishedValue {
    PublishedValue {
        scope: sample.scope.clone(),
        metric: sample.metric.clone(),
        value: sample.value,
        unit: sample.unit,
        query: shown(sample),
        user: source.uid.map(host::user_name),
        pid: source.pid,
        job: None,
        time,
    }
}

/// What was asked; nothing in it steers a terminal from here on.
fn shown(sample: &PushedSample) -> Option<Box<TraceQuery>> {
    let query = sample.query.as_deref()?;
    let asked = printable(&query.asked).into_owned();
    Some(Box::new(TraceQuery { asked, followed_pid: query.followed_pid }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::stream::RecordClient;

    fn sample(name: &str, value: f64) -> PushedSample {
        let (scope, metric) = (Scope::Node, name.to_string());
        PushedSample { scope, metric, value, unit: None, query: None }
    }

    fn of(uid: u32) -> RecordSource {
        RecordSource { uid: Some(uid), pid: Some(1), client: RecordClient::Socket }
    }

    #[test]
    fn a_value_is_known_for_a_while_and_there_is_a_bound() {
        let mut published = PublishedValues::default();
        let (now, time) = (Instant::now(), Timestamp::UNIX_EPOCH);
        published.take(of(1), &sample("a", 1.0), time, now);
        published.take(of(1), &sample("a", 2.0), time, now + Duration::from_secs(30));
        published.take(of(2), &sample("a", 7.0), time, now + Duration::from_secs(30));
        let known = |published: &mut PublishedValues, seconds| {
            let found = published.known(now + Duration::from_secs(seconds));
            found.iter().map(|value| value.value).collect::<Vec<_>>()
        };
        assert_eq!(known(&mut published, 89), [2.0, 7.0], "each user has its own");
        assert!(known(&mut published, 90).is_empty());
        let mut fill = |uid| {
            let name = |at| sample(&format!("a{at}"), 0.0);
            (0..1500).for_each(|at| published.take(of(uid), &name(at), time, now));
            published.known(now).len()
        };
        assert_eq!([1, 2, 3, 4, 5].map(&mut fill), [1024, 2048, 3072, 4096, 4096]);
    }

    #[test]
    fn nothing_in_what_was_asked_steers_a_terminal() {
        let mut published = PublishedValues::default();
        let query = TraceQuery { asked: "\x1b[2J <b>".into(), followed_pid: Some(7) };
        let sample = PushedSample { query: Some(query.into()), ..sample("a", 1.0) };
        published.take(of(1), &sample, Timestamp::UNIX_EPOCH, Instant::now());
        let found = published.known(Instant::now());
        let query = found[0].query.as_deref().expect("a query");
        assert_eq!((query.asked.as_str(), query.followed_pid), ("\\u{1b}[2J <b>", Some(7)));
    }
}
