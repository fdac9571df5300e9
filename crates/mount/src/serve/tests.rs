//! What the kernel never asks for, and is refused all the same.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use weigh_schema::io::Who;

use super::names::New;
use super::served::Back;
use super::*;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::accounts::{Accounts, Detail};
use crate::caller::Caller;
use crate::table::Inodes;

fn served() -> (tempfile::TempDir, Served) {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(folder.path(), flags, Mode::empty()).expect("it is there");
    let (inodes, _) = Inodes::new(root).expect("a folder");
    let control = |_: BorrowedFd<'_>, _: u32, _: &mut [u8; 32]| Ok(0);
    let wish = MountRequest { exact: true, may_pass: false, detail: Detail::default(), control };
    let accounts = Arc::new(Accounts::new(wish.detail));
    (folder, Served::new(Arc::new(inodes), wish, accounts, Arc::default()))
}

const FIFO: u32 = 0o010_644;

/// Its other end is not open: opening it would wait for ever.
#[test]
fn a_pipe_is_not_opened_by_its_number_nor_by_its_name() {
    let (_folder, served) = served();
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let caller = Caller { uid: own.0, gid: own.1 };
    let new = New { parent: 1, name: "pipe".as_ref(), caller, umask: 0 };
    let pipe = served.make_node(&new, FIFO, 0).expect("made");
    let back: Back<'_> = &|_| Err(std::io::ErrorKind::Unsupported.into());
    let who = Who { pid: 1, tid: 1 };
    let opened = served.open_file(pipe.ino.0, 0, (caller, who), back);
    assert_eq!(opened.err(), Some(Errno::INVAL));
    let made = served.create_file(&new, 0o644, 0, (who, back));
    assert_eq!(made.err(), Some(Errno::STALE));
}

/// Memory is taken for what is there, and not for what is asked for.
#[test]
fn what_is_asked_for_at_once_has_an_end() {
    let (folder, served) = served();
    std::fs::write(folder.path().join("file"), "text").expect("written");
    let file = served.lookup_in(1, "file".as_ref()).expect("there");
    let room = memory();
    let none = served.noted(file.ino.0, "user.none".as_ref(), u32::MAX);
    assert!(none.is_err());
    assert!(memory() - room.min(memory()) < 1 << 30, "address space");
}

#[test]
fn a_file_is_given_to_nobody_who_is_none() {
    let (folder, served) = served();
    std::fs::write(folder.path().join("file"), "text").expect("written");
    let file = served.lookup_in(1, "file".as_ref()).expect("there");
    let own = rustix::process::geteuid().as_raw();
    let caller = Caller { uid: own, gid: own };
    for (uid, gid) in [(Some(u32::MAX), None), (None, Some(u32::MAX))] {
        let change = attributes::Change { uid, gid, ..attributes::Change::default() };
        assert_eq!(served.change(file.ino.0, caller, &change).err(), Some(Errno::INVAL));
    }
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
