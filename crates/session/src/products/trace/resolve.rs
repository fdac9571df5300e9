//! Event specs, resolved against this kernel.
//!
//! Reads what events, filters and sampling are asked for, the kernel's types and its list of
//! tracepoints; emits probes. Refuses the first thing that is wrong; of a set, what this kernel lacks is
//! left out.

use std::sync::Arc;

use anyhow::anyhow;
use weigh_trace::btf::Btf;
use weigh_trace::error::{Refusal, Wrong};
use weigh_trace::event::{Event, Field};
use weigh_trace::filter::Filter;
use weigh_trace::owner::Owner;
use weigh_trace::policy;
use weigh_trace::probe::Probe;
use weigh_trace::sampling::Sampling;
use weigh_trace::sets;
use weigh_trace::signature::Signature;

use super::counters;
use super::modules::Types;
use super::patterns;
use super::programs::Programs;
use super::settings::TraceSettings;
use super::tracepoint_groups::check_group;

/// An event that can be followed.
#[derive(Clone)]
pub struct ResolvedEvent {
    /// As it was asked for, with what holds for all.
    pub event: Event,
    /// What the kernel hands over there.
    signature: Signature,
    /// Whose types say so.
    btf: Arc<Btf>,
    /// Filters besides its own, and their texts.
    pub filters: Vec<(String, Filter)>,
    /// As it is followed.
    pub probe: Probe,
    /// Whether it is one of a set, whose fields nobody named.
    pub is_of_set: bool,
    /// As it was written, and fields besides, as they were.
    pub text: String,
    /// See above.
    pub more: Vec<String>,
    /// Fields of it that are not a user's to see.
    pub left_out: Vec<String>,
}

impl ResolvedEvent {
    /// What the kernel hands over, and whose types say so.
    fn types_and_signature(&self) -> (Arc<Btf>, Signature) {
        (Arc::clone(&self.btf), self.signature.clone())
    }

    /// Whether it is of a set, and the fields that were added.
    fn origin(&self) -> (bool, Vec<String>) {
        (self.is_of_set, self.more.clone())
    }

    /// All of its filters as one text; none if it has none.
    pub fn filter(&self) -> Option<String> {
        let all = self.filters.iter().map(|(text, _)| text.as_str());
        let own = self.event.filter.is_some().then_some(self.event.filter_text.as_str());
        let all: Vec<&str> = all.chain(own).collect();
        match all[..] {
            [] => None,
            [one] => Some(one.to_string()),
            _ => Some(format!("({})", all.join(") && ("))),
        }
    }
}

/// What can be followed.
#[derive(Default)]
pub struct Resolution {
    /// The events.
    pub events: Vec<ResolvedEvent>,
    /// Events of sets that this kernel does not have, and why not.
    pub left_out: Vec<(String, String)>,
}

/// Resolves event specs.
pub struct Resolver {
    types: Types,
    programs: Programs,
    filters: Vec<(String, Filter)>,
    sampling: Option<Sampling>,
    /// Whose threads alone may be followed, if it is for a user without rights.
    owner: Option<Owner>,
}

impl Resolver {
    /// For this kernel, with what holds for all events.
    pub fn new(settings: &TraceSettings) -> anyhow::Result<Resolver> {
        let mut filters = Vec::new();
        for text in &settings.filters {
            let filter = Filter::parse(text).map_err(in_filter)?;
            filters.push((text.clone(), filter));
        }
        let sampling = settings.sampling.as_deref().map(Sampling::parse).transpose();
        let sampling = sampling.map_err(|refusal| anyhow!("--sampling: {refusal}"))?;
        let programs = Programs::of(settings.pid);
        Ok(Resolver { types: Types::read()?, programs, filters, sampling, owner: None })
    }

    /// The same for a user without rights, for whom the agent attaches.
    pub fn of_user(settings: &TraceSettings, (uid, gid): (u32, u32)) -> anyhow::Result<Resolver> {
        let resolver = Resolver::new(settings)?;
        let owner = Owner::new(resolver.types.kernel(), uid, gid)
            .map_err(|refusal| anyhow!("{refusal}"))?;
        Ok(Resolver { owner: Some(owner), ..resolver })
    }

    /// The kernel's own types.
    pub fn kernel_types(&self) -> &Arc<Btf> {
        self.types.kernel()
    }

    /// Where a task has its name.
    pub fn task_name(&self) -> Option<i16> {
        self.types.kernel().task_name()
    }

    /// Checks one event, which is one of a set.
    pub fn check_one(&self, text: &str, is_of_set: bool) -> anyhow::Result<ResolvedEvent> {
        self.one(text, is_of_set).map_err(|refusal| anyhow!("{refusal}"))
    }

