//! Requests about what is in a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus, Request};
use rustix::fs::{Dir, DirEntry, OFlags, fdatasync, fsync};

use super::answer::{BELIEVED, GENERATION, Outcome, believed};
use super::listing::Listing;
use super::served::{Handle, Served, reopen};
use crate::accounts::{Call, Done};
use crate::inodes::{Inode, file_type};
use crate::table::{DirectoryName, refer};

impl Served {
    pub(super) fn open_directory(&self, request: &Request, node: u64) -> Outcome<u64> {
        let since = Instant::now();
        let inode = self.inodes.get(node)?;
        let fd = reopen(&inode, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let listing = Listing { directory: Dir::new(fd)?, next: 0, left: None };
        let who = self.accounts.who(request.pid());
        self.accounts.did(who, &inode, since, Done::Entered);
        Ok(self.keep(Handle::Directory(Mutex::new(listing), inode)))
    }

    fn listing<T>(
        &self,
        request: &Request,
        handle: u64,
        read: impl FnOnce(&mut Listing, &Arc<Inode>) -> Outcome<T>,
    ) -> Outcome<T> {
        let since = Instant::now();
        let handle = self.handle(handle)?;
        let Handle::Directory(listing, inode) = &*handle else {
            return Err(rustix::io::Errno::NOTDIR);
        };
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        let read = read(&mut listing, inode)?;
        let who = self.accounts.who(request.pid());
        self.accounts.did(who, inode, since, Done::Other(Call::List));
        Ok(read)
    }

    pub(super) fn list(
        &self,
        request: &Request,
        handle: u64,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Outcome<()> {
        self.listing(request, handle, |listing, _| {
            listing.each(offset, |entry| {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                let (number, next) = (INodeNo(entry.ino()), entry.offset() as u64);
                !reply.add(number, next, file_type(entry.file_type()), name)
            })
        })
    }

    /// The same with what is known of each: the kernel is told of each.
    pub(super) fn list_with_attributes(
        &self,
        request: &Request,
        handle: u64,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Outcome<()> {
        self.listing(request, handle, |listing, directory| {
            listing.each(offset, |entry| self.add(directory, entry, reply))
        })
    }

    /// Whether there was room. What is gone, or of another file system, is passed over.
    fn add(&self, directory: &Inode, entry: &DirEntry, reply: &mut ReplyDirectoryPlus) -> bool {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let next = entry.offset() as u64;
        if name == "." || name == ".." {
            // The kernel takes no more than number and kind of these.
            let Ok(mut attributes) = directory.attributes() else { return true };
            attributes.ino = INodeNo(entry.ino());
            return !reply.add(attributes.ino, next, name, &BELIEVED, &attributes, GENERATION);
        }
        let told = refer(directory, name)
            .and_then(|fd| self.inodes.told(fd, DirectoryName { parent: directory, name }));
        let Ok((inode, attributes)) = told else { return true };
        let ttl = believed(&attributes);
        let is_full = reply.add(attributes.ino, next, name, &ttl, &attributes, GENERATION);
        if is_full {
            self.inodes.forget(inode.node, 1);
        }
        !is_full
    }

    pub(super) fn sync_directory(
        &self,
        request: &Request,
        handle: u64,
        data_only: bool,
    ) -> Outcome<()> {
        self.listing(request, handle, |listing, _| match data_only {
            true => fdatasync(listing.directory.fd()?),
            false => fsync(listing.directory.fd()?),
        })
    }
}
