//! The functions at the borders of parts of the kernel.
//!
//! Reads the map of the running kernel's functions (`weigh doctor kernel`); emits borders in the names
//! of `weigh calls`. Refuses calls that this kernel does not have. Without an image of the kernel it takes the short list
//! that weigh brings along, and says why.

use weigh_collect::calls::{Border, BorderFunction, PartBoundaries};
use weigh_collect::notice;
use weigh_kernel::{Allowed, Analysis, AnalysisError, SubsystemBorder, Subsystems};
use weigh_schema::call::ChosenBy;
use weigh_schema::subsystem::Subsystem;

use crate::kernel_map::{KernelMapError, MapQuery, map_running};

/// Parts of the analysis, and what accounts call them; the others have the same name in both.
const NAMES: &[(&str, &str)] = &[
    ("faults", "fault"),
    ("page_cache", "pagecache"),
    ("reclaim", "memory"),
    ("file_system", "fs"),
    ("io_uring", "uring"),
    ("netdev", "net"),
    ("timers", "timer"),
];

/// Their time is known exactly from tracepoints, and their functions cannot be probed without harm.
const NOT_BY_FUNCTIONS: [&str; 2] = ["sched", "irq"];

/// Parts without tracepoints at their border on any kernel: the default.
const DEFAULT_PARTS: [&str; 2] = ["vfs", "socket"];

/// What accounts call a part of the analysis.
fn name_of(part: &str) -> &str {
    NAMES.iter().find(|(own, _)| *own == part).map_or(part, |(_, name)| name)
}

/// The parts of the analysis that can be told apart by functions.
fn parts() -> Vec<String> {
    let all = Subsystems::shipped();
    let names = all.list().iter().map(|part| part.name.clone());
    names.filter(|name| !NOT_BY_FUNCTIONS.contains(&name.as_str())).collect()
}

/// The names of those that only functions bound.
pub(super) fn names() -> Vec<String> {
    let names = parts().into_iter().map(|part| name_of(&part).to_string());
    names.filter(|name| Subsystem::named(name).is_none()).collect()
}

/// Chooses the borders of the parts with these names, as far as calls of these names reach them; without names, of those
/// that have no tracepoints.
pub(super) fn choose(
    names: Option<&[String]>,
    is_removed: &dyn Fn(&str) -> bool,
    calls: &[String],
) -> Result<PartBoundaries, KernelMapError> {
    let is_wanted = |name: &str| match names {
        Some(names) => names.iter().any(|wanted| wanted == name),
        None => DEFAULT_PARTS.contains(&name) && !is_removed(name),
    };
    let parts: Vec<String> = parts().into_iter().filter(|part| is_wanted(name_of(part))).collect();
    if parts.is_empty() {
        return Ok(PartBoundaries::default());
    }
    let question = MapQuery { calls: calls.to_vec(), parts };
    match map_running(&question, false) {
        Ok(found) => {
            found.notes.iter().for_each(|note| notice!("{note}"));
            Ok(of_analysis(&found.analysis))
        }
        Err(
            error @ (KernelMapError::NoSuchName(_)
            | KernelMapError::Analysis { source: AnalysisError::NoCall(_), .. }),
        ) => Err(error),
        Err(error) => Ok(PartBoundaries::of_list(&is_wanted, error.to_string())),
    }
}

fn of_analysis(analysis: &Analysis) -> PartBoundaries {
    let mut parts: Vec<Border> = Vec::new();
    for border in &analysis.subsystems {
        let found = of_part(border);
        match parts.iter_mut().find(|known| known.part == found.part) {
            Some(known) => {
                known.functions.extend(found.functions);
                known.forbidden += found.forbidden;
            }
            None => parts.push(found),
        }
    }
    // Those come first that have room of their own only as long as there is some.
    let place = |part: &Border| DEFAULT_PARTS.iter().position(|usual| *usual == part.part);
    parts.sort_by_key(|part| place(part).unwrap_or(DEFAULT_PARTS.len()));
    let calls = analysis.calls.iter().map(|(call, part)| (*call, name_of(part).to_string()));
    PartBoundaries { chosen_by: ChosenBy::Analysis, why: None, parts, calls: calls.collect() }
}

fn of_part(border: &SubsystemBorder) -> Border {
    let mut probes: Vec<_> = border.probes.iter().collect();
    // What is called by pointer from tables of operations is what most calls go through.
    probes.sort_by_key(|probe| (!probe.by_table, std::cmp::Reverse(probe.sites)));
    let functions = probes.iter().filter(|probe| probe.allowed != Allowed::No).map(|probe| {
        let is_traceable = probe.allowed == Allowed::Fentry;
        BorderFunction { name: probe.function.clone(), is_traceable }
    });
    Border {
        part: name_of(&border.name).to_string(),
        functions: functions.collect(),
        forbidden: border.allowed(Allowed::No),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_analysis_has_one_name_and_no_other_part_s() {
        let all = parts();
        for (own, name) in NAMES {
            assert!(all.iter().any(|part| part == own), "there is no part {own}");
            assert!(Subsystem::named(name).is_some(), "there is no {name} in accounts");
        }
        for name in DEFAULT_PARTS {
            assert!(all.iter().any(|part| name_of(part) == name), "there is no part {name}");
        }
        assert!(names().contains(&"vfs".to_string()) && !names().contains(&"fs".to_string()));
    }
}
