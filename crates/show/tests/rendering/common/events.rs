//! A page of events: three threads, pairs of two kinds, and one event that was sampled.

use weigh_schema::trace::{EventNote, FollowedNote, Origin, TraceNote};
use weigh_show::trace::page::TracePage;
use weigh_show::trace::{Gathered, Happened, page};

pub fn note(lost: u64) -> TraceNote {
    let events =
        ["a:begin", "a:end"].map(|name| EventNote { name: name.into(), ..EventNote::default() });
    let followed = ["a:begin", "a:end"].map(|event| FollowedNote {
        event: event.into(),
        filter: Some("len > 3".into()),
        lost_total: lost,
        ..FollowedNote::default()
    });
    let origin = Origin { command: "make -j2".into(), ..Origin::default() };
    let (events, followed) = (events.to_vec(), followed.to_vec());
    TraceNote { origin, seconds: 0.5, events, followed, ..TraceNote::default() }
}

/// So many pairs, one of each thread after the other.
pub fn gathered(pairs: u64) -> Gathered {
    let mut gathered = Gathered::default();
    for n in 0..pairs {
        let tid = 100 + (n % 3) as u32;
        let (from, to) = (n * 1000, n * 1000 + 100 + n);
        gathered.event(Happened { event: 0, at_ns: from, tgid: 100, tid });
        gathered.event(Happened { event: 1, at_ns: to, tgid: 100, tid });
        gathered.pair(if n % 2 == 0 { "even" } else { "odd" }, tid, from, to);
    }
    gathered
}

#[allow(dead_code)]
pub fn page() -> TracePage {
    page::page(&gathered(23), &note(1), &|_| "make".to_string())
}