    fn one(&self, text: &str, is_of_set: bool) -> Result<ResolvedEvent, Refusal> {
        let mut event = Event::parse(text)?;
        // Before any file is opened, and any name is looked for: neither is with the user's own rights.
        if self.owner.is_some() {
            policy::may_follow(&event)?;
        }
        event.sampling = event.sampling.or(self.sampling);
        check_group(&event)?;
        let said = self.types.signature(&event, &|file| self.programs.open(file))?;
        self.resolve(event, said, self.filters.clone(), (is_of_set, Vec::new()))
    }

    /// Checks an event, or a set, with what is said for all.
    pub fn check(&self, text: &str) -> anyhow::Result<Resolution> {
        let set = Event::word(text).and_then(sets::named);
        let texts = match set {
            Some(set) => set.events.iter().map(|event| (*event).to_string()).collect(),
            None => patterns::expand(text, self.types.kernel())?,
        };
        let mut resolution = Resolution::default();
        for text in &texts {
            match self.one(text, set.is_some()) {
                Ok(resolved) => resolution.events.push(resolved),
                Err(refusal) if set.is_some() && is_lacking(&refusal) => {
                    resolution.left_out.push((text.to_string(), refusal.wrong.to_string()));
                }
                Err(refusal) => return Err(anyhow!("{refusal}")),
            }
        }
        Ok(resolution)
    }

    fn resolve(
        &self,
        event: Event,
        (btf, signature): (Arc<Btf>, Signature),
        filters: Vec<(String, Filter)>,
        (is_of_set, more): (bool, Vec<String>),
    ) -> Result<ResolvedEvent, Refusal> {
        counters::check(&event)?;
        let text = event.text.clone();
        let (event, probe, left_out) = match &self.owner {
            None => {
                let probe = Probe::of(&btf, &event, &signature, &filters)?;
                (event, probe, Vec::new())
            }
            Some(owner) => policy::confine(&btf, event, &signature, &filters, owner, is_of_set)?,
        };
        Ok(ResolvedEvent { event, signature, btf, filters, probe, is_of_set, text, more, left_out })
    }

    /// The same event with this filter alone, or none.
    pub fn with_filter(
        &self,
        resolved: &ResolvedEvent,
        text: Option<&str>,
    ) -> Result<ResolvedEvent, Refusal> {
        let filter = |text: &str| Ok((text.to_string(), Filter::parse(text)?));
        let filters = text.map(filter).transpose()?.into_iter().collect();
        let event = Event { filter: None, ..resolved.event.clone() };
        self.resolve(event, resolved.types_and_signature(), filters, resolved.origin())
    }

    /// The same event with this sampling, or none.
    pub fn with_sampling(
        &self,
        resolved: &ResolvedEvent,
        text: Option<&str>,
    ) -> Result<ResolvedEvent, Refusal> {
        let sampling = text.map(Sampling::parse).transpose()?;
        let event = Event { sampling, ..resolved.event.clone() };
        self.resolve(
            event,
            resolved.types_and_signature(),
            resolved.filters.clone(),
            resolved.origin(),
        )
    }
}

impl Resolver {
    /// The same event with these fields as well, which stand in another text.
    pub fn with_fields(
        &self,
        resolved: &ResolvedEvent,
        fields: Vec<Field>,
        text: &str,
    ) -> Result<ResolvedEvent, Refusal> {
        let mut event = resolved.event.clone();
        let (is_of_set, mut more) = resolved.origin();
        more.extend(fields.iter().map(|field| field.name.clone()));
        event.more.extend(fields);
        let (signature, filters) = (resolved.types_and_signature(), resolved.filters.clone());
        let with = self.resolve(event, signature, filters, (is_of_set, more));
        with.map_err(|refusal| match *refusal.wrong {
            Wrong::TooMuch(_) => refusal,
            // What was there before is right.
            _ => Refusal { text: text.to_string(), ..refusal },
        })
    }
}

/// Checks all that is wanted at first.
pub fn check(resolver: &Resolver, settings: &TraceSettings) -> anyhow::Result<Resolution> {
    let mut all = Resolution::default();
    for text in &settings.events {
        let Resolution { events, left_out } = resolver.check(text)?;
        all.events.extend(events);
        all.left_out.extend(left_out);
    }
    Ok(all)
}

fn in_filter(refusal: Refusal) -> anyhow::Error {
    anyhow!("--filter: {refusal}")
}

fn is_lacking(refusal: &Refusal) -> bool {
    matches!(
        *refusal.wrong,
        Wrong::NoTracepoint(_)
            | Wrong::NoFunction(_)
            | Wrong::NoMember { .. }
            | Wrong::NoArgument { .. }
            | Wrong::NotAUsers(_)
    )
}
