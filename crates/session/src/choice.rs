//! Which mechanism measures: the first of a plan that works, and why those before it do not.
//!
//! One for all products. A product plans by what was asked for, opens what it is told to try, and words the choice;
//! this decides what is tried, when, and what is taken.

use std::fmt;

use weigh_agent::RemoteError;
use weigh_collect::follow::MechanismError;
use weigh_collect::job::JobError;
use weigh_collect::preload::PreloadError;

/// What may be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<M> {
    /// The best first. One alone is what was asked for by name.
    pub candidates: Vec<M>,
    /// What stands in where there is no room for the last candidate: a limit that is meant for the job keeps weigh's
    /// library out.
    pub substitutes: Vec<M>,
}

impl<M> Plan<M> {
    /// The first of these that works.
    pub fn any_of(candidates: impl Into<Vec<M>>) -> Plan<M> {
        Plan { candidates: candidates.into(), substitutes: Vec::new() }
    }

    /// This one and no other.
    pub fn only(candidate: M) -> Plan<M> {
        Plan::any_of([candidate])
    }

    /// This one, or one of these where there is no room for it.
    pub fn only_or(candidate: M, substitutes: impl Into<Vec<M>>) -> Plan<M> {
        Plan { candidates: vec![candidate], substitutes: substitutes.into() }
    }
}

/// Why a mechanism does not work.
#[derive(Debug)]
pub struct Refusal<M, E> {
    /// The mechanism.
    pub mechanism: M,
    /// What it says.
    pub error: E,
}

/// What is taken.
#[derive(Debug)]
pub struct Choice<M, T, E> {
    /// The mechanism.
    pub mechanism: M,
    /// What was opened.
    pub opened: T,
    /// Why those before it are not taken, in the order in which they were tried.
    pub refusals: Vec<Refusal<M, E>>,
}

/// Whether a limit that is meant for the job keeps weigh's library out.
pub fn is_kept_out(error: &anyhow::Error) -> bool {
    PreloadError::of_file_size(&**error).is_some()
}

/// Takes the first that can be opened. `open` is given what was refused so far; `is_kept_out` says whether there was no
/// room for weigh's library. If none works: why none does.
pub fn choose<M: Copy, T, E>(
    plan: &Plan<M>,
    mut open: impl FnMut(M, &[Refusal<M, E>]) -> Result<T, E>,
    is_kept_out: impl Fn(&E) -> bool,
) -> Result<Choice<M, T, E>, Vec<Refusal<M, E>>> {
    let mut refusals = Vec::new();
    for mechanisms in [&plan.candidates, &plan.substitutes] {
        for mechanism in mechanisms.iter().copied() {
            match open(mechanism, &refusals) {
                Ok(opened) => return Ok(Choice { mechanism, opened, refusals }),
                Err(error) => refusals.push(Refusal { mechanism, error }),
            }
        }
        if !refusals.last().is_some_and(|last| is_kept_out(&last.error)) {
            break;
        }
    }
    Err(refusals)
}

/// Why the kernel side cannot be had.
#[derive(Debug)]
pub struct KernelRefusal {
    /// Why weigh cannot load it.
    pub own: JobError,
    /// Why the agent does not do it; none if no agent runs.
    pub agent: Option<RemoteError>,
}

impl fmt::Display for KernelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.agent {
            None => write!(f, "{}", self.own),
            Some(agent) => write!(f, "{}; {agent}", self.own),
        }
    }
}

impl std::error::Error for KernelRefusal {}

impl From<KernelRefusal> for MechanismError {
    fn from(refusal: KernelRefusal) -> MechanismError {
        match refusal.agent {
            None => refusal.own.into(),
            Some(_) => MechanismError::new("bpf", refusal),
        }
    }
}

