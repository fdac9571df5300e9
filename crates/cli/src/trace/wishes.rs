//! What is wanted, checked against this kernel.
//!
//! Reads the command line, the kernel's types and its list of tracepoints; emits probes. Refuses the
//! first thing that is wrong; of a set, what this kernel lacks is left out.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use weigh_trace::btf::Btf;
use weigh_trace::error::{Refusal, Wrong};
use weigh_trace::event::{Event, Point};
use weigh_trace::filter::Filter;
use weigh_trace::near::nearest;
use weigh_trace::probe::Probe;
use weigh_trace::sampling::Sampling;
use weigh_trace::sets;

use crate::arguments::TraceArguments;

/// What can be followed.
pub struct Wished {
    /// The probes.
    pub probes: Vec<Probe>,
    /// Events of sets that this kernel does not have, and why not.
    pub left_out: Vec<(String, String)>,
}

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The kernel's types.
pub fn types() -> anyhow::Result<Btf> {
    let bytes = std::fs::read(TYPES).with_context(|| {
        format!("this kernel does not tell its types ({TYPES}); one built with CONFIG_DEBUG_INFO_BTF=y does")
    })?;
    Btf::new(bytes).with_context(|| format!("{TYPES} can not be read"))
}

/// Checks all that is wanted.
pub fn check(arguments: &TraceArguments) -> anyhow::Result<Wished> {
    let mut filters = Vec::new();
    for text in &arguments.filters {
        let filter = Filter::parse(text).map_err(in_filter)?;
        filters.push((text.clone(), filter));
    }
    let sampling = arguments.sampling.as_deref().map(Sampling::parse).transpose();
    let sampling = sampling.map_err(|refusal| anyhow!("--sampling: {refusal}"))?;
    let btf = types()?;
    let mut wished = Wished { probes: Vec::new(), left_out: Vec::new() };
    for text in &arguments.events {
        let set = Event::word(text).and_then(sets::named);
        let texts = set.map_or(vec![text.as_str()], |set| set.events.to_vec());
        for text in texts {
            let checked = Event::parse(text).and_then(|mut event| {
                event.sampling = event.sampling.or(sampling);
                check_group(&event)?;
                Probe::check(&btf, &event, &filters)
            });
            match checked {
                Ok(probe) => wished.probes.push(probe),
                Err(refusal) if set.is_some() && is_lacking(&refusal) => {
                    wished.left_out.push((text.to_string(), refusal.wrong.to_string()));
                }
                Err(refusal) => return Err(anyhow!("{refusal}")),
            }
        }
    }
    Ok(wished)
}

fn in_filter(refusal: Refusal) -> anyhow::Error {
    anyhow!("--filter: {refusal}")
}

fn is_lacking(refusal: &Refusal) -> bool {
    matches!(
        *refusal.wrong,
        Wrong::NoTracepoint(_)
            | Wrong::NoFunction(_)
            | Wrong::NoMember { .. }
            | Wrong::NoArgument { .. }
    )
}

/// Where the kernel lists its tracepoints by groups; both places are the same, older kernels have the
/// second.
const GROUPS: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// The groups of tracepoints, if they can be read.
pub fn groups() -> Vec<(String, Vec<String>)> {
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let root = GROUPS.iter().map(Path::new).find(|root| root.is_dir());
    let Some(root) = root else { return Vec::new() };
    names(root).into_iter().map(|group| (group.clone(), names(&root.join(group)))).collect()
}

/// Types have no groups: whether a tracepoint is in the one that was said, only the kernel's list knows.
fn check_group(event: &Event) -> Result<(), Refusal> {
    let Point::Tracepoint { group: Some(group), name } = &event.point else { return Ok(()) };
    if GROUPS.iter().any(|root| Path::new(root).join(group).join(name).is_dir()) {
        return Ok(());
    }
    let groups = groups();
    let Some((other, _)) = groups.iter().find(|(_, names)| names.contains(name)) else {
        let Some((_, names)) = groups.iter().find(|(other, _)| other == group) else {
            return Ok(());
        };
        let refusal = event.span.refuse(&event.text, Wrong::NoTracepoint(name.clone()));
        let near = nearest(name, names.iter().map(String::as_str));
        let near: Vec<String> = near.iter().map(|name| format!("{group}:{name}")).collect();
        // Some have no group, and the types know them.
        return if near.is_empty() { Ok(()) } else { Err(refusal.near(near)) };
    };
    let (name, group, asked) = (name.clone(), other.clone(), group.clone());
    let near = vec![format!("{group}:{name}")];
    let wrong = Wrong::OtherGroup { name, group, asked };
    Err(event.span.refuse(&event.text, wrong).near(near))
}
