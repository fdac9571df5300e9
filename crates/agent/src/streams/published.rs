//! The latest value of each metric that clients publish: what rules judge.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weigh_schema::stream::PushedSample;
use weigh_schema::update::Scope;

/// The most values: names are anybody's.
const MOST_VALUES: usize = 4096;
/// After so long without another one a value is not known any more.
const KNOWN_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct PublishedValues {
    values: BTreeMap<(Scope, String), (PushedSample, Instant)>,
}

impl PublishedValues {
    pub fn take(&mut self, sample: &PushedSample, now: Instant) {
        let key = (sample.scope.clone(), sample.metric.clone());
        if self.values.contains_key(&key) || self.values.len() < MOST_VALUES {
            self.values.insert(key, (sample.clone(), now));
        }
    }

    /// Those that are known.
    pub fn known(&mut self, now: Instant) -> Vec<PushedSample> {
        self.values.retain(|_, (_, at)| now.saturating_duration_since(*at) < KNOWN_FOR);
        self.values.values().map(|(sample, _)| sample.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_for_a_while_and_there_is_a_bound() {
        let mut published = PublishedValues::default();
        let now = Instant::now();
        let sample = |name: &str, value| PushedSample {
            scope: Scope::Node,
            metric: name.to_string(),
            value,
            unit: None,
        };
        published.take(&sample("a", 1.0), now);
        published.take(&sample("a", 2.0), now + Duration::from_secs(30));
        let known = |published: &mut PublishedValues, seconds| {
            let found = published.known(now + Duration::from_secs(seconds));
            found.iter().map(|sample| sample.value).collect::<Vec<_>>()
        };
        assert_eq!(known(&mut published, 89), [2.0]);
        assert!(known(&mut published, 90).is_empty());
        (0..5000).for_each(|at| published.take(&sample(&format!("a{at}"), 0.0), now));
        assert_eq!(known(&mut published, 1).len(), MOST_VALUES);
    }
}
