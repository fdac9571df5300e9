//! Changes that wait for their time (`--when`): the kernel has checked the programs, which are put in place by a store
//! into a map, and taken away again.
//!
//! A probe that was changed otherwise meanwhile (`weigh trace ctl`) has its programs made anew.

use anyhow::Context as _;
use weigh_collect::trace::SparePrograms;
use weigh_trace::generate::Slot;
use weigh_trace::probe::Probe;

use super::super::adaptation_plan::{PlannedAdaptation, PlannedChange, with_filter};
use super::super::resolve::ResolvedEvent;
use super::state::{LocalStream, Prepared, Standby, TracedProbe, Variant};

impl LocalStream {
    /// Has the kernel check all that may be put in place later.
    pub(super) fn prepare_standbys(&mut self, planned: &[PlannedAdaptation]) -> anyhow::Result<()> {
        for planned in planned {
            let variants = self.variants_of(&planned.change).context("--when")?;
            self.standbys.push(Standby { variants });
            if matches!(planned.change, PlannedChange::Add { .. }) {
                self.note_adaptation(planned);
            }
        }
        Ok(())
    }

    fn variants_of(&mut self, change: &PlannedChange) -> anyhow::Result<Vec<Variant>> {
        match change {
            PlannedChange::Add { .. } => Ok(Vec::new()),
            PlannedChange::Sample { ids, rule } => {
                ids.iter().map(|id| self.sampled_variant(*id, rule)).collect()
            }
            PlannedChange::Filter { ids, filter } => {
                ids.iter().map(|id| self.filtered_variant(*id, filter)).collect()
            }
        }
    }

    /// It counts by the gate that the usual program does not use.
    fn sampled_variant(&mut self, number: usize, rule: &str) -> anyhow::Result<Variant> {
        let TracedProbe { resolved, slot, .. } = &self.traced[number];
        let adapted = self.resolver.with_sampling(resolved, Some(rule))?;
        let slot = Slot { gate: 1 - slot.gate, ..*slot };
        self.variant(number, adapted, slot)
    }

    /// Its constants lie in the bank that the usual program does not use.
    fn filtered_variant(&mut self, number: usize, filter: &str) -> anyhow::Result<Variant> {
        let TracedProbe { resolved, slot, holding, .. } = &self.traced[number];
        let (holding, slot) = (*holding, Slot { flip: 1 - slot.flip, ..*slot });
        let both = with_filter(resolved, filter);
        let adapted = self.resolver.with_filter(resolved, Some(&both))?;
        self.put_constants(&adapted.probe, number, holding ^ slot.flip);
        self.variant(number, adapted, slot)
    }

    fn variant(
        &mut self,
        number: usize,
        adapted: ResolvedEvent,
        slot: Slot,
    ) -> anyhow::Result<Variant> {
        let TracedProbe { resolved, slot: usual_slot, generation, .. } = &self.traced[number];
        let (usual, usual_slot, generation) = (resolved.clone(), *usual_slot, *generation);
        let usual = self.prepared(usual, usual_slot)?;
        let adapted = self.prepared(adapted, slot)?;
        Ok(Variant { number, generation, usual, adapted })
    }

    fn prepared(&mut self, resolved: ResolvedEvent, slot: Slot) -> anyhow::Result<Prepared> {
        let programs = self.spare_programs(&resolved.probe, slot)?;
        Ok(Prepared { resolved, slot, programs })
    }

    fn spare_programs(&mut self, probe: &Probe, slot: Slot) -> anyhow::Result<SparePrograms> {
        let mut spare = None;
        self.check(probe, slot, |kernel, codes| {
            spare = Some(kernel.spare(slot.number as usize, &codes)?);
            Ok(())
        })?;
        spare.context("the probe has no programs")
    }

    /// Puts the change of a condition in force, or takes it back.
    pub(super) fn switch_standby(
        &mut self,
        place: usize,
        planned: &PlannedAdaptation,
        is_on: bool,
    ) -> anyhow::Result<()> {
        match &planned.change {
            PlannedChange::Add { ids, .. } => {
                ids.iter().try_for_each(|id| self.switch_event(*id, is_on))?;
            }
            change => {
                let variants = self.standbys.get(place).map_or(0, |standby| standby.variants.len());
                (0..variants).try_for_each(|at| self.switch_variant((place, at), change, is_on))?;
            }
        }
        if is_on {
            self.note_adaptation(planned);
        }
        Ok(())
    }

    /// An event is followed, or is not for now.
    pub(super) fn switch_event(&mut self, id: usize, is_on: bool) -> anyhow::Result<()> {
        self.living(id)?;
        match is_on {
            true => self.kernel.attach(id)?,
            false => self.kernel.detach(id),
        }
        self.traced[id].is_paused = !is_on;
        Ok(())
    }

    fn switch_variant(
        &mut self,
        (place, at): (usize, usize),
        change: &PlannedChange,
        is_on: bool,
    ) -> anyhow::Result<()> {
        let variant = &self.standbys[place].variants[at];
        let number = variant.number;
        self.living(number)?;
        if variant.generation != self.traced[number].generation {
            let usual = variant.usual.resolved.clone();
            return self.switch_anew(number, change, &usual, is_on);
        }
        let next = if is_on { &variant.adapted } else { &variant.usual };
        let traced = &mut self.traced[number];
        if next.slot.gate != traced.slot.gate {
            self.kernel.set_word(self.state.gate(number, next.slot.gate), 0);
        }
        self.kernel.put_spare(number, &next.programs)?;
        traced.slot = next.slot;
        traced.resolved = next.resolved.clone();
        Ok(())
    }

    /// Of a probe that was changed meanwhile: from what it is now.
    fn switch_anew(
        &mut self,
        number: usize,
        change: &PlannedChange,
        usual: &ResolvedEvent,
        is_on: bool,
    ) -> anyhow::Result<()> {
        let changed = match change {
            PlannedChange::Sample { rule, .. } => {
                let before = usual.probe.sampling.map(|rule| rule.to_string());
                self.sample(number, if is_on { Some(rule) } else { before.as_deref() })
            }
            PlannedChange::Filter { filter, .. } => {
                let both = with_filter(&self.traced[number].resolved, filter);
                let before = usual.filter();
                self.filter(number, if is_on { Some(&both) } else { before.as_deref() })
            }
            PlannedChange::Add { .. } => return Ok(()),
        };
        changed.map(drop)
    }

    /// What was not taken all the time, or was taken by a rule for a while, says so to the end.
    fn note_adaptation(&mut self, planned: &PlannedAdaptation) {
        let while_so = format!("while {}", planned.adaptation.condition_text);
        let (ids, note) = match &planned.change {
            PlannedChange::Sample { ids, rule } => (ids, format!("{rule} {while_so}")),
            PlannedChange::Filter { ids, filter } => (ids, format!("if {filter} {while_so}")),
            PlannedChange::Add { ids, .. } => (ids, format!("only {while_so}")),
        };
        for id in ids {
            let notes = &mut self.traced[*id].adaptations;
            if !notes.contains(&note) {
                notes.push(note.clone());
            }
        }
    }
}
