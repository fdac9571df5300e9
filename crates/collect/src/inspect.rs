//! A close look at one process, made while it is stopped at the point where it crossed a limit.
//!
//! Reads its arguments, mappings, kernel stack and open files from `/proc`, and turns addresses
//! of its stack into `function+offset` or `module+offset`. Whatever can not be read is named with
//! the reason, and the rest goes on: the process may be of another user, or end meanwhile.

mod symbols;
mod user_names;

use std::path::PathBuf;

use weigh_parse::offender::{largest_mappings, parse_kernel_stack};
use weigh_schema::byte_text;
use weigh_schema::summary::Offender;

use crate::procfs::{self, ProcError};
pub use symbols::symbolize;
pub use user_names::UserNames;

const OPEN_FILES: usize = 50;

/// Looks at thread `tid` of process `pid`.
pub fn inspect(pid: u32, tid: u32) -> Offender {
    look_at(pid, tid, true)
}

/// Looks at a process that runs on meanwhile, without its mappings: the kernel would count its pages first, which takes
/// long where there are many.
pub fn inspect_briefly(pid: u32) -> Offender {
    look_at(pid, pid, false)
}

fn look_at(pid: u32, tid: u32, with_mappings: bool) -> Offender {
    let mut unreadable = Vec::new();
    let mut read = |path: String| match procfs::read(&path) {
        Ok(text) => text,
        Err(error) => {
            unreadable.push(error.to_string());
            Vec::new()
        }
    };
    let name = read(format!("/proc/{pid}/task/{tid}/comm"));
    let name = byte_text::keep(name.strip_suffix(b"\n").unwrap_or(&name));
    let command = procfs::parse_cmdline(&read(format!("/proc/{pid}/cmdline")));
    let smaps = match with_mappings {
        true => read(format!("/proc/{pid}/smaps")),
        false => Vec::new(),
    };
    let kernel_stack = parse_kernel_stack(&read(format!("/proc/{pid}/task/{tid}/stack")));
    let open_files = open_files(pid).unwrap_or_else(|error| {
        unreadable.push(error.to_string());
        Vec::new()
    });
    Offender {
        pid,
        thread: tid,
        name: byte_text::shown(&name),
        name_base64: byte_text::base64(&name),
        command: all_shown(&command),
        command_base64: byte_text::base64_of_each(&command),
        mappings: largest_mappings(&smaps),
        stack: Vec::new(),
        stack_base64: Vec::new(),
        kernel_stack,
        open_files: all_shown(&open_files),
        open_files_base64: byte_text::base64_of_each(&open_files),
        unreadable,
    }
}

/// Names the addresses of its stack, innermost frame first.
pub fn add_stack(offender: &mut Offender, addresses: &[u64]) {
    let stack = symbolize(offender.pid, addresses);
    offender.stack = all_shown(&stack);
    offender.stack_base64 = byte_text::base64_of_each(&stack);
}

fn all_shown(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| byte_text::shown(text)).collect()
}

/// Descriptors and what they lead to, in their order, in the form that keeps their bytes; the last line says if there
/// are more.
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
            Ok(target) => {
                format!("{number} {}", byte_text::keep(target.as_os_str().as_encoded_bytes()))
            }
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
    fn a_process_that_is_gone_leaves_reasons() {
        let offender = inspect(u32::MAX - 1, u32::MAX - 1);
        assert_eq!(offender.unreadable.len(), 5, "{:?}", offender.unreadable);
        assert!(offender.open_files.is_empty() && offender.command.is_empty());
    }
}
