//! The parts of the kernel, by source file.
//!
//! Reads `data/subsystems.toml`, or text of that form. Emits the part that a file belongs to.
//! Refuses a part with two declarations, a path with two parts, a part without paths.

use std::collections::HashMap;

use serde::Deserialize;
use thiserror::Error;

const SHIPPED: &str = include_str!("../data/subsystems.toml");

/// What stands for no part of its own in [`Subsystems::of`]'s table.
const LEFT_OUT: usize = usize::MAX;
/// What stands for no part, and nothing behind it.
const END: usize = usize::MAX - 1;

/// Why a list of parts is not understood.
#[derive(Debug, Error)]
pub enum SubsystemsError {
    /// It is not of the form.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A part stands there twice.
    #[error("[[subsystem]] {0:?} stands there twice")]
    Twice(String),
    /// A part that nothing belongs to.
    #[error("[[subsystem]] {0:?} has no paths")]
    Empty(String),
    /// A table is called by a part that is not there.
    #[error("[[table]] {table:?}: there is no [[subsystem]] {caller:?}")]
    NoCaller {
        /// The first of its names.
        table: String,
        /// Which.
        caller: String,
    },
    /// A path that two lists claim.
    #[error("the path {path:?} stands in {one} and in {other}")]
    Claimed {
        /// Which.
        path: String,
        /// By the first.
        one: String,
        /// And the second.
        other: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    left_out: Vec<String>,
    #[serde(default)]
    ends: Vec<String>,
    #[serde(default)]
    table: Vec<NamedTable>,
    subsystem: Vec<Subsystem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedTable {
    names: Vec<String>,
    callers: Vec<String>,
}

/// A part of the kernel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subsystem {
    /// Its name.
    pub name: String,
    /// What it does.
    pub what: String,
    /// The beginnings of its files' paths.
    pub paths: Vec<String>,
}

/// Tables of operations of a kind.
#[derive(Clone, Debug)]
struct Tables {
    /// How their names end.
    names: Vec<String>,
    /// The parts that call by them.
    callers: Vec<usize>,
}

/// All parts.
#[derive(Clone, Debug)]
pub struct Subsystems {
    list: Vec<Subsystem>,
    tables: Vec<Tables>,
    by_path: HashMap<String, usize>,
    longest: usize,
}

impl Subsystems {
    /// Those that weigh declares.
    pub fn shipped() -> Self {
        Self::parse(SHIPPED).expect("data/subsystems.toml is tested")
    }

    /// Reads text of the form of `data/subsystems.toml`.
    pub fn parse(text: &str) -> Result<Self, SubsystemsError> {
        let File { left_out, ends, table, subsystem: list } = toml::from_str(text)?;
        let mut by_path = HashMap::new();
        let name = |number: usize| {
            let unnamed = if number == END { "ends" } else { "left_out" };
            list.get(number).map_or(unnamed.to_string(), |one| format!("{:?}", one.name))
        };
        let claims = left_out
            .iter()
            .map(|path| (path, LEFT_OUT))
            .chain(ends.iter().map(|path| (path, END)))
            .chain(
                list.iter()
                    .enumerate()
                    .flat_map(|(n, one)| one.paths.iter().map(move |path| (path, n))),
            );
        for (path, number) in claims {
            if let Some(before) = by_path.insert(path.clone(), number) {
                let (path, one, other) = (path.clone(), name(before), name(number));
                return Err(SubsystemsError::Claimed { path, one, other });
            }
        }
        for (number, one) in list.iter().enumerate() {
            if list[..number].iter().any(|before| before.name == one.name) {
                return Err(SubsystemsError::Twice(one.name.clone()));
            }
            if one.paths.is_empty() {
                return Err(SubsystemsError::Empty(one.name.clone()));
            }
        }
        let tables =
            table.into_iter().map(|table| numbered(table, &list)).collect::<Result<_, _>>()?;
        let longest = by_path.keys().map(String::len).max().unwrap_or_default();
        Ok(Self { list, tables, by_path, longest })
    }

