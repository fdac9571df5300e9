//! Probes of functions that come and go with those who want their parts, as the tracepoints of other parts do.
//!
//! Each part is attached once for a moment before anybody is served, so that it is known then which of its functions
//! this kernel allows, and how long that takes. Emits what came of it, and links for as long as a part is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapHandle};
use weigh_schema::call::ProbeCost;

use super::attach::{ProbeMethod, Programs, States};
use super::{Functions, let_go};
use crate::calls::layout::skeleton;
use crate::calls::link::Link;
use crate::calls::request::Attached;
use crate::job::{JobError, bpf};

/// The functions of all parts, and those of them that are attached.
pub(in crate::calls) struct OnRequest {
    functions: Functions,
    way: ProbeMethod,
    programs: Programs,
    /// What the rules of parts have noted.
    notes: [MapHandle; 2],
    links: BTreeMap<u32, Vec<Link>>,
    /// Parts that have gone while what they had noted has not.
    unforgotten: BTreeSet<u32>,
    /// How many each part had when it was tried.
    tried: BTreeMap<u32, usize>,
    /// How long it takes to attach the part that takes longest.
    takes: Duration,
    /// What a probe costs, if it could be tried out.
    cost: Option<ProbeCost>,
}

impl OnRequest {
    /// Tries each part; what there is of each. What cannot be probed anywhere cannot be attached later either.
    pub(in crate::calls) fn try_out(
        functions: &Functions,
        skeleton: &mut skeleton::CallsSkel<'static>,
    ) -> Result<(Vec<Attached>, Option<OnRequest>), JobError> {
        let (way, cost) = match functions.try_out(skeleton) {
            Ok(tried) => (tried.way(), tried.cost()),
            Err(reason) => return Ok((functions.without(&reason), None)),
        };
        functions.put_recipes(skeleton)?;
        let programs = Programs::of(skeleton);
        let mut states = States::of(functions);
        let (mut takes, mut tried) = (Duration::ZERO, BTreeMap::new());
        for (_, part) in &functions.wanted {
            let (began, mut links) = (Instant::now(), Vec::new());
            functions.attach_parts(1 << part, &programs, way, &mut states, &mut links);
            takes = takes.max(began.elapsed());
            tried.insert(*part, links.len());
            let_go(&mut links);
        }
        let functions = functions.clone();
        let handle = |map| MapHandle::try_from(map).map_err(bpf("what parts note"));
        let maps = &skeleton.maps;
        let notes = [handle(&maps.remembered)?, handle(&maps.runs_for)?];
        let (links, unforgotten) = (BTreeMap::new(), BTreeSet::new());
        let request =
            OnRequest { functions, way, programs, notes, links, unforgotten, tried, takes, cost };
        Ok((states.told(), Some(request)))
    }

    /// How long it takes to attach the part that takes longest.
    pub(in crate::calls) fn takes(&self) -> Duration {
        self.takes
    }

    /// What a probe costs, if it could be tried out.
    pub(in crate::calls) fn cost(&self) -> Option<ProbeCost> {
        self.cost
    }

    /// Attaches these parts, and lets go of the others. What is remembered of a part goes with it: when it
    /// comes back, others have the same values. Which of them are not attached after all, though they could be
    /// when they were tried: for want of descriptors, above all.
    pub(in crate::calls) fn attach_only(&mut self, parts: u64) -> u64 {
        let mut lacking = 0;
        let wanted: Vec<u32> = self.functions.wanted.iter().map(|(_, part)| *part).collect();
        for part in wanted {
            match (parts >> part & 1 == 1, self.links.remove(&part)) {
                (true, Some(links)) => drop(self.links.insert(part, links)),
                (true, None) => match self.attach(part) {
                    Some(links) => drop(self.links.insert(part, links)),
                    None => lacking |= 1 << part,
                },
                (false, Some(mut links)) => {
                    let_go(&mut links);
                    self.forget(part);
                }
                (false, None) => {}
            }
        }
        lacking
    }

    fn attach(&mut self, part: u32) -> Option<Vec<Link>> {
        if self.unforgotten.contains(&part) && !self.forget(part) {
            return None;
        }
        // What it lacks was said when it was tried.
        let (mut states, mut links) = (States::of(&self.functions), Vec::new());
        self.functions.attach_parts(1 << part, &self.programs, self.way, &mut states, &mut links);
        if Some(&links.len()) == self.tried.get(&part) {
            return Some(links);
        }
        let_go(&mut links);
        None
    }

    /// Whether nothing of a part is remembered any more.
    fn forget(&mut self, part: u32) -> bool {
        let is_forgotten = self.notes.iter().all(|notes| forget(notes, part).is_ok());
        match is_forgotten {
            true => self.unforgotten.remove(&part),
            false => self.unforgotten.insert(part),
        };
        is_forgotten
    }
}

/// Removes what a rule has noted: its keys begin with the part's number (`struct left_key`).
fn forget(map: &MapHandle, part: u32) -> Result<(), JobError> {
    let rule = u64::from(part).to_ne_bytes();
    let keys: Vec<Vec<u8>> = map.keys().filter(|key| key.starts_with(&rule)).collect();
    for key in keys {
        match map.delete(&key) {
            // A probe's program may have been at it still.
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => {}
            other => other.map_err(bpf("forgetting a part"))?,
        }
    }
    Ok(())
}
