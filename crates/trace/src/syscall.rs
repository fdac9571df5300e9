//! System calls by name: their numbers here, and what their arguments are.
//!
//! Names and numbers are those of the `syscalls` crate; arguments are declared below, as the kernel names them in
//! `SYSCALL_DEFINE`. A call that is not in the table has arguments `arg0` to `arg5`, as numbers.

use syscalls::Sysno;

use crate::vocabulary::Vocabulary;

mod table;

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A number of so many bytes.
    Number {
        /// How many.
        bytes: u32,
        /// Whether it can be below 0.
        is_signed: bool,
        /// Names of its values.
        names: Option<Vocabulary>,
    },
    /// An address.
    Pointer,
    /// The address of a text.
    Text,
}

const fn number(bytes: u32, is_signed: bool, names: Option<Vocabulary>) -> ArgumentKind {
    ArgumentKind::Number { bytes, is_signed, names }
}

const KINDS: &[(&str, ArgumentKind)] = &[
    ("int", number(4, true, None)),
    ("uint", number(4, false, None)),
    ("long", number(8, true, None)),
    ("size", number(8, false, None)),
    ("ptr", ArgumentKind::Pointer),
    ("text", ArgumentKind::Text),
    ("dir", number(4, true, Some(Vocabulary::Directory))),
    ("signal", number(4, true, Some(Vocabulary::Signals))),
    ("whence", number(4, true, Some(Vocabulary::Whence))),
    ("family", number(4, true, Some(Vocabulary::Families))),
    ("open", number(4, false, Some(Vocabulary::Open))),
    ("at", number(4, false, Some(Vocabulary::At))),
    ("access", number(4, false, Some(Vocabulary::Access))),
    ("prot", number(8, false, Some(Vocabulary::Protection))),
    ("map", number(8, false, Some(Vocabulary::Map))),
    ("clone", number(8, false, Some(Vocabulary::Clone))),
    ("msg", number(4, false, Some(Vocabulary::Message))),
    ("mount", number(8, false, Some(Vocabulary::Mount))),
];

/// The number of a system call on this architecture.
pub fn number_of(name: &str) -> Option<u32> {
    let name = real_name(name);
    let call = Sysno::iter().find(|call| call.name() == name)?;
    u32::try_from(call.id()).ok()
}

/// All of this architecture.
pub fn all() -> impl Iterator<Item = (u32, &'static str)> {
    Sysno::iter().filter_map(|call| Some((u32::try_from(call.id()).ok()?, call.name())))
}

/// Names of the kernel's functions, which are those of its events, where the call has another.
const ALIASES: &[(&str, &str)] = &[
    ("newstat", "stat"),
    ("newlstat", "lstat"),
    ("newfstat", "fstat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
    ("prlimit", "prlimit64"),
    ("pread", "pread64"),
    ("pwrite", "pwrite64"),
];

/// The name that the call has here.
pub fn real_name(name: &str) -> &str {
    let is_known = Sysno::iter().any(|call| call.name() == name);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name && !is_known);
    alias.map_or(name, |(_, real)| real)
}

/// Arguments of a system call, by name; those of a call that is not declared are numbers.
pub fn arguments(name: &str) -> Vec<(&'static str, ArgumentKind)> {
    let name = real_name(name);
    match table::ARGUMENTS.iter().find(|(other, _)| *other == name) {
        Some((_, arguments)) => arguments.split_whitespace().filter_map(argument).collect(),
        None => {
            let names = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"];
            names.map(|name| (name, number(8, false, None))).to_vec()
        }
    }
}

/// `NAME:KIND`; the kind of a plain name is `int`.
fn argument(text: &'static str) -> Option<(&'static str, ArgumentKind)> {
    let (name, kind) = text.split_once(':').unwrap_or((text, "int"));
    KINDS.iter().find(|(word, _)| *word == kind).map(|(_, kind)| (name, *kind))
}

/// Whether a name is what a pattern with `*` and `?` says.
pub fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let rest = &pattern[1..];
            matches(rest, name)
                || name.chars().next().is_some_and(|c| matches(pattern, &name[c.len_utf8()..]))
        }
        (Some('?'), Some(b)) => matches(&pattern[1..], &name[b.len_utf8()..]),
        (Some(a), Some(b)) if a == b => matches(&pattern[a.len_utf8()..], &name[b.len_utf8()..]),
        _ => false,
    }
}

/// Whether a text is such a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_numbers_and_arguments() {
        let number = if cfg!(target_arch = "aarch64") { 56 } else { 257 };
        assert_eq!(number_of("openat"), Some(number));
        assert_eq!(number_of("newfstat"), number_of("fstat"));
        assert_eq!(number_of("nothing"), None);
        let names: Vec<&str> = arguments("openat").iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["dfd", "filename", "flags", "mode"]);
        assert_eq!(arguments("openat")[1].1, ArgumentKind::Text);
        assert_eq!(arguments("no_such_call").len(), 6);
    }

    #[test]
    fn the_table_is_in_order_and_each_kind_is_one() {
        assert!(table::ARGUMENTS.is_sorted_by(|a, b| a.0 < b.0));
        for (call, declared) in table::ARGUMENTS {
            let arguments = arguments(call);
            assert_eq!(arguments.len(), declared.split_whitespace().count(), "{call}");
            assert!(arguments.len() <= 6, "{call}");
        }
    }

    #[test]
    fn most_calls_of_this_machine_are_declared() {
        let unknown: Vec<&str> = all()
            .map(|(_, name)| name)
            .filter(|name| !table::ARGUMENTS.iter().any(|(other, _)| other == name))
            .collect();
        assert!(unknown.len() < 40, "{unknown:?}");
    }

    #[test]
    fn patterns_match_names() {
        assert!(matches("*at", "openat") && matches("open*", "openat2") && matches("*", ""));
        assert!(matches("sys_enter_*at*", "sys_enter_openat2") && matches("d?p", "dup"));
        assert!(!matches("*at", "openat2") && !matches("dup", "dup2") && !matches("d?", "dup"));
    }
}
