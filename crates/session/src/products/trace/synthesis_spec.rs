//! What is wanted of several events together, checked against those that are followed.
//!
//! Reads the options; adds events that only they name, and fields that they need and the events have not.
//! Refuses what is wrong before anything is attached.

use anyhow::{anyhow, bail};
use weigh_trace::error::Refusal;
use weigh_trace::event::Field;
use weigh_trace::probe::ID;
use weigh_trace::synthesis::ask::{Ask, AskKind};
use weigh_trace::synthesis::key::Part;

use super::default_pairs;
use super::resolve::{ResolvedEvent, Resolver};
use super::settings::SynthesisSettings;

type Read = fn(&str) -> Result<Ask, Refusal>;

/// What is asked for, and by which option.
#[derive(Clone)]
pub struct SynthesisSpec {
    /// As it was read.
    pub ask: Ask,
    option: &'static str,
}

impl SynthesisSpec {
    /// A pair that nobody has asked for.
    fn default_pair(ask: Ask) -> SynthesisSpec {
        SynthesisSpec { ask, option: "--latency" }
    }

    /// A refusal of it, with the option.
    pub fn refused(&self, refusal: &Refusal) -> anyhow::Error {
        anyhow!("{}: {refusal}", self.option)
    }
}

/// Reads what is asked for.
pub fn read(settings: &SynthesisSettings) -> anyhow::Result<Vec<SynthesisSpec>> {
    let SynthesisSettings {
        latency, sequence, rate, top, histogram, live, json, has_readers, ..
    } = settings;
    let options: [(&'static str, &Vec<String>, Read); 5] = [
        ("--latency", latency, Ask::latency),
        ("--sequence", sequence, Ask::sequence),
        ("--rate", rate, Ask::rate),
        ("--top", top, Ask::top),
        ("--histogram", histogram, Ask::histogram),
    ];
    let mut all = Vec::new();
    for (option, texts, read) in options {
        for text in texts {
            let ask = read(text).map_err(|refusal| anyhow!("{option}: {refusal}"))?;
            all.push(SynthesisSpec { ask, option });
        }
    }
    if all.is_empty() && (*live || json.is_some() || *has_readers) {
        bail!(
            "--live, --json, --metrics and --publish tell what several events say together; expected --latency, --sequence, --rate, \
             --top or --histogram as well"
        );
    }
    Ok(all)
}

/// What is drawn shows pairs, also where none are asked for.
pub fn add_default_pairs(specs: &mut Vec<SynthesisSpec>, names: &[&str]) {
    let has_pairs = specs
        .iter()
        .any(|spec| matches!(spec.ask.kind, AskKind::Latency(_) | AskKind::Sequence { .. }));
    if !has_pairs {
        specs.extend(default_pairs::pairs(names).into_iter().map(SynthesisSpec::default_pair));
    }
}

/// Follows what it needs as well.
pub fn complete(
    resolver: &Resolver,
    specs: &[SynthesisSpec],
    events: &mut Vec<ResolvedEvent>,
) -> anyhow::Result<()> {
    for SynthesisSpec { ask, option } in specs {
        for which in ask.events() {
            let names: Vec<&str> =
                events.iter().map(|resolved| resolved.probe.name.as_str()).collect();
            if let Ok(name) = &which.name
                && which.find(&names).is_empty()
            {
                // Of these no more than what is needed.
                let checked = resolver.check(&format!("{name}{{}}"));
                events.extend(checked.map_err(|error| error.context(*option))?.events);
            }
        }
    }
    for spec in specs {
        let refused = |refusal| spec.refused(&refusal);
        let names: Vec<String> =
            events.iter().map(|resolved| resolved.probe.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (event, fields) in spec.ask.needs(&names).map_err(refused)? {
            give(resolver, spec, &fields, &mut events[event])?;
        }
    }
    Ok(())
}

/// Gives an event that is added while it runs what those need of it that will look at it.
pub fn complete_added(
    resolver: &Resolver,
    specs: &[SynthesisSpec],
    resolved: &mut ResolvedEvent,
) -> anyhow::Result<()> {
    let name = resolved.event.name();
    let mut takers = specs.iter().filter(|spec| spec.ask.takes_in(&name));
    takers.try_for_each(|spec| give(resolver, spec, &spec.ask.fields_of_table(), resolved))
}

/// Gives an event the fields that it lacks.
fn give(
    resolver: &Resolver,
    spec: &SynthesisSpec,
    fields: &[&Field],
    resolved: &mut ResolvedEvent,
) -> anyhow::Result<()> {
    let text = &spec.ask.text;
    let is_lacking = |field: &&&Field| Part::find(&field.name, &resolved.probe).is_none();
    let lacking: Vec<Field> = fields.iter().filter(is_lacking).copied().cloned().collect();
    if !lacking.is_empty() {
        let with = resolver.with_fields(resolved, lacking, text);
        *resolved = with.map_err(|refusal| spec.refused(&refusal))?;
    }
    // An argument of that name is meant rather than the event's first one.
    if let Some(id) = fields.iter().find(|field| field.name == ID)
        && !resolved.probe.has_own_id
        && let Ok(with) = resolver.with_fields(resolved, vec![(*id).clone()], text)
    {
        *resolved = with;
    }
    Ok(())
}
