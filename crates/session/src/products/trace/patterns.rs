//! Events by a pattern, and lists of names as strace takes them.
//!
//! Reads `sched:sched_process_*`, `syscalls:sys_enter_*at`, `trace=openat,close`; emits an event for each name that
//! matches, with the fields and the filter behind it. Refuses patterns that nothing matches, and those that so much
//! matches that one event for all is better.

use anyhow::bail;
use weigh_trace::btf::Btf;
use weigh_trace::foreign::own_words;
use weigh_trace::syscall;

use super::tracepoint_groups::groups;

/// Each event is a program of its own, and every system call passes all of those at its tracepoint.
const MOST: usize = 64;

/// The events that a text means.
pub fn expand(text: &str, kernel: &Btf) -> anyhow::Result<Vec<String>> {
    let text = text.strip_prefix("trace=").unwrap_or(text);
    let text = own_words(text).map_err(|refusal| anyhow::anyhow!("{refusal}"))?.into_owned();
    let end = text.find(['{', ' ']).unwrap_or(text.len());
    let (head, behind) = text.split_at(end);
    let is_list = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | '*' | '?');
    let mut heads = vec![head];
    if head.contains(',') && head.chars().all(is_list) {
        heads = head.split(',').filter(|name| !name.is_empty()).collect();
    }
    let mut all = Vec::new();
    for head in heads {
        match syscall::is_pattern(head) && !is_of_program(head) {
            false => all.push(head.to_string()),
            true => all.extend(matching(head, kernel)?),
        }
    }
    Ok(all.into_iter().map(|head| head + behind).collect())
}

/// Names of files may have any characters.
fn is_of_program(head: &str) -> bool {
    head.starts_with("user:") || head.starts_with("usdt:")
}

fn matching(pattern: &str, kernel: &Btf) -> anyhow::Result<Vec<String>> {
    let found = match pattern.split_once(':') {
        Some(("syscalls", "sys_enter_*")) => vec!["raw_syscalls:sys_enter".to_string()],
        Some(("syscalls", "sys_exit_*")) => vec!["raw_syscalls:sys_exit".to_string()],
        Some(("syscall", name)) => calls(name, &["syscall:"]),
        Some(("syscalls", name)) => {
            let edges = ["syscalls:sys_enter_", "syscalls:sys_exit_"];
            match name.starts_with("sys_") {
                true => calls(&format!("syscalls:{name}"), &edges),
                false => calls(name, &["syscall:"]),
            }
        }
        Some((kind @ ("fn" | "raw"), _)) => bail!(
            "a pattern is for tracepoints and system calls: `weigh trace list '{}'` says which names there are",
            if kind == "fn" { pattern } else { "*" }
        ),
        Some((group, name)) => tracepoints(Some(group), name, kernel),
        None => {
            let mut all = calls(pattern, &["syscall:"]);
            all.extend(tracepoints(None, pattern, kernel));
            all
        }
    };
    match found.len() {
        0 => bail!(
            "no event is like '{pattern}'; `weigh trace list '*'` and `weigh trace list 'syscall:*'` say which there are"
        ),
        1..=MOST => Ok(found),
        many => bail!(
            "{many} events are like '{pattern}', of {MOST} at most; `-e raw_syscalls:sys_enter` and \
             `-e raw_syscalls:sys_exit` are all system calls with their names"
        ),
    }
}

/// System calls, each with what stands before its name. A pattern with a `:` is one of the whole.
fn calls(pattern: &str, before: &[&str]) -> Vec<String> {
    let mut names: Vec<&str> = syscall::all().map(|(_, name)| name).collect();
    names.sort_unstable();
    let is_whole = pattern.contains(':');
    let all = before
        .iter()
        .flat_map(|before| names.iter().map(move |name| (format!("{before}{name}"), *name)));
    let found =
        all.filter(|(whole, name)| syscall::matches(pattern, if is_whole { whole } else { name }));
    found.map(|(whole, _)| whole).collect()
}

fn tracepoints(group: Option<&str>, pattern: &str, kernel: &Btf) -> Vec<String> {
    let groups = groups();
    let is_in = |group: &str, name: &str| {
        let known = groups.iter().find(|(other, _)| other == group);
        // Without the kernel's list a tracepoint's group is not known.
        known.is_none_or(|(_, names)| names.iter().any(|other| other == name)) || groups.is_empty()
    };
    let names = kernel.tracepoints().filter(|name| syscall::matches(pattern, name));
    let names = names.filter(|name| group.is_none_or(|group| is_in(group, name)));
    let mut names: Vec<String> = match group {
        Some(group) => names.map(|name| format!("{group}:{name}")).collect(),
        None => names.map(str::to_string).collect(),
    };
    names.sort_unstable();
    names
}