/// The kernel side: weigh's own, or, without the rights for that, the agent's.
pub fn own_or_agent<T>(
    own: Result<T, JobError>,
    agent: impl FnOnce() -> Result<T, RemoteError>,
) -> Result<T, KernelRefusal> {
    own.or_else(|own| match agent() {
        Ok(remote) => Ok(remote),
        Err(RemoteError::NoAgent(..)) => Err(KernelRefusal { own, agent: None }),
        Err(error) => Err(KernelRefusal { own, agent: Some(error) }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Error {
        /// It does not work here.
        Broken,
        /// There is no room for the library.
        KeptOut,
    }

    /// What each mechanism does when it is opened: `b` kernel, `l` library, `t` tracer, `p` polling.
    fn opened(mechanism: char, works: &str, kept_out: &str) -> Result<char, Error> {
        match (works.contains(mechanism), kept_out.contains(mechanism)) {
            (true, _) => Ok(mechanism),
            (false, true) => Err(Error::KeptOut),
            (false, false) => Err(Error::Broken),
        }
    }

    /// What is taken, after which refusals; `-` if nothing is.
    fn chosen(plan: &Plan<char>, works: &str, kept_out: &str) -> (char, String) {
        let seen = std::cell::RefCell::new(Vec::new());
        let open = |mechanism, refusals: &[Refusal<char, Error>]| {
            seen.borrow_mut().push(refusals.len());
            opened(mechanism, works, kept_out)
        };
        let outcome = choose(plan, open, |error| *error == Error::KeptOut);
        let (taken, refusals) = match outcome {
            Ok(choice) => {
                assert_eq!(choice.mechanism, choice.opened);
                (choice.mechanism, choice.refusals)
            }
            Err(refusals) => ('-', refusals),
        };
        let tried = refusals.len() + usize::from(taken != '-');
        assert_eq!(seen.into_inner(), Vec::from_iter(0..tried), "each is given those before it");
        (taken, refusals.iter().map(|refusal| refusal.mechanism).collect())
    }

    #[test]
    fn the_first_that_works_is_taken_and_the_others_say_why_not() {
        let io = || Plan::any_of(['b', 'l', 't']);
        let run = || Plan::any_of(['b', 'l', 'p', 't']);
        let library = || Plan::only_or('l', ['t']);
        let run_library = || Plan::only_or('l', ['p', 't']);
        let calls_library = || Plan::only_or('l', ['b']);
        // The plan, what works, where there is no room; what is taken, and what was refused before.
        let table = [
            (io(), "blt", "", 'b', ""),
            (io(), "lt", "", 'l', "b"),
            (io(), "t", "", 't', "bl"),
            // A mechanism that nobody named may have no room: the next one is tried as ever.
            (io(), "t", "l", 't', "bl"),
            (io(), "", "", '-', "blt"),
            (run(), "pt", "", 'p', "bl"),
            (run(), "", "l", '-', "blpt"),
            (Plan::only('b'), "lt", "", '-', "b"),
            (Plan::only('l'), "bt", "l", '-', "l"),
            (library(), "blt", "", 'l', ""),
            // What was named and does not work is no reason to take another.
            (library(), "bt", "", '-', "l"),
            // Where a limit that is meant for the job keeps it out, it is.
            (library(), "bt", "l", 't', "l"),
            (library(), "b", "l", '-', "lt"),
            (run_library(), "t", "l", 't', "lp"),
            (run_library(), "", "l", '-', "lpt"),
            (calls_library(), "b", "l", 'b', "l"),
            (calls_library(), "b", "", '-', "l"),
            (Plan::any_of([]), "b", "", '-', ""),
            // Substitutes are tried once.
            (Plan::only_or('l', ['l']), "", "l", '-', "ll"),
        ];
        for (plan, works, kept_out, taken, refused) in table {
            let (is_taken, are_refused) = chosen(&plan, works, kept_out);
            let case = format!("{plan:?}, works {works:?}, kept out {kept_out:?}");
            assert_eq!((is_taken, are_refused.as_str()), (taken, refused), "{case}");
        }
    }

    #[test]
    fn an_agent_that_is_not_there_has_no_say() {
        let own = || JobError::NoProcess(7);
        let absent = || RemoteError::NoAgent("socket".into(), std::io::ErrorKind::NotFound.into());
        assert_eq!(own_or_agent(Ok(1), || panic!("it is not asked")).ok(), Some(1));
        assert_eq!(own_or_agent(Err(own()), || Ok(2)).ok(), Some(2));
        let refusal = own_or_agent::<i32>(Err(own()), || Err(absent())).expect_err("neither");
        assert_eq!(refusal.to_string(), own().to_string());
        let silent = || Err(RemoteError::Silent);
        let refusal = own_or_agent::<i32>(Err(own()), silent).expect_err("neither");
        assert_eq!(refusal.to_string(), format!("{}; {}", own(), RemoteError::Silent));
    }
}
