//! Attaches the programs to functions: to all of a kind at once where the kernel can, else to one
//! after the other: [`ENOUGH`] of them, and more while [`MOST_TIME`] is not over.
//!
//! Emits links, and what could not be attached with the kernel's reason.

use std::ffi::CString;
use std::io;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags};
use weigh_schema::call::{BorderProbes, FunctionProbes, ProbeCost, ProbedBy};

use super::cost::Trial;
use super::kprobe::{Kprobes, ProbePoint};
use super::{Functions, Probe, recipe};
use crate::calls::layout::skeleton;
use crate::calls::link::{Link, Program};
use crate::calls::request::Attached;
use crate::job::{JobError, bpf};
use crate::standing_threads::for_each;

/// Functions at borders that are probed in any case where the kernel takes them one by one, for it
/// has no CONFIG_FPROBE, as Debian's 6.1: the most important ones.
const ENOUGH: usize = 128;

/// The others are, while so much time is not over. To let go of them takes two or three times as long,
/// for the kernel waits for all of its CPUs each time: docs/kernel.md has figures.
const MOST_TIME: Duration = Duration::from_secs(5);

/// Functions that are named of those left out.
const NAMED_MOST: usize = 5;

/// So many links are let go of at once: most of that time is waiting.
const AT_ONCE: usize = 16;

/// How functions are probed here.
#[derive(Clone, Copy)]
pub(super) struct ProbeMethod {
    kprobes: Kprobes,
    by: ProbedBy,
}

/// What was found out before anything else was attached.
pub(in crate::calls) struct Tried {
    way: ProbeMethod,
    cost: Option<ProbeCost>,
}

impl Tried {
    pub(super) fn cost(&self) -> Option<ProbeCost> {
        self.cost
    }

    pub(super) fn way(&self) -> ProbeMethod {
        self.way
    }
}

/// What came of it.
pub(in crate::calls) struct Probed {
    pub(in crate::calls) parts: Vec<Attached>,
    pub(in crate::calls) functions: Option<FunctionProbes>,
}

impl Functions {
    /// Finds out whether functions can be probed, for no setting tells, how, and what it costs.
    pub(in crate::calls) fn try_out(
        &self,
        skeleton: &mut skeleton::CallsSkel<'static>,
    ) -> Result<Tried, String> {
        super::function_probes()?;
        let none = || super::refusal("no events of the kind kprobe");
        let kprobes = Kprobes::of_this_kernel().ok_or_else(none)?;
        let is_loaded = skeleton.progs.own__enter_many.autoload();
        let by = if is_loaded { ProbedBy::KprobeMulti } else { ProbedBy::Kprobe };
        let mut way = ProbeMethod { kprobes, by };
        let programs = Programs::of(skeleton);
        let mut trial = Trial::begin(skeleton, &programs, &way);
        if trial.is_err() && way.by == ProbedBy::KprobeMulti {
            way.by = ProbedBy::Kprobe;
            trial = Trial::begin(skeleton, &programs, &way);
        }
        let cost = trial.map_err(|error| super::refusal(&error))?.cost(skeleton);
        Ok(Tried { way, cost })
    }

    /// Attaches all of them; what came of it for each part.
    pub(in crate::calls) fn attach_all(
        &self,
        skeleton: &skeleton::CallsSkel<'static>,
        tried: Result<Tried, String>,
        links: &mut Vec<Link>,
    ) -> Result<Probed, JobError> {
        let Tried { way, cost } = match tried {
            Ok(tried) => tried,
            Err(reason) => return Ok(Probed { parts: self.without(&reason), functions: None }),
        };
        let began = Instant::now();
        self.put_recipes(skeleton)?;
        let mut states = States::of(self);
        let programs = Programs::of(skeleton);
        let by = self.attach_parts(u64::MAX, &programs, way, &mut states, links);
        let parts = states.told();
        let is_border = self.probes.iter().any(Probe::is_border);
        let functions = is_border.then(|| FunctionProbes {
            by,
            why: self.why.clone(),
            probed: parts.iter().filter_map(|part| part.functions).map(|f| f.probed).sum(),
            attach_seconds: began.elapsed().as_secs_f64(),
            detach_seconds: 0.0,
            cost,
        });
        Ok(Probed { parts, functions })
    }

