//! Records of a stream are taken in, until the end.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::anyhow;
use weigh_collect::clock::Moment;
use weigh_trace::sink::{MAIN, Totals};

use super::super::buffer::StreamBuffer;
use super::super::pipeline::Pipeline;
use super::state::LocalStream;

impl LocalStream {
    /// Ready when a watermark was crossed.
    pub(super) fn wake_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let rings = self.buffers.iter().filter_map(|held| held.rings.as_ref());
        rings.map(|rings| rings.reader.wake_fd())
    }

    /// How long all buffers may be left alone that say so themselves.
    pub(super) fn own_pause(&self) -> Option<Duration> {
        self.buffers
            .iter()
            .filter(|held| held.rings.is_some())
            .filter_map(StreamBuffer::pause)
            .min()
    }

    /// Hands on records that are there; returns whether that was all. When they cannot be kept any more,
    /// they are not made any more either.
    pub(super) fn take_some_in(&mut self) -> bool {
        let is_all = self.take_all_in(false);
        self.end_failed();
        self.close_removed();
        is_all
    }

    /// Whether there is no buffer left whose records can be written.
    pub(super) fn has_failed(&self) -> bool {
        let mut buffers = self.buffers.iter();
        buffers.any(|held| held.failed.is_some())
            && self.buffers.iter().all(|held| held.rings.is_none() || held.failed.is_some())
    }

    /// A buffer whose file cannot be written any more ends, and the others go on. When there is none left, nothing
    /// is made any more either.
    fn end_failed(&mut self) {
        let has_failed = |held: &StreamBuffer| held.rings.is_some() && held.failed.is_some();
        if !self.buffers.iter().any(has_failed) {
            return;
        }
        if self.has_failed() {
            self.kernel.detach_all();
            return;
        }
        for index in 0..self.buffers.len() {
            if has_failed(&self.buffers[index])
                && let Err(error) = self.drop_buffer(index)
            {
                self.fail(error);
            }
        }
    }

    fn take_all_in(&mut self, is_end: bool) -> bool {
        let (before, wants_names) = (Moment::now().ns(), self.wants_names());
        let LocalStream { buffers, traced, meaning, kernel, state, .. } = self;
        let probe = |event: u32| Some(&traced.get(event as usize)?.resolved.probe);
        meaning.names.borrow_mut().next_round();
        let counts = (&*kernel, &*state, traced.len());
        let mut is_all = true;
        for held in buffers {
            is_all &= held.take_in(before, &probe, meaning, (is_end, wants_names), counts);
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
        let LocalStream { buffers, traced, kernel, state, .. } = self;
        buffers.iter_mut().for_each(|held| held.settle(kernel, state, traced.len()));
    }

    /// What was taken is where it belongs.
    pub(super) fn close(
        mut self,
        (now_ns, seconds): (u64, f64),
    ) -> (Totals, Option<anyhow::Error>) {
        let LocalStream { buffers, traced, meaning, .. } = &mut self;
        let probe = |event: u32| Some(&traced.get(event as usize)?.resolved.probe);
        for held in buffers {
            held.end(now_ns, &probe, meaning);
        }
        let mut totals = self.totals(seconds, now_ns);
        let found = self.found(usize::MAX, (now_ns, seconds));
        totals.synthesis = found.or(self.found_last.take());
        // A file says how many it has itself, and what it lacks itself.
        let own: Vec<_> = self.buffers.iter().map(|held| self.followed_in(held)).collect();
        let (taken, followed) = (totals.taken, std::mem::take(&mut totals.followed));
        for (held, own) in self.buffers.iter_mut().zip(own) {
            (totals.taken, totals.followed) = (held.taken, own);
            held.finish(&totals, &self.meaning, (&self.kernel, &self.state));
        }
        (totals.taken, totals.followed) = (taken, followed);
        totals.buffers = self.totals(seconds, now_ns).buffers;
        (totals, self.why_failed())
    }

    /// Why not all of it was kept.
    fn why_failed(self) -> Option<anyhow::Error> {
        let has_several = self.buffers.len() > 1;
        let failed = self.buffers.into_iter().filter_map(|held| {
            let error = held.failed?;
            Some(match has_several {
                true => error.context(format!("buffer {}", held.name)),
                false => error,
            })
        });
        let mut failed = self.failed.into_iter().chain(failed);
        let first = failed.next()?;
        let others: Vec<String> = failed.map(|error| format!("; {error:#}")).collect();
        Some(match others.is_empty() {
            true => first,
            false => anyhow!("{first:#}{}", others.concat()),
        })
    }

    pub(super) fn totals(&self, seconds: f64, ended_ns: u64) -> Totals {
        let counted =
            |held: &StreamBuffer| held.counted(&self.kernel, &self.state, self.traced.len());
        let buffers = self.buffers.iter().map(counted);
        Totals {
            origin: self.origin.clone(),
            followed: (0..self.traced.len())
                .map(|number| self.followed(number, self.counted(number)))
                .collect(),
            buffers: buffers.collect(),
            taken: self.taken(),
            seen: None,
            lost_threads: self.kernel.lost_threads(),
            ended_ns,
            seconds,
            synthesis: None,
        }
    }

    pub(super) fn main_pipeline(&mut self) -> Option<&mut Pipeline> {
        let main = self.buffers.iter_mut().find(|held| held.name == MAIN)?;
        main.pipeline.as_mut()
    }
}
