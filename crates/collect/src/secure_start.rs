//! What a program with capabilities of its own loses at its exec, and its command is to have.
//!
//! `weigh-grant` makes such a copy of weigh. The loader takes `LD_LIBRARY_PATH`, `LD_PRELOAD`, `TMPDIR` and some more from
//! its environment (ld.so(8), "secure-execution mode"), and the kernel lowers its soft limit of the stack to 8 MiB. Its
//! command has no such capabilities, and would run without them. Reads the strings that the kernel has laid down at the
//! exec, and the limits of the parent; emits what is missing. weigh itself heeds none of the variables.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use weigh_parse::allowed::resource_limits;

use crate::procfs;

/// What the kernel leaves (`_STK_LIM`).
const LOWERED_STACK_BYTES: libc::rlim_t = 8 << 20;

/// Fields of `/proc/PID/stat`, counted from the one behind the name (proc_pid_stat(5): 50 and 51).
const ENVIRONMENT_START: usize = 47;

/// More than any environment that an exec takes.
const MOST_BYTES: usize = 16 << 20;

/// Whether weigh has capabilities by its file.
fn is_secure() -> bool {
    // SAFETY: the call reads what the kernel has given.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The limit of the stack before the exec, as far as that can be known: the kernel keeps no trace of it, and who starts a
/// program has the same limit as a rule.
pub(crate) fn stack_limit(now: libc::rlimit) -> libc::rlimit {
    let is_lowered = is_secure() && now.rlim_cur == LOWERED_STACK_BYTES;
    let before = is_lowered.then(soft_stack_of_parent).flatten().unwrap_or(now.rlim_cur);
    libc::rlimit { rlim_cur: before.max(now.rlim_cur).min(now.rlim_max), ..now }
}

fn soft_stack_of_parent() -> Option<libc::rlim_t> {
    let parent = rustix::process::getppid()?.as_raw_nonzero().get().cast_unsigned();
    let text = procfs::read_of(parent, "limits").ok()?;
    let limits = resource_limits(&String::from_utf8_lossy(&text));
    Some(limits.get("stack_bytes").and_then(|limit| limit.soft).unwrap_or(libc::RLIM_INFINITY))
}

/// The variables that are missing.
pub(crate) fn stripped() -> Vec<(OsString, OsString)> {
    let given = is_secure().then(given_at_exec).flatten().unwrap_or_default();
    variables(given).filter(|(name, _)| std::env::var_os(name).is_none()).collect()
}

/// A variable as weigh's command has it.
pub(crate) fn command_variable(name: &str) -> Option<OsString> {
    let of_stripped = || stripped().into_iter().find(|(stripped, _)| stripped == name);
    std::env::var_os(name).or_else(|| of_stripped().map(|(_, value)| value))
}

/// The environment as it was given to weigh, each string with a NUL behind it.
fn given_at_exec() -> Option<&'static [u8]> {
    let stat = procfs::read("/proc/self/stat").ok()?;
    let behind_name = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&stat[behind_name + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace().skip(ENVIRONMENT_START);
    let mut address = || fields.next()?.parse::<usize>().ok();
    let (start, end) = (address()?, address()?);
    let length = end.checked_sub(start).filter(|length| *length <= MOST_BYTES)?;
    if start == 0 || length == 0 {
        return None;
    }
    // SAFETY: the kernel has laid these bytes down at the top of the first stack, which stays mapped and which nobody in
    // this process writes to: the loader and the C library move pointers to them.
    Some(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start), length) })
}

fn variables(given: &[u8]) -> impl Iterator<Item = (OsString, OsString)> {
    let text = |bytes| OsStr::from_bytes(bytes).to_owned();
    given.split(|byte| *byte == 0).filter_map(move |entry| {
        let at = entry.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_found_where_the_kernel_laid_it() {
        let given: Vec<_> = variables(given_at_exec().expect("it is there")).collect();
        let path = std::env::var_os("PATH").expect("tests have one");
        assert!(given.contains(&("PATH".into(), path)), "{given:?}");
        // This program has no capabilities of its own.
        assert_eq!(stripped(), []);
    }

    #[test]
    fn entries_are_taken_apart() {
        let found: Vec<_> = variables(b"A=1\0B=c=d\0\0nothing\0=odd\0E=\0").collect();
        let expected = [("A", "1"), ("B", "c=d"), ("E", "")];
        assert_eq!(found, expected.map(|(name, value)| (name.into(), value.into())));
    }
}
