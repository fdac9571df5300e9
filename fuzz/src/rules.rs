//! Files of rules, and what they make of values.

use std::borrow::Cow;

use weigh_account::rules::{RuleInput, RuleMoment, RuleSet, RuleState};
use weigh_schema::rule::{LONGEST_TEXT_BYTES, RuleStanding};
use weigh_schema::update::Scope;

/// A file of `account::rules`, judged by a few looks.
pub fn rules_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let set = match RuleSet::parse(&text, "rules.toml") {
        Ok(set) => set,
        Err(error) => return assert!(error.to_string().starts_with("rules.toml:")),
    };
    let mut state = RuleState::new(set);
    for look in 0..8u64 {
        let at = RuleMoment { ns: look << 33, time: Default::default() };
        let scopes = [Scope::Node, Scope::Disk("sda".into()), Scope::Other("job:7".into())];
        let metrics = ["node_threads", "node_disk_reads_total", "cpu_cores", "queue_length"];
        let mut inputs = scopes.iter().flat_map(|scope| {
            metrics.iter().map(move |metric| RuleInput {
                scope: Cow::Borrowed(scope),
                metric,
                // Now and then it is not known.
                value: (look != 5).then_some((look * look) as f64),
                per_second: None,
            })
        });
        for event in state.take(at, &mut inputs) {
            assert!(event.text.len() <= LONGEST_TEXT_BYTES);
            assert!(event.paste.len() <= LONGEST_TEXT_BYTES);
        }
        for status in state.statuses() {
            assert_eq!(status.reason.is_some(), status.state == RuleStanding::Unavailable);
        }
    }
}
