//! A stream whose probes somebody else has attached: the agent, for this user, or another `weigh trace`, which is
//! read along.
//!
//! Reads the rings that it was given, and what it is told of them; emits records to where they go. Of the agent's stream
//! it is the rings' owner: nothing is written over that it has not read. Of another's it may be overtaken,
//! and asks then how much it has lost.

mod event_stream;
mod state;
mod switching;

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

use anyhow::{Context as _, anyhow, bail};
use weigh_collect::trace::{Follower, Reader, ReaderFds};
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::Origin;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::replay::filter::RecordedFilter;
use weigh_trace::sink::ProbeCounts;
use weigh_trace::suggest::nearest;
use weigh_trace::synthesis::Gaps;

use super::control::{Answer, Ask, AttachBy, Attachment, Conversation, Register, WakeBy};
use super::event_stream::EventStream as _;
use super::live_names::live_meaning;
use super::origin;
use super::outputs::RecordOutputs;
use super::pipeline::Pipeline;
use super::settings::TraceSettings;
use super::stream_host::{HostAnswer, HostAsk, OpenRequest};
use super::synthesis_spec::SynthesisSpec;
pub use state::RemoteStream;
use state::{Probes, RingReading, at_least_none, count};

/// The rings that somebody else's stream has given.
struct GivenRings {
    reading: RingReading,
    rings: OwnedFd,
    /// What this reader is waked by, and where it says how far it is.
    along: Option<(OwnedFd, File)>,
}

/// What is wrong about the name of a buffer.
fn no_buffer(asked: Option<&str>, names: &[String]) -> anyhow::Error {
    let Some(asked) = asked.filter(|_| !names.is_empty()) else {
        return anyhow!("it has no buffer that can be read along");
    };
    let near = nearest(asked, names.iter().map(String::as_str));
    let near = near.first().map_or_else(String::new, |near| format!("; perhaps '{near}'"));
    anyhow!("--from: it has no buffer '{asked}', but {}{near}", names.join(", "))
}

/// What a reader wants of these events.
fn read_filters(wanted: &[String], known: &[&Probe]) -> anyhow::Result<Vec<RecordedFilter>> {
    let read = |text: &String| {
        RecordedFilter::parse(text, known).map_err(|refusal| anyhow!("--filter: {refusal}"))
    };
    wanted.iter().map(read).collect()
}

fn of(counts: &[u64], event: usize) -> u64 {
    counts.get(event).copied().unwrap_or(0)
}

