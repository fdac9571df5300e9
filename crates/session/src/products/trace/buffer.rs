//! A buffer of a stream: its rings, which records go in, and where they go to.
//!
//! Other rings can be put in place of its own while it runs: those that were there are read on, until no program
//! can be at work in them any more. So nothing is lost by it, of this buffer or of others.

use std::time::{Duration, Instant};

use weigh_collect::trace::KernelTrace;
use weigh_trace::buffer_spec::{BufferOptions, Delivery};
use weigh_trace::condition::Test;
use weigh_trace::generate;
use weigh_trace::record::Record;
use weigh_trace::sink::{BufferCounts, Meaning, ProbeCounts, Totals};
use weigh_trace::state::{CONSTANTS, InBuffer, OfBuffer, State};
use weigh_trace::synthesis::merge::SLACK_NS;

use super::pipeline::{Pipeline, Probes};
use super::rings::Rings;

/// So long a program may still be at work that another one took the place of.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of the least record, with its stamp.
const LEAST_RECORD: u64 = 48;

/// More events than a stream can have.
const MOST_EVENTS: usize = 4096;

/// A buffer.
pub struct StreamBuffer {
    /// What it is called.
    pub name: String,
    /// Which of the stream's.
    pub number: usize,
    /// As it was asked for, with what was changed since.
    pub asked: BufferOptions,
    /// Which records go in.
    pub predicate: Option<Test>,
    /// As of a probe's filter: which bank its programs look at, and which is told to hold.
    pub flip: usize,
    holding: usize,
    /// None when it was removed.
    pub rings: Option<Rings>,
    retired: Vec<(Rings, Instant)>,
    /// Where its last rings were when nothing could come any more.
    last_positions: Vec<u64>,
    /// None when all was written, after it was removed.
    pub pipeline: Option<Pipeline>,
    /// Why its file could not be written any more, and how many records came after that.
    pub failed: Option<anyhow::Error>,
    unkept: u64,
    /// Programs may know of it that could not be made again without it: its number is given to no other.
    pub may_be_known: bool,
    /// What was counted in the end, when its number may be another's.
    counted: Option<BufferCounts>,
    /// Others read its rings along: they stay as they are. And when weigh is to be waked for them.
    pub is_read: bool,
    /// Records are handed on where they lie in the rings, and wait there for their turn.
    is_in_place: bool,
    readers_wake: u64,
    looked: Instant,
    /// Records that were taken in; of each event; and of each event, from the rings that it has now.
    pub taken: u64,
    taken_of: Vec<u64>,
    pub seen: Vec<u64>,
    /// What a buffer of this number before it had of each event: written, and without room.
    before: Vec<[u64; 2]>,
    /// A ring was damaged; and of each event what is known to be missing of what was written.
    is_damaged: bool,
    unread_of: Vec<u64>,
}

impl StreamBuffer {
    /// A buffer with these rings.
    pub fn new(
        name: String,
        number: usize,
        asked: BufferOptions,
        rings: Rings,
        mut pipeline: Pipeline,
    ) -> StreamBuffer {
        let is_in_place = pipeline.reads_in_place();
        StreamBuffer {
            is_in_place,
            name,
            number,
            asked,
            predicate: None,
            flip: 0,
            holding: 0,
            rings: Some(rings),
            retired: Vec::new(),
            last_positions: Vec::new(),
            pipeline: Some(pipeline),
            failed: None,
            unkept: 0,
            may_be_known: false,
            counted: None,
            is_read: false,
            readers_wake: u64::MAX,
            looked: Instant::now(),
            taken: 0,
            taken_of: Vec::new(),
            seen: Vec::new(),
            before: Vec::new(),
            is_damaged: false,
            unread_of: Vec::new(),
        }
    }

    /// Whether events of this name go in.
    pub fn takes(&self, event: &str) -> bool {
        let is = |asked: &String| {
            event == asked || event.split_once(':').is_some_and(|(_, e)| e == asked)
        };
        self.asked.events.as_ref().is_none_or(|events| events.iter().any(is))
    }

    /// What programs know of it; none if it was removed.
    pub fn for_programs(&self) -> Option<generate::Buffer> {
        let held = self.rings.as_ref()?;
        let [rings, consumers, doorbell] = held.descriptors();
        Some(generate::Buffer {
            number: self.number,
            rings,
            consumers,
            doorbell,
            layout: held.reader.layout(),
            key: held.key(),
            is_shared: held.is_shared,
            half: held.half,
            predicate: self.predicate.clone(),
            flip: self.flip,
            counts_records: matches!(self.asked.delivery, Some(Delivery::Records(_))),
        })
    }

