//! The files that the kernel opens to execute a program: the program, the loader that it names, and
//! a script with what interprets it.
//!
//! Reads what a process that has just called exec tells of itself. It opens no file: the file
//! system may be served by a process of the job.

use std::collections::HashSet;

use crate::procfs;

/// Under this key is where the name lies under which the program was executed.
const AT_EXECFN: u64 = 31;

/// One entry for each file that was opened, with its path where that is known.
pub fn files(pid: u32) -> Vec<Option<Vec<u8>>> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let program = program.map(|path| {
        use std::os::unix::ffi::OsStringExt as _;
        path.into_os_string().into_vec()
    });
    let maps = procfs::read_of(pid, "maps").unwrap_or_default();
    let mut files = vec![program.clone()];
    // Nothing but the program and its loader is mapped yet.
    files.extend(mapped(&maps).into_iter().filter(|path| Some(path) != program.as_ref()).map(Some));
    let auxiliary = procfs::read_of(pid, "auxv").unwrap_or_default();
    let arguments = procfs::read_of(pid, "cmdline").unwrap_or_default();
    let named =
        auxiliary_value(&auxiliary, AT_EXECFN).and_then(|at| super::sys::read_text(pid, at));
    files.extend(scripts(&arguments, named.as_deref().unwrap_or_default()).map(Some));
    files
}

/// Paths of files in `/proc/PID/maps`.
fn mapped(maps: &[u8]) -> HashSet<Vec<u8>> {
    let path = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'/')?;
        Some(line[at..].to_vec())
    };
    maps.split(|byte| *byte == b'\n').filter_map(path).collect()
}

/// What the kernel tells a program under a key (`/proc/PID/auxv`).
pub fn auxiliary_value(auxiliary: &[u8], key: u64) -> Option<u64> {
    // The words of a 32-bit program are shorter.
    [8, 4].into_iter().find_map(|word| {
        let mut pairs = auxiliary.chunks_exact(2 * word);
        let found = pairs.find(|pair| number(&pair[..word]) == key)?;
        Some(number(&found[word..]))
    })
}

/// A number in the order of bytes of x86 and ARM.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The script that was executed, if it was one: the kernel has then put the name of what
/// interprets it, and perhaps one more argument, before its name.
fn scripts(arguments: &[u8], named: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut first = arguments.split(|byte| *byte == 0).take(3).skip(1);
    let is_script = !named.is_empty() && first.any(|argument| argument == named);
    is_script.then(|| named.to_vec()).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_stands_behind_what_interprets_it() {
        let of = |arguments: &[u8], named: &[u8]| scripts(arguments, named).count();
        assert_eq!(of(b"/bin/sh\0./script\0", b"./script"), 1);
        assert_eq!(of(b"/usr/bin/env\0python3\0./script\0", b"./script"), 1);
        assert_eq!(of(b"cat\0/etc/passwd\0", b"/usr/bin/cat"), 0);
        assert_eq!(of(b"\0", b""), 0);
    }

    #[test]
    fn a_value_is_found_in_the_auxiliary_vector() {
        let words = [3u64, 7, 31, 4096, 0, 0];
        let long: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let short: Vec<u8> = words.iter().flat_map(|word| (*word as u32).to_le_bytes()).collect();
        assert_eq!(auxiliary_value(&long, AT_EXECFN), Some(4096));
        assert_eq!(auxiliary_value(&short, AT_EXECFN), Some(4096));
        assert_eq!(auxiliary_value(&long[..16], AT_EXECFN), None);
    }
}
