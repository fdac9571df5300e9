//! Files are made by whom they are made for.
//!
//! The kernel has looked at the caller's rights before a request comes here (`default_permissions`), with
//! the caller's supplementary groups, which are not known here. So what is left is to whom a new file
//! belongs: the thread that makes it takes on user, group and umask of the caller, and keeps the right to
//! pass by permissions. The file system below then does the rest as it would: groups of set-group-ID
//! directories, inherited access lists, quotas.
//!
//! All of this is a thread's own: user and group of the file system are, capabilities are, and the umask
//! is once the thread has unshared it.

use std::cell::Cell;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use rustix::fs::Mode;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

thread_local! {
    static READY: Cell<bool> = const { Cell::new(false) };
}

/// The process that asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// A write to a program may take its set-user-ID bit from it. The kernel above leaves that to the file
/// system below, and that leaves the bit to threads with CAP_FSETID: so no thread here has it.
pub fn prepare() {
    if READY.replace(true) {
        return;
    }
    // A thread without a umask of its own would take it from others: better none at all then.
    if unshare(CloneFlags::CLONE_FS).is_ok() {
        rustix::process::umask(Mode::empty());
    }
    change(|effective| effective - CapabilitySet::FSETID);
}

/// A user who is not root has nothing to change.
fn change(to: impl Fn(CapabilitySet) -> CapabilitySet) {
    if let Ok(sets) = capabilities(None)
        && sets.permitted.contains(CapabilitySet::FSETID)
    {
        let effective = to(sets.effective) & sets.permitted;
        // It cannot fail for a caller that has what it asks for.
        let _ = set_capabilities(None, CapabilitySets { effective, ..sets });
    }
}

/// Does something with the right to set a set-group-ID bit: who asked was found to have it.
pub fn keeping_bits<T>(work: impl FnOnce() -> T) -> T {
    prepare();
    change(|effective| effective | CapabilitySet::FSETID);
    let done = work();
    change(|effective| effective - CapabilitySet::FSETID);
    done
}

impl Caller {
    /// Whether it has the privileges of root, as far as can be told from here.
    pub fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Makes something as the caller, with its umask.
    pub fn make<T>(self, umask: u32, work: impl FnOnce() -> T) -> T {
        prepare();
        let umask = rustix::process::umask(Mode::from_raw_mode(umask));
        let done = self.act(CapabilitySet::DAC_OVERRIDE, work);
        rustix::process::umask(umask);
        done
    }

    /// Does something as the caller, with no other rights than its own.
    pub fn act_alone<T>(self, work: impl FnOnce() -> T) -> T {
        prepare();
        self.act(CapabilitySet::empty(), work)
    }

    fn act<T>(self, with: CapabilitySet, work: impl FnOnce() -> T) -> T {
        if (self.uid, self.gid) == (0, 0) || !rustix::process::geteuid().is_root() {
            return work();
        }
        setfsgid(Gid::from_raw(self.gid));
        // The kernel takes the rights over files away with this, and gives them back with user 0.
        setfsuid(Uid::from_raw(self.uid));
        if self.uid != 0 && !with.is_empty() {
            change(|effective| effective | with);
        }
        let done = work();
        setfsuid(Uid::from_raw(0));
        setfsgid(Gid::from_raw(0));
        change(|effective| effective - CapabilitySet::FSETID);
        done
    }
}
