//! The kernel's functions by name, as `/proc/kallsyms` lists them.

use std::collections::HashMap;

use weigh_schema::configuration::{ConfigurationError, Function};
use weigh_schema::nearest;

/// A name in the list.
#[derive(Default)]
struct SymbolEntry {
    /// How many functions have it.
    many: u32,
    /// Where one of them is; 0 if the kernel does not show addresses.
    address: u64,
}

/// The functions by name; none if the list cannot be read.
pub(super) struct Symbols(HashMap<String, SymbolEntry>);

impl Symbols {
    pub(super) fn of_this_kernel() -> Symbols {
        let text = crate::procfs::read("/proc/kallsyms").unwrap_or_default();
        Symbols::parse(&text)
    }

    /// Lines such as `ffffffff81000000 T _stext`, with `[module]` behind those of modules.
    fn parse(text: &[u8]) -> Symbols {
        let mut functions: HashMap<String, SymbolEntry> = HashMap::new();
        for line in text.split(|byte| *byte == b'\n') {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if matches!(kind, b"t" | b"T" | b"w" | b"W") {
                let known =
                    functions.entry(String::from_utf8_lossy(name).into_owned()).or_default();
                let digits = std::str::from_utf8(address).unwrap_or_default();
                known.many += 1;
                known.address = u64::from_str_radix(digits, 16).unwrap_or_default();
            }
        }
        Symbols(functions)
    }

    /// Whether a function is there, once.
    pub(super) fn have(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.get(name).is_some_and(|known| known.many == 1)
    }

    /// Whether a function is known to be there.
    pub(super) fn know(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Where a function is that is there once; 0 if that is not told.
    pub(super) fn address(&self, name: &str) -> u64 {
        self.0.get(name).filter(|known| known.many == 1).map_or(0, |known| known.address)
    }

    /// Refuses a function that is not there, or that is there more than once.
    pub(super) fn check(&self, function: &Function) -> Result<(), ConfigurationError> {
        let name = &function.name;
        match self.0.get(name).map(|known| known.many) {
            // Without permission to read the list, the failed attachment tells.
            _ if self.0.is_empty() => Ok(()),
            Some(1) => Ok(()),
            Some(many) => {
                let expected = format!(
                    "a function that is there once; this kernel has {many} of this name, and \
                     nothing tells which of them is meant"
                );
                Err(ConfigurationError::value(&function.at, name, expected))
            }
            None => {
                let what = "function of this kernel that is not built into its callers,";
                Err(ConfigurationError::unknown(&function.at, what, name, self.near(name)))
            }
        }
    }

    fn near(&self, name: &str) -> Vec<&str> {
        // Parts that the compiler has split off are no functions to their callers.
        let whole = |candidate: &&str| !candidate.contains(".cold") && !candidate.contains(".part");
        let mut names: Vec<&str> = self.0.keys().map(String::as_str).filter(whole).collect();
        names.sort_unstable();
        nearest(name, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::configuration::At;

    fn check(name: &str) -> Result<(), String> {
        let text = b"0000 T vfs_read\n0000 t vfs_write\n0000 d vfs_data\n\
                     0000 t twice\n0000 t twice\t[module]\n0000 t vfs_reads.cold\n";
        let at = At { file: "f.toml".into(), line: 7, key: "k".into() };
        let function = Function { name: name.into(), at };
        Symbols::parse(text).check(&function).map_err(|error| error.to_string())
    }

    #[test]
    fn a_function_is_there_once_or_refused() {
        assert_eq!(check("vfs_read"), Ok(()));
        let refusal = check("vfs_raed").expect_err("there is none");
        assert!(refusal.starts_with("f.toml:7: k: ") && refusal.contains("vfs_read"), "{refusal}");
        assert!(check("vfs_data").expect_err("it is no function").contains("'vfs_data'"));
        assert!(check("twice").expect_err("there are two").contains("2 of this name"));
    }
}