    /// Says to the kernel side what is to be done at each.
    pub(super) fn put_recipes(
        &self,
        skeleton: &skeleton::CallsSkel<'static>,
    ) -> Result<(), JobError> {
        for (number, probe) in self.probes.iter().enumerate() {
            let key = (number as u32).to_ne_bytes();
            let recipe = recipe::bytes(&probe.recipe);
            skeleton.maps.recipes.update(&key, &recipe, MapFlags::ANY).map_err(bpf("recipes"))?;
        }
        Ok(())
    }

    /// Attaches the functions of a set of parts; in which way, as it turned out.
    pub(super) fn attach_parts(
        &self,
        parts: u64,
        programs: &Programs,
        way: ProbeMethod,
        states: &mut States,
        links: &mut Vec<Link>,
    ) -> ProbedBy {
        let is_multi = way.by == ProbedBy::KprobeMulti;
        let at_once = if is_multi { self.at_once(parts, programs) } else { None };
        let by = if at_once.is_some() { ProbedBy::KprobeMulti } else { ProbedBy::Kprobe };
        links.extend(at_once.into_iter().flatten());
        self.attach_the_rest(parts, programs, &ProbeMethod { by, ..way }, states, links);
        by
    }

    /// Those that are not attached at once, one after the other.
    fn attach_the_rest(
        &self,
        parts: u64,
        programs: &Programs,
        way: &ProbeMethod,
        states: &mut States,
        links: &mut Vec<Link>,
    ) {
        let (until, mut borders) = (Instant::now() + MOST_TIME, 0);
        for number in self.by_rank() {
            let probe = &self.probes[number];
            if !probe.is_of(parts) {
                continue;
            }
            if way.by == ProbedBy::KprobeMulti && probe.at_once {
                states.attached(probe, 2);
                continue;
            }
            if probe.is_border() && borders >= ENOUGH && Instant::now() >= until {
                states.left_out(probe);
                continue;
            }
            let (what, both) = (probe.place(), probe.recipe.bounds || probe.recipe.ends);
            match attach_place(programs, &way.one_by_one(), what, both, number as u64) {
                Ok(attached) => {
                    borders += usize::from(probe.is_border());
                    states.attached(probe, attached.len());
                    links.extend(attached);
                }
                Err(error) => states.refused(probe, &error),
            }
        }
    }

    /// The functions that ftrace has a place in, all at once: the returns first. Nothing if the
    /// kernel will not have it so.
    fn at_once(&self, parts: u64, programs: &Programs) -> Option<Vec<Link>> {
        let all: Vec<(String, u64)> = (0..)
            .zip(&self.probes)
            .filter(|(_, probe)| probe.at_once && probe.is_of(parts))
            .map(|(number, probe)| (probe.function.clone(), number))
            .collect();
        attach_many(programs, &all).ok()
    }

    /// The numbers of the probes: first the most important one of each part, then the second.
    fn by_rank(&self) -> Vec<usize> {
        let mut ranks = vec![0; u64::BITS as usize];
        let mut ranked: Vec<(usize, usize)> = Vec::new();
        for (number, probe) in self.probes.iter().enumerate() {
            let rank = &mut ranks[probe.recipe.part as usize % u64::BITS as usize];
            ranked.push((if probe.is_border() { *rank } else { 0 }, number));
            *rank += 1;
        }
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, number)| number).collect()
    }
}

impl ProbeMethod {
    fn one_by_one(&self) -> ProbeMethod {
        ProbeMethod { kprobes: self.kprobes, by: ProbedBy::Kprobe }
    }
}

/// The programs that functions are given, of those that were loaded.
pub(super) struct Programs {
    enter: Option<Program>,
    leave: Option<Program>,
    enter_many: Option<Program>,
    leave_many: Option<Program>,
}

impl Programs {
    pub(super) fn of(skeleton: &skeleton::CallsSkel<'static>) -> Programs {
        let programs = &skeleton.progs;
        Programs {
            enter: Program::of(&programs.own__enter),
            leave: Program::of(&programs.own__leave),
            enter_many: Program::of(&programs.own__enter_many),
            leave_many: Program::of(&programs.own__leave_many),
        }
    }
}

