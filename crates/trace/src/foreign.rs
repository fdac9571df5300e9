//! Events as perf and bpftrace write them, in weigh's own words.
//!
//! Reads what stands before the first `:`; emits the same event as [`crate::event`] reads it. Refuses kinds of
//! probes that weigh does not have, with what comes nearest.

use std::borrow::Cow;

use crate::error::{Refusal, Span, Wrong};

/// Kinds that weigh lacks, and what to do instead.
const LACKING: &[(&str, &str)] = &[
    (
        "profile",
        "there is no event by time; `every 10ms` behind an event takes one in so much time",
    ),
    ("interval", "there is no event by time; `--live` and `--rate` tell what happens in a second"),
    (
        "software",
        "a counter is a field of an event: `-e 'sched:sched_switch{counter(page-faults)}'`",
    ),
    ("hardware", "a counter is a field of an event: `-e 'sched:sched_switch{counter(cycles)}'`"),
    ("watchpoint", "memory is not watched; `user:FILE:FUNCTION` follows a function"),
    ("iter", "there are events alone; `weigh trace list` says which"),
];

/// The event in weigh's own words.
pub fn own_words(text: &str) -> Result<Cow<'_, str>, Refusal> {
    let begin = text.trim_start();
    let Some((word, rest)) = begin.split_once(':') else { return Ok(text.into()) };
    let own = match word {
        "tracepoint" | "tp" | "t" => return Ok(rest.into()),
        "kprobe" | "kfunc" | "fentry" | "k" | "f" => format!("fn:{}", kernel(rest)),
        "kretprobe" | "kretfunc" | "fexit" | "kr" | "fr" => {
            format!("fn:{}", returning(kernel(rest)))
        }
        "uprobe" | "u" => format!("user:{rest}"),
        "uretprobe" | "ur" => format!("user:{}", returning(rest)),
        "rawtracepoint" | "rt" => format!("raw:{rest}"),
        _ => {
            let Some((_, instead)) = LACKING.iter().find(|(lacking, _)| *lacking == word) else {
                return Ok(text.into());
            };
            let span = Span { at: text.len() - begin.len(), length: word.len() };
            return Err(span.refuse(text, Wrong::Unsupported((*instead).to_string())));
        }
    };
    Ok(own.into())
}

/// The kernel itself is no module.
fn kernel(rest: &str) -> &str {
    rest.strip_prefix("vmlinux:").unwrap_or(rest)
}

/// `%return` behind the function's name.
fn returning(rest: &str) -> String {
    let end = rest.find(['{', ' ']).unwrap_or(rest.len());
    let (function, behind) = rest.split_at(end);
    format!("{function}%return{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_are_understood() {
        for (text, own) in [
            ("kprobe:vfs_write{ret} if pid == 1", "fn:vfs_write{ret} if pid == 1"),
            ("kretprobe:vfs_write{ret}", "fn:vfs_write%return{ret}"),
            ("kfunc:vmlinux:vfs_write", "fn:vfs_write"),
            ("uprobe:/bin/bash:readline", "user:/bin/bash:readline"),
            ("uretprobe:/bin/bash:readline if ret", "user:/bin/bash:readline%return if ret"),
            ("tracepoint:sched:sched_switch", "sched:sched_switch"),
            ("rawtracepoint:sys_enter", "raw:sys_enter"),
            ("sched:sched_switch", "sched:sched_switch"),
            ("openat", "openat"),
        ] {
            assert_eq!(own_words(text).unwrap(), own);
        }
        for (lacking, _) in LACKING {
            assert!(own_words(&format!("{lacking}:hz:99")).is_err());
        }
    }
}
