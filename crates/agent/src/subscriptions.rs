//! Which parts of the kernel are attached: those that anybody who is served wants, and for a while those
//! that somebody wanted just before, for programs come and go.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::timer::Timer;

/// A part is let go when nobody has wanted it for so long, and at the latest after twice as long.
const GRACE: Duration = Duration::from_secs(2);

/// The parts that are attached, as bits.
pub struct Subscriptions {
    attached: u64,
    /// Wanted at some time since it was looked last.
    lately: u64,
    timer: Timer,
    is_set: bool,
}

impl Subscriptions {
    /// Nothing.
    pub fn new() -> io::Result<Subscriptions> {
        Ok(Subscriptions { attached: 0, lately: 0, timer: Timer::new()?, is_set: false })
    }

    /// Readable when it is time to look what nobody wants any more.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.descriptor()
    }

    /// These are wanted now; some of them may be so only for what is under way. Which are to be attached,
    /// if that are others than before.
    pub fn want(&mut self, wanted: u64, some_linger: bool) -> Option<u64> {
        self.lately |= wanted;
        let more = self.attached | wanted;
        if (more != wanted || some_linger) && !self.is_set {
            self.look_again(true);
        }
        (more != self.attached).then_some(more)
    }

    /// It is time, and these are wanted now. Which are to be attached from now on.
    pub fn look(&mut self, wanted: u64, some_linger: bool) -> u64 {
        let kept = self.attached & (self.lately | wanted);
        self.lately = wanted;
        self.look_again(kept != wanted || some_linger);
        kept
    }

    /// The parts that are attached, as bits.
    pub fn attached(&self) -> u64 {
        self.attached
    }

    /// That is so now.
    pub fn are_attached(&mut self, parts: u64) {
        self.attached = parts;
    }

    /// What is attached is more than what is wanted now: who wanted it has left meanwhile.
    pub fn let_go_of_all_but(&mut self, wanted: u64) {
        if self.attached & !wanted != 0 && !self.is_set {
            self.look_again(true);
        }
    }

    /// What is wanted may become less without anybody saying so.
    pub fn look_again(&mut self, again: bool) {
        self.is_set = again;
        self.timer.set(if again { GRACE } else { Duration::ZERO });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_comes_at_once_and_goes_when_nobody_has_wanted_it_for_a_while() {
        let mut wants = Subscriptions::new().expect("a timer");
        assert_eq!(wants.want(0b101, false), Some(0b101));
        wants.are_attached(0b101);
        assert_eq!(wants.want(0b101, false), None);
        assert!(!wants.is_set);
        // One goes, another comes.
        assert_eq!(wants.want(0b011, false), Some(0b111));
        wants.are_attached(0b111);
        assert!(wants.is_set);
        // It was wanted since the last look; at the next it was not.
        assert_eq!(wants.look(0b011, false), 0b111);
        assert!(wants.is_set);
        assert_eq!(wants.look(0b011, false), 0b011);
        wants.are_attached(0b011);
        assert!(!wants.is_set);
        // Wanted in between is wanted.
        assert_eq!(wants.want(0b001, false), None);
        assert_eq!(wants.look(0b001, false), 0b011);
        assert_eq!(wants.want(0b011, false), None);
        assert_eq!(wants.look(0b001, false), 0b011);
        assert_eq!(wants.look(0b001, false), 0b001);
        wants.are_attached(0b001);
        // What is under way may end without anybody saying so.
        assert_eq!(wants.want(0b001, true), None);
        assert!(wants.is_set);
        assert_eq!(wants.look(0b001, true), 0b001);
        assert!(wants.is_set);
    }
}
