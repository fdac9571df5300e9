//! The text of `darshan-parser` says what is not in its numbers.
#![allow(clippy::unwrap_used)]

mod common {
    pub mod sample;
}

use common::sample;
use weigh_schema::Quality;
use weigh_schema::io::Trust;
use weigh_show::darshan::{Ranks, head};

#[test]
fn what_was_not_seen_stands_at_the_head() {
    let mut summary = sample::limited(4).summary;
    let found = summary.io.as_mut().unwrap();
    let trust = |quality, reason: &str| Trust { quality, reason: reason.to_string() };
    let hidden = trust(Quality::Unavailable, "no call tells of it");
    found.qualities.insert("mapped".to_string(), hidden);
    found.quality = Quality::Estimated;
    found.notes = vec!["two\nlines".to_string()];
    let text = head(&summary, &Ranks::default());
    for line in [
        "# not seen: bytes and calls, all together, are estimated",
        "# not seen: mapped unavailable: no call tells of it",
        "# not seen: two lines",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')));
}
