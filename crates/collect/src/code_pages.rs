//! Pages of the program's file and of the C library that only its start needs: given back, for what runs for months should
//! take little.
//!
//! Reads `/proc/self/smaps`. The kernel maps the pages again from its cache when they are used.

use std::os::raw::c_void;
use std::ptr::with_exposed_provenance_mut;

use rustix::mm::{Advice, madvise};

use crate::procfs;

/// Loaded before the program begins, and never again: nothing is mapped in their places meanwhile.
const LIBRARIES: [&str; 4] = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux"];

/// Gives back the pages of code and of constants that are mapped now.
pub fn release() {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let smaps = procfs::read("/proc/self/smaps").unwrap_or_default();
    let program = program.to_string_lossy().into_owned();
    let smaps = String::from_utf8_lossy(&smaps);
    for (begin, bytes) in clean_mappings(&smaps, &program) {
        let begin = with_exposed_provenance_mut::<c_void>(begin);
        // SAFETY: these are whole pages of a private mapping of a file, not writable, of which the kernel says that no page
        // was ever written to. What was when the program was loaded, as tables of addresses, has such pages and is left out;
        // afterwards nobody makes them writable. Each page is read from the file again when it is used.
        let _ = unsafe { madvise(begin, bytes, Advice::LinuxDontNeed) };
    }
}

/// Where mappings begin and how long they are: of the program and the libraries, without pages that differ from the file.
fn clean_mappings(smaps: &str, program: &str) -> Vec<(usize, usize)> {
    let (mut found, mut mapping) = (Vec::new(), None);
    for line in smaps.lines() {
        match line.strip_prefix("Anonymous:") {
            Some(size) if size.trim() == "0 kB" => found.extend(mapping.take()),
            Some(_) => mapping = None,
            None if is_head(line) => mapping = read_only_part(line, program),
            None => {}
        }
    }
    found
}

/// Other lines begin with a name in capitals, and a colon.
fn is_head(line: &str) -> bool {
    !line.split(' ').next().is_some_and(|word| word.ends_with(':'))
}

fn read_only_part(line: &str, program: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let is_read_only = ["r-xp", "r--p"].contains(&words.next()?);
    let path = words.nth(3)?;
    let name = path.rsplit('/').next()?;
    let is_library = || path.starts_with('/') && LIBRARIES.iter().any(|own| name.starts_with(own));
    let is_own = path == program && line.ends_with(program);
    let [begin, end] = [begin, end].map(|at| usize::from_str_radix(at, 16).ok());
    let range = (begin?, end?.checked_sub(begin?)?);
    (is_read_only && (is_own || is_library())).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_unwritten_pages_are_given_back() {
        let code = "7f00a000-7f00c000 r-xp 00001000 08:01 17                    /usr/bin/weigh";
        let found = |head: &str, anonymous: &str| {
            let other = "7f000000-7f00a000 rw-p 00000000 00:00 0 \nSize: 40 kB\nAnonymous: 0 kB\n";
            let smaps = format!(
                "{other}{head}\nSize:    8 kB\nRss:    8 kB\nAnonymous:    {anonymous} kB\nVmFlags: rd mr\n{other}"
            );
            clean_mappings(&smaps, "/usr/bin/weigh")
        };
        let constants = code.replace("r-xp", "r--p");
        let library = code.replace("/usr/bin/weigh", "/lib/x86_64-linux-gnu/libc.so.6");
        for line in [code, &constants, &library] {
            assert_eq!(found(line, "0"), [(0x7f00_a000, 0x2000)], "{line}");
            assert!(found(line, "4").is_empty(), "tables of addresses are written at the start");
        }
        for other in [
            "7f00a000-7f00c000 rwxp 00001000 08:01 17                    /usr/bin/weigh",
            "7f00a000-7f00c000 rw-p 00001000 08:01 17                    /usr/bin/weigh",
            "7f00a000-7f00c000 r-xp 00001000 08:01 17                    /lib/usr/bin/weigh",
            "7f00a000-7f00c000 r-xp 00001000 08:01 17                    /lib/libnvidia-ml.so.1",
            "7f00a000-7f00c000 r-xp 00000000 00:00 0 ",
        ] {
            assert!(found(other, "0").is_empty(), "{other}");
        }
        release();
        assert_eq!(found(code, "0"), [(0x7f00_a000, 0x2000)], "code runs on");
    }

    #[test]
    fn what_is_given_back_is_resident_no_more() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = resident();
        release();
        assert!(resident() < before, "{} of {before} KiB", resident());
    }
}
