//! The side with the privileges: attaches probes for one user, in a process of its own, as long as the user's weigh is there.
//!
//! Reads requests from a stream; emits answers, and descriptors of this stream's own rings. Refuses all that
//! `weigh_trace::policy` does not grant, processes that are not the user's own, and more than a user may have.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::event::PollFlags;
use weigh_agent::{Notes, Peer, command_of, give_way_to_agent, may_ask, may_follow};
use weigh_collect::trace::cpus_online;
use weigh_trace::event::Field;
use weigh_trace::policy::{MOST_PROBES, MOST_RING_BYTES};
use weigh_trace::sink::MAIN;

use super::super::control::{Answer, Ask, Attachment, ControlTarget as _, Conversation};
use super::super::event_stream::EventStream as _;
use super::super::local_stream::{LocalStream, Room};
use super::super::resolve::{ResolvedEvent, Resolver};
use super::super::settings::TraceSettings;
use super::wire::{HostAnswer, HostAsk, OpenRequest, VERSION};
use crate::command::{Command, CpuNotice, Launcher, is_ready};
use crate::engine::Session;
use crate::error::SourceError;
use crate::source::Source;

/// Who begins a request or lets an answer lie is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until the user's weigh has gone. Its stream is standard input; standard output is a descriptor for its
/// process.
pub fn be_stream(peer: Peer) -> ExitCode {
    give_way_to_agent();
    let host = || -> io::Result<Host> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let process = io::stdout().as_fd().try_clone_to_owned()?;
        stream.set_nonblocking(false)?;
        let conversation = Conversation::patient(stream, PATIENCE)?;
        Ok(Host {
            conversation,
            process,
            peer,
            stream: None,
            is_armed: false,
            notes: Notes::inherited(),
            waits: false,
            is_left: false,
        })
    };
    let served = host().map_err(SourceError::from).and_then(|mut host| {
        let launcher = Launcher::prepare_with(true, CpuNotice::Not)?;
        Ok(Session::new(launcher.stay(), None).run(&mut host)?)
    });
    match served {
        Ok(_) => ExitCode::SUCCESS,
        // The user's weigh has gone in the middle of something, or said what is not understood.
        Err(_) => ExitCode::FAILURE,
    }
}

struct Host {
    conversation: Conversation,
    process: OwnedFd,
    peer: Peer,
    stream: Option<LocalStream>,
    is_armed: bool,
    notes: Notes,
    /// Whether whom to follow is said later.
    waits: bool,
    /// Whether the user has closed the conversation.
    is_left: bool,
}

impl Source for Host {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.process.as_fd(), self.conversation.as_fd()]
    }

    /// Answers one request, if there is one.
    fn poll(&mut self, _: &mut Command) -> Result<(), SourceError> {
        let is_asked = is_ready(self.conversation.as_fd(), PollFlags::IN);
        if !is_asked || self.is_over_for_user() {
            return Ok(());
        }
        match self.conversation.line() {
            Ok((line, with)) => Ok(self.answer_line(&line, with)?),
            Err(_) => {
                self.is_left = true;
                Ok(())
            }
        }
    }

    fn is_over(&mut self, _: &Command) -> bool {
        self.is_over_for_user()
    }
}

impl Host {
    fn is_over_for_user(&self) -> bool {
        self.is_left || is_ready(self.process.as_fd(), PollFlags::IN)
    }

    fn answer_line(&mut self, line: &[u8], with: Vec<OwnedFd>) -> io::Result<()> {
        let ask: HostAsk = serde_json::from_slice(line)?;
        let answered = self.answer(ask, with);
        // What follows no command follows whatever its user does.
        self.notes.note(self.stream.is_some() && (self.is_armed || !self.waits));
        let (answer, with) = answered
            .unwrap_or_else(|error| (HostAnswer::Refused(format!("{error:#}")), Vec::new()));
        self.conversation.say(&answer, &with)
    }