fn loaded(program: &Option<Program>) -> io::Result<&Program> {
    program.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Attaches to a function's entry and, if that matters, to its return.
pub(super) fn attach_place(
    programs: &Programs,
    way: &ProbeMethod,
    (function, address): (&str, u64),
    returns: bool,
    cookie: u64,
) -> Result<Vec<Link>, String> {
    if way.by == ProbedBy::KprobeMulti {
        let one = [(function.to_string(), cookie)];
        return attach_many(programs, &one).map_err(|error| error.to_string());
    }
    let attach = |program: &Option<Program>, at_return| {
        let place = ProbePoint { function, address, at_return };
        way.kprobes.attach(loaded(program)?, &place, cookie)
    };
    // The return first: an entry without one would have to be mended.
    let mut links = Vec::new();
    if returns {
        links.push(attach(&programs.leave, true).map_err(|error| error.to_string())?);
    }
    links.push(attach(&programs.enter, false).map_err(|error| error.to_string())?);
    Ok(links)
}

fn attach_many(programs: &Programs, all: &[(String, u64)]) -> io::Result<Vec<Link>> {
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let named = |(name, cookie): &(String, u64)| Ok((CString::new(name.as_str())?, *cookie));
    let all = all.iter().map(named).collect::<io::Result<Vec<_>>>()?;
    let leave = loaded(&programs.leave_many)?.attach_to_all(&all, true)?;
    let enter = loaded(&programs.enter_many)?.attach_to_all(&all, false)?;
    Ok(vec![leave, enter])
}

/// Lets go of all, and waits until that is done.
pub(in crate::calls) fn let_go(links: &mut Vec<Link>) {
    let size = links.len().div_ceil(AT_ONCE).max(1);
    let mut pieces = Vec::new();
    while !links.is_empty() {
        pieces.push(links.split_off(links.len().saturating_sub(size)));
    }
    for_each("let-go", pieces, drop::<Vec<Link>>);
}

/// What becomes of each part while its functions are attached.
pub(super) struct States {
    parts: Vec<(u32, Attached)>,
    left_out: Vec<(u32, Vec<String>)>,
}

impl States {
    pub(super) fn of(functions: &Functions) -> States {
        States { parts: functions.parts(), left_out: Vec::new() }
    }

    fn of_part(&mut self, probe: &Probe) -> Option<&mut Attached> {
        let part = probe.recipe.part;
        self.parts.iter_mut().find(|(number, _)| *number == part).map(|(_, part)| part)
    }

    fn attached(&mut self, probe: &Probe, probes: usize) {
        if let Some(part) = self.of_part(probe) {
            part.probes += probes;
            if let Some(functions) = part.functions.as_mut().filter(|_| probe.is_border()) {
                functions.probed += 1;
            }
        }
    }

    fn refused(&mut self, probe: &Probe, error: &str) {
        let complaint = probe.complaint(error);
        if let Some(part) = self.of_part(probe) {
            part.missing.push(complaint);
        }
    }

    fn left_out(&mut self, probe: &Probe) {
        let part = probe.recipe.part;
        let function = probe.function.clone();
        match self.left_out.iter_mut().find(|(number, _)| *number == part) {
            Some((_, functions)) => functions.push(function),
            None => self.left_out.push((part, vec![function])),
        }
    }

    pub(super) fn told(mut self) -> Vec<Attached> {
        for (number, part) in &mut self.parts {
            let left_out = self.left_out.iter().find(|(part, _)| part == number);
            let Some((_, functions)) = left_out else { continue };
            let chosen = part.functions.map_or(0, |functions: BorderProbes| functions.chosen);
            part.missing.push(format!(
                "{} of the {chosen} functions at its border are not probed ({}): this kernel attaches \
                 them one by one, for it has no kprobe.multi (CONFIG_FPROBE); {ENOUGH} of all parts are in \
                 any case, and more while {} s are not over",
                functions.len(),
                some_of(functions),
                MOST_TIME.as_secs(),
            ));
        }
        self.parts.into_iter().map(|(_, part)| part).collect()
    }
}

/// The first of them, and how many more there are.
fn some_of(functions: &[String]) -> String {
    let first = functions[..functions.len().min(NAMED_MOST)].join(", ");
    match functions.len().saturating_sub(NAMED_MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
