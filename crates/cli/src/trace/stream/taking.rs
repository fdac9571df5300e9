//! Records of a stream are taken in, until the end.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use weigh_collect::clock::Moment;

use super::Stream;
use crate::live::Live;
use crate::trace::counts::{MAIN, Totals};
use crate::trace::held::Held;
use crate::trace::way::Way;

impl Stream {
    /// Ready when a watermark was crossed.
    pub(super) fn wake_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let rings = self.buffers.iter().filter_map(|held| held.rings.as_ref());
        rings.map(|rings| rings.reader.wake_fd())
    }

    /// How long all buffers may be left alone that say so themselves.
    pub(super) fn own_pause(&self) -> Option<Duration> {
        self.buffers.iter().filter(|held| held.rings.is_some()).filter_map(Held::pause).min()
    }

    /// Hands on records that are there; returns whether that was all. When they can not be kept any more,
    /// they are not made any more either.
    pub(super) fn take_some_in(&mut self) -> bool {
        let is_all = self.take_all_in(false);
        if let Err(error) = self.close_removed() {
            self.fail(error);
        }
        is_all
    }

    fn take_all_in(&mut self, is_end: bool) -> bool {
        let before = Moment::now().ns();
        let Stream { buffers, failed, traced, meaning, .. } = self;
        let probe = |event: u32| Some(&traced.get(event as usize)?.wish.probe);
        meaning.names.borrow_mut().next_round();
        let mut is_all = true;
        for held in buffers {
            let (done, all) = held.take_in(before, &probe, meaning, failed.is_some(), is_end);
            *failed = failed.take().or(done.err());
            is_all &= all;
        }
        if self.failed.is_some() {
            self.kernel.detach_all();
        }
        is_all
    }

    fn fail(&mut self, error: anyhow::Error) {
        self.kernel.detach_all();
        self.failed.get_or_insert(error);
    }

    pub(super) fn taken(&self) -> u64 {
        self.buffers.iter().map(|held| held.taken).sum()
    }

    /// Nothing is attached any more, and all that came was taken in.
    pub(super) fn end(&mut self) {
        self.kernel.detach_all();
        let mut before = None;
        while before != Some(self.taken()) {
            before = Some(self.taken());
            while !self.take_all_in(true) {}
        }
    }

    /// What was taken is where it belongs.
    pub(super) fn close(
        mut self,
        (now_ns, seconds): (u64, f64),
    ) -> (Totals, Option<anyhow::Error>) {
        let Stream { buffers, failed, traced, meaning, .. } = &mut self;
        let probe = |event: u32| Some(&traced.get(event as usize)?.wish.probe);
        for held in buffers {
            if failed.is_none() {
                *failed = held.end(now_ns, &probe, meaning).err();
            }
        }
        let mut totals = self.totals(seconds, now_ns);
        totals.synthesis = self.found(usize::MAX, (now_ns, seconds));
        let (mut failed, taken) = (self.failed, totals.taken);
        for held in &mut self.buffers {
            let Some(way) = held.way.take() else { continue };
            // A file says how many it has itself.
            totals.taken = held.taken;
            failed = failed.or(way.finish(&totals, &self.meaning).err());
        }
        totals.taken = taken;
        (totals, failed)
    }

    pub(super) fn totals(&self, seconds: f64, ended_ns: u64) -> Totals {
        let buffers = self.buffers.iter().map(|held| held.counted(&self.kernel, &self.state));
        Totals {
            origin: self.origin.clone(),
            followed: (0..self.traced.len()).map(|number| self.followed(number)).collect(),
            buffers: buffers.collect(),
            taken: self.taken(),
            lost_threads: self.kernel.lost_threads(),
            ended_ns,
            seconds,
            synthesis: None,
        }
    }

    /// What looks at several events, if anything does.
    pub(super) fn main(&self) -> Option<&Way> {
        self.buffers.iter().find(|held| held.name == MAIN)?.way.as_ref()
    }

    pub(super) fn live(&mut self) -> Option<&mut Live> {
        let main = self.buffers.iter_mut().find(|held| held.name == MAIN)?;
        main.way.as_mut()?.live()
    }
}
