//! Threads that stand ready for work that a loop must not wait for.
//!
//! glibc ends a process in which a thread begins without memory for its destructors. Where that must not be, as in an agent that
//! serves others ([`crate::memory_reserve`]), threads are started ahead ([`start`]), and no more later: work that finds
//! none is handed back. Elsewhere each piece of work gets a thread of its own. Refuses nothing.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use crate::memory_reserve;

/// What a thread does.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

static POOL: Pool = Pool {
    state: Mutex::new(State { queue: VecDeque::new(), idle: 0 }),
    came: Condvar::new(),
    is_idle: Condvar::new(),
};

struct Pool {
    state: Mutex<State>,
    came: Condvar,
    is_idle: Condvar,
}

struct State {
    /// No more than there are idle threads.
    queue: VecDeque<Work>,
    idle: usize,
}

/// Starts so many threads, or as many as there can be, and waits until they stand ready.
pub fn start(count: usize) {
    let before = POOL.lock().idle;
    let thread = || Builder::new().name("weigh-work".into()).spawn(|| POOL.work());
    let started = (0..count).map_while(|_| thread().ok()).count();
    let state = POOL.lock();
    let stand = |state: &mut State| state.idle < before + started;
    drop(POOL.is_idle.wait_while(state, stand).unwrap_or_else(PoisonError::into_inner));
}

/// Has a thread do it. Gives the work back where none is to be had.
pub(crate) fn hand(name: &str, work: Work) -> Result<(), Work> {
    let mut state = POOL.lock();
    if state.idle > state.queue.len() {
        state.queue.push_back(work);
        POOL.came.notify_one();
        return Ok(());
    }
    drop(state);
    if memory_reserve::is_wanted() {
        return Err(work);
    }
    let place = Arc::new(Mutex::new(Some(work)));
    let taken = place.clone();
    let started = Builder::new().name(name.into()).spawn(move || take(&taken).map(|work| work()));
    match started.is_err().then(|| take(&place)).flatten() {
        Some(work) => Err(work),
        None => Ok(()),
    }
}

fn take(place: &Mutex<Option<Work>>) -> Option<Work> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Does the same with each, at once as far as there are threads, the last one here, and waits until that is done.
pub(crate) fn for_each<T: Send + 'static>(name: &str, mut all: Vec<T>, work: fn(T)) {
    let last = all.pop();
    let left = Arc::new((Mutex::new(all.len()), Condvar::new()));
    for one in all {
        let ends = End(left.clone());
        let piece = move || {
            let _ends = ends;
            work(one);
        };
        if let Err(piece) = hand(name, Box::new(piece)) {
            // As where a thread does it: a panic was said by then.
            let _ = catch_unwind(AssertUnwindSafe(piece));
        }
    }
    let _ = catch_unwind(AssertUnwindSafe(|| last.map(work)));
    let count = left.0.lock().unwrap_or_else(PoisonError::into_inner);
    drop(left.1.wait_while(count, |count| *count > 0).unwrap_or_else(PoisonError::into_inner));
}

/// Counts down when a piece of work is over, also by a panic.
struct End(Arc<(Mutex<usize>, Condvar)>);

impl Drop for End {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.1.notify_all();
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let work = self.next();
            // A panic was said by then.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }

    /// Waits for it: by what needs no memory.
    fn next(&self) -> Work {
        let mut state = self.lock();
        state.idle += 1;
        self.is_idle.notify_all();
        loop {
            if let Some(work) = state.queue.pop_front() {
                state.idle -= 1;
                return work;
            }
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_piece_is_done_once_also_beside_one_that_panics() {
        static SUM: AtomicUsize = AtomicUsize::new(0);
        let work = |number: usize| {
            assert!(number != 7, "the seventh piece");
            SUM.fetch_add(number, Ordering::Relaxed);
        };
        start(3);
        for_each("piece", (1..=101).collect(), work);
        assert_eq!(SUM.load(Ordering::Relaxed), 101 * 102 / 2 - 7);
    }
}
