//! Function probes of `weigh calls`: what a configuration asks for, looked up in this kernel, and
//! attached.
//!
//! Reads the configuration, `/proc/kallsyms` and the kernel's type information; emits recipes for
//! `bpf/calls/own.h` and the functions that they are for. Refuses functions, arguments and fields
//! that this kernel does not have, with the nearest that it has.

mod captures;
mod known;
mod recipe;
mod symbols;

use std::path::Path;

use libbpf_rs::{KprobeOpts, Link, MapCore as _, MapFlags};
use weigh_schema::configuration::{At, Configuration, ConfigurationError, OwnSubsystem};
use weigh_schema::own::{OWN_PARTS, Own, OwnPart};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use super::layout::skeleton;
use super::{Attached, bpf};
use crate::job::JobError;
use captures::Found;
use captures::Types;
use symbols::Symbols;

/// A function that every kernel has, to try whether functions can be probed.
const PROBED: &str = "security_file_open";

/// The kernel's own word on whether it has probes of functions.
const KIND: &str = "/sys/bus/event_source/devices/kprobe/type";

/// No recipe has this number: a probe with it does nothing.
const NO_RECIPE: u64 = u32::MAX as u64;

/// What is to be done at a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) bounds: bool,
    pub(super) starts: bool,
    pub(super) ends: bool,
    /// The part's number, the built-in ones counted.
    pub(super) part: u32,
    pub(super) rule: u32,
    pub(super) keeps: bool,
    pub(super) count_slot: u32,
    pub(super) time_slot: u32,
    pub(super) matched: Found,
    pub(super) sums: Vec<(u32, Found)>,
}

/// A function, and what is to be done there.
#[derive(Clone, Debug)]
struct Probe {
    function: String,
    recipe: Recipe,
    /// Where it was asked for; nowhere if weigh has chosen it.
    at: Option<At>,
}

/// The functions that are to be probed.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    own: Option<Own>,
    /// The names of the own parts that are wanted, with their numbers.
    wanted: Vec<(String, u32)>,
    probes: Vec<Probe>,
    /// What this kernel has not, by the part's number.
    lacking: Vec<(u32, String)>,
}

impl Functions {
    /// Adds the borders that weigh knows by itself, of parts that are wanted. A part that the
    /// configuration has defined stays as it is.
    pub fn add_known(&mut self, is_wanted: &dyn Fn(&str) -> bool) {
        let symbols = Symbols::of_this_kernel();
        for (name, functions) in known::BORDERS.iter().filter(|(name, _)| is_wanted(name)) {
            let Some(part) = self.place_of(name) else { continue };
            self.wanted.push(((*name).to_string(), part));
            for function in *functions {
                if !symbols.have(function) {
                    let why = format!("this kernel has no function {function} of its own");
                    self.lacking.push((part, why));
                    continue;
                }
                let recipe = Recipe { bounds: true, part, ..Recipe::default() };
                self.probes.push(Probe { function: (*function).to_string(), recipe, at: None });
            }
        }
    }

    /// The number of a part that is built in, or that there is still room for.
    fn place_of(&mut self, name: &str) -> Option<u32> {
        if let Some(known) = Subsystem::named(name) {
            return Some(known.index() as u32);
        }
        let own = self.own.as_deref().unwrap_or_default();
        if own.len() == OWN_PARTS || own.iter().any(|part| part.name == name) {
            return None;
        }
        let part = OwnPart { name: name.to_string(), sums: Vec::new(), later: Vec::new() };
        let number = SUBSYSTEMS.len() + own.len();
        self.own = Some(own.iter().cloned().chain([part]).collect::<Vec<_>>().into());
        Some(number as u32)
    }

    /// Looks up what the parts of a configuration need that are wanted.
    pub fn find(
        configuration: &Configuration,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Functions, ConfigurationError> {
        let own = configuration.own();
        let mut found = Functions { own: Some(own), ..Functions::default() };
        // All of the kernel's names are some twentieths of a second to read.
        if configuration.subsystems.is_empty() {
            return Ok(found);
        }
        let kernel = Kernel { symbols: Symbols::of_this_kernel(), types: Types::of_this_kernel() };
        for (place, subsystem) in configuration.subsystems.iter().enumerate() {
            let part = (SUBSYSTEMS.len() + place) as u32;
            // What is not wanted is looked up too: a mistake is one whoever asks.
            let probes = kernel.probes(subsystem, part)?;
            if is_wanted(&subsystem.name) {
                found.wanted.push((subsystem.name.clone(), part));
                found.probes.extend(probes);
            }
        }
        Ok(found)
    }

    /// Whether nothing is asked of functions.
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty()
    }

    /// The names of the parts that accounts carry beside the built-in ones.
    pub(super) fn own(&self) -> Option<&Own> {
        self.own.as_ref()
    }

    /// The set of the own parts that are wanted.
    pub(super) fn bits(&self) -> u64 {
        self.wanted.iter().map(|(_, part)| 1 << part).sum()
    }

    /// Attaches all of them, if the programs are loaded; what came of it for each part.
    pub(super) fn attach_all(
        &self,
        skeleton: &skeleton::CallsSkel<'static>,
        are_loaded: bool,
        links: &mut Vec<Link>,
    ) -> Result<Vec<Attached>, JobError> {
        let tried = function_probes();
        match if are_loaded { tried.and_then(|()| work(skeleton)) } else { tried } {
            Ok(()) => self.attach(skeleton, links),
            Err(reason) => Ok(self.without(&reason)),
        }
    }

