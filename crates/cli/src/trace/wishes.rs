//! What is wanted, checked against this kernel.
//!
//! Reads what events, filters and sampling are asked for, the kernel's types and its list of
//! tracepoints; emits probes. Refuses the first thing that is wrong; of a set, what this kernel lacks is
//! left out.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use weigh_collect::tracefs;
use weigh_trace::btf::Btf;
use weigh_trace::error::{Refusal, Wrong};
use weigh_trace::event::{Event, Field, Point};
use weigh_trace::filter::Filter;
use weigh_trace::near::nearest;
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
use crate::arguments::TraceArguments;

/// An event that can be followed.
#[derive(Clone)]
pub struct Wish {
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
    pub more: Vec<String>,
    /// Fields of it that are not a user's to see.
    pub left_out: Vec<String>,
}

impl Wish {
    /// What the kernel hands over, and whose types say so.
    fn said(&self) -> (Arc<Btf>, Signature) {
        (Arc::clone(&self.btf), self.signature.clone())
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
pub struct Wished {
    /// The events.
    pub wishes: Vec<Wish>,
    /// Events of sets that this kernel does not have, and why not.
    pub left_out: Vec<(String, String)>,
}

/// Who checks.
pub struct Checker {
    types: Types,
    programs: Programs,
    filters: Vec<(String, Filter)>,
    sampling: Option<Sampling>,
    /// Whose threads alone may be followed, if it is for a user without rights.
    owner: Option<Owner>,
}

impl Checker {
    /// One who knows this kernel, and what is said for all events.
    pub fn new(arguments: &TraceArguments) -> anyhow::Result<Checker> {
        let mut filters = Vec::new();
        for text in &arguments.filters {
            let filter = Filter::parse(text).map_err(in_filter)?;
            filters.push((text.clone(), filter));
        }
        let sampling = arguments.sampling.as_deref().map(Sampling::parse).transpose();
        let sampling = sampling.map_err(|refusal| anyhow!("--sampling: {refusal}"))?;
        let programs = Programs::of(arguments.pid);
        Ok(Checker { types: Types::read()?, programs, filters, sampling, owner: None })
    }

    /// The same for a user without rights, for whom the agent attaches.
    pub fn of_user(arguments: &TraceArguments, (uid, gid): (u32, u32)) -> anyhow::Result<Checker> {
        let checker = Checker::new(arguments)?;
        let owner =
            Owner::new(checker.types.kernel(), uid, gid).map_err(|refusal| anyhow!("{refusal}"))?;
        Ok(Checker { owner: Some(owner), ..checker })
    }

    /// Checks one event, which is one of a set.
    pub fn check_one(&self, text: &str, is_of_set: bool) -> anyhow::Result<Wish> {
        self.one(text, is_of_set).map_err(|refusal| anyhow!("{refusal}"))
    }

    fn one(&self, text: &str, is_of_set: bool) -> Result<Wish, Refusal> {
        let mut event = Event::parse(text)?;
        // Before any file is opened, and any name is looked for: neither is with the user's own rights.
        if self.owner.is_some() {
            policy::may_follow(&event)?;
        }
        event.sampling = event.sampling.or(self.sampling);
        check_group(&event)?;
        let said = self.types.signature(&event, &|file| self.programs.open(file))?;
        self.wish(event, said, self.filters.clone(), is_of_set)
    }

    /// Checks an event, or a set, with what is said for all.
    pub fn check(&self, text: &str) -> anyhow::Result<Wished> {
        let set = Event::word(text).and_then(sets::named);
        let texts = match set {
            Some(set) => set.events.iter().map(|event| (*event).to_string()).collect(),
            None => patterns::expand(text, self.types.kernel())?,
        };
        let mut wished = Wished::default();
        for text in &texts {
            match self.one(text, set.is_some()) {
                Ok(wish) => wished.wishes.push(wish),
                Err(refusal) if set.is_some() && is_lacking(&refusal) => {
                    wished.left_out.push((text.to_string(), refusal.wrong.to_string()));
                }
                Err(refusal) => return Err(anyhow!("{refusal}")),
            }
        }
        Ok(wished)
    }

    fn wish(
        &self,
        event: Event,
        (btf, signature): (Arc<Btf>, Signature),
        filters: Vec<(String, Filter)>,
        is_of_set: bool,
    ) -> Result<Wish, Refusal> {
        counters::check(&event)?;
        let text = event.text.clone();
        let more = event.more.iter().map(|field| field.name.clone()).collect();
        let (event, probe, left_out) = match &self.owner {
            None => {
                let probe = Probe::of(&btf, &event, &signature, &filters)?;
                (event, probe, Vec::new())
            }
            Some(owner) => policy::confine(&btf, event, &signature, &filters, owner, is_of_set)?,
        };
        Ok(Wish { event, signature, btf, filters, probe, is_of_set, text, more, left_out })
    }

    /// The same event with this filter alone, or none.
    pub fn with_filter(&self, wish: &Wish, text: Option<&str>) -> Result<Wish, Refusal> {
        let filter = |text: &str| Ok((text.to_string(), Filter::parse(text)?));
        let filters = text.map(filter).transpose()?.into_iter().collect();
        let event = Event { filter: None, ..wish.event.clone() };
        self.wish(event, wish.said(), filters, wish.is_of_set)
    }

    /// The same event with this sampling, or none.
    pub fn with_sampling(&self, wish: &Wish, text: Option<&str>) -> Result<Wish, Refusal> {
        let sampling = text.map(Sampling::parse).transpose()?;
        let event = Event { sampling, ..wish.event.clone() };
        self.wish(event, wish.said(), wish.filters.clone(), wish.is_of_set)
    }
}

impl Checker {
    /// The same event with these fields as well, which stand in another text.
    pub fn with_fields(
        &self,
        wish: &Wish,
        fields: Vec<Field>,
        text: &str,
    ) -> Result<Wish, Refusal> {
        let mut event = wish.event.clone();
        event.more.extend(fields);
        let (signature, filters) = (wish.said(), wish.filters.clone());
        let with = self.wish(event, signature, filters, wish.is_of_set);
        with.map_err(|refusal| match *refusal.wrong {
            Wrong::TooMuch(_) => refusal,
            // What was there before is right.
            _ => Refusal { text: text.to_string(), ..refusal },
        })
    }
}

/// Checks all that is wanted at first.
pub fn check(checker: &Checker, arguments: &TraceArguments) -> anyhow::Result<Wished> {
    let mut all = Wished::default();
    for text in &arguments.events {
        let Wished { wishes, left_out } = checker.check(text)?;
        all.wishes.extend(wishes);
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

/// The groups of tracepoints, if they can be read.
pub fn groups() -> Vec<(String, Vec<String>)> {
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let Some(root) = tracefs::events() else { return Vec::new() };
    names(root).into_iter().map(|group| (group.clone(), names(&root.join(group)))).collect()
}

/// Groups of the list that are not of tracepoints of the kernel's own making.
const OTHERS: [&str; 6] = ["syscalls", "ftrace", "kprobes", "uprobes", "eprobes", "synthetic"];

/// Whether the kernel lists a tracepoint of that name, in that group if one was said.
pub fn is_listed(group: Option<&str>, name: &str) -> bool {
    let is_it = |group: &str| {
        !OTHERS.contains(&group)
            && tracefs::events().is_some_and(|root| root.join(group).join(name).is_dir())
    };
    match group {
        Some(group) => is_it(group),
        None => groups().iter().any(|(group, _)| is_it(group)),
    }
}

/// Types have no groups: whether a tracepoint is in the one that was said, only the kernel's list knows.
fn check_group(event: &Event) -> Result<(), Refusal> {
    let Point::Tracepoint { group: Some(group), name } = &event.point else { return Ok(()) };
    if tracefs::events().is_some_and(|root| root.join(group).join(name).is_dir()) {
        return Ok(());
    }
    let groups = groups();
    let Some((other, _)) = groups.iter().find(|(_, names)| names.contains(name)) else {
        let Some((_, names)) = groups.iter().find(|(other, _)| other == group) else {
            return Ok(());
        };
        let refusal = event.span.refuse(&event.text, Wrong::NoTracepoint(name.clone()));
        let near = nearest(name, names.iter().map(String::as_str));
        let near: Vec<String> = near.iter().map(|name| format!("{group}:{name}")).collect();
        // Some have no group, and the types know them.
        return if near.is_empty() { Ok(()) } else { Err(refusal.near(near)) };
    };
    let (name, group, asked) = (name.clone(), other.clone(), group.clone());
    let near = vec![format!("{group}:{name}")];
    let wrong = Wrong::OtherGroup { name, group, asked };
    Err(event.span.refuse(&event.text, wrong).near(near))
}
