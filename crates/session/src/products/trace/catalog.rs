//! What can be followed on this kernel, with the arguments and their types.
//!
//! Reads the kernel's types and its list of tracepoints; emits lines of sets and tracepoints, and functions if
//! the pattern begins with `fn:`. With a pattern that nothing matches: the nearest names.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::anyhow;
use weigh_collect::calls::function_probes;
use weigh_trace::btf::Btf;
use weigh_trace::executable::Function;
use weigh_trace::sets::SETS;
use weigh_trace::signature::{self, Signature};
use weigh_trace::suggest::nearest;
use weigh_trace::syscall;
use weigh_trace::usdt::UsdtPoint;

use super::counters;
use super::modules::Types;
use super::programs::Programs;
use super::tracepoint_groups::groups;

/// What stands before a colon and is no group of tracepoints.
const OTHER_KINDS: [&str; 5] = ["fn", "user", "usdt", "syscall", "syscalls"];
/// What lists the counters of the CPU.
const COUNTER: &str = "counter";

/// What a pattern finds: a line for each event, or nothing and what is near it.
#[derive(Debug)]
pub struct EventList {
    /// The lines; empty: nothing is like the pattern.
    pub lines: String,
    /// The nearest names, where there are no lines.
    pub nearest: Vec<String>,
    /// Why none of these can be followed here, or why none is found, if that is so.
    pub unavailable: Option<String>,
}

/// The names alone, as shells complete them.
pub fn names(pattern: &str) -> anyhow::Result<String> {
    let mut lines = String::new();
    tell_names(&all_types()?, pattern, &mut lines);
    Ok(lines)
}

/// What there is, with arguments and their types.
pub fn list(pattern: &str) -> anyhow::Result<EventList> {
    let all = all_types()?;
    let mut lines = String::new();
    match pattern.split_once(':') {
        Some(("fn", pattern)) => tell_functions(&all, pattern, &mut lines),
        Some((kind @ ("user" | "usdt"), pattern)) => tell_program(kind, pattern, &mut lines)?,
        None if pattern == COUNTER => tell_counters(&mut lines),
        Some(("syscall" | "syscalls", pattern)) => tell_calls(pattern, &mut lines),
        _ => {
            tell_sets(pattern, &mut lines);
            tell_tracepoints(&all, pattern, &mut lines);
            if pattern != "*" {
                tell_calls(pattern, &mut lines);
            }
        }
    }
    let nearest = if lines.is_empty() { nearest_of_all(&all, pattern) } else { Vec::new() };
    let are_functions = !lines.is_empty() && pattern.starts_with("fn:");
    let unavailable = match are_functions {
        true => function_probes().err(),
        false if lines.is_empty() && groups().is_empty() => without_group(pattern),
        false => None,
    };
    Ok(EventList { lines, nearest, unavailable })
}

/// What to type where a group was named and this user may not read which tracepoints are in it.
fn without_group(pattern: &str) -> Option<String> {
    let (group, name) = pattern.split_once(':').filter(|(kind, _)| !OTHER_KINDS.contains(kind))?;
    let bare = if name == "*" { format!("{group}_*") } else { name.to_string() };
    Some(format!(
        "this user may not read the groups of tracepoints (/sys/kernel/tracing). Leave the group out: `weigh trace list \
         '{bare}'`"
    ))
}

fn all_types() -> anyhow::Result<Vec<Arc<Btf>>> {
    let types = Types::read()?;
    Ok([types.kernel().clone()].into_iter().chain(types.modules().all).collect())
}

fn nearest_of_all(all: &[Arc<Btf>], pattern: &str) -> Vec<String> {
    match pattern.strip_prefix("fn:") {
        Some(name) => {
            nearest(name, all.iter().flat_map(|btf| btf.functions()).map(|(_, name)| name))
        }
        None => {
            let name = pattern.rsplit(':').next().unwrap_or(pattern);
            nearest(
                name,
                all.iter()
                    .flat_map(|btf| btf.tracepoints())
                    .chain(SETS.iter().map(|set| set.name))
                    .chain(syscall::all().map(|(_, name)| name)),
            )
        }
    }
}

fn tell_sets(pattern: &str, told: &mut String) {
    for set in SETS.iter().filter(|set| matches(pattern, set.name)) {
        let _ = writeln!(told, "{}  (set: {})", set.name, set.help);
        for event in set.events {
            let _ = writeln!(told, "    {event}");
        }
    }
}

/// System calls with their arguments; `sys_enter_` and `sys_exit_` may stand before their names.
fn tell_calls(pattern: &str, told: &mut String) {
    let edge = ["sys_enter_", "sys_exit_"].into_iter().find(|edge| pattern.starts_with(edge));
    let bare = pattern.strip_prefix(edge.unwrap_or_default()).unwrap_or(pattern);
    let before = edge.map_or("syscall:".to_string(), |edge| format!("syscalls:{edge}"));
    for (_, name) in syscall::all().filter(|(_, name)| matches(bare, name)) {
        let arguments = syscall::arguments(name);
        let names: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
        let _ = writeln!(told, "{before}{name}({})", names.join(", "));
    }
}

/// Of those that have a name, the ones that this machine has.
fn tell_counters(told: &mut String) {
    for named in counters::here() {
        let _ = writeln!(told, "{COUNTER}({})  {}", named.name, named.help);
    }
}

