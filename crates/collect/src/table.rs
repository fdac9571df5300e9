//! Reads all entries of one of the kernel side's hash tables.
//!
//! The kernel hands them over bucket by bucket: what comes or goes meanwhile is among them or is not, but
//! nothing is there twice, and nothing that stays is left out. Going from key to key begins again where a
//! key has gone. Refuses no table; what the kernel answers is passed on.

use std::os::fd::AsRawFd as _;

use libbpf_rs::MapCore;
use libbpf_rs::libbpf_sys as sys;

/// What is done, where it fails.
pub(crate) const READING: &str = "reading a table";

/// So many entries are asked for at once.
const BATCH: u32 = 256;

/// Keys, each with its value.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Every entry.
pub(crate) fn entries(map: &impl MapCore) -> Result<Entries, libbpf_rs::Error> {
    let mut found = Entries::new();
    each_entry(map, &mut |key, value| found.push((key.to_vec(), value.to_vec())))?;
    Ok(found)
}

/// Shows every entry, of which only a batch is held at once.
pub(crate) fn each_entry(
    map: &impl MapCore,
    show: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), libbpf_rs::Error> {
    let mut batch = Batch::of(map, BATCH);
    loop {
        match batch.next(map) {
            0 => batch.taken().for_each(|(key, value)| show(key, value)),
            libc::ENOENT => {
                batch.taken().for_each(|(key, value)| show(key, value));
                return Ok(());
            }
            libc::EINTR => {}
            // One bucket alone has more: the place stays the same.
            libc::ENOSPC if batch.room < 1 << 20 => batch.grow(),
            error => return Err(std::io::Error::from_raw_os_error(error).into()),
        }
    }
}

/// What was handed over last, and where to go on.
struct Batch {
    room: u32,
    key_size: usize,
    value_size: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    count: u32,
    place: Option<[u8; 8]>,
}

impl Batch {
    fn of(map: &impl MapCore, room: u32) -> Batch {
        let (key_size, value_size) = (map.key_size() as usize, map.value_size() as usize);
        let mut batch = Batch {
            room,
            key_size,
            value_size,
            keys: vec![],
            values: vec![],
            count: 0,
            place: None,
        };
        batch.make_room();
        batch
    }

    fn make_room(&mut self) {
        self.keys = vec![0; self.key_size * self.room as usize];
        self.values = vec![0; self.value_size * self.room as usize];
    }

    fn grow(&mut self) {
        self.room *= 2;
        self.make_room();
    }

    /// The kernel's answer: 0, `ENOENT` if these are the last, or what went wrong.
    fn next(&mut self, map: &impl MapCore) -> i32 {
        let mut next = [0u8; 8];
        let from = self.place.as_mut().map_or(std::ptr::null_mut(), |place| place.as_mut_ptr());
        self.count = self.room;
        // SAFETY: the descriptor is the map's; keys and values have room for `count` of them; a place
        // among the buckets is a number of 4 bytes; no options are given.
        let status = unsafe {
            sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                from.cast(),
                next.as_mut_ptr().cast(),
                self.keys.as_mut_ptr().cast(),
                self.values.as_mut_ptr().cast(),
                &raw mut self.count,
                std::ptr::null(),
            )
        };
        if status == 0 {
            self.place = Some(next);
        }
        -status
    }

    fn taken(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let keys = self.keys.chunks_exact(self.key_size);
        keys.zip(self.values.chunks_exact(self.value_size)).take(self.count as usize)
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::{MapFlags, MapHandle, MapType};

    use super::*;

    /// More than one batch, and chains of every length: a batch that is not full is not the last.
    #[test]
    fn every_entry_is_there_once() {
        // SAFETY: the question asks nothing of memory.
        if unsafe { libc::geteuid() } != 0 {
            println!("ignored: only root has tables in the kernel");
            return;
        }
        let options = sys::bpf_map_create_opts {
            sz: size_of::<sys::bpf_map_create_opts>() as _,
            map_flags: sys::BPF_F_NO_PREALLOC,
            ..Default::default()
        };
        for (room, filled) in [(10_000u32, 7001u32), (16, 16), (1, 0), (65_536, 60_000)] {
            let map = MapHandle::create(MapType::Hash, Some("entries"), 4, 8, room, &options);
            let map = map.unwrap();
            for key in 0..filled {
                let value = u64::from(key) * 3;
                map.update(&key.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY).unwrap();
            }
            let mut found = entries(&map).unwrap();
            found.sort_by_key(|(key, _)| u32::from_ne_bytes(key[..].try_into().unwrap()));
            let expected = (0..filled).map(|key| {
                (key.to_ne_bytes().to_vec(), (u64::from(key) * 3).to_ne_bytes().to_vec())
            });
            assert!(found.iter().cloned().eq(expected), "{} of {filled}", found.len());
        }
    }
}
