//! A stream of weigh's own, as one that runs.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::Stream;
use crate::trace::control::{Answer, Ask, Description, Talk, Where, Written};
use crate::trace::counts::Totals;
use crate::trace::description::Described;
use crate::trace::running::Running;

impl Stream {
    /// Descriptors for who is to be the rings' owner.
    pub fn given(&self) -> io::Result<Vec<OwnedFd>> {
        self.buffer.given()
    }

    /// Wakes when the one of those who want it that wants it first does.
    pub(super) fn set_watermark(&self) {
        let [own, readers] = self.wake;
        self.kernel.set_word(self.state.watermark(0), own.min(readers));
    }
}

impl Talk for Stream {
    fn answer(&mut self, ask: Ask) -> Answer {
        Stream::answer(self, ask)
    }

    fn description(&self) -> Description {
        let events = self.traced.iter().enumerate();
        Description {
            pid: std::process::id(),
            began_ns: self.meaning.began_ns,
            epoch_ns: self.meaning.epoch_ns,
            events: events.map(|(id, traced)| Described::of(id, &traced.wish.probe)).collect(),
        }
    }

    fn r#where(&self) -> Where {
        let counted = (0..self.traced.len()).map(|number| self.counted(number));
        Where {
            positions: self.buffer.reader.positions().to_vec(),
            seen: self.seen.clone(),
            lost: counted.map(|counted| counted.lost + counted.missed).collect(),
        }
    }

    fn written(&self) -> Written {
        Written::of(self.buffer.reader.positions(), self.taken)
    }

    fn rings(&self) -> Option<BorrowedFd<'_>> {
        Some(self.buffer.rings())
    }

    fn look_after(&mut self, bytes: u64) {
        if self.wake[1] != bytes {
            self.wake[1] = bytes;
            self.set_watermark();
        }
    }
}

impl Running for Stream {
    fn arm(&mut self, pidfd: BorrowedFd<'_>) -> anyhow::Result<()> {
        Ok(self.kernel.arm(pidfd)?)
    }

    fn join(&mut self, pid: u32) -> anyhow::Result<()> {
        Ok(self.kernel.join(pid)?)
    }

    fn is_member(&self, pid: u32) -> bool {
        self.kernel.is_member(pid)
    }

    fn living(&self) -> Option<u64> {
        self.kernel.living()
    }

    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.wake_fd()]
    }

    fn wants_names(&self) -> bool {
        Stream::wants_names(self)
    }

    fn take_in(&mut self) -> bool {
        Stream::take_in(self)
    }

    fn draw(&mut self) {
        Stream::draw(self);
    }

    fn stop(&mut self) {
        Stream::stop(self);
    }

    fn finish(self: Box<Self>, ended: (u64, f64)) -> (Totals, Option<anyhow::Error>) {
        Stream::finish(*self, ended)
    }
}
