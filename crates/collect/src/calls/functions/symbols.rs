//! The kernel's functions by name, as `/proc/kallsyms` lists them.

use std::collections::HashMap;

use weigh_schema::configuration::{ConfigurationError, Function};
use weigh_schema::nearest;

/// How many functions there are of each name; none if the list can not be read.
pub(super) struct Symbols(HashMap<String, u32>);

impl Symbols {
    pub(super) fn of_this_kernel() -> Symbols {
        let text = crate::procfs::read("/proc/kallsyms").unwrap_or_default();
        Symbols::parse(&text)
    }

    /// Lines such as `ffffffff81000000 T _stext`, with `[module]` behind those of modules.
    fn parse(text: &[u8]) -> Symbols {
        let mut functions = HashMap::new();
        for line in text.split(|byte| *byte == b'\n') {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let (Some(_), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if matches!(kind, b"t" | b"T" | b"w" | b"W") {
                *functions.entry(String::from_utf8_lossy(name).into_owned()).or_insert(0) += 1;
            }
        }
        Symbols(functions)
    }

    /// Whether a function is there, once.
    pub(super) fn have(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.get(name) == Some(&1)
    }

    /// Refuses a function that is not there, or that is there more than once.
    pub(super) fn check(&self, function: &Function) -> Result<(), ConfigurationError> {
        let name = &function.name;
        match self.0.get(name) {
            // Whoever may not read the list finds out when it does not attach.
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