    /// All of them; a part's number is its place.
    pub fn list(&self) -> &[Subsystem] {
        &self.list
    }

    /// The number of the part that a file belongs to; none if it belongs to its caller.
    pub fn of(&self, path: &str) -> Option<usize> {
        self.longest(path).filter(|number| *number < END)
    }

    /// Whether nothing is followed into a file.
    pub fn is_end(&self, path: &str) -> bool {
        self.longest(path) == Some(END)
    }

    fn longest(&self, path: &str) -> Option<usize> {
        let longest = path.len().min(self.longest);
        (1..=longest)
            .rev()
            .filter_map(|length| self.by_path.get(path.get(..length)?))
            .next()
            .copied()
    }

    /// The kind of table that a variable of that name is, if it is one.
    pub fn table(&self, name: &str) -> Option<usize> {
        let is_one = |end: &String| name.ends_with(end.as_str());
        self.tables.iter().position(|tables| tables.names.iter().any(is_one))
    }

    /// The parts that call what is in tables of a kind.
    pub fn callers(&self, kind: usize) -> &[usize] {
        &self.tables[kind].callers
    }
}

fn numbered(table: NamedTable, list: &[Subsystem]) -> Result<Tables, SubsystemsError> {
    let number = |caller: &String| {
        let unknown = || SubsystemsError::NoCaller {
            table: table.names.first().cloned().unwrap_or_default(),
            caller: caller.clone(),
        };
        list.iter().position(|one| one.name == *caller).ok_or_else(unknown)
    };
    let callers = table.callers.iter().map(number).collect::<Result<_, _>>()?;
    Ok(Tables { names: table.names, callers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: &str) -> Option<String> {
        let all = Subsystems::shipped();
        all.of(path).map(|number| all.list()[number].name.clone())
    }

    #[test]
    fn the_longest_path_decides() {
        assert_eq!(part("mm/slub.c").as_deref(), Some("memory"));
        assert_eq!(part("mm/filemap.c").as_deref(), Some("page_cache"));
        assert_eq!(part("net/ipv4/tcp_input.c").as_deref(), Some("tcp"));
        assert_eq!(part("net/ipv4/ip_output.c").as_deref(), Some("ip"));
        assert_eq!(part("fs/ext4/inode.c").as_deref(), Some("file_system"));
        assert_eq!(part("fs/read_write.c").as_deref(), Some("vfs"));
    }

    #[test]
    fn what_is_left_out_is_nobodys() {
        let all = Subsystems::shipped();
        assert!(all.is_end("kernel/printk/printk.c") && !all.is_end("lib/xarray.c"));
        for path in
            ["lib/xarray.c", "kernel/locking/mutex.c", "kernel/rcu/tree.c", "kernel/panic.c"]
        {
            assert_eq!(part(path), None, "{path}");
        }
        assert_eq!(part("kernel/sched/core.c").as_deref(), Some("sched"));
        assert_eq!(part("nowhere.c"), None);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |parts: &str| {
            let text = format!("left_out = [\"lib/\"]\n{parts}");
            Subsystems::parse(&text).expect_err("it is refused").to_string()
        };
        let a = "[[subsystem]]\nname = \"a\"\nwhat = \"\"\n";
        assert!(refused(&format!("{a}paths = [\"lib/\"]")).contains("left_out and in \"a\""));
        assert!(refused(&format!("{a}paths = []")).contains("no paths"));
        assert!(refused(&format!("{a}paths = [\"x\"]\n{a}paths = [\"y\"]")).contains("twice"));
        let table = "[[table]]\nnames = [\"_ops\"]\ncallers = [\"b\"]\n";
        assert!(refused(&format!("{table}{a}paths = [\"x\"]")).contains("no [[subsystem]] \"b\""));
        assert!(refused(&format!("{a}path = [\"x\"]")).contains("unknown field `path`"));
    }
}
