//! Pages of the program's own code that only its start needs: given back, for what runs for months should take little.
//!
//! Reads `/proc/self/maps`. The kernel maps the pages again from its cache when they are executed.

use std::os::raw::c_void;
use std::ptr::with_exposed_provenance_mut;

use rustix::mm::{Advice, madvise};

use crate::procfs;

/// Gives back the pages of code that are mapped now.
pub fn release() {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let maps = procfs::read("/proc/self/maps").unwrap_or_default();
    let program = program.to_string_lossy().into_owned();
    let maps = String::from_utf8_lossy(&maps);
    for (begin, bytes) in maps.lines().filter_map(|line| code_of(line, &program)) {
        let begin = with_exposed_provenance_mut::<c_void>(begin);
        // SAFETY: these are whole pages of a private mapping of a file, executable and not writable, and no page of it was
        // ever written to: code of a program that may lie anywhere is not changed when it is loaded. Each page is read from
        // the file again when it is used.
        let _ = unsafe { madvise(begin, bytes, Advice::LinuxDontNeed) };
    }
}

/// Where the mapping of a line begins and how long it is, if it is the program's own code.
fn code_of(line: &str, program: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let is_code = words.next()? == "r-xp" && line.ends_with(program) && words.nth(3)? == program;
    let [begin, end] = [begin, end].map(|at| usize::from_str_radix(at, 16).ok());
    Some((begin?, end?.checked_sub(begin?)?)).filter(|_| is_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_code_is_given_back() {
        let line = "7f00a000-7f00c000 r-xp 00001000 08:01 17                    /usr/bin/weigh";
        assert_eq!(code_of(line, "/usr/bin/weigh"), Some((0x7f00_a000, 0x2000)));
        for other in [
            "7f00a000-7f00c000 r--p 00001000 08:01 17                    /usr/bin/weigh",
            "7f00a000-7f00c000 rwxp 00001000 08:01 17                    /usr/bin/weigh",
            "7f00a000-7f00c000 r-xp 00001000 08:01 17                    /lib/usr/bin/weigh",
            "7f00a000-7f00c000 r-xp 00000000 00:00 0 ",
        ] {
            assert_eq!(code_of(other, "/usr/bin/weigh"), None, "{other}");
        }
        release();
        assert_eq!(code_of(line, "/usr/bin/weigh"), Some((0x7f00_a000, 0x2000)), "code runs on");
    }
}
