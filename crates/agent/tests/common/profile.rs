//! A profile as a program hands it over.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use weigh_schema::profile::{MAGIC, head, layout, name};

/// A profile that says that it has published so often, and nothing else.
pub fn profile(publishes: u64) -> OwnedFd {
    let mut words = vec![0u64; head::LENGTH + name::LENGTH * 2];
    (words[head::MAGIC], words[head::LAYOUT]) = (MAGIC, layout());
    words[head::BYTES] = 8 * words.len() as u64;
    (words[head::PID], words[head::CLOCK], words[head::EPOCH]) = (77, 1, publishes + 1);
    (words[head::SECTIONS], words[head::SECTIONS + 1]) = (head::LENGTH as u64, 2);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let file = memfd_create("weigh_profile", MemfdFlags::ALLOW_SEALING).expect("memory");
    let copy = file.try_clone().expect("a descriptor");
    File::from(copy).write_all(&bytes).expect("memory");
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::FUTURE_WRITE).expect("seals");
    file
}
