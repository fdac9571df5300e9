//! Each request of the kernel, handed to what does it, and its answer back.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::AtFlags;
use weigh_schema::io::Who;

use super::answer::{BELIEVED, GENERATION, Outcome, believed};
use super::attributes::{Change, Noted};
use super::data::DataRequest;
use super::names::New;
use super::served::{Served, Sight};
use crate::accounts::{Call, Done};
use crate::caller::Caller;
use crate::mountpoint::is_privileged;

/// What the kernel is asked for where it has it.
const WANTED: [InitFlags; 8] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // Without it each write asks whether the file has capabilities.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];
/// Access lists are checked above and inherited below: one is of no use without the other.
const ACCESS_LISTS: InitFlags = InitFlags::FUSE_POSIX_ACL.union(InitFlags::FUSE_DONT_MASK);
/// The folder below may itself lie on another one, as in a container.
const DEEPEST: u32 = 2;

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

fn new<'a>(request: &Request, parent: INodeNo, name: &'a OsStr, umask: u32) -> New<'a> {
    New { parent: parent.0, name, caller: caller(request), umask }
}

fn done(reply: ReplyEmpty, outcome: Outcome<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn entry(reply: ReplyEntry, outcome: Outcome<FileAttr>) {
    match outcome {
        Ok(known) => reply.entry_with_ttls(&believed(&known), &BELIEVED, &known, GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

fn attributes(reply: ReplyAttr, outcome: Outcome<FileAttr>) {
    match outcome {
        Ok(known) => reply.attr(&believed(&known), &known),
        Err(error) => reply.error(errno(error)),
    }
}

fn noted(reply: ReplyXattr, outcome: Outcome<Noted>) {
    match outcome {
        Ok(Noted::Size(size)) => reply.size(size as u32),
        Ok(Noted::Data(data)) => reply.data(&data),
        Err(error) => reply.error(errno(error)),
    }
}

impl Served {
    fn by_path<T>(
        &self,
        request: &Request,
        call: Call,
        work: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        let since = Instant::now();
        let outcome = work();
        let came = outcome.as_ref().map_or_else(|error| -error.raw_os_error(), |_| 0);
        self.accounts.path_call(request.pid(), call, since, came);
        outcome
    }

    fn noted_open(&self, opener: Who, node: u64, flags: i32, since: Instant) {
        use rustix::fs::OFlags;
        let truncates = OFlags::from_bits_retain(flags as u32).contains(OFlags::TRUNC);
        if let Ok(inode) = self.inodes.get(node) {
            self.accounts.did(opener, &inode, since, Done::Opened { truncates });
        }
    }

    fn failed_open(&self, request: &Request, since: Instant, error: rustix::io::Errno) {
        self.accounts.failed_open(request.pid(), since, -error.raw_os_error());
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in WANTED.into_iter().chain([ACCESS_LISTS]) {
            // What it does not have it does not have.
            let _ = config.add_capabilities(wanted);
        }
        let can_pass = || config.capabilities().contains(InitFlags::FUSE_PASSTHROUGH);
        let sight = match self.wish.exact {
            true => Sight::Exact,
            false if self.wish.may_pass && is_privileged() && can_pass() => Sight::Passing,
            false => Sight::Cached,
        };
        let more = match sight {
            Sight::Passing => InitFlags::FUSE_PASSTHROUGH,
            Sight::Exact => InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            Sight::Cached => InitFlags::empty(),
        };
        let _ = config.add_capabilities(more);
        let _ = config.set_max_stack_depth(if sight == Sight::Passing { DEEPEST } else { 0 });
        let _ = self.state.sight.set(sight);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.lookup_in(parent.0, name));
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        self.inodes.forget(node.0, times);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.attributes_of(node.0));
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let handle = handle.map(|handle| handle.0);
        let change = Change { mode, uid, gid, size, accessed, modified, handle };
        let since = Instant::now();
        let outcome = self.change(node.0, caller(request), &change);
        if outcome.is_ok() {
            self.noted_change(request, node.0, &change, since);
        }
        attributes(reply, outcome);
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.target(node.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let new = new(request, parent, name, umask);
        entry(reply, self.by_path(request, Call::MakeNode, || self.make_node(&new, mode, rdev)));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let new = new(request, parent, name, umask);
        entry(
            reply,
            self.by_path(request, Call::MakeDirectory, || self.make_directory(&new, mode)),
        );
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = new(request, parent, name, 0);
        entry(reply, self.by_path(request, Call::MakeSymlink, || self.make_symlink(&new, target)));
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        entry(reply, self.by_path(request, Call::Link, || self.link_to(node.0, parent.0, name)));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(
            reply,
            self.by_path(request, Call::Unlink, || self.remove(parent.0, name, AtFlags::empty())),
        );
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(
            reply,
            self.by_path(request, Call::RemoveDirectory, || {
                self.remove(parent.0, name, AtFlags::REMOVEDIR)
            }),
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (to.0, new));
        done(reply, self.by_path(request, Call::Rename, || self.rename_to(from, to, flags.bits())));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let since = Instant::now();
        let opener = self.accounts.who(request.pid());
        let who = (caller(request), opener);
        match self.open_file(node.0, flags.0, who, &|fd| reply.open_backing(fd)) {
            Ok(how) => {
                self.noted_open(opener, node.0, flags.0, since);
                let handle = FileHandle(how.handle);
                match how.backing {
                    Some(backing) => reply.opened_passthrough(handle, how.flags, &backing),
                    None => reply.opened(handle, how.flags),
                }
            }
            Err(error) => {
                self.failed_open(request, since, error);
                reply.error(errno(error));
            }
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let since = Instant::now();
        let opener = self.accounts.who(request.pid());
        let new = new(request, parent, name, umask);
        let back = |fd: std::os::fd::BorrowedFd<'_>| reply.open_backing(fd);
        match self.create_file(&new, mode, flags, (opener, &back)) {
            Ok((how, attributes)) => {
                self.noted_open(opener, attributes.ino.0, flags, since);
                let (handle, flags) = (FileHandle(how.handle), how.flags);
                let ttl = &believed(&attributes);
                match how.backing {
                    Some(backing) => reply.created_passthrough(
                        ttl,
                        &attributes,
                        GENERATION,
                        handle,
                        flags,
                        &backing,
                    ),
                    None => reply.created(ttl, &attributes, GENERATION, handle, flags),
                }
            }
            Err(error) => {
                self.failed_open(request, since, error);
                reply.error(errno(error));
            }
        }
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: u64,
        size: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // The kernel says whose locks hold for what a call reads; the page cache has none.
        let by_call = owner.is_some();
        let wanted = DataRequest { handle: handle.0, from, flags: flags.0, by_call };
        let mut reply = Some(reply);
        let given = self.read_at(request, wanted, size, |data| {
            if let Some(reply) = reply.take() {
                reply.data(data);
            }
        });
        if let (Err(error), Some(reply)) = (given, reply) {
            reply.error(errno(error));
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let by_call = !how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let wanted = DataRequest { handle: handle.0, from, flags: flags.0, by_call };
        match self.write_at(request, wanted, data) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        done(reply, self.flush_file(request, handle.0));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        done(reply, self.release_file(handle.0));
    }

    fn fsync(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        done(reply, self.sync_file(request, handle.0, data_only));
    }

    fn opendir(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let since = Instant::now();
        match self.open_directory(request, node.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => {
                self.failed_open(request, since, error);
                reply.error(errno(error));
            }
        }
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(request, handle.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.list_with_attributes(request, handle.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        done(reply, self.take(handle.0).map(drop));
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        done(reply, self.sync_directory(request, handle.0, data_only));
    }

    fn statfs(&self, _: &Request, node: INodeNo, reply: ReplyStatfs) {
        match self.totals(node.0) {
            Ok(all) => reply.statfs(
                all.f_blocks,
                all.f_bfree,
                all.f_bavail,
                all.f_files,
                all.f_ffree,
                all.f_bsize as u32,
                all.f_namemax as u32,
                all.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let outcome = self.set_noted(node.0, caller(request), (name, value), flags);
        done(reply, self.extended(request, node.0, outcome));
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        noted(reply, self.noted(node.0, name, size));
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        noted(reply, self.notes(node.0, caller(request), size));
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let outcome = self.forget_noted(node.0, name);
        done(reply, self.extended(request, node.0, outcome));
    }

    fn ioctl(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _: IoctlFlags,
        number: u32,
        given: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        match self.control(request, (node.0, handle.0), number, given) {
            Ok(answer) => reply.ioctl(0, &answer),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(reply, self.allocate(request, handle.0, (from, bytes), mode));
    }

    fn lseek(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.seek_file(request, handle.0, from, whence) {
            Ok(place) => reply.offset(place),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        at: u64,
        _: INodeNo,
        to: FileHandle,
        put: u64,
        bytes: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        match self.copy_range(request, (from.0, at), (to.0, put), bytes) {
            Ok(copied) => reply.written(copied),
            Err(error) => reply.error(errno(error)),
        }
    }
}
