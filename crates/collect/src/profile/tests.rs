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

/// A profile with a ring of two requests behind its names.
fn with_ring() -> Vec<u64> {
    use weigh_schema::profile::control;
    let mut words = words();
    let ring = words.len() as u64;
    words.resize(words.len() + 2 * control::LENGTH, 0);
    words[head::BYTES] = 8 * words.len() as u64;
    (words[head::SECTIONS + 16], words[head::SECTIONS + 17]) = (ring, 2);
    words
}

#[test]
fn a_request_is_in_the_ring_before_it_is_counted_and_a_full_ring_is_told() {
    let mut profile = SharedProfile::map(memfd(&with_ring(), SealFlags::SHRINK)).unwrap();
    let set = ControlRequest::Set { key: "every".into(), value: "7.5".into() };
    assert_eq!(profile.send_control(&set), Ok(0));
    assert_eq!(profile.send_control(&ControlRequest::Publish), Ok(1));
    assert_eq!(profile.send_control(&ControlRequest::Publish), Err(ControlRefusal::Full(2)));
    let state = profile.control_state(9);
    assert_eq!((state.pid, state.sent, state.taken), (9, 2, 0));
    let long = ControlRequest::RegionsOff { pattern: "x".repeat(65) };
    assert_eq!(profile.send_control(&long), Err(ControlRefusal::TooLong));
}

#[test]
fn a_program_that_lies_of_what_it_took_gets_no_more_than_it_was_sent() {
    let mut words = with_ring();
    words[head::CONTROL_READ] = u64::MAX;
    words[head::CONTROL_WRITTEN] = 7;
    let mut profile = SharedProfile::map(memfd(&words, SealFlags::SHRINK)).unwrap();
    for number in 0..5 {
        assert_eq!(profile.send_control(&ControlRequest::Publish), Ok(number));
        assert_eq!(profile.control_state(1).taken, number + 1);
    }
}

#[test]
fn a_profile_without_a_ring_or_that_is_sealed_takes_none() {
    let mut profile = SharedProfile::map(memfd(&words(), SealFlags::SHRINK)).unwrap();
    assert_eq!(profile.send_control(&ControlRequest::Publish), Err(ControlRefusal::NoRoom));
    let sealed = memfd(&with_ring(), SealFlags::SHRINK | SealFlags::WRITE);
    let mut profile = SharedProfile::map(sealed).unwrap();
    assert_eq!(profile.send_control(&ControlRequest::Publish), Err(ControlRefusal::NoRoom));
}

/// A hole of a file in memory that is read through a mapping would be made, at the cost of who reads.
#[test]
fn what_a_program_has_not_written_is_not_made_by_reading() {
    use weigh_schema::profile::node;
    let mut words = words();
    let (first, nodes) = (words.len() as u64, 1000);
    words[head::BYTES] += 8 * (node::LENGTH * nodes) as u64;
    let bytes = words[head::BYTES];
    // Nodes are the third section.
    (words[head::SECTIONS + 4], words[head::SECTIONS + 5]) = (first, nodes as u64);
    words[head::USED + 2] = nodes as u64;
    let file = memfd(&words, SealFlags::empty());
    ftruncate(&file, bytes).unwrap();
    let written = |file: &OwnedFd| fstat(file).unwrap().st_blocks;
    let before = written(&file);
    assert!(8 * before < bytes.cast_signed() / 64, "{before} of {bytes}");
    let own = file.try_clone().unwrap();
    assert_eq!(why_sealed(file.try_clone().unwrap()), "the memfd may shrink");
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert_eq!(why_sealed(file.try_clone().unwrap()), "pages of the memfd may be taken away");
    fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).unwrap();
    let mut profile = SharedProfile::map_sealed(file).unwrap();
    let snapshot = profile.read_now();
    assert_eq!((snapshot.nodes.len(), snapshot.nodes.iter().flatten().count()), (nodes, 0));
    profile.read_end();
    assert_eq!(written(&own), before, "reading has made pages");
    // Nobody takes away what is there.
    use rustix::fs::{FallocateFlags, fallocate};
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&own, punch, 0, 4096), Err(rustix::io::Errno::PERM));
    assert_eq!(profile.send_control(&ControlRequest::Publish), Err(ControlRefusal::NoRoom));
}

fn why_sealed(file: OwnedFd) -> String {
    SharedProfile::map_sealed(file).err().map(|error| error.to_string()).unwrap_or_default()
}

/// What is written after the mapping was made is seen.
#[test]
fn a_page_that_comes_later_is_seen() {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let mut words = words();
    let places = 4096;
    let first = words.len();
    words[head::BYTES] += 8 * 16 * places as u64;
    let bytes = words[head::BYTES];
    let file = memfd(&words, SealFlags::empty());
    ftruncate(&file, bytes).unwrap();
    let (at, rights) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping, where the kernel likes.
    let map = unsafe { mmap(at, bytes as usize, rights, MapFlags::SHARED, &file, 0) }.unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::FUTURE_WRITE).unwrap();
    let mut mapping = mapping::ProfileMapping::of_present(file, bytes as usize / 8).unwrap();
    use weigh_parse::profile::Words as _;
    let last = first + 16 * places - 1;
    assert_eq!((mapping.load(head::PID), mapping.load(last)), (77, 0));
    // SAFETY: within the mapping, which stays until this process ends.
    unsafe { map.cast::<u64>().add(last).write_volatile(4711) };
    assert_eq!(mapping.load(last), 0);
    mapping.refresh();
    assert_eq!(mapping.load(last), 4711);
}
