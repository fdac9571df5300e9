//! Outputs that could not be opened: whether the command runs without them.
//!
//! A mistake in what the user typed is an error before the command begins. The fault of a medium is none: the command
//! runs, what is not written is said before and after, and `--require-recording` makes it an error.

use rustix::io::Errno;

use crate::command::ending::is_recording_required;
use crate::error::in_full;

/// What the file system or the machine refuses whatever is typed.
const MEDIUM: [Errno; 13] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::FBIG,
    Errno::IO,
    Errno::ROFS,
    Errno::STALE,
    Errno::TIMEDOUT,
    Errno::NODEV,
    Errno::NXIO,
    Errno::REMOTEIO,
    Errno::NOMEM,
    Errno::MFILE,
    Errno::NFILE,
];

/// An output of a place that the user named. Where the medium failed the command runs without it: then the inner error
/// is for the end. Every other error is the caller's to return.
pub fn unless_medium_failed<T>(opened: anyhow::Result<T>) -> anyhow::Result<anyhow::Result<T>> {
    match opened {
        Err(error) if is_of_medium(&error) => go_without(error).map(Err),
        other => other.map(Ok),
    }
}

/// Says that an output is not written, whatever the reason; an error if the user requires it.
pub fn go_without(error: anyhow::Error) -> anyhow::Result<anyhow::Error> {
    if is_recording_required() {
        return Err(error);
    }
    weigh_collect::notice!("{}; the rest is measured all the same", in_full(&error));
    Ok(error)
}

fn is_of_medium(error: &anyhow::Error) -> bool {
    let of_system = |cause: &(dyn std::error::Error + 'static)| {
        Errno::from_io_error(cause.downcast_ref::<std::io::Error>()?)
    };
    error.chain().filter_map(of_system).any(|errno| MEDIUM.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_fails_and_a_user_errs() {
        let opened = |errno: Errno| {
            is_of_medium(&anyhow::Error::new(std::io::Error::from(errno)).context("--json a"))
        };
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::IO, Errno::ROFS] {
            assert!(opened(errno), "{errno}");
        }
        for errno in [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::EXIST, Errno::ISDIR] {
            assert!(!opened(errno), "{errno}");
        }
        assert!(!is_of_medium(&anyhow::anyhow!("-o a: no format")));
    }
}
