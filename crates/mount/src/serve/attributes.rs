//! Requests about a file itself: what it is, whose, since when, and what was noted of it.

use std::ffi::OsStr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, Request, TimeOrNow};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, StatVfs, Timespec, Timestamps};
use rustix::fs::{UTIME_NOW, UTIME_OMIT, Uid, XattrFlags, chmodat, chownat, fstatvfs, ftruncate};
use rustix::fs::{
    getxattr, getxattr_query, listxattr, listxattr_query, readlinkat, removexattr, setxattr,
    utimensat,
};
use rustix::io::Errno;

use super::answer::Outcome;
use super::served::{ITSELF, Served, reopen};
use crate::accounts::{Call, Done};
use crate::caller::{self, Caller};
use crate::inodes::Inode;

/// No note of a file has more bytes.
const MOST_NOTED: u32 = 65_536;
/// Only root sees these.
const OF_ROOT: &[u8] = b"trusted.";
/// Access lists: setting one may take the set-group-ID bit.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// What is to be changed; none is left as it is.
#[derive(Default)]
pub(super) struct Change {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<TimeOrNow>,
    pub modified: Option<TimeOrNow>,
    pub handle: Option<u64>,
}

impl Served {
    pub(super) fn attributes_of(&self, node: u64) -> Outcome<FileAttr> {
        self.inodes.get(node)?.attributes()
    }

    pub(super) fn change(&self, node: u64, caller: Caller, change: &Change) -> Outcome<FileAttr> {
        let inode = self.inodes.get(node)?;
        if change.uid.is_some() || change.gid.is_some() {
            // Nobody has this number: the call below would leave the owner as it is, and say that all is well.
            if [change.uid, change.gid].contains(&Some(u32::MAX)) {
                return Err(Errno::INVAL);
            }
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            caller::prepare();
            chownat(&inode.fd, ITSELF.0, uid, gid, ITSELF.1)?;
        }
        if let Some(mode) = change.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            caller::keeping_bits(|| chmodat(CWD, inode.link(), mode, AtFlags::empty()))?;
        }
        if let Some(size) = change.size {
            let cut = || self.truncate(&inode, change.handle, size);
            match caller.is_root() {
                true => caller::keeping_bits(cut)?,
                false => {
                    caller::prepare();
                    cut()?;
                }
            }
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: time(change.accessed),
                last_modification: time(change.modified),
            };
            utimensat(CWD, inode.link(), &times, AtFlags::empty())?;
        }
        inode.attributes()
    }

    fn truncate(&self, inode: &Inode, handle: Option<u64>, size: u64) -> Outcome<()> {
        let handle = handle.map(|handle| self.handle(handle)).transpose()?;
        match &handle {
            Some(handle) => ftruncate(&handle.file()?.fd, size),
            None => ftruncate(reopen(inode, OFlags::WRONLY)?, size),
        }
    }

    pub(super) fn target(&self, node: u64) -> Outcome<Vec<u8>> {
        let target = readlinkat(&self.inodes.get(node)?.fd, "", Vec::new())?;
        Ok(target.into_bytes())
    }

    pub(super) fn totals(&self, node: u64) -> Outcome<StatVfs> {
        fstatvfs(&self.inodes.get(node)?.fd)
    }

    pub(super) fn set_noted(
        &self,
        node: u64,
        caller: Caller,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
    ) -> Outcome<()> {
        let inode = self.inodes.get(node)?;
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let set = || setxattr(inode.link(), name, value, flags);
        match (name == ACCESS_LIST, caller.is_root()) {
            (true, true) => caller::keeping_bits(set),
            (true, false) => caller.act_alone(set),
            (false, _) => set(),
        }
    }

    /// A size of 0 asks how much there is.
    pub(super) fn noted(&self, node: u64, name: &OsStr, size: u32) -> Outcome<Noted> {
        let inode = self.inodes.get(node)?;
        if size == 0 {
            return getxattr_query(inode.link(), name).map(Noted::Size);
        }
        let mut value = vec![0; size.min(MOST_NOTED) as usize];
        let found = getxattr(inode.link(), name, &mut value[..])?;
        value.truncate(found);
        Ok(Noted::Data(value))
    }

    pub(super) fn notes(&self, node: u64, caller: Caller, size: u32) -> Outcome<Noted> {
        let inode = self.inodes.get(node)?;
        let mut names = vec![0; listxattr_query(inode.link())?];
        let found = listxattr(inode.link(), &mut names[..])?;
        names.truncate(found);
        if !caller.is_root() {
            let each = names.split_inclusive(|byte| *byte == 0);
            names = each.filter(|name| !name.starts_with(OF_ROOT)).flatten().copied().collect();
        }
        match size {
            0 => Ok(Noted::Size(names.len())),
            size if names.len() > size as usize => Err(Errno::RANGE),
            _ => Ok(Noted::Data(names)),
        }
    }

    pub(super) fn forget_noted(&self, node: u64, name: &OsStr) -> Outcome<()> {
        removexattr(self.inodes.get(node)?.link(), name)
    }
}