    fn attach(
        &self,
        skeleton: &skeleton::CallsSkel<'static>,
        links: &mut Vec<Link>,
    ) -> Result<Vec<Attached>, JobError> {
        let mut parts = self.parts();
        for (number, probe) in self.probes.iter().enumerate() {
            let key = (number as u32).to_ne_bytes();
            let recipe = recipe::bytes(&probe.recipe);
            skeleton.maps.recipes.update(&key, &recipe, MapFlags::ANY).map_err(bpf("recipes"))?;
            let Some(part) = parts.iter_mut().find(|(n, _)| *n == probe.recipe.part) else {
                continue;
            };
            match attach_one(skeleton, probe, number as u64) {
                Ok(attached) => {
                    part.1.probes += attached.len();
                    links.extend(attached);
                }
                Err(error) => part.1.missing.push(probe.complaint(&error)),
            }
        }
        Ok(parts.into_iter().map(|(_, attached)| attached).collect())
    }

    fn parts(&self) -> Vec<(u32, Attached)> {
        let part = |(name, number): &(String, u32)| {
            let lacking = self.lacking.iter().filter(|(part, _)| part == number);
            let missing = lacking.map(|(_, why)| why.clone()).collect();
            let attached = Attached { subsystem: name.clone(), probes: 0, missing };
            (*number, attached)
        };
        self.wanted.iter().map(part).collect()
    }

    /// The same where functions can not be probed at all.
    fn without(&self, reason: &str) -> Vec<Attached> {
        let mut parts: Vec<Attached> = self.parts().into_iter().map(|(_, part)| part).collect();
        for part in &mut parts {
            part.missing = vec![reason.to_string()];
        }
        parts
    }
}

impl Probe {
    fn complaint(&self, error: &libbpf_rs::Error) -> String {
        match &self.at {
            Some(at) => format!("{at}'{}' can not be probed: {error}", self.function),
            None => format!("{} can not be probed: {error}", self.function),
        }
    }
}

fn attach_one(
    skeleton: &skeleton::CallsSkel<'static>,
    probe: &Probe,
    cookie: u64,
) -> Result<Vec<Link>, libbpf_rs::Error> {
    let attach = |program: &libbpf_rs::ProgramMut<'_>, at_return: bool| {
        let options = KprobeOpts { cookie, ..KprobeOpts::default() };
        program.attach_kprobe_with_opts(at_return, &probe.function, options)
    };
    // The return first: an entry without one would have to be mended.
    let mut links = Vec::new();
    if probe.recipe.bounds || probe.recipe.ends {
        links.push(attach(&skeleton.progs.own__leave, true)?);
    }
    links.push(attach(&skeleton.progs.own__enter, false)?);
    Ok(links)
}

/// Whether this kernel has probes of functions at all, as far as it says so itself.
pub fn function_probes() -> Result<(), String> {
    match Path::new(KIND).exists() {
        true => Ok(()),
        false => Err(refusal(&format!("there is no {KIND}"))),
    }
}

/// Whether a function can be probed: tried, because no setting tells.
fn work(skeleton: &skeleton::CallsSkel<'static>) -> Result<(), String> {
    let options = KprobeOpts { cookie: NO_RECIPE, ..KprobeOpts::default() };
    let tried = skeleton.progs.own__enter.attach_kprobe_with_opts(false, PROBED, options);
    tried.map(drop).map_err(|error| refusal(&error.to_string()))
}

fn refusal(what: &str) -> String {
    format!("this kernel lets no function be probed ({what})")
}

/// Where things are looked up.
struct Kernel {
    symbols: Symbols,
    types: Types,
}

impl Kernel {
    fn probes(
        &self,
        subsystem: &OwnSubsystem,
        part: u32,
    ) -> Result<Vec<Probe>, ConfigurationError> {
        let mut probes = Vec::new();
        for boundary in &subsystem.boundary {
            self.symbols.check(&boundary.function)?;
            let sum = |sum: &weigh_schema::configuration::Sum| {
                let found = self.types.find(&boundary.function, &sum.capture)?;
                Ok((sum.slot as u32, found))
            };
            let sums = boundary.sums.iter().map(sum).collect::<Result<_, _>>()?;
            let recipe = Recipe { bounds: true, part, sums, ..Recipe::default() };
            let function = boundary.function.name.clone();
            probes.push(Probe { function, recipe, at: Some(boundary.function.at.clone()) });
        }
        let Some(later) = &subsystem.later else { return Ok(probes) };
        let sides = [(&later.start, &later.start_capture), (&later.end, &later.end_capture)];
        for (number, (function, capture)) in sides.into_iter().enumerate() {
            self.symbols.check(function)?;
            let matched = self.types.find(function, capture)?;
            let index = probes.iter().position(|probe| probe.function == function.name);
            let index = index.unwrap_or_else(|| {
                let recipe = Recipe { part, ..Recipe::default() };
                let function_name = function.name.clone();
                let at = Some(function.at.clone());
                probes.push(Probe { function: function_name, recipe, at });
                probes.len() - 1
            });
            let recipe = &mut probes[index].recipe;
            (recipe.starts, recipe.ends) = (recipe.starts || number == 0, number == 1);
            (recipe.rule, recipe.keeps, recipe.matched) = (part, later.keep, matched);
            recipe.count_slot = later.count_slot as u32;
            recipe.time_slot = later.time_slot as u32;
        }
        Ok(probes)
    }
}
