//! Which threads wait for the kernel's next request.
//!
//! The kernel wakes the thread that has waited for the longest, so threads that take turns are each woken anew, on
//! another CPU. One thread that goes on alone is faster. So threads that are not needed park here; a thread whose
//! request may wait for a device, a lock or another process has another one wait for requests in its place. Nobody
//! looks at a clock: with nothing to do, no thread wakes up.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A thread parks when this many requests in a row ended while another thread waited for one.
const SURPLUS: u32 = 64;
/// After every so many requests a thread asks the kernel whether the next one is there already.
const LOOKS: u32 = 16;

thread_local! {
    static THREAD: RefCell<Option<ReaderThread>> = const { RefCell::new(None) };
}

/// The threads of one mount.
#[derive(Debug, Default)]
pub struct Readers {
    /// How many wait for a request, of those that have had one.
    waiting: AtomicUsize,
    /// How many requests in a row ended while another thread waited.
    surplus: AtomicU32,
    requests: AtomicU32,
    /// Whether the next request is to be told of.
    is_resting: AtomicBool,
    activity: OnceLock<OwnedFd>,
    parking: Mutex<Parking>,
    call: Condvar,
    device: OnceLock<OwnedFd>,
}

#[derive(Debug, Default)]
struct Parking {
    parked: usize,
    /// How many of them may go on.
    called: usize,
    /// The mount ends: nobody parks any more.
    is_over: bool,
}

/// Known of a thread that has had a request: when it ends, so does the mount.
struct ReaderThread(Arc<Readers>);

impl Drop for ReaderThread {
    fn drop(&mut self) {
        self.0.end_all();
    }
}

/// A request that a thread serves.
pub(super) struct Turn<'a>(&'a Readers);

impl Readers {
    /// Requests come from here.
    pub fn set_device(&self, device: OwnedFd) {
        let _ = self.device.set(device);
    }

    /// Readable after a request that came during a rest, and after the end.
    pub fn set_activity(&self, activity: OwnedFd) {
        let _ = self.activity.set(activity);
    }

    /// No request comes any more.
    pub(super) fn end_all(&self) {
        self.parking().is_over = true;
        self.call.notify_all();
        self.wake();
    }

    /// How many requests there were.
    pub fn requests(&self) -> u32 {
        self.requests.load(SeqCst)
    }

    /// Whether the next request, or the end, will be told of: not if there was a request since there were so many.
    pub fn rest(&self, requests: u32) -> bool {
        let Some(activity) = self.activity.get() else { return false };
        // Nothing is there to be read if no rest was ended.
        let _ = rustix::io::read(activity, &mut [0; 8]);
        self.is_resting.store(true, SeqCst);
        let may_rest = self.requests() == requests && !self.parking().is_over;
        if !may_rest {
            self.is_resting.store(false, SeqCst);
        }
        may_rest
    }

    fn wake(&self) {
        if self.is_resting.swap(false, SeqCst)
            && let Some(activity) = self.activity.get()
        {
            let _ = rustix::io::write(activity, &1_u64.to_ne_bytes());
        }
    }