/// Of `lsattr` and `chattr`. For these the kernel opens the file by itself, and looks at the caller's rights.
const FLAGS: [u32; 4] = [0x8008_6601, 0x4008_6602, 0x801c_581f, 0x401c_5820];

impl Served {
    /// ioctl(2), as far as its numbers are known.
    pub(super) fn control(
        &self,
        request: &Request,
        (node, handle): (u64, u64),
        number: u32,
        given: &[u8],
    ) -> Outcome<Vec<u8>> {
        let since = Instant::now();
        let mut data = [0; 32];
        let begin = data.get_mut(..given.len()).ok_or(Errno::INVAL)?;
        begin.copy_from_slice(given);
        let size = self.handle(handle)?.with_fd(|fd| {
            let answer = (self.wish.control)(fd, number, &mut data);
            answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        });
        let (who, inode) = (self.accounts.who(request.pid()), self.inodes.get(node)?);
        let opened = FLAGS.contains(&number);
        self.accounts.did(who, &inode, since, Done::Flagged { opened });
        // What was given is not wanted back.
        let size = if given.is_empty() { size? } else { size.map(|_| 0)? };
        Ok(data[..size.min(data.len())].to_vec())
    }
}

/// What was noted of a file, or how much room that takes.
pub(super) enum Noted {
    Size(usize),
    Data(Vec<u8>),
}

fn time(wanted: Option<TimeOrNow>) -> Timespec {
    match wanted {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => since_epoch(time),
    }
}

/// A time before the epoch comes with seconds and their fraction both counted backwards: fuser takes the
/// kernel's positive fraction away, too. So neither is to be turned here.
fn since_epoch(time: SystemTime) -> Timespec {
    let (seconds, within) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            ((before.as_secs() as i64).wrapping_neg(), before.subsec_nanos())
        }
    };
    Timespec { tv_sec: seconds, tv_nsec: within.into() }
}

impl Served {
    /// Takes note of a change that was made.
    pub(super) fn noted_change(
        &self,
        request: &Request,
        node: u64,
        change: &Change,
        since: Instant,
    ) {
        let Ok(inode) = self.inodes.get(node) else { return };
        let who = self.accounts.who(request.pid());
        let call = if change.size.is_some() { Call::Truncate } else { Call::Attributes };
        self.accounts.did(who, &inode, since, Done::Other(call));
    }

    /// Takes note of what was noted of a file.
    pub(super) fn extended(
        &self,
        request: &Request,
        node: u64,
        outcome: Outcome<()>,
    ) -> Outcome<()> {
        let since = Instant::now();
        if let (Ok(()), Ok(inode)) = (&outcome, self.inodes.get(node)) {
            let who = self.accounts.who(request.pid());
            self.accounts.did(who, &inode, since, Done::Other(Call::Extended));
        }
        outcome
    }
}
