//! Whose a thread is.

/// A thread, and how it stands to who has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCredentials {
    /// The thread and its process, by the numbers that they have here.
    pub tid: u32,
    /// See above.
    pub tgid: u32,
    /// How many PID namespaces it is below this one.
    pub level: u32,
    /// User and group of who connected, as it was then.
    pub caller: (u32, u32),
    /// The user behind it: its own, or the maker of the user namespace that it is in.
    pub behind: u32,
    /// Its effective capabilities then.
    pub caller_effective: u64,
    /// The thread's effective, saved and real user.
    pub users: [u32; 3],
    /// The same of its groups.
    pub groups: [u32; 3],
    /// Its permitted capabilities.
    pub permitted: u64,
    /// Whether the process is the very one that connected, and not another one that has its number by now.
    pub has_connected: bool,
    /// Whether nothing has changed since it connected itself: no program was executed, no user changed.
    pub same_credentials: bool,
    /// Whether both are in one user namespace.
    pub same_users: bool,
    /// Whether who connected had CAP_SYS_PTRACE in the thread's user namespace.
    pub may_trace: bool,
    /// Whether the process lets itself be looked at.
    pub is_dumpable: bool,
}
