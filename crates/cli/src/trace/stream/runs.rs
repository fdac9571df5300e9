//! A stream of weigh's own, as one that runs.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use weigh_trace::into::Delivery;

use super::Stream;
use crate::trace::buffers::Rings;
use crate::trace::control::{Answer, Ask, Description, Talk, Where, Written};
use crate::trace::counts::Totals;
use crate::trace::description::Described;
use crate::trace::running::Running;

/// Bytes of the least record, with its stamp.
const LEAST_RECORD: u64 = 48;

impl Stream {
    /// Descriptors for who is to be the rings' owner.
    pub fn given(&self) -> io::Result<Vec<OwnedFd>> {
        let rings = self.first().ok_or(io::ErrorKind::NotFound)?;
        rings.given()
    }

    /// Those that others read along.
    fn first(&self) -> Option<&Rings> {
        self.buffers.first()?.rings.as_ref()
    }
}

impl Talk for Stream {
    fn answer(&mut self, ask: Ask) -> Answer {
        // A change may set what wakes: it is looked at again.
        self.readers_wake = u64::MAX;
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
        let positions = self.first().map(|rings| rings.reader.positions().to_vec());
        Where {
            positions: positions.unwrap_or_default(),
            seen: self.buffers.first().map_or(Vec::new(), |held| held.seen.clone()),
            lost: counted.map(|counted| counted.lost + counted.missed).collect(),
        }
    }

    fn written(&self) -> Written {
        let positions = self.first().map_or(&[][..], |rings| rings.reader.positions());
        let seen = self.buffers.first().map_or(0, |held| held.seen.iter().sum());
        Written::of(positions, seen)
    }

    fn rings(&self) -> Option<BorrowedFd<'_>> {
        self.is_read.set(true);
        self.first().map(Rings::array)
    }

    fn look_after(&mut self, bytes: u64) {
        let Some(held) = self.buffers.first().filter(|_| self.readers_wake != bytes) else {
            return;
        };
        self.readers_wake = bytes;
        // As its own delivery has it, and then as whoever wants it first.
        held.prepare(&self.kernel, &self.state, self.usual_wake);
        let place = self.state.watermark(held.number);
        let own = self.kernel.word(place);
        let is_by_records = matches!(held.asked.delivery, Some(Delivery::Records(_)));
        let readers = if is_by_records { bytes / LEAST_RECORD } else { bytes };
        self.kernel.set_word(place, own.min(readers));
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
        self.wake_fds().collect()
    }

    fn wants_names(&self) -> bool {
        Stream::wants_names(self)
    }

    fn take_in(&mut self) -> bool {
        self.take_some_in()
    }

    fn pause(&self) -> Option<Duration> {
        self.own_pause()
    }

    fn draw(&mut self) {
        Stream::draw(self);
    }

    fn stop(&mut self) {
        self.end();
    }

    fn finish(self: Box<Self>, ended: (u64, f64)) -> (Totals, Option<anyhow::Error>) {
        self.close(ended)
    }
}
