//! Hard cases: declared once, run with each mechanism, held to the job's own word and to a run
//! without weigh; what each mechanism gave becomes `docs/hard-cases.md`.
//!
//! A case fails if the job was harmed (it ended or said anything else than alone), or if a value is
//! wrong that counts as exact, or is not known and does not say so.

pub mod alone;
pub mod crowds;
pub mod day;
pub mod deeds;
pub mod full;
pub mod judge;
pub mod names;
pub mod nested;
pub mod page;
pub mod signals;

use crate::support::run::Weigh;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An ordinary user.
pub const NOBODY: u32 = 65534;

/// A mechanism as the tests ask for it, at its deepest level.
#[derive(Debug)]
pub struct How {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whether it can be had by root only.
    pub needs_root: bool,
}

/// All of them, in the order of the table's columns.
pub const HOWS: [How; 4] = [
    How { name: "bpf", needs_root: true },
    How { name: "ptrace", needs_root: false },
    How { name: "preload", needs_root: false },
    How { name: "poll", needs_root: false },
];

impl How {
    /// The options that ask for it.
    pub fn options(&self) -> String {
        format!("-q --mechanism {}", self.name)
    }
}

/// A run of weigh with one mechanism, by an ordinary user if there is one.
pub fn followed(run: Weigh, how: &How, user: Option<u32>) -> Weigh {
    let run = run.options(&how.options());
    match user {
        Some(uid) => run.run_by(uid),
        None => run,
    }
}

/// What a mechanism gave in a case; the rest is a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that was compared is right and counts as exact; nothing was harmed.
    Exact,
    /// Nothing was harmed; what is not exact says so.
    Told(String),
    /// It fails as declared in [`KNOWN`].
    Fails(&'static str),
}

/// Failures that are known: case, mechanism, what goes wrong. One that is mended has to go.
const KNOWN: &[(&str, &str, &str)] = &[];

/// One hard case.
pub struct Case {
    /// Its name in the table.
    pub name: &'static str,
    /// What happens, in the words of the table.
    pub does: String,
    /// Whether the job can do it as root only; else it runs as an ordinary user where the
    /// mechanism can.
    pub needs_root: bool,
    /// Runs it with one mechanism.
    pub run: Run,
}

/// Runs a case with one mechanism.
pub type Run = Box<dyn Fn(&Case, &How) -> Result<Outcome, String> + Send + Sync>;

impl Case {
    /// Who runs weigh: an ordinary user if neither the job nor the mechanism needs more.
    pub fn user(&self, how: &How) -> Option<u32> {
        (!self.needs_root && !how.needs_root).then_some(NOBODY)
    }

    /// Runs it; a panic of a check is a failure like others.
    pub fn outcome(&self, how: &How) -> Result<Outcome, String> {
        let known = KNOWN.iter().find(|(case, by, _)| *case == self.name && *by == how.name);
        match (self.found(how), known) {
            (Ok(_), Some(_)) => Err("it works; take it out of KNOWN".to_string()),
            (Err(error), Some((_, _, what))) => {
                println!("{} by {}, known: {error}", self.name, how.name);
                Ok(Outcome::Fails(what))
            }
            (found, None) => found,
        }
    }

    fn found(&self, how: &How) -> Result<Outcome, String> {
        let run = AssertUnwindSafe(|| (self.run)(self, how));
        catch_unwind(run).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text
                .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
                .unwrap_or_default())
        })
    }
}

/// Cases that belong together.
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Whether what the kernel is decides how it goes.
    pub is_about_the_kernel: bool,
    /// Whether it is for a machine of its own, and noted there ([`alone`]).
    pub needs_own_machine: bool,
    /// The cases.
    pub cases: Vec<Case>,
}

/// All cases.
pub fn sections() -> Vec<Section> {
    let section = |title, is_about_the_kernel, cases| Section {
        title,
        is_about_the_kernel,
        needs_own_machine: false,
        cases,
    };
    vec![
        section("What a job does", true, deeds::cases()),
        section("Names and paths", true, names::cases()),
        section("Many", false, crowds::cases()),
        section("Signals to weigh, and terminals", false, signals::cases()),
        section("`weigh run` in `weigh run`", false, nested::cases()),
        Section { needs_own_machine: true, ..section("The clock of the day", true, day::cases()) },
    ]
}
