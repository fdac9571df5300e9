//! Changes of a stream while a condition holds (`--when`), checked against the events that are followed.
//!
//! Refuses, before anything is attached, events that are not followed, and changes that would take each other's place.

use anyhow::{Context as _, anyhow, bail};
use weigh_trace::adaptation::{Adaptation, Adjustment};
use weigh_trace::error::Refusal;
use weigh_trace::synthesis::ask::Which;

use super::resolve::{ResolvedEvent, Resolver};

/// What is in force while a condition holds, by the numbers of the events.
#[derive(Clone, Debug)]
pub enum PlannedChange {
    /// These have another sampling.
    Sample {
        /// Which.
        ids: Vec<usize>,
        /// The rule.
        rule: String,
    },
    /// These have another filter besides.
    Filter {
        /// Which.
        ids: Vec<usize>,
        /// The filter.
        filter: String,
    },
    /// These are followed.
    Add {
        /// As it was written.
        event: String,
        /// Loaded at the start; none: it is asked for when it is time.
        ids: Vec<usize>,
    },
}

/// A condition and its change, checked.
#[derive(Clone, Debug)]
pub struct PlannedAdaptation {
    /// As it was read.
    pub adaptation: Adaptation,
    /// The events that it counts.
    pub watched: Vec<usize>,
    /// What it changes.
    pub change: PlannedChange,
}

impl PlannedAdaptation {
    /// Whether an event is followed only while its condition holds.
    pub fn adds(&self, id: usize) -> bool {
        matches!(&self.change, PlannedChange::Add { ids, .. } if ids.contains(&id))
    }
}

/// Reads what is behind each `--when`.
pub fn read(texts: &[String]) -> anyhow::Result<Vec<Adaptation>> {
    let read = |text: &String| Adaptation::parse(text).map_err(|refusal| refused(&refusal));
    texts.iter().map(read).collect()
}

fn refused(refusal: &Refusal) -> anyhow::Error {
    anyhow!("--when: {refusal}")
}

/// Checks them against the events that are followed. Events that are added later stand behind these from now on, where
/// this weigh loads programs itself.
pub fn plan(
    adaptations: Vec<Adaptation>,
    resolver: &Resolver,
    events: &mut Vec<ResolvedEvent>,
    is_local: bool,
) -> anyhow::Result<Vec<PlannedAdaptation>> {
    let names: Vec<String> = events.iter().map(|event| event.probe.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut planned: Vec<PlannedAdaptation> = Vec::new();
    for adaptation in adaptations {
        let mut watched = numbers(&adaptation.condition.of, &names, &adaptation.text)?;
        if watched.is_empty() {
            watched = (0..names.len()).collect();
        }
        let change = change_of(&adaptation, &watched, resolver, (&mut *events, &names), is_local)?;
        check_alone(&change, &planned, &names)?;
        planned.push(PlannedAdaptation { adaptation, watched, change });
    }
    Ok(planned)
}

fn numbers(of: &[Which], names: &[&str], text: &str) -> anyhow::Result<Vec<usize>> {
    let mut all = Vec::new();
    for which in of {
        all.extend(which.need(names, text).map_err(|refusal| refused(&refusal))?);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn change_of(
    adaptation: &Adaptation,
    watched: &[usize],
    resolver: &Resolver,
    (events, names): (&mut Vec<ResolvedEvent>, &[&str]),
    is_local: bool,
) -> anyhow::Result<PlannedChange> {
    match &adaptation.adjustment {
        Adjustment::Sample { rule, of } => {
            let ids = match of.is_empty() {
                true => watched.to_vec(),
                false => numbers(of, names, &adaptation.text)?,
            };
            Ok(PlannedChange::Sample { ids, rule: rule.to_string() })
        }
        Adjustment::Filter { of, filter } => {
            let ids = numbers(of, names, &adaptation.text)?;
            if let Some(id) = ids.iter().find(|id| watched.contains(id)) {
                bail!(
                    "--when: the filter would change the rate of {} that its own condition counts; follow the event twice \
                     (-e {0} -e {0}) and name the two by their numbers, as 'rate of 0 > …: filter of 1 if …'",
                    names[*id]
                );
            }
            for id in &ids {
                let with =
                    resolver.with_filter(&events[*id], Some(&with_filter(&events[*id], filter)));
                with.map_err(|refusal| refused(&refusal))?;
            }
            Ok(PlannedChange::Filter { ids, filter: filter.clone() })
        }
        Adjustment::Add { event } => {
            let resolution = resolver.check(event).context("--when")?;
            let first = events.len();
            if is_local {
                events.extend(resolution.events);
            }
            Ok(PlannedChange::Add { event: event.clone(), ids: (first..events.len()).collect() })
        }
    }
}

/// What an event's filter is with another one besides.
pub fn with_filter(resolved: &ResolvedEvent, filter: &str) -> String {
    match resolved.filter() {
        None => filter.to_string(),
        Some(old) => format!("({old}) && ({filter})"),
    }
}

/// Two that change the same event would each put back what the other one had put there.
fn check_alone(
    change: &PlannedChange,
    others: &[PlannedAdaptation],
    names: &[&str],
) -> anyhow::Result<()> {
    let ids_of = |change: &PlannedChange| match change {
        PlannedChange::Sample { ids, .. } | PlannedChange::Filter { ids, .. } => ids.clone(),
        PlannedChange::Add { .. } => Vec::new(),
    };
    let taken: Vec<usize> = others.iter().flat_map(|other| ids_of(&other.change)).collect();
    match ids_of(change).into_iter().find(|id| taken.contains(id)) {
        None => Ok(()),
        Some(id) => bail!(
            "--when: two conditions change {}; expected one for each event (`add` takes any number)",
            names[id]
        ),
    }
}
