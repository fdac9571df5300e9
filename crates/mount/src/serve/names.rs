//! Requests that name a file in a directory.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use fuser::{FileAttr, FopenFlags};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, linkat, mkdirat, mknodat};
use rustix::fs::{openat, renameat_with, symlinkat, unlinkat};
use rustix::io::Errno;
use weigh_schema::io::{Object, Who};

use super::answer::Outcome;
use super::served::{Back, Handle, HowOpen, ITSELF, OpenFile, Served, Sight, reopen};
use crate::caller::{self, Caller};
use crate::inodes::{Inode, Opened, device, object, stat};
use crate::mountpoint::is_privileged;
use crate::table::{DirectoryName, refer};

/// What of the caller's flags is meant for the file below: where to write the kernel above has worked out,
/// and what goes past its page cache need not go past the one below, whose memory has to be aligned.
const MEANT: OFlags = OFlags::RWMODE
    .union(OFlags::TRUNC)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::NOATIME);

/// A new name, and who wants it.
pub struct New<'a> {
    pub parent: u64,
    pub name: &'a OsStr,
    pub caller: Caller,
    pub umask: u32,
}

/// Whether reads and writes of an open file come here, though the kernel passes those of the file's other opens through.
///
/// The kernel opens the file below with the caller's flags, and never changes them. With O_APPEND there it would
/// append for ever: after fcntl(F_SETFL) without the flag, and with RWF_NOAPPEND, too. An O_APPEND that is set
/// later does no harm, because the kernel hands it on with each write.
fn must_come_here(wanted: OFlags, is_passed: bool) -> bool {
    is_passed && wanted.contains(OFlags::APPEND)
}

impl Served {
    pub(super) fn lookup_in(&self, parent: u64, name: &OsStr) -> Outcome<FileAttr> {
        let parent = self.inodes.get(parent)?;
        self.found(&parent, name).map(|(_, attributes)| attributes)
    }

    fn found(&self, parent: &Inode, name: &OsStr) -> Outcome<(Arc<Inode>, FileAttr)> {
        self.inodes.told(refer(parent, name)?, DirectoryName { parent, name })
    }

    /// What a name means, without telling the kernel of it.
    fn found_object(&self, parent: &Inode, name: &OsStr) -> Outcome<Object> {
        Ok(object(&stat(&refer(parent, name)?)?))
    }

    /// Makes something by a call, and tells the kernel of it.
    fn make(&self, new: &New<'_>, how: impl FnOnce(&Inode) -> Outcome<()>) -> Outcome<FileAttr> {
        let parent = self.inodes.get(new.parent)?;
        new.caller.make(new.umask, || how(&parent))?;
        self.found(&parent, new.name).map(|(_, attributes)| attributes)
    }

    pub(super) fn make_node(&self, new: &New<'_>, mode: u32, rdev: u32) -> Outcome<FileAttr> {
        let (kind, bits) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
        self.make(new, |parent| mknodat(&parent.fd, new.name, kind, bits, device(rdev)))
    }

    pub(super) fn make_directory(&self, new: &New<'_>, mode: u32) -> Outcome<FileAttr> {
        let bits = Mode::from_raw_mode(mode & 0o7777);
        self.make(new, |parent| mkdirat(&parent.fd, new.name, bits))
    }

    pub(super) fn make_symlink(&self, new: &New<'_>, target: &Path) -> Outcome<FileAttr> {
        self.make(new, |parent| symlinkat(target, &parent.fd, new.name))
    }

    pub(super) fn link_to(&self, node: u64, parent: u64, name: &OsStr) -> Outcome<FileAttr> {
        let (inode, parent) = (self.inodes.get(node)?, self.inodes.get(parent)?);
        // Not by a path where that can be: it would not do for a symbolic link.
        match is_privileged() {
            true => linkat(&inode.fd, ITSELF.0, &parent.fd, name, ITSELF.1)?,
            false => {
                let follow = AtFlags::SYMLINK_FOLLOW;
                linkat(rustix::fs::CWD, inode.link(), &parent.fd, name, follow)?;
            }
        }
        self.found(&parent, name).map(|(_, attributes)| attributes)
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, how: AtFlags) -> Outcome<()> {
        unlinkat(&self.inodes.get(parent)?.fd, name, how)
    }

