//! Where the kernel lists its tracepoints by groups: types have none.
//!
//! Reads tracefs where it is mounted. Where it is nowhere (in many containers and small systems), a process that may
//! mount gets one that no other sees, for as long as it lives. Refuses nothing: there is a list, or none.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Both are the same; older kernels have the second.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// A folder for each group, with one for each tracepoint in it.
pub fn events() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| mounted().or_else(|| own().ok()));
    found.as_deref()
}

fn mounted() -> Option<PathBuf> {
    MOUNTED.iter().map(PathBuf::from).find(|path| std::fs::read_dir(path).is_ok())
}

/// A mount that hangs nowhere: it is gone with its descriptor.
fn own() -> rustix::io::Result<PathBuf> {
    static ITSELF: OnceLock<OwnedFd> = OnceLock::new();
    let system = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&system)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    let made = fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let itself = ITSELF.get_or_init(|| made);
    Ok(PathBuf::from(format!("/proc/self/fd/{}/events", itself.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_mounted_has_the_same_groups() {
        if !rustix::process::geteuid().is_root() {
            println!("ignored: it takes root to mount");
            return;
        }
        let own = own().expect("a mount");
        assert!(own.join("sched/sched_switch").is_dir(), "{}", own.display());
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let seen = mounts.lines().filter(|line| line.contains(" - tracefs ")).count();
        assert!(events().is_some());
        let again = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        assert_eq!(again.lines().filter(|line| line.contains(" - tracefs ")).count(), seen);
    }
}
