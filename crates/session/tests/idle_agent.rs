//! A tick of an agent that nobody reads allocates nothing: collectors, rules and streams.

use std::time::{Duration, Instant};

use weigh_agent::{StreamServer, StreamSettings};
use weigh_collect::allocation_count::{CountingAllocator, allocations};
use weigh_session::products::top::{ListedProcesses, TopSettings, TopSource};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_tick_that_nobody_reads_allocates_nothing() {
    let interval = Duration::from_millis(5);
    let mut top =
        TopSource::new(TopSettings { interval, listed: ListedProcesses::Everybody }, None);
    let settings = StreamSettings { interval, why_no_jobs: None, statsd: None, otlp: None };
    let (mut server, _door) = StreamServer::new(settings).expect("descriptors");
    let mut tick = || {
        top.set_resting(!server.wants_node());
        while !top.read_if_due() {
            server.handle(top.next_tick().expect("a time"), &Vec::new).expect("events");
        }
        top.judge_unread(|| server.published());
        server.skip_node();
        assert!(top.take_events().len() < 100);
        assert!(server.take_controls().is_empty());
        assert_eq!(server.interval(), interval);
    };
    let begin = Instant::now();
    (0..3).for_each(|_| tick());
    // Some collectors are read once a second, and windows of rules grow now and then.
    let mut least = u64::MAX;
    while least > 0 && begin.elapsed() < Duration::from_secs(20) {
        let before = allocations();
        tick();
        least = least.min(allocations() - before);
    }
    assert_eq!(least, 0);
}