    pub(super) fn rename_to(
        &self,
        (parent, name): (u64, &OsStr),
        (to, new): (u64, &OsStr),
        flags: u32,
    ) -> Outcome<()> {
        let (parent, to) = (self.inodes.get(parent)?, self.inodes.get(to)?);
        let flags = RenameFlags::from_bits_retain(flags);
        renameat_with(&parent.fd, name, &to.fd, new, flags)?;
        self.has_moved(&to, new);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.has_moved(&parent, name);
        }
        Ok(())
    }

    fn has_moved(&self, parent: &Inode, name: &OsStr) {
        if let Ok(fd) = refer(parent, name) {
            self.inodes.renamed(fd, DirectoryName { parent, name });
        }
    }

    pub(super) fn open_file(
        &self,
        node: u64,
        flags: i32,
        (caller, opener): (Caller, Who),
        back: Back<'_>,
    ) -> Outcome<HowOpen> {
        let inode = self.inodes.get(node)?;
        // A pipe would make this thread wait, and a device is not for weigh to open: the kernel above does that itself.
        if inode.object != Object::Regular {
            return Err(Errno::INVAL);
        }
        let wanted = OFlags::from_bits_retain(flags as u32);
        let flags = wanted & MEANT;
        let open = || reopen(&inode, flags);
        let fd = match flags.contains(OFlags::TRUNC) && caller.is_root() {
            true => caller::keeping_bits(open)?,
            false => {
                caller::prepare();
                open()?
            }
        };
        Ok(self.opened(OpenFile { fd, inode, opener }, wanted, back))
    }

    pub(super) fn create_file(
        &self,
        new: &New<'_>,
        mode: u32,
        flags: i32,
        (opener, back): (Who, Back<'_>),
    ) -> Outcome<(HowOpen, FileAttr)> {
        let parent = self.inodes.get(new.parent)?;
        let wanted = OFlags::from_bits_retain(flags as u32);
        let flags = wanted & MEANT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let bits = Mode::from_raw_mode(mode & 0o7777);
        let make = |flags| openat(&parent.fd, new.name, flags, bits);
        let only_new = flags | OFlags::CREATE | OFlags::EXCL;
        let fd = match new.caller.make(new.umask, || make(only_new)) {
            // Somebody was faster, by another way: nobody has looked at the caller's rights to that file.
            Err(Errno::EXIST) if !wanted.contains(OFlags::EXCL) => {
                if self.found_object(&parent, new.name)? != Object::Regular {
                    // The kernel looks the name up anew, and opens a pipe or a device by itself.
                    return Err(Errno::STALE);
                }
                new.caller.act_alone(|| make(flags))?
            }
            other => other?,
        };
        // What was opened, whatever the name means by now.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        let refer = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (inode, attributes) =
            self.inodes.told(refer, DirectoryName { parent: &parent, name: new.name })?;
        Ok((self.opened(OpenFile { fd, inode, opener }, wanted, back), attributes))
    }

    /// A file is open: from now on the kernel treats it as it was found to be possible when it was opened
    /// first, for as long as anybody has it open.
    fn opened(&self, file: OpenFile, wanted: OFlags, back: Back<'_>) -> HowOpen {
        let mut opened = file.inode.opened();
        if opened.times == 0 && self.sight() == Sight::Passing {
            self.pass_through(&mut opened, &file, back);
        }
        opened.times += 1;
        let backing = opened.backing.clone();
        drop(opened);
        let is_exact = self.sight() == Sight::Exact;
        let flags = match is_exact || must_come_here(wanted, backing.is_some()) {
            true => FopenFlags::FOPEN_DIRECT_IO,
            false => FopenFlags::empty(),
        };
        HowOpen { handle: self.keep(Handle::File(file)), flags, backing }
    }

    fn pass_through(&self, opened: &mut Opened, file: &OpenFile, back: Back<'_>) {
        use std::os::fd::AsFd as _;
        // The kernel writes with the rights of who says so.
        caller::prepare();
        match back(file.fd.as_fd()) {
            Ok(backing) => opened.backing = Some(Arc::new(backing)),
            Err(error) => {
                let mut refused = self.state.refused.lock().unwrap_or_else(|e| e.into_inner());
                refused.get_or_insert((0, error)).0 += 1;
            }
        }
    }
}
