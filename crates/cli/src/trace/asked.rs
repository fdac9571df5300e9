//! What is wanted of several events together, checked against those that are followed.
//!
//! Reads the options; adds events that only they name, and fields that they need and the events have not.
//! Refuses what is wrong before anything is attached.

use std::path::Path;

use anyhow::{anyhow, bail};
use weigh_trace::error::Refusal;
use weigh_trace::event::Field;
use weigh_trace::probe::ID;
use weigh_trace::synthesis::ask::{Ask, Kind};
use weigh_trace::synthesis::key::Part;

use super::sinks::is_page;
use super::usual;
use super::wishes::{Checker, Wish};
use crate::arguments::{SynthesisArguments, TraceArguments};

type Read = fn(&str) -> Result<Ask, Refusal>;

/// What is asked for, and by which option.
#[derive(Clone)]
pub struct Asked {
    /// As it was read.
    pub ask: Ask,
    option: &'static str,
}

impl Asked {
    /// One that nobody has asked for.
    pub fn usual(ask: Ask) -> Asked {
        Asked { ask, option: "--latency" }
    }

    /// A refusal of it, with the option.
    pub fn refused(&self, refusal: &Refusal) -> anyhow::Error {
        anyhow!("{}: {refusal}", self.option)
    }
}

/// Reads what is asked for.
pub fn read(arguments: &TraceArguments) -> anyhow::Result<Vec<Asked>> {
    let SynthesisArguments { latency, sequence, rate, top, histogram, live, json, .. } =
        &arguments.synthesis;
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
            all.push(Asked { ask, option });
        }
    }
    if all.is_empty() && (*live || json.is_some()) {
        bail!(
            "--live and --json tell what several events say together; expected --latency, --sequence, --rate, \
             --top or --histogram as well"
        );
    }
    Ok(all)
}

/// A page shows pairs, also where none are asked for.
pub fn of_page(asked: &mut Vec<Asked>, output: Option<&Path>, names: &[&str]) {
    let has_pairs = asked
        .iter()
        .any(|asked| matches!(asked.ask.kind, Kind::Latency(_) | Kind::Sequence { .. }));
    if output.is_some_and(is_page) && !has_pairs {
        asked.extend(usual::pairs(names));
    }
}

/// Follows what it needs as well.
pub fn complete(checker: &Checker, asked: &[Asked], wishes: &mut Vec<Wish>) -> anyhow::Result<()> {
    for Asked { ask, option } in asked {
        for which in ask.events() {
            let names: Vec<&str> = wishes.iter().map(|wish| wish.probe.name.as_str()).collect();
            if let Ok(name) = &which.name
                && which.find(&names).is_empty()
            {
                // Of these no more than what is needed.
                let checked = checker.check(&format!("{name}{{}}"));
                wishes.extend(checked.map_err(|error| error.context(*option))?.wishes);
            }
        }
    }
    for asked in asked {
        let refused = |refusal| asked.refused(&refusal);
        let names: Vec<String> = wishes.iter().map(|wish| wish.probe.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (event, fields) in asked.ask.needs(&names).map_err(refused)? {
            give(checker, asked, &fields, &mut wishes[event])?;
        }
    }
    Ok(())
}

/// Gives an event that is added while it runs what those need of it that will look at it.
pub fn complete_added(checker: &Checker, asked: &[Asked], wish: &mut Wish) -> anyhow::Result<()> {
    let name = wish.event.name();
    let mut takers = asked.iter().filter(|asked| asked.ask.takes_in(&name));
    takers.try_for_each(|asked| give(checker, asked, &asked.ask.fields_of_table(), wish))
}

/// Gives an event the fields that it lacks.
fn give(
    checker: &Checker,
    asked: &Asked,
    fields: &[&Field],
    wish: &mut Wish,
) -> anyhow::Result<()> {
    let text = &asked.ask.text;
    let is_lacking = |field: &&&Field| Part::find(&field.name, &wish.probe).is_none();
    let lacking: Vec<Field> = fields.iter().filter(is_lacking).copied().cloned().collect();
    if !lacking.is_empty() {
        let with = checker.with_fields(wish, lacking, text);
        *wish = with.map_err(|refusal| asked.refused(&refusal))?;
    }
    // An argument of that name is meant rather than the event's first one.
    if let Some(id) = fields.iter().find(|field| field.name == ID)
        && !wish.probe.has_own_id
        && let Ok(with) = checker.with_fields(wish, vec![(*id).clone()], text)
    {
        *wish = with;
    }
    Ok(())
}
