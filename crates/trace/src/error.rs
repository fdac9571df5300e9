//! Errors in an event spec: cause, position, suggestions.

use std::fmt;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// Something else should stand there.
    #[error("expected {expected}")]
    Expected {
        /// What.
        expected: &'static str,
    },
    /// A number that is too large, or out of what is allowed.
    #[error("{number} is out of range: {allowed}")]
    Range {
        /// The number, as it was written.
        number: String,
        /// What is allowed.
        allowed: String,
    },
    /// No address, or no prefix.
    #[error("expected {0}")]
    Address(String),
    /// It is nested too deep, or too long.
    #[error("too much: {0}")]
    TooMuch(String),
    /// No such tracepoint.
    #[error("this kernel has no tracepoint '{0}'")]
    NoTracepoint(String),
    /// The tracepoint is in another group.
    #[error("the tracepoint {name} is in the group '{group}', not in '{asked}'")]
    OtherGroup {
        /// The tracepoint.
        name: String,
        /// Its group.
        group: String,
        /// The group that was asked for.
        asked: String,
    },
    /// A tracepoint of a module that does not tell its types.
    #[error(
        "nobody tells the types of the tracepoint '{0}': its module has no type information; `raw:{0}` takes its arguments as numbers"
    )]
    NoTypes(String),
    /// A function of such a module.
    #[error(
        "the function '{name}' is of the module {module}, which has no type information: its arguments are not known"
    )]
    NoTypesOfFunction {
        /// The function.
        name: String,
        /// The module.
        module: String,
    },
    /// Functions of several modules.
    #[error("several modules have a function '{name}'; say of which: {}", modules.iter().map(|module| format!("fn:{module}:{name}")).collect::<Vec<_>>().join(", "))]
    SeveralModules {
        /// The function.
        name: String,
        /// The modules.
        modules: Vec<String>,
    },
    /// Types of modules that cannot be read, one of which may have it.
    #[error("{wrong}; of these modules the types cannot be read: {}", damaged.join(", "))]
    DamagedModules {
        /// What was not found.
        wrong: Box<Wrong>,
        /// The modules, and why not.
        damaged: Vec<String>,
    },
    /// No such system call.
    #[error("there is no system call '{0}' here")]
    NoCall(String),
    /// A name of an error or a flag that none has.
    #[error("there is no {what} '{name}'")]
    NoName {
        /// What it would be the name of.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No such function.
    #[error("this kernel's type information has no function '{0}'")]
    NoFunction(String),
    /// A program or library names no such function.
    #[error("{path} names no function '{name}' ({})", named(*all))]
    NoUserFunction {
        /// The file.
        path: String,
        /// The function.
        name: String,
        /// How many it names.
        all: usize,
    },
    /// A program or library has no such point.
    #[error("{path} has no point '{name}' that was compiled in ({all} others)")]
    NoUserPoint {
        /// The file.
        path: String,
        /// The point.
        name: String,
        /// How many it has.
        all: usize,
    },
    /// A program or library cannot be probed there, or at all.
    #[error("{path}: {why}")]
    Executable {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// None of the events that are followed.
    #[error("no event that is followed is called '{0}'")]
    NoEvent(String),
    /// No such counter.
    #[error(
        "there is no counter '{0}'; those with a name are told by `weigh trace list counter`, others are written as the processor numbers them: r01c2"
    )]
    NoCounter(String),
    /// This machine does not have it.
    #[error("the counter '{name}' cannot be had: {why}; counters that can be had here: {}", here.join(", "))]
    CounterNotHere {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
        /// Those that it has.
        here: Vec<&'static str>,
    },
    /// A kind of event that is not there yet.
    #[error("{0}")]
    Unsupported(String),
    /// Not an ordinary user's to see.
    #[error("{0}")]
    NotAUsers(String),
    /// No such argument.
    #[error("{event} has no argument '{name}'")]
    NoArgument {
        /// The event.
        event: String,
        /// What was asked for.
        name: String,
    },
    /// None of the events of a recording has such a field.
    #[error("no event of the recording has a field '{0}'")]
    NoField(String),
    /// No such member.
    #[error("{of} has no member '{name}'")]
    NoMember {
        /// The structure.
        of: String,
        /// What was asked for.
        name: String,
    },
    /// It has no members, or no elements.
    #[error("{what} is {kind}: {why}")]
    Type {
        /// The path so far.
        what: String,
        /// Its type.
        kind: String,
        /// What cannot be done with it.
        why: &'static str,
    },
    /// No such constant.
    #[error("'{0}' is neither an argument of the event nor a constant of the other side's type")]
    NoConstant(String),
    /// Twice the same name.
    #[error("there are two fields named '{0}'")]
    Twice(String),
    /// The kernel's type information is damaged.
    #[error("the kernel's type information cannot be followed: {0}")]
    Btf(crate::btf::BtfError),
}

fn named(all: usize) -> String {
    match all {
        0 => "it names none: its symbols were stripped".to_string(),
        all => format!("of {all}"),
    }
}

/// An event spec that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The text.
    pub text: String,
    /// Where in it, in bytes.
    pub at: usize,
    /// How much of it.
    pub length: usize,
    /// What is wrong.
    pub wrong: Box<Wrong>,
    /// What exists that is near.
    pub near: Vec<String>,
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text.get(..self.at).unwrap_or(&self.text);
        let marked = self.text.get(self.at..).and_then(|rest| rest.get(..self.length));
        let column = before.chars().count();
        let marks = marked.map_or(1, |text| text.chars().count()).max(1);
        writeln!(f, "{}", self.wrong)?;
        writeln!(f, "    {}", self.text)?;
        write!(f, "    {}{}", " ".repeat(column), "^".repeat(marks))?;
        match self.near.as_slice() {
            [] => Ok(()),
            near => write!(f, "\n    near it: {}", near.join(", ")),
        }
    }
}

/// A stretch of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it begins, in bytes.
    pub at: usize,
    /// Its length.
    pub length: usize,
}

impl Span {
    /// From where this begins to where that one ends.
    pub fn to(self, other: Span) -> Span {
        Span { at: self.at, length: (other.at + other.length).saturating_sub(self.at) }
    }

    /// A refusal of it.
    pub fn refuse(self, text: &str, wrong: Wrong) -> Refusal {
        Refusal {
            text: text.to_string(),
            at: self.at,
            length: self.length,
            wrong: Box::new(wrong),
            near: Vec::new(),
        }
    }
}

impl Refusal {
    /// The same, with what exists that is near.
    pub fn near(mut self, near: Vec<String>) -> Refusal {
        self.near.extend(near);
        self
    }
}

/// Why a file has nothing that could be probed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutableError {
    /// A text, perhaps, that another program interprets.
    #[error("it is no program and no library (ELF)")]
    NoElf,
    /// Of another kind of machine, or of 32 bits.
    #[error("its code is of another kind of machine, or of 32 bits")]
    OtherMachine,
    /// It contradicts itself.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl From<object::read::Error> for ExecutableError {
    fn from(error: object::read::Error) -> ExecutableError {
        ExecutableError::Damaged(error.to_string())
    }
}

/// Why there is none: what is wrong, and the nearest names.
pub type NoSignature = (Wrong, Vec<String>);
