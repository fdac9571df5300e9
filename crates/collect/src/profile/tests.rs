use std::io::Write as _;
use std::os::fd::AsFd as _;

use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use weigh_schema::profile::{ProfileClock, layout, name};

use super::*;

/// A profile without anything but its head.
fn words() -> Vec<u64> {
    let mut words = vec![0; head::LENGTH + name::LENGTH * 2];
    (words[head::MAGIC], words[head::LAYOUT]) = (MAGIC, layout());
    words[head::BYTES] = 8 * words.len() as u64;
    (words[head::PID], words[head::CLOCK], words[head::EPOCH]) = (77, 1, 1);
    (words[head::SECTIONS], words[head::SECTIONS + 1]) = (head::LENGTH as u64, 2);
    words
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn memfd(words: &[u64], seals: SealFlags) -> OwnedFd {
    let file = memfd_create("weigh_profile", MemfdFlags::ALLOW_SEALING).unwrap();
    let mut writer = File::from(file.as_fd().try_clone_to_owned().unwrap());
    writer.write_all(&bytes(words)).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

fn why(file: OwnedFd) -> String {
    SharedProfile::map(file).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_publish_is_read_once() {
    let file = memfd(&words(), SealFlags::SHRINK);
    let mut writer = File::from(file.as_fd().try_clone_to_owned().unwrap());
    let mut profile = SharedProfile::map(file).unwrap();
    assert_eq!((profile.pid(), profile.publishes()), (77, 0));
    assert!(profile.read_published().is_none());
    use std::io::Seek as _;
    writer.seek(std::io::SeekFrom::Start(8 * head::EPOCH as u64)).unwrap();
    writer.write_all(&3u64.to_ne_bytes()).unwrap();
    assert_eq!(profile.read_published().map(|snapshot| snapshot.epoch), Some(3));
    assert!(profile.read_published().is_none());
    assert_eq!(profile.publishes(), 2);
}

#[test]
fn what_could_fault_or_lies_is_refused() {
    assert_eq!(why(memfd(&words(), SealFlags::SHRINK)), "");
    assert_eq!(why(memfd(&words(), SealFlags::GROW)), "the memfd may shrink");
    assert_eq!(why(tempfile::tempfile().unwrap().into()), "the descriptor is no memfd");
    assert_eq!(why(memfd(&words()[..9], SealFlags::SHRINK)), ProfileRefusal::Size.to_string());
    let mut longer = words();
    longer.push(0);
    assert_eq!(why(memfd(&longer, SealFlags::SHRINK)), ProfileRefusal::Size.to_string());
    let large = memfd_create("large", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&large, MOST_BYTES + 8).unwrap();
    fcntl_add_seals(&large, SealFlags::SHRINK).unwrap();
    assert_eq!(why(large), ProfileRefusal::Size.to_string());
    let mut other = words();
    other[head::LAYOUT] += 1;
    assert_eq!(why(memfd(&other, SealFlags::SHRINK)), ProfileRefusal::OtherLayout.to_string());
}

#[test]
fn a_file_is_read_like_memory() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes(&words())).unwrap();
    assert!(is_profile(file.path()));
    assert_eq!(read_file(file.path()).unwrap().pid, 77);
    file.write_all(b"odd").unwrap();
    assert!(read_file(file.path()).is_err());
    assert!(!is_profile(Path::new("/dev/null")));
}

#[test]
fn both_clocks_go_on_alike() {
    for clock in [ProfileClock::Monotonic, ProfileClock::Counter] {
        let first = clock_pair(clock);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = clock_pair(clock);
        assert!(second.ticks > first.ticks && second.ns > first.ns + 1_900_000);
    }
}
