//! Requests about what is in a file that is open.

use std::cell::RefCell;
use std::os::fd::AsFd as _;
use std::time::Instant;

use fuser::Request;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, fdatasync, fsync, seek};
use rustix::io::{Errno, pread, pwrite};
use weigh_schema::io::{Transfer, Who};

use super::answer::Outcome;
use super::served::{Handle, OpenFile, Served, Sight};
use crate::accounts::{Call, Done, Piece};
use crate::caller;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// No kernel asks for more at once: what is asked for decides about memory here.
const MOST_BYTES: usize = 16 << 20;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// A piece of a file, as it is asked for.
#[derive(Clone, Copy)]
pub(super) struct DataRequest {
    pub handle: u64,
    pub from: u64,
    pub flags: i32,
    /// Whether a process waits for it in a call. What the page cache wants is nobody's.
    pub by_call: bool,
}

impl DataRequest {
    fn is_direct(self) -> bool {
        OFlags::from_bits_retain(self.flags as u32).contains(OFlags::DIRECT)
    }
}

impl Served {
    /// Reads, and gives away what was read.
    pub(super) fn read_at(
        &self,
        request: &Request,
        wanted: DataRequest,
        size: u32,
        give: impl FnOnce(&[u8]),
    ) -> Outcome<()> {
        let since = Instant::now();
        let handle = self.handle(wanted.handle)?;
        let file = handle.file()?;
        BUFFER.with_borrow_mut(|buffer| {
            let size = MOST_BYTES.min(size as usize);
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let failed =
                |error: &Errno| self.failed(request, file, wanted, (Call::Read, since), *error);
            let found = pread(&file.fd, &mut buffer[..size], wanted.from).inspect_err(failed)?;
            // A caller that has its answer may be back before this is noted, and another thread would note that first.
            self.moved(request, &handle, wanted, (0, found as u64, size as u64), since);
            give(&buffer[..found]);
            Ok(())
        })
    }

    pub(super) fn write_at(
        &self,
        request: &Request,
        wanted: DataRequest,
        data: &[u8],
    ) -> Outcome<u32> {
        let since = Instant::now();
        let handle = self.handle(wanted.handle)?;
        let file = handle.file()?;
        caller::prepare();
        let failed =
            |error: &Errno| self.failed(request, file, wanted, (Call::Write, since), *error);
        let written = pwrite(&file.fd, data, wanted.from).inspect_err(failed)?;
        let amounts = (1, written as u64, data.len() as u64);
        self.moved(request, &handle, wanted, amounts, since);
        Ok(written as u32)
    }

    fn moved(
        &self,
        request: &Request,
        handle: &Handle,
        wanted: DataRequest,
        (direction, bytes, asked): (usize, u64, u64),
        since: Instant,
    ) {
        let Ok(file) = handle.file() else { return };
        let who = self.mover(request, file, wanted);
        let call = if direction == 0 { Call::Read } else { Call::Write };
        let kind = if wanted.by_call { Transfer::Positioned } else { Transfer::Mapped };
        let is_direct = wanted.is_direct();
        let piece = Piece { direction, kind, from: wanted.from, bytes, asked, is_direct };
        // Whether a call or mapped memory wanted it the page cache does not say.
        let is_fill = self.sight() != Sight::Exact && direction == 0 && !wanted.by_call;
        let done = if is_fill { Done::Filled(piece) } else { Done::Moved(call, piece) };
        self.accounts.did(who, &file.inode, since, done);
    }

    /// The process that reads or writes.
    fn mover(&self, request: &Request, file: &OpenFile, wanted: DataRequest) -> Who {
        match request.pid() {
            0 => file.opener,
            thread if wanted.by_call => self.accounts.who(thread),
            thread => self.accounts.known(thread).unwrap_or(file.opener),
        }
    }

    /// A read or write has failed.
    fn failed(
        &self,
        request: &Request,
        file: &OpenFile,
        wanted: DataRequest,
        (call, since): (Call, Instant),
        error: Errno,
    ) {
        let who = self.mover(request, file, wanted);
        self.accounts.failed(who, &file.inode, call, since, -error.raw_os_error());
    }

