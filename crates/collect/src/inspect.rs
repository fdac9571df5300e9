//! A close look at one process, made while it is stopped at the point where it crossed a limit.
//!
//! Reads its arguments, mappings, kernel stack and open files from `/proc`, and turns addresses
//! of its stack into `function+offset` or `module+offset`. Whatever can not be read is named with
//! the reason, and the rest goes on: the process may be of another user, or end meanwhile.

mod symbols;
mod user_names;

use std::path::PathBuf;

use weigh_schema::summary::{Mapping, Offender};

use crate::procfs::{self, ProcError};
pub use symbols::symbolize;
pub use user_names::UserNames;

const MAPPINGS: usize = 10;
const OPEN_FILES: usize = 50;

/// Looks at thread `tid` of process `pid`.
pub fn inspect(pid: u32, tid: u32) -> Offender {
    let mut unreadable = Vec::new();
    let mut read = |path: String| match procfs::read(&path) {
        Ok(text) => text,
        Err(error) => {
            unreadable.push(error.to_string());
            Vec::new()
        }
    };
    let name = read(format!("/proc/{pid}/task/{tid}/comm"));
    let command = procfs::parse_cmdline(&read(format!("/proc/{pid}/cmdline")));
    let smaps = read(format!("/proc/{pid}/smaps"));
    let kernel_stack = parse_kernel_stack(&read(format!("/proc/{pid}/task/{tid}/stack")));
    let open_files = open_files(pid).unwrap_or_else(|error| {
        unreadable.push(error.to_string());
        Vec::new()
    });
    Offender {
        pid,
        thread: tid,
        name: String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned(),
        command,
        mappings: largest_mappings(&smaps),
        stack: Vec::new(),
        kernel_stack,
        open_files,
        unreadable,
    }
}

/// The mappings with the greatest resident size.
pub fn largest_mappings(smaps: &[u8]) -> Vec<Mapping> {
    let mut maps = procfs::parse_smaps(smaps);
    maps.sort_by_key(|(map, rss)| (std::cmp::Reverse(*rss), map.start));
    maps.into_iter()
        .take(MAPPINGS)
        .filter(|(_, rss)| *rss > 0)
        .map(|(map, rss_bytes)| Mapping {
            name: if map.name.is_empty() {
                "[anonymous]".to_owned()
            } else {
                String::from_utf8_lossy(&map.name).into_owned()
            },
            rss_bytes,
            size_bytes: map.end - map.start,
        })
        .collect()
}

/// The frames of `/proc/PID/stack`: `[<0>] name+0x1/0x2` becomes `name+0x1`.
pub fn parse_kernel_stack(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .map(|line| line.split_once("] ").map_or(line, |(_, frame)| frame))
        .map(|frame| frame.rsplit_once('/').map_or(frame, |(place, _)| place).trim().to_owned())
        .filter(|frame| !frame.is_empty())
        .collect()
}

/// Descriptors and what they lead to, in their order; the last line says if there are more.
fn open_files(pid: u32) -> Result<Vec<String>, ProcError> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = std::fs::read_dir(&folder)
        .map_err(|source| ProcError::Read { path: folder.clone(), source })?;
    let mut numbers: Vec<u32> =
        entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let mut files: Vec<String> = numbers
        .iter()
        .take(OPEN_FILES)
        .map(|number| match std::fs::read_link(folder.join(number.to_string())) {
            Ok(target) => format!("{number} {}", target.display()),
            Err(error) => format!("{number} ({error})"),
        })
        .collect();
    if numbers.len() > OPEN_FILES {
        files.push(format!("and {} more", numbers.len() - OPEN_FILES));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_frames_lose_their_decoration() {
        let text = b"[<0>] do_wait+0x5e/0x110\n[<0>] mod_fn+0x1/0x2 [ext4]\nodd\n\n";
        assert_eq!(parse_kernel_stack(text), ["do_wait+0x5e", "mod_fn+0x1", "odd"]);
    }

    #[test]
    fn the_largest_mappings_come_first() {
        let mut smaps = String::new();
        for n in 0..20 {
            let name = if n == 7 { "" } else { "/lib x" };
            smaps +=
                &format!("{:x}-{:x} rw-p 0 0:0 0 {name}\nRss: {n} kB\n", n << 16, (n + 1) << 16);
        }
        let maps = largest_mappings(smaps.as_bytes());
        assert_eq!(maps.len(), 10);
        assert_eq!((maps[0].rss_bytes, maps[0].size_bytes), (19 << 10, 1 << 16));
        assert_eq!((maps[0].name.as_str(), maps[9].rss_bytes), ("/lib x", 10 << 10));
        assert!(largest_mappings(b"1000-2000 rw-p 0 0:0 0 \nRss: 0 kB\n").is_empty());
        assert_eq!(
            largest_mappings(b"1000-2000 rw-p 0 0:0 0 \nRss: 1 kB\n")[0].name,
            "[anonymous]"
        );
    }

    #[test]
    fn a_process_that_is_gone_leaves_reasons() {
        let offender = inspect(u32::MAX - 1, u32::MAX - 1);
        assert_eq!(offender.unreadable.len(), 5, "{:?}", offender.unreadable);
        assert!(offender.open_files.is_empty() && offender.command.is_empty());
    }
}
