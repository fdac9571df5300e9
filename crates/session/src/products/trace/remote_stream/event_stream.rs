//! How it runs: records are taken in, and who asks is answered, as with a stream of weigh's own.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, anyhow};
use weigh_collect::clock::Moment;
use weigh_schema::synthesis::{SwitchNote, SynthesisReport};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{MAIN, ProbeCounts, Totals};

use super::super::adaptation_plan::PlannedAdaptation;
use super::super::control::{
    Answer, Ask, ControlTarget, Description, RuleEntry, StreamPosition, Written,
};
use super::super::event_stream::EventStream;
use super::super::stream_host::{HostAnswer, HostAsk};
use super::state::{RemoteStream, RingReading, TRIES, at_least_none, count};

/// Records of events that are not known are kept so long, at most.
const MOST_UNKNOWN: usize = 4096;

impl ControlTarget for RemoteStream {
    fn answer(&mut self, ask: Ask) -> Answer {
        let is_change = matches!(ask, Ask::Add { .. });
        let answered = self.ask(ask);
        if is_change && let Err(error) = self.learn() {
            return Answer::Refused(format!("{error:#}"));
        }
        match answered {
            Ok(Answer::Register(mut register)) => {
                register.pid = std::process::id();
                register.output.clone_from(&self.output);
                register.rules.clone_from(&self.rules);
                register.taken = self.taken;
                // Here they are taken in and written, not where the probes are.
                for (probe, unread) in register.probes.iter_mut().zip(&self.unread) {
                    probe.counted.unread = *unread;
                }
                for buffer in register.buffers.iter_mut().filter(|buffer| buffer.name == MAIN) {
                    buffer.counted.taken = self.taken;
                    buffer.counted.lost += self.unread.iter().sum::<u64>();
                    buffer.output.clone_from(&self.output);
                }
                Answer::Register(register)
            }
            Ok(answer) => answer,
            Err(error) => Answer::Refused(format!("{error:#}")),
        }
    }

    fn description(&self) -> Description {
        Description { pid: std::process::id(), ..self.probes.description.clone() }
    }

    fn readable(&self) -> Vec<(usize, String)> {
        if self.is_owner() { vec![(0, MAIN.to_string())] } else { Vec::new() }
    }

    fn r#where(&self, _: usize) -> StreamPosition {
        let mut lost = match self.ask(Ask::Where) {
            Ok(Answer::Where(at)) => at.lost,
            _ => self.last.as_ref().map_or(Vec::new(), |last| last.lost.clone()),
        };
        lost.iter_mut().zip(&self.unread).for_each(|(lost, unread)| *lost += unread);
        let positions = match &self.reading {
            RingReading::Owner(reader) => reader.positions(),
            RingReading::Along(follower) => follower.positions(),
        };
        StreamPosition { positions: positions.to_vec(), seen: self.seen.clone(), lost }
    }

    fn written(&self, _: usize) -> Written {
        let positions = match &self.reading {
            RingReading::Owner(reader) => reader.positions(),
            RingReading::Along(follower) => follower.positions(),
        };
        Written::of(positions, self.taken)
    }

    fn rings(&self, _: usize) -> Option<BorrowedFd<'_>> {
        self.is_owner().then(|| self.rings.as_fd())
    }

    fn has_ended(&self, _: usize) -> bool {
        false
    }

    fn synthesis_report(&self, rows: usize) -> Option<SynthesisReport> {
        let now = Moment::now().ns();
        let seconds = self.meaning.seconds_since_began(now);
        self.report(&self.counts(self.register().as_deref()), rows, (now, seconds))
    }

    fn look_after(&mut self, read: &[(usize, u64)]) {
        let bytes = read.iter().map(|(_, bytes)| *bytes).min().unwrap_or(u64::MAX);
        if self.look_after.replace(bytes) != bytes && self.is_owner() {
            let _ = self.ask_host(&HostAsk::LookAfter { bytes }, &[]);
        }
    }
}

impl EventStream for RemoteStream {
    fn arm(&mut self, pidfd: BorrowedFd<'_>) -> anyhow::Result<()> {
        let pidfd = pidfd.try_clone_to_owned().context("a descriptor of the command")?;
        self.ask_host(&HostAsk::Arm, &[pidfd]).map(drop)
    }

