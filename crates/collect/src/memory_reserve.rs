//! Memory for the moment in which there is none: an allocation that fails is tried again with what was held back.
//!
//! A program that is refused memory is aborted by Rust. For an agent that would be the end of what it does for all of its
//! users. So it holds a reserve ([`hold`]), takes in nobody while that is spent ([`is_short`]), and waits for others to
//! give memory back. Refuses, as any allocator, what there is no memory for after that.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

/// Far more than the answers to those who are there take at one time. It is address space only until it is used.
const RESERVE_BYTES: usize = 1 << 20;
const RESERVE: Layout = match Layout::from_size_align(RESERVE_BYTES, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("16 is a power of two"),
};
/// Others may give memory back meanwhile.
const WAIT: Duration = Duration::from_millis(5);
/// How often it is waited for that: for 20 ms, or, where a reserve is held and would be enough, for half a minute.
const TRIES: u32 = 4;
const TRIES_OF_HOLDER: u32 = 6000;

static HELD: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// The system's allocator, which tries again.
#[derive(Debug)]
pub struct PatientAllocator;

/// From now on memory is held back.
pub fn hold() {
    IS_WANTED.store(true, Ordering::Relaxed);
    is_short();
}

/// Whether memory is held back here: this process must not end for want of it.
pub fn is_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

/// Whether the reserve is spent, and cannot be had again now.
pub fn is_short() -> bool {
    if !is_wanted() || !HELD.load(Ordering::Relaxed).is_null() {
        return false;
    }
    // SAFETY: the layout is of more than no bytes.
    let block = unsafe { System.alloc(RESERVE) };
    if block.is_null() {
        return true;
    }
    let before = HELD.swap(block, Ordering::AcqRel);
    if !before.is_null() {
        // SAFETY: it was allocated with this layout, and the thread that has swapped it out has it alone.
        unsafe { System.dealloc(before, RESERVE) };
    }
    false
}

/// Gives the reserve back to the system, if there is one.
fn spend() {
    let block = HELD.swap(null_mut(), Ordering::AcqRel);
    if !block.is_null() {
        // SAFETY: it was allocated with this layout, and the thread that has swapped it out has it alone.
        unsafe { System.dealloc(block, RESERVE) };
    }
}

#[cold]
fn again(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let is_holder = is_wanted() && size <= RESERVE_BYTES;
    for _ in 0..if is_holder { TRIES_OF_HOLDER } else { TRIES } {
        spend();
        let block = allocate();
        if !block.is_null() {
            return block;
        }
        std::thread::sleep(WAIT);
    }
    null_mut()
}

// SAFETY: each call is handed on to the system's allocator as it came; one that failed has changed nothing, and is handed
// on once more.
unsafe impl GlobalAlloc for PatientAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the same.
        let allocate = || unsafe { System.alloc(layout) };
        let block = allocate();
        if block.is_null() { again(layout.size(), allocate) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the same.
        let allocate = || unsafe { System.alloc_zeroed(layout) };
        let block = allocate();
        if block.is_null() { again(layout.size(), allocate) } else { block }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are the same; where it fails the old block is as it was.
        let allocate = || unsafe { System.realloc(old, layout, size) };
        let block = allocate();
        if block.is_null() { again(size, allocate) } else { block }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: it was allocated by the system's allocator, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_no_reserve_is_enough_for_is_not_waited_for_long() {
        let tries = Cell::new(0);
        let none = || {
            tries.set(tries.get() + 1);
            null_mut()
        };
        assert!(again(RESERVE_BYTES + 1, none).is_null());
        assert_eq!(tries.get(), TRIES);
    }

    #[test]
    fn what_was_held_back_is_spent_once_and_held_again() {
        hold();
        assert!(!HELD.load(Ordering::Relaxed).is_null());
        let tries = Cell::new(0);
        let block = again(64, || {
            tries.set(tries.get() + 1);
            assert!(HELD.load(Ordering::Relaxed).is_null(), "it is given back first");
            if tries.get() < 3 { null_mut() } else { std::ptr::dangling_mut() }
        });
        assert!(!block.is_null() && tries.get() == 3);
        assert!(!is_short() && !HELD.load(Ordering::Relaxed).is_null());
    }
}