    /// What another buffer of this number has left behind, of so many events, does not count.
    pub fn begin(&mut self, kernel: &KernelTrace, state: &State, events: usize) {
        for cpu in 0..state.cpus {
            for what in [OfBuffer::Written, OfBuffer::Ring, OfBuffer::Passed] {
                kernel.set_word(state.buffer(cpu, self.number, what), 0);
            }
        }
        self.before = (0..events).map(|event| self.written_of(kernel, state, event)).collect();
        kernel.set_word(state.predicate_holding(self.number), State::bank_word(0));
    }

    /// What programs have written into it of an event, and had no room for.
    fn written_of(&self, kernel: &KernelTrace, state: &State, event: usize) -> [u64; 2] {
        let before = self.before.get(event).copied().unwrap_or_default();
        let counts = [InBuffer::Sent, InBuffer::Lost].map(|count| -> u64 {
            let word = |cpu| kernel.word(state.count_in(cpu, event, self.number, count));
            (0..state.cpus).map(word).sum()
        });
        [counts[0].wrapping_sub(before[0]), counts[1].wrapping_sub(before[1])]
    }

    /// What was written of each event until now, of which nothing may be missing.
    fn written(&self, kernel: &KernelTrace, state: &State, events: usize) -> Vec<u64> {
        (0..events).map(|event| self.written_of(kernel, state, event)[0]).collect()
    }

    /// All of that has been taken in, or never can be.
    fn note_unread(&mut self, written: &[u64]) {
        self.unread_of.resize(written.len().max(self.unread_of.len()), 0);
        for (event, (unread, written)) in self.unread_of.iter_mut().zip(written).enumerate() {
            let taken = self.taken_of.get(event).copied().unwrap_or(0);
            *unread = written.saturating_sub(taken).max(*unread);
        }
    }

    /// Nothing more can come, of so many events: what was written and not taken in is lost.
    pub fn settle(&mut self, kernel: &KernelTrace, state: &State, events: usize) {
        if self.pipeline.is_some() {
            self.note_unread(&self.written(kernel, state, events));
        }
    }

    fn all_rings(&mut self) -> impl Iterator<Item = &mut Rings> {
        self.retired.iter_mut().map(|(rings, _)| rings).chain(&mut self.rings)
    }

    /// Who reads along wants weigh to be waked when a CPU has written so much; none: nobody does.
    pub fn look_after(&mut self, kernel: &KernelTrace, state: &State, wake: u64, by: Option<u64>) {
        self.is_read = by.is_some();
        let bytes = by.unwrap_or(u64::MAX);
        if std::mem::replace(&mut self.readers_wake, bytes) == bytes {
            return;
        }
        // The watermark of its own delivery first, then that of the readers if it is less.
        self.prepare(kernel, state, wake);
        let place = state.watermark(self.number);
        let is_by_records = matches!(self.asked.delivery, Some(Delivery::Records(_)));
        let readers = if is_by_records { bytes / LEAST_RECORD } else { bytes };
        kernel.set_word(place, kernel.word(place).min(readers));
    }

    /// What wakes may have been set: who reads along is asked again.
    pub fn forget_wake(&mut self) {
        self.readers_wake = u64::MAX;
    }

    /// Where weigh is in the rings that it has, or had last.
    pub fn positions(&self) -> &[u64] {
        let last = || self.retired.last().map(|(rings, _)| rings);
        self.rings.as_ref().or_else(last).map_or(&self.last_positions, |r| r.reader.positions())
    }

    /// Whether nothing more can come into it.
    pub fn has_ended(&self) -> bool {
        self.rings.is_none() && self.retired.is_empty()
    }

    /// Whether its number can be another's.
    pub fn is_free(&self) -> bool {
        self.has_ended() && self.pipeline.is_none() && !self.may_be_known
    }

    /// Tells the CPUs which is their ring, and when to wake weigh.
    pub fn prepare(&self, kernel: &KernelTrace, state: &State, wake: u64) {
        let Some(rings) = &self.rings else { return };
        rings.assign(kernel, state, self.number);
        kernel.set_word(state.watermark(self.number), self.own_wake(rings, wake));
    }

    /// When to wake weigh for its own sake; who reads along may want it earlier.
    fn own_wake(&self, rings: &Rings, wake: u64) -> u64 {
        match self.asked.delivery {
            Some(Delivery::Each) => 0,
            Some(Delivery::Bytes(bytes)) => bytes,
            Some(Delivery::Records(records)) => records,
            Some(Delivery::Time(_)) => rings.watermark(),
            None => wake.min(rings.watermark()),
        }
    }