    fn join(&mut self, pid: u32) -> anyhow::Result<()> {
        self.ask_host(&HostAsk::Join { pid }, &[]).map(drop)
    }

    fn is_member(&self, pid: u32) -> bool {
        self.is_owner()
            && matches!(self.ask_host(&HostAsk::IsMember { pid }, &[]), Ok(HostAnswer::Is(true)))
    }

    fn living(&self) -> Option<u64> {
        if !self.is_owner() || self.is_over {
            return None;
        }
        match self.ask_host(&HostAsk::Living, &[]) {
            Ok(HostAnswer::Living { living, .. }) => living,
            _ => None,
        }
    }

    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = Vec::new();
        if !self.is_over {
            all.push(self.talk.as_fd());
        }
        match &self.reading {
            RingReading::Owner(reader) => all.push(reader.wake_fd()),
            RingReading::Along(_) => all.extend(self.along.iter().map(|(wakes, _)| wakes.as_fd())),
        }
        all
    }

    fn wants_names(&self) -> bool {
        self.probes.read.iter().flatten().any(Probe::has_user_stack)
    }

    fn take_in(&mut self) -> bool {
        if let Some((wakes, _)) = &self.along {
            let _ = rustix::io::read(wakes, &mut [0; 8]);
        }
        self.notice_end();
        let marked = self.mark_damaged();
        let (is_all, unknown) = self.drain();
        if !unknown.is_empty() {
            if let Err(error) = self.learn() {
                self.failed.get_or_insert(error);
            }
            for record in unknown.iter().filter_map(|bytes| Record::new(bytes)) {
                let Some(probe) = self.probes.get(record.event()) else { continue };
                if self.filters.iter().all(|filter| filter.holds(probe, record)) {
                    self.passed += 1;
                    if let Err(error) = self.pipeline.take(probe, record, &self.meaning) {
                        self.failed.get_or_insert(error);
                    }
                }
            }
        }
        if let (Some(marked), RingReading::Owner(reader)) = (marked, &self.reading)
            && reader.has_passed_mark()
        {
            self.note_unread(&marked);
        }
        let is_overtaken =
            matches!(&self.reading, RingReading::Along(follower) if follower.is_overtaken());
        if is_overtaken && !self.account() && self.is_over {
            self.give_up();
        }
        if self.failed.is_some() && self.is_owner() && !self.is_stopped {
            // What cannot be kept is not made any more either.
            self.is_stopped = true;
            let _ = self.ask_host(&HostAsk::Stop, &[]);
        }
        self.tell();
        is_all
    }

    fn draw(&mut self) {
        let Some(rows) = self.pipeline.due_rows() else { return };
        let now = Moment::now().ns();
        let seconds = now.saturating_sub(self.meaning.began_ns) as f64 / 1e9;
        let found = self.report(&self.counts(self.register().as_deref()), rows, (now, seconds));
        if let Some(found) = found {
            self.pipeline.show(&found);
        }
    }

    fn event_counts(&mut self) -> Vec<ProbeCounts> {
        let Some(register) = self.register() else { return Vec::new() };
        let counted = |(id, _)| self.counted(id, Some(&*register));
        register.probes.iter().enumerate().map(counted).collect()
    }

    fn adapt(
        &mut self,
        place: usize,
        planned: &PlannedAdaptation,
        is_on: bool,
    ) -> anyhow::Result<()> {
        self.switch(place, planned, is_on)
    }

    fn note_switch(&mut self, note: SwitchNote, rules: Vec<RuleEntry>) {
        self.rules = rules;
        let at_seconds = self.meaning.seconds_since_began(Moment::now().ns());
        self.pipeline.note_switch(SwitchNote { at_seconds, ..note });
    }

    /// What a command does after its agent has gone is not seen; it is waited for all the same.
    fn is_over(&self) -> bool {
        self.is_over && !self.is_owner()
    }

    fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn stop(&mut self) {
        if self.is_owner() && !self.is_over {
            let _ = self.ask_host(&HostAsk::Stop, &[]);
        }
        self.take_all();
        for _ in 0..TRIES {
            if self.is_owner() || self.account() {
                break;
            }
        }
    }

    fn finish(
        mut self: Box<Self>,
        (now_ns, seconds): (u64, f64),
    ) -> (Totals, Option<anyhow::Error>) {
        let register = self.register();
        if let Some(register) = &register {
            self.note_unread(register);
        }
        let RemoteStream { pipeline, failed, probes, meaning, .. } = &mut *self;
        let ended = pipeline.end(now_ns, &|event| probes.get(event), meaning);
        if let (None, Err(error)) = (&failed, ended) {
            *failed = Some(error);
        }
        let counted = self.counts(register.as_deref());
        let synthesis = self.report(&counted, usize::MAX, (now_ns, seconds));
        let note = |counted: ProbeCounts| {
            let asked = counted.event.clone();
            counted.note(asked, None, None)
        };
        let lost_threads = register.map_or(0, |register| register.lost_threads);
        let totals = Totals {
            origin: self.origin.clone(),
            followed: counted.into_iter().map(note).collect(),
            buffers: Vec::new(),
            taken: self.passed,
            seen: (!self.wanted.is_empty()).then_some(self.taken),
            lost_threads,
            ended_ns: now_ns,
            seconds,
            synthesis,
        };
        let finished = self.pipeline.finish(&totals, &self.meaning);
        (totals, self.failed.or(finished.err()))
    }
}

