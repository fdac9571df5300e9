//! A change of what is attached that is under way, by a thread of its own.
//!
//! Emits a descriptor that is readable once it is over. Where there can be no thread more it is done at once, here.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use super::links::{Links, Outcome, Plan};

/// The holder of the links.
enum Holder {
    Here(Box<Links>),
    Thread(JoinHandle<Option<(Box<Links>, Outcome)>>),
    /// The thread that had them has panicked.
    Lost,
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
        let mut links = match std::mem::replace(&mut self.holder, Holder::Lost) {
            Holder::Here(links) => links,
            other => {
                self.holder = other;
                return None;
            }
        };
        let (give, taken) = channel::<Box<Links>>();
        let over = self.over.clone();
        let change = move || {
            let mut links = taken.recv().ok()?;
            let outcome = links.change(plan);
            let _ = rustix::io::write(&over, &1u64.to_ne_bytes());
            Some((links, outcome))
        };
        match Builder::new().name("attach".into()).spawn(change) {
            Ok(thread) => {
                // It waits for them.
                let _ = give.send(links);
                self.holder = Holder::Thread(thread);
                None
            }
            Err(_) => {
                let outcome = links.change(plan);
                self.holder = Holder::Here(links);
                Some(outcome)
            }
        }
    }

    /// Waits until the change that is under way is over. What came of it; none if there was none.
    pub(super) fn wait(&mut self) -> Option<Outcome> {
        match std::mem::replace(&mut self.holder, Holder::Lost) {
            Holder::Thread(thread) => {
                let (links, outcome) = thread.join().ok().flatten()?;
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
            Holder::Thread(thread) if has_been_told || thread.is_finished() => self.wait(),
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
