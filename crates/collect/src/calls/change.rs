//! A change of what is attached that is under way, by a thread.
//!
//! Emits a descriptor that is readable once it is over. Where no thread is to be had it is done at once, here.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::links::{Links, Outcome, Plan};
use crate::standing_threads::hand;

/// The holder of the links.
enum Holder {
    Here(Box<Links>),
    Thread(Arc<Change>),
    /// The thread that had them has panicked.
    Lost,
}

/// What a thread and this one share of a change.
#[derive(Default)]
struct Change {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    links: Option<Box<Links>>,
    outcome: Option<Outcome>,
    is_over: bool,
}

/// Says that a change is over, also where it has panicked.
struct End<'a>(&'a Change);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.0.ended.notify_all();
    }
}

impl Change {
    fn of(links: Box<Links>) -> Arc<Change> {
        let state = State { links: Some(links), ..State::default() };
        Arc::new(Change { state: Mutex::new(state), ended: Condvar::new() })
    }

    fn make(&self, plan: Plan) {
        let _end = End(self);
        let links = self.state.lock().unwrap_or_else(PoisonError::into_inner).links.take();
        if let Some(mut links) = links {
            let outcome = links.change(plan);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.links, state.outcome) = (Some(links), Some(outcome));
        }
    }

    fn is_over(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_over
    }

    /// Waits until it is over. Nothing where it has panicked.
    fn wait(&self) -> Option<(Box<Links>, Outcome)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.ended.wait_while(state, |state| !state.is_over);
        let mut state = ended.unwrap_or_else(PoisonError::into_inner);
        state.links.take().zip(state.outcome.take())
    }
}

/// The links, and the thread that has them while they change.
pub(super) struct Changing {
    holder: Holder,
    over: Arc<OwnedFd>,
}

impl Changing {
    pub(super) fn new(links: Links) -> io::Result<Changing> {
        let over = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Changing { holder: Holder::Here(Box::new(links)), over: Arc::new(over) })
    }

    /// The links, unless they change.
    pub(super) fn links(&mut self) -> Option<&mut Links> {
        match &mut self.holder {
            Holder::Here(links) => Some(links),
            _ => None,
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.holder, Holder::Thread(_))
    }

    /// Readable once what was begun is over.
    pub(super) fn over(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }

    /// Has a thread change them. What came of it where it is over already.
    pub(super) fn begin(&mut self, plan: Plan) -> Option<Outcome> {
        let links = match std::mem::replace(&mut self.holder, Holder::Lost) {
            Holder::Here(links) => links,
            other => {
                self.holder = other;
                return None;
            }
        };
        let change = Change::of(links);
        self.holder = Holder::Thread(change.clone());
        let over = self.over.clone();
        let work = move || {
            change.make(plan);
            let _ = rustix::io::write(&over, &1u64.to_ne_bytes());
        };
        let work = hand("attach", Box::new(work)).err()?;
        work();
        self.end()
    }

    /// Waits until the change that is under way is over. What came of it; none if there was none.
    pub(super) fn wait(&mut self) -> Option<Outcome> {
        match std::mem::replace(&mut self.holder, Holder::Lost) {
            Holder::Thread(change) => {
                let (links, outcome) = change.wait()?;
                self.holder = Holder::Here(links);
                Some(outcome)
            }
            other => {
                self.holder = other;
                None
            }
        }
    }

    /// The same, if it is over. Nothing is to be read of it any more.
    pub(super) fn end(&mut self) -> Option<Outcome> {
        let has_been_told = rustix::io::read(&self.over, &mut [0; 8]).is_ok();
        match &self.holder {
            Holder::Thread(change) if has_been_told || change.is_over() => self.wait(),
            _ => None,
        }
    }
}

impl Drop for Changing {
    /// The programs that the thread attaches go next.
    fn drop(&mut self) {
        self.wait();
    }
}
