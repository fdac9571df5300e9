//! What is to be followed, checked before anything is attached.

use std::rc::Rc;

use anyhow::{Context as _, bail};
use rustix::process::{getegid, geteuid};
use weigh_collect::notice;
use weigh_collect::spawn::SpawnError;

use super::adaptation_plan::{self, PlannedAdaptation};
use super::adaptive::Adaptive;
use super::control::{self, Control, Conversation};
use super::event_stream::EventStream;
use super::local_stream::{LocalStream, Room};
use super::outputs::RecordOutputs;
use super::remote_stream::RemoteStream;
use super::resolve::{self, Resolution, Resolver};
use super::run::{self, TraceOutcome};
use super::settings::TraceSettings;
use super::stream_host;
use super::synthesis_spec::{self, SynthesisSpec};

/// A stream that can run on this kernel.
pub struct TracePlan {
    settings: TraceSettings,
    specs: Vec<SynthesisSpec>,
    adaptations: Vec<PlannedAdaptation>,
    /// Of the agent's, for a user without privileges.
    agent: Option<Conversation>,
    resolver: Resolver,
    resolution: Resolution,
}

impl TracePlan {
    /// Checks all that is wanted.
    pub fn prepare(settings: TraceSettings) -> anyhow::Result<TracePlan> {
        let mut specs = synthesis_spec::read(&settings.synthesis)?;
        let adaptations = adaptation_plan::read(&settings.adaptations)?;
        if settings.events.is_empty() && specs.iter().all(|spec| spec.ask.events().is_empty()) {
            bail!("expected an event (-e EVENT); `weigh trace list PATTERN` says which there are");
        }
        if settings.system && settings.pid.is_some() {
            bail!("expected one of --system and --pid");
        }
        let agent = stream_host::agent()?;
        let user = (geteuid().as_raw(), getegid().as_raw());
        let resolver = match &agent {
            None => Resolver::new(&settings)?,
            Some(_) => Resolver::of_user(&settings, user)?,
        };
        let mut resolution = resolve::check(&resolver, &settings)?;
        if settings.draws_pairs() {
            let events = resolution.events.iter();
            let names: Vec<&str> = events.map(|event| event.probe.name.as_str()).collect();
            synthesis_spec::add_default_pairs(&mut specs, &names);
        }
        let is_local = agent.is_none();
        let events = &mut resolution.events;
        synthesis_spec::complete(&resolver, &specs, events)?;
        let followed = events.len();
        let adaptations = adaptation_plan::plan(adaptations, &resolver, events, is_local)?;
        if events.len() > followed {
            synthesis_spec::complete(&resolver, &specs, events)?;
        }
        Ok(TracePlan { settings, specs, adaptations, agent, resolver, resolution })
    }

    /// Follows until the last thread has ended, the time is over, or somebody interrupts.
    pub fn run(
        self,
        outputs: Rc<dyn RecordOutputs>,
    ) -> anyhow::Result<Result<TraceOutcome, SpawnError>> {
        tell_left_out(&self.resolution);
        if self.resolution.events.is_empty() {
            bail!("nothing is left of what was asked for");
        }
        let TracePlan { settings, specs, adaptations, agent, resolver, resolution } = self;
        let events = resolution.events;
        let stream: Box<dyn EventStream> = match agent {
            None => {
                let room = Room::for_outputs(Rc::clone(&outputs));
                let what = (specs.as_slice(), adaptations.as_slice());
                Box::new(LocalStream::open(&settings, resolver, events, what, room)?)
            }
            Some(_) if !settings.buffers.is_empty() => {
                bail!("--into: a stream that the agent attaches for a user has one buffer")
            }
            Some(agent) => {
                let request = stream_host::open_request(&settings, &events);
                Box::new(RemoteStream::open(&settings, &specs, agent, request, &*outputs)?)
            }
        };
        let steering = (Control::open(), Adaptive::new(adaptations));
        run::follow(&settings, &*outputs, stream, steering)
    }
}

fn tell_left_out(resolution: &Resolution) {
    for (event, refusal) in &resolution.left_out {
        notice!("{event} is left out: {refusal}");
    }
    for resolved in resolution.events.iter().filter(|event| !event.left_out.is_empty()) {
        let (event, fields) = (&resolved.probe.name, resolved.left_out.join(", "));
        notice!("{event}: left out is what is not a user's to see: {fields}");
    }
}

/// Another's stream, which is to be read along.
pub struct AttachPlan {
    settings: TraceSettings,
    specs: Vec<SynthesisSpec>,
    pid: u32,
    talk: Conversation,
}

impl AttachPlan {
    /// Finds the stream: the one that is named, or the only one.
    pub fn prepare(settings: TraceSettings, stream: Option<u32>) -> anyhow::Result<AttachPlan> {
        let specs = synthesis_spec::read(&settings.synthesis)?;
        let (pid, stream) = control::connect(stream)?;
        let talk = Conversation::new(stream).with_context(|| format!("stream {pid}"))?;
        Ok(AttachPlan { settings, specs, pid, talk })
    }

    /// Reads along with what a buffer of that name has, or else the first.
    pub fn run(
        self,
        buffer: Option<&str>,
        outputs: &dyn RecordOutputs,
    ) -> anyhow::Result<Result<TraceOutcome, SpawnError>> {
        let AttachPlan { settings, specs, pid, talk } = self;
        let stream = RemoteStream::attach(&settings, &specs, talk, buffer, outputs);
        let stream = Box::new(stream.with_context(|| format!("stream {pid}"))?);
        let steering = (Control::closed(), Adaptive::new(Vec::new()));
        run::follow(&settings, outputs, stream, steering)
    }
}
