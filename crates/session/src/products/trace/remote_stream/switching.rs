//! Changes of a user's stream while a condition holds (`--when`): the agent is asked for them when it is time, as for those
//! of `weigh trace ctl`.

use anyhow::bail;

use super::super::adaptation_plan::{PlannedAdaptation, PlannedChange};
use super::super::control::{Answer, Ask, ControlTarget as _, ProbeEntry};
use super::state::{RemoteStream, Switched};

impl RemoteStream {
    /// Puts the change of a condition in force, or takes it back.
    pub(super) fn switch(
        &mut self,
        place: usize,
        planned: &PlannedAdaptation,
        is_on: bool,
    ) -> anyhow::Result<()> {
        self.switched.resize_with(self.switched.len().max(place + 1), Vec::new);
        if is_on {
            let before = std::mem::take(&mut self.switched[place]);
            self.switched[place] = self.switch_on(&planned.change, before)?;
            self.note(place, planned);
            return Ok(());
        }
        for switched in std::mem::take(&mut self.switched[place]) {
            let ask = match switched {
                Switched::Sampling(id, rule) => Ask::Sample { id, rule },
                Switched::Filter(id, filter) => Ask::Filter { id, filter },
                Switched::Event(id) => {
                    self.switched[place].push(Switched::Event(id));
                    Ask::Follow { id, is_on: false }
                }
            };
            self.change(ask)?;
        }
        Ok(())
    }

    /// What was added before is followed again.
    fn switch_on(
        &mut self,
        change: &PlannedChange,
        before: Vec<Switched>,
    ) -> anyhow::Result<Vec<Switched>> {
        let mut switched = before;
        match change {
            PlannedChange::Add { .. } if !switched.is_empty() => {
                for known in &switched {
                    if let Switched::Event(id) = *known {
                        self.change(Ask::Follow { id, is_on: true })?;
                    }
                }
            }
            PlannedChange::Add { event, .. } => {
                let added = self.change(Ask::Add { event: event.clone() })?;
                switched.extend(added.into_iter().map(Switched::Event));
            }
            PlannedChange::Sample { ids, rule } => {
                for ProbeEntry { id, sampling, .. } in self.entries(ids)? {
                    self.change(Ask::Sample { id, rule: Some(rule.clone()) })?;
                    switched.push(Switched::Sampling(id, sampling));
                }
            }
            PlannedChange::Filter { ids, filter } => {
                for ProbeEntry { id, filter: old, .. } in self.entries(ids)? {
                    let both = match &old {
                        None => filter.clone(),
                        Some(old) => format!("({old}) && ({filter})"),
                    };
                    self.change(Ask::Filter { id, filter: Some(both) })?;
                    switched.push(Switched::Filter(id, old));
                }
            }
        }
        Ok(switched)
    }

    /// What was not taken all the time says so to the end.
    fn note(&mut self, place: usize, planned: &PlannedAdaptation) {
        let condition = &planned.adaptation.condition_text;
        let what = match &planned.change {
            PlannedChange::Add { .. } => "only".to_string(),
            PlannedChange::Sample { rule, .. } => rule.clone(),
            PlannedChange::Filter { filter, .. } => format!("if {filter}"),
        };
        for switched in &self.switched[place] {
            let (Switched::Sampling(id, _) | Switched::Filter(id, _) | Switched::Event(id)) =
                switched;
            let name = self.probes.get(*id as u32).map_or("", |probe| probe.name.as_str());
            self.sampled.resize(self.sampled.len().max(*id + 1), None);
            self.sampled[*id] = Some(format!("{name} {what} while {condition}"));
        }
    }

    /// What the agent has of these events.
    fn entries(&self, ids: &[usize]) -> anyhow::Result<Vec<ProbeEntry>> {
        match self.ask(Ask::List)? {
            Answer::Register(register) => {
                let entries = register.probes.into_iter();
                Ok(entries.filter(|entry| ids.contains(&entry.id) && !entry.is_removed).collect())
            }
            _ => bail!("the agent answers what was not asked"),
        }
    }

    fn change(&mut self, ask: Ask) -> anyhow::Result<Vec<usize>> {
        match self.answer(ask) {
            Answer::Done(done) => Ok(done.ids),
            Answer::Refused(why) => bail!("{why}"),
            _ => bail!("the agent answers what was not asked"),
        }
    }
}
