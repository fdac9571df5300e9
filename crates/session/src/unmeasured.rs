//! The command where weigh lacks what it needs to measure it: it runs all the same, in weigh's place.
//!
//! Reads the error of a verb whose command has not begun. What the machine refuses whatever is typed, as descriptors,
//! threads, memory or `/proc`, is no reason to leave a command unrun; every other error is the user's to mend.

use rustix::io::Errno;
use weigh_collect::last_resort::{execute_in_place, may_execute_in_place};
use weigh_collect::requirements::Missing;
use weigh_collect::spawn::SpawnError;
use weigh_collect::{message, notice};

use crate::error::{SessionError, in_full};

/// What there is too little of, whatever is typed.
const SHORTAGES: [Errno; 6] =
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOSPC, Errno::DQUOT];

/// Executes the command unmeasured if that is why weigh failed; else emits the error again. Returns the error of the exec
/// where even that fails.
pub fn run_unmeasured(error: anyhow::Error) -> Result<SpawnError, anyhow::Error> {
    if !is_shortage(&error) || !may_execute_in_place() {
        return Err(error);
    }
    notice!("nothing is measured: {}; the command runs as without weigh", in_full(&error));
    message::finish();
    execute_in_place().ok_or(error)
}

/// The same after a fault of weigh's own, which was said.
pub fn run_after_fault() -> Option<SpawnError> {
    if !may_execute_in_place() {
        return None;
    }
    notice!("nothing is measured; the command runs as without weigh");
    message::finish();
    execute_in_place()
}

fn is_shortage(error: &anyhow::Error) -> bool {
    let is_typed = error.chain().any(|cause| match cause.downcast_ref::<SessionError>() {
        Some(SessionError::System { .. }) => true,
        Some(SessionError::Source(source)) => source.is::<SpawnError>(),
        _ => cause.is::<SpawnError>() || matches!(cause.downcast_ref(), Some(Missing::Proc)),
    });
    // What several mechanisms were refused is one text by then, in the system's words.
    let text = in_full(error);
    is_typed || SHORTAGES.iter().any(|errno| text.contains(&in_words(*errno)))
}

/// Without its number.
fn in_words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_short_and_a_user_errs() {
        let of = |errno: Errno| {
            is_shortage(&anyhow::Error::new(std::io::Error::from(errno)).context("a pipe"))
        };
        for errno in SHORTAGES {
            assert!(of(errno), "{errno}");
        }
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::PERM, Errno::EXIST, Errno::INVAL] {
            assert!(!of(errno), "{errno}");
        }
        let refused = SessionError::system("cannot read signals", Errno::NOSYS);
        assert!(is_shortage(&refused.into()));
        assert!(is_shortage(&anyhow::Error::new(Missing::Proc)));
        let error = || std::io::Error::from(Errno::NOSYS);
        let create = || SpawnError::Create { call: "pidfd_open", error: error() };
        assert!(is_shortage(&create().into()));
        assert!(is_shortage(&anyhow::Error::new(SessionError::Source(create().into()))));
        assert!(is_shortage(&anyhow::anyhow!("no bpf: Too many open files; no ptrace: no rights")));
        assert!(!is_shortage(&anyhow::anyhow!("--for is for --pid only")));
    }

    #[test]
    fn where_no_command_is_prepared_the_error_stays() {
        assert!(run_unmeasured(anyhow::Error::new(Missing::Proc)).is_err());
        assert!(run_after_fault().is_none());
    }
}