    /// A descriptor was closed: what the file system below has to say to that is said.
    pub(super) fn flush_file(&self, request: &Request, handle: u64) -> Outcome<()> {
        let since = Instant::now();
        let handle = self.handle(handle)?;
        let file = handle.file()?;
        let again = rustix::io::dup(file.fd.as_fd())?;
        let closed = nix::unistd::close(again);
        // Executing a program closes files, too.
        let who = self.accounts.known(request.pid()).unwrap_or(file.opener);
        self.accounts.did(who, &file.inode, since, Done::Other(Call::Close));
        closed.map_err(|error| Errno::from_raw_os_error(error as i32))
    }

    /// Nobody has it open any more.
    pub(super) fn release_file(&self, handle: u64) -> Outcome<()> {
        let handle = self.take(handle)?;
        let file = handle.file()?;
        let is_deleted = file.inode.stat().is_ok_and(|stat| stat.stx_nlink == 0);
        self.accounts.released(file.opener, file.inode.file, is_deleted);
        let mut opened = file.inode.opened();
        opened.times = opened.times.saturating_sub(1);
        if opened.times == 0 {
            opened.backing = None;
        }
        Ok(())
    }

    pub(super) fn sync_file(&self, request: &Request, handle: u64, data_only: bool) -> Outcome<()> {
        let since = Instant::now();
        let handle = self.handle(handle)?;
        let file = handle.file()?;
        match data_only {
            true => fdatasync(&file.fd)?,
            false => fsync(&file.fd)?,
        }
        let who = self.accounts.who(request.pid());
        self.accounts.did(who, &file.inode, since, Done::Other(Call::Sync));
        Ok(())
    }

    pub(super) fn allocate(
        &self,
        request: &Request,
        handle: u64,
        (from, bytes): (u64, u64),
        mode: i32,
    ) -> Outcome<()> {
        let since = Instant::now();
        let handle = self.handle(handle)?;
        let file = handle.file()?;
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        caller::prepare();
        fallocate(&file.fd, mode, from, bytes)?;
        let who = self.accounts.who(request.pid());
        self.accounts.did(who, &file.inode, since, Done::Other(Call::Allocate));
        Ok(())
    }

    /// Where data, or a hole, begins: the kernel does other seeks by itself.
    pub(super) fn seek_file(
        &self,
        request: &Request,
        handle: u64,
        from: i64,
        whence: i32,
    ) -> Outcome<i64> {
        let since = Instant::now();
        let from = u64::try_from(from).map_err(|_| Errno::NXIO)?;
        let to = match whence {
            SEEK_DATA => SeekFrom::Data(from),
            SEEK_HOLE => SeekFrom::Hole(from),
            _ => return Err(Errno::INVAL),
        };
        let handle = self.handle(handle)?;
        let file = handle.file()?;
        // Nobody else goes by the descriptor's own position.
        let found = seek(&file.fd, to)?;
        let who = self.accounts.who(request.pid());
        self.accounts.did(who, &file.inode, since, Done::Other(Call::Seek));
        i64::try_from(found).map_err(|_| Errno::OVERFLOW)
    }

    /// Copies inside the file system below. Where each of the two is: the handle, and its place.
    pub(super) fn copy_range(
        &self,
        request: &Request,
        (from, mut at): (u64, u64),
        (to, mut put): (u64, u64),
        bytes: u64,
    ) -> Outcome<u32> {
        let since = Instant::now();
        let (from, to) = (self.handle(from)?, self.handle(to)?);
        let (from, to) = (from.file()?, to.file()?);
        // More than this the answer has no room for.
        let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(i32::MAX as usize);
        let places = [at, put];
        caller::prepare();
        let copied =
            rustix::fs::copy_file_range(&from.fd, Some(&mut at), &to.fd, Some(&mut put), most)?;
        let who = self.accounts.who(request.pid());
        let bytes = copied as u64;
        for (direction, file) in [from, to].into_iter().enumerate() {
            let piece = Piece {
                direction,
                kind: Transfer::Copied,
                from: places[direction],
                bytes,
                asked: bytes,
                is_direct: false,
            };
            self.accounts.did(who, &file.inode, since, Done::Moved(Call::Copy, piece));
        }
        Ok(copied as u32)
    }
}
