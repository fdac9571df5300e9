//! A tick of the node's collectors allocates nothing, once devices are known.

use weigh_collect::allocation_count::{CountingAllocator, allocations};
use weigh_collect::clock::Moment;
use weigh_collect::node::NodeCollectors;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_tick_allocates_nothing() {
    let mut collectors = NodeCollectors::default();
    // A pause before a collector is opened again is 1 s at least: none is while this counts.
    let start = Moment::now().ns();
    let mut tick = |number: u64| {
        collectors.tick(Moment::at_ns(start + number * 1_000_000));
        collectors.samples().filter(|sample| sample.value.is_some()).count()
    };
    (0..3).for_each(|number| assert!(tick(number) >= 60));
    // A disk or interface may come meanwhile.
    let counts = (3..20).map(|number| {
        let before = allocations();
        assert!(tick(number) >= 60);
        allocations() - before
    });
    assert_eq!(counts.min(), Some(0));
}
