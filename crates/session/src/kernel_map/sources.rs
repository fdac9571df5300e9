//! What the running kernel shows of itself, and where its image may lie.
//!
//! Reads `/sys/kernel/notes`, `/proc/kallsyms`, `/sys/kernel/btf/vmlinux` and tracefs; emits their
//! contents. All but the build id may be missing: an image has the others, too.

use std::path::{Path, PathBuf};

use super::error::{KernelMapError, read};

const NOTES: &str = "/sys/kernel/notes";
const SYMBOLS: &str = "/proc/kallsyms";
const BTF: &str = "/sys/kernel/btf/vmlinux";
const FILTER_FUNCTIONS: &[&str] = &[
    "/sys/kernel/tracing/available_filter_functions",
    "/sys/kernel/debug/tracing/available_filter_functions",
];

/// Where an image of a release lies, and whether its symbols have been taken out. What has
/// debugging information comes first.
const PLACES: &[(&str, bool)] = &[
    ("/usr/lib/debug/boot/vmlinux-{}", false),
    ("/usr/lib/debug/lib/modules/{}/vmlinux", false),
    ("/lib/modules/{}/build/vmlinux", false),
    ("/boot/vmlinux-{}", false),
    ("/boot/vmlinuz-{}", true),
    ("/lib/modules/{}/vmlinuz", true),
];

/// The kernel that runs.
pub struct RunningKernel {
    pub release: String,
    pub build_id: String,
    /// Where it names the functions that ftrace offers, if that can be read.
    pub filter_functions: Option<&'static str>,
}

/// What it shows beside its image.
pub struct KernelTables {
    /// Names and addresses; nothing if the kernel hides the addresses.
    pub symbols: Option<Vec<u8>>,
    pub btf: Option<Vec<u8>>,
    pub filter_functions: Option<String>,
}

/// A place where its image may lie.
pub struct Candidate {
    pub path: PathBuf,
    pub is_stripped: bool,
}

impl RunningKernel {
    /// Which it is.
    pub fn look() -> Result<Self, KernelMapError> {
        let build_id = weigh_kernel::build_id(&read(NOTES)?)
            .ok_or_else(|| KernelMapError::NoBuildId(Path::new(NOTES).to_owned()))?;
        let can_be_read = |path: &&str| std::fs::File::open(path).is_ok();
        Ok(Self {
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            build_id,
            filter_functions: FILTER_FUNCTIONS.iter().copied().find(can_be_read),
        })
    }

    /// What it shows.
    pub fn shown(&self) -> KernelTables {
        let is_useful = |list: &Vec<u8>| weigh_kernel::Symbols::parse(list).is_ok();
        let text = |path: &str| read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        KernelTables {
            symbols: read(SYMBOLS).ok().filter(is_useful),
            btf: read(BTF).ok(),
            filter_functions: self.filter_functions.and_then(text),
        }
    }
}

/// The system calls of the running kernel, as the analysis names them; nothing if it does not name its functions.
pub fn calls() -> Option<Vec<String>> {
    calls_among(&String::from_utf8(read(SYMBOLS).ok()?).ok()?)
}

fn calls_among(symbols: &str) -> Option<Vec<String>> {
    let names = symbols.lines().filter_map(|line| line.split_ascii_whitespace().nth(2));
    let calls: Vec<String> = names
        .filter_map(|name| name.strip_prefix(weigh_kernel::ENTRY))
        .map(str::to_string)
        .collect();
    (!calls.is_empty()).then_some(calls)
}

/// All places for a release, the best first.
pub fn candidates(release: &str) -> impl Iterator<Item = Candidate> {
    PLACES.iter().map(move |(place, is_stripped)| Candidate {
        path: place.replace("{}", release).into(),
        is_stripped: *is_stripped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_even_where_addresses_are_hidden() {
        let symbols = "0000000000000000 T __x64_sys_read\n0000000000000000 t vfs_read\n\
                       0000000000000000 T __x64_sys_newfstatat\n0000000000000000 t other\t[module]\n";
        assert_eq!(calls_among(symbols), Some(vec!["read".to_string(), "newfstatat".to_string()]));
        assert_eq!(calls_among("0000000000000000 t vfs_read\n"), None);
    }
}
