//! Makes rings, by a process that may, before programs write into them; readers are given their descriptors.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapHandle, MapType};
use weigh_schema::ring::{Layout, MAGIC, word};

use super::error::TraceError;
use super::maps::{made, options};
use super::memory::{Access, Memory};
use super::reader::ReaderFds;

/// Where such numbers come from.
const RANDOM: &str = "/dev/urandom";

/// Rings with all that belongs to them.
pub struct Buffer {
    rings: MapHandle,
    consumers: MapHandle,
    doorbell: MapHandle,
    key: u64,
}

impl Buffer {
    /// Makes rings. From then on only programs can write into them.
    pub fn make(layout: Layout) -> Result<Buffer, TraceError> {
        let failed = made("a ring", layout.bytes);
        let array = |name, bytes: usize, count: usize| {
            let flags = options(sys::BPF_F_MMAPABLE, 0);
            MapHandle::create(MapType::Array, Some(name), 4, bytes as u32, count as u32, &flags)
        };
        let rings = array("weigh_rings", layout.element(), layout.rings).map_err(&failed)?;
        let key = key().map_err(made("the key of a ring", size_of::<u64>()))?;
        describe(rings.as_fd(), layout, key).map_err(made("a ring", layout.bytes))?;
        let consumers =
            array("weigh_read", layout.consumers(), 1).map_err(made("positions", layout.rings))?;
        let page = rustix::param::page_size();
        let doorbell = MapHandle::create(
            MapType::RingBuf,
            Some("weigh_bell"),
            0,
            0,
            page as u32,
            &options(0, 0),
        )
        .map_err(made("a ring", page))?;
        Ok(Buffer { rings, consumers, doorbell, key })
    }

    /// What its stamps are made with.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The descriptors that programs name: rings, how far each has been read, doorbell.
    pub fn descriptors(&self) -> [i32; 3] {
        [&self.rings, &self.consumers, &self.doorbell].map(|map| map.as_fd().as_raw_fd())
    }

    /// The array of rings, for those who only read: nobody but programs can write there.
    pub fn rings(&self) -> BorrowedFd<'_> {
        self.rings.as_fd()
    }

    /// Descriptors for the reader.
    pub fn for_reader(&self) -> io::Result<ReaderFds> {
        Ok(ReaderFds {
            rings: self.rings.as_fd().try_clone_to_owned()?,
            consumers: self.consumers.as_fd().try_clone_to_owned()?,
            doorbell: self.doorbell.as_fd().try_clone_to_owned()?,
        })
    }
}

/// A number that nobody can guess.
fn key() -> io::Result<u64> {
    let mut bytes = [0; size_of::<u64>()];
    io::Read::read_exact(&mut std::fs::File::open(RANDOM)?, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Writes the first lines; then nobody can write there any more but programs.
fn describe(array: BorrowedFd<'_>, layout: Layout, key: u64) -> io::Result<()> {
    let page = rustix::param::page_size();
    for ring in 0..layout.rings {
        // To map all of a large ring takes as long as to read it.
        let line = layout.word(ring, 0);
        let first = line / page * page;
        let memory = Memory::map(array, page, first as u64, Access::Write)?;
        let words = [
            (word::RINGS, layout.rings as u64),
            (word::BYTES, layout.bytes as u64),
            (word::KEY, key),
            (word::MAGIC, MAGIC),
        ];
        words.into_iter().for_each(|(word, value)| memory.set(line - first + word, value));
    }
    // SAFETY: the map is open.
    match unsafe { sys::bpf_map_freeze(array.as_raw_fd()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