    /// The same; 0 when it was removed.
    pub fn wake(&self, wake: u64) -> u64 {
        self.rings.as_ref().map_or(0, |rings| self.own_wake(rings, wake))
    }

    /// Another predicate; whether programs have to be made for it.
    pub fn set_predicate(
        &mut self,
        kernel: &KernelTrace,
        state: &State,
        test: Option<Test>,
    ) -> bool {
        let is_same_form = match (&self.predicate, &test) {
            (Some(old), Some(new)) => new.has_form_of(old) && new.constants().len() <= CONSTANTS,
            (None, None) => true,
            _ => false,
        };
        // The new constants go where programs do not look; then these look there, or new ones do.
        let bank = 1 - (self.holding ^ self.flip);
        let constants = test.as_ref().map(Test::constants).unwrap_or_default();
        for (place, constant) in constants.iter().take(CONSTANTS).enumerate() {
            kernel.set_word(state.predicate_constant(self.number, bank, place), *constant);
        }
        self.predicate = test;
        if is_same_form {
            self.holding = 1 - self.holding;
            kernel.set_word(state.predicate_holding(self.number), State::bank_word(self.holding));
        } else {
            self.flip = 1 - self.flip;
        }
        !is_same_form
    }

    /// Other rings in place of its own, or none; those that were there are read on for a while.
    pub fn put_rings(&mut self, rings: Option<Rings>) {
        if let Some(old) = std::mem::replace(&mut self.rings, rings) {
            self.retire(old);
        }
    }

    /// Rings that no program is told of any more.
    pub fn retire(&mut self, rings: Rings) {
        self.retired.push((rings, Instant::now()));
    }

    /// How long it may be left alone.
    pub fn pause(&self) -> Option<Duration> {
        match self.asked.delivery {
            Some(Delivery::Time(time)) => Some(time.saturating_sub(self.looked.elapsed())),
            _ => None,
        }
    }

    /// Takes in what is there, if it is time; whether that was all. What cannot be kept, or read, is counted, and passed
    /// over.
    pub fn take_in(
        &mut self,
        before_ns: u64,
        probe: Probes<'_>,
        meaning: &Meaning,
        how: (bool, bool),
        (kernel, state, events): (&KernelTrace, &State, usize),
    ) -> bool {
        let written = self.is_damaged.then(|| self.written(kernel, state, events));
        if written.is_some() {
            self.all_rings().for_each(|rings| rings.reader.mark());
        }
        let is_all = self.take_some_in(before_ns, probe, meaning, how);
        if let Some(written) = written
            && self.all_rings().all(|rings| rings.reader.has_passed_mark())
        {
            self.note_unread(&written);
        }
        let is_damaged = self.all_rings().any(|rings| rings.reader.broken() > 0);
        self.is_damaged |= is_damaged;
        is_all
    }