impl RemoteStream {
    /// Tells the stream how far it is, if anybody asks there.
    fn tell(&self) {
        let (Some((_, told)), RingReading::Along(follower)) = (&self.along, &self.reading) else {
            return;
        };
        let passed = Written::of(follower.positions(), 0).bytes;
        let first = Written::of(&self.first.positions, 0).bytes;
        let lost = self.overtaken.iter().map(|lost| at_least_none(*lost));
        let words = [passed.wrapping_sub(first), self.taken, lost.fold(0, u64::wrapping_add)];
        // It is for others to know.
        let _ = told.write_all_at(words.map(u64::to_ne_bytes).as_flattened(), 0);
    }

    /// The side that has attached the probes has gone, or says that it was all.
    fn notice_end(&mut self) {
        if self.is_over || !self.talk.is_over() {
            return;
        }
        self.is_over = true;
        self.last = self.talk.ended();
        if self.is_owner() {
            self.failed = Some(anyhow!("the agent has gone: what came after that is missing"));
        }
    }

    /// Hands on what is there; returns whether that was all, and records of events that are not known.
    fn drain(&mut self) -> (bool, Vec<Vec<u8>>) {
        let before = Moment::now().ns();
        let RemoteStream {
            reading,
            pipeline,
            failed,
            probes,
            filters,
            meaning,
            seen,
            taken,
            passed,
            ..
        } = self;
        let mut unknown: Vec<Vec<u8>> = Vec::new();
        meaning.names.borrow_mut().next_round();
        let take = |bytes: &[u8]| {
            let Some(record) = Record::new(bytes) else { return };
            count(seen, record.event(), 1);
            match probes.get(record.event()) {
                Some(probe)
                    if failed.is_none() && filters.iter().all(|f| f.holds(probe, record)) =>
                {
                    *passed += 1;
                    if probe.has_user_stack() {
                        meaning.names.borrow_mut().meet(record.tgid(), true);
                    }
                    *failed = pipeline.take(probe, record, meaning).err();
                }
                None if unknown.len() < MOST_UNKNOWN => unknown.push(bytes.to_vec()),
                _ => {}
            }
        };
        let (records, is_all) = match reading {
            RingReading::Owner(reader) => reader.drain(take),
            RingReading::Along(follower) => follower.drain(take),
        };
        *taken += records;
        let until = is_all.then_some(before);
        let ended = pipeline.end_round(until, &|event| probes.get(event), meaning);
        if let (None, Err(error)) = (&failed, ended) {
            *failed = Some(error);
        }
        (is_all, unknown)
    }

    /// Nobody can say any more how many were lost of which event.
    fn give_up(&mut self) {
        if let RingReading::Along(follower) = &mut self.reading
            && follower.give_up()
        {
            let error = anyhow!(
                "the stream was killed while this reader was behind: how much was lost is not known"
            );
            self.failed.get_or_insert(error);
        }
    }
}
