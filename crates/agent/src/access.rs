//! Whether one process may look at another: one rule, for all that the agent tells.
//!
//! It is ptrace(2)'s for `PTRACE_MODE_READ_FSCREDS`, without Yama: what the kernel asks of who reads a link
//! in `/proc/PID/fd`. Reads numbers, of the kernel side ([`ThreadCredentials`]) or of `/proc`; decides, and looks
//! nothing up.

use weigh_collect::calls::ThreadCredentials;

/// The client, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its user and group.
    pub uid: u32,
    /// See above.
    pub gid: u32,
    /// Its effective capabilities.
    pub effective: u64,
}

/// The process that is asked about, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Effective, saved and real user.
    pub users: [u32; 3],
    /// The same of its groups.
    pub groups: [u32; 3],
    /// Permitted capabilities.
    pub permitted: u64,
    /// Whether it has not been closed, by itself or by a program that it executed.
    pub is_dumpable: bool,
    /// Whether both are in one user namespace.
    pub same_users: bool,
    /// Whether the caller has CAP_SYS_PTRACE in the target's user namespace.
    pub may_trace: bool,
    /// Whether it is the caller itself, with the credentials that it connected with.
    pub is_caller: bool,
}

/// Whether the caller may look at the target.
pub fn may_look(caller: &Caller, target: &Target) -> bool {
    if target.may_trace || target.is_caller {
        return true;
    }
    let is_own = target.users.iter().all(|user| *user == caller.uid)
        && target.groups.iter().all(|group| *group == caller.gid);
    let has_gained = target.permitted & !caller.effective != 0;
    is_own && target.same_users && target.is_dumpable && !has_gained
}

/// The two of what the kernel side has found; the caller's own process only where it is asked about itself.
pub fn sides(found: &ThreadCredentials) -> (Caller, Target) {
    let (uid, gid) = found.caller;
    let target = Target {
        users: found.users,
        groups: found.groups,
        permitted: found.permitted,
        is_dumpable: found.is_dumpable,
        same_users: found.same_users,
        may_trace: found.may_trace,
        is_caller: found.has_connected && found.same_credentials,
    };
    (Caller { uid, gid, effective: found.caller_effective }, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Caller = Caller { uid: 7, gid: 8, effective: 0 };
    const PLAIN: Target = Target {
        users: [7; 3],
        groups: [8; 3],
        permitted: 0,
        is_dumpable: true,
        same_users: true,
        may_trace: false,
        is_caller: false,
    };

    #[test]
    fn it_is_the_kernel_s() {
        let closed = Target { is_dumpable: false, ..PLAIN };
        let capable = Target { permitted: 0b100, ..PLAIN };
        let elsewhere = Target { same_users: false, ..PLAIN };
        let cases = [
            (PLAIN, true),
            (Target { users: [0, 7, 7], ..PLAIN }, false),
            (Target { users: [7, 0, 7], ..PLAIN }, false),
            (Target { users: [7, 7, 0], ..PLAIN }, false),
            (Target { groups: [0, 8, 8], ..PLAIN }, false),
            (Target { groups: [8, 0, 8], ..PLAIN }, false),
            (Target { groups: [9; 3], ..PLAIN }, false),
            (capable, false),
            (closed, false),
            (elsewhere, false),
            (Target { may_trace: true, users: [0; 3], ..closed }, true),
            (Target { may_trace: true, permitted: u64::MAX, ..elsewhere }, true),
            (Target { is_caller: true, ..closed }, true),
        ];
        for (target, may) in cases {
            assert_eq!(may_look(&USER, &target), may, "{target:?}");
        }
        // Root without capabilities is a user as any other.
        let root = Caller { uid: 0, gid: 0, effective: 0 };
        let other_root = Target { users: [0; 3], groups: [0; 3], permitted: 1, ..PLAIN };
        assert!(!may_look(&root, &PLAIN) && !may_look(&root, &other_root));
        let as_capable = Caller { effective: 0b110, ..USER };
        assert!(may_look(&as_capable, &capable));
    }
}