    /// A thread has a request, and does not wait for another one.
    pub(super) fn begin(self: &Arc<Self>) -> Turn<'_> {
        let is_new = THREAD.with_borrow_mut(|thread| {
            let is_new = thread.is_none();
            thread.get_or_insert_with(|| ReaderThread(Arc::clone(self)));
            is_new
        });
        if !is_new {
            self.waiting.fetch_sub(1, SeqCst);
        }
        self.requests.fetch_add(1, SeqCst);
        if self.is_resting.load(SeqCst) {
            self.wake();
        }
        Turn(self)
    }

    /// The same for a request that may take long.
    pub(super) fn begin_slow(self: &Arc<Self>) -> Turn<'_> {
        let turn = self.begin();
        turn.may_wait();
        turn
    }

    fn parking(&self) -> MutexGuard<'_, Parking> {
        self.parking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has one of those that are parked go on.
    fn call_one(&self) {
        let mut parking = self.parking();
        if parking.parked > parking.called {
            parking.called += 1;
            self.waiting.fetch_add(1, SeqCst);
            self.call.notify_one();
        }
    }

    /// A thread has served its request. It returns when the thread is to wait for another one.
    fn end(&self) {
        if self.waiting.load(SeqCst) == 0 {
            self.surplus.store(0, SeqCst);
            if self.requests().is_multiple_of(LOOKS) && self.has_request() {
                self.call_one();
            }
        } else if self.surplus.fetch_add(1, SeqCst) >= SURPLUS {
            self.surplus.store(0, SeqCst);
            if self.park() {
                return;
            }
        }
        self.waiting.fetch_add(1, SeqCst);
    }

    fn has_request(&self) -> bool {
        let Some(device) = self.device.get() else { return false };
        let mut polled = [PollFd::new(device, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Waits until the thread is called, and is counted among those that wait for requests; unless nobody else is.
    fn park(&self) -> bool {
        let mut parking = self.parking();
        if parking.is_over || self.waiting.load(SeqCst) == 0 {
            return false;
        }
        parking.parked += 1;
        while parking.called == 0 && !parking.is_over {
            parking = self.call.wait(parking).unwrap_or_else(PoisonError::into_inner);
        }
        parking.parked -= 1;
        let is_called = parking.called > 0;
        parking.called -= usize::from(is_called);
        is_called
    }
}

impl Turn<'_> {
    /// The end of a part of a request: the thread does not park, for there may be more of it.
    pub(super) fn go_on(self) {
        self.0.waiting.fetch_add(1, SeqCst);
        std::mem::forget(self);
    }

    /// It may take long from here on: another thread is to wait for requests, if there is one.
    pub(super) fn may_wait(&self) {
        if self.0.waiting.load(SeqCst) == 0 {
            self.0.call_one();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    /// A thread that is told what to do, and says when it has done it.
    struct Thread {
        steps: Sender<Step>,
        done: Receiver<()>,
    }

    type Step = Box<dyn FnOnce(&Arc<Readers>) + Send>;

    impl Thread {
        fn new(readers: &Arc<Readers>) -> Thread {
            let (steps, todo) = channel::<Step>();
            let (tell, done) = channel();
            let readers = Arc::clone(readers);
            std::thread::spawn(move || {
                for step in todo {
                    step(&readers);
                    let _ = tell.send(());
                }
            });
            Thread { steps, done }
        }

        fn begins(&self, step: impl FnOnce(&Arc<Readers>) + Send + 'static) {
            self.steps.send(Box::new(step)).expect("it lives");
        }

        fn is_done(&self) -> bool {
            self.done.recv_timeout(Duration::from_secs(20)).is_ok()
        }

        fn serves(&self, requests: u32) {
            self.begins(move |readers| (0..requests).for_each(|_| drop(readers.begin())));
        }
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(std::time::Instant::now() < end, "{what}");
            std::thread::yield_now();
        }
    }

    /// Two threads, of which the second one is parked.
    fn parked() -> (Arc<Readers>, [Thread; 2]) {
        let readers = Arc::new(Readers::default());
        let [first, second] = [Thread::new(&readers), Thread::new(&readers)];
        first.serves(1);
        assert!(first.is_done());
        second.serves(SURPLUS + 1);
        until("it parks", || readers.parking().parked == 1);
        (readers, [first, second])
    }

    #[test]
    fn a_thread_alone_never_parks() {
        let readers = Arc::new(Readers::default());
        let thread = Thread::new(&readers);
        thread.serves(3 * SURPLUS);
        assert!(thread.is_done());
        assert_eq!(readers.waiting.load(SeqCst), 1);
    }

    #[test]
    fn a_request_that_may_take_long_calls_another_thread() {
        let (readers, [first, second]) = parked();
        let (go, gate) = channel::<()>();
        first.begins(move |readers| {
            let turn = readers.begin();
            assert_eq!(readers.waiting.load(SeqCst), 0);
            turn.may_wait();
            turn.may_wait();
            let _ = gate.recv();
        });
        assert!(second.is_done(), "it was called while the first one waits");
        assert_eq!((readers.waiting.load(SeqCst), readers.parking().parked), (1, 0));
        drop(go);
        assert!(first.is_done());
        assert_eq!(readers.waiting.load(SeqCst), 2);
    }

    #[test]
    fn a_request_that_is_quick_calls_nobody() {
        let (readers, [first, _second]) = parked();
        first.serves(3 * SURPLUS);
        assert!(first.is_done());
        assert_eq!((readers.waiting.load(SeqCst), readers.parking().parked), (1, 1));
    }

    #[test]
    fn those_that_are_parked_go_on_when_a_thread_ends() {
        let (readers, [first, second]) = parked();
        drop(first);
        assert!(second.is_done());
        second.serves(3 * SURPLUS);
        assert!(second.is_done(), "and none parks again");
        assert!(readers.parking().is_over);
    }

    #[test]
    fn requests_that_wait_call_another_thread() {
        let (readers, [first, second]) = parked();
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&write, b"x").expect("room");
        readers.set_device(read);
        first.serves(LOOKS + 1);
        assert!(second.is_done());
        assert!(first.is_done());
    }
}
