//! Profiles of regions that programs share: mapped, checked, and read without waiting for the program; or read from a
//! file ($WEIGH_PROFILE).
//!
//! Reads the words of a memfd that a program has handed over; emits `ProfileSnapshot`s. Refuses what is no memfd, what
//! may shrink, and what is not as long as it says; of a program that is not trusted what may lose pages, too.

mod control;
mod mapping;
mod present;
mod ticks;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat, fstatfs};
use weigh_parse::profile::{MOST_BYTES, ProfileReader, ReadAt};
use weigh_schema::control::{ControlRequest, ControlledProcess};
use weigh_schema::profile::{MAGIC, SECTIONS, head};
use weigh_schema::region::snapshot::{ClockPair, ProfileSnapshot};

pub use control::ControlRefusal;
pub use ticks::clock_pair;
pub use weigh_parse::profile::ProfileRefusal;

use crate::procfs;
use control::ControlRing;
use mapping::ProfileMapping;

/// What a memfd is on, if it has no huge pages: those may be missing when they are touched.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A publish is tried to be read so often.
const TRIES: usize = 4;

/// Why a profile is not read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The descriptor is not one that another process cannot make faults with.
    #[error("{0}")]
    NotShared(&'static str),
    /// What it holds cannot be.
    #[error("{0}")]
    Refused(#[from] ProfileRefusal),
    /// The kernel refuses.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl From<rustix::io::Errno> for ProfileError {
    fn from(error: rustix::io::Errno) -> ProfileError {
        ProfileError::System(error.into())
    }
}

/// A profile that its program writes to while it is read.
pub struct SharedProfile {
    mapping: ProfileMapping,
    reader: ProfileReader,
    /// The publish that was read last; 1: none yet.
    published: u64,
    inode: u64,
    control: ControlRing,
}

impl SharedProfile {
    /// Maps the profile behind a descriptor.
    pub fn map(file: OwnedFd) -> Result<SharedProfile, ProfileError> {
        let words = check(&file, SealFlags::SHRINK)?;
        let inode = fstat(&file)?.st_ino;
        SharedProfile::new(ProfileMapping::new(&file, words)?, inode)
    }

    /// The same of a program that is not trusted: to read it never makes memory that this process would pay for. Nothing is
    /// sent to it.
    pub fn map_sealed(file: OwnedFd) -> Result<SharedProfile, ProfileError> {
        let words = check(&file, SealFlags::SHRINK | SealFlags::FUTURE_WRITE)?;
        let inode = fstat(&file)?.st_ino;
        SharedProfile::new(ProfileMapping::of_present(file, words)?, inode)
    }

    fn new(mapping: ProfileMapping, inode: u64) -> Result<SharedProfile, ProfileError> {
        let reader = ProfileReader::new(&mapping)?;
        let control = ControlRing::default();
        Ok(SharedProfile { mapping, reader, published: 1, inode, control })
    }

    /// Keeps nothing that was read: names are read again the next time.
    pub fn forget_names(&mut self) {
        self.reader.forget_names();
    }

    /// When it was made, by its own clock and by CLOCK_MONOTONIC.
    pub fn first(&self) -> ClockPair {
        self.reader.head().first
    }

    /// The process, as it sees itself.
    pub fn pid(&self) -> u32 {
        self.reader.head().pid
    }

    /// Whether its program has ended in order.
    pub fn has_ended(&self) -> bool {
        ProfileReader::has_ended(&self.mapping)
    }

    /// Whether a process has it in its memory, as it has until it ends or executes a program; none if that cannot be seen.
    pub fn is_mapped_by(&self, pid: u32) -> Option<bool> {
        let maps = procfs::read_of(pid, "maps").ok().filter(|maps| !maps.is_empty())?;
        let is_it = |line: &str| {
            let mut fields = line.split_ascii_whitespace().skip(4);
            let inode = fields.next().and_then(|inode| inode.parse().ok());
            inode == Some(self.inode)
                && fields.next().is_some_and(|name| name.starts_with("/memfd:"))
        };
        Some(String::from_utf8_lossy(&maps).lines().any(is_it))
    }

    /// How often the program has published.
    pub fn publishes(&self) -> u64 {
        ProfileReader::epoch(&self.mapping).saturating_sub(1)
    }

    /// Sends the program a request, which it takes when it polls: the request's number, from 0.
    ///
    /// # Errors
    /// If it does not fit, or finds the ring full.
    pub fn send_control(&mut self, request: &ControlRequest) -> Result<u64, ControlRefusal> {
        // The section of control is the last one.
        let ring = self.reader.head().sections[SECTIONS.len() - 1];
        self.control.send(&self.mapping, ring, request)
    }

    /// How the process stands, under this number.
    pub fn control_state(&self, pid: u32) -> ControlledProcess {
        let (sent, taken) = (self.control.sent(), self.control.taken(&self.mapping));
        ControlledProcess { pid, sent, taken, publishes: self.publishes(), refused: None }
    }

    /// As it stood at the last publish; none if there was none since the last time, or if the program publishes faster than
    /// this can read.
    pub fn read_published(&mut self) -> Option<ProfileSnapshot> {
        self.mapping.refresh();
        (0..TRIES).find_map(|_| self.try_published())
    }

    fn try_published(&mut self) -> Option<ProfileSnapshot> {
        let epoch = ProfileReader::epoch(&self.mapping);
        if epoch <= self.published {
            return None;
        }
        // What a thread has begun to write in the epoch before is seen to be in work from here on.
        mapping::barrier_everywhere();
        let snapshot = self.reader.read(&self.mapping, ReadAt::Publish(epoch));
        let is_whole = snapshot.lost.overtaken == 0;
        self.published = if is_whole { epoch } else { self.published };
        is_whole.then_some(snapshot)
    }

    /// As it is.
    pub fn read_now(&mut self) -> ProfileSnapshot {
        self.mapping.refresh();
        self.reader.read(&self.mapping, ReadAt::Now)
    }

    /// Phases and events since the last time, without anything else; none if there are none.
    pub fn read_rings(&mut self) -> Option<ProfileSnapshot> {
        self.reader.read_rings(&self.mapping)
    }

    /// As it is, for the last time.
    pub fn read_end(&mut self) -> ProfileSnapshot {
        self.mapping.refresh();
        self.reader.read(&self.mapping, ReadAt::End)
    }
}

/// How many words a profile's file has, if it is one that cannot make faults and has these seals.
fn check(file: &OwnedFd, wanted: SealFlags) -> Result<usize, ProfileError> {
    let not_shared = |why| Err(ProfileError::NotShared(why));
    let Ok(seals) = fcntl_get_seals(file) else {
        return not_shared("the descriptor is no memfd");
    };
    if !seals.contains(SealFlags::SHRINK) {
        return not_shared("the memfd may shrink");
    }
    if !seals.contains(wanted) {
        return not_shared("pages of the memfd may be taken away");
    }
    if fstatfs(file)?.f_type as u64 != TMPFS_MAGIC {
        return not_shared("the memfd has huge pages");
    }
    let bytes = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    if bytes > MOST_BYTES || bytes % 8 != 0 || bytes < 8 * head::LENGTH as u64 {
        return Err(ProfileRefusal::Size.into());
    }
    Ok(bytes as usize / 8)
}

/// Whether a file begins as a profile does.
pub fn is_profile(path: &Path) -> bool {
    let mut bytes = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.is_ok() && u64::from_ne_bytes(bytes) == MAGIC
}

/// Reads the profile that a program has kept in a file.
pub fn read_file(path: &Path) -> Result<ProfileSnapshot, ProfileError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
    if bytes.len() % 8 != 0 {
        return Err(ProfileRefusal::Size.into());
    }
    Ok(ProfileReader::new(&words)?.read(&words, ReadAt::End))
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests;
