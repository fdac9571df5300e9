//! A stream of weigh's own, as one that runs.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use weigh_collect::clock::Moment;
use weigh_schema::synthesis::{SwitchNote, SynthesisReport};
use weigh_trace::sink::{ProbeCounts, Totals};

use super::super::adaptation_plan::PlannedAdaptation;
use super::super::buffer::StreamBuffer;
use super::super::control::{
    Answer, Ask, ControlTarget, Description, RuleEntry, StreamPosition, Written,
};
use super::super::description::EventDescription;
use super::super::event_stream::EventStream;
use super::super::rings::Rings;
use super::state::LocalStream;

impl LocalStream {
    /// Descriptors for who is to be the rings' owner.
    pub fn given(&self) -> io::Result<Vec<OwnedFd>> {
        let rings = self.buffers.first().and_then(|held| held.rings.as_ref());
        rings.ok_or(io::ErrorKind::NotFound)?.given()
    }
}

impl ControlTarget for LocalStream {
    fn answer(&mut self, ask: Ask) -> Answer {
        // A change may set what wakes: it is looked at again.
        self.buffers.iter_mut().for_each(StreamBuffer::forget_wake);
        LocalStream::answer(self, ask)
    }

    fn description(&self) -> Description {
        let events = self.traced.iter().enumerate();
        Description {
            pid: std::process::id(),
            began_ns: self.meaning.began_ns,
            epoch_ns: self.meaning.epoch_ns,
            events: events
                .map(|(id, traced)| EventDescription::of(id, &traced.resolved.probe))
                .collect(),
        }
    }

    fn readable(&self) -> Vec<(usize, String)> {
        let living = self.buffers.iter().enumerate().filter(|(_, held)| held.rings.is_some());
        living.map(|(place, held)| (place, held.name.clone())).collect()
    }

    fn r#where(&self, buffer: usize) -> StreamPosition {
        let held = self.buffers.get(buffer);
        StreamPosition {
            positions: held.map_or(Vec::new(), |held| held.positions().to_vec()),
            seen: held.map_or(Vec::new(), |held| held.seen.clone()),
            lost: held.map_or(Vec::new(), |held| self.lost_in(held)),
        }
    }

    fn written(&self, buffer: usize) -> Written {
        let Some(held) = self.buffers.get(buffer) else { return Written::default() };
        Written::of(held.positions(), held.seen.iter().sum())
    }

    fn rings(&self, buffer: usize) -> Option<BorrowedFd<'_>> {
        self.buffers.get(buffer)?.rings.as_ref().map(Rings::array)
    }

    fn has_ended(&self, buffer: usize) -> bool {
        self.buffers.get(buffer).is_none_or(StreamBuffer::has_ended)
    }

    fn synthesis_report(&self, rows: usize) -> Option<SynthesisReport> {
        let now = Moment::now().ns();
        self.found(rows, (now, self.meaning.seconds_since_began(now)))
    }

    fn look_after(&mut self, read: &[(usize, u64)]) {
        let LocalStream { buffers, kernel, state, usual_wake, .. } = self;
        for (place, held) in buffers.iter_mut().enumerate() {
            let by = read.iter().find(|(buffer, _)| *buffer == place).map(|(_, bytes)| *bytes);
            held.look_after(kernel, state, *usual_wake, by);
        }
    }
}

impl EventStream for LocalStream {
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
        LocalStream::wants_names(self)
    }

    fn take_in(&mut self) -> bool {
        self.take_some_in()
    }

    fn pause(&self) -> Option<Duration> {
        self.own_pause()
    }

    fn draw(&mut self) {
        LocalStream::draw(self);
    }

    fn event_counts(&mut self) -> Vec<ProbeCounts> {
        (0..self.traced.len()).map(|number| self.counted(number)).collect()
    }

    fn adapt(
        &mut self,
        place: usize,
        planned: &PlannedAdaptation,
        is_on: bool,
    ) -> anyhow::Result<()> {
        self.switch_standby(place, planned, is_on)
    }

    fn note_switch(&mut self, note: SwitchNote, rules: Vec<RuleEntry>) {
        self.rules = rules;
        let at_seconds = self.meaning.seconds_since_began(Moment::now().ns());
        if let Some(pipeline) = self.main_pipeline() {
            pipeline.note_switch(SwitchNote { at_seconds, ..note });
        }
    }

    fn has_failed(&self) -> bool {
        LocalStream::has_failed(self)
    }

    fn stop(&mut self) {
        self.end();
    }

    fn finish(self: Box<Self>, ended: (u64, f64)) -> (Totals, Option<anyhow::Error>) {
        self.close(ended)
    }
}