impl RemoteStream {
    /// Reads along with another's stream, what a buffer of that name has, or else the first.
    pub fn attach(
        settings: &TraceSettings,
        specs: &[SynthesisSpec],
        talk: Conversation,
        buffer: Option<&str>,
        outputs: &dyn RecordOutputs,
    ) -> anyhow::Result<RemoteStream> {
        let wake = WakeBy { bytes: settings.wake_bytes.unwrap_or(0), ..WakeBy::default() };
        let how = AttachBy { wake, buffer: buffer.map(str::to_string) };
        let (answer, with) = talk.ask::<Answer>(&Ask::Attach(how), &[])?;
        let attached = match answer {
            Answer::Attached(attached) => attached,
            Answer::NoBuffer(names) => return Err(no_buffer(buffer, &names)),
            Answer::Refused(why) => bail!("{why}"),
            _ => bail!("the stream answers what was not asked"),
        };
        let mut with = with.into_iter();
        let given = with.next().zip(with.next()).zip(with.next());
        let ((rings, wakes), told) = given.context("the stream gives no rings")?;
        let follower = Follower::new(rings.as_fd(), attached.r#where.positions.clone());
        let reading = RingReading::Along(follower.context("the rings cannot be read")?);
        let rings = GivenRings { reading, rings, along: Some((wakes, told.into())) };
        RemoteStream::new(settings, (specs, &settings.filters), talk, *attached, rings, outputs)
    }

    /// Has the agent attach probes for this user.
    pub fn open(
        settings: &TraceSettings,
        specs: &[SynthesisSpec],
        talk: Conversation,
        request: OpenRequest,
        outputs: &dyn RecordOutputs,
    ) -> anyhow::Result<RemoteStream> {
        let (answer, with) = talk.ask(&HostAsk::Open(Box::new(request)), &[])?;
        let attached = match answer {
            HostAnswer::Opened(attached) => attached,
            HostAnswer::Refused(why) => bail!("the agent does not follow it: {why}"),
            _ => bail!("the agent answers what was not asked"),
        };
        let Ok([rings, consumers, doorbell]) = <[OwnedFd; 3]>::try_from(with) else {
            bail!("the agent gives no rings");
        };
        let own = rings.try_clone()?;
        let reader = Reader::new(ReaderFds { rings, consumers, doorbell });
        let reading = RingReading::Owner(Box::new(reader.context("the rings cannot be read")?));
        // The filters are a part of the programs.
        let rings = GivenRings { reading, rings: own, along: None };
        RemoteStream::new(settings, (specs, &[]), talk, *attached, rings, outputs)
    }

    fn new(
        settings: &TraceSettings,
        (specs, wanted): (&[SynthesisSpec], &[String]),
        talk: Conversation,
        attached: Attachment,
        rings: GivenRings,
        outputs: &dyn RecordOutputs,
    ) -> anyhow::Result<RemoteStream> {
        let GivenRings { reading, rings, along } = rings;
        let Attachment { description, r#where, .. } = attached;
        let meaning = live_meaning(description.began_ns, description.epoch_ns);
        let origin = Origin {
            began_ns: description.began_ns,
            epoch_ns: description.epoch_ns,
            ..origin::of(settings)
        };
        let probes = Probes::new(description)?;
        let known: Vec<&Probe> = probes.read.iter().flatten().collect();
        if known.len() < probes.read.len() {
            bail!("the stream does not describe all of its events");
        }
        let filters = read_filters(wanted, &known)?;
        let layout = match &reading {
            RingReading::Owner(reader) => reader.layout(),
            RingReading::Along(follower) => follower.layout(),
        };
        let pipeline = Pipeline::new(settings, specs, &known, layout.rings > 1, outputs)?;
        Ok(RemoteStream {
            talk,
            reading,
            rings,
            along,
            probes,
            wanted: wanted.to_vec(),
            filters,
            pipeline,
            origin,
            meaning,
            first: r#where,
            seen: Vec::new(),
            overtaken: Vec::new(),
            unread: Vec::new(),
            last: None,
            taken: 0,
            passed: 0,
            output: settings.output.as_ref().map(|path| path.display().to_string()),
            look_after: Cell::new(u64::MAX),
            rules: Vec::new(),
            switched: Vec::new(),
            sampled: Vec::new(),
            is_over: false,
            is_stopped: false,
            failed: None,
        })
    }

    fn is_owner(&self) -> bool {
        matches!(self.reading, RingReading::Owner(_))
    }

    fn ask_host(&self, ask: &HostAsk, with: &[OwnedFd]) -> anyhow::Result<HostAnswer> {
        match self.talk.ask(ask, with).context("the agent has gone")? {
            (HostAnswer::Refused(why), _) => Err(anyhow!("the agent: {why}")),
            (answer, _) => Ok(answer),
        }
    }

    /// Asks the side that has attached the probes.
    fn ask(&self, ask: Ask) -> anyhow::Result<Answer> {
        if !self.is_owner() {
            return Ok(self.talk.ask(&ask, &[]).context("the stream has ended")?.0);
        }
        match self.ask_host(&HostAsk::Stream(ask), &[])? {
            HostAnswer::Stream(answer) => Ok(answer),
            _ => Err(anyhow!("the agent answers what was not asked")),
        }
    }

    /// Takes note of events that were added.
    fn learn(&mut self) -> anyhow::Result<()> {
        let Answer::Description(description) = self.ask(Ask::Describe)? else {
            bail!("the stream does not describe itself");
        };
        let before = self.probes.read.len();
        self.probes = Probes::new(*description)?;
        for id in before..self.probes.read.len() {
            let known: Option<Vec<&Probe>> =
                self.probes.read[..=id].iter().map(Option::as_ref).collect();
            let known = known.context("the stream does not describe all of its events")?;
            self.filters = read_filters(&self.wanted, &known)?;
            self.pipeline.add(&known)?;
        }
        Ok(())
    }

    /// Where another's stream is, or has ended.
    fn stream_position(&self) -> Option<super::control::StreamPosition> {
        self.last.clone().or_else(|| match self.ask(Ask::Where) {
            Ok(Answer::Where(at)) => Some(at),
            _ => None,
        })
    }

    /// How much was lost by being overtaken, of each event: what the stream has seen since this reader came, less
    /// what it has seen and what lies before it still. Then it goes on where the stream is.
    fn account(&mut self) -> bool {
        let Some(at) = self.stream_position() else { return false };
        let RingReading::Along(follower) = &mut self.reading else { return true };
        let mut lost = Vec::new();
        for event in 0..at.seen.len() {
            let seen = of(&at.seen, event).wrapping_sub(of(&self.first.seen, event));
            count(&mut lost, event as u32, seen.wrapping_sub(of(&self.seen, event)));
        }
        let is_whole = follower.between(&at.positions, |bytes, is_before_him| {
            if let Some(record) = Record::new(bytes) {
                count(&mut lost, record.event(), if is_before_him { u64::MAX } else { 1 });
            }
        });
        if is_whole {
            follower.resume(&at.positions);
            self.overtaken = lost;
        }
        is_whole
    }

    /// All that is left of a stream that has ended.
    fn take_all(&mut self) {
        let mut before = None;
        while before != Some(self.taken) {
            before = Some(self.taken);
            while !self.take_in() {}
        }
    }

    fn counted(&self, id: usize, register: Option<&Register>) -> ProbeCounts {
        let told = register.and_then(|register| register.probes.get(id));
        let event = self.probes.description.events.iter().find(|event| event.id == id);
        let own = ProbeCounts {
            event: event.map_or_else(String::new, |event| event.event.clone()),
            sent: of(&self.seen, id),
            lost: at_least_none(of(&self.overtaken, id)),
            unread: of(&self.unread, id),
            ..ProbeCounts::default()
        };
        match told {
            Some(told) if self.is_owner() => {
                ProbeCounts { event: own.event, unread: own.unread, ..told.counted.clone() }
            }
            _ => own,
        }
    }

    /// Of each event: with what the side says that has attached the probes, if it can be asked.
    fn counts(&self, register: Option<&Register>) -> Vec<ProbeCounts> {
        let missing = if self.is_owner() { Vec::new() } else { self.missing() };
        let counted = (0..self.probes.read.len()).map(|id| {
            let counted = self.counted(id, register);
            let had = at_least_none(of(&self.overtaken, id).wrapping_neg());
            let missing = of(&missing, id).saturating_sub(had);
            ProbeCounts { missed: counted.missed + missing, ..counted }
        });
        counted.collect()
    }

    /// What another's stream itself has not had of each event since this reader came.
    fn missing(&self) -> Vec<u64> {
        let Some(at) = self.stream_position() else { return Vec::new() };
        let since = |(event, lost): (usize, &u64)| lost.saturating_sub(of(&self.first.lost, event));
        at.lost.iter().enumerate().map(since).collect()
    }

    /// What the side says that has attached the probes for the rings' owner.
    fn register(&self) -> Option<Box<Register>> {
        match self.is_owner().then(|| self.ask(Ask::List))? {
            Ok(Answer::Register(register)) => Some(register),
            _ => None,
        }
    }

    /// Where the owner's rings are damaged: what was written until now, which is to be held to what is read.
    fn mark_damaged(&mut self) -> Option<Box<Register>> {
        match &self.reading {
            RingReading::Owner(reader) if reader.broken() > 0 => {}
            _ => return None,
        }
        let register = self.register();
        if let RingReading::Owner(reader) = &mut self.reading {
            reader.mark();
        }
        register
    }

    /// All that this says was written has been read, or never can be.
    fn note_unread(&mut self, register: &Register) {
        self.unread.resize(self.unread.len().max(register.probes.len()), 0);
        for (id, (unread, probe)) in self.unread.iter_mut().zip(&register.probes).enumerate() {
            let missing = probe.counted.sent.saturating_sub(of(&self.seen, id));
            *unread = missing.max(*unread);
        }
    }

    fn report(
        &self,
        counted: &[ProbeCounts],
        rows: usize,
        now: (u64, f64),
    ) -> Option<SynthesisReport> {
        let lost: Vec<u64> = counted.iter().map(ProbeCounts::gone).collect();
        self.pipeline.report(rows, now, &Gaps { lost: &lost, sampling: &self.sampled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_where_more_was_read_than_by_the_owner() {
        let lost = [3_u64.wrapping_sub(5), 0, 7].map(at_least_none);
        assert_eq!(lost, [0, 0, 7]);
    }
}
