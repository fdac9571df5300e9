//! Function probes of `weigh calls`: what a configuration asks for, looked up in this kernel, and
//! attached.
//!
//! Reads the configuration, `/proc/kallsyms` and the kernel's type information; emits recipes for
//! `bpf/calls/custom_subsystem.h` and the functions that they are for. Refuses functions, arguments and fields
//! that this kernel does not have, with the nearest that it has.

mod attach;
mod boundaries;
mod captures;
mod cost;
mod kprobe;
mod on_request;
mod recipe;
mod symbols;

use std::collections::BTreeMap;
use std::path::Path;

use weigh_schema::call::BorderProbes;
use weigh_schema::configuration::{At, Configuration, ConfigurationError, OwnSubsystem};
use weigh_schema::custom_subsystem::{CustomParts, OWN_PARTS, OwnPart};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use super::request::Attached;
pub(super) use attach::let_go;
pub use boundaries::{Border, BorderFunction, PartBoundaries};
use captures::Types;
pub use cost::probe_cost;
use kprobe::KIND;
pub(super) use on_request::OnRequest;
use recipe::Recipe;
pub(super) use recipe::hits;
use symbols::Symbols;

/// Part of a kernel that attaches a program to many functions at once.
const MANY: &str = "register_fprobe_ips";

/// As many recipes as there is room for, less the one of the trial.
const MOST: usize = 4095;

/// A function, and what is to be done there.
#[derive(Clone, Debug)]
struct Probe {
    function: String,
    recipe: Recipe,
    /// Where it was asked for; nowhere if weigh has chosen it.
    at: Option<At>,
    /// Where it is; 0 if that is not known.
    address: u64,
    /// Whether it can be attached together with others.
    at_once: bool,
}

/// The functions that are to be probed.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    own: Option<CustomParts>,
    /// The names of the own parts that are wanted, with their numbers.
    wanted: Vec<(String, u32)>,
    probes: Vec<Probe>,
    /// What this kernel has not, by the part's number.
    lacking: Vec<(u32, String)>,
    /// The functions at borders, by the part's number.
    borders: Vec<(u32, BorderProbes)>,
    /// Parts that there is no room for.
    without_room: Vec<String>,
    /// Why the functions at borders were not chosen by the analysis.
    why: Option<String>,
    /// By the number of a system call, the part that its own code is of.
    own_parts: BTreeMap<u32, u32>,
    /// Whether this kernel attaches a program to many functions at once.
    many: bool,
}

impl Functions {
    /// Without any, to try out what one costs.
    fn of_trial() -> Functions {
        let many = Symbols::of_this_kernel().know(MANY);
        Functions { many, ..Functions::default() }
    }

    /// Adds the borders of parts. A part that the configuration has defined stays as it is.
    pub fn add_borders(&mut self, borders: &PartBoundaries) {
        let symbols = Symbols::of_this_kernel();
        self.many = symbols.know(MANY);
        self.why.clone_from(&borders.why);
        let mut numbers = BTreeMap::new();
        for border in &borders.parts {
            if self.wanted.iter().any(|(name, _)| *name == border.part) {
                continue;
            }
            let Some(part) = self.place_of(&border.part) else {
                self.without_room.push(border.part.clone());
                continue;
            };
            numbers.insert(border.part.as_str(), part);
            self.wanted.push((border.part.clone(), part));
            self.add_border(border, borders, part, &symbols);
        }
        let numbered = |(call, part): (&u32, &String)| Some((*call, *numbers.get(part.as_str())?));
        self.own_parts = borders.calls.iter().filter_map(numbered).collect();
    }