fn tell_names(all: &[Arc<Btf>], pattern: &str, told: &mut String) {
    let sets = SETS.iter().map(|set| set.name.to_string()).filter(|name| matches(pattern, name));
    let calls = syscall::all().map(|(_, name)| name.to_string());
    let calls = calls.filter(|name| matches(pattern, name));
    let tracepoints = tracepoints(all, pattern).into_iter().map(|(full, ..)| full);
    for name in sets.chain(tracepoints).chain(calls) {
        let _ = writeln!(told, "{name}");
    }
}

/// With their groups, and without, and whose they are.
fn tracepoints<'b>(all: &'b [Arc<Btf>], pattern: &str) -> Vec<(String, &'b str, &'b Btf)> {
    let groups = groups();
    let group_of: HashMap<&str, &str> = groups
        .iter()
        .flat_map(|(group, names)| names.iter().map(|name| (name.as_str(), group.as_str())))
        .collect();
    let full = |name: &str| match group_of.get(name) {
        Some(group) => format!("{group}:{name}"),
        None => name.to_string(),
    };
    let own = |btf: &'b Arc<Btf>| btf.tracepoints().map(move |name| (name, &**btf));
    let all = all.iter().flat_map(own).map(|(name, btf)| (full(name), name, btf));
    let mut names: Vec<(String, &str, &Btf)> =
        all.filter(|(full, name, _)| matches(pattern, full) || matches(pattern, name)).collect();
    names.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    names
}

fn tell_tracepoints(all: &[Arc<Btf>], pattern: &str, told: &mut String) {
    for (full, name, btf) in tracepoints(all, pattern) {
        if let Ok(signature) = signature::of_tracepoint(btf, name) {
            let _ = writeln!(told, "{full}({})", arguments(btf, &signature));
        }
    }
}

/// The kernel's, then those of each module.
fn tell_functions(all: &[Arc<Btf>], pattern: &str, told: &mut String) {
    for btf in all {
        let module = btf.module().map(|module| format!("{module}:")).unwrap_or_default();
        let mut names: Vec<&str> = btf.functions().map(|(_, name)| name).collect();
        let own = pattern.strip_prefix(&module).unwrap_or(pattern);
        names.retain(|name| matches(own, name));
        names.sort_unstable();
        names.dedup();
        for name in names {
            if let Ok(signature) = signature::of_function(btf, name, true) {
                let _ = writeln!(told, "fn:{module}{name}({})", arguments(btf, &signature));
            }
        }
    }
}

/// `FILE:PATTERN`, or a file alone: its functions, or the points that were compiled into it.
fn tell_program(kind: &str, pattern: &str, told: &mut String) -> anyhow::Result<()> {
    let (file, pattern) = pattern.split_once(':').unwrap_or((pattern, "*"));
    let executable = Programs::of(None).open(file).map_err(|(wrong, near)| match near[..] {
        [] => anyhow!("{wrong}"),
        _ => anyhow!("{wrong}; near it: {}", near.join(", ")),
    })?;
    if kind == "user" {
        // The first of a name is the one that is meant.
        let mut functions: Vec<&Function> = executable.functions().iter().collect();
        functions.dedup_by_key(|function| &function.name);
        let names = functions.iter().filter(|function| !function.is_chosen_later);
        let names = names.map(|function| function.name.as_str());
        let names = names.filter(|name| matches(pattern, name));
        names.for_each(|name| *told += &format!("user:{file}:{name}\n"));
        return Ok(());
    }
    let full = |point: &UsdtPoint| format!("{}:{}", point.provider, point.name);
    let mut points: Vec<(String, usize)> =
        executable.points().iter().map(|point| (full(point), point.arguments.len())).collect();
    points.retain(|(name, _)| matches(pattern, name));
    points.sort();
    points.dedup_by(|next, kept| next.0 == kept.0);
    for (name, arguments) in points {
        let arguments: Vec<String> = (0..arguments).map(|number| format!("arg{number}")).collect();
        *told += &format!("usdt:{file}:{name}({})\n", arguments.join(", "));
    }
    Ok(())
}

fn arguments(btf: &Btf, signature: &Signature) -> String {
    let each = signature.arguments.iter();
    let each = each.map(|argument| format!("{}: {}", argument.name, btf.describe(argument.kind)));
    each.collect::<Vec<_>>().join(", ")
}

/// `*` stands for anything; without one, the pattern may stand anywhere in the name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let (Some(first), Some(last)) = (parts.next(), pattern.rsplit('*').next()) else {
        return false;
    };
    if !pattern.contains('*') {
        return name.contains(pattern);
    }
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let middle: Vec<&str> = parts.collect();
    for part in &middle[..middle.len() - 1] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::{matches, without_group};

    #[test]
    fn a_user_who_may_not_read_groups_is_told_to_leave_them_out() {
        let told = |pattern| without_group(pattern).expect("a group is named");
        assert!(told("sched:*").contains("`weigh trace list 'sched_*'`"));
        assert!(told("sched:sched_sw*").contains("`weigh trace list 'sched_sw*'`"));
        for other in ["sched_*", "usdt:libc.so.6:*", "syscall:nosuch"] {
            assert_eq!(without_group(other), None);
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("*", "net:netif_rx"));
        assert!(matches("net:*", "net:netif_rx"));
        assert!(matches("*_rx", "net:netif_rx"));
        assert!(matches("n*if*rx", "net:netif_rx"));
        assert!(matches("netif", "net:netif_rx"));
        assert!(!matches("netif*", "net:netif_rx"));
        assert!(!matches("net*ax", "net:netif_rx"));
    }
}