    fn take_some_in(
        &mut self,
        before_ns: u64,
        probe: Probes<'_>,
        meaning: &Meaning,
        (is_end, wants_names): (bool, bool),
    ) -> bool {
        let is_rung = self.rings.as_ref().is_some_and(|rings| rings.reader.is_rung());
        if !is_end && !is_rung && self.pause().is_some_and(|pause| !pause.is_zero()) {
            return true;
        }
        self.looked = Instant::now();
        let StreamBuffer {
            rings,
            retired,
            pipeline: Some(pipeline),
            taken,
            taken_of,
            seen,
            failed,
            unkept,
            is_in_place,
            ..
        } = self
        else {
            return true;
        };
        let (mut is_all, is_removed) = (true, rings.is_none());
        // What waits in a damaged ring could not be told from what is missing.
        let is_now = is_end || self.is_damaged;
        let until = if is_now { u64::MAX } else { before_ns.saturating_sub(SLACK_NS) };
        let last = retired.len().wrapping_sub(1);
        let retired_ones = retired.iter_mut().enumerate();
        // The last that it had when it was removed are still its own.
        let retired_ones =
            retired_ones.map(|(place, (rings, _))| (rings, is_removed && place == last));
        for (rings, is_current) in retired_ones.chain(rings.as_mut().map(|rings| (rings, true))) {
            // The probe of a record that can be kept.
            let mut admit = |record: Record<'_>, has_failed: bool| {
                // What is of no event is no record.
                let probe = probe(record.event())?;
                *taken += 1;
                count(taken_of, record.event());
                if is_current {
                    count(seen, record.event());
                }
                if has_failed {
                    *unkept += 1;
                    return None;
                }
                if wants_names {
                    // Before it waits for others: its process may be gone then.
                    meaning.names.borrow_mut().meet(record.tgid(), probe.has_user_stack());
                }
                Some(probe)
            };
            let (_, all) = match *is_in_place {
                true => rings.reader.drain_in_order(until, time_of, |run| {
                    let mut batch = Vec::with_capacity(run.len());
                    for record in run.iter().filter_map(|bytes| Record::new(bytes)) {
                        if let Some(probe) = admit(record, failed.is_some()) {
                            batch.push((probe, record));
                        }
                    }
                    if failed.is_none() {
                        *failed = pipeline.take_all(&batch, meaning).err();
                    }
                }),
                false => rings.reader.drain(|bytes| {
                    if let Some(record) = Record::new(bytes)
                        && let Some(probe) = admit(record, failed.is_some())
                    {
                        *failed = pipeline.take(probe, record, meaning).err();
                    }
                }),
            };
            is_all &= all;
        }
        if failed.is_none() {
            *failed = pipeline.end_round(is_all.then_some(before_ns), probe, meaning).err();
        }
        if is_all {
            if let (true, Some((rings, _))) = (is_removed, retired.last()) {
                self.last_positions = rings.reader.positions().to_vec();
            }
            self.retired.retain(|(_, since)| since.elapsed() < GRACE);
        }
        is_all
    }

    /// Whether it was removed, and nothing can come any more.
    pub fn is_over(&self) -> bool {
        self.has_ended() && self.pipeline.is_some()
    }

    /// Nothing more will come.
    pub fn end(&mut self, now_ns: u64, probes: Probes<'_>, meaning: &Meaning) {
        if let (Some(pipeline), None) = (&mut self.pipeline, &self.failed) {
            self.failed = pipeline.end(now_ns, probes, meaning).err();
        }
    }

    /// Its file is whole from now on.
    pub fn finish(
        &mut self,
        totals: &Totals,
        meaning: &Meaning,
        (kernel, state): (&KernelTrace, &State),
    ) {
        let Some(pipeline) = self.pipeline.take() else { return };
        let finished = pipeline.finish(totals, meaning);
        self.failed = self.failed.take().or(finished.err());
        self.counted = Some(self.counted(kernel, state, totals.followed.len()));
    }

    /// What was counted of an event, as far as this buffer's records go: what another one had no room for is no gap here.
    pub fn counted_of(
        &self,
        (kernel, state): (&KernelTrace, &State),
        number: usize,
        of_all: ProbeCounts,
    ) -> ProbeCounts {
        if !self.takes(&of_all.event) {
            return ProbeCounts { event: of_all.event, ..ProbeCounts::default() };
        }
        ProbeCounts {
            sent: self.taken_of.get(number).copied().unwrap_or(0),
            lost: self.written_of(kernel, state, number)[1],
            unread: self.unread_of(number),
            ..of_all
        }
    }

    /// Records of an event that were written and could not be read.
    pub fn unread_of(&self, number: usize) -> u64 {
        self.unread_of.get(number).copied().unwrap_or(0)
    }

    /// What was counted.
    pub fn counted(&self, kernel: &KernelTrace, state: &State, events: usize) -> BufferCounts {
        if let Some(counted) = &self.counted {
            return counted.clone();
        }
        let sum = |what| -> u64 {
            (0..state.cpus).map(|cpu| kernel.word(state.buffer(cpu, self.number, what))).sum()
        };
        let lost = |event| self.written_of(kernel, state, event)[1] + self.unread_of(event);
        BufferCounts {
            name: self.name.clone(),
            taken: self.taken,
            passed_over: sum(OfBuffer::Passed),
            lost: (0..events).map(lost).sum(),
            unkept: self.unkept,
            failed: self.failed.as_ref().map(|error| format!("{error:#}")),
        }
    }
}

/// When a record's event was; what is no record has its turn at once.
fn time_of(bytes: &[u8]) -> u64 {
    Record::new(bytes).map_or(0, |record| record.time_ns())
}

/// One more of an event, if it is one that there is.
fn count(seen: &mut Vec<u64>, event: u32) {
    let event = event as usize;
    if event < MOST_EVENTS {
        if seen.len() <= event {
            seen.resize(event + 1, 0);
        }
        seen[event] += 1;
    }
}
