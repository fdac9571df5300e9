//! What the kernel and the rights must give for the BPF programs, and small facts of the machine.
//!
//! Refuses with a sentence that says what is missing, how to get it, and what is lost without.

use rustix::thread::{CapabilitySet, capabilities};
use weigh_schema::library::Followed;

/// What is missing.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// The kernel has no type information.
    #[error(
        "this kernel has no BTF ({path}: {error}); BPF programs cannot be fitted to it. A kernel built with CONFIG_DEBUG_INFO_BTF=y has it"
    )]
    Btf {
        /// Where it was looked for.
        path: &'static str,
        /// What was found instead.
        error: std::io::Error,
    },
    /// There is no `/proc`.
    #[error(
        "/proc is not there: no mechanism can do without it. Mount it (mount -t proc proc /proc), or \
         give the container one"
    )]
    Proc,
    /// The capabilities are none of the machine's.
    #[error(
        "weigh is in a user namespace, as in a rootless container, where capabilities are not those \
         of the machine: BPF needs CAP_BPF and CAP_PERFMON outside"
    )]
    UserNamespace,
    /// A capability is missing.
    #[error(
        "not enough rights: {missing} missing. Become root, or ask root for a copy of weigh that has them, for the \
         group `weigh` alone (`weigh-grant on`); for {} \
         and programs with libweigh it is enough that root starts `weigh agent`",
        served()
    )]
    Capability {
        /// Their names.
        missing: String,
    },
    /// The same, to join a process that runs already: an agent does not do that for `weigh run`.
    #[error(
        "not enough rights: {missing} missing. Become root, or ask root for a copy of weigh that has them, for the \
         group `weigh` alone (`weigh-grant on`); `weigh agent` follows what `weigh run` starts, and no \
         process that runs already"
    )]
    CapabilityToJoin {
        /// Their names.
        missing: String,
    },
    /// The same, to follow system calls: an agent does not do that for users.
    #[error(
        "not enough rights: {missing} missing. Become root, or ask root for a copy of weigh that has them, for the \
         group `weigh` alone (`weigh-grant on`); `weigh agent` does not follow system calls for users, but {} \
         and programs with libweigh",
        served()
    )]
    CapabilityForCalls {
        /// Their names.
        missing: String,
    },
}

impl Missing {
    /// The same where a process that runs already was to be joined.
    pub(crate) fn into_missing_to_join(self) -> Missing {
        match self {
            Missing::Capability { missing } => Missing::CapabilityToJoin { missing },
            other => other,
        }
    }

    /// The same where system calls were to be followed.
    pub(crate) fn into_missing_for_calls(self) -> Missing {
        match self {
            Missing::Capability { missing } => Missing::CapabilityForCalls { missing },
            other => other,
        }
    }
}

/// What an agent follows for a user, in the words of its verbs.
fn served() -> String {
    let verbs = Followed::ALL.iter().filter_map(|followed| match followed {
        Followed::Job => Some("`weigh run`"),
        Followed::Files => Some("`weigh io`"),
        Followed::Events => Some("`weigh trace` of one's own processes"),
        // Of `weigh run`, too.
        Followed::Writes => None,
    });
    verbs.collect::<Vec<_>>().join(", ")
}

/// Where the kernel shows its types, to which BPF programs are fitted.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The capabilities that BPF takes; CAP_SYS_ADMIN implies them, as it did before the kernel had them.
pub const NEEDED: [(CapabilitySet, &str); 2] =
    [(CapabilitySet::BPF, "CAP_BPF"), (CapabilitySet::PERFMON, "CAP_PERFMON")];

/// Whether there is a `/proc`, which every mechanism needs.
pub fn check_proc() -> Result<(), Missing> {
    match std::fs::exists("/proc/self/stat") {
        Ok(true) => Ok(()),
        _ => Err(Missing::Proc),
    }
}

/// Whether the programs can be loaded here.
pub fn check() -> Result<(), Missing> {
    let held = capabilities(None).map(|c| c.effective).unwrap_or(CapabilitySet::empty());
    if !held.contains(CapabilitySet::SYS_ADMIN) {
        let missing: Vec<_> =
            NEEDED.iter().filter(|(c, _)| !held.contains(*c)).map(|(_, n)| *n).collect();
        if !missing.is_empty() {
            return Err(Missing::Capability { missing: missing.join(" and ") });
        }
    }
    if is_in_user_namespace() {
        return Err(Missing::UserNamespace);
    }
    std::fs::metadata(BTF).map(drop).map_err(|error| Missing::Btf { path: BTF, error })
}

/// Whether user IDs here are not the machine's, all of them.
pub fn is_in_user_namespace() -> bool {
    let map = crate::procfs::read("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<_> = map.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).collect();
    !words.is_empty() && words != [&b"0"[..], b"0", b"4294967295"]
}

/// CPUs that the kernel has set up counters for.
pub(crate) fn possible_cpus() -> u32 {
    libbpf_rs::num_possible_cpus().map_or(1, |n| n as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_join_a_process_no_agent_is_named_as_a_way() {
        let missing = || Missing::Capability { missing: "CAP_BPF".to_string() };
        assert!(missing().to_string().contains("it is enough that root starts `weigh agent`"));
        let said = missing().into_missing_to_join().to_string();
        assert!(said.contains("CAP_BPF missing") && !said.contains("it is enough"), "{said}");
    }
}