    fn answer(
        &mut self,
        ask: HostAsk,
        with: Vec<OwnedFd>,
    ) -> anyhow::Result<(HostAnswer, Vec<OwnedFd>)> {
        if let HostAsk::Open(wanted) = ask {
            return self.open(&wanted);
        }
        let peer = self.peer;
        let stream = self.stream.as_mut().context("nothing is attached")?;
        let answer = match ask {
            HostAsk::Open(_) => bail!("it is open already"),
            HostAsk::Arm => {
                let pidfd = with.first().filter(|_| !self.is_armed);
                let pidfd = pidfd.context("it is armed already, or by nothing")?;
                command_of(peer, pidfd.as_fd())?;
                stream.arm(pidfd.as_fd())?;
                self.is_armed = true;
                HostAnswer::Done
            }
            HostAsk::Join { pid } => {
                may_follow(peer, pid)?;
                stream.join(pid)?;
                self.is_armed = true;
                HostAnswer::Done
            }
            HostAsk::IsMember { pid } => HostAnswer::Is(stream.is_member(pid)),
            HostAsk::Living => {
                HostAnswer::Living { living: stream.living(), lost: stream.kernel.lost_threads() }
            }
            HostAsk::LookAfter { bytes } => {
                stream.look_after(&[(0, bytes)]);
                HostAnswer::Done
            }
            HostAsk::Stop => {
                stream.kernel.detach_all();
                HostAnswer::Done
            }
            HostAsk::Stream(Ask::Reports { .. }) => bail!("reports are made by the user's weigh"),
            HostAsk::Stream(Ask::Where) => HostAnswer::Stream(Answer::Where(stream.r#where(0))),
            HostAsk::Stream(Ask::Describe) => {
                HostAnswer::Stream(Answer::Description(Box::new(stream.description())))
            }
            // Buffers have files, which would be made with the rights that are here.
            HostAsk::Stream(
                Ask::AddBuffer { .. } | Ask::SetBuffer { .. } | Ask::RemoveBuffer { .. },
            ) => bail!("a user's stream has one buffer"),
            HostAsk::Stream(ask) => HostAnswer::Stream(stream.answer(ask)),
        };
        Ok((answer, Vec::new()))
    }

    fn open(&mut self, wanted: &OpenRequest) -> anyhow::Result<(HostAnswer, Vec<OwnedFd>)> {
        ensure!(wanted.version == VERSION, "the agent is of another version of weigh");
        ensure!(self.stream.is_none(), "it is open already");
        // Before any command is made: then the user's weigh can still say so.
        may_ask(self.peer)?;
        let settings = TraceSettings {
            filters: wanted.filters.clone(),
            sampling: wanted.sampling.clone(),
            // Whom, is said later.
            pid: wanted.follows.then_some(0),
            ring_bytes: Some(ring_bytes(wanted)?),
            total_order: wanted.total_order,
            per_cpu: wanted.per_cpu,
            wake_bytes: wanted.wake,
            ..TraceSettings::default()
        };
        let resolver = Resolver::of_user(&settings, (self.peer.uid, self.peer.gid))?;
        let mut events: Vec<ResolvedEvent> = Vec::new();
        for event in &wanted.events {
            let resolved = resolver.check_one(&event.text, event.is_of_set)?;
            let more = event.more.iter().map(|text| Field::parse(text));
            let more = more.collect::<Result<Vec<_>, _>>()?;
            events.push(match more.is_empty() {
                true => resolved,
                false => resolver.with_fields(&resolved, more, &event.text)?,
            });
        }
        ensure!(
            (1..=MOST_PROBES).contains(&events.len()),
            "{} events; a user's stream has {MOST_PROBES} probes at most",
            events.len()
        );
        let room = Room { probes: MOST_PROBES - events.len(), outputs: None };
        let stream = LocalStream::open(&settings, resolver, events, (&[], &[]), room)?;
        let attached = Attachment {
            buffer: MAIN.to_string(),
            description: stream.description(),
            r#where: stream.r#where(0),
        };
        let with = stream.given()?;
        self.stream = Some(stream);
        self.waits = wanted.follows;
        Ok((HostAnswer::Opened(Box::new(attached)), with))
    }
}

/// Bytes of each ring: as many as are asked for, if all of them together are not too many; else as many as fit.
fn ring_bytes(wanted: &OpenRequest) -> anyhow::Result<usize> {
    let rings = if wanted.total_order { 1 } else { cpus_online().len().max(1) };
    let most = 1usize << (MOST_RING_BYTES / rings).max(4096).ilog2();
    match wanted.buffer {
        None => Ok(most.min(4 << 20)),
        Some(bytes) if bytes <= most => Ok(bytes),
        Some(bytes) => bail!(
            "{rings} rings of {bytes} bytes: a user's stream has {} MiB at most",
            MOST_RING_BYTES >> 20
        ),
    }
}
