//! A tick of the node's collectors allocates nothing, once devices are known.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use weigh_collect::clock::Moment;
use weigh_collect::node::NodeCollectors;

struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is handed on to the system's allocator as it came; the count needs no memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(at, layout) }
    }
}

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
    let allocations = (3..20).map(|number| {
        let before = ALLOCATIONS.get();
        assert!(tick(number) >= 60);
        ALLOCATIONS.get() - before
    });
    assert_eq!(allocations.min(), Some(0));
}