    fn add_border(
        &mut self,
        border: &Border,
        borders: &PartBoundaries,
        part: u32,
        symbols: &Symbols,
    ) {
        let (known, unknown): (Vec<_>, Vec<_>) =
            border.functions.iter().partition(|function| symbols.have(&function.name));
        let names: Vec<&str> = unknown.iter().map(|function| function.name.as_str()).collect();
        if !names.is_empty() {
            let why = match names.len() {
                0..=3 => names.join(", "),
                many => format!("{} and {} others", names[..2].join(", "), many - 2),
            };
            let why = format!("this kernel has no function of its own, or several, named {why}");
            self.lacking.push((part, why));
        }
        if border.forbidden > 0 {
            let why = format!("{} functions cannot be probed in any kernel", border.forbidden);
            self.lacking.push((part, why));
        }
        let chosen = border.functions.len() + border.forbidden;
        let state =
            BorderProbes { chosen_by: borders.chosen_by, chosen, ..BorderProbes::default() };
        self.borders.push((part, state));
        let room = MOST.saturating_sub(self.probes.len());
        for function in known.into_iter().take(room) {
            self.probes.push(Probe {
                function: function.name.clone(),
                recipe: Recipe { bounds: true, crosses: true, part, ..Recipe::default() },
                at: None,
                address: symbols.address(&function.name),
                at_once: self.many && function.is_traceable,
            });
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
            // What is not wanted is looked up too: a mistake is reported in any case.
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
    pub(super) fn own(&self) -> Option<&CustomParts> {
        self.own.as_ref()
    }

    /// The set of the own parts that are wanted.
    pub(super) fn bits(&self) -> u64 {
        self.wanted.iter().fold(0, |set, (_, part)| set | 1 << part)
    }

    /// By the number of a system call, the part that its own code is of.
    pub(super) fn own_parts(&self) -> &BTreeMap<u32, u32> {
        &self.own_parts
    }

    /// Whether the kernel attaches a program to many functions at once, and that is asked for.
    pub(super) fn many(&self) -> bool {
        self.many
    }

    /// The set of the parts whose entries functions at their borders tell.
    pub(super) fn at_borders(&self) -> u64 {
        let borders = self.probes.iter().filter(|probe| probe.is_border());
        borders.fold(0, |set, probe| set | 1 << probe.recipe.part)
    }

    /// The parts that the recipes are of, by their numbers; of functions at borders alone.
    pub(super) fn of_borders(&self) -> Vec<Option<String>> {
        let name = |part: u32| self.wanted.iter().find(|(_, number)| *number == part);
        let of = |probe: &Probe| match probe.is_border() {
            true => name(probe.recipe.part).map(|(name, _)| name.clone()),
            false => None,
        };
        self.probes.iter().map(of).collect()
    }

    fn parts(&self) -> Vec<(u32, Attached)> {
        let part = |(name, number): &(String, u32)| {
            let lacking = self.lacking.iter().filter(|(part, _)| part == number);
            let missing = lacking.map(|(_, why)| why.clone()).collect();
            let borders = self.borders.iter().find(|(part, _)| part == number);
            let functions = borders.map(|(_, functions)| *functions);
            (*number, Attached { subsystem: name.clone(), probes: 0, functions, missing })
        };
        let none = |name: &String| {
            let missing = vec![format!(
                "an account has room for {OWN_PARTS} parts beside the built-in ones, and they are taken"
            )];
            let subsystem = name.clone();
            (u32::MAX, Attached { subsystem, probes: 0, functions: None, missing })
        };
        self.wanted.iter().map(part).chain(self.without_room.iter().map(none)).collect()
    }

    /// The same where functions cannot be probed at all.
    fn without(&self, reason: &str) -> Vec<Attached> {
        let mut parts: Vec<Attached> = self.parts().into_iter().map(|(_, part)| part).collect();
        for part in &mut parts {
            part.missing = vec![reason.to_string()];
        }
        parts
    }
}

impl Probe {
    /// Whether it was not asked for by a configuration.
    fn is_border(&self) -> bool {
        self.at.is_none()
    }

    /// Whether it is of one of these parts.
    fn is_of(&self, parts: u64) -> bool {
        parts >> (self.recipe.part % u64::BITS) & 1 == 1
    }

    fn place(&self) -> (&str, u64) {
        (&self.function, self.address)
    }

    fn complaint(&self, error: &str) -> String {
        match &self.at {
            Some(at) => format!("{at}'{}' cannot be probed: {error}", self.function),
            None => format!("{} cannot be probed: {error}", self.function),
        }
    }
}

/// Whether this kernel has probes of functions at all, as far as it says so itself.
pub fn function_probes() -> Result<(), String> {
    match Path::new(KIND).exists() {
        true => Ok(()),
        false => Err(refusal(&format!("there is no {KIND}"))),
    }
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
    fn probe(&self, function: String, recipe: Recipe, at: &At) -> Probe {
        let address = self.symbols.address(&function);
        Probe { function, recipe, at: Some(at.clone()), address, at_once: false }
    }

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
            probes.push(self.probe(function, recipe, &boundary.function.at));
        }
        let Some(later) = &subsystem.later else { return Ok(probes) };
        let sides = [(&later.start, &later.start_capture), (&later.end, &later.end_capture)];
        for (number, (function, capture)) in sides.into_iter().enumerate() {
            self.symbols.check(function)?;
            let matched = self.types.find(function, capture)?;
            let index = probes.iter().position(|probe| probe.function == function.name);
            let index = index.unwrap_or_else(|| {
                let recipe = Recipe { part, ..Recipe::default() };
                probes.push(self.probe(function.name.clone(), recipe, &function.at));
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
