//! The kernel's list of tracepoints: their groups, which its types do not have.

use std::path::Path;

use weigh_collect::tracefs;
use weigh_trace::error::{Refusal, Wrong};
use weigh_trace::event::{Event, Point};
use weigh_trace::suggest::nearest;

/// The groups of tracepoints, if they can be read.
pub fn groups() -> Vec<(String, Vec<String>)> {
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let Some(root) = tracefs::events() else { return Vec::new() };
    names(root).into_iter().map(|group| (group.clone(), names(&root.join(group)))).collect()
}

/// Groups of the list that are not of tracepoints of the kernel's own making.
const OTHERS: [&str; 6] = ["syscalls", "ftrace", "kprobes", "uprobes", "eprobes", "synthetic"];

/// Whether the kernel lists a tracepoint of that name, in that group if one was said.
pub fn is_listed(group: Option<&str>, name: &str) -> bool {
    let is_it = |group: &str| {
        !OTHERS.contains(&group)
            && tracefs::events().is_some_and(|root| root.join(group).join(name).is_dir())
    };
    match group {
        Some(group) => is_it(group),
        None => groups().iter().any(|(group, _)| is_it(group)),
    }
}

/// Types have no groups: whether a tracepoint is in the one that was said, only the kernel's list knows.
pub fn check_group(event: &Event) -> Result<(), Refusal> {
    let Point::Tracepoint { group: Some(group), name } = &event.point else { return Ok(()) };
    if tracefs::events().is_some_and(|root| root.join(group).join(name).is_dir()) {
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
